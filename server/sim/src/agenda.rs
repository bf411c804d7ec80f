//! What happens when: a heap of events ordered by time, and by the order they were added within one moment.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Nanos;

/// A heap of future events and the present moment.
#[derive(Debug)]
pub struct Agenda<E> {
    now: Nanos,
    added: u64,
    heap: BinaryHeap<Reverse<Entry<E>>>,
}

#[derive(Debug)]
struct Entry<E> {
    time: Nanos,
    number: u64,
    event: E,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self { now: 0, added: 0, heap: BinaryHeap::new() }
    }
}

impl<E> Agenda<E> {
    /// Adds `event` at `time`, or now if that has passed.
    pub fn at(&mut self, time: Nanos, event: E) {
        self.added += 1;
        self.heap.push(Reverse(Entry { time: time.max(self.now), number: self.added, event }));
    }

    /// Adds `event` after `delay`.
    pub fn after(&mut self, delay: Nanos, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// The next event; the present moves to it.
    pub fn pop(&mut self) -> Option<E> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.time;
        Some(entry.event)
    }

    /// When the next event is due.
    pub fn next_time(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.time)
    }

    /// The present moment.
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Lets time pass to `time` without an event.
    pub fn advance_to(&mut self, time: Nanos) {
        assert!(self.next_time().is_none_or(|next| next >= time), "an event would be skipped");
        self.now = self.now.max(time);
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_moment_come_in_the_order_they_were_added() {
        let mut agenda = Agenda::default();
        agenda.at(5, 'b');
        agenda.at(5, 'c');
        agenda.at(3, 'a');
        let order: Vec<char> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(order, ['a', 'b', 'c']);
        assert_eq!(agenda.now(), 5);
        agenda.at(1, 'd');
        assert_eq!((agenda.pop(), agenda.now()), (Some('d'), 5), "the past is the present");
    }
}
