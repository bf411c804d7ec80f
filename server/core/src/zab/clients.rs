//! Which client connection waits for what: the link between a committed transaction and the reply it owes.
//!
//! A reply is matched as upstream's `CommitProcessor` does it: the head of the session's queue, by session and xid, so
//! that a request left over from an earlier connection can never answer a later one. A `sync` stands in the same queue:
//! it is answered after every write before it and before any behind it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use zk_jute::request::Response;
use zk_jute::txn::{LoggedTxn, Txn};
use zk_jute::{ErrorCode, OpCode, SessionId, Zxid};

use crate::effect::{ClientMessage, Effect, Sink};
use crate::input::ConnId;
use crate::tree::Applied;

/// What a request waits for.
#[derive(Debug)]
enum Wanted {
    /// Its own transaction.
    Txn,
    /// That everything up to `after` is applied here; `None` until the leader has said how far that is.
    Sync { path: Arc<str>, after: Option<Zxid> },
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    xid: i32,
    wanted: Wanted,
}

/// A session that waits for its creation or re-attachment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub conn: ConnId,
    pub timeout_ms: i32,
}

/// Connections of this member and what they wait for. Bound: one entry per request that a connection lets be
/// outstanding (`ClientConfig::outstanding_max`) times the number of connections (`maxCnxns`).
#[derive(Debug, Default)]
pub(crate) struct Clients {
    attached: BTreeMap<SessionId, ConnId>,
    sessions: BTreeMap<ConnId, SessionId>,
    waiting: BTreeMap<SessionId, VecDeque<Waiting>>,
    /// Sessions that have a sync in their queue, and how many.
    syncing: BTreeMap<SessionId, usize>,
    creating: BTreeMap<SessionId, Opening>,
    reattaching: BTreeMap<SessionId, Opening>,
    outstanding: u64,
}

impl Clients {
    pub(crate) fn creating(&mut self, session: SessionId, opening: Opening) {
        self.creating.insert(session, opening);
    }

    /// A re-attachment waits for the leader. An earlier one of the same session has lost.
    pub(crate) fn reattaching(&mut self, session: SessionId, opening: Opening, out: &mut dyn Sink) {
        if let Some(older) = self.reattaching.insert(session, opening) {
            Self::tell(older.conn, ClientMessage::Close, out);
        }
    }

    /// The leader has answered a re-attachment.
    pub(crate) fn reattached(&mut self, session: SessionId, valid: bool, out: &mut dyn Sink) {
        let Some(opening) = self.reattaching.remove(&session) else { return };
        if valid {
            self.attach(session, opening, out);
        } else {
            Self::tell(opening.conn, ClientMessage::SessionInvalid, out);
        }
    }

    /// Binds a session to its connection; an older connection of the session is closed, as upstream does.
    pub(crate) fn attach(&mut self, session: SessionId, opening: Opening, out: &mut dyn Sink) {
        if let Some(older) = self.attached.insert(session, opening.conn)
            && older != opening.conn
        {
            self.sessions.remove(&older);
            Self::tell(older, ClientMessage::Close, out);
        }
        self.sessions.insert(opening.conn, session);
        Self::tell(opening.conn, ClientMessage::Established { session, timeout_ms: opening.timeout_ms }, out);
    }

    /// True if `conn` may act for `session`.
    pub(crate) fn owns(&self, conn: ConnId, session: SessionId) -> bool {
        self.attached.get(&session) == Some(&conn)
    }

    /// Remembers who waits for the transaction of this request.
    pub(crate) fn waiting(&mut self, session: SessionId, conn: ConnId, xid: i32) {
        self.outstanding += 1;
        self.waiting.entry(session).or_default().push_back(Waiting { conn, xid, wanted: Wanted::Txn });
    }

    /// Remembers who waits for a sync; `after` if it is known already.
    pub(crate) fn syncing(
        &mut self,
        session: SessionId,
        conn: ConnId,
        xid: i32,
        path: Arc<str>,
        after: Option<Zxid>,
    ) {
        self.outstanding += 1;
        *self.syncing.entry(session).or_default() += 1;
        let wanted = Wanted::Sync { path, after };
        self.waiting.entry(session).or_default().push_back(Waiting { conn, xid, wanted });
    }

    /// The leader has answered the session's oldest open sync: it is done once `reached` is applied here.
    pub(crate) fn settle_sync(&mut self, session: SessionId, reached: Zxid) {
        let open =
            self.waiting.get_mut(&session).into_iter().flatten().find_map(|waiting| {
                match &mut waiting.wanted {
                    Wanted::Sync { after: after @ None, .. } => Some(after),
                    Wanted::Sync { .. } | Wanted::Txn => None,
                }
            });
        if let Some(after) = open {
            *after = Some(reached);
        }
    }

    /// Answers every sync that is its session's next and whose wait is over.
    pub(crate) fn answer_syncs(&mut self, applied: Zxid, out: &mut dyn Sink) {
        let sessions: Vec<SessionId> = self.syncing.keys().copied().collect();
        for session in sessions {
            self.answer_session_syncs(session, applied, out);
        }
    }

    fn answer_session_syncs(&mut self, session: SessionId, applied: Zxid, out: &mut dyn Sink) {
        let Some(queue) = self.waiting.get_mut(&session) else { return };
        while let Some(Waiting { wanted: Wanted::Sync { after: Some(after), .. }, .. }) = queue.front() {
            if *after > applied {
                return;
            }
            let Some(Waiting { conn, xid, wanted: Wanted::Sync { path, .. } }) = queue.pop_front() else {
                return;
            };
            self.outstanding -= 1;
            if let Some(left) = self.syncing.get_mut(&session) {
                *left -= 1;
                if *left == 0 {
                    self.syncing.remove(&session);
                }
            }
            let response = Response::Path(path);
            Self::tell(conn, ClientMessage::Reply { xid, zxid: applied, err: 0, response }, out);
        }
        if queue.is_empty() {
            self.waiting.remove(&session);
        }
    }

    /// A transaction was applied: answer whoever waits for it.
    pub(crate) fn applied(&mut self, txn: &LoggedTxn, applied: &Applied, out: &mut dyn Sink) {
        let session = SessionId(txn.header.client_id);
        if matches!(txn.txn, Txn::CreateSession { .. }) {
            if let Some(opening) = self.creating.remove(&session) {
                self.attach(session, opening, out);
            }
        } else {
            self.answer(session, txn, applied, out);
        }
        // After every transaction, whatever it is: a sync whose wait is over and that still heads its queue would
        // hide the request behind it, and that one's answer would be lost.
        if !self.syncing.is_empty() {
            self.answer_syncs(txn.header.zxid, out);
        }
        if txn.header.op == OpCode::CloseSession as i32 {
            self.session_closed(session, out);
        }
    }

    fn answer(&mut self, session: SessionId, txn: &LoggedTxn, applied: &Applied, out: &mut dyn Sink) {
        let Some(queue) = self.waiting.get_mut(&session) else { return };
        let awaits = |head: &Waiting| head.xid == txn.header.cxid && matches!(head.wanted, Wanted::Txn);
        if !queue.front().is_some_and(awaits) {
            return;
        }
        let Some(head) = queue.pop_front() else { return };
        self.outstanding -= 1;
        if queue.is_empty() {
            self.waiting.remove(&session);
        }
        if applied.err == ErrorCode::SessionMoved as i32 {
            // Upstream drops the connection rather than answer: the client has already moved.
            Self::tell(head.conn, ClientMessage::Close, out);
            return;
        }
        let response = if applied.err == 0 || matches!(applied.response, Response::Multi(_)) {
            applied.response.clone()
        } else {
            Response::Empty
        };
        let zxid = txn.header.zxid;
        Self::tell(head.conn, ClientMessage::Reply { xid: head.xid, zxid, err: applied.err, response }, out);
    }

    fn session_closed(&mut self, session: SessionId, out: &mut dyn Sink) {
        if let Some(conn) = self.attached.remove(&session) {
            self.sessions.remove(&conn);
            Self::tell(conn, ClientMessage::Close, out);
        }
        self.syncing.remove(&session);
        if let Some(queue) = self.waiting.remove(&session) {
            self.outstanding -= queue.len() as u64;
        }
    }

    /// The session goes on at another member.
    pub(crate) fn moved_away(&mut self, session: SessionId, out: &mut dyn Sink) {
        if let Some(conn) = self.attached.remove(&session) {
            self.sessions.remove(&conn);
            Self::tell(conn, ClientMessage::Close, out);
        }
    }

    /// The connection is gone. What it waited for stays queued, so that the order of its session's queue holds, but
    /// is answered to nobody (the adapter drops messages for unknown connections).
    pub(crate) fn disconnected(&mut self, conn: ConnId) {
        if let Some(session) = self.sessions.remove(&conn)
            && self.attached.get(&session) == Some(&conn)
        {
            self.attached.remove(&session);
        }
        self.creating.retain(|_, opening| opening.conn != conn);
        self.reattaching.retain(|_, opening| opening.conn != conn);
    }

    /// Requests not yet answered.
    pub(crate) const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// The role ended: everybody is disconnected.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn tell(conn: ConnId, message: ClientMessage, out: &mut dyn Sink) {
        out.emit(Effect::Client { conn, message });
    }
}

#[cfg(test)]
mod tests {
    use zk_jute::txn::TxnHeader;

    use super::*;

    const CONN: ConnId = ConnId(7);
    const SESSION: SessionId = SessionId(1);

    fn done(clients: &mut Clients, session: SessionId, cxid: i32, zxid: i64, txn: Txn) -> Vec<i32> {
        let op = if matches!(txn, Txn::CreateSession { .. }) { OpCode::CreateSession } else { OpCode::Error };
        let header = TxnHeader { client_id: session.0, cxid, zxid: Zxid(zxid), time: 0, op: op as i32 };
        let applied = Applied {
            err: 0,
            response: Response::Empty,
            events: Vec::new(),
            digest_mismatch: None,
            session: None,
        };
        let mut out = Vec::new();
        clients.applied(&LoggedTxn::new(header, txn, None), &applied, &mut out);
        let answered = |effect: Effect| match effect {
            Effect::Client { message: ClientMessage::Reply { xid, .. }, .. } => Some(xid),
            _ => None,
        };
        out.into_iter().filter_map(answered).collect()
    }

    /// Found by seed 636: the sync waited for the creation of somebody else's session, stayed at the head of its queue
    /// when that was applied, and the answer of the create behind it was lost.
    #[test]
    fn a_sync_that_waits_for_the_creation_of_a_session_hides_no_request_behind_it() {
        let mut clients = Clients::default();
        clients.syncing(SESSION, CONN, 1, Arc::from("/"), Some(Zxid(4)));
        clients.waiting(SESSION, CONN, 2);
        assert_eq!(done(&mut clients, SessionId(2), 0, 4, Txn::CreateSession { timeout_ms: 1 }), [1]);
        assert_eq!(done(&mut clients, SESSION, 2, 5, Txn::Error { err: 0 }), [2]);
        assert_eq!(clients.outstanding(), 0);
    }
}
