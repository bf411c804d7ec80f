//! Jute: the serialization of Apache ZooKeeper, and every record that it carries.
//!
//! One crate knows how bytes look on the client wire, on the quorum wire, in the transaction log and in
//! snapshots, so that the server, the simulator and the operator's probe can never disagree about them.
//! It does no I/O, keeps no state and never panics on input: bad bytes are a [`DecodeError`] with an offset.

pub mod codec;
pub mod consts;
pub mod election;
pub mod ids;
pub mod image;
pub mod quorum;
pub mod records;
pub mod request;
mod session;
pub mod snapshot;
pub mod txn;

pub use codec::{DecodeError, DecodeErrorKind, Reader, Writer};
pub use consts::{ErrorCode, OpCode};
pub use ids::{Epoch, ServerId, SessionId, Zxid};
pub use session::session_password;
