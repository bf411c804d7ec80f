//! The only place of the process that reads clocks for the core.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use zk_core::time::Now;

/// A monotonic clock that starts with the process, and the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Now { mono: zk_core::time::Instant(nanos), wall_ms: wall_ms() }
    }

    /// Milliseconds since the process started.
    pub fn uptime_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Milliseconds since 1970.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
