//! Transactions from and to bytes (upstream `SerializeUtils.deserializeTxn`, and `DataTree.processTxn` for the parts of
//! a multi).

use std::sync::Arc;

use super::{Txn, TxnDigest, TxnHeader};
use crate::codec::{DecodeError, Reader, Writer};
use crate::consts::{ErrorCode, OpCode};
use crate::ids::Zxid;
use crate::records::Acl;

impl TxnHeader {
    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { client_id: r.i64()?, cxid: r.i32()?, zxid: Zxid(r.i64()?), time: r.i64()?, op: r.i32()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i64(self.client_id);
        w.i32(self.cxid);
        w.i64(self.zxid.0);
        w.i64(self.time);
        w.i32(self.op);
    }
}

impl TxnDigest {
    /// Bytes of one record: an int and a long.
    pub const ENCODED_LEN: usize = 4 + 8;

    pub fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { version: r.i32()?, tree_digest: r.i64()? })
    }

    pub fn encode(&self, w: &mut Writer<'_>) {
        w.i32(self.version);
        w.i64(self.tree_digest);
    }
}

impl Txn {
    /// Reads the body of a transaction whose header says `op`.
    ///
    /// # Errors
    /// Bytes that are not the record, or an operation that is never logged (upstream refuses `setMaxChildren` and
    /// unknown numbers as well).
    pub fn decode(op: i32, r: &mut Reader) -> Result<Self, DecodeError> {
        match OpCode::from_i32(op) {
            Some(OpCode::Create) => Self::decode_create_any(r),
            Some(OpCode::CloseSession) => Self::decode_close_session(r),
            Some(OpCode::CreateSession) => Ok(Self::CreateSession { timeout_ms: r.i32()? }),
            Some(OpCode::SetAcl) => {
                Ok(Self::SetAcl { path: path(r)?, acl: stored_acl(r)?, version: r.i32()? })
            }
            Some(OpCode::Reconfig) => Self::decode_simple(OpCode::SetData, r),
            Some(OpCode::Multi) => Self::decode_multi(r),
            // Upstream logs a check only inside a multi.
            Some(OpCode::Check) | None => Err(unsupported(op, r)),
            Some(known) => Self::decode_simple(known, r),
        }
    }

    /// The transactions that may stand alone or in a multi.
    fn decode_simple(op: OpCode, r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::Create | OpCode::Create2 => Self::decode_create(r)?,
            OpCode::CreateTtl => Self::CreateTtl {
                path: path(r)?,
                data: r.buffer()?,
                acl: stored_acl(r)?,
                parent_cversion: r.i32()?,
                ttl: r.i64()?,
            },
            OpCode::CreateContainer => Self::CreateContainer {
                path: path(r)?,
                data: r.buffer()?,
                acl: stored_acl(r)?,
                parent_cversion: r.i32()?,
            },
            OpCode::Delete | OpCode::DeleteContainer => Self::Delete { path: path(r)? },
            OpCode::SetData => Self::SetData { path: path(r)?, data: r.buffer()?, version: r.i32()? },
            OpCode::Check => Self::Check { path: path(r)?, version: r.i32()? },
            OpCode::Error => Self::Error { err: r.i32()? },
            _ => return Err(unsupported(op as i32, r)),
        })
    }

    fn decode_create(r: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::Create {
            path: path(r)?,
            data: r.buffer()?,
            acl: stored_acl(r)?,
            ephemeral: r.bool()?,
            parent_cversion: r.i32()?,
        })
    }

    /// A record cut short after `ephemeral` comes from before 3.4 (upstream `CreateTxnV0`).
    fn decode_create_any(r: &mut Reader) -> Result<Self, DecodeError> {
        let mut old = r.clone();
        match Self::decode_create(r) {
            Err(error) if error.is_eof() => {}
            other => return other,
        }
        let txn = Self::Create {
            path: path(&mut old)?,
            data: old.buffer()?,
            acl: stored_acl(&mut old)?,
            ephemeral: old.bool()?,
            parent_cversion: -1,
        };
        *r = old;
        Ok(txn)
    }

    /// The list of ephemerals may be absent. Then a digest may follow at once, and is left for the caller.
    fn decode_close_session(r: &mut Reader) -> Result<Self, DecodeError> {
        if r.remaining() == TxnDigest::ENCODED_LEN && r.clone().i32()? > 1 {
            // Two paths need 14 bytes at least, so a number above one is no count here but a digest's version.
            return Ok(Self::CloseSession { paths: None });
        }
        let start = r.clone();
        match r.vector(path) {
            Ok(paths) => Ok(Self::CloseSession { paths }),
            Err(error) if error.is_eof() => {
                *r = start;
                Ok(Self::CloseSession { paths: None })
            }
            Err(error) => Err(error),
        }
    }

    /// `{type, buffer}` pairs; a multi in a multi is refused, so this never recurses.
    fn decode_multi(r: &mut Reader) -> Result<Self, DecodeError> {
        let entries = r.vector(|r| {
            let offset = r.position();
            let op = r.i32()?;
            let start = r.position() + 4;
            let body = r.buffer()?.ok_or(DecodeError::null(offset, "transaction in multi"))?;
            let known = OpCode::from_i32(op);
            let known =
                known.ok_or(DecodeError::bad_value(offset, "type of transaction in multi", i64::from(op)))?;
            match Self::decode_simple(known, &mut Reader::new(body)) {
                Ok(txn) => Ok((op, txn)),
                Err(error) => Err(DecodeError { offset: start + error.offset, ..error }),
            }
        })?;
        Ok(Self::Multi(entries.unwrap_or_default()))
    }

    /// Writes the body that follows a header with a matching `op`.
    pub fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Create { path, data, acl, ephemeral, parent_cversion } => {
                encode_node(path, data.as_deref(), acl, w);
                w.bool(*ephemeral);
                w.i32(*parent_cversion);
            }
            Self::CreateTtl { path, data, acl, parent_cversion, ttl } => {
                encode_node(path, data.as_deref(), acl, w);
                w.i32(*parent_cversion);
                w.i64(*ttl);
            }
            Self::CreateContainer { path, data, acl, parent_cversion } => {
                encode_node(path, data.as_deref(), acl, w);
                w.i32(*parent_cversion);
            }
            Self::Delete { path } => w.string(path),
            Self::SetData { path, data, version } => {
                w.string(path);
                w.buffer(data.as_deref());
                w.i32(*version);
            }
            Self::Check { path, version } => {
                w.string(path);
                w.i32(*version);
            }
            Self::SetAcl { path, acl, version } => {
                w.string(path);
                Acl::encode_list(Some(acl), w);
                w.i32(*version);
            }
            Self::CreateSession { timeout_ms: number } | Self::Error { err: number } => w.i32(*number),
            Self::CloseSession { paths: Some(paths) } => w.strings(paths),
            Self::CloseSession { paths: None } => {}
            Self::Multi(entries) => encode_multi(entries, w),
        }
    }

    /// True if a header with `op` may stand before this transaction.
    pub const fn fits(&self, op: i32) -> bool {
        let Some(op) = OpCode::from_i32(op) else { return false };
        match self {
            Self::Create { .. } => matches!(op, OpCode::Create | OpCode::Create2),
            Self::CreateTtl { .. } => matches!(op, OpCode::CreateTtl),
            Self::CreateContainer { .. } => matches!(op, OpCode::CreateContainer),
            Self::Delete { .. } => matches!(op, OpCode::Delete | OpCode::DeleteContainer),
            Self::SetData { .. } => matches!(op, OpCode::SetData | OpCode::Reconfig),
            Self::Check { .. } => matches!(op, OpCode::Check),
            Self::SetAcl { .. } => matches!(op, OpCode::SetAcl),
            Self::CreateSession { .. } => matches!(op, OpCode::CreateSession),
            Self::CloseSession { .. } => matches!(op, OpCode::CloseSession),
            Self::Error { .. } => matches!(op, OpCode::Error),
            Self::Multi(_) => matches!(op, OpCode::Multi),
        }
    }

    /// The error code of every operation of a multi that failed, or `None` if it succeeded (or is no multi).
    ///
    /// One error entry fails the whole: operations before it report 0, later ones `RuntimeInconsistency`, error
    /// entries their own code (upstream `DataTree.processTxn`). Nothing of a failed multi is applied.
    pub fn failed_multi(&self) -> Option<Vec<i32>> {
        let Self::Multi(entries) = self else { return None };
        let first = entries.iter().position(|(_, txn)| matches!(txn, Self::Error { .. }))?;
        let code = |(index, (_, txn)): (usize, &(i32, Self))| match txn {
            Self::Error { err } => *err,
            _ if index > first => ErrorCode::RuntimeInconsistency as i32,
            _ => ErrorCode::Ok as i32,
        };
        Some(entries.iter().enumerate().map(code).collect())
    }
}

fn encode_node(path: &str, data: Option<&[u8]>, acl: &[Acl], w: &mut Writer<'_>) {
    w.string(path);
    w.buffer(data);
    Acl::encode_list(Some(acl), w);
}

fn encode_multi(entries: &[(i32, Txn)], w: &mut Writer<'_>) {
    w.vector_len(Some(entries.len()));
    for (op, txn) in entries {
        assert!(txn.fits(*op), "an entry's operation must agree with its transaction");
        w.i32(*op);
        w.nested(|w| txn.encode(w));
    }
}

fn path(r: &mut Reader) -> Result<Arc<str>, DecodeError> {
    r.string_required("path")
}

/// Upstream stores a node whose transaction has no ACL as open to everyone.
fn stored_acl(r: &mut Reader) -> Result<Vec<Acl>, DecodeError> {
    Ok(Acl::decode_list(r)?.unwrap_or_else(|| vec![Acl::open()]))
}

fn unsupported(op: i32, r: &Reader) -> DecodeError {
    DecodeError::bad_value(r.position(), "transaction type", i64::from(op))
}
