//! The planner: `(ensemble, observed, now) -> Plan`, and nothing else.
//!
//! Pure: no clock, no client, no randomness; it depends on `crd` alone. An adapter (`local` here, Kubernetes later)
//! gathers [`Observed`], asks for a [`Plan`], brings `objects` about, carries `steps` out and publishes `status`.
//! Every decision is derived anew from facts, so an adapter that restarts, or a template that changes in the
//! middle of a rollout, needs no special case.
//!
//! The promise kept here: no step takes a synced quorum below its majority, no two members are down because of
//! us, and the leader goes last. `tests/planner_walk.rs` walks random ensembles through random failures to break it.

mod consistency;
mod ensemble;
mod facts;
mod gate;
mod history;
mod layout;
mod observed;
mod revision;
mod rollout;
mod status;
mod step;
mod view;
mod zoo_cfg;

pub use consistency::Consistency;
pub use ensemble::{MemberId, Membership};
pub use facts::{Digest, MemberFacts, Role, Zxid};
pub use gate::Closed;
pub use history::History;
pub use k8s_openapi::jiff::Timestamp;
pub(crate) use layout::MAX_BASE_PORT;
pub use layout::{Address, Layout};
pub use observed::{Observed, ObservedMember, Process};
pub use revision::Revision;
pub use rollout::{NO_LEADER_GRACE_SECONDS, Phase, Rollout};
pub use step::Step;
pub use view::{Leadership, Seat, Standing, View};
pub use zoo_cfg::zoo_cfg;

use crate::crd::{ZkEnsemble, ZkEnsembleStatus};

/// What should exist, what to do next and what to tell.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The members that should exist, each with its whole configuration.
    pub objects: Objects,
    /// What to do now, in order. Usually one step; empty when there is nothing to do or something to wait for.
    pub steps: Vec<Step>,
    /// The status to publish.
    pub status: ZkEnsembleStatus,
    /// Why the plan has the steps it has, or why it has none; stable while the situation is.
    pub summary: String,
}

/// The members that should exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Revision of the template these objects are made from.
    pub revision: Revision,
    /// Image every member runs at that revision.
    pub image: String,
    /// The members, by id.
    pub members: Vec<DesiredMember>,
}

/// One member that should exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredMember {
    /// The member's id, the content of its `myid` file.
    pub id: MemberId,
    /// Whether it votes.
    pub voter: bool,
    /// Where it runs and listens.
    pub address: Address,
    /// Its `zoo.cfg`, whole.
    pub zoo_cfg: String,
}

impl Objects {
    /// The objects `ensemble` asks for with these members.
    #[must_use]
    pub fn of(ensemble: &ZkEnsemble, membership: &Membership, layout: &Layout) -> Self {
        let members = membership
            .ids()
            .map(|id| DesiredMember {
                id,
                voter: membership.voters.contains(&id),
                address: layout.address(ensemble.name(), id),
                zoo_cfg: zoo_cfg(ensemble, membership, layout, id),
            })
            .collect();
        Self { revision: Revision::of(ensemble), image: ensemble.spec.effective_image(), members }
    }

    /// The member with this id.
    #[must_use]
    pub fn member(&self, id: MemberId) -> Option<&DesiredMember> {
        self.members.iter().find(|member| member.id == id)
    }
}

/// Decides what to do about `ensemble`, given what was seen of it and that it is `now`.
#[must_use]
pub fn plan(ensemble: &ZkEnsemble, observed: &Observed, now: Timestamp) -> Plan {
    let view = View::new(ensemble, observed);
    let rollout = rollout::decide(ensemble, &view, observed, now);
    let status = status::status(ensemble, &view, observed, &rollout, now);
    let refused = status::refused_scale(ensemble, observed);
    let summary = [Some(rollout.message), refused].into_iter().flatten().collect::<Vec<_>>().join("; ");
    Plan {
        objects: Objects::of(ensemble, &view.membership, &observed.layout),
        steps: rollout.steps,
        status,
        summary,
    }
}
