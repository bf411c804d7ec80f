//! Time as the core sees it: given, never read.

use std::time::Duration;

/// A point on the caller's monotonic clock, in nanoseconds from an arbitrary start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The instant `ms` milliseconds later; saturates.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// Whole milliseconds since `earlier`, 0 if it is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }

    /// Time left until `self`, zero if it has passed.
    pub const fn until(self, now: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now.0))
    }
}

/// Both clocks at the moment of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Drives every timer and session deadline.
    pub mono: Instant,
    /// Milliseconds since 1970; only ever written into transactions and never compared.
    pub wall_ms: i64,
}
