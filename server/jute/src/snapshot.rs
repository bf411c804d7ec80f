//! The pieces of a serialized database, in file order (upstream `SerializeUtils`, `DataTree.serialize`,
//! `ReferenceCountedACLCache`). The same pieces follow a SNAP packet inline, without header and seals.

mod decode;
mod encode;

pub use decode::{MAX_RECORD_LEN, SnapshotDecoder, SnapshotPiece};
pub use encode::{encode_end, encode_head, encode_node};

use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{SessionId, Zxid};
use crate::records::{Acl, StatPersisted};

/// One node as a snapshot holds it. The root's path is "" in files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotNode {
    pub path: Arc<str>,
    pub data: Option<Bytes>,
    /// Key into the ACL map that precedes the nodes; -1 is the open ACL and is never in the map.
    pub acl: i64,
    pub stat: StatPersisted,
}

/// What stands before the nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotHead {
    /// Session and its timeout in milliseconds.
    pub sessions: Vec<(SessionId, i32)>,
    pub acls: Vec<(i64, Vec<Acl>)>,
}

/// What may stand after the nodes' seal; both are optional because older versions wrote neither.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SnapshotTail {
    /// zxid, digest version, digest.
    pub digest: Option<(Zxid, i32, i64)>,
    pub last_processed: Option<Zxid>,
}
