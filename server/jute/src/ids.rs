//! The identifiers of the protocol, each its own type so that none can be passed for another.

use std::fmt;

/// A transaction id: the epoch in the upper 32 bits, the counter in the lower 32.
///
/// Ordered as upstream orders it, as one signed 64-bit number. `Zxid(-1)` is what a member with no history and
/// no right to claim any offers in an election (`db.autocreate=false`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Zxid(pub i64);

impl Zxid {
    /// "No transaction": what an empty database has processed.
    pub const ZERO: Self = Self(0);
    /// The vote of a member that may not claim any history.
    pub const NONE: Self = Self(-1);

    /// The zxid of `counter` in `epoch`.
    pub const fn new(epoch: Epoch, counter: u32) -> Self {
        Self(((epoch.0 as i64) << 32) | counter as i64)
    }

    /// The upper half.
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }

    /// The lower half.
    pub const fn counter(self) -> u32 {
        self.0 as u32
    }

    /// The next zxid of the same epoch, or `None` when the counter is exhausted and a new epoch is needed.
    pub const fn next_in_epoch(self) -> Option<Self> {
        if self.counter() == u32::MAX { None } else { Some(Self(self.0 + 1)) }
    }

    /// True if `self` may directly follow `previous` in a log: the next of its epoch, or the first of a later one.
    pub const fn follows(self, previous: Self) -> bool {
        if self.epoch().0 == previous.epoch().0 {
            self.counter() == previous.counter().wrapping_add(1) && self.counter() != 0
        } else {
            self.epoch().0 > previous.epoch().0 && self.counter() == 1
        }
    }
}

impl fmt::Debug for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// A leader's term. Upstream keeps it in a 64-bit field but only 32 bits fit a zxid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Epoch(pub u32);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The `myid` of a member: 1 to 255 in practice, any signed 64-bit number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ServerId(pub i64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A client session; 0 means "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub i64);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}
