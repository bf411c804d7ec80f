//! One learner as its leader or observer master sees it, and the only door to its queue (upstream `LearnerHandler`).
//!
//! Every PROPOSAL, COMMIT and INFORM of a learner leaves through this module, during synchronization and after it
//! (invariant 7): there is no second queue that could be out of step (ZOOKEEPER-5088), and a gap is an assertion.

use bytes::Bytes;
use zk_jute::quorum::{PacketType, QuorumPacket};
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, ServerId, Zxid};

use super::base::Ctx;
use super::sync_plan::{SyncPlan, plan};
use crate::effect::{Effect, Observation, Sink};
use crate::input::LinkId;
use crate::mutants::mutant;
use crate::time::Instant;

/// How far the conversation has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandlerState {
    /// Connected, nothing said.
    Connected,
    /// FOLLOWERINFO or OBSERVERINFO came; LEADERINFO waits for the epoch.
    Introduced,
    /// LEADERINFO sent.
    Informed,
    /// ACKEPOCH came; synchronization waits for the epoch to be agreed.
    Agreed,
    /// Synchronization and NEWLEADER sent.
    Syncing,
    /// NEWLEADER acknowledged; UPTODATE waits for the leader to be established.
    Synced,
    /// UPTODATE sent.
    Serving,
}

/// State of one learner.
#[derive(Debug)]
pub(crate) struct LearnerHandler {
    pub link: LinkId,
    pub sid: ServerId,
    pub voter: bool,
    pub state: HandlerState,
    pub accepted_epoch: Epoch,
    /// Its ACKEPOCH named a current epoch, so that it counts towards the agreement.
    pub counts_for_epoch: bool,
    /// From ACKEPOCH: where its log ends.
    pub last_logged: Zxid,
    /// Last transaction put into its queue.
    pub last_queued: Zxid,
    /// Last proposal it acknowledged; acknowledgements are cumulative because its log is ordered.
    pub acked: Zxid,
    /// Last time anything came from it.
    pub last_heard: Instant,
    /// The oldest proposal that is watched for its acknowledgement, and when it was sent.
    owed: Option<(Zxid, Instant)>,
    /// The one to be watched next (upstream `SyncLimitCheck`).
    owed_next: Option<(Zxid, Instant)>,
}

/// A packet without data.
pub(crate) const fn bare(kind: PacketType, zxid: Zxid) -> QuorumPacket {
    QuorumPacket { kind, zxid, data: None, auth_info: None }
}

/// A packet with data.
pub(crate) const fn with_data(kind: PacketType, zxid: Zxid, data: Bytes) -> QuorumPacket {
    QuorumPacket { kind, zxid, data: Some(data), auth_info: None }
}

impl LearnerHandler {
    pub(crate) const fn new(link: LinkId, now: Instant) -> Self {
        Self {
            link,
            sid: ServerId(0),
            voter: false,
            state: HandlerState::Connected,
            accepted_epoch: Epoch(0),
            counts_for_epoch: false,
            last_logged: Zxid::NONE,
            last_queued: Zxid::ZERO,
            acked: Zxid::ZERO,
            last_heard: now,
            owed: None,
            owed_next: None,
        }
    }

    /// True once it gets the stream of transactions.
    pub(crate) const fn is_forwarding(&self) -> bool {
        matches!(self.state, HandlerState::Syncing | HandlerState::Synced | HandlerState::Serving)
    }

    /// True if it has acknowledged NEWLEADER.
    pub(crate) const fn is_synced(&self) -> bool {
        matches!(self.state, HandlerState::Synced | HandlerState::Serving)
    }

    pub(crate) fn send(&self, packet: QuorumPacket, out: &mut dyn Sink) {
        out.emit(Effect::Send { link: self.link, packet });
    }

    /// Queues one transaction, as PROPOSAL or INFORM.
    pub(crate) fn queue_txn(&mut self, kind: PacketType, txn: &LoggedTxn, out: &mut dyn Sink) {
        let zxid = txn.header.zxid;
        if mutant!("forward_gap") && zxid.counter() % 7 == 3 {
            self.last_queued = zxid;
            return;
        }
        assert!(
            zxid.follows(self.last_queued) || mutant!("observer_master_skips"),
            "gap in the queue of {}: {zxid} after {}",
            self.sid,
            self.last_queued
        );
        self.last_queued = zxid;
        self.send(with_data(kind, zxid, txn.bytes.clone()), out);
    }

    /// Sends everything up to `committed` that the learner lacks, then (to voters) what is only proposed, then
    /// NEWLEADER: from here on it is forwarded to, in one step with the decision, so that nothing can fall between.
    pub(crate) fn synchronize(&mut self, ctx: &mut Ctx<'_>, committed: Zxid, new_leader: QuorumPacket) {
        let journal = &ctx.base.journal;
        let plan = plan(journal, self.last_logged, committed);
        let (mode, from) = match plan {
            SyncPlan::Diff { from } => {
                self.send(bare(PacketType::Diff, committed), ctx.out);
                ("DIFF", from)
            }
            SyncPlan::Trunc { to } => {
                self.send(bare(PacketType::Trunc, to), ctx.out);
                ("TRUNC", to)
            }
            SyncPlan::Snap => {
                // The committed tree; what is logged and not applied follows as proposals (invariant 6).
                let image = Box::new(ctx.base.shared.tree.read().clone());
                let zxid = image.last_processed();
                self.send(bare(PacketType::Snap, zxid), ctx.out);
                ctx.out.emit(Effect::SendSnapshot { link: self.link, image });
                ("SNAP", zxid)
            }
        };
        ctx.out.emit(Effect::Observe(Observation::Synchronizing {
            peer: self.sid,
            mode,
            from,
            to: committed,
        }));
        self.last_queued = from;
        let history: Vec<_> = ctx.base.journal.history(from, ctx.base.journal.appended).cloned().collect();
        for txn in history {
            let zxid = txn.header.zxid;
            if zxid <= committed {
                self.queue_txn(PacketType::Proposal, &txn, ctx.out);
                self.send(bare(PacketType::Commit, zxid), ctx.out);
            } else if self.voter {
                self.queue_txn(PacketType::Proposal, &txn, ctx.out);
            }
        }
        self.acked = committed;
        self.state = HandlerState::Syncing;
        self.send(new_leader, ctx.out);
    }

    /// True if it has said nothing for `limit_ms`, or has owed an acknowledgement that long.
    pub(crate) fn is_overdue(&self, now: Instant, limit_ms: u64) -> bool {
        now.ms_since(self.last_heard) > limit_ms
            || self.owed.is_some_and(|(_, since)| now.ms_since(since) > limit_ms)
    }

    /// A proposal was sent that wants an acknowledgement. Two are watched at a time, so that a learner that acknowledges
    /// steadily but falls behind all the same is noticed.
    pub(crate) fn owes(&mut self, zxid: Zxid, now: Instant) {
        if self.owed.is_none() {
            self.owed = Some((zxid, now));
        } else {
            self.owed_next = Some((zxid, now));
        }
    }

    /// Takes an acknowledgement in.
    pub(crate) fn acknowledge(&mut self, zxid: Zxid) {
        self.acked = self.acked.max(zxid);
        if self.owed.is_some_and(|(owed, _)| owed <= self.acked) {
            self.owed = self.owed_next.take().filter(|(next, _)| *next > self.acked);
        }
    }
}
