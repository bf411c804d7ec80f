//! One member: which role it plays, and the rules for changing it.
//!
//! Between two roles lies [`RoleState::Settling`]: the old role's disk operations are drained before an election may be
//! offered anything (ZOOKEEPER-4541, 4712), and memory that may differ from disk is read again (ZOOKEEPER-5094, 2845).

mod drain;
mod facts;
mod persisted;
mod roles;
mod votes;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_jute::ServerId;
use zk_jute::election::Notification;

use crate::config::PeerConfig;
use crate::effect::{Effect, HaltReason, PersistOp};
use crate::election::{Election, Vote};
use crate::input::{ClientCommand, ConnId, LinkEvent, LinkId};
use crate::time::{Instant, Now};
use crate::zab::base::{Base, Ctx, Flow};
use crate::zab::leader::Leader;
use crate::zab::learner::Learner;
use crate::zab::standalone::Standalone;
use crate::{Input, Shared, Sink};

use drain::Drain;
use waiting::WaitingLinks;

/// What a peer is doing.
#[derive(Debug)]
enum RoleState {
    /// Reading its disk.
    Loading,
    /// The disk failed a write; waiting before it is read again.
    Resting(Instant),
    /// Waiting for the old role's disk operations.
    Settling,
    /// The last attempt to learn failed at once; waiting a little before the next.
    Pausing(Instant),
    Looking(Election),
    Leading(Box<Leader>),
    Learning(Box<Learner>),
    Standalone(Box<Standalone>),
    /// The clean marker is being written.
    Stopping,
    Halted,
}

/// One member of the ensemble, all of its protocol state.
#[derive(Debug)]
pub struct Peer {
    base: Base,
    role: RoleState,
    /// Round of the last election (upstream `logicalclock`).
    round: i64,
    /// The vote reported to members that are still looking, while settled.
    vote: Option<Vote>,
    /// Votes that came while no election was under way, the newest of each voter.
    heard: BTreeMap<ServerId, Notification>,
    /// Links of learners that found us leading before we did.
    waiting: WaitingLinks,
    drain: Option<Drain>,
    /// Disk failures since the last time a role served; doubles the rest.
    disk_failures: u32,
    /// Attempts to learn since the last one that led to service; lengthens the pause before the next.
    failed_attempts: u32,
    /// Times this member began to learn; spreads observers over observer masters.
    learn_attempts: u64,
}

impl Peer {
    /// Starts a peer: emits [`PersistOp::Load`] and waits for its answer.
    pub fn new(config: PeerConfig, shared: Arc<Shared>, now: Now, out: &mut dyn Sink) -> Self {
        shared.watches.lock().set_skip_acl(config.rules.skip_acl);
        let mut peer = Self {
            base: Base::new(config, shared),
            role: RoleState::Loading,
            round: 0,
            vote: None,
            heard: BTreeMap::new(),
            waiting: WaitingLinks::default(),
            drain: None,
            disk_failures: 0,
            failed_attempts: 0,
            learn_attempts: 0,
        };
        peer.load(&mut CtxParts { now, out });
        peer
    }

    /// Takes one input in; everything it causes goes to `out`.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut dyn Sink) {
        let parts = &mut CtxParts { now, out };
        if matches!(self.role, RoleState::Halted) {
            return;
        }
        match input {
            Input::Persisted { io, result } => self.persisted(parts, io, result),
            Input::SnapshotDone { zxid, result } => self.snapshot_done(parts, zxid, result),
            Input::Client { conn, command } => self.client(parts, conn, command),
            Input::Vote { from, notification } => self.notified(parts, from, &notification),
            Input::Link { link, event } => self.link(parts, link, event),
            Input::Tick => {}
            Input::Drain => self.begin_drain(parts),
        }
        self.tick(parts);
    }

    /// When [`Input::Tick`] is wanted next.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.role {
            RoleState::Resting(until) | RoleState::Pausing(until) => Some(*until),
            RoleState::Looking(election) => Some(election.deadline()),
            RoleState::Leading(leader) => leader.next_deadline(),
            RoleState::Learning(learner) => {
                let sync_limit_ms = self.base.ticks_ms(self.base.config.sync_limit);
                learner.next_deadline(sync_limit_ms, self.base.journal.unlogged_since())
            }
            RoleState::Standalone(standalone) => standalone.next_deadline(),
            RoleState::Loading | RoleState::Settling | RoleState::Stopping | RoleState::Halted => None,
        }
    }

    fn tick(&mut self, parts: &mut CtxParts<'_>) {
        let now = parts.now.mono;
        if self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut ctx = parts.ctx(&mut self.base);
        let flow = match &mut self.role {
            RoleState::Leading(leader) => leader.tick(&mut ctx),
            RoleState::Learning(learner) => learner.tick(&mut ctx),
            RoleState::Standalone(standalone) => standalone.tick(&mut ctx),
            RoleState::Looking(election) => {
                let actions = election.tick(now);
                if !actions.is_empty() {
                    self.send_back_waiting(parts);
                }
                self.perform(parts, actions);
                return;
            }
            RoleState::Resting(_) => {
                self.load(parts);
                return;
            }
            RoleState::Pausing(_) => {
                self.look(parts);
                return;
            }
            RoleState::Loading | RoleState::Settling | RoleState::Stopping | RoleState::Halted => return,
        };
        self.conclude(parts, flow);
    }

    /// Links that have waited longer than an election takes are given up.
    fn send_back_waiting(&mut self, parts: &mut CtxParts<'_>) {
        let config = &self.base.config;
        let patience_ms = 2 * config.election_finalize_ms + config.tick_ms;
        let oldest = Instant(parts.now.mono.0.saturating_sub(patience_ms * 1_000_000));
        self.waiting.refuse_older(oldest, parts.out);
    }

    fn load(&mut self, parts: &mut CtxParts<'_>) {
        self.role = RoleState::Loading;
        self.base.io.submit(PersistOp::Load, parts.out);
    }

    fn client(&mut self, parts: &mut CtxParts<'_>, conn: ConnId, command: ClientCommand) {
        let mut ctx = parts.ctx(&mut self.base);
        let flow = match &mut self.role {
            RoleState::Leading(leader) => leader.client(&mut ctx, conn, command),
            RoleState::Learning(learner) => {
                learner.client(&mut ctx, conn, command);
                Ok(())
            }
            RoleState::Standalone(standalone) if self.drain.is_none() => {
                standalone.client(&mut ctx, conn, command)
            }
            _ => {
                crate::zab::clients::Clients::tell(conn, crate::effect::ClientMessage::Close, ctx.out);
                Ok(())
            }
        };
        self.conclude(parts, flow);
    }

    fn link(&mut self, parts: &mut CtxParts<'_>, link: LinkId, event: LinkEvent) {
        let mut ctx = parts.ctx(&mut self.base);
        let flow = match &mut self.role {
            RoleState::Leading(leader) => leader.link(&mut ctx, link, event),
            RoleState::Learning(learner) => learner.link(&mut ctx, link, event),
            RoleState::Loading | RoleState::Settling | RoleState::Pausing(_) | RoleState::Looking(_) => {
                self.waiting.hold(ctx.now.mono, link, event, ctx.out);
                Ok(())
            }
            RoleState::Resting(_) | RoleState::Standalone(_) | RoleState::Stopping | RoleState::Halted => {
                if !matches!(event, LinkEvent::Closed { .. }) {
                    ctx.out.emit(Effect::Close { link, reason: "not leading".into() });
                }
                Ok(())
            }
        };
        self.conclude(parts, flow);
    }

    /// Ends the role if it said so.
    fn conclude(&mut self, parts: &mut CtxParts<'_>, flow: Flow) {
        if let Err(leave) = flow {
            self.leave(parts, &leave.why);
        }
    }

    fn halt(&mut self, parts: &mut CtxParts<'_>, reason: HaltReason) {
        self.base.shared.set_serving(false);
        self.role = RoleState::Halted;
        parts.out.emit(Effect::Halt(reason));
    }
}

/// The caller's half of a [`Ctx`]; the other half is borrowed where it is needed.
struct CtxParts<'a> {
    now: Now,
    out: &'a mut dyn Sink,
}

impl CtxParts<'_> {
    fn ctx<'b>(&'b mut self, base: &'b mut Base) -> Ctx<'b> {
        Ctx { base, now: self.now, out: &mut *self.out }
    }
}
