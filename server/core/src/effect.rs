//! Everything a [`crate::Peer`] can cause, as one closed enum.

use std::sync::Arc;

use bytes::Bytes;
use zk_jute::election::Notification;
use zk_jute::quorum::QuorumPacket;
use zk_jute::request::{Response, WatcherEvent};
use zk_jute::{Epoch, ServerId, SessionId, Zxid};

use crate::input::{ConnId, LinkId};
use crate::tree::DataTree;

/// Number of a disk operation. One stream, one sequence: log, epoch files, truncation and snapshot installation are
/// carried out in this order (invariant 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct IoId(pub u64);

/// Where a peer's effects go. The adapter carries them out in the order of the calls; client messages must be visible
/// to their connection when `emit` returns, because the tree's write lock is still held then: that is what puts a watch
/// event before any reply that saw the new data.
pub trait Sink {
    fn emit(&mut self, effect: Effect);
}

impl Sink for Vec<Effect> {
    fn emit(&mut self, effect: Effect) {
        self.push(effect);
    }
}

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Do `op` after every earlier one, make it durable, then report [`crate::Input::Persisted`].
    Persist {
        io: IoId,
        op: PersistOp,
    },
    /// Write `image` beside the stream, never stopping it; report [`crate::Input::SnapshotDone`].
    Snapshot {
        image: Box<DataTree>,
    },
    /// Tell a client connection something.
    Client {
        conn: ConnId,
        message: ClientMessage,
    },
    /// Close every client connection (the role ended).
    CloseAllClients,
    /// Send a notification to another member's election port; only the newest per member matters.
    SendVote {
        to: ServerId,
        notification: Notification,
    },
    /// Open a link to `to`, resolving its address anew.
    Connect {
        link: LinkId,
        to: ServerId,
        port: Port,
    },
    Send {
        link: LinkId,
        packet: QuorumPacket,
    },
    /// Stream `image` and its signature after the SNAP packet already sent.
    SendSnapshot {
        link: LinkId,
        image: Box<DataTree>,
    },
    Close {
        link: LinkId,
        reason: String,
    },
    /// A fact worth a log line, a metric and a line in the simulator's transcript.
    Observe(Observation),
    /// End the process; nothing may follow.
    Halt(HaltReason),
}

/// Which port of a member to dial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Port {
    Quorum,
    ObserverMaster,
}

/// One durable operation.
#[derive(Clone, Debug)]
pub enum PersistOp {
    /// Read the whole data directory again, repairing a torn tail. Also clears a failed stream.
    Load,
    /// The same in the middle of the stream, after a cut below what is in memory. Unlike [`Self::Load`] it clears no
    /// failure: if the cut failed, this and everything behind it is dropped with it.
    Reload,
    /// Append one transaction to the log. Completes when it is fsynced; the adapter groups neighbours into one fsync.
    Append {
        zxid: Zxid,
        bytes: Bytes,
    },
    WriteAcceptedEpoch(Epoch),
    WriteCurrentEpoch(Epoch),
    /// Drop everything after `zxid` from the log, and every snapshot that ends after it.
    Truncate {
        zxid: Zxid,
    },
    /// Make `image` and the transactions after it the whole history: all of it durable at once or nothing, older logs
    /// gone, crash-safe at every step. In one operation, because this member may be one of those that made them
    /// committed, and must at no moment hold less than it did.
    InstallSnapshot {
        image: Box<DataTree>,
        /// Contiguous from the image's zxid. Bound: what a leader sends between its image and NEWLEADER, at most what is
        /// logged between two snapshots.
        tail: Vec<(Zxid, Bytes)>,
    },
    /// Start a new log file with the next append (a snapshot is about to be taken).
    RollLog,
    /// Record a clean stop: everything up to `zxid` is in the log.
    WriteCleanMarker {
        zxid: Zxid,
    },
}

/// What a client connection is told, in this order.
#[derive(Clone, Debug)]
pub enum ClientMessage {
    /// The session exists (created or re-attached); `timeout_ms` as granted.
    Established { session: SessionId, timeout_ms: i32 },
    /// The session to resume is not known (any more): answer with zeros and close.
    SessionInvalid,
    /// Answer to the request with this xid.
    Reply { xid: i32, zxid: Zxid, err: i32, response: Response },
    /// A watch fired at `zxid`. The connection puts it before any reply that saw `zxid` and after any that did not.
    Event { zxid: Zxid, event: WatcherEvent },
    /// Close without a word (session moved, expired or closed; or the server stops serving).
    Close,
}

/// Named facts, shared by logs, metrics and the simulator's transcript.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    RoleChanged {
        role: &'static str,
        epoch: Epoch,
    },
    ElectionFinished {
        leader: ServerId,
        zxid: Zxid,
    },
    EpochAccepted(Epoch),
    EpochCurrent(Epoch),
    /// A learner is being synchronized; `mode` is DIFF, TRUNC or SNAP.
    Synchronizing {
        peer: ServerId,
        mode: &'static str,
        from: Zxid,
        to: Zxid,
    },
    Serving {
        epoch: Epoch,
        zxid: Zxid,
    },
    LeftRole {
        why: String,
    },
    LinkFault {
        peer: ServerId,
        why: String,
    },
    /// The tree disagrees with the digest its leader predicted: this member may have diverged.
    DigestMismatch {
        zxid: Zxid,
        expected: i64,
        actual: i64,
    },
    DiskFault(String),
    SnapshotStarted {
        zxid: Zxid,
    },
    SessionExpired(SessionId),
    Committed {
        zxid: Zxid,
    },
    Note(Arc<str>),
}

/// Why the process must end, each with its exit code in the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HaltReason {
    /// Asked to, and everything is durable.
    Drained {
        zxid: Zxid,
        resigned: bool,
    },
    /// The disk is in an unknown state (failed fsync).
    DiskFailed(String),
    DiskFull(String),
    CorruptData(String),
}
