//! What an adapter saw: the planner's only view of the world.

use std::collections::BTreeMap;

use super::Timestamp;
use super::ensemble::{MemberId, Membership};
use super::facts::MemberFacts;
use super::history::History;
use super::layout::Layout;
use super::revision::Revision;
use super::view::View;
use crate::crd::ZkEnsemble;

/// What an adapter saw of one ensemble at one time.
#[derive(Clone, Debug)]
pub struct Observed {
    /// How the platform places members.
    pub layout: Layout,
    /// The membership the ensemble was bootstrapped with; none before the first bootstrap.
    pub membership: Option<Membership>,
    /// The members that exist. One that is absent was never created, or is gone.
    pub members: BTreeMap<MemberId, ObservedMember>,
    /// What only time tells. Lost at a restart of the operator, which costs a settle time and nothing else.
    pub history: History,
}

/// One member that exists.
#[derive(Clone, Debug)]
pub struct ObservedMember {
    /// Identity of this incarnation, so that a step can be refused when another one took its place.
    pub uid: String,
    /// Revision of the template it was created from.
    pub revision: Revision,
    /// What the platform says of its process.
    pub process: Process,
    /// When this incarnation was created.
    pub created_at: Timestamp,
    /// Times its process ended by itself since then.
    pub restarts: u32,
    /// The platform's own opinion whether it serves, independent of `facts`: the kubelet's readiness.
    pub ready: bool,
    /// What it said of itself; none when it did not answer.
    pub facts: Option<MemberFacts>,
}

/// What the platform says of a member's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// It runs.
    Running,
    /// It was told to stop: it counts as down already. It stays so until its next incarnation exists.
    Terminating,
    /// It does not run, although it should.
    Failed {
        /// Why, in the platform's words.
        detail: String,
    },
}

impl Observed {
    /// Brings [`Observed::history`] up to `now` with what was just seen. Adapters call it once a pass, before
    /// [`super::plan`].
    pub fn note(&mut self, ensemble: &ZkEnsemble, now: Timestamp) {
        let mut history = self.history.clone();
        history.note(&View::new(ensemble, self), now);
        self.history = history;
    }
}
