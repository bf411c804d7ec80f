//! Turns requests into transactions (upstream `PrepRequestProcessor`).
//!
//! Every check happens here, once, on the leader, against the tree as it will be when everything outstanding is applied:
//! [`overlay::Overlay`] over the committed tree. What leaves is unconditional, so members can only agree. A request that
//! fails a check becomes an error transaction, because failed writes take a zxid too. Nothing leaves that a member could
//! not read back from its log or its leader (invariant 11), and each transaction carries the digest that the tree must
//! have after it (invariant 13).

mod close_session;
mod multi;
mod overlay;
mod write;

use bytes::Bytes;
use zk_jute::records::Id;
use zk_jute::request::Request;
use zk_jute::txn::{LoggedTxn, Txn, TxnDigest, TxnHeader};
use zk_jute::{ErrorCode, OpCode, Reader, ServerId, SessionId, Zxid};

use self::overlay::Overlay;
use crate::config::Rules;
use crate::session::SessionTracker;
use crate::time::Now;
use crate::tree::{DIGEST_VERSION, DataTree};

pub use self::close_session::SPLIT_CXID;
pub use self::overlay::OUTSTANDING_RECORD_OVERHEAD;

/// Longest transaction that is proposed, in bytes: what every member reads back from its log and from its leader with
/// upstream's defaults (`jute.maxbuffer` + `zookeeper.jute.maxbuffer.extrasize`, which is as much again and never below
/// 1024). A request of `max_buffer` bytes needs about 60 more as a transaction; sequence numbers (10 bytes a create)
/// and `auth` ACLs (one entry an identity) may add to that.
pub const fn txn_limit(max_buffer: usize) -> usize {
    let extra = if max_buffer < 1024 { 1024 } else { max_buffer };
    max_buffer + extra
}

/// A request as the leader received it, from its own client or through a learner.
#[derive(Clone, Debug)]
pub struct ProposedRequest {
    /// 0 for the server's own requests.
    pub session: SessionId,
    /// The client's xid.
    pub cxid: i32,
    /// Raw operation code.
    pub op: i32,
    /// The request record as the client sent it.
    pub body: Bytes,
    /// Identities of the client's connection.
    pub auth: Vec<Id>,
    /// The member that the client is connected to.
    pub owner: ServerId,
}

/// Prepares requests in the order in which they will be committed.
///
/// Its only state is the overlay: one record a node changed by an outstanding transaction. Bound: the leader's limit of
/// outstanding proposals times the nodes one of them changes.
#[derive(Debug)]
pub struct Prep {
    rules: Rules,
    overlay: Overlay,
}

/// What the checks of one transaction look at.
struct Step<'a> {
    rules: &'a Rules,
    overlay: &'a mut Overlay,
    tree: &'a DataTree,
    sessions: &'a mut SessionTracker,
    request: &'a ProposedRequest,
    zxid: Zxid,
    now: Now,
}

impl Prep {
    /// Nothing outstanding.
    pub fn new(rules: Rules) -> Self {
        Self { overlay: Overlay::new(rules.digest_enabled), rules }
    }

    /// Forgets everything outstanding, at the start of leadership.
    pub fn reset(&mut self, tree: &DataTree) {
        self.overlay = Overlay::new(self.rules.digest_enabled);
        self.overlay.begin(tree);
    }

    /// Everything up to `zxid` is applied to the tree: the overlay holds nothing of it any more.
    pub fn committed(&mut self, zxid: Zxid) {
        self.overlay.committed(zxid);
    }

    /// Changes of nodes that are outstanding.
    pub fn outstanding_changes(&self) -> usize {
        self.overlay.len()
    }

    /// The transactions of one request, with consecutive zxids from `next_zxid`, all to be proposed at once. Nearly
    /// always one; more only when a session with very many ephemerals closes. Never empty.
    ///
    /// `tree` must hold exactly the committed transactions. `now.wall_ms` becomes the transactions' time.
    ///
    /// # Panics
    /// If the zxid's counter is exhausted before the last transaction: a leader hands over long before.
    pub fn prepare(
        &mut self,
        tree: &DataTree,
        sessions: &mut SessionTracker,
        now: Now,
        next_zxid: Zxid,
        request: &ProposedRequest,
    ) -> Vec<LoggedTxn> {
        self.overlay.begin(tree);
        let mut step = Step {
            rules: &self.rules,
            overlay: &mut self.overlay,
            tree,
            sessions,
            request,
            zxid: next_zxid,
            now,
        };
        if request.op == OpCode::CloseSession as i32 { step.close_session() } else { vec![step.single()] }
    }
}

impl Step<'_> {
    /// A request that becomes one transaction, whatever comes of it.
    fn single(&mut self) -> LoggedTxn {
        self.overlay.checkpoint();
        let made = self.decode().and_then(|request| self.dispatch(&request)).and_then(|txn| {
            let logged = self.log(self.request.op, self.request.cxid, txn);
            // Exact at last; `multi` has stopped before anything much larger could be built.
            let fits = logged.bytes.len() <= txn_limit(self.rules.max_buffer);
            if fits { Ok(logged) } else { Err(ErrorCode::MarshallingError) }
        });
        made.unwrap_or_else(|code| {
            self.overlay.rollback();
            self.error(code)
        })
    }

    fn decode(&self) -> Result<Request, ErrorCode> {
        let op = OpCode::from_i32(self.request.op).ok_or(ErrorCode::Unimplemented)?;
        let mut reader = Reader::new(self.request.body.clone());
        Request::decode(op, &mut reader).map_err(|_| ErrorCode::MarshallingError)
    }

    fn dispatch(&mut self, request: &Request) -> Result<Txn, ErrorCode> {
        match request {
            Request::Multi(ops) => self.multi(ops),
            // Upstream logs a check only inside a multi.
            Request::Check { .. } => Err(ErrorCode::Unimplemented),
            Request::SetAcl { path, acl, version } => self.set_acl(path, acl.as_deref(), *version),
            Request::DeleteContainer { path } => self.delete_container(path),
            Request::CreateSession { timeout_ms } => Ok(self.create_session(*timeout_ms)),
            Request::Reconfig { .. } => self.reconfig(),
            other => self.change(other),
        }
    }

    /// The operations that may stand alone or in a multi.
    fn change(&mut self, request: &Request) -> Result<Txn, ErrorCode> {
        match request {
            Request::Create(create) => self.create(create),
            Request::Delete { path, version } => self.delete(path, *version),
            Request::SetData { path, data, version } => self.set_data(path, data.as_ref(), *version),
            Request::Check { path, version } => self.check(path, *version),
            Request::Exists { .. }
            | Request::GetData { .. }
            | Request::GetAcl { .. }
            | Request::SetAcl { .. }
            | Request::GetChildren { .. }
            | Request::GetChildren2 { .. }
            | Request::Sync { .. }
            | Request::Ping
            | Request::Multi(_)
            | Request::MultiRead(_)
            | Request::Reconfig { .. }
            | Request::CheckWatches { .. }
            | Request::RemoveWatches { .. }
            | Request::DeleteContainer { .. }
            | Request::Auth { .. }
            | Request::SetWatches { .. }
            | Request::SetWatches2 { .. }
            | Request::Sasl { .. }
            | Request::GetEphemerals { .. }
            | Request::GetAllChildrenNumber { .. }
            | Request::AddWatch { .. }
            | Request::WhoAmI
            | Request::CreateSession { .. }
            | Request::CloseSession => Err(ErrorCode::Unimplemented),
        }
    }

    /// A transaction with the digest that the tree will have after it.
    fn log(&self, op: i32, cxid: i32, txn: Txn) -> LoggedTxn {
        let digest = self
            .rules
            .digest_enabled
            .then(|| TxnDigest { version: DIGEST_VERSION, tree_digest: self.overlay.digest() });
        LoggedTxn::new(self.header(op, cxid), txn, digest)
    }

    /// A failed write. Upstream logs it without a digest.
    fn error(&self, code: ErrorCode) -> LoggedTxn {
        let header = self.header(OpCode::Error as i32, self.request.cxid);
        LoggedTxn::new(header, Txn::Error { err: code as i32 }, None)
    }

    const fn header(&self, op: i32, cxid: i32) -> TxnHeader {
        TxnHeader { client_id: self.request.session.0, cxid, zxid: self.zxid, time: self.now.wall_ms, op }
    }

    fn check_session(&mut self) -> Result<(), ErrorCode> {
        self.sessions.check(self.request.session, self.request.owner)
    }
}
