//! A learner's part in sessions (upstream `LearnerSessionTracker`, and the data of PING and REVALIDATE in `Learner`,
//! `LearnerHandler` and `Leader`).

use std::collections::BTreeMap;

use bytes::Bytes;
use zk_jute::{DecodeError, Reader, ServerId, SessionId, Writer};

use super::SessionIds;

/// Bytes of one touch on the wire: session and timeout.
const TOUCH_LEN: usize = 8 + 4;

/// Which sessions a learner heard from since its last PING, and the ids of the sessions it creates.
///
/// Bound: one entry a session with a connection to this member, 12 bytes each on the wire.
#[derive(Debug)]
pub struct LearnerSessions {
    ids: SessionIds,
    touched: BTreeMap<SessionId, i32>,
}

impl LearnerSessions {
    /// Nothing touched; ids count from `wall_ms` (milliseconds since 1970).
    pub const fn new(server: ServerId, wall_ms: i64) -> Self {
        Self { ids: SessionIds::new(server, wall_ms), touched: BTreeMap::new() }
    }

    /// An id for a new session that the leader will create; `taken` tells which ids the tree holds.
    pub fn next_id(&mut self, taken: impl Fn(SessionId) -> bool) -> SessionId {
        self.ids.next(taken)
    }

    /// The session was heard from; `timeout_ms` is what it negotiated.
    pub fn touch(&mut self, session: SessionId, timeout_ms: i32) {
        self.touched.insert(session, timeout_ms);
    }

    /// The session is closed: it must not be touched again.
    pub fn remove(&mut self, session: SessionId) {
        self.touched.remove(&session);
    }

    /// Everything touched since the last call, for the answer to the leader's PING.
    pub fn drain(&mut self) -> Vec<(SessionId, i32)> {
        std::mem::take(&mut self.touched).into_iter().collect()
    }
}

/// Data of a learner's PING: every touched session with its timeout in milliseconds.
pub fn encode_ping(touched: &[(SessionId, i32)]) -> Bytes {
    Writer::build(|w| {
        for (session, timeout_ms) in touched {
            w.i64(session.0);
            w.i32(*timeout_ms);
        }
    })
}

/// Reads what [`encode_ping`] writes; the leader's own PING has no data.
///
/// # Errors
/// Data that ends inside an entry.
pub fn decode_ping(data: Option<&Bytes>) -> Result<Vec<(SessionId, i32)>, DecodeError> {
    let Some(data) = data else { return Ok(Vec::new()) };
    let mut r = Reader::new(data.clone());
    let mut touched = Vec::with_capacity(data.len() / TOUCH_LEN);
    while r.remaining() > 0 {
        touched.push((SessionId(r.i64()?), r.i32()?));
    }
    Ok(touched)
}

/// Data of a learner's REVALIDATE: may this session go on here, for another `timeout_ms`?
pub fn encode_revalidate(session: SessionId, timeout_ms: i32) -> Bytes {
    Writer::build(|w| {
        w.i64(session.0);
        w.i32(timeout_ms);
    })
}

/// Reads what [`encode_revalidate`] writes.
///
/// # Errors
/// Data that is too short.
pub fn decode_revalidate(data: &Bytes) -> Result<(SessionId, i32), DecodeError> {
    let mut r = Reader::new(data.clone());
    Ok((SessionId(r.i64()?), r.i32()?))
}

/// Data of the leader's answer to REVALIDATE.
pub fn encode_revalidate_reply(session: SessionId, valid: bool) -> Bytes {
    Writer::build(|w| {
        w.i64(session.0);
        w.bool(valid);
    })
}

/// Reads what [`encode_revalidate_reply`] writes.
///
/// # Errors
/// Data that is too short.
pub fn decode_revalidate_reply(data: &Bytes) -> Result<(SessionId, bool), DecodeError> {
    let mut r = Reader::new(data.clone());
    Ok((SessionId(r.i64()?), r.bool()?))
}
