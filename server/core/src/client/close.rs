//! Why a connection ends (upstream `ServerCnxn.DisconnectReason`). The texts are for the log.

use zk_jute::{DecodeError, SessionId, Zxid};

/// The first reason counts. What is in the output buffer by then should still be sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// The client closed the socket, or it broke.
    #[error("the client is gone: {0}")]
    PeerClosed(String),
    #[error("this server is not serving")]
    NotServing,
    #[error("packet length {len} is negative or exceeds jute.maxbuffer ({limit} bytes)")]
    BadLength { len: i32, limit: usize },
    #[error("connect request is malformed: {0}")]
    BadConnectRequest(DecodeError),
    #[error("request header is malformed: {0}")]
    BadHeader(DecodeError),
    #[error("the client has seen zxid {seen}, this server is at {ours}; it must try another server")]
    ZxidAhead { seen: Zxid, ours: Zxid },
    #[error("this server is read-only and the client did not ask for that")]
    NotReadOnlyClient,
    #[error("session {0} is unknown or expired")]
    SessionInvalid(SessionId),
    #[error("wrong password for session {0}")]
    WrongPassword(SessionId),
    #[error("authentication failed for scheme {0:?}")]
    AuthFailed(String),
    #[error("request type {0} is not supported")]
    Unimplemented(i32),
    #[error("the session has moved to another server")]
    SessionMoved,
    #[error("the client closed its session")]
    SessionClosed,
    #[error("closed by the server")]
    ByServer,
    #[error("no session within {0} ms")]
    HandshakeTimeout(u64),
    #[error("nothing heard for {0} ms")]
    Idle(u64),
    #[error("the client does not read: {0} messages are waiting for it")]
    SlowReader(usize),
    /// The core answered something that was not asked: a defect, contained to this connection.
    #[error("internal error: {0}")]
    Internal(String),
}
