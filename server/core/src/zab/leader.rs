//! Leading: agreeing on an epoch, bringing learners up to date, committing what a quorum has logged (upstream `Leader`).
//!
//! Epoch agreement is all or nothing (invariant 8): LEADERINFO leaves only from [`Leader::completed`], when the new
//! accepted epoch is durable here; a failed write ends the role before anybody has read the epoch (ZOOKEEPER-4781, 1291).

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_jute::quorum::{LEARNER_PROTOCOL_VERSION, PacketType};
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, ServerId, Zxid};

use super::base::{Ctx, Flow, Leave};
use super::io_stream::IoKind;
use super::learner_handler::{HandlerState, LearnerHandler, bare, with_data};
use super::primary::Primary;
use crate::effect::{Effect, Observation, PersistOp};
use crate::election::Vote;
use crate::input::{ClientCommand, ConnId, LinkId};
use crate::mutants::mutant;
use crate::time::Instant;

/// How far leadership has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Waiting for a quorum's FOLLOWERINFO.
    Discovery,
    /// The new accepted epoch is being written.
    AcceptingEpoch,
    /// LEADERINFO is out; waiting for a quorum's ACKEPOCH.
    Agreeing,
    /// The new current epoch is being written.
    EnteringEpoch,
    /// Waiting for a quorum to acknowledge NEWLEADER.
    Synchronization,
    /// Established.
    Broadcast,
}

/// The leading role.
#[derive(Debug)]
pub(crate) struct Leader {
    pub phase: Phase,
    pub vote: Vote,
    pub epoch: Epoch,
    /// End of the history that becomes committed with the establishment.
    pub initial_end: Zxid,
    /// By which the current phase must be over; unused in broadcast.
    deadline: Instant,
    pub handlers: BTreeMap<LinkId, LearnerHandler>,
    /// From the establishment on.
    pub primary: Option<Primary>,
    next_ping: Instant,
    /// Pings go out twice a tick; the quorum is checked once.
    check_quorum: bool,
    /// Set while stopping in good order: nothing new is taken in.
    resigning: Option<Instant>,
}

impl Leader {
    pub(crate) fn start(ctx: &mut Ctx<'_>, vote: Vote) -> Result<Self, Leave> {
        let deadline = ctx.now.mono.plus_ms(ctx.base.ticks_ms(ctx.base.config.init_limit));
        let mut leader = Self {
            phase: Phase::Discovery,
            vote,
            epoch: Epoch(0),
            initial_end: ctx.base.journal.appended,
            deadline,
            handlers: BTreeMap::new(),
            primary: None,
            next_ping: ctx.now.mono.plus_ms(ctx.base.config.tick_ms / 2),
            check_quorum: false,
            resigning: None,
        };
        leader.choose_epoch(ctx)?;
        Ok(leader)
    }

    /// zxid of this leadership's NEWLEADER.
    pub(crate) const fn new_leader_zxid(&self) -> Zxid {
        Zxid::new(self.epoch, 0)
    }

    /// With a quorum of FOLLOWERINFO the new epoch is one more than the highest any of them has accepted.
    pub(crate) fn choose_epoch(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        if self.phase != Phase::Discovery {
            return Ok(());
        }
        let introduced = self
            .handlers
            .values()
            .filter(|handler| handler.voter && handler.state != HandlerState::Connected);
        let members = introduced.clone().map(|handler| handler.sid).chain([ctx.base.my_id()]);
        if !ctx.base.quorum.is_quorum(members) {
            return Ok(());
        }
        let highest = introduced.map(|handler| handler.accepted_epoch).max().unwrap_or_default();
        let highest = highest.max(ctx.base.epochs.accepted);
        let Some(next) = highest.0.checked_add(1) else {
            return Err(Leave::because("no epoch is left after 4294967295"));
        };
        self.epoch = Epoch(next);
        self.phase = Phase::AcceptingEpoch;
        ctx.base.io.submit(PersistOp::WriteAcceptedEpoch(self.epoch), ctx.out);
        if mutant!("epoch_memory_first") {
            self.epoch_accepted(ctx);
        }
        Ok(())
    }

    /// An operation of this role is durable.
    pub(crate) fn completed(&mut self, ctx: &mut Ctx<'_>, kind: &IoKind) -> Flow {
        match kind {
            IoKind::AcceptedEpoch(_) if self.phase == Phase::AcceptingEpoch => {
                self.epoch_accepted(ctx);
                self.agree(ctx)
            }
            IoKind::CurrentEpoch(_) if self.phase == Phase::EnteringEpoch => self.epoch_entered(ctx),
            IoKind::Append(_) => self.commit(ctx),
            IoKind::AcceptedEpoch(_)
            | IoKind::CurrentEpoch(_)
            | IoKind::Load
            | IoKind::Reload
            | IoKind::Truncate
            | IoKind::Install { .. }
            | IoKind::RollLog
            | IoKind::CleanMarker(_) => Ok(()),
        }
    }

    /// The accepted epoch is durable: only now may anybody read it.
    fn epoch_accepted(&mut self, ctx: &mut Ctx<'_>) {
        self.phase = Phase::Agreeing;
        let waiting: Vec<LinkId> = self.links_in(HandlerState::Introduced);
        for link in waiting {
            self.inform(ctx, link);
        }
    }

    /// Sends LEADERINFO.
    pub(crate) fn inform(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        let zxid = self.new_leader_zxid();
        if let Some(handler) = self.handlers.get_mut(&link) {
            handler.state = HandlerState::Informed;
            let version = bytes::Bytes::copy_from_slice(&LEARNER_PROTOCOL_VERSION.to_be_bytes());
            handler.send(with_data(PacketType::LeaderInfo, zxid, version), ctx.out);
        }
    }

    /// With a quorum of ACKEPOCH the epoch is entered. A member without history agrees to nothing.
    pub(crate) fn agree(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        if self.phase != Phase::Agreeing {
            return Ok(());
        }
        let agreed = self.handlers.values().filter(|handler| {
            handler.voter
                && handler.state == HandlerState::Agreed
                && handler.counts_for_epoch
                && handler.last_logged != Zxid::NONE
        });
        let members = agreed.map(|handler| handler.sid).chain([ctx.base.my_id()]);
        if ctx.base.quorum.is_quorum(members) {
            self.phase = Phase::EnteringEpoch;
            self.deadline = ctx.now.mono.plus_ms(ctx.base.ticks_ms(ctx.base.config.init_limit));
            ctx.base.io.submit(PersistOp::WriteCurrentEpoch(self.epoch), ctx.out);
        }
        Ok(())
    }

    fn epoch_entered(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        self.phase = Phase::Synchronization;
        for link in self.links_in(HandlerState::Agreed) {
            self.synchronize(ctx, link);
        }
        // A lone voter is a quorum already.
        self.establish(ctx)
    }

    /// Brings one learner up to date. Before the establishment everything in our log counts as history to be committed.
    pub(crate) fn synchronize(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        let committed =
            if self.phase == Phase::Broadcast { ctx.base.journal.committed } else { self.initial_end };
        let config = bytes::Bytes::from(ctx.base.membership.to_text());
        let new_leader = with_data(PacketType::NewLeader, self.new_leader_zxid(), config);
        if let Some(handler) = self.handlers.get_mut(&link) {
            handler.synchronize(ctx, committed, new_leader);
        }
    }

    /// With a quorum of NEWLEADER acknowledgements the initial history is committed and service begins. Only now may
    /// the tail of our own log enter the tree (invariant 6).
    pub(crate) fn establish(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        if self.phase != Phase::Synchronization {
            return Ok(());
        }
        let synced = self.handlers.values().filter(|handler| handler.voter && handler.is_synced());
        if !ctx.base.quorum.is_quorum(synced.map(|handler| handler.sid).chain([ctx.base.my_id()])) {
            return Ok(());
        }
        assert!(ctx.base.journal.durable >= self.initial_end, "a leader starts from a drained log");
        self.phase = Phase::Broadcast;
        self.vote.peer_epoch = i64::from(self.epoch.0);
        ctx.base.journal.committed = self.initial_end;
        ctx.apply_committed();
        self.primary = Some(Primary::new(ctx, self.new_leader_zxid()));
        ctx.start_serving(self.epoch);
        self.next_ping = ctx.now.mono.plus_ms((ctx.base.config.tick_ms / 2).max(1));
        self.check_quorum = false;
        for link in self.links_in(HandlerState::Synced) {
            self.admit(ctx, link);
        }
        Ok(())
    }

    /// Sends UPTODATE.
    pub(crate) fn admit(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        if let Some(handler) = self.handlers.get_mut(&link) {
            handler.state = HandlerState::Serving;
            // It had nothing to say while it waited for the others.
            handler.last_heard = ctx.now.mono;
            if handler.voter && handler.acked < handler.last_queued {
                handler.owes(handler.last_queued, ctx.now.mono);
            }
            handler.send(bare(PacketType::UpToDate, Zxid(-1)), ctx.out);
        }
    }

    /// Sends new transactions to every voter that is forwarded to.
    pub(crate) fn propose(&mut self, ctx: &mut Ctx<'_>, txns: &[Arc<LoggedTxn>]) {
        for txn in txns {
            for handler in
                self.handlers.values_mut().filter(|handler| handler.voter && handler.is_forwarding())
            {
                handler.queue_txn(PacketType::Proposal, txn, ctx.out);
                if handler.is_synced() {
                    handler.owes(txn.header.zxid, ctx.now.mono);
                }
            }
        }
    }

    /// Commits, in order, every proposal that a quorum has logged; applies what is logged here too.
    pub(crate) fn commit(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        if self.phase != Phase::Broadcast {
            return Ok(());
        }
        while let Some(txn) = ctx.base.journal.next_uncommitted().cloned() {
            let zxid = txn.header.zxid;
            let mine = (ctx.base.journal.durable >= zxid).then_some(ctx.base.my_id());
            let followers = self.handlers.values();
            let acked = followers
                .filter(|handler| handler.voter && handler.is_synced() && handler.acked >= zxid)
                .map(|handler| handler.sid);
            let enough = ctx.base.quorum.is_quorum(acked.chain(mine));
            let short = mutant!("commit_without_quorum") && mine.is_some();
            if !enough && !short {
                break;
            }
            ctx.base.journal.committed = zxid;
            self.announce(ctx, &txn);
            self.answer_syncs(ctx);
        }
        let applied = ctx.apply_committed();
        if let Some(primary) = &mut self.primary {
            primary.applied(&applied);
        }
        if ctx.base.journal.overflows() {
            return Err(Leave::because("our own log is too far behind the quorum"));
        }
        if self.primary.as_ref().is_some_and(Primary::is_nearly_used_up) {
            return self.resign(ctx);
        }
        self.resign_if_settled(ctx)
    }

    fn announce(&mut self, ctx: &mut Ctx<'_>, txn: &LoggedTxn) {
        for handler in self.handlers.values_mut().filter(|handler| handler.is_forwarding()) {
            if handler.voter {
                handler.send(bare(PacketType::Commit, txn.header.zxid), ctx.out);
            } else {
                handler.queue_txn(PacketType::Inform, txn, ctx.out);
            }
        }
    }

    /// Sends SYNC to learners right behind the COMMIT that it waited for, before the next one: a client's writes behind
    /// the sync must not be answered first.
    pub(crate) fn answer_syncs(&mut self, ctx: &mut Ctx<'_>) {
        let Some(primary) = &mut self.primary else { return };
        for link in primary.ready_syncs(ctx.base.journal.committed) {
            if let Some(handler) = self.handlers.get(&link) {
                handler.send(bare(PacketType::Sync, Zxid::ZERO), ctx.out);
            }
        }
    }

    /// A client connected to this member.
    pub(crate) fn client(&mut self, ctx: &mut Ctx<'_>, conn: ConnId, command: ClientCommand) -> Flow {
        let disconnected = matches!(command, ClientCommand::Disconnected);
        let Some(primary) = self.primary.as_mut().filter(|_| self.resigning.is_none() || disconnected) else {
            super::clients::Clients::tell(conn, crate::effect::ClientMessage::Close, ctx.out);
            return Ok(());
        };
        let txns = primary.client(ctx, conn, command)?;
        self.propose(ctx, &txns);
        Ok(())
    }

    /// Begins to stop in good order: nothing new is taken in, what is proposed gets its time to be committed, then the
    /// followers, all of them up to date, elect the next leader among themselves.
    pub(crate) fn resign(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        if self.resigning.is_none() {
            let limit = ctx.base.ticks_ms(ctx.base.config.sync_limit);
            self.resigning = Some(ctx.now.mono.plus_ms(limit));
        }
        self.resign_if_settled(ctx)
    }

    fn resign_if_settled(&self, ctx: &Ctx<'_>) -> Flow {
        let Some(until) = self.resigning else { return Ok(()) };
        let settled = ctx.base.journal.backlog() == 0 || until <= ctx.now.mono;
        if settled || self.phase != Phase::Broadcast { Err(Leave::because("resigned")) } else { Ok(()) }
    }

    pub(crate) fn is_resigning(&self) -> bool {
        self.resigning.is_some()
    }

    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        self.resign_if_settled(ctx)?;
        if self.phase != Phase::Broadcast {
            if self.deadline <= ctx.now.mono {
                return Err(Leave::because(format!("no quorum in {:?} within initLimit", self.phase)));
            }
            return Ok(());
        }
        if self.resigning.is_none() {
            self.submit_due(ctx)?;
        }
        if self.next_ping <= ctx.now.mono {
            self.next_ping = ctx.now.mono.plus_ms((ctx.base.config.tick_ms / 2).max(1));
            // Followers commit without us, and our own clients would wait for our disk for ever.
            ctx.require_disk()?;
            self.drop_overdue(ctx);
            self.ping(ctx);
            self.check_quorum = !self.check_quorum;
            if self.check_quorum {
                self.require_quorum(ctx)?;
            }
        }
        Ok(())
    }

    fn submit_due(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        let Some(primary) = &mut self.primary else { return Ok(()) };
        let mut proposed = Vec::new();
        for request in primary.due(ctx) {
            proposed.extend(primary.submit(ctx, &request)?);
        }
        self.propose(ctx, &proposed);
        Ok(())
    }

    fn ping(&self, ctx: &mut Ctx<'_>) {
        let zxid = ctx.base.journal.appended;
        for handler in self.handlers.values().filter(|handler| handler.state == HandlerState::Serving) {
            handler.send(bare(PacketType::Ping, zxid), ctx.out);
        }
    }

    fn drop_overdue(&mut self, ctx: &mut Ctx<'_>) {
        let config = &ctx.base.config;
        let serving_ms = ctx.base.ticks_ms(config.sync_limit);
        let syncing_ms = ctx.base.ticks_ms(config.init_limit + config.sync_limit);
        let now = ctx.now.mono;
        let overdue: Vec<LinkId> = self
            .handlers
            .values()
            .filter(|handler| {
                let limit = if handler.state == HandlerState::Serving { serving_ms } else { syncing_ms };
                handler.is_overdue(now, limit)
            })
            .map(|handler| handler.link)
            .collect();
        for link in overdue {
            self.drop_learner(ctx, link, "silent for too long");
        }
    }

    fn require_quorum(&self, ctx: &Ctx<'_>) -> Flow {
        let synced = self.handlers.values().filter(|handler| handler.voter && handler.is_synced());
        let members = synced.map(|handler| handler.sid).chain([ctx.base.my_id()]);
        if ctx.base.quorum.is_quorum(members) {
            Ok(())
        } else {
            Err(Leave::because("not sufficient followers synced"))
        }
    }

    /// Hangs up on a learner; it will come back and be synchronized.
    pub(crate) fn drop_learner(&mut self, ctx: &mut Ctx<'_>, link: LinkId, why: &str) {
        if let Some(handler) = self.handlers.remove(&link) {
            ctx.observe(Observation::LinkFault { peer: handler.sid, why: why.to_owned() });
            ctx.out.emit(Effect::Close { link, reason: why.to_owned() });
        }
    }

    /// Every link is closed when the role ends, after what is queued in it.
    pub(crate) fn close_all(&mut self, ctx: &mut Ctx<'_>, why: &str) {
        for link in std::mem::take(&mut self.handlers).into_keys() {
            ctx.out.emit(Effect::Close { link, reason: why.to_owned() });
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let phase = if self.phase == Phase::Broadcast { self.next_ping } else { self.deadline };
        // While resigning nothing is submitted, so what is due must not wake us either.
        let due = self.primary.as_ref().filter(|_| self.resigning.is_none()).and_then(Primary::next_deadline);
        [Some(phase), due, self.resigning].into_iter().flatten().min()
    }

    fn links_in(&self, state: HandlerState) -> Vec<LinkId> {
        self.handlers.values().filter(|handler| handler.state == state).map(|handler| handler.link).collect()
    }

    /// The handler of a member, if it is connected.
    pub(crate) fn link_of(&self, sid: ServerId) -> Option<LinkId> {
        self.handlers
            .values()
            .find(|handler| handler.sid == sid && handler.state != HandlerState::Connected)
            .map(|handler| handler.link)
    }
}
