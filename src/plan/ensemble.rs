//! Membership: which ids form the ensemble, and what a majority of them is.
//!
//! Voters are 1, 2, 3, ... and observers 101, 102, ...: ids of one kind never move when the other kind grows, so a
//! member keeps its identity for life (a member is its id, host and ports, never a resolved address).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::crd::ZkEnsembleSpec;

/// The id of a member: the content of its `myid` file and the `N` of `server.N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(pub u64);

/// Id of the first observer, less one.
const OBSERVER_BASE: u64 = 100;

/// The committed configuration: who votes and who observes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Members whose acknowledgements count.
    pub voters: BTreeSet<MemberId>,
    /// Members that follow without a vote.
    pub observers: BTreeSet<MemberId>,
}

impl std::fmt::Display for MemberId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl MemberId {
    /// Position among the members of its kind, from zero, and whether it is an observer.
    #[must_use]
    pub fn ordinal(self) -> (u64, bool) {
        let observer = self.0 > OBSERVER_BASE;
        (if observer { self.0 - OBSERVER_BASE - 1 } else { self.0.saturating_sub(1) }, observer)
    }
}

impl Membership {
    /// The membership `spec` asks for.
    #[must_use]
    pub fn wanted(spec: &ZkEnsembleSpec) -> Self {
        let ids = |base: u64, count: i32| {
            (1..=u64::try_from(count).unwrap_or(0)).map(|n| MemberId(base + n)).collect()
        };
        Self { voters: ids(0, spec.replicas), observers: ids(OBSERVER_BASE, spec.observers) }
    }

    /// Smallest number of voters that is a majority (`QuorumMaj`).
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// Every member, voters first.
    pub fn ids(&self) -> impl Iterator<Item = MemberId> + '_ {
        self.voters.iter().chain(&self.observers).copied()
    }
}
