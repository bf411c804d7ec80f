//! Everything that can be on the agenda.

use bytes::Bytes;

use crate::net::NetEvent;

/// One thing that happens at a moment.
#[derive(Debug)]
pub enum Event {
    /// A deadline of this process may have come.
    Tick { node: i64, boot: u64 },
    /// Something arrives over the quorum or election network.
    Net(NetEvent),
    /// The storage of this process has finished its batch.
    Storage { node: i64, boot: u64 },
    /// The periodic snapshot of this process is written out.
    Snapshot { node: i64, boot: u64 },
    /// The member's process starts, unless it runs.
    Boot { node: i64 },
    /// The process goes on after a pause: what came meanwhile comes now.
    Resume { node: i64 },
    /// The next random fault.
    Fault,
    /// The trouble that waited for a step of this member.
    Ambush { node: i64 },
    /// A fault ends.
    Repair(Repair),
    /// A client does its next thing.
    Client { client: usize },
    /// Bytes of a client reach its server; `None` is the end of the connection.
    ToServer { client: usize, connection: u64, bytes: Option<Bytes> },
    /// Bytes of a server reach a client; `None` is the end of the connection.
    ToClient { client: usize, connection: u64, bytes: Option<Bytes> },
}

/// How a fault ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// All partitions and stalls.
    Network,
    /// There is room on this member's disk again.
    FreeDisk(i64),
    /// This member's disk is quick again.
    QuickDisk(i64),
}
