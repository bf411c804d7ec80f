//! Connections between election ports (upstream `QuorumCnxManager`).
//!
//! One connection serves a pair of members: the larger id keeps the one it opened, the smaller one is hung up on and
//! dialled back. For each member only the newest notification matters, so its queue is one deep (a bound of
//! [`zk_jute::election::MAX_FRAME_LEN`] bytes for each of at most [`MAX_PEERS`] members), and the last one sent is sent again on a new
//! connection, because the old one may have died with it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tracing::{debug, info, warn};
use zk_core::Input;
use zk_jute::election::{
    InitialMessage, Notification, PROTOCOL_VERSION_V1, PROTOCOL_VERSION_V2, frame, try_unframe,
};
use zk_jute::{ServerId, Writer};

use super::dial;
use crate::config::{Ensemble, HostPort, NetConfig, server_line};
use crate::driver::Handle;

/// Members this side keeps track of: 255 ids, and as many observers without one.
const MAX_PEERS: usize = 512;
/// How long a connection may take to say who it is.
const INITIAL_MESSAGE_LIMIT: Duration = Duration::from_secs(10);
/// The id that an observer without one sends (upstream `QuorumPeer.OBSERVER_ID`).
const ANONYMOUS_OBSERVER: i64 = i64::MAX;

/// The election port of this member.
#[derive(Debug)]
pub struct ElectionPort {
    my_id: ServerId,
    addresses: HashMap<ServerId, Vec<HostPort>>,
    /// What this member sends first on a connection it opens.
    hello: Bytes,
    connect_timeout: Duration,
    keep_alive: bool,
    driver: Handle,
    peers: Mutex<HashMap<ServerId, Arc<Peer>>>,
    anonymous: AtomicI64,
    runtime: tokio::runtime::Handle,
}

/// One other member.
#[derive(Debug, Default)]
struct Peer {
    state: Mutex<PeerState>,
    /// Wakes the writer of the current connection.
    wake: Notify,
    /// Number of the newest connection, which replaces every older one.
    generation: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct PeerState {
    pending: Option<Bytes>,
    last_sent: Option<Bytes>,
    /// Number of the connection in use.
    connected: Option<u64>,
    dialling: bool,
}

impl ElectionPort {
    /// Prepares the port; [`Self::serve`] listens.
    pub fn new(
        my_id: ServerId,
        ensemble: &Ensemble,
        net: &NetConfig,
        driver: Handle,
        runtime: tokio::runtime::Handle,
    ) -> Arc<Self> {
        let addresses: HashMap<_, _> =
            ensemble.servers.iter().map(|(id, line)| (*id, line.election.clone())).collect();
        let mine = addresses.get(&my_id).cloned().unwrap_or_default();
        let (protocol_version, sent) = match net.multi_address {
            true => (PROTOCOL_VERSION_V2, mine.len()),
            false => (PROTOCOL_VERSION_V1, 1),
        };
        let texts = mine.iter().take(sent).map(ToString::to_string).collect();
        let hello = InitialMessage { protocol_version, sid: my_id, addresses: texts };
        Arc::new(Self {
            my_id,
            addresses,
            hello: Writer::build(|w| hello.encode(w)),
            connect_timeout: net.election_connect_timeout,
            keep_alive: net.keep_alive,
            driver,
            peers: Mutex::default(),
            anonymous: AtomicI64::new(-1),
            runtime,
        })
    }

    /// Accepts connections for ever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let port = self.clone();
                    tokio::spawn(async move { port.accepted(stream).await });
                }
                Err(error) => {
                    warn!("election port: accept failed: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Sends `notification` to `to`, in place of any that waits; opens a connection if there is none.
    pub fn send(self: &Arc<Self>, to: ServerId, notification: &Notification) {
        if to == self.my_id {
            return;
        }
        let mut bytes = Vec::new();
        frame(&Writer::build(|w| notification.encode(w)), &mut bytes);
        let Some(peer) = self.peer(to) else { return };
        let dial = {
            let mut state = peer.state.lock();
            state.pending = Some(bytes.into());
            let dial = state.connected.is_none() && !state.dialling;
            state.dialling |= dial;
            dial
        };
        peer.wake.notify_one();
        if dial {
            let addresses = self.addresses.get(&to).cloned().unwrap_or_default();
            self.spawn_dial(to, peer, addresses);
        }
    }

    fn peer(&self, id: ServerId) -> Option<Arc<Peer>> {
        let mut peers = self.peers.lock();
        if peers.len() >= MAX_PEERS && !peers.contains_key(&id) {
            warn!("election port: more than {MAX_PEERS} members, {id} is ignored");
            return None;
        }
        Some(peers.entry(id).or_default().clone())
    }

    fn spawn_dial(self: &Arc<Self>, to: ServerId, peer: Arc<Peer>, addresses: Vec<HostPort>) {
        let port = self.clone();
        self.runtime.spawn(async move {
            let opened = port.open(&addresses).await;
            peer.state.lock().dialling = false;
            match opened {
                // The larger id dials back.
                Ok(_) if to > port.my_id => debug!("election port: server {to} will dial back"),
                Ok(stream) => port.run(to, peer, stream, BytesMut::new()).await,
                Err(error) => debug!("election port: no connection to server {to}: {error}"),
            }
        });
    }

    /// Connects and says who this is, in one segment: upstream reads the address with a single `read`.
    async fn open(&self, addresses: &[HostPort]) -> io::Result<TcpStream> {
        let mut stream = dial::connect(addresses, self.connect_timeout, self.keep_alive).await?;
        stream.write_all(&self.hello).await?;
        Ok(stream)
    }

    async fn accepted(self: Arc<Self>, mut stream: TcpStream) {
        let from = stream.peer_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string());
        let mut received = BytesMut::with_capacity(256);
        let message = match timeout(INITIAL_MESSAGE_LIMIT, read_initial(&mut stream, &mut received)).await {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => return debug!("election port: {from}: {error}"),
            Err(_) => return debug!("election port: {from} did not say who it is"),
        };
        let sid = match message.sid {
            ServerId(ANONYMOUS_OBSERVER) => ServerId(self.anonymous.fetch_sub(1, Ordering::Relaxed)),
            sid => sid,
        };
        if sid == self.my_id {
            return warn!(
                "election port: {from} says it is server {sid}, which is this one: two servers share an id"
            );
        }
        let Some(peer) = self.peer(sid) else { return };
        if sid < self.my_id && sid.0 >= 0 {
            return self.hang_up_and_dial_back(sid, peer, stream, message).await;
        }
        info!("election port: server {sid} connected from {from}");
        if let Err(error) = stream.set_nodelay(true) {
            debug!("election port: {from}: {error}");
        }
        self.run(sid, peer, stream, received).await;
    }

    async fn hang_up_and_dial_back(
        self: Arc<Self>,
        sid: ServerId,
        peer: Arc<Peer>,
        stream: TcpStream,
        message: InitialMessage,
    ) {
        drop(stream);
        let mut addresses: Vec<HostPort> =
            message.addresses.iter().filter_map(|text| server_line::parse_host_port(text).ok()).collect();
        addresses.retain(|address| !address.is_wildcard());
        addresses.extend(self.addresses.get(&sid).into_iter().flatten().cloned());
        let dial = {
            let mut state = peer.state.lock();
            // The other side has given its old connection up, or it would not have opened another.
            state.connected = None;
            peer.generation.send_modify(|generation| *generation += 1);
            let dial = !state.dialling;
            state.dialling |= dial;
            dial
        };
        if dial {
            self.spawn_dial(sid, peer, addresses);
        }
    }

    /// Serves the one connection to `sid`, in place of any other.
    async fn run(self: Arc<Self>, sid: ServerId, peer: Arc<Peer>, stream: TcpStream, received: BytesMut) {
        let mut newest = peer.generation.subscribe();
        let generation = {
            let mut state = peer.state.lock();
            peer.generation.send_modify(|generation| *generation += 1);
            let generation = *peer.generation.borrow();
            state.connected = Some(generation);
            if state.pending.is_none() {
                state.pending = state.last_sent.clone();
            }
            generation
        };
        peer.wake.notify_one();
        let (read, write) = stream.into_split();
        let ended = tokio::select! {
            ended = self.read_loop(sid, read, received) => ended,
            ended = write_loop(&peer, generation, write) => ended,
            // Whatever the two are at: their peer need not read, nor close.
            _ = newest.wait_for(|newest| *newest != generation) => Err(replaced()),
        };
        if let Err(error) = ended {
            debug!("election port: connection to server {sid} ended: {error}");
        }
        let mut state = peer.state.lock();
        if state.connected == Some(generation) {
            state.connected = None;
            drop(state);
            if !self.addresses.contains_key(&sid) {
                self.peers.lock().remove(&sid);
            }
        }
    }

    async fn read_loop(
        &self,
        sid: ServerId,
        mut read: OwnedReadHalf,
        mut received: BytesMut,
    ) -> io::Result<()> {
        loop {
            while let Some((body, len)) = try_unframe(&received).map_err(invalid)? {
                received.advance(len);
                match Notification::decode(body) {
                    Ok(notification) => self.driver.input(Input::Vote { from: sid, notification }),
                    Err(error) => warn!("election port: a message of server {sid} is ignored: {error}"),
                }
            }
            // Bounded by the frame limit: try_unframe refuses longer frames before their bytes are read.
            if read.read_buf(&mut received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

async fn write_loop(peer: &Peer, generation: u64, mut write: OwnedWriteHalf) -> io::Result<()> {
    loop {
        let next = {
            let mut state = peer.state.lock();
            if state.connected != Some(generation) {
                return Err(replaced());
            }
            let next = state.pending.take();
            if next.is_some() {
                state.last_sent.clone_from(&next);
            }
            next
        };
        match next {
            Some(bytes) => write.write_all(&bytes).await?,
            None => peer.wake.notified().await,
        }
    }
}

fn replaced() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "replaced by another connection")
}

async fn read_initial(stream: &mut TcpStream, received: &mut BytesMut) -> io::Result<InitialMessage> {
    loop {
        if let Some((message, len)) = InitialMessage::try_decode(received).map_err(invalid)? {
            received.advance(len);
            return Ok(message);
        }
        if stream.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn invalid(error: zk_jute::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
