//! The gate a live member passes before it is restarted.
//!
//! It opens only when the ensemble can spare the member *and* everything restarted before it is provably back. Each
//! answer names what is missing, because a rollout that waits without saying for what is a support case.

use std::collections::BTreeSet;

use super::Timestamp;
use super::consistency::Consistency;
use super::ensemble::MemberId;
use super::facts::Zxid;
use super::observed::Observed;
use super::view::{Leadership, Seat, Standing, View};
use crate::crd::ZkEnsemble;

/// Why the gate is closed. Texts carry no figure that changes by itself, so that equal situations read equal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    #[error("no member that answers leads")]
    NoLeader,
    #[error("members {0:?} each say they lead")]
    ManyLeaders(Vec<u64>),
    #[error("member {0} leads other voters than this ensemble's")]
    ForeignLeader(MemberId),
    #[error("member {0} is still stopping")]
    Terminating(MemberId),
    #[error("member {member} was restarted and is not back yet: {what}")]
    NotBack { member: MemberId, what: &'static str },
    #[error("members hold different configuration versions")]
    ConfigVersions,
    #[error("without member {member} only {synced} voters are synced and settled, and a quorum is {quorum}")]
    Quorum { member: MemberId, synced: usize, quorum: usize },
    #[error("members {0:?} hold other data than the majority")]
    Divergent(Vec<u64>),
    #[error("members differ and no majority agrees: a person must decide")]
    Undecided,
    #[error("members {0:?} saw digests from their leader that are not their own")]
    MismatchSeen(Vec<u64>),
    #[error("the disk of member {0}, which the quorum needs, is nearly full")]
    DiskPressure(MemberId),
}

impl Closed {
    /// The member that is waited for, when it is one.
    pub(super) fn member(&self) -> Option<MemberId> {
        match self {
            Self::ForeignLeader(id)
            | Self::Terminating(id)
            | Self::NotBack { member: id, .. }
            | Self::DiskPressure(id) => Some(*id),
            Self::NoLeader
            | Self::ManyLeaders(_)
            | Self::ConfigVersions
            | Self::Quorum { .. }
            | Self::Divergent(_)
            | Self::Undecided
            | Self::MismatchSeen(_) => None,
        }
    }
}

/// Whether member `id`, live and outdated, may be restarted now.
pub(super) fn check(
    ensemble: &ZkEnsemble,
    view: &View<'_>,
    observed: &Observed,
    id: MemberId,
    now: Timestamp,
) -> Result<(), Closed> {
    one_leader(view)?;
    // What we did before comes first: it bounds the members that are down because of us to one.
    everyone_back(ensemble, view, observed, now)?;
    consistent(view)?;
    config_versions(view)?;
    quorum_without(ensemble, view, observed, id, now)?;
    let pressed = view.seats.iter().find(|seat| {
        seat.id != id
            && seat.voter
            && seat.standing == Standing::Joined
            && seat.facts().is_some_and(|f| f.disk_pressure())
    });
    pressed.map_or(Ok(()), |seat| Err(Closed::DiskPressure(seat.id)))
}

fn one_leader(view: &View<'_>) -> Result<(), Closed> {
    match &view.leadership {
        Leadership::One(_) => Ok(()),
        Leadership::None => Err(Closed::NoLeader),
        Leadership::Foreign(id) => Err(Closed::ForeignLeader(*id)),
        Leadership::Many(ids) => Err(Closed::ManyLeaders(ids.iter().map(|id| id.0).collect())),
    }
}

/// Every member at the target revision is joined and settled, and none is stopping.
fn everyone_back(
    ensemble: &ZkEnsemble,
    view: &View<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Result<(), Closed> {
    let settle = i64::from(ensemble.spec.rollout.settle_seconds);
    for seat in &view.seats {
        let what = match seat.standing {
            Standing::Terminating => return Err(Closed::Terminating(seat.id)),
            Standing::Missing => "it does not exist",
            _ if seat.outdated => continue,
            Standing::Dead => "its process ended",
            Standing::Silent => "it does not answer",
            Standing::Apart => "it is not synced with the leader",
            Standing::Joined if observed.history.settled(seat.id, settle, now) => continue,
            Standing::Joined => "it is settling",
        };
        return Err(Closed::NotBack { member: seat.id, what });
    }
    Ok(())
}

fn consistent(view: &View<'_>) -> Result<(), Closed> {
    let found = Consistency::of(view);
    let ids = |ids: &BTreeSet<MemberId>| ids.iter().map(|id| id.0).collect();
    if found.undecided.is_some() {
        Err(Closed::Undecided)
    } else if !found.divergent.is_empty() {
        Err(Closed::Divergent(ids(&found.divergent)))
    } else if !found.reporters.is_empty() {
        Err(Closed::MismatchSeen(ids(&found.reporters)))
    } else {
        Ok(())
    }
}

fn config_versions(view: &View<'_>) -> Result<(), Closed> {
    let joined = view.seats.iter().filter(|seat| seat.standing == Standing::Joined);
    let mut versions = joined.filter_map(Seat::facts).map(|facts| facts.config_version);
    let first: Option<Zxid> = versions.next();
    if versions.all(|version| Some(version) == first) { Ok(()) } else { Err(Closed::ConfigVersions) }
}

/// Only settled voters count: one that joined a moment ago, or that a restarted operator has seen once, may be gone
/// again. A single voter has no quorum to spare and is restarted all the same: an outage by choice of size.
fn quorum_without(
    ensemble: &ZkEnsemble,
    view: &View<'_>,
    observed: &Observed,
    id: MemberId,
    now: Timestamp,
) -> Result<(), Closed> {
    let settle = i64::from(ensemble.spec.rollout.settle_seconds);
    let mut synced = view.synced_voters();
    let only = view.membership.voters.len() == 1 && view.membership.voters.contains(&id);
    synced.retain(|other| *other != id && observed.history.settled(*other, settle, now));
    let quorum = view.membership.quorum();
    if only || synced.len() >= quorum {
        return Ok(());
    }
    Err(Closed::Quorum { member: id, synced: synced.len(), quorum })
}
