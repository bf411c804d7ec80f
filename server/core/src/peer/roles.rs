//! From one role to the next.

use zk_jute::{Epoch, ServerId};

use super::{CtxParts, Peer, RoleState};
use crate::effect::{Effect, Observation, Sink};
use crate::election::{Election, Intervals, Outcome};
use crate::mutants::mutant;
use crate::zab::leader::{Leader, Phase};
use crate::zab::learner::{Learner, Stage};
use crate::zab::standalone::Standalone;

/// First rest after a failed write, ticks; doubles with every failure up to [`REST_TICKS_MAX`].
const REST_TICKS: u64 = 2;
/// Pause after the second attempt to learn in a row that failed, milliseconds; doubles up to [`PAUSE_MS_MAX`].
const PAUSE_MS: u64 = 25;
/// Longest pause, milliseconds: about what upstream's pause between attempts to connect is.
const PAUSE_MS_MAX: u64 = 1_000;
/// Longest rest, ticks: a minute with the usual tick.
const REST_TICKS_MAX: u64 = 30;

impl Peer {
    /// The role ends; the next one begins when the disk is drained.
    pub(super) fn leave(&mut self, parts: &mut CtxParts<'_>, why: &str) {
        self.end_role(parts, why);
        self.settle(parts);
    }

    /// Links and clients are closed, what the role's disk operations owed is owed no more (invariant 5).
    pub(super) fn end_role(&mut self, parts: &mut CtxParts<'_>, why: &str) {
        self.count_attempt();
        let mut ctx = parts.ctx(&mut self.base);
        match &mut self.role {
            RoleState::Leading(leader) => leader.close_all(&mut ctx, why),
            RoleState::Learning(learner) => learner.close_all(&mut ctx, why),
            RoleState::Standalone(_) | RoleState::Looking(_) => {}
            RoleState::Loading
            | RoleState::Resting(_)
            | RoleState::Settling
            | RoleState::Pausing(_)
            | RoleState::Stopping
            | RoleState::Halted => {}
        }
        ctx.observe(Observation::LeftRole { why: why.to_owned() });
        self.base.shared.set_serving(false);
        self.base.clients.clear();
        parts.out.emit(Effect::CloseAllClients);
        self.base.io.fence();
        self.base.lose_held();
        self.vote = None;
        self.role = RoleState::Settling;
    }

    /// A role that served starts the count of failed attempts anew.
    const fn count_attempt(&mut self) {
        let served = match &self.role {
            RoleState::Learning(learner) => matches!(learner.stage, Stage::Broadcast),
            RoleState::Leading(leader) => matches!(leader.phase, Phase::Broadcast),
            RoleState::Standalone(_) => true,
            _ => return,
        };
        self.failed_attempts = if served { 0 } else { self.failed_attempts.saturating_add(1) };
    }

    /// Once the disk has nothing left to do: read it again if memory may differ, or look for a leader, or stop.
    pub(super) fn settle(&mut self, parts: &mut CtxParts<'_>) {
        if !matches!(self.role, RoleState::Settling) || !self.base.io.is_drained() {
            return;
        }
        if self.base.journal.dirty && !mutant!("keep_memory_after_failed_sync") {
            self.load(parts);
        } else {
            self.begin(parts);
        }
    }

    /// An election, after a pause if the last attempts to learn led nowhere: a learner that is refused at once must not
    /// come back at the speed of the network.
    fn look_or_pause(&mut self, parts: &mut CtxParts<'_>) {
        if self.failed_attempts <= 1 {
            return self.look(parts);
        }
        let pause_ms = (PAUSE_MS << self.failed_attempts.min(8)).min(PAUSE_MS_MAX);
        self.role = RoleState::Pausing(parts.now.mono.plus_ms(pause_ms));
    }

    /// A failed write: nothing owed at or after it will ever be sent. Rest, so that somebody with a working disk leads
    /// meanwhile, then start from what is on disk.
    pub(super) fn rest(&mut self, parts: &mut CtxParts<'_>) {
        let ticks = (REST_TICKS << self.disk_failures.min(8)).min(REST_TICKS_MAX);
        self.disk_failures = self.disk_failures.saturating_add(1);
        self.waiting.refuse_all(parts.out);
        self.role = RoleState::Resting(parts.now.mono.plus_ms(self.base.ticks_ms(ticks)));
    }

    /// Memory is what the disk holds: begin whatever comes first. A server of its own never looks for a leader.
    pub(super) fn begin(&mut self, parts: &mut CtxParts<'_>) {
        if self.drain.is_some() {
            self.write_clean_marker(parts);
        } else if self.base.config.membership.is_none() {
            let mut ctx = parts.ctx(&mut self.base);
            let standalone = Standalone::start(&mut ctx);
            self.role = RoleState::Standalone(Box::new(standalone));
            self.role_changed(parts.out, "standalone", self.base.epochs.current);
            self.disk_failures = 0;
        } else {
            self.look_or_pause(parts);
        }
    }

    /// Starts an election from what is durable.
    pub(super) fn look(&mut self, parts: &mut CtxParts<'_>) {
        let config = &self.base.config;
        let intervals = Intervals {
            min_ms: config.election_min_ms,
            max_ms: config.election_max_ms,
            finalize_ms: config.election_finalize_ms,
        };
        let offer = (self.base.votable_zxid(), i64::from(self.base.epochs.current.0));
        let now = parts.now.mono;
        let mut election =
            Election::start(config.my_id, self.base.is_voter(), intervals, self.round, offer, now);
        let actions = election.begin(&self.base.quorum, now);
        self.round = election.round();
        self.role = RoleState::Looking(election);
        self.role_changed(parts.out, "looking", self.base.epochs.current);
        self.perform(parts, actions);
        self.hear_kept(parts);
    }

    pub(super) fn decided(&mut self, parts: &mut CtxParts<'_>, outcome: Outcome) {
        if let RoleState::Looking(election) = &self.role {
            self.round = election.round();
        }
        let zxid = outcome.vote.zxid;
        parts.out.emit(Effect::Observe(Observation::ElectionFinished { leader: outcome.leader, zxid }));
        self.vote = Some(outcome.vote);
        if outcome.leader == self.base.my_id() {
            self.lead(parts, outcome);
        } else {
            self.learn(parts, outcome.leader, outcome);
        }
    }

    fn lead(&mut self, parts: &mut CtxParts<'_>, outcome: Outcome) {
        self.role_changed(parts.out, "leading", self.base.epochs.current);
        let mut ctx = parts.ctx(&mut self.base);
        match Leader::start(&mut ctx, outcome.vote) {
            Ok(leader) => self.role = RoleState::Leading(Box::new(leader)),
            Err(leave) => return self.leave(parts, &leave.why),
        }
        for (link, event) in self.waiting.take() {
            self.link(parts, link, event);
        }
    }

    fn learn(&mut self, parts: &mut CtxParts<'_>, leader: ServerId, outcome: Outcome) {
        let role = if self.base.is_voter() { "following" } else { "observing" };
        self.role_changed(parts.out, role, self.base.epochs.current);
        self.waiting.refuse_all(parts.out);
        self.learn_attempts += 1;
        let mut ctx = parts.ctx(&mut self.base);
        let learner = Learner::start(&mut ctx, outcome.vote, leader, self.learn_attempts);
        self.role = RoleState::Learning(Box::new(learner));
    }

    fn role_changed(&self, out: &mut dyn Sink, role: &'static str, epoch: Epoch) {
        out.emit(Effect::Observe(Observation::RoleChanged { role, epoch }));
    }
}
