//! The client protocol: connect handshake, request and reply records (upstream module `org.apache.zookeeper.proto`).
//!
//! A request is parsed once, at the door, into [`Request`]; behind it there is no byte left to check.

mod decode;
mod encode;
mod handshake;
mod multi;
mod response;

use std::sync::Arc;

use bytes::Bytes;

use crate::consts::OpCode;
use crate::records::{Acl, Stat};

/// First packet of a client. `read_only` is `None` when the client (3.4 and older) did not send that byte; the
/// response must then leave it out too (ZOOKEEPER-4814).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectRequest {
    pub protocol_version: i32,
    pub last_zxid_seen: i64,
    /// Milliseconds.
    pub timeout_ms: i32,
    pub session_id: i64,
    pub password: Bytes,
    pub read_only: Option<bool>,
}

/// Answer to [`ConnectRequest`]; `timeout_ms` 0 and `session_id` 0 tell the client that its session is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectResponse {
    pub protocol_version: i32,
    pub timeout_ms: i32,
    pub session_id: i64,
    pub password: Bytes,
    pub read_only: Option<bool>,
}

/// What separates the operations of a multi and their results (upstream `MultiHeader`). `done` closes the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MultiHeader {
    pub op: i32,
    pub done: bool,
    pub err: i32,
}

/// Head of every request after the handshake. `op` stays raw so that unknown codes can be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    pub xid: i32,
    pub op: i32,
}

/// Head of every reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyHeader {
    pub xid: i32,
    pub zxid: i64,
    pub err: i32,
}

/// Reserved xids.
pub mod xid {
    pub const NOTIFICATION: i32 = -1;
    pub const PING: i32 = -2;
    pub const AUTH: i32 = -4;
    pub const SET_WATCHES: i32 = -8;
}

/// The body of one `create`, `create2`, `createContainer` or `createTTL`. `op` tells which; `flags` is upstream's
/// `CreateMode` number, kept raw because an invalid one has its own error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateRequest {
    pub op: OpCode,
    pub path: Arc<str>,
    pub data: Option<Bytes>,
    /// `None` is jute's null vector.
    pub acl: Option<Vec<Acl>>,
    pub flags: i32,
    /// Milliseconds; only with `OpCode::CreateTtl`.
    pub ttl: i64,
}

/// One decoded request body. Sub-operations of a multi use the same type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    Create(CreateRequest),
    Delete {
        path: Arc<str>,
        version: i32,
    },
    Exists {
        path: Arc<str>,
        watch: bool,
    },
    GetData {
        path: Arc<str>,
        watch: bool,
    },
    SetData {
        path: Arc<str>,
        data: Option<Bytes>,
        version: i32,
    },
    GetAcl {
        path: Arc<str>,
    },
    SetAcl {
        path: Arc<str>,
        acl: Option<Vec<Acl>>,
        version: i32,
    },
    GetChildren {
        path: Arc<str>,
        watch: bool,
    },
    GetChildren2 {
        path: Arc<str>,
        watch: bool,
    },
    Sync {
        path: Arc<str>,
    },
    Ping,
    Check {
        path: Arc<str>,
        version: i32,
    },
    /// `multi`: write operations (`Create`, `Delete`, `SetData`, `Check`), all or nothing.
    Multi(Vec<Self>),
    /// `multiRead`: `GetData` and `GetChildren`, each answered on its own.
    MultiRead(Vec<Self>),
    Reconfig {
        joining: Option<Arc<str>>,
        leaving: Option<Arc<str>>,
        new_members: Option<Arc<str>>,
        config_id: i64,
    },
    CheckWatches {
        path: Arc<str>,
        kind: i32,
    },
    RemoveWatches {
        path: Arc<str>,
        kind: i32,
    },
    DeleteContainer {
        path: Arc<str>,
    },
    Auth {
        kind: i32,
        scheme: Arc<str>,
        auth: Bytes,
    },
    SetWatches {
        relative_zxid: i64,
        data: Vec<Arc<str>>,
        exist: Vec<Arc<str>>,
        child: Vec<Arc<str>>,
    },
    SetWatches2 {
        relative_zxid: i64,
        data: Vec<Arc<str>>,
        exist: Vec<Arc<str>>,
        child: Vec<Arc<str>>,
        persistent: Vec<Arc<str>>,
        persistent_recursive: Vec<Arc<str>>,
    },
    Sasl {
        token: Bytes,
    },
    GetEphemerals {
        prefix: Arc<str>,
    },
    GetAllChildrenNumber {
        path: Arc<str>,
    },
    AddWatch {
        path: Arc<str>,
        mode: i32,
    },
    WhoAmI,
    CreateSession {
        timeout_ms: i32,
    },
    CloseSession,
}

/// The body of a successful reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// Header only.
    Empty,
    Path(Arc<str>),
    PathStat(Arc<str>, Stat),
    Stat(Stat),
    Data(Option<Bytes>, Stat),
    Acl(Vec<Acl>, Stat),
    Children(Vec<Arc<str>>),
    ChildrenStat(Vec<Arc<str>>, Stat),
    Ephemerals(Vec<Arc<str>>),
    Number(i32),
    WhoAmI(Vec<ClientInfo>),
    /// `addWatch` answers with an `ErrorResponse` record.
    Error(i32),
    Multi(Vec<MultiResult>),
}

/// One entry of a multi's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MultiResult {
    /// `type` is the op's code on the wire, except that container and TTL creates answer as `create2` (15).
    Ok(OpCode, Response),
    Error(i32),
}

/// One authenticated identity of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientInfo {
    pub scheme: Arc<str>,
    pub user: Arc<str>,
}

/// A watch notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatcherEvent {
    /// Upstream `EventType`: 1 created, 2 deleted, 3 data changed, 4 children changed, 5/6/7 removed.
    pub kind: i32,
    /// Upstream `KeeperState`: 3 connected.
    pub state: i32,
    pub path: Arc<str>,
}
