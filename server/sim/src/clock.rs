//! A member's clocks: offset, drift and pauses against the simulator's one true time.
//!
//! The core is only ever told times of its own member. Deadlines come back in member time and are turned into true time
//! here, rounded up, so that a tick never arrives before its deadline.

use zk_core::time::{Instant, Now};

/// True time: nanoseconds since the simulation began.
pub type Nanos = u64;

/// Nanoseconds in a millisecond.
pub const MS: Nanos = 1_000_000;

/// 2026-01-01T00:00:00Z in milliseconds, where every simulation starts.
const WALL_START_MS: i64 = 1_767_225_600_000;

/// The clocks of one member. They go on while the process is down: the machine is not.
#[derive(Clone, Copy, Debug)]
pub struct NodeClock {
    /// Added to the monotonic clock; nanoseconds.
    offset: Nanos,
    /// Parts per million that this clock is too fast (positive) or too slow; within ±1 000 000 exclusive.
    drift_ppm: i64,
    /// Milliseconds this member's wall clock is off.
    wall_skew_ms: i64,
}

impl NodeClock {
    /// A clock that shows true time.
    pub const fn exact() -> Self {
        Self { offset: 0, drift_ppm: 0, wall_skew_ms: 0 }
    }

    /// A clock that is off by `offset`, runs `drift_ppm` too fast and whose wall clock is `wall_skew_ms` ahead.
    pub fn new(offset: Nanos, drift_ppm: i64, wall_skew_ms: i64) -> Self {
        assert!(
            drift_ppm.abs() < 1_000_000,
            "a clock that stands still or runs backwards is no clock: {drift_ppm}"
        );
        Self { offset, drift_ppm, wall_skew_ms }
    }

    /// What this member's clocks show at `time`.
    pub fn at(&self, time: Nanos) -> Now {
        let mono = self.local(time);
        Now { mono: Instant(mono), wall_ms: WALL_START_MS + (mono / MS) as i64 + self.wall_skew_ms }
    }

    /// The first true time at which this member's monotonic clock has reached `local`.
    pub fn when(&self, local: Instant) -> Nanos {
        let ahead = u128::from(local.0.saturating_sub(self.offset));
        let rate = self.rate();
        u64::try_from((ahead * 1_000_000).div_ceil(rate)).unwrap_or(u64::MAX)
    }

    fn local(&self, time: Nanos) -> Nanos {
        let scaled = u128::from(time) * self.rate() / 1_000_000;
        self.offset.saturating_add(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Local microseconds in a true second.
    fn rate(&self) -> u128 {
        (1_000_000 + self.drift_ppm) as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_turned_into_true_time_is_never_early() {
        for drift in [-200_000, -37, 0, 41, 150_000] {
            let clock = NodeClock::new(12_345, drift, 0);
            for local in [12_345, 20_000, 1_000_007, 987_654_321] {
                let time = clock.when(Instant(local));
                assert!(clock.at(time).mono.0 >= local, "drift {drift} local {local}");
                assert!(
                    time == 0 || clock.at(time - 2).mono.0 <= local,
                    "drift {drift} local {local} is late"
                );
            }
        }
    }

    #[test]
    fn the_wall_clock_follows_offset_and_skew() {
        let clock = NodeClock::new(0, 0, -5_000);
        assert_eq!(clock.at(2_000 * MS).wall_ms, WALL_START_MS + 2_000 - 5_000);
    }
}
