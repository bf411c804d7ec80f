//! Following and observing: from the connection to the leader to broadcast (upstream `Learner`, `Follower`, `Observer`).
//!
//! An ACK is born in [`Learner::completed`] and nowhere else (invariant 2): ACKEPOCH when the accepted epoch is durable,
//! the ACK of NEWLEADER when the synced transactions and then the current epoch are, the ACK of a proposal when it is.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use zk_jute::quorum::{LEARNER_PROTOCOL_VERSION, LearnerInfo, PacketType, QuorumPacket};
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, ServerId, SessionId, Writer, Zxid};

use super::base::{Ctx, Flow, Leave};
use super::io_stream::IoKind;
use super::learner_handler::{bare, with_data};
use super::observer_master::ObserverMaster;
use crate::effect::{Effect, Observation, PersistOp, Port};
use crate::election::Vote;
use crate::input::{LinkEvent, LinkId};
use crate::mutants::mutant;
use crate::session::LearnerSessions;
use crate::time::Instant;
use crate::tree::DataTree;

/// Wait between attempts to reach the leader, milliseconds (upstream sleeps a second; a leader is usually there sooner).
const RETRY_MS: u64 = 200;

/// How far the conversation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The link is being opened.
    Connecting,
    /// The next attempt to open it comes then.
    Retrying(Instant),
    /// FOLLOWERINFO or OBSERVERINFO sent.
    AwaitingLeaderInfo,
    /// The accepted epoch is being written.
    AcceptingEpoch,
    /// ACKEPOCH sent; DIFF, TRUNC or SNAP comes next.
    AwaitingSync,
    /// SNAP came; its image comes next.
    AwaitingImage(Zxid),
    /// Taking the history in, until NEWLEADER.
    Syncing,
    /// Synced transactions and the current epoch are being written.
    EnteringEpoch,
    /// NEWLEADER acknowledged.
    AwaitingUpToDate,
    Broadcast,
}

/// Who asked for a sync.
#[derive(Clone, Copy, Debug)]
pub(super) enum SyncOrigin {
    Client(SessionId),
    Observer(LinkId),
}

/// The learning role.
#[derive(Debug)]
pub(crate) struct Learner {
    pub vote: Vote,
    pub leader: ServerId,
    /// Whom we dial: the leader, or for an observer perhaps a follower's observer master.
    target: (ServerId, Port),
    pub observer: bool,
    pub(super) link: LinkId,
    pub stage: Stage,
    pub epoch: Epoch,
    /// By which the synchronization must be over.
    deadline: Instant,
    last_heard: Instant,
    /// End of what is known to be committed while synchronizing; becomes `journal.committed` with UPTODATE.
    pub(super) sync_committed: Zxid,
    /// End of the history that NEWLEADER's ACK covers; later proposals are acknowledged one by one.
    pub(super) acked_history: Zxid,
    pub(super) sessions: LearnerSessions,
    /// Syncs forwarded to the leader, answered in order. Bound: part of the requests outstanding.
    pub(super) syncs: VecDeque<SyncOrigin>,
    /// Observers' syncs that the leader has answered and that wait for our own log to catch up.
    pub(super) settled_syncs: VecDeque<(Zxid, LinkId)>,
    /// Observers that this follower serves.
    pub(super) master: Option<ObserverMaster>,
    /// The image of a SNAP, until NEWLEADER says that what follows it is complete.
    pub(super) image: Option<Box<DataTree>>,
    /// Mutant `observer_master_skips` only.
    skip_until: Zxid,
}

impl Learner {
    /// Starts to dial. `attempt` spreads an observer's choice of observer master over the voters.
    pub(crate) fn start(ctx: &mut Ctx<'_>, vote: Vote, leader: ServerId, attempt: u64) -> Self {
        let observer = !ctx.base.is_voter();
        let limit = ctx.base.ticks_ms(ctx.base.config.init_limit);
        let mut learner = Self {
            vote,
            leader,
            target: choose_target(ctx, leader, observer, attempt),
            observer,
            link: LinkId(0),
            stage: Stage::Connecting,
            epoch: Epoch(0),
            deadline: ctx.now.mono.plus_ms(limit),
            last_heard: ctx.now.mono,
            sync_committed: Zxid::ZERO,
            acked_history: Zxid::ZERO,
            sessions: LearnerSessions::new(ctx.base.my_id(), ctx.now.wall_ms),
            syncs: VecDeque::new(),
            settled_syncs: VecDeque::new(),
            master: None,
            image: None,
            skip_until: Zxid::ZERO,
        };
        learner.dial(ctx);
        learner
    }

    fn dial(&mut self, ctx: &mut Ctx<'_>) {
        self.link = ctx.base.next_link();
        self.stage = Stage::Connecting;
        let (to, port) = self.target;
        ctx.out.emit(Effect::Connect { link: self.link, to, port });
    }

    pub(super) fn send(&self, ctx: &mut Ctx<'_>, packet: QuorumPacket) {
        ctx.out.emit(Effect::Send { link: self.link, packet });
    }

    /// Something happened on a link: ours to the leader, or an observer's to us.
    pub(crate) fn link(&mut self, ctx: &mut Ctx<'_>, link: LinkId, event: LinkEvent) -> Flow {
        if link != self.link {
            return self.observer_link(ctx, link, event);
        }
        self.last_heard = ctx.now.mono;
        let limit = self.deadline;
        // Upstream's limit is one of each read, not of the whole: a large image may take as long as it moves.
        self.deadline = ctx.now.mono.plus_ms(ctx.base.ticks_ms(ctx.base.config.init_limit));
        match event {
            LinkEvent::Connected => {
                self.introduce(ctx);
                Ok(())
            }
            LinkEvent::Packet(packet) => self.packet(ctx, packet),
            LinkEvent::Snapshot(image) => self.install(ctx, image),
            LinkEvent::Closed { reason } => match self.stage {
                Stage::Connecting => {
                    self.deadline = limit;
                    self.stage = Stage::Retrying(ctx.now.mono.plus_ms(RETRY_MS));
                    Ok(())
                }
                _ => Err(Leave::because(format!("lost the leader: {reason}"))),
            },
            LinkEvent::Accepted | LinkEvent::AcceptedObserver | LinkEvent::Progress => Ok(()),
        }
    }

    fn introduce(&mut self, ctx: &mut Ctx<'_>) {
        let info = LearnerInfo {
            server_id: ctx.base.my_id(),
            protocol_version: LEARNER_PROTOCOL_VERSION,
            config_version: ctx.base.membership.version,
        };
        let data = Writer::build(|writer| info.encode(writer));
        let kind = if self.observer { PacketType::ObserverInfo } else { PacketType::FollowerInfo };
        self.send(ctx, with_data(kind, Zxid::new(ctx.base.epochs.accepted, 0), data));
        self.stage = Stage::AwaitingLeaderInfo;
    }

    fn packet(&mut self, ctx: &mut Ctx<'_>, packet: QuorumPacket) -> Flow {
        match self.stage {
            Stage::AwaitingLeaderInfo => self.leader_info(ctx, &packet),
            Stage::AwaitingSync => self.begin_sync(ctx, &packet),
            Stage::Syncing | Stage::EnteringEpoch | Stage::AwaitingUpToDate => self.sync_packet(ctx, packet),
            Stage::Broadcast => self.broadcast_packet(ctx, packet),
            Stage::Connecting | Stage::Retrying(_) | Stage::AcceptingEpoch | Stage::AwaitingImage(_) => {
                Err(Leave::because(format!("{:?} while {:?}", packet.kind, self.stage)))
            }
        }
    }

    /// LEADERINFO: a newer epoch is written before it is acknowledged; an older one is refused.
    fn leader_info(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Flow {
        if packet.kind != PacketType::LeaderInfo {
            return Err(Leave::because(format!("{:?} where LEADERINFO was due", packet.kind)));
        }
        self.epoch = packet.zxid.epoch();
        let accepted = ctx.base.epochs.accepted;
        if self.epoch < accepted {
            return Err(Leave::because(format!(
                "the leader's epoch {} is less than accepted {accepted}",
                self.epoch
            )));
        }
        if self.epoch > accepted {
            self.stage = Stage::AcceptingEpoch;
            ctx.base.io.submit(PersistOp::WriteAcceptedEpoch(self.epoch), ctx.out);
        } else {
            // Promised before: upstream's way to say "this does not count again".
            self.acknowledge_epoch(ctx, -1);
        }
        if mutant!("current_epoch_first") {
            ctx.base.io.submit(PersistOp::WriteCurrentEpoch(self.epoch), ctx.out);
        }
        Ok(())
    }

    fn acknowledge_epoch(&mut self, ctx: &mut Ctx<'_>, current: i32) {
        let data = Bytes::copy_from_slice(&current.to_be_bytes());
        // Without usable history, or when only an image helps, nothing is claimed: the leader answers with SNAP.
        let last = if ctx.base.needs_image { Zxid::NONE } else { ctx.base.votable_zxid() };
        self.send(ctx, with_data(PacketType::AckEpoch, last, data));
        self.stage = Stage::AwaitingSync;
    }

    /// An operation of this role is durable: the only place from which anything is acknowledged.
    pub(crate) fn completed(&mut self, ctx: &mut Ctx<'_>, kind: &IoKind) -> Flow {
        match kind {
            IoKind::AcceptedEpoch(_) if self.stage == Stage::AcceptingEpoch => {
                let current = i32::try_from(ctx.base.epochs.current.0).unwrap_or(i32::MAX);
                self.acknowledge_epoch(ctx, current);
            }
            IoKind::CurrentEpoch(_) if self.stage == Stage::EnteringEpoch => self.new_leader_durable(ctx),
            IoKind::Append(zxid) if self.stage == Stage::Broadcast => {
                if !mutant!("ack_before_sync") {
                    self.acknowledge(ctx, *zxid);
                }
                self.apply(ctx);
            }
            IoKind::AcceptedEpoch(_)
            | IoKind::CurrentEpoch(_)
            | IoKind::Append(_)
            | IoKind::Load
            | IoKind::Reload
            | IoKind::Truncate
            | IoKind::Install { .. }
            | IoKind::RollLog
            | IoKind::CleanMarker(_) => {}
        }
        Ok(())
    }

    pub(super) fn new_leader_durable(&mut self, ctx: &mut Ctx<'_>) {
        self.stage = Stage::AwaitingUpToDate;
        self.send(ctx, bare(PacketType::Ack, Zxid::new(self.epoch, 0)));
    }

    /// Acknowledges one proposal. Observers have no say; history was covered by NEWLEADER's ACK.
    pub(super) fn acknowledge(&self, ctx: &mut Ctx<'_>, zxid: Zxid) {
        if !self.observer && zxid > self.acked_history {
            self.send(ctx, bare(PacketType::Ack, zxid));
        }
    }

    /// UPTODATE: the history is committed by a quorum; apply it and serve.
    pub(super) fn up_to_date(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        assert!(
            ctx.base.journal.durable >= self.acked_history,
            "NEWLEADER was acknowledged before its history"
        );
        self.stage = Stage::Broadcast;
        self.vote.peer_epoch = i64::from(self.epoch.0);
        self.send(ctx, bare(PacketType::Ack, Zxid::new(self.epoch, 0)));
        ctx.base.journal.dirty = false;
        ctx.base.no_history = false;
        ctx.base.journal.committed = ctx.base.journal.committed.max(self.sync_committed);
        if ctx.base.config.observer_master && !self.observer {
            self.master = Some(ObserverMaster::new(self.epoch, ctx.now.mono));
        }
        if mutant!("observer_master_skips") {
            self.skip_until = ctx.base.journal.appended;
        }
        // Proposals that came while synchronizing are durable or on their way; each is acknowledged like any other.
        let durable = ctx.base.journal.durable;
        let owed: Vec<Zxid> =
            ctx.base.journal.history(self.acked_history, durable).map(|txn| txn.header.zxid).collect();
        self.apply(ctx);
        for zxid in owed {
            self.acknowledge(ctx, zxid);
        }
        ctx.start_serving(self.epoch);
        Ok(())
    }

    /// Applies what is committed and logged, hands it to observers, answers syncs that waited for it.
    pub(super) fn apply(&mut self, ctx: &mut Ctx<'_>) {
        let applied = ctx.apply_committed();
        for txn in &applied {
            if txn.header.op == zk_jute::OpCode::CloseSession as i32 {
                self.sessions.remove(SessionId(txn.header.client_id));
            }
        }
        self.forward(ctx, &applied);
    }

    fn forward(&mut self, ctx: &mut Ctx<'_>, applied: &[Arc<LoggedTxn>]) {
        let skip_until = self.skip_until;
        if let Some(master) = &mut self.master {
            for txn in applied.iter().filter(|txn| txn.header.zxid > skip_until) {
                master.inform(txn, ctx.out);
                self.settled_syncs =
                    answer_observers(std::mem::take(&mut self.settled_syncs), txn.header.zxid, ctx);
            }
        }
    }

    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        let now = ctx.now.mono;
        if let Stage::Retrying(at) = self.stage
            && at <= now
            && self.deadline > now
        {
            self.dial(ctx);
        }
        if self.stage == Stage::Broadcast {
            let limit = ctx.base.ticks_ms(ctx.base.config.sync_limit);
            if now.ms_since(self.last_heard) >= limit {
                return Err(Leave::because("nothing heard from the leader within syncLimit"));
            }
            // Nobody watches the disk of an observer, and a follower's clients read a tree that stands still.
            ctx.require_disk()?;
            if let Some(master) = &mut self.master {
                master.tick(ctx);
            }
        } else if self.deadline <= now && !self.waits_for_disk() {
            return Err(Leave::because(format!("not synchronized within initLimit ({:?})", self.stage)));
        }
        Ok(())
    }

    /// `unlogged_since`: see [`super::journal::Journal::unlogged_since`].
    pub(crate) fn next_deadline(
        &self,
        sync_limit_ms: u64,
        unlogged_since: Option<Instant>,
    ) -> Option<Instant> {
        match self.stage {
            Stage::Retrying(at) => Some(at.min(self.deadline)),
            Stage::Broadcast => {
                let silence = self.last_heard.plus_ms(sync_limit_ms);
                let disk = unlogged_since.map(|since| since.plus_ms(sync_limit_ms));
                [Some(silence), disk, self.master.as_ref().map(ObserverMaster::next_deadline)]
                    .into_iter()
                    .flatten()
                    .min()
            }
            _ if self.waits_for_disk() => None,
            _ => Some(self.deadline),
        }
    }

    /// True while only our own disk can make it go on; the leader watches how long that takes.
    const fn waits_for_disk(&self) -> bool {
        matches!(self.stage, Stage::AcceptingEpoch | Stage::EnteringEpoch)
    }

    /// The role ends: every link of it is closed.
    pub(crate) fn close_all(&mut self, ctx: &mut Ctx<'_>, why: &str) {
        if let Some(master) = &mut self.master {
            master.close_all(ctx, why);
        }
        ctx.out.emit(Effect::Close { link: self.link, reason: why.to_owned() });
    }

    /// Observers that this follower serves.
    pub(crate) fn observer_handlers(&self) -> impl Iterator<Item = &super::learner_handler::LearnerHandler> {
        self.master.iter().flat_map(ObserverMaster::handlers)
    }

    /// Reports a packet that breaks the stream; the role ends and synchronizes anew.
    pub(super) fn stream_fault(&self, ctx: &mut Ctx<'_>, why: String) -> Leave {
        ctx.observe(Observation::LinkFault { peer: self.leader, why: why.clone() });
        Leave { why }
    }
}

/// Sends SYNC to observers right behind the INFORM that it waited for; returns those that wait on.
pub(super) fn answer_observers(
    mut settled: VecDeque<(Zxid, LinkId)>,
    applied: Zxid,
    ctx: &mut Ctx<'_>,
) -> VecDeque<(Zxid, LinkId)> {
    while let Some((_, link)) = settled.pop_front_if(|(needed, _)| *needed <= applied) {
        ctx.out.emit(Effect::Send { link, packet: bare(PacketType::Sync, Zxid::ZERO) });
    }
    settled
}

/// Observers may be served by followers, so that the leader's uplink is not theirs; who, goes round with the attempts,
/// and the leader itself comes last.
fn choose_target(ctx: &Ctx<'_>, leader: ServerId, observer: bool, attempt: u64) -> (ServerId, Port) {
    if !observer || !ctx.base.config.observer_master {
        return (leader, Port::Quorum);
    }
    let followers: Vec<ServerId> = ctx.base.quorum.voters().filter(|sid| *sid != leader).collect();
    let turns = followers.len() as u64 + 1;
    let turn = attempt.wrapping_add(ctx.base.my_id().0.unsigned_abs()) % turns;
    followers
        .get(usize::try_from(turn).unwrap_or(usize::MAX))
        .map_or((leader, Port::Quorum), |sid| (*sid, Port::ObserverMaster))
}
