//! The port for clients (upstream `NIOServerCnxnFactory`): one task a connection, which moves bytes between the
//! socket and a sans-io [`ClientConn`].
//!
//! Reads are answered right here from the shared tree. A round of work parses all that was received, hands the core
//! what concerns it in one message, and writes all answers at once.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tracing::{debug, info, warn};
use zk_core::client::{ClientConfig, ClientConn, CloseReason, ConnInfo, Inbox, Latencies};
use zk_core::effect::ClientMessage;
use zk_core::{Input, Shared};

use super::connections::{Admission, Connections};
use crate::admin::Admin;
use crate::admin::words::{self, First};
use crate::clock::Clock;
use crate::driver::{Handle, Message};
use crate::metrics::{Metrics, Summary};

/// Bytes read at once.
const READ_CHUNK: usize = 64 << 10;
/// How long a closing connection may take to send its last bytes.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// How long a fresh connection may take to send its first four bytes (upstream `nio.sessionlessCnxnTimeout`).
const FIRST_BYTES_LIMIT: Duration = Duration::from_secs(10);

/// How long a four-letter word may take, its last bytes to come and its answer to leave.
const WORD_LIMIT: Duration = Duration::from_secs(30);

/// Where the driver leaves messages for one connection.
#[derive(Debug)]
pub struct Mailbox {
    inbox: Arc<Inbox>,
    notify: Notify,
}

impl Mailbox {
    /// Adds a message, visible at once; true if [`Self::wake`] must be called.
    pub fn push(&self, message: ClientMessage) -> bool {
        self.inbox.push(message)
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        self.notify.notify_one();
    }
}

/// The client port. One for the process.
#[derive(Debug)]
pub struct ClientPort {
    pub config: Arc<ClientConfig>,
    pub shared: Arc<Shared>,
    pub driver: Handle,
    pub connections: Arc<Connections>,
    pub metrics: Arc<Metrics>,
    pub admin: Arc<Admin>,
    pub clock: Clock,
    /// Requests in flight at which connections that have any stop reading (`globalOutstandingLimit`, divided among the
    /// other members of a quorum as upstream divides it).
    pub outstanding_limit: usize,
}

impl ClientPort {
    /// Accepts clients for ever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, remote)) => match self.connections.admit(canonical(remote)) {
                    Ok(admission) => {
                        tokio::spawn(self.clone().connection(stream, admission));
                    }
                    Err(why) => {
                        self.metrics.connection_rejected.add(1);
                        warn!("client port: {remote} is refused: {why}");
                    }
                },
                Err(error) => {
                    // Out of file descriptors, most likely: others must end first.
                    warn!("client port: accept failed: {error}");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn connection(self: Arc<Self>, mut stream: TcpStream, admission: Admission) {
        let remote = admission.view.remote;
        let mut input = BytesMut::with_capacity(READ_CHUNK);
        let first = match timeout(FIRST_BYTES_LIMIT, first_bytes(&mut stream, &mut input)).await {
            Ok(Ok(first)) => first,
            Ok(Err(error)) => return debug!("client {remote}: {error}"),
            Err(_) => return debug!("client {remote}: no data within {FIRST_BYTES_LIMIT:?}"),
        };
        match words::classify(first) {
            First::TelnetClose => {}
            First::Word(word) => {
                self.metrics.packets_received.add(1);
                debug!("client {remote}: {word}");
                match timeout(WORD_LIMIT, self.word(&mut stream, input, word)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => debug!("client {remote}: {word}: {error}"),
                    Err(_) => debug!("client {remote}: {word}: not done within {WORD_LIMIT:?}"),
                }
            }
            First::Frame => self.session(stream, admission, input).await,
        }
    }

    async fn word(&self, stream: &mut TcpStream, mut input: BytesMut, word: &'static str) -> io::Result<()> {
        let mut mask = 0;
        if word == "stmk" {
            while input.len() < 12 {
                if stream.read_buf(&mut input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            input.advance(4);
            mask = input.get_i64();
        }
        let answer = words::answer(&self.admin, word, mask).await;
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    }

    async fn session(&self, stream: TcpStream, admission: Admission, input: BytesMut) {
        if let Err(error) = stream.set_nodelay(true) {
            return debug!("client {}: {error}", admission.view.remote);
        }
        let now = self.clock.now();
        let ip = admission.view.remote.ip();
        let conn = ClientConn::new(admission.conn, ip, self.config.clone(), self.shared.clone(), now);
        let mailbox = Arc::new(Mailbox { inbox: conn.inbox(), notify: Notify::new() });
        let published = conn.info();
        let mut session = Session {
            port: self,
            stream,
            conn,
            mailbox,
            admission,
            input,
            registered: false,
            requested: false,
            published,
        };
        session.run().await;
        session.finish().await;
    }
}

/// A socket of both families shows IPv4 clients as mapped addresses; ACLs and limits mean the real ones.
fn canonical(remote: SocketAddr) -> SocketAddr {
    SocketAddr::new(remote.ip().to_canonical(), remote.port())
}

async fn first_bytes(stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<[u8; 4]> {
    loop {
        if let Some(first) = input.first_chunk() {
            return Ok(*first);
        }
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// One connection that speaks the client protocol.
struct Session<'a> {
    port: &'a ClientPort,
    stream: TcpStream,
    conn: ClientConn,
    mailbox: Arc<Mailbox>,
    admission: Admission,
    /// Received and not parsed. Bound: one frame of `jute.maxbuffer` and one chunk, because nothing is read while a
    /// complete frame waits.
    input: BytesMut,
    /// The driver knows the mailbox.
    registered: bool,
    /// The request to connect is counted (upstream `ZooKeeperServer.processConnectRequest`).
    requested: bool,
    published: ConnInfo,
}

impl Session<'_> {
    async fn run(&mut self) {
        let mut deadline = std::pin::pin!(sleep(Duration::ZERO));
        loop {
            self.work();
            if self.conn.closing().is_some() {
                return;
            }
            if deadline.is_elapsed() {
                self.arm(deadline.as_mut());
            }
            let writing = !self.conn.output().is_empty();
            let reading = self.conn.wants_input() && !self.throttled();
            tokio::select! {
                ready = self.stream.readable(), if reading => match ready {
                    Ok(()) => self.receive(),
                    Err(error) => self.gone(&error),
                },
                ready = self.stream.writable(), if writing => {
                    if let Err(error) = ready {
                        self.gone(&error);
                    }
                }
                () = self.mailbox.notify.notified() => {}
                () = deadline.as_mut() => self.conn.on_tick(self.port.clock.now()),
            }
        }
    }

    /// Goes as far as possible without waiting.
    fn work(&mut self) {
        loop {
            let now = self.port.clock.now();
            if self.admission.view.take_reset() {
                self.conn.reset_stats(now);
            }
            self.conn.drive(now, &mut self.input);
            self.pass_commands();
            self.publish();
            let was_full = self.conn.output_full();
            if !self.send() {
                return;
            }
            // Answers that are sent make room. Requests already parsed and messages of the core may have waited for it
            // as well as what is in `input`, and nothing else would wake them: the socket may stay silent, and the core
            // wakes a connection only if its inbox was empty.
            if !was_full && !self.input_may_go_on() {
                return;
            }
        }
    }

    /// True if another round would find a request in `input`.
    fn input_may_go_on(&self) -> bool {
        self.conn.wants_input() && !self.frame_is_incomplete()
    }

    /// True if the first frame is not all there, so that another round would find nothing to do.
    fn frame_is_incomplete(&self) -> bool {
        let Some(length) = self.input.first_chunk::<4>() else { return true };
        usize::try_from(i32::from_be_bytes(*length)).is_ok_and(|len| self.input.len() < 4 + len)
    }

    /// Hands the core what concerns it, in one message.
    fn pass_commands(&mut self) {
        let conn = self.conn.id();
        let inputs: Vec<Input> =
            self.conn.drain_commands().map(|command| Input::Client { conn, command }).collect();
        if inputs.is_empty() {
            return;
        }
        if !self.registered {
            self.registered = true;
            self.port.driver.send(Message::ClientOpened { conn, mailbox: self.mailbox.clone() });
        }
        self.port.driver.send(Message::Inputs(inputs));
    }

    /// Sends what there is; true if anything was sent.
    fn send(&mut self) -> bool {
        let mut sent_any = false;
        while !self.conn.output().is_empty() {
            match self.stream.try_write(self.conn.output()) {
                Ok(sent) => {
                    self.port.metrics.response_bytes.add(sent as u64);
                    self.conn.consume_output(sent);
                    sent_any = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.gone(&error);
                    break;
                }
            }
        }
        sent_any
    }

    fn receive(&mut self) {
        self.input.reserve(READ_CHUNK);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => self.conn.close(CloseReason::PeerClosed("end of stream".to_owned())),
            Ok(bytes) => self.port.metrics.bytes_received.add(bytes as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.gone(&error),
        }
    }

    fn gone(&mut self, error: &io::Error) {
        self.conn.close(CloseReason::PeerClosed(error.to_string()));
    }

    /// Upstream's `shouldThrottle`: too much is in flight in all, and this connection has a part in it. Its next answer
    /// wakes it.
    fn throttled(&self) -> bool {
        self.published.queued > 0 && self.port.connections.outstanding() > self.port.outstanding_limit
    }

    fn arm(&self, deadline: std::pin::Pin<&mut Sleep>) {
        let now = self.port.clock.now().mono;
        let wait = self.conn.next_deadline().map_or(FIRST_BYTES_LIMIT, |deadline| deadline.until(now));
        deadline.reset(Instant::now() + wait.max(Duration::from_millis(1)));
    }

    /// Counts what was done since the last time, and shows it.
    fn publish(&mut self) {
        let info = self.conn.info();
        let (before, metrics) = (&self.published, &self.port.metrics);
        if !self.requested && info.packets_received > 0 {
            self.requested = true;
            metrics.connection_requests.add(1);
        }
        metrics.packets_received.add(info.packets_received.saturating_sub(before.packets_received));
        metrics.packets_sent.add(info.packets_sent.saturating_sub(before.packets_sent));
        let replies = info.replies.saturating_sub(before.replies);
        if replies > 0 {
            record(&[&metrics.latency, &metrics.read_latency], before.reads, info.reads);
            record(&[&metrics.latency, &metrics.update_latency], before.updates, info.updates);
            metrics.client_response.set(self.conn.output().len() / usize::try_from(replies).unwrap_or(1));
        }
        self.admission.set_outstanding(info.queued);
        if info != *before {
            self.admission.view.publish(info.clone());
            self.published = info;
        }
    }

    /// Sends the last answers, tells the core, and says why.
    async fn finish(&mut self) {
        self.pass_commands();
        let output = self.conn.output().to_vec();
        if !output.is_empty() {
            drop(timeout(CLOSE_LIMIT, self.stream.write_all(&output)).await);
        }
        drop(timeout(CLOSE_LIMIT, self.stream.shutdown()).await);
        if matches!(self.conn.closing(), Some(CloseReason::PeerClosed(_))) {
            // As upstream's `NIOServerCnxn` counts it: the client went without a word.
            self.port.metrics.connection_drops.add(1);
        }
        let remote = self.admission.view.remote;
        match self.conn.closing() {
            Some(
                reason @ (CloseReason::PeerClosed(_) | CloseReason::SessionClosed | CloseReason::ByServer),
            ) => {
                debug!("client {remote}: closed: {reason}");
            }
            Some(reason) => info!("client {remote}: closed: {reason}"),
            None => {}
        }
    }
}

/// Counts what came since `before`. One round answers many requests, which are counted as so many of their mean: the sum
/// and the extremes are right, and so is each value where a round has one answer.
fn record(summaries: &[&Summary], before: Latencies, after: Latencies) {
    let count = after.count.saturating_sub(before.count);
    let Some(mean) = after.total.saturating_sub(before.total).checked_div(count) else { return };
    for summary in summaries {
        summary.record_many(mean, count);
        if after.max > before.max {
            summary.raise_max(after.max);
        }
    }
}
