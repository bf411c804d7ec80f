//! The list of operations in a multi (upstream `MultiOperationRecord`): header and record, repeated, until a header
//! says that it is done. A multi holds single operations only, so decoding never recurses.

use super::{CreateRequest, MultiHeader, Request};
use crate::codec::{DecodeError, Reader, Writer};
use crate::consts::OpCode;

/// `CreateMode` numbers that decide which kind of create an operation becomes.
const MODE_CONTAINER: i32 = 4;
const MODE_TTL: i32 = 5;
const MODE_TTL_SEQUENTIAL: i32 = 6;

/// Which operations the list may hold. Upstream rejects a mix, and a list that does not fit the request's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Write,
    Read,
}

pub(super) fn encode(ops: &[Request], w: &mut Writer<'_>) {
    for op in ops {
        MultiHeader { op: op.op() as i32, done: false, err: -1 }.encode(w);
        op.encode(w);
    }
    MultiHeader::END.encode(w);
}

/// Reads operations up to the closing header. Each takes at least 9 bytes, so the input bounds the list.
pub(super) fn decode(kind: Kind, r: &mut Reader) -> Result<Vec<Request>, DecodeError> {
    let mut ops = Vec::new();
    loop {
        let offset = r.position();
        let header = MultiHeader::decode(r)?;
        if header.done {
            return Ok(ops);
        }
        let op = OpCode::from_i32(header.op).filter(|op| kind_of(*op) == Some(kind));
        let op =
            op.ok_or(DecodeError::bad_value(offset, "type of operation in multi", i64::from(header.op)))?;
        let offset = r.position();
        ops.push(match Request::decode(op, r)? {
            Request::Create(create) => Request::Create(settle_create(create, offset)?),
            other => other,
        });
    }
}

/// The kind of an operation, or `None` if no multi may hold it.
const fn kind_of(op: OpCode) -> Option<Kind> {
    match op {
        OpCode::Create
        | OpCode::Create2
        | OpCode::CreateContainer
        | OpCode::CreateTtl
        | OpCode::Delete
        | OpCode::SetData
        | OpCode::Check => Some(Kind::Write),
        OpCode::GetData | OpCode::GetChildren => Some(Kind::Read),
        _ => None,
    }
}

/// In a multi the `CreateMode`, not the header, decides what a create is (upstream `Op.create`). Only `createTTL` brings
/// a time to live and leaves its mode and its ACL to the checks; with the others an undefined mode, a TTL mode or a null
/// ACL spoils the whole request (upstream `CreateOptions`).
fn settle_create(mut create: CreateRequest, offset: usize) -> Result<CreateRequest, DecodeError> {
    let had_ttl = create.op == OpCode::CreateTtl;
    match create.flags {
        MODE_TTL | MODE_TTL_SEQUENTIAL if had_ttl => {}
        MODE_CONTAINER => create.op = OpCode::CreateContainer,
        _ if had_ttl => create.op = OpCode::Create,
        0..MODE_CONTAINER => {}
        wrong => return Err(DecodeError::bad_value(offset, "create mode", i64::from(wrong))),
    }
    if !had_ttl && create.acl.is_none() {
        return Err(DecodeError::null(offset, "acl of a create in a multi"));
    }
    if create.op != OpCode::CreateTtl {
        create.ttl = 0;
    }
    Ok(create)
}
