//! The oracles: what must hold, one file a property, checked at the events that could break it.
//!
//! They see what crosses the borders of a [`zk_core::Peer`] (disk operations, packets, votes, replies) and never its inside, so
//! that no mistake of the core can hide itself.

pub mod acks;
pub mod committed;
pub mod epochs;
pub mod leadership;
pub mod ledger;
pub mod model;
pub mod replies;
pub mod streams;
pub mod trees;
pub mod watches;

use zk_core::facts::Facts;
use zk_core::input::LinkId;
use zk_jute::election::Notification;
use zk_jute::quorum::QuorumPacket;
use zk_jute::{Epoch, Zxid};

use self::acks::Acks;
use self::committed::Committed;
use self::epochs::Epochs;
use self::leadership::Leadership;
use self::ledger::{Entry, Ledgers};
use self::model::Model;
use self::replies::Replies;
use self::streams::Streams;
use self::trees::Trees;
use self::watches::Watches;

/// A property that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Name of the property.
    pub oracle: &'static str,
    pub text: String,
}

impl Violation {
    /// A violation of `oracle`.
    pub fn new(oracle: &'static str, text: impl Into<String>) -> Self {
        Self { oracle, text: text.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.oracle, self.text)
    }
}

/// Which process of which member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    pub node: i64,
    pub boot: u64,
}

/// All oracles and the first violation.
#[derive(Debug, Default)]
pub struct Oracles {
    pub ledgers: Ledgers,
    pub committed: Committed,
    pub model: Model,
    pub leadership: Leadership,
    pub epochs: Epochs,
    pub acks: Acks,
    pub streams: Streams,
    pub trees: Trees,
    pub replies: Replies,
    pub watches: Watches,
    /// Members that count for a quorum.
    pub voters: Vec<i64>,
    violation: Option<Violation>,
}

impl Oracles {
    /// Oracles for an ensemble with these voters.
    pub fn new(voters: Vec<i64>) -> Self {
        Self { voters, ..Self::default() }
    }

    /// The first violation, if any.
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Keeps the first violation; what follows it may be its consequence.
    pub fn check(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
    }

    /// An established leader hands a transaction of its own epoch to its storage.
    pub fn proposed(&mut self, node: i64, entry: &Entry, standalone: bool) {
        // A standalone server has no epochs: what a crash took from it before the fsync leaves its zxid to be used again.
        let result = self.committed.proposed(node, entry);
        if !standalone {
            self.check(result);
        }
    }

    /// An append reached the disk's cache.
    pub fn appended(&mut self, node: i64, entry: Entry) {
        let result = self.ledgers.entry(node).or_default().append(entry);
        self.check(result);
    }

    /// `node`'s tree is at `to` with `digest`, after it was at `from`.
    pub fn applied(&mut self, node: i64, from: Zxid, to: Zxid, digest: i64) {
        let result = self
            .committed
            .applied(node, from, to, &self.ledgers, &self.voters)
            .and_then(|()| self.trees.at(node, to, digest))
            .and_then(|()| self.model.catch_up(self.committed.history()));
        self.check(result);
    }

    /// `node` begins to serve as a leader.
    pub fn established(&mut self, process: Process, epoch: Epoch) {
        let ledger = self.ledgers.entry(process.node).or_default();
        let result = self.leadership.established(process.node, process.boot, epoch, ledger, &self.committed);
        self.check(result);
    }

    /// A packet leaves a member.
    pub fn sent(&mut self, process: Process, link: LinkId, packet: &QuorumPacket, facts: &Facts) {
        let ledger = self.ledgers.entry(process.node).or_default();
        let mut result = self.acks.sent(process.node, process.boot, link, packet, ledger);
        if packet.kind == zk_jute::quorum::PacketType::AckEpoch {
            result = result.and(Acks::epoch_acknowledged(process.node, facts.accepted_epoch, ledger));
        }
        self.check(result);
    }

    /// A packet reaches a member.
    pub fn received(&mut self, process: Process, link: LinkId, packet: &QuorumPacket) {
        self.acks.received(process.node, process.boot, link, packet);
        let result = self.streams.received(process.node, process.boot, link, packet);
        self.check(result);
    }

    /// A vote leaves a member.
    pub fn voted(&mut self, node: i64, vote: &Notification) {
        let ledger = self.ledgers.entry(node).or_default();
        let result = Acks::voted(node, vote, ledger, self.committed.lost.contains_key(&node));
        self.check(result);
    }

    /// What `node`'s platter holds as epochs.
    pub fn epochs_on_disk(&mut self, node: i64, accepted: Option<Epoch>, current: Option<Epoch>) {
        let ledger = self.ledgers.entry(node).or_default();
        ledger.accepted = accepted.unwrap_or_default();
        ledger.current = current.unwrap_or_default();
        let result = self.epochs.on_disk(node, accepted, current, ledger);
        self.check(result);
    }

    /// A client got an answer.
    pub fn answered(&mut self, answer: &replies::Answer<'_>) -> Result<(), Violation> {
        self.replies.answered(answer, &self.model)?;
        let zxid = Zxid(answer.header.zxid);
        if matches!(answer.request, zk_jute::request::Request::SetWatches { .. }) {
            self.watches.set_again(answer.session, zxid, &self.model);
        }
        self.watches.saw(answer.session, zxid, &self.model)?;
        self.watches.read(answer, zxid);
        Ok(())
    }

    /// The process is gone.
    pub fn process_gone(&mut self, process: Process) {
        self.acks.process_gone(process.node, process.boot);
        self.streams.process_gone(process.node, process.boot);
    }

    /// An operator emptied the member's directory: it promises nothing any more.
    pub fn wiped(&mut self, node: i64) {
        if let Some(ledger) = self.ledgers.remove(&node) {
            self.committed.lost.insert(node, ledger);
        }
        self.epochs.forget(node);
    }
}
