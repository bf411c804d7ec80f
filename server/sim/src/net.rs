//! The network between members: quorum links that behave like TCP, and election messages of which the newest counts.
//!
//! A link never reorders and never loses a byte while it stands; loss is the link breaking, and then both ends learn of it and
//! what was on the way is gone. A direction may be blocked (partition: new links time out) or held (a scenario stops time for
//! it): what is sent meanwhile waits. Election messages follow upstream's `QuorumCnxManager`: one in flight and one waiting in each
//! direction, the newest replaces the waiting one, and the last is sent again when the connection comes back.

mod link;
mod votes;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zk_core::effect::Port;
use zk_core::input::LinkId;

use self::link::{End, Link};
use self::votes::VoteChannel;
use crate::clock::{MS, Nanos};
use crate::prng::Prng;

/// How long a connection attempt into a partition takes to fail.
const CONNECT_TIMEOUT: Nanos = 500 * MS;

/// Which end of a link: 0 opened it, 1 accepted it.
pub type Side = usize;

/// What travels on a link, encoded as it would be on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carried {
    /// The connection request, which becomes `Accepted` or `AcceptedObserver`.
    Open(Port),
    /// The answer to it, which becomes `Connected`.
    Opened,
    Packet(Bytes),
    /// A serialized database with its signature.
    Image(Bytes),
    Closed(String),
}

/// Something the network will do later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetEvent {
    /// The front of this link's queue towards `side` arrives.
    Link { link: u64, side: Side },
    /// The election message in flight arrives.
    Vote { from: i64, to: i64 },
}

/// Something that arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    Link { node: i64, boot: u64, id: LinkId, link: u64, side: Side, carried: Carried },
    Vote { from: i64, to: i64, bytes: Bytes },
}

/// Delays of one run; nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    pub least: Nanos,
    pub most: Nanos,
}

/// The whole network.
#[derive(Debug)]
pub struct Network {
    links: BTreeMap<u64, Link>,
    next_link: u64,
    /// Where each end's own number leads.
    by_id: BTreeMap<(i64, u64, LinkId), (u64, Side)>,
    next_accepted: u64,
    votes: BTreeMap<(i64, i64), VoteChannel>,
    blocked: BTreeSet<(i64, i64)>,
    held: BTreeSet<(i64, i64)>,
    pub delays: Delays,
    prng: Prng,
    /// Events to add to the agenda; the world drains it after every call.
    pub due: Vec<(Nanos, NetEvent)>,
}

impl Network {
    /// A network without members.
    pub fn new(prng: Prng, delays: Delays) -> Self {
        Self {
            links: BTreeMap::new(),
            next_link: 1,
            by_id: BTreeMap::new(),
            next_accepted: 1,
            votes: BTreeMap::new(),
            blocked: BTreeSet::new(),
            held: BTreeSet::new(),
            delays,
            prng,
            due: Vec::new(),
        }
    }

    /// `from` dials `to`. With `refused` nobody listens there.
    pub fn connect(
        &mut self,
        now: Nanos,
        from: (i64, u64, LinkId),
        to: (i64, u64),
        port: Port,
        refused: bool,
    ) {
        let accepted = LinkId(LinkId::ACCEPTED | self.next_accepted);
        self.next_accepted += 1;
        let ends = [End::new(from.0, from.1, from.2), End::new(to.0, to.1, accepted)];
        let link = self.next_link;
        self.next_link += 1;
        self.links.insert(link, Link::new(ends, now));
        self.by_id.insert(from, (link, 0));
        self.by_id.insert((to.0, to.1, accepted), (link, 1));
        let unreachable = self.blocked.contains(&(from.0, to.0)) || self.blocked.contains(&(to.0, from.0));
        if unreachable {
            self.fail_connect(now + CONNECT_TIMEOUT, link, "connect timed out");
        } else if refused {
            let delay = self.delay();
            self.fail_connect(now + delay, link, "connection refused");
        } else {
            self.push(now, link, 1, Carried::Open(port));
        }
    }

    /// Puts `carried` on the link that `node` knows as `id`; dropped if that link is gone.
    pub fn send(&mut self, now: Nanos, node: (i64, u64), id: LinkId, carried: Carried) {
        if let Some((link, side)) = self.by_id.get(&(node.0, node.1, id)).copied() {
            self.push(now, link, 1 - side, carried);
        }
    }

    /// `node` closes its end: what it sent still arrives, what comes towards it does not.
    pub fn close(&mut self, now: Nanos, node: (i64, u64), id: LinkId, reason: &str) {
        let Some((link, side)) = self.by_id.remove(&(node.0, node.1, id)) else { return };
        let Some(state) = self.links.get_mut(&link) else { return };
        state.ends[side].open = false;
        state.queues[side].clear();
        self.push(now, link, 1 - side, Carried::Closed(format!("closed by peer: {reason}")));
        self.forget_if_done(link);
    }

    /// The other end of a link, if it exists.
    pub fn peer_of(&self, node: i64, boot: u64, id: LinkId) -> Option<i64> {
        let (link, side) = self.by_id.get(&(node, boot, id))?;
        Some(self.links.get(link)?.ends[1 - side].node)
    }

    /// The link breaks: in-flight bytes are lost and both ends see it closed.
    pub fn break_link(&mut self, now: Nanos, link: u64) {
        if self.links.get(&link).is_none_or(|state| state.broken) {
            return;
        }
        for side in 0..2 {
            if let Some(state) = self.links.get_mut(&link) {
                state.queues[side].clear();
                self.push(now, link, side, Carried::Closed("connection reset".to_owned()));
            }
        }
        if let Some(state) = self.links.get_mut(&link) {
            state.broken = true;
        }
    }

    /// Numbers of the links that stand, with their members.
    pub fn standing(&self) -> Vec<(u64, i64, i64)> {
        self.links
            .iter()
            .filter(|(_, state)| state.ends.iter().all(|end| end.open))
            .map(|(link, state)| (*link, state.ends[0].node, state.ends[1].node))
            .collect()
    }

    /// The process `(node, boot)` is gone; the other ends learn of it after `silence`.
    pub fn process_gone(&mut self, now: Nanos, node: i64, boot: u64, silence: Nanos) {
        let ours: Vec<(u64, Side)> = self
            .links
            .iter()
            .flat_map(|(link, state)| (0..2).map(move |side| (*link, side, state.ends[side])))
            .filter(|(_, _, end)| end.node == node && end.boot == boot && end.open)
            .map(|(link, side, _)| (link, side))
            .collect();
        for (link, side) in ours {
            let Some(state) = self.links.get_mut(&link) else { continue };
            state.ends[side].open = false;
            state.queues[side].clear();
            let id = state.ends[side].id;
            self.by_id.remove(&(node, boot, id));
            self.push(now + silence, link, 1 - side, Carried::Closed("connection reset".to_owned()));
            self.forget_if_done(link);
        }
        self.votes.retain(|(from, _), _| *from != node);
        for (_, channel) in self.votes.iter_mut().filter(|((_, to), _)| *to == node) {
            channel.lose();
        }
    }

    /// `node` sends an election message.
    pub fn send_vote(&mut self, now: Nanos, from: i64, to: i64, bytes: Bytes) {
        let delay = self.delay();
        if self.votes.entry((from, to)).or_default().send(bytes) {
            self.due.push((now + delay, NetEvent::Vote { from, to }));
        }
    }

    /// Election connections of `node` come up again: each side repeats its last message.
    pub fn reconnect_votes(&mut self, now: Nanos, node: i64) {
        let pairs: Vec<(i64, i64)> =
            self.votes.keys().filter(|(from, to)| *from == node || *to == node).copied().collect();
        for pair in pairs {
            let delay = self.delay();
            if self.votes.get_mut(&pair).is_some_and(VoteChannel::repeat) {
                self.due.push((now + delay, NetEvent::Vote { from: pair.0, to: pair.1 }));
            }
        }
    }

    /// An event of the agenda came due.
    pub fn arrive(&mut self, now: Nanos, event: NetEvent) -> Option<Delivery> {
        match event {
            NetEvent::Link { link, side } => {
                let state = self.links.get_mut(&link)?;
                state.scheduled[side] = state.scheduled[side].saturating_sub(1);
                let way = (state.ends[1 - side].node, state.ends[side].node);
                // That an attempt failed is known without the other side.
                let local = state.unreachable;
                if !local && self.is_stopped(way) { None } else { self.pop(now, link, side) }
            }
            NetEvent::Vote { from, to } => {
                let stopped = self.is_stopped((from, to));
                let channel = self.votes.get_mut(&(from, to))?;
                channel.scheduled = false;
                if stopped { None } else { self.pop_vote(now, from, to) }
            }
        }
    }

    /// Which member an arrival is for.
    pub fn target(&self, event: NetEvent) -> Option<i64> {
        match event {
            NetEvent::Link { link, side } => Some(self.links.get(&link)?.ends[side].node),
            NetEvent::Vote { to, .. } => Some(to),
        }
    }

    /// Stops what goes from `from` to `to`; new links between them time out.
    pub fn block(&mut self, from: i64, to: i64) {
        self.blocked.insert((from, to));
    }

    /// Ends a block; what waited arrives.
    pub fn unblock(&mut self, now: Nanos, from: i64, to: i64) {
        if self.blocked.remove(&(from, to)) {
            self.flush(now, from, to);
        }
    }

    /// Ends all blocks.
    pub fn heal(&mut self, now: Nanos) {
        for (from, to) in std::mem::take(&mut self.blocked) {
            self.flush(now, from, to);
            if self.votes.get_mut(&(from, to)).is_some_and(VoteChannel::repeat) {
                self.due.push((now + self.delays.least, NetEvent::Vote { from, to }));
            }
        }
    }

    /// Holds what goes from `from` to `to` for a scenario to deliver by hand.
    pub fn hold(&mut self, from: i64, to: i64) {
        self.held.insert((from, to));
    }

    /// Ends a hold; what waited arrives in order.
    pub fn release(&mut self, now: Nanos, from: i64, to: i64) {
        if self.held.remove(&(from, to)) {
            self.flush(now, from, to);
        }
    }

    /// Delivers one thing held from `from` to `to`: the front of its oldest link, else its vote.
    pub fn deliver_one(&mut self, now: Nanos, from: i64, to: i64) -> Option<Delivery> {
        let waiting = self.links.iter().find_map(|(link, state)| {
            (0..2)
                .find(|side| {
                    state.ends[1 - side].node == from
                        && state.ends[*side].node == to
                        && !state.queues[*side].is_empty()
                })
                .map(|side| (*link, side))
        });
        match waiting {
            Some((link, side)) => self.pop(now, link, side),
            None => self.pop_vote(now, from, to),
        }
    }

    fn is_stopped(&self, way: (i64, i64)) -> bool {
        self.blocked.contains(&way) || self.held.contains(&way)
    }

    fn pop(&mut self, now: Nanos, link: u64, side: Side) -> Option<Delivery> {
        let state = self.links.get_mut(&link).filter(|state| state.ends[side].open)?;
        let carried = state.queues[side].pop_front()?;
        let end = state.ends[side];
        if matches!(carried, Carried::Closed(_)) {
            state.ends[side].open = false;
            state.queues[side].clear();
            self.by_id.remove(&(end.node, end.boot, end.id));
            self.forget_if_done(link);
        } else if matches!(carried, Carried::Open(_)) {
            self.push(now, link, 1 - side, Carried::Opened);
        }
        Some(Delivery::Link { node: end.node, boot: end.boot, id: end.id, link, side, carried })
    }

    fn pop_vote(&mut self, now: Nanos, from: i64, to: i64) -> Option<Delivery> {
        let delay = self.delay();
        let channel = self.votes.get_mut(&(from, to))?;
        let bytes = channel.arrive()?;
        if channel.schedule_next() {
            self.due.push((now + delay, NetEvent::Vote { from, to }));
        }
        Some(Delivery::Vote { from, to, bytes })
    }

    fn push(&mut self, now: Nanos, link: u64, side: Side, carried: Carried) {
        let delay = self.delay();
        let Some(state) = self.links.get_mut(&link) else { return };
        let closes = matches!(carried, Carried::Closed(_));
        if !state.ends[side].open || (state.broken && !closes) {
            return;
        }
        state.last_arrival[side] = state.last_arrival[side].max(now + delay);
        state.queues[side].push_back(carried);
        state.scheduled[side] += 1;
        self.due.push((state.last_arrival[side], NetEvent::Link { link, side }));
    }

    fn fail_connect(&mut self, at: Nanos, link: u64, reason: &str) {
        let Some(state) = self.links.get_mut(&link) else { return };
        state.ends[1].open = false;
        state.unreachable = true;
        let end = state.ends[1];
        self.by_id.remove(&(end.node, end.boot, end.id));
        state.queues[0].push_back(Carried::Closed(reason.to_owned()));
        state.scheduled[0] += 1;
        self.due.push((at, NetEvent::Link { link, side: 0 }));
    }

    /// Schedules everything that waits from `from` to `to`.
    fn flush(&mut self, now: Nanos, from: i64, to: i64) {
        if self.is_stopped((from, to)) {
            return;
        }
        for (link, state) in &mut self.links {
            for side in 0..2 {
                if state.ends[1 - side].node != from || state.ends[side].node != to {
                    continue;
                }
                for _ in state.scheduled[side]..state.queues[side].len() {
                    state.scheduled[side] += 1;
                    self.due.push((now + self.delays.least, NetEvent::Link { link: *link, side }));
                }
            }
        }
        if self.votes.get_mut(&(from, to)).is_some_and(VoteChannel::schedule_next) {
            self.due.push((now + self.delays.least, NetEvent::Vote { from, to }));
        }
    }

    fn forget_if_done(&mut self, link: u64) {
        let done = self.links.get(&link).is_some_and(|state| state.ends.iter().all(|end| !end.open));
        if done {
            self.links.remove(&link);
        }
    }

    fn delay(&mut self) -> Nanos {
        self.prng.between(self.delays.least, self.delays.most)
    }
}

#[cfg(test)]
mod tests;
