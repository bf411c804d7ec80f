//! Transactions as they are logged and proposed (upstream module `org.apache.zookeeper.txn`).
//!
//! [`LoggedTxn`] keeps the serialized bytes beside the parsed form: one buffer serves the log, every follower and the
//! committed log, and is never re-encoded. What a member applies is what those bytes decode to, on the leader as on
//! every follower, so that all of them build the same tree.

mod logged;
mod wire;

use std::sync::Arc;

use bytes::Bytes;

use crate::ids::Zxid;
use crate::records::Acl;

/// Upstream `TxnHeader`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxnHeader {
    /// Session that asked for the write.
    pub client_id: i64,
    pub cxid: i32,
    pub zxid: Zxid,
    /// Leader's wall clock, milliseconds since 1970.
    pub time: i64,
    /// Raw operation code; always agrees with the [`Txn`] variant.
    pub op: i32,
}

impl TxnHeader {
    /// Bytes of one record: three longs and two ints.
    pub const ENCODED_LEN: usize = 3 * 8 + 2 * 4;
}

/// The change itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Txn {
    /// `create` (1) and `create2` (15): the header's `op` tells them apart. `parent_cversion` is -1 when the record
    /// was written by a version that did not have the field.
    Create {
        path: Arc<str>,
        data: Option<Bytes>,
        acl: Vec<Acl>,
        ephemeral: bool,
        parent_cversion: i32,
    },
    CreateTtl {
        path: Arc<str>,
        data: Option<Bytes>,
        acl: Vec<Acl>,
        parent_cversion: i32,
        ttl: i64,
    },
    CreateContainer {
        path: Arc<str>,
        data: Option<Bytes>,
        acl: Vec<Acl>,
        parent_cversion: i32,
    },
    /// `delete` (2) and `deleteContainer` (20).
    Delete {
        path: Arc<str>,
    },
    /// `setData` (5) and `reconfig` (16). `version` is the version after the change.
    SetData {
        path: Arc<str>,
        data: Option<Bytes>,
        version: i32,
    },
    Check {
        path: Arc<str>,
        version: i32,
    },
    /// `version` is the ACL version after the change.
    SetAcl {
        path: Arc<str>,
        acl: Vec<Acl>,
        version: i32,
    },
    CreateSession {
        timeout_ms: i32,
    },
    /// `None`: written without the list of ephemerals (`closeSessionTxn.enabled=false`, or before 3.6).
    CloseSession {
        paths: Option<Vec<Arc<str>>>,
    },
    Error {
        err: i32,
    },
    /// Each entry keeps its raw operation code; [`Txn::Error`] entries stand for a failed multi.
    Multi(Vec<(i32, Self)>),
}

/// Digest of the tree after the transaction, as the leader predicted it (upstream `TxnDigest`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxnDigest {
    pub version: i32,
    pub tree_digest: i64,
}

/// One transaction with the very bytes that go to disk and to followers (header + body + optional digest).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedTxn {
    pub header: TxnHeader,
    pub txn: Txn,
    pub digest: Option<TxnDigest>,
    pub bytes: Bytes,
}
