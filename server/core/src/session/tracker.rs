//! The leader's view of every session (upstream `SessionTrackerImpl`, `ExpiryQueue`, `LeaderSessionTracker`).
//!
//! Deadlines are rounded up to the next multiple of a tick and sessions expire a bucket at a time, so a session gets up to
//! one tick of grace and a touch seldom moves it. Time is the monotonic clock: a wall clock that jumps expires nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use zk_jute::{ErrorCode, ServerId, SessionId};

use super::SessionIds;
use crate::time::{Instant, Now};

/// Sessions that one call of [`SessionTracker::expired`] may return. Bounds the burst of `closeSession` transactions after
/// a partition heals: 1024 x about 60 bytes.
const MAX_EXPIRED_PER_CALL: usize = 1024;

/// One session as `dump` and the admin server show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionInfo {
    pub session: SessionId,
    /// Milliseconds, as negotiated.
    pub timeout_ms: i32,
    /// When it expires if it is not heard from; a multiple of the tick.
    pub expires: Instant,
    /// The member its client is connected to, once that is known.
    pub owner: Option<ServerId>,
    /// Its `closeSession` is under way.
    pub closing: bool,
}

#[derive(Debug)]
struct Entry {
    timeout_ms: i32,
    /// Key into `buckets`, or `None` while closing: a closing session cannot expire again.
    bucket_ms: Option<u64>,
    owner: Option<ServerId>,
    closing: bool,
}

/// Every open session with its deadline, its owner and whether it is being closed.
///
/// Bound: one entry an open session, as many as `createSession` transactions were committed and not closed.
#[derive(Debug)]
pub struct SessionTracker {
    tick_ms: u64,
    ids: SessionIds,
    sessions: HashMap<SessionId, Entry, FixedState>,
    /// Deadline in milliseconds of the monotonic clock -> who expires then. Ordered, so that expiry is deterministic.
    buckets: BTreeMap<u64, BTreeSet<SessionId>>,
}

impl SessionTracker {
    /// No sessions yet. `tick_ms` is at least 1.
    pub fn new(server: ServerId, tick_ms: u64, now: Now) -> Self {
        assert!(tick_ms > 0, "tickTime must be positive");
        Self {
            tick_ms,
            ids: SessionIds::new(server, now.wall_ms),
            sessions: HashMap::default(),
            buckets: BTreeMap::new(),
        }
    }

    /// Takes in a new session of a client of this member and returns its id.
    pub fn create(&mut self, timeout_ms: i32, now: Now) -> SessionId {
        let sessions = &self.sessions;
        let session = self.ids.next(|id| sessions.contains_key(&id));
        self.add(session, timeout_ms, now);
        session
    }

    /// Takes in a session that the tree holds or that a learner's client creates; one that is known is touched.
    pub fn add(&mut self, session: SessionId, timeout_ms: i32, now: Now) {
        self.sessions.entry(session).or_insert(Entry {
            timeout_ms,
            bucket_ms: None,
            owner: None,
            closing: false,
        });
        self.touch(session, timeout_ms, now);
    }

    /// The session was heard from and may live `timeout_ms` more. False if it is unknown or being closed.
    pub fn touch(&mut self, session: SessionId, timeout_ms: i32, now: Now) -> bool {
        let bucket_ms = self.bucket(timeout_ms, now);
        let Some(entry) = self.sessions.get_mut(&session).filter(|entry| !entry.closing) else {
            return false;
        };
        if entry.bucket_ms == Some(bucket_ms) {
            return true;
        }
        let previous = entry.bucket_ms.replace(bucket_ms);
        if let Some(previous) = previous {
            self.leave_bucket(session, previous);
        }
        self.buckets.entry(bucket_ms).or_default().insert(session);
        true
    }

    /// Sessions whose time is over, now closing: the caller proposes a `closeSession` for each. At most 1024 a call; the
    /// rest keeps [`Self::next_deadline`] in the past.
    pub fn expired(&mut self, now: Now) -> Vec<SessionId> {
        let now_ms = now.mono.0 / 1_000_000;
        let mut expired = Vec::new();
        while let Some(mut bucket) = self.buckets.first_entry().filter(|bucket| *bucket.key() <= now_ms) {
            while expired.len() < MAX_EXPIRED_PER_CALL
                && let Some(session) = bucket.get_mut().pop_first()
            {
                expired.push(session);
            }
            if !bucket.get().is_empty() {
                break;
            }
            bucket.remove();
        }
        for session in &expired {
            let entry = self.sessions.get_mut(session).expect("a bucket must hold known sessions only");
            entry.closing = true;
            entry.bucket_ms = None;
        }
        expired
    }

    /// When the next session expires unless it is touched before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.buckets.first_key_value().map(|(bucket_ms, _)| from_ms(*bucket_ms))
    }

    /// Forgets a session; its `closeSession` is committed.
    pub fn remove(&mut self, session: SessionId) {
        if let Some(bucket_ms) = self.sessions.remove(&session).and_then(|entry| entry.bucket_ms) {
            self.leave_bucket(session, bucket_ms);
        }
    }

    /// A `closeSession` is proposed: from now on the session can neither write nor be touched.
    pub fn set_closing(&mut self, session: SessionId) {
        let Some(entry) = self.sessions.get_mut(&session) else { return };
        entry.closing = true;
        if let Some(bucket_ms) = entry.bucket_ms.take() {
            self.leave_bucket(session, bucket_ms);
        }
    }

    /// The session's client is connected to `owner` from now on.
    ///
    /// # Errors
    /// [`ErrorCode::SessionExpired`] if the session is unknown or being closed.
    pub fn set_owner(&mut self, session: SessionId, owner: ServerId) -> Result<(), ErrorCode> {
        self.open(session)?.owner = Some(owner);
        Ok(())
    }

    /// May a request of `session` that came through `owner` go on? After a change of leader the first member to ask
    /// becomes the owner.
    ///
    /// # Errors
    /// [`ErrorCode::SessionExpired`] if the session is unknown or being closed, [`ErrorCode::SessionMoved`] if its
    /// client has since connected to another member.
    pub fn check(&mut self, session: SessionId, owner: ServerId) -> Result<(), ErrorCode> {
        let entry = self.open(session)?;
        if *entry.owner.get_or_insert(owner) == owner { Ok(()) } else { Err(ErrorCode::SessionMoved) }
    }

    /// True if the session is known, closing or not.
    pub fn contains(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Number of sessions, closing ones included.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// True if there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Every session, ordered by id.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut all: Vec<SessionInfo> = self
            .sessions
            .iter()
            .map(|(session, entry)| SessionInfo {
                session: *session,
                timeout_ms: entry.timeout_ms,
                expires: from_ms(entry.bucket_ms.unwrap_or(0)),
                owner: entry.owner,
                closing: entry.closing,
            })
            .collect();
        all.sort_unstable_by_key(|info| info.session);
        all
    }

    fn open(&mut self, session: SessionId) -> Result<&mut Entry, ErrorCode> {
        self.sessions.get_mut(&session).filter(|entry| !entry.closing).ok_or(ErrorCode::SessionExpired)
    }

    /// The end of the tick in which `timeout_ms` from now lies.
    fn bucket(&self, timeout_ms: i32, now: Now) -> u64 {
        let deadline = now.mono.plus_ms(u64::from(timeout_ms.max(0).unsigned_abs())).0 / 1_000_000;
        (deadline / self.tick_ms + 1) * self.tick_ms
    }

    fn leave_bucket(&mut self, session: SessionId, bucket_ms: u64) {
        let bucket = self.buckets.get_mut(&bucket_ms).expect("a session's bucket must exist");
        bucket.remove(&session);
        if bucket.is_empty() {
            self.buckets.remove(&bucket_ms);
        }
    }
}

const fn from_ms(ms: u64) -> Instant {
    Instant(0).plus_ms(ms)
}
