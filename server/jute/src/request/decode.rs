//! From bytes to [`Request`], once, at the door (upstream: `readRequestRecord` at every step of the pipeline).
//!
//! Bytes after the record are ignored, as upstream does.

use std::sync::Arc;

use super::handshake::buffer_or_empty;
use super::{CreateRequest, Request, multi};
use crate::codec::{DecodeError, Reader};
use crate::consts::OpCode;
use crate::records::Acl;

impl Request {
    /// Reads the body of a request whose header says `op`.
    ///
    /// # Errors
    /// Bytes that are not the record; a null path; `op` that no request may have (`notification`, `error`); in a
    /// multi, operations of mixed kind, a kind that does not fit `op`, or a create with a `CreateMode` that is undefined
    /// or needs `createTTL`, or with a null ACL.
    pub fn decode(op: OpCode, r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::Create(CreateRequest::decode(op, r)?)
            }
            OpCode::Delete => Self::Delete { path: path(r)?, version: r.i32()? },
            OpCode::Exists => Self::Exists { path: path(r)?, watch: r.bool()? },
            OpCode::GetData => Self::GetData { path: path(r)?, watch: r.bool()? },
            OpCode::SetData => Self::SetData { path: path(r)?, data: r.buffer()?, version: r.i32()? },
            OpCode::GetAcl => Self::GetAcl { path: path(r)? },
            OpCode::SetAcl => Self::SetAcl { path: path(r)?, acl: Acl::decode_list(r)?, version: r.i32()? },
            OpCode::GetChildren => Self::GetChildren { path: path(r)?, watch: r.bool()? },
            OpCode::GetChildren2 => Self::GetChildren2 { path: path(r)?, watch: r.bool()? },
            OpCode::Sync => Self::Sync { path: path(r)? },
            OpCode::Ping => Self::Ping,
            OpCode::Check => Self::Check { path: path(r)?, version: r.i32()? },
            OpCode::Multi => Self::Multi(multi::decode(multi::Kind::Write, r)?),
            OpCode::MultiRead => Self::MultiRead(multi::decode(multi::Kind::Read, r)?),
            OpCode::Reconfig => Self::decode_reconfig(r)?,
            OpCode::CheckWatches => Self::CheckWatches { path: path(r)?, kind: r.i32()? },
            OpCode::RemoveWatches => Self::RemoveWatches { path: path(r)?, kind: r.i32()? },
            // A buffer of UTF-8 (upstream `DeleteContainerRequest`), which looks like a string on the wire.
            OpCode::DeleteContainer => Self::DeleteContainer { path: path(r)? },
            OpCode::Auth => {
                Self::Auth { kind: r.i32()?, scheme: r.string_or_empty()?, auth: buffer_or_empty(r)? }
            }
            OpCode::SetWatches => Self::decode_set_watches(r)?,
            OpCode::SetWatches2 => Self::decode_set_watches2(r)?,
            OpCode::Sasl => Self::Sasl { token: buffer_or_empty(r)? },
            // Upstream lists everything for null, "" and "/" alike.
            OpCode::GetEphemerals => Self::GetEphemerals { prefix: r.string_or_empty()? },
            OpCode::GetAllChildrenNumber => Self::GetAllChildrenNumber { path: path(r)? },
            OpCode::AddWatch => Self::AddWatch { path: path(r)?, mode: r.i32()? },
            OpCode::WhoAmI => Self::WhoAmI,
            OpCode::CreateSession => Self::CreateSession { timeout_ms: r.i32()? },
            OpCode::CloseSession => Self::CloseSession,
            OpCode::Notification | OpCode::Error => {
                return Err(DecodeError::bad_value(r.position(), "request type", i64::from(op as i32)));
            }
        })
    }

    fn decode_reconfig(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::Reconfig {
            joining: r.string()?,
            leaving: r.string()?,
            new_members: r.string()?,
            config_id: r.i64()?,
        })
    }

    fn decode_set_watches(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::SetWatches {
            relative_zxid: r.i64()?,
            data: r.strings("watched path")?,
            exist: r.strings("watched path")?,
            child: r.strings("watched path")?,
        })
    }

    fn decode_set_watches2(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::SetWatches2 {
            relative_zxid: r.i64()?,
            data: r.strings("watched path")?,
            exist: r.strings("watched path")?,
            child: r.strings("watched path")?,
            persistent: r.strings("watched path")?,
            persistent_recursive: r.strings("watched path")?,
        })
    }

    /// The code in the header of this request.
    pub const fn op(&self) -> OpCode {
        match self {
            Self::Create(create) => create.op,
            Self::Delete { .. } => OpCode::Delete,
            Self::Exists { .. } => OpCode::Exists,
            Self::GetData { .. } => OpCode::GetData,
            Self::SetData { .. } => OpCode::SetData,
            Self::GetAcl { .. } => OpCode::GetAcl,
            Self::SetAcl { .. } => OpCode::SetAcl,
            Self::GetChildren { .. } => OpCode::GetChildren,
            Self::GetChildren2 { .. } => OpCode::GetChildren2,
            Self::Sync { .. } => OpCode::Sync,
            Self::Ping => OpCode::Ping,
            Self::Check { .. } => OpCode::Check,
            Self::Multi(_) => OpCode::Multi,
            Self::MultiRead(_) => OpCode::MultiRead,
            Self::Reconfig { .. } => OpCode::Reconfig,
            Self::CheckWatches { .. } => OpCode::CheckWatches,
            Self::RemoveWatches { .. } => OpCode::RemoveWatches,
            Self::DeleteContainer { .. } => OpCode::DeleteContainer,
            Self::Auth { .. } => OpCode::Auth,
            Self::SetWatches { .. } => OpCode::SetWatches,
            Self::SetWatches2 { .. } => OpCode::SetWatches2,
            Self::Sasl { .. } => OpCode::Sasl,
            Self::GetEphemerals { .. } => OpCode::GetEphemerals,
            Self::GetAllChildrenNumber { .. } => OpCode::GetAllChildrenNumber,
            Self::AddWatch { .. } => OpCode::AddWatch,
            Self::WhoAmI => OpCode::WhoAmI,
            Self::CreateSession { .. } => OpCode::CreateSession,
            Self::CloseSession => OpCode::CloseSession,
        }
    }
}

impl CreateRequest {
    /// Reads the body of one of the four creates; `ttl` is on the wire with `op` `createTTL` only and 0 otherwise.
    pub(super) fn decode(op: OpCode, r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            op,
            path: path(r)?,
            data: r.buffer()?,
            acl: Acl::decode_list(r)?,
            flags: r.i32()?,
            ttl: if op == OpCode::CreateTtl { r.i64()? } else { 0 },
        })
    }
}

fn path(r: &mut Reader) -> Result<Arc<str>, DecodeError> {
    r.string_required("path")
}
