//! Where session ids come from (upstream `SessionTrackerImpl.initializeNextSessionId`).

use zk_jute::{ServerId, SessionId};

/// Marks a container node in `ephemeralOwner`, so no session may have it as its id.
const CONTAINER_OWNER: i64 = i64::MIN;

/// The session ids of one member: the highest byte is the member's id, the next five the time it started counting, the
/// rest a counter. Members thus never need to agree on ids.
#[derive(Clone, Debug)]
pub struct SessionIds {
    next: i64,
}

impl SessionIds {
    /// Starts counting at `wall_ms` (milliseconds since 1970) of member `server`. Upstream uses the time since boot;
    /// the wall clock does not begin anew with a reboot.
    pub const fn new(server: ServerId, wall_ms: i64) -> Self {
        let time = (((wall_ms as u64) << 24) >> 8) as i64;
        let first = time | server.0.wrapping_shl(56);
        Self { next: if first == CONTAINER_OWNER { first + 1 } else { first } }
    }

    /// An id that this member has not given out since it started counting, and that is not `taken` by a session from
    /// before (a clock set back could lead there). Never 0.
    pub fn next(&mut self, taken: impl Fn(SessionId) -> bool) -> SessionId {
        loop {
            let id = SessionId(self.next);
            self.next = self.next.wrapping_add(1);
            // Ends: only finitely many sessions are open, and each step looks at another id.
            if id.0 != 0 && id.0 != CONTAINER_OWNER && !taken(id) {
                return id;
            }
        }
    }
}
