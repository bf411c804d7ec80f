//! Bodies of replies (upstream `FinalRequestProcessor`, `MultiResponse`). The server encodes, clients decode.

use super::{ClientInfo, MultiHeader, MultiResult, Response};
use crate::codec::{DecodeError, Reader, Writer};
use crate::consts::OpCode;
use crate::records::{Acl, Stat};

impl Response {
    /// Writes the body that follows a [`super::ReplyHeader`] without error.
    pub fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Empty => {}
            Self::Path(path) => w.string(path),
            Self::PathStat(path, stat) => {
                w.string(path);
                stat.encode(w);
            }
            Self::Stat(stat) => stat.encode(w),
            Self::Data(data, stat) => {
                w.buffer(data.as_deref());
                stat.encode(w);
            }
            Self::Acl(acl, stat) => {
                Acl::encode_list(Some(acl), w);
                stat.encode(w);
            }
            Self::Children(names) | Self::Ephemerals(names) => w.strings(names),
            Self::ChildrenStat(names, stat) => {
                w.strings(names);
                stat.encode(w);
            }
            Self::Number(number) | Self::Error(number) => w.i32(*number),
            Self::WhoAmI(infos) => {
                w.vector_len(Some(infos.len()));
                for info in infos {
                    info.encode(w);
                }
            }
            Self::Multi(results) => encode_multi(results, w),
        }
    }

    /// Reads the body of a successful reply to a request of type `op`.
    ///
    /// # Errors
    /// Bytes that are not the record, or an `op` that is not answered with one (`sasl` is not supported here).
    pub fn decode(op: OpCode, r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::Create | OpCode::Sync => Self::Path(r.string_required("path")?),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::PathStat(r.string_required("path")?, Stat::decode(r)?)
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => Self::Stat(Stat::decode(r)?),
            OpCode::GetData | OpCode::Reconfig => Self::Data(r.buffer()?, Stat::decode(r)?),
            OpCode::GetAcl => Self::Acl(Acl::decode_list(r)?.unwrap_or_default(), Stat::decode(r)?),
            OpCode::GetChildren => Self::Children(r.strings("child")?),
            OpCode::GetChildren2 => Self::ChildrenStat(r.strings("child")?, Stat::decode(r)?),
            OpCode::Multi | OpCode::MultiRead => Self::Multi(decode_multi(r)?),
            OpCode::GetEphemerals => Self::Ephemerals(r.strings("path")?),
            OpCode::GetAllChildrenNumber => Self::Number(r.i32()?),
            OpCode::AddWatch => Self::Error(r.i32()?),
            OpCode::WhoAmI => Self::WhoAmI(r.vector(ClientInfo::decode)?.unwrap_or_default()),
            OpCode::Delete
            | OpCode::DeleteContainer
            | OpCode::Check
            | OpCode::Ping
            | OpCode::Auth
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::CloseSession => Self::Empty,
            OpCode::Notification | OpCode::Sasl | OpCode::CreateSession | OpCode::Error => {
                return Err(DecodeError::bad_value(r.position(), "type of reply", i64::from(op as i32)));
            }
        })
    }
}

fn encode_multi(results: &[MultiResult], w: &mut Writer<'_>) {
    for result in results {
        match result {
            MultiResult::Ok(op, response) => {
                MultiHeader { op: result_type(*op) as i32, done: false, err: 0 }.encode(w);
                response.encode(w);
            }
            MultiResult::Error(err) => {
                MultiHeader { op: OpCode::Error as i32, done: false, err: *err }.encode(w);
                w.i32(*err);
            }
        }
    }
    MultiHeader::END.encode(w);
}

/// Container and TTL creates answer as `create2` (upstream `OpResult.CreateResult`).
const fn result_type(op: OpCode) -> OpCode {
    match op {
        OpCode::CreateContainer | OpCode::CreateTtl => OpCode::Create2,
        OpCode::DeleteContainer => OpCode::Delete,
        other => other,
    }
}

/// Reads results up to the closing header. Each takes at least 9 bytes, so the input bounds the list.
fn decode_multi(r: &mut Reader) -> Result<Vec<MultiResult>, DecodeError> {
    let mut results = Vec::new();
    loop {
        let offset = r.position();
        let header = MultiHeader::decode(r)?;
        if header.done {
            return Ok(results);
        }
        results.push(match OpCode::from_i32(header.op) {
            Some(OpCode::Error) => MultiResult::Error(r.i32()?),
            Some(
                op @ (OpCode::Create
                | OpCode::Create2
                | OpCode::Delete
                | OpCode::SetData
                | OpCode::Check
                | OpCode::GetData
                | OpCode::GetChildren),
            ) => MultiResult::Ok(op, Response::decode(op, r)?),
            _ => return Err(DecodeError::bad_value(offset, "type of result in multi", i64::from(header.op))),
        });
    }
}
