//! Election messages of one direction: one in flight, one waiting, the newest wins.

use bytes::Bytes;

/// One direction between two members.
#[derive(Debug, Default)]
pub(super) struct VoteChannel {
    in_flight: Option<Bytes>,
    waiting: Option<Bytes>,
    /// What was sent last, repeated when the connection comes back.
    last: Option<Bytes>,
    /// True while an arrival is on the agenda.
    pub(super) scheduled: bool,
}

impl VoteChannel {
    /// Takes a message; true if its arrival must be scheduled.
    pub(super) fn send(&mut self, bytes: Bytes) -> bool {
        self.last = Some(bytes.clone());
        if self.in_flight.is_some() {
            self.waiting = Some(bytes);
            return false;
        }
        self.in_flight = Some(bytes);
        self.schedule_next()
    }

    /// The message in flight arrives and the waiting one sets off.
    pub(super) fn arrive(&mut self) -> Option<Bytes> {
        let arrived = self.in_flight.take();
        self.in_flight = self.waiting.take();
        arrived
    }

    /// The connection broke: what was on the way is lost.
    pub(super) fn lose(&mut self) {
        self.in_flight = None;
        self.waiting = None;
    }

    /// The connection is back: the last message goes out again. True if its arrival must be scheduled.
    pub(super) fn repeat(&mut self) -> bool {
        if self.in_flight.is_none() {
            self.in_flight = self.last.clone();
        }
        self.schedule_next()
    }

    /// True if something is in flight without an arrival on the agenda; then counts it as scheduled.
    pub(super) const fn schedule_next(&mut self) -> bool {
        let needed = self.in_flight.is_some() && !self.scheduled;
        self.scheduled |= needed;
        needed
    }
}
