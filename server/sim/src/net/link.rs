//! One quorum connection and its two queues.

use std::collections::VecDeque;

use zk_core::input::LinkId;

use super::Carried;
use crate::clock::Nanos;

/// One end of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) node: i64,
    /// Which start of that member's process.
    pub(super) boot: u64,
    /// The process's own number for the link.
    pub(super) id: LinkId,
    pub(super) open: bool,
}

impl End {
    pub(super) const fn new(node: i64, boot: u64, id: LinkId) -> Self {
        Self { node, boot, id, open: true }
    }
}

/// A connection. Arrays are indexed by the side that receives.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) ends: [End; 2],
    /// Bound: what a process sends before it is read; the core bounds its own queues, the run its steps.
    pub(super) queues: [VecDeque<Carried>; 2],
    /// Arrivals on the agenda for each queue; fewer than queued if some came due while the direction was stopped.
    pub(super) scheduled: [usize; 2],
    /// Nothing may overtake: the latest arrival time given out.
    pub(super) last_arrival: [Nanos; 2],
    /// It broke: nothing but the news of that travels any more.
    pub(super) broken: bool,
    /// The attempt to connect failed.
    pub(super) unreachable: bool,
}

impl Link {
    pub(super) fn new(ends: [End; 2], now: Nanos) -> Self {
        Self {
            ends,
            queues: Default::default(),
            scheduled: [0; 2],
            last_arrival: [now; 2],
            broken: false,
            unreachable: false,
        }
    }
}
