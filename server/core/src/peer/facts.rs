//! The picture of a peer that others see.

use zk_jute::{ServerId, Zxid};

use super::{Peer, RoleState};
use crate::facts::{Facts, LearnerFacts, Role};
use crate::zab::leader::Phase;
use crate::zab::learner::Stage;
use crate::zab::learner_handler::{HandlerState, LearnerHandler};

impl Peer {
    /// A consistent picture of this peer.
    pub fn facts(&self) -> Facts {
        let base = &self.base;
        Facts {
            role: self.public_role(),
            serving: base.shared.is_serving(),
            leader: self.leader(),
            accepted_epoch: base.epochs.accepted,
            current_epoch: base.epochs.current,
            zxid_logged: base.votable_zxid(),
            zxid_committed: base.journal.committed,
            zxid_applied: base.journal.applied,
            sync_queue_depth: base.io.depth(),
            learners: self.learners(),
            config_version: base.membership.version,
            draining: self.drain.is_some(),
            digest_mismatches: base.digest_mismatches,
            outstanding: base.clients.outstanding(),
            sessions: self.session_count(),
        }
    }

    fn public_role(&self) -> Role {
        match &self.role {
            RoleState::Halted => Role::Halted,
            _ if self.drain.is_some() => Role::Draining,
            RoleState::Loading | RoleState::Resting(_) => Role::Loading,
            RoleState::Settling | RoleState::Pausing(_) | RoleState::Looking(_) | RoleState::Stopping => {
                Role::Looking
            }
            RoleState::Leading(_) => Role::Leading,
            RoleState::Learning(learner) if learner.observer => Role::Observing,
            RoleState::Learning(_) => Role::Following,
            RoleState::Standalone(_) => Role::Standalone,
        }
    }

    fn leader(&self) -> Option<ServerId> {
        match &self.role {
            RoleState::Leading(leader) => (leader.phase == Phase::Broadcast).then_some(self.base.my_id()),
            RoleState::Learning(learner) => (learner.stage == Stage::Broadcast).then_some(learner.leader),
            _ => None,
        }
    }

    fn learners(&self) -> Vec<LearnerFacts> {
        match &self.role {
            RoleState::Leading(leader) => {
                let own = LearnerFacts {
                    sid: self.base.my_id(),
                    voter: true,
                    synced: leader.phase == Phase::Broadcast,
                    last_zxid: self.base.journal.durable,
                };
                leader.handlers.values().filter_map(learner_facts).chain([own]).collect()
            }
            RoleState::Learning(learner) => learner.observer_handlers().filter_map(learner_facts).collect(),
            _ => Vec::new(),
        }
    }

    fn session_count(&self) -> u64 {
        match &self.role {
            RoleState::Leading(leader) => {
                leader.primary.as_ref().map_or(0, |primary| primary.session_count())
            }
            RoleState::Standalone(standalone) => standalone.session_count(),
            _ => self.base.shared.tree.read().sessions().len() as u64,
        }
    }
}

fn learner_facts(handler: &LearnerHandler) -> Option<LearnerFacts> {
    (handler.state != HandlerState::Connected).then(|| LearnerFacts {
        sid: handler.sid,
        voter: handler.voter,
        synced: handler.state == HandlerState::Serving,
        last_zxid: if handler.is_forwarding() { handler.acked.max(observed(handler)) } else { Zxid::ZERO },
    })
}

/// Observers acknowledge nothing: what they were sent stands for it.
const fn observed(handler: &LearnerHandler) -> Zxid {
    if handler.voter { Zxid::ZERO } else { handler.last_queued }
}
