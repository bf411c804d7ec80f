//! The request side of whoever orders writes: a leader or a standalone server (upstream `PrepRequestProcessor`,
//! `SessionTracker`, `ContainerManager` together).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, OpCode, ServerId, SessionId, Zxid};

use super::base::{Ctx, Leave};
use super::clients::{Clients, Opening};
use crate::effect::{ClientMessage, Observation};
use crate::input::{ClientCommand, ClientRequest, ConnId, LinkId};
use crate::pipeline::containers::{ContainerManager, delete_request};
use crate::pipeline::{Prep, ProposedRequest};
use crate::session::SessionTracker;
use crate::time::Instant;

/// Counters left in an epoch when a leader begins to resign: as many as [`ZXID_HEADROOM`] more, so that what is on its way
/// can still be committed before nothing more is given out.
const ZXID_RESIGN: u32 = 2 * ZXID_HEADROOM;

/// Counters left in an epoch when a leader gives up in good order, long before it would have to (ZOOKEEPER-1277, 2789).
const ZXID_HEADROOM: u32 = 0x1_0000;

/// Orders writes and owns the sessions.
#[derive(Debug)]
pub(crate) struct Primary {
    prep: Prep,
    sessions: SessionTracker,
    containers: ContainerManager,
    last_zxid: Zxid,
    /// Learners' syncs that wait for a transaction to be committed. Bound: part of the requests outstanding.
    syncs: VecDeque<(Zxid, LinkId)>,
}

impl Primary {
    /// Takes over the sessions of the tree, each with its full timeout from now: nobody knows when they were last heard
    /// from. `last_zxid` is the zxid before the first that will be given out.
    pub(crate) fn new(ctx: &mut Ctx<'_>, last_zxid: Zxid) -> Self {
        let config = &ctx.base.config;
        let tree = ctx.base.shared.tree.read();
        let mut sessions = SessionTracker::new(config.my_id, config.tick_ms, ctx.now);
        for (session, timeout_ms) in tree.sessions() {
            sessions.add(session, timeout_ms, ctx.now);
        }
        let mut prep = Prep::new(config.rules.clone());
        prep.reset(&tree);
        let containers = ContainerManager::new(&config.rules, ctx.now);
        Self { prep, sessions, containers, last_zxid, syncs: VecDeque::new() }
    }

    /// Turns one request into transactions and appends them. Failed writes become error transactions: they take a
    /// zxid too.
    pub(crate) fn submit(
        &mut self,
        ctx: &mut Ctx<'_>,
        request: &ProposedRequest,
    ) -> Result<Vec<Arc<LoggedTxn>>, Leave> {
        let next = self.next_zxid(ctx)?;
        let shared = Arc::clone(&ctx.base.shared);
        let tree = shared.tree.read();
        let txns = self.prep.prepare(&tree, &mut self.sessions, ctx.now, next, request);
        drop(tree);
        let mut proposed = Vec::with_capacity(txns.len());
        for txn in txns {
            self.last_zxid = txn.header.zxid;
            let txn = Arc::new(txn);
            ctx.append(Arc::clone(&txn));
            proposed.push(txn);
        }
        Ok(proposed)
    }

    /// A server of its own has nobody to agree on an epoch with: it goes on in the next one, as upstream's counter does
    /// when it overflows.
    fn next_zxid(&self, ctx: &Ctx<'_>) -> Result<Zxid, Leave> {
        let used_up = self.last_zxid.counter() > u32::MAX - ZXID_HEADROOM;
        let next = match self.last_zxid.epoch().0.checked_add(1) {
            Some(epoch) if used_up && ctx.base.config.membership.is_none() => {
                Some(Zxid::new(Epoch(epoch), 1))
            }
            _ if used_up => None,
            _ => self.last_zxid.next_in_epoch(),
        };
        next.ok_or_else(|| Leave::because("the epoch's zxids are nearly used up: a new epoch is needed"))
    }

    /// True if it is time for another leader, and another epoch.
    pub(crate) const fn is_nearly_used_up(&self) -> bool {
        self.last_zxid.counter() > u32::MAX - ZXID_RESIGN
    }

    #[cfg(test)]
    pub(super) const fn skip_to(&mut self, zxid: Zxid) {
        self.last_zxid = zxid;
    }

    /// Transactions were applied: their pending changes are in the tree now.
    pub(crate) fn applied(&mut self, txns: &[Arc<LoggedTxn>]) {
        let Some(last) = txns.last() else { return };
        self.prep.committed(last.header.zxid);
        for txn in txns {
            if txn.header.op == OpCode::CloseSession as i32 {
                self.sessions.remove(SessionId(txn.header.client_id));
            }
        }
    }

    /// Requests that time itself asks for: sessions that expired, containers and TTL nodes that are due.
    pub(crate) fn due(&mut self, ctx: &mut Ctx<'_>) -> Vec<ProposedRequest> {
        let owner = ctx.base.my_id();
        let op = OpCode::CloseSession as i32;
        let mut requests = Vec::new();
        for session in self.sessions.expired(ctx.now) {
            ctx.observe(Observation::SessionExpired(session));
            requests.push(ProposedRequest {
                session,
                cxid: 0,
                op,
                body: Bytes::new(),
                auth: Vec::new(),
                owner,
            });
        }
        let tree = ctx.base.shared.tree.read();
        requests.extend(self.containers.due(&tree, ctx.now).iter().map(|path| delete_request(path, owner)));
        requests
    }

    /// When [`Self::due`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        [self.sessions.next_deadline(), Some(self.containers.next_deadline())].into_iter().flatten().min()
    }

    /// A session was heard from through a learner.
    pub(crate) fn touch(&mut self, session: SessionId, timeout_ms: i32, ctx: &Ctx<'_>) -> bool {
        self.sessions.touch(session, timeout_ms, ctx.now)
    }

    /// A session wants to go on at `owner`. False if it is not known any more. A connection that it leaves behind here is
    /// closed, so that it reads and watches nothing more in the session's name; upstream does so at its next request.
    pub(crate) fn revalidate(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        owner: ServerId,
        ctx: &mut Ctx<'_>,
    ) -> bool {
        let valid = self.sessions.touch(session, timeout_ms, ctx.now)
            && self.sessions.set_owner(session, owner).is_ok();
        if valid && owner != ctx.base.my_id() {
            ctx.base.clients.moved_away(session, ctx.out);
        }
        valid
    }

    /// Number of sessions.
    pub(crate) fn session_count(&self) -> u64 {
        self.sessions.len() as u64
    }

    /// Handles one command of a client connected to this member; returns what was proposed for it.
    pub(crate) fn client(
        &mut self,
        ctx: &mut Ctx<'_>,
        conn: ConnId,
        command: ClientCommand,
    ) -> Result<Vec<Arc<LoggedTxn>>, Leave> {
        match command {
            ClientCommand::CreateSession { timeout_ms } => self.create_session(ctx, conn, timeout_ms),
            ClientCommand::Reattach { session, timeout_ms } => {
                self.reattach(ctx, session, Opening { conn, timeout_ms });
                Ok(Vec::new())
            }
            ClientCommand::Request(request) => self.client_request(ctx, conn, request),
            ClientCommand::Touch { session, timeout_ms } => {
                self.sessions.touch(session, timeout_ms, ctx.now);
                Ok(Vec::new())
            }
            ClientCommand::Disconnected => {
                ctx.base.clients.disconnected(conn);
                Ok(Vec::new())
            }
        }
    }

    fn create_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        conn: ConnId,
        timeout_ms: i32,
    ) -> Result<Vec<Arc<LoggedTxn>>, Leave> {
        let session = self.sessions.create(timeout_ms, ctx.now);
        ctx.base.clients.creating(session, Opening { conn, timeout_ms });
        let body = Bytes::copy_from_slice(&timeout_ms.to_be_bytes());
        let owner = ctx.base.my_id();
        let op = OpCode::CreateSession as i32;
        self.submit(ctx, &ProposedRequest { session, cxid: 0, op, body, auth: Vec::new(), owner })
    }

    fn reattach(&mut self, ctx: &mut Ctx<'_>, session: SessionId, opening: Opening) {
        let owner = ctx.base.my_id();
        if self.revalidate(session, opening.timeout_ms, owner, ctx) {
            ctx.base.clients.attach(session, opening, ctx.out);
        } else {
            Clients::tell(opening.conn, ClientMessage::SessionInvalid, ctx.out);
        }
    }

    fn client_request(
        &mut self,
        ctx: &mut Ctx<'_>,
        conn: ConnId,
        request: ClientRequest,
    ) -> Result<Vec<Arc<LoggedTxn>>, Leave> {
        if !ctx.base.clients.owns(conn, request.session) {
            Clients::tell(conn, ClientMessage::Close, ctx.out);
            return Ok(Vec::new());
        }
        if request.op == OpCode::Sync as i32 {
            let (after, applied) = (self.last_proposed(ctx), ctx.base.journal.applied);
            let path = sync_path(&request.body);
            ctx.base.clients.syncing(request.session, conn, request.xid, path, Some(after));
            ctx.base.clients.answer_syncs(applied, ctx.out);
            return Ok(Vec::new());
        }
        ctx.base.clients.waiting(request.session, conn, request.xid);
        let owner = ctx.base.my_id();
        let ClientRequest { session, xid, op, body, auth } = request;
        self.submit(ctx, &ProposedRequest { session, cxid: xid, op, body, auth, owner })
    }

    /// The last transaction of this leadership, or what was applied before it if there is none yet.
    fn last_proposed(&self, ctx: &Ctx<'_>) -> Zxid {
        if self.last_zxid.counter() == 0 { ctx.base.journal.applied } else { self.last_zxid }
    }

    /// A learner asks for a sync on behalf of its client.
    pub(crate) fn learner_sync(&mut self, ctx: &Ctx<'_>, link: LinkId) {
        self.syncs.push_back((self.last_proposed(ctx), link));
    }

    /// Learners whose sync is over: the COMMIT of everything proposed before it is in their queue, and nothing later.
    pub(crate) fn ready_syncs(&mut self, committed: Zxid) -> Vec<LinkId> {
        let mut learners = Vec::new();
        while let Some((_, link)) = self.syncs.pop_front_if(|(after, _)| *after <= committed) {
            learners.push(link);
        }
        learners
    }
}

/// The path of a sync request; it is only ever echoed.
pub(crate) fn sync_path(body: &Bytes) -> Arc<str> {
    match zk_jute::request::Request::decode(OpCode::Sync, &mut zk_jute::Reader::new(body.clone())) {
        Ok(zk_jute::request::Request::Sync { path }) => path,
        _ => "".into(),
    }
}
