//! Notifications in and out, whatever the role (upstream `FastLeaderElection.WorkerReceiver`).

use bytes::Bytes;
use zk_jute::ServerId;
use zk_jute::election::{Notification, PeerState};

use super::{CtxParts, Peer, RoleState};
use crate::effect::Effect;
use crate::election::{ElectionAction, Vote};

impl Peer {
    /// A notification arrived. While looking it is the election's; a settled member answers those who look with its
    /// vote; in between it is kept for the election to come, for the sender repeats itself at ever longer intervals.
    pub(super) fn notified(&mut self, parts: &mut CtxParts<'_>, from: ServerId, notification: &Notification) {
        if self.drain.is_some() || from == self.base.my_id() {
            return;
        }
        if let RoleState::Looking(election) = &mut self.role {
            let actions = election.receive(from, notification, &self.base.quorum, parts.now.mono);
            self.perform(parts, actions);
            return;
        }
        let state = match &self.role {
            RoleState::Leading(_) => PeerState::Leading,
            RoleState::Learning(learner) if learner.observer => PeerState::Observing,
            RoleState::Learning(_) => PeerState::Following,
            RoleState::Loading | RoleState::Resting(_) | RoleState::Settling | RoleState::Pausing(_) => {
                self.keep(from, notification);
                return;
            }
            _ => return,
        };
        let asks = notification.state == PeerState::Looking || !self.base.quorum.is_voter(from);
        if asks && let Some(vote) = self.settled_vote() {
            self.send_vote(parts, from, vote, state);
        }
    }

    /// Keeps the newest vote of a voter that looks. What settled members say may have become false by the time we look:
    /// they answer our own broadcast anew. Bound: the voters.
    fn keep(&mut self, from: ServerId, notification: &Notification) {
        if !self.base.quorum.is_voter(from) {
            return;
        }
        if notification.state == PeerState::Looking {
            self.heard.insert(from, notification.clone());
        } else {
            self.heard.remove(&from);
        }
    }

    /// Hands what was kept to the election that has just begun (upstream's `recvqueue`).
    pub(super) fn hear_kept(&mut self, parts: &mut CtxParts<'_>) {
        for (from, notification) in std::mem::take(&mut self.heard) {
            self.notified(parts, from, &notification);
        }
    }

    /// The vote of the current role; its epoch is the leader's new one as soon as that is established, so that
    /// latecomers find all members in agreement (ZOOKEEPER-1732).
    fn settled_vote(&self) -> Option<Vote> {
        match &self.role {
            RoleState::Leading(leader) => Some(leader.vote),
            RoleState::Learning(learner) => Some(learner.vote),
            _ => self.vote,
        }
    }

    pub(super) fn perform(&mut self, parts: &mut CtxParts<'_>, actions: Vec<ElectionAction>) {
        for action in actions {
            match action {
                ElectionAction::Broadcast => self.broadcast_proposal(parts),
                ElectionAction::Answer(to) => {
                    if let RoleState::Looking(election) = &self.role {
                        let proposal = election.proposal();
                        self.send_vote(parts, to, proposal, PeerState::Looking);
                    }
                }
                ElectionAction::Decided(outcome) => self.decided(parts, outcome),
            }
        }
    }

    fn broadcast_proposal(&self, parts: &mut CtxParts<'_>) {
        let RoleState::Looking(election) = &self.role else { return };
        let proposal = election.proposal();
        for to in self.base.quorum.voters().filter(|sid| *sid != self.base.my_id()) {
            self.send_vote(parts, to, proposal, PeerState::Looking);
        }
    }

    fn send_vote(&self, parts: &mut CtxParts<'_>, to: ServerId, vote: Vote, state: PeerState) {
        let notification = Notification {
            state,
            leader: vote.leader,
            zxid: vote.zxid,
            election_epoch: vote.round,
            peer_epoch: vote.peer_epoch,
            version: 2,
            config: Some(Bytes::from(self.base.membership.to_text())),
        };
        parts.out.emit(Effect::SendVote { to, notification });
    }
}
