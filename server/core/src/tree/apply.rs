//! Applying transactions (upstream `DataTree.processTxn`).

use std::sync::Arc;
use zk_jute::consts::ErrorCode;
use zk_jute::request::{MultiResult, Response, WatcherEvent};
use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{OpCode, SessionId, Zxid};

use super::change::Outcome;
use super::digest::{AwaitedDigest, DIGEST_VERSION, DigestLog};
use super::ephemeral::{CONTAINER_OWNER, EphemeralType, MAX_TTL_MS};
use super::{DataTree, path};
use crate::input::ConnId;
use crate::watch::WatchManager;

/// What a transaction did.
#[derive(Clone, PartialEq, Debug)]
pub struct Applied {
    /// Error for the header of the answer (upstream `KeeperException.Code`). 0 for a failed multi: its entries tell.
    pub err: i32,
    /// What the client that asked for the write gets; [`Response::Empty`] if `err` is not 0.
    pub response: Response,
    /// Watches that fired, already filtered by the right to read, in the order to send. Their zxid is the transaction's.
    pub events: Vec<(ConnId, WatcherEvent)>,
    /// Expected and actual tree digest if they differ: this member may have diverged, and that must be reported.
    pub digest_mismatch: Option<(i64, i64)>,
    /// A session that began or ended.
    pub session: Option<SessionChange>,
}

/// What happened to the session table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionChange {
    Created { session: SessionId, timeout_ms: i32 },
    Closed { session: SessionId },
}

impl DataTree {
    /// Applies one committed transaction: the tree, the sessions, the digest and [`Self::last_processed`].
    ///
    /// Replaying over a fuzzy image of an upstream server is tolerated as upstream does it: `cversion` and `pzxid` never go
    /// back, a node that is already there or already gone is an error code in the result and nothing worse, and what is
    /// below a deleted node goes with it: it can only have been made later, by a transaction that is replayed too.
    ///
    /// # Panics
    /// If the transaction is not newer than the last one.
    pub fn apply(&mut self, logged: &LoggedTxn, watches: &mut WatchManager) -> Applied {
        let zxid = logged.header.zxid;
        assert!(
            zxid > self.last_processed,
            "transaction {zxid} offered to a tree that is at {}",
            self.last_processed
        );
        let mut events = Vec::new();
        let mut session = None;
        let (err, response) = match &logged.txn {
            Txn::Multi(entries) => (0, self.apply_multi(&logged.header, entries, watches, &mut events)),
            Txn::CreateSession { timeout_ms } => {
                let id = SessionId(logged.header.client_id);
                self.sessions.insert(id, *timeout_ms);
                session = Some(SessionChange::Created { session: id, timeout_ms: *timeout_ms });
                (0, Response::Empty)
            }
            Txn::CloseSession { paths } => {
                let id = SessionId(logged.header.client_id);
                self.close_session(id, zxid, paths.as_deref().unwrap_or_default(), watches, &mut events);
                session = Some(SessionChange::Closed { session: id });
                (0, Response::Empty)
            }
            txn => match self.apply_one(&logged.header, logged.header.op, txn, watches, &mut events) {
                Ok(response) => (0, response),
                Err(err) => (err, Response::Empty),
            },
        };
        self.last_processed = zxid;
        let digest_mismatch = self.settle_digest(logged);
        Applied { err, response, events, digest_mismatch, session }
    }

    /// Whether the image that this tree was just loaded from is what its digest says, told by the transactions of the
    /// `log` after it; they are applied to a copy only, and no further than needed. What a Java server writes under
    /// writes passes, whatever it wrote meanwhile, as soon as a logged digest behind the last change agrees.
    ///
    /// # Errors
    /// The digests that disagree, or that the log ends before it settles the question: the image must not be used.
    pub fn confirm(&self, log: &[LoggedTxn]) -> Result<(), String> {
        let Some(mut awaited) = self.awaited_digest else { return Ok(()) };
        let mut trial = self.clone();
        for txn in log {
            let mismatch = trial.apply(txn, &mut WatchManager::default()).digest_mismatch;
            if let Some(still) = trial.awaited_digest {
                awaited = still;
                continue;
            }
            return match mismatch {
                // At the very zxid of the image the nodes are right, and what differs is the log: that is divergence of
                // the member that wrote both, to be reported when the transaction is applied.
                Some((expected, actual)) if txn.zxid() > awaited.at => Err(format!(
                    "{awaited}, and {} should then give {expected:#x} and gives {actual:#x}",
                    txn.zxid()
                )),
                _ => Ok(()),
            };
        }
        trial.unproven().map_or(Ok(()), Err)
    }

    /// Logs the digest after a transaction and compares it with what its leader predicted.
    fn settle_digest(&mut self, logged: &LoggedTxn) -> Option<(i64, i64)> {
        let (zxid, actual) = (logged.header.zxid, self.digest());
        let expected = logged.digest.filter(|digest| digest.version == DIGEST_VERSION).map(|d| d.tree_digest);
        if let Some(AwaitedDigest { at, digest, .. }) = self.awaited_digest {
            if zxid < at {
                return None;
            }
            let settled = if zxid == at {
                [Some(digest), expected].contains(&Some(actual))
            } else {
                expected.is_some()
            };
            if !settled {
                if zxid == at {
                    self.awaited_digest = Some(AwaitedDigest { at, digest, found: Some(actual) });
                }
                return None;
            }
            self.awaited_digest = None;
        }
        if DigestLog::wants(zxid) {
            Arc::make_mut(&mut self.digest_log).push(zxid, actual);
        }
        expected.filter(|expected| *expected != actual).map(|expected| (expected, actual))
    }

    /// One change that may also be an entry of a multi. `op` is the header's or the entry's code.
    fn apply_one(
        &mut self,
        header: &TxnHeader,
        op: i32,
        txn: &Txn,
        watches: &mut WatchManager,
        events: &mut Vec<(ConnId, WatcherEvent)>,
    ) -> Result<Response, i32> {
        let mut outcome = Outcome { zxid: header.zxid.0, time: header.time, watches, events };
        let done = match txn {
            Txn::Create { path, data, acl, ephemeral, parent_cversion } => {
                let owner = if *ephemeral { header.client_id } else { 0 };
                let made = self.create(path, data.as_deref(), acl, owner, *parent_cversion, &mut outcome);
                let made = self.tolerate_existing(made, op, path, *parent_cversion, header.zxid);
                made.map(|stat| {
                    let path = path.clone();
                    if op == OpCode::Create as i32 {
                        Response::Path(path)
                    } else {
                        Response::PathStat(path, stat)
                    }
                })
            }
            Txn::CreateTtl { path, data, acl, parent_cversion, ttl } => {
                let owner = EphemeralType::ttl_owner((*ttl).clamp(1, MAX_TTL_MS)).unwrap_or_default();
                self.create(path, data.as_deref(), acl, owner, *parent_cversion, &mut outcome)
                    .map(|stat| Response::PathStat(path.clone(), stat))
            }
            Txn::CreateContainer { path, data, acl, parent_cversion } => self
                .create(path, data.as_deref(), acl, CONTAINER_OWNER, *parent_cversion, &mut outcome)
                .map(|stat| Response::PathStat(path.clone(), stat)),
            Txn::Delete { path } => self.delete(path, &mut outcome).map(|()| Response::Empty),
            Txn::SetData { path, data, version } => {
                self.set_data(path, data.as_deref(), *version, &mut outcome).map(|stat| {
                    let reconfig = op == OpCode::Reconfig as i32;
                    if reconfig { Response::Data(data.clone(), stat) } else { Response::Stat(stat) }
                })
            }
            Txn::SetAcl { path, acl, version } => self.set_acl(path, acl, *version).map(Response::Stat),
            Txn::Check { .. } => Ok(Response::Empty),
            Txn::Error { err } => return Err(*err),
            Txn::CreateSession { .. } | Txn::CloseSession { .. } | Txn::Multi(_) => {
                Err(ErrorCode::Unimplemented)
            }
        };
        done.map_err(|code| code as i32)
    }

    /// A replayed `create` that finds its node still lifts the parent: the image may hold the node of a later
    /// session under the same path (upstream `DataTree.setCversionPzxid`). Upstream does it for code 1 only.
    fn tolerate_existing<T>(
        &mut self,
        made: Result<T, ErrorCode>,
        op: i32,
        path: &str,
        parent_cversion: i32,
        zxid: Zxid,
    ) -> Result<T, ErrorCode> {
        if matches!(made, Err(ErrorCode::NodeExists))
            && op == OpCode::Create as i32
            && let Some(parent) = path::parent(path)
        {
            self.change(parent, |parent| parent.lift_cversion(parent_cversion, zxid.0));
        }
        made
    }

    /// All entries, or none if one of them is an error: then those before it report 0, those after it
    /// `RuntimeInconsistency`.
    fn apply_multi(
        &mut self,
        header: &TxnHeader,
        entries: &[(i32, Txn)],
        watches: &mut WatchManager,
        events: &mut Vec<(ConnId, WatcherEvent)>,
    ) -> Response {
        let failed = entries.iter().any(|(_, txn)| matches!(txn, Txn::Error { .. }));
        let mut behind = false;
        let results = entries.iter().map(|(op, txn)| match txn {
            Txn::Error { err } => {
                behind = true;
                MultiResult::Error(*err)
            }
            _ if failed => {
                MultiResult::Error(if behind { ErrorCode::RuntimeInconsistency as i32 } else { 0 })
            }
            txn => match self.apply_one(header, *op, txn, watches, events) {
                Ok(response) => MultiResult::Ok(result_code(txn, &response), response),
                Err(err) => MultiResult::Error(err),
            },
        });
        Response::Multi(results.collect())
    }

    /// Ends a session: first the nodes that the leader listed, then whatever else it owns here.
    fn close_session(
        &mut self,
        session: SessionId,
        zxid: Zxid,
        listed: &[Arc<str>],
        watches: &mut WatchManager,
        events: &mut Vec<(ConnId, WatcherEvent)>,
    ) {
        self.sessions.remove(&session);
        let owned = self.ephemerals.remove(&session).unwrap_or_default();
        let mut outcome = Outcome { zxid: zxid.0, time: 0, watches, events };
        for path in listed {
            // A node that is already gone was deleted by an earlier transaction of the same batch: nothing to do.
            let _ = self.delete(path, &mut outcome);
        }
        for path in owned.iter() {
            if self.node(path).is_some() {
                let _ = self.delete(path, &mut outcome);
            }
        }
    }
}

/// Type of a successful multi entry on the wire.
fn result_code(txn: &Txn, response: &Response) -> OpCode {
    match (txn, response) {
        (Txn::Create { .. }, Response::Path(_)) => OpCode::Create,
        (Txn::Create { .. } | Txn::CreateTtl { .. } | Txn::CreateContainer { .. }, _) => OpCode::Create2,
        (Txn::Delete { .. }, _) => OpCode::Delete,
        (Txn::SetData { .. }, _) => OpCode::SetData,
        (Txn::SetAcl { .. }, _) => OpCode::SetAcl,
        (Txn::Check { .. }, _) => OpCode::Check,
        (Txn::CreateSession { .. } | Txn::CloseSession { .. } | Txn::Multi(_) | Txn::Error { .. }, _) => {
            OpCode::Error
        }
    }
}
