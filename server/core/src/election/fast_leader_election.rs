//! The election itself, as a state machine over notifications and time (upstream `FastLeaderElection.lookForLeader`).
//!
//! It decides nothing about durability: its caller starts it only from a zxid that is in the log (invariant 5), and with
//! [`Zxid::NONE`] when the member has no history to offer (invariant 9).

use std::collections::BTreeMap;

use zk_jute::election::{Notification, PeerState};
use zk_jute::{ServerId, Zxid};

use super::vote::Vote;
use crate::time::Instant;
use crate::zab::QuorumVerifier;

/// What the caller must do, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElectionAction {
    /// Send the current proposal to every voter.
    Broadcast,
    /// Send the current proposal to one member that is behind.
    Answer(ServerId),
    /// The election is over.
    Decided(Outcome),
}

/// Who leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub leader: ServerId,
    /// The vote to report from now on to members that are still looking.
    pub vote: Vote,
}

/// Intervals of the election, milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    pub min_ms: u64,
    pub max_ms: u64,
    pub finalize_ms: u64,
}

/// One election, from the first broadcast to the decision.
#[derive(Debug)]
pub struct Election {
    my_id: ServerId,
    voter: bool,
    intervals: Intervals,
    round: i64,
    /// What this member itself can offer.
    own: Vote,
    proposal: Vote,
    /// Votes of this round, by voter.
    received: BTreeMap<ServerId, Vote>,
    /// Votes of members that are settled, whatever their round.
    settled: BTreeMap<ServerId, Vote>,
    interval_ms: u64,
    next_broadcast: Instant,
    /// Set while a quorum supports the proposal: when it is final unless a better vote comes first.
    finalize_at: Option<Instant>,
}

impl Election {
    /// Starts round `last_round + 1`. `own` is the vote for oneself; an observer passes `voter` false.
    pub fn start(
        my_id: ServerId,
        voter: bool,
        intervals: Intervals,
        last_round: i64,
        (zxid, peer_epoch): (Zxid, i64),
        now: Instant,
    ) -> Self {
        let round = last_round + 1;
        let own = if voter {
            Vote { leader: my_id, zxid, peer_epoch, round, state: PeerState::Looking, version: 2 }
        } else {
            // An observer offers nothing; upstream sends the smallest numbers there are.
            Vote {
                leader: ServerId(i64::MIN),
                zxid: Zxid(i64::MIN),
                peer_epoch: i64::MIN,
                round,
                state: PeerState::Looking,
                version: 2,
            }
        };
        Self {
            my_id,
            voter,
            intervals,
            round,
            own,
            proposal: own,
            received: BTreeMap::new(),
            settled: BTreeMap::new(),
            interval_ms: intervals.min_ms,
            next_broadcast: now.plus_ms(intervals.min_ms),
            finalize_at: None,
        }
    }

    /// The proposal to broadcast.
    pub const fn proposal(&self) -> Vote {
        self.proposal
    }

    /// The round, to be handed to the next election.
    pub const fn round(&self) -> i64 {
        self.round
    }

    /// When [`Self::tick`] is wanted.
    pub fn deadline(&self) -> Instant {
        self.finalize_at.map_or(self.next_broadcast, |at| at.min(self.next_broadcast))
    }

    /// What to do at the start: broadcast, and count the own vote.
    pub fn begin(&mut self, quorum: &QuorumVerifier, now: Instant) -> Vec<ElectionAction> {
        self.evaluate(quorum, now);
        vec![ElectionAction::Broadcast]
    }

    /// Time passed: finish if a quorum stood unopposed, otherwise repeat the proposal with back-off.
    pub fn tick(&mut self, now: Instant) -> Vec<ElectionAction> {
        if self.finalize_at.is_some_and(|at| at <= now) {
            return vec![ElectionAction::Decided(Outcome {
                leader: self.proposal.leader,
                vote: self.proposal,
            })];
        }
        if self.next_broadcast > now {
            return Vec::new();
        }
        self.interval_ms = (self.interval_ms * 2).min(self.intervals.max_ms);
        self.next_broadcast = now.plus_ms(self.interval_ms);
        vec![ElectionAction::Broadcast]
    }

    /// A notification from another member.
    pub fn receive(
        &mut self,
        from: ServerId,
        notification: &Notification,
        quorum: &QuorumVerifier,
        now: Instant,
    ) -> Vec<ElectionAction> {
        if !quorum.is_voter(from) {
            return vec![ElectionAction::Answer(from)];
        }
        if !quorum.is_voter(notification.leader) {
            return Vec::new();
        }
        let vote = Vote {
            leader: notification.leader,
            zxid: notification.zxid,
            peer_epoch: notification.peer_epoch,
            round: notification.election_epoch,
            state: notification.state,
            version: notification.version,
        };
        match notification.state {
            PeerState::Looking => self.receive_looking(from, vote, quorum, now),
            PeerState::Following | PeerState::Leading => self.receive_settled(from, vote, quorum),
            PeerState::Observing => Vec::new(),
        }
    }

    fn receive_looking(
        &mut self,
        from: ServerId,
        vote: Vote,
        quorum: &QuorumVerifier,
        now: Instant,
    ) -> Vec<ElectionAction> {
        // Neither a member without history nor one that is shown such a vote may take part in choosing a leader: two
        // wiped members must never elect one of themselves (invariant 9).
        if self.own.zxid == Zxid::NONE || vote.zxid == Zxid::NONE || !self.voter {
            return self.answer_if_behind(from, vote);
        }
        let weight = quorum.weight(vote.leader);
        if vote.leader == self.my_id && vote.round >= self.round && vote.beats(&self.own, weight) {
            return self.deny(vote, quorum, now);
        }
        let mut actions = Vec::new();
        if vote.round > self.round {
            self.round = vote.round;
            self.received.clear();
            self.own.round = vote.round;
            self.proposal = if vote.beats(&self.own, weight) { self.adopted(vote) } else { self.own };
            self.finalize_at = None;
            actions.push(ElectionAction::Broadcast);
        } else if vote.round < self.round {
            return self.answer_if_behind(from, vote);
        } else if vote.beats(&self.proposal, weight) {
            self.proposal = self.adopted(vote);
            self.finalize_at = None;
            actions.push(ElectionAction::Broadcast);
        }
        self.received.insert(from, vote);
        self.evaluate(quorum, now);
        actions
    }

    /// Others still propose this member for more than it has: what it offered before its log was cut, or lost. To echo
    /// that would be a vote for oneself that no disk backs, and to stay silent would let the others elect it on it. A new
    /// round is the one thing that makes them all forget: in it they start from their own votes again.
    fn deny(&mut self, vote: Vote, quorum: &QuorumVerifier, now: Instant) -> Vec<ElectionAction> {
        self.round = vote.round.saturating_add(1);
        self.own.round = self.round;
        self.proposal = self.own;
        self.received.clear();
        self.finalize_at = None;
        self.evaluate(quorum, now);
        vec![ElectionAction::Broadcast]
    }

    fn answer_if_behind(&self, from: ServerId, vote: Vote) -> Vec<ElectionAction> {
        if vote.round < self.round { vec![ElectionAction::Answer(from)] } else { Vec::new() }
    }

    fn adopted(&self, vote: Vote) -> Vote {
        Vote { round: self.round, state: PeerState::Looking, version: 2, ..vote }
    }

    /// Starts the final wait when a quorum supports the proposal, and ends it when the quorum is gone.
    fn evaluate(&mut self, quorum: &QuorumVerifier, now: Instant) {
        if !self.voter || self.own.zxid == Zxid::NONE {
            return;
        }
        self.received.insert(self.my_id, self.proposal);
        let supporters =
            self.received.iter().filter(|(_, vote)| self.proposal.supports(vote)).map(|(sid, _)| *sid);
        if !quorum.is_quorum(supporters) {
            self.finalize_at = None;
        } else if self.finalize_at.is_none() {
            // A lone voter has nobody to wait for.
            let wait = if quorum.voters().count() == 1 { 0 } else { self.intervals.finalize_ms };
            self.finalize_at = Some(now.plus_ms(wait));
        }
    }

    fn receive_settled(
        &mut self,
        from: ServerId,
        vote: Vote,
        quorum: &QuorumVerifier,
    ) -> Vec<ElectionAction> {
        if vote.round == self.round {
            // Upstream keeps these without their version, so that only the leader's id is compared.
            self.received.insert(from, Vote { version: 0, ..vote });
            if self.leader_confirmed(&self.received, vote, quorum) {
                return vec![Self::decided(vote)];
            }
        }
        self.settled.insert(from, vote);
        if self.leader_confirmed(&self.settled, vote, quorum) {
            self.round = vote.round;
            return vec![Self::decided(vote)];
        }
        Vec::new()
    }

    fn decided(vote: Vote) -> ElectionAction {
        ElectionAction::Decided(Outcome { leader: vote.leader, vote })
    }

    /// A quorum supports `vote`, and its leader has itself said that it leads: otherwise members would elect a crashed
    /// leader over and over.
    fn leader_confirmed(
        &self,
        votes: &BTreeMap<ServerId, Vote>,
        vote: Vote,
        quorum: &QuorumVerifier,
    ) -> bool {
        let supporters = votes.iter().filter(|(_, other)| vote.supports(other)).map(|(sid, _)| *sid);
        if !quorum.is_quorum(supporters) {
            return false;
        }
        if vote.leader == self.my_id {
            // A member without history is never made leader by stale votes of the others.
            return vote.round == self.round && self.own.zxid != Zxid::NONE;
        }
        votes.get(&vote.leader).is_some_and(|leader| leader.state == PeerState::Leading)
    }
}
