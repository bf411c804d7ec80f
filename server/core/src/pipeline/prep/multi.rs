//! `multi`: all operations or none (upstream `PrepRequestProcessor.pRequestHelper`, case `multi`).

use zk_jute::request::Request;
use zk_jute::txn::Txn;
use zk_jute::{ErrorCode, OpCode};

use super::{Step, txn_limit};

impl Step<'_> {
    /// One transaction with an entry for each operation, each checked against what those before it do. If one fails,
    /// nothing of the others remains and the entries say so: 0 before it, its code, `RuntimeInconsistency` after it.
    ///
    /// # Errors
    /// [`ErrorCode::MarshallingError`] if the operations are fine but too large together to be read back.
    pub(super) fn multi(&mut self, ops: &[Request]) -> Result<Txn, ErrorCode> {
        let limit = txn_limit(self.rules.max_buffer);
        let (mut entries, mut size) = (Vec::with_capacity(ops.len()), 0);
        for (index, op) in ops.iter().enumerate() {
            match self.change(op) {
                Ok(txn) => {
                    size += size_at_least(&txn);
                    entries.push((op.op() as i32, txn));
                }
                Err(code) => {
                    self.overlay.rollback();
                    return Ok(failed(ops.len(), index, code));
                }
            }
            // Before the next one: `auth` ACLs can make a small request a huge transaction.
            if size > limit {
                return Err(ErrorCode::MarshallingError);
            }
        }
        Ok(Txn::Multi(entries))
    }
}

fn failed(count: usize, at: usize, code: ErrorCode) -> Txn {
    let entry = |index: usize| {
        let err = match index.cmp(&at) {
            std::cmp::Ordering::Less => ErrorCode::Ok,
            std::cmp::Ordering::Equal => code,
            std::cmp::Ordering::Greater => ErrorCode::RuntimeInconsistency,
        };
        (OpCode::Error as i32, Txn::Error { err: err as i32 })
    };
    Txn::Multi((0..count).map(entry).collect())
}

/// A lower bound of the bytes that an entry takes.
fn size_at_least(txn: &Txn) -> usize {
    match txn {
        Txn::Create { path, data, acl, .. }
        | Txn::CreateTtl { path, data, acl, .. }
        | Txn::CreateContainer { path, data, acl, .. } => {
            let acl: usize = acl.iter().map(|acl| acl.id.scheme.len() + acl.id.id.len()).sum();
            path.len() + data.as_ref().map_or(0, bytes::Bytes::len) + acl
        }
        Txn::SetData { path, data, .. } => path.len() + data.as_ref().map_or(0, bytes::Bytes::len),
        Txn::Delete { path } | Txn::Check { path, .. } | Txn::SetAcl { path, .. } => path.len(),
        Txn::CreateSession { .. } | Txn::CloseSession { .. } | Txn::Error { .. } | Txn::Multi(_) => 0,
    }
}
