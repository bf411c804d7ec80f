//! Everything that can happen to a [`crate::Peer`], as one closed enum.

use bytes::Bytes;
use zk_jute::election::Notification;
use zk_jute::quorum::QuorumPacket;
use zk_jute::records::Id;
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, ServerId, SessionId, Zxid};

use crate::effect::IoId;
use crate::tree::DataTree;

/// One client connection of this process; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// One connection between a learner and its leader or observer master; never reused. The core numbers the links it
/// asks for, the adapter numbers those it accepts, with [`LinkId::ACCEPTED`] set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u64);

impl LinkId {
    /// Bit of links that the other side opened.
    pub const ACCEPTED: u64 = 1 << 63;
}

/// One event. Inputs of one source arrive in their order.
#[derive(Debug)]
pub enum Input {
    /// The disk finished: every operation up to and including `io` of this stream (completion is cumulative), or, with
    /// an error, `io` failed and so did everything after it until the next [`crate::effect::PersistOp::Load`].
    Persisted { io: IoId, result: Result<Persisted, DiskError> },
    /// A periodic snapshot (outside the ordered stream) ended.
    SnapshotDone { zxid: Zxid, result: Result<(), DiskError> },
    /// A client connection asks for something.
    Client { conn: ConnId, command: ClientCommand },
    /// A notification from another member's election port.
    Vote { from: ServerId, notification: Notification },
    /// Something happened on a link.
    Link { link: LinkId, event: LinkEvent },
    /// Nothing but time: sent when [`crate::Peer::next_deadline`] has come.
    Tick,
    /// Stop gracefully: resign if leading, refuse new sessions, drain the log, write the clean marker, halt with
    /// [`crate::effect::HaltReason::Drained`].
    Drain,
}

/// What a disk operation brought.
#[derive(Debug)]
pub enum Persisted {
    Done,
    /// Answer to [`crate::effect::PersistOp::Load`].
    Loaded(Box<Recovery>),
}

/// What is on disk, as far as the protocol cares.
#[derive(Debug)]
pub struct Recovery {
    /// The newest intact snapshot, or an empty tree. Holds only committed transactions if we wrote it.
    pub tree: DataTree,
    /// Logged transactions after the snapshot, contiguous: known logged, not known committed.
    /// Bound: what is logged between two snapshots, at most `snapCount` transactions or 4 GiB, as upstream's replay.
    pub tail: Vec<LoggedTxn>,
    /// zxid of the last of `tail`, else of the snapshot.
    pub last_logged: Zxid,
    /// `acceptedEpoch` and `currentEpoch` as on disk; absent in a new directory. The store has already repaired
    /// accepted < current (ZOOKEEPER-4781) and missing files as far as the log allows it.
    pub accepted: Epoch,
    pub current: Epoch,
    /// True if the directory holds no history and may not claim an empty one: no snapshot, no log, and neither
    /// `db.autocreate` nor the `initialize` marker. Such a member votes with zxid -1 (invariant 9).
    pub no_history: bool,
}

/// Why a disk operation failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiskError {
    /// The append or file write failed before anything was promised: out of space or quota.
    #[error("no space: {0}")]
    NoSpace(String),
    /// Any other failure of a write.
    #[error("I/O error: {0}")]
    Io(String),
    /// fsync failed: what is durable is unknown, and a retry would lie. Always ends the process.
    #[error("fsync failed: {0}")]
    SyncFailed(String),
    /// What is on disk cannot be used (a gap, a checksum, no usable snapshot).
    #[error("corrupt data: {0}")]
    Corrupt(String),
}

/// Events of one link.
#[derive(Debug)]
pub enum LinkEvent {
    /// A learner connected to our quorum port.
    Accepted,
    /// An observer connected to our `observerMasterPort`.
    AcceptedObserver,
    /// The link the core asked for is up.
    Connected,
    Packet(QuorumPacket),
    /// The image that followed a SNAP packet, decoded and complete with its signature; comes right after that packet.
    Snapshot(Box<DataTree>),
    /// A long synchronization moves: bytes of an image, or of the history before NEWLEADER, were sent or received. At
    /// most a few a second; what waits for the other side waits anew, as upstream's socket timeouts do.
    Progress,
    /// Connecting failed, or the link ended for any reason. The last event of a link.
    Closed {
        reason: String,
    },
}

/// What a client connection asks of the core. Reads never come here.
#[derive(Debug)]
pub enum ClientCommand {
    /// A new session; `timeout_ms` is already negotiated.
    CreateSession { timeout_ms: i32 },
    /// Resume `session`; the password has been checked by the connection.
    Reattach { session: SessionId, timeout_ms: i32 },
    /// A write, `sync` or `closeSession` of an established session.
    Request(ClientRequest),
    /// The session was heard from. `timeout_ms` is what this connection negotiated, which need not be what the session was
    /// created with. Sent a few times a timeout.
    Touch { session: SessionId, timeout_ms: i32 },
    /// The connection is gone; the session lives on until it expires.
    Disconnected,
}

/// One request that needs the core.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub session: SessionId,
    /// The client's xid.
    pub xid: i32,
    /// Raw operation code.
    pub op: i32,
    /// The request record as the client sent it; forwarded to the leader unchanged.
    pub body: Bytes,
    /// Identities of the connection.
    pub auth: Vec<Id>,
}
