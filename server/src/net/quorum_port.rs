//! Links between learners and their leader or observer master (upstream `LearnerCnxAcceptor`, `Learner.connectToLeader`).
//!
//! A link is two tasks: this reader, and the writer of [`super::link`]. The reader stops when the driver is
//! behind by more than the link's budget, which TCP then tells the sender.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};
use zk_core::effect::Port;
use zk_core::input::{LinkEvent, LinkId};
use zk_core::tree::TreeBuilder;
use zk_jute::image::SnapshotSink;
use zk_jute::quorum::{PacketType, QuorumPacket, SNAP_SIGNATURE};
use zk_jute::snapshot::{SnapshotDecoder, SnapshotPiece, SnapshotTail};
use zk_jute::{ServerId, Zxid};

use super::dial;
use super::link::{Link, Progress};
use crate::config::{Config, HostPort};
use crate::driver::{Handle, Message};

/// Attempts to reach a leader, which may not listen yet, and the pause between (upstream `Learner.connectToLeader`).
const CONNECT_TRIES: u32 = 5;
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Links others may have open here: every id a quorum can have, and as many again that have not gone yet.
const ACCEPTED_MAX: usize = 512;
/// Bytes read at once.
const READ_CHUNK: usize = 64 << 10;
/// How long what was queued before a close may take to leave.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Opens and accepts links.
#[derive(Debug)]
pub struct QuorumPort {
    config: Arc<Config>,
    driver: Handle,
    next_accepted: AtomicU64,
    accepted: AtomicUsize,
    runtime: tokio::runtime::Handle,
}

impl QuorumPort {
    pub fn new(config: Arc<Config>, driver: Handle, runtime: tokio::runtime::Handle) -> Arc<Self> {
        Arc::new(Self {
            config,
            driver,
            next_accepted: AtomicU64::new(1),
            accepted: AtomicUsize::new(0),
            runtime,
        })
    }

    /// Accepts learners for ever; with `observers` they are those of an observer master.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, observers: bool) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    if self.accepted.fetch_add(1, Ordering::Relaxed) >= ACCEPTED_MAX {
                        self.accepted.fetch_sub(1, Ordering::Relaxed);
                        warn!("quorum port: {from} is refused: {ACCEPTED_MAX} links are open");
                        continue;
                    }
                    info!("quorum port: connection from {from}");
                    let port = self.clone();
                    tokio::spawn(async move {
                        port.accept(stream, observers).await;
                        port.accepted.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                Err(error) => {
                    warn!("quorum port: accept failed: {error}");
                    sleep(CONNECT_PAUSE).await;
                }
            }
        }
    }

    async fn accept(&self, stream: TcpStream, observers: bool) {
        if let Err(error) = stream.set_nodelay(true) {
            return warn!("quorum port: {error}");
        }
        let id = LinkId(LinkId::ACCEPTED | self.next_accepted.fetch_add(1, Ordering::Relaxed));
        let link = Link::new();
        let event = if observers { LinkEvent::AcceptedObserver } else { LinkEvent::Accepted };
        self.driver.send(Message::LinkOpened { id, link: link.clone(), event });
        self.run(id, link, stream, false).await;
    }

    /// Opens link `id` to `to`; everything that happens is reported to the driver.
    pub fn connect(self: &Arc<Self>, id: LinkId, link: Arc<Link>, to: ServerId, port: Port) {
        let this = self.clone();
        self.runtime.spawn(async move {
            let opened = tokio::select! {
                opened = this.open(to, port) => opened,
                () = link.wait_closed() => Err(io::Error::from(io::ErrorKind::Interrupted)),
            };
            match opened {
                Ok(stream) => {
                    this.driver.send(Message::Link { id, event: LinkEvent::Connected, cost: 0 });
                    this.run(id, link, stream, true).await;
                }
                Err(error) => {
                    this.driver.send(Message::LinkEnded {
                        id,
                        reason: format!("cannot connect to server {to}: {error}"),
                    });
                }
            }
        });
    }

    async fn open(&self, to: ServerId, port: Port) -> io::Result<TcpStream> {
        let addresses = self.addresses(to, port)?;
        let limit = self.config.net.learner_connect_limit;
        let deadline = Instant::now() + limit;
        let mut last = io::Error::from(io::ErrorKind::NotConnected);
        for attempt in 1..=CONNECT_TRIES {
            let left = deadline.saturating_duration_since(Instant::now());
            match dial::connect(&addresses, left, self.config.net.keep_alive).await {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    info!("quorum port: attempt {attempt} to reach server {to} failed: {error}");
                    last = error;
                }
            }
            sleep(CONNECT_PAUSE).await;
        }
        Err(last)
    }

    fn addresses(&self, to: ServerId, port: Port) -> io::Result<Vec<HostPort>> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("server {to} is not configured"));
        let line = self.config.ensemble.as_ref().and_then(|ensemble| ensemble.servers.get(&to));
        let mut addresses = line.ok_or_else(unknown)?.quorum.clone();
        if port == Port::ObserverMaster {
            let observer_master = self.config.net.observer_master_port.ok_or_else(unknown)?;
            for address in &mut addresses {
                address.port = observer_master;
            }
        }
        Ok(addresses)
    }

    /// Serves an open link until it ends, and reports the end.
    async fn run(&self, id: LinkId, link: Arc<Link>, stream: TcpStream, may_receive_snapshot: bool) {
        let (read, write) = stream.into_split();
        let mut reader = LinkReader {
            id,
            link: link.clone(),
            driver: self.driver.clone(),
            socket: read,
            received: BytesMut::with_capacity(READ_CHUNK),
            limit: self.config.storage.max_record.max(zk_jute::quorum::MAX_PACKET_LEN),
            may_receive_snapshot,
        };
        let progress = Progress::new(id, self.driver.clone());
        let mut writer = std::pin::pin!(link.write_all(write, progress));
        let reason = tokio::select! {
            ended = reader.read() => ended.err().map_or_else(|| "closed".to_owned(), |error| error.to_string()),
            ended = &mut writer => ended.err().map_or_else(|| "closed".to_owned(), |error| error.to_string()),
            () = link.wait_closed() => {
                // The driver closed the link: what it queued before may still leave, but not for ever. Whatever the
                // writer is stuck in by then ends with it, here.
                drop(timeout(CLOSE_LIMIT, &mut writer).await);
                "closed".to_owned()
            }
        };
        self.driver.send(Message::LinkEnded { id, reason });
    }
}

/// The receive side of one link.
struct LinkReader {
    id: LinkId,
    link: Arc<Link>,
    driver: Handle,
    socket: OwnedReadHalf,
    received: BytesMut,
    /// Longest packet, in bytes; `received` never holds more than that and one chunk.
    limit: usize,
    may_receive_snapshot: bool,
}

impl LinkReader {
    async fn read(&mut self) -> io::Result<()> {
        loop {
            while let Some((packet, len)) =
                QuorumPacket::try_decode_limited(&self.received, self.limit).map_err(invalid)?
            {
                self.received.advance(len);
                let (kind, zxid) = (packet.kind, packet.zxid);
                self.report(LinkEvent::Packet(packet), len).await?;
                if kind == PacketType::Snap {
                    self.read_snapshot(zxid).await?;
                }
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.received.reserve(READ_CHUNK);
        match self.socket.read_buf(&mut self.received).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side closed the connection")),
            _ => Ok(()),
        }
    }

    /// Hands an event to the driver once its budget allows.
    async fn report(&self, event: LinkEvent, bytes: usize) -> io::Result<()> {
        let cost = Link::cost(bytes);
        self.link.received_budget.acquire_many(cost).await.map_err(io::Error::other)?.forget();
        self.driver.send(Message::Link { id: self.id, event, cost });
        Ok(())
    }

    /// Reads the image that follows SNAP, record by record, and its signature.
    async fn read_snapshot(&mut self, zxid: Zxid) -> io::Result<()> {
        if !self.may_receive_snapshot {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a learner sent SNAP"));
        }
        let mut decoder = SnapshotDecoder::with_limit(self.limit);
        let mut builder = TreeBuilder::new();
        let mut progress = Progress::new(self.id, self.driver.clone());
        'stream: loop {
            decoder.push(&self.received);
            self.received.clear();
            while let Some(piece) = decoder.next().map_err(invalid)? {
                match piece {
                    SnapshotPiece::Head(head) => builder.head(head),
                    SnapshotPiece::Node(node) => builder.node(node).map_err(io::Error::other)?,
                    SnapshotPiece::End => break 'stream,
                }
            }
            self.fill().await?;
            progress.moved();
        }
        self.received.extend_from_slice(&decoder.take_rest());
        self.read_signature().await?;
        let tree = builder.finish(SnapshotTail::default(), zxid).map_err(io::Error::other)?;
        self.report(LinkEvent::Snapshot(Box::new(tree)), 0).await
    }

    async fn read_signature(&mut self) -> io::Result<()> {
        let len = 4 + SNAP_SIGNATURE.len();
        while self.received.len() < len {
            self.fill().await?;
        }
        let signature = self.received.split_to(len);
        if &signature[4..] == SNAP_SIGNATURE.as_bytes() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the snapshot does not end in its signature"))
    }
}

fn invalid(error: zk_jute::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
