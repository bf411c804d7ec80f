//! The send side of one learner link: a queue that the driver fills and one task empties, in order (invariant 7).

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Notify, Semaphore};
use zk_core::input::{LinkEvent, LinkId};
use zk_core::tree::DataTree;
use zk_jute::image::SnapshotSource;
use zk_jute::quorum::{PacketType, QuorumPacket, SNAP_SIGNATURE};
use zk_jute::{Writer, snapshot};

use crate::driver::{Handle, Message};

/// Packets a learner may be behind before its link is given up: it then resynchronizes, which costs less than memory.
/// In all: this x the members (5 voters and 4 observers: 2 GiB), but the data itself is shared between the queues.
const QUEUE_BYTES_MAX: usize = 256 << 20;
/// What one packet costs beside its data: the queue's slot and the head on the wire.
const PACKET_OVERHEAD: usize = 96;
/// Bytes written at once.
const WRITE_CHUNK: usize = 256 << 10;
/// Chunks of a snapshot that are encoded ahead of the socket: 4 x 256 KiB a link.
const SNAPSHOT_CHUNKS_AHEAD: usize = 4;
/// Received bytes of one link that the driver has not handled yet.
const RECEIVED_BYTES_MAX: usize = 64 << 20;

/// One thing to send.
#[derive(Debug)]
enum Item {
    Packet(QuorumPacket),
    Snapshot(Box<DataTree>),
}

/// Shared between the driver, the writer and the reader of one link.
#[derive(Debug)]
pub struct Link {
    queue: Mutex<Queue>,
    wake: Notify,
    /// Ends the reader.
    closed: Notify,
    /// One permit for each byte that may still be received before the driver must catch up.
    pub received_budget: Semaphore,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    /// Between DIFF, TRUNC or SNAP and NEWLEADER: what is queued is history that is in memory anyway and shared with it,
    /// and has no bound of its own, or a learner that lacks much could never be synchronized.
    synchronizing: bool,
    /// Something was queued since the last flush.
    dirty: bool,
    closing: bool,
}

/// The queue is full; the link must be closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the learner is more than {} MiB behind", QUEUE_BYTES_MAX >> 20)]
pub struct Overflow;

impl Link {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            wake: Notify::new(),
            closed: Notify::new(),
            received_budget: Semaphore::new(RECEIVED_BYTES_MAX),
        })
    }

    /// Permits that one received packet of `bytes` takes: never more than there are.
    pub fn cost(bytes: usize) -> u32 {
        u32::try_from(bytes.min(RECEIVED_BYTES_MAX)).unwrap_or(u32::MAX)
    }

    /// Queues a packet. True if [`Self::flush`] must be called to wake the writer.
    pub fn push(&self, packet: QuorumPacket) -> Result<bool, Overflow> {
        let identities = packet.auth_info.iter().flatten().map(|id| id.scheme.len() + id.id.len());
        let cost =
            packet.data.as_ref().map_or(0, bytes::Bytes::len) + identities.sum::<usize>() + PACKET_OVERHEAD;
        let mut queue = self.queue.lock();
        match packet.kind {
            PacketType::Diff | PacketType::Trunc | PacketType::Snap => queue.synchronizing = true,
            PacketType::NewLeader => queue.synchronizing = false,
            _ => {}
        }
        if !queue.synchronizing {
            queue.bytes += cost;
        }
        if queue.bytes > QUEUE_BYTES_MAX {
            return Err(Overflow);
        }
        queue.items.push_back(Item::Packet(packet));
        Ok(!std::mem::replace(&mut queue.dirty, true))
    }

    /// Queues an image behind the packets so far. It shares its nodes with the tree, so it costs no memory by itself.
    pub fn push_snapshot(&self, image: Box<DataTree>) {
        self.queue.lock().items.push_back(Item::Snapshot(image));
    }

    /// Wakes the writer.
    pub fn flush(&self) {
        self.queue.lock().dirty = false;
        self.wake.notify_one();
    }

    /// Ends the reader now, and the writer once what is queued has left.
    pub fn close(&self) {
        self.queue.lock().closing = true;
        self.wake.notify_one();
        self.closed.notify_one();
    }

    /// Returns when [`Self::close`] was called.
    pub async fn wait_closed(&self) {
        self.closed.notified().await;
    }

    fn take(&self) -> (VecDeque<Item>, bool) {
        let mut queue = self.queue.lock();
        queue.bytes = 0;
        (std::mem::take(&mut queue.items), queue.closing)
    }

    /// Writes until the link is closed or fails. A peer that does not read can block it without end, also behind
    /// [`Self::close`], so its caller gives it up after a while. What the queue's bytes count are those not taken yet; at most as many
    /// again are being written.
    pub async fn write_all(&self, socket: OwnedWriteHalf, progress: Progress) -> io::Result<()> {
        let mut out = Output { socket, buffer: Vec::with_capacity(WRITE_CHUNK), progress };
        loop {
            let (items, closing) = self.take();
            if items.is_empty() && !closing {
                self.wake.notified().await;
                continue;
            }
            out.write_items(items).await?;
            if closing {
                return Ok(());
            }
        }
    }
}

/// Tells the driver now and then that a long transfer moves, so that nobody takes the other side's silence for death.
#[derive(Debug)]
pub struct Progress {
    id: LinkId,
    driver: Handle,
    last: Instant,
}

/// Time between two reports; well below any `initLimit`.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

impl Progress {
    pub fn new(id: LinkId, driver: Handle) -> Self {
        Self { id, driver, last: Instant::now() }
    }

    /// Bytes of a transfer that takes more than one round moved.
    pub fn moved(&mut self) {
        if self.last.elapsed() >= PROGRESS_EVERY {
            self.last = Instant::now();
            self.driver.send(Message::Link { id: self.id, event: LinkEvent::Progress, cost: 0 });
        }
    }
}

/// The socket, what is gathered for it, and who hears of it.
struct Output {
    socket: OwnedWriteHalf,
    buffer: Vec<u8>,
    progress: Progress,
}

impl Output {
    async fn write_items(&mut self, items: VecDeque<Item>) -> io::Result<()> {
        for item in items {
            match item {
                Item::Packet(packet) => packet.encode(&mut Writer::new(&mut self.buffer)),
                Item::Snapshot(image) => {
                    self.flush().await?;
                    self.stream_snapshot(image).await?;
                }
            }
            if self.buffer.len() >= WRITE_CHUNK {
                self.flush().await?;
                self.progress.moved();
            }
        }
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.buffer).await?;
        self.buffer.clear();
        // One huge transaction must not cost its size for the rest of the link's life.
        self.buffer.shrink_to(2 * WRITE_CHUNK);
        Ok(())
    }

    /// Encodes on a thread of its own, a few chunks ahead of the socket, so that neither the driver nor other connections
    /// wait for a large tree.
    async fn stream_snapshot(&mut self, image: Box<DataTree>) -> io::Result<()> {
        let (sender, mut chunks) = tokio::sync::mpsc::channel::<Vec<u8>>(SNAPSHOT_CHUNKS_AHEAD);
        let encoder = tokio::task::spawn_blocking(move || encode_snapshot(&image, &sender));
        while let Some(chunk) = chunks.recv().await {
            self.socket.write_all(&chunk).await?;
            self.progress.moved();
        }
        encoder.await.map_err(io::Error::other)
    }
}

/// Sends the image and its signature in chunks; stops silently when the receiver is gone.
fn encode_snapshot(image: &DataTree, sender: &tokio::sync::mpsc::Sender<Vec<u8>>) {
    let mut chunk = Vec::with_capacity(WRITE_CHUNK + 4096);
    snapshot::encode_head(&image.head(), &mut chunk);
    let complete = image.visit_nodes(&mut |node| {
        snapshot::encode_node(node, &mut chunk);
        if chunk.len() < WRITE_CHUNK {
            return ControlFlow::Continue(());
        }
        match sender.blocking_send(std::mem::replace(&mut chunk, Vec::with_capacity(WRITE_CHUNK + 4096))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    if complete {
        snapshot::encode_end(&mut chunk);
        Writer::new(&mut chunk).string(SNAP_SIGNATURE);
        // A failed send means that the socket is gone, which its reader reports.
        drop(sender.blocking_send(chunk));
    }
}
