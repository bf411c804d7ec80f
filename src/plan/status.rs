//! Computes the status: conditions, the members' rows, the rollout's cursor. All from facts, nothing latches; only
//! transition times and the two hints of the rollout come from the status before.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::Timestamp;
use super::consistency::Consistency;
use super::ensemble::Membership;
use super::observed::{Observed, Process};
use super::rollout::{Phase, Rollout};
use super::view::{Leadership, Seat, Standing, View};
use crate::crd::{ConditionType, MemberStatus, Reason, RolloutStatus, ZkEnsemble, ZkEnsembleStatus};

/// The status of `ensemble` after `rollout` was decided.
pub(super) fn status(
    ensemble: &ZkEnsemble,
    view: &View<'_>,
    observed: &Observed,
    rollout: &Rollout,
    now: Timestamp,
) -> ZkEnsembleStatus {
    let old = ensemble.status.clone().unwrap_or_default();
    let consistency = Consistency::of(view);
    let settle = i64::from(ensemble.spec.rollout.settle_seconds);
    let settled = |seat: &Seat<'_>| observed.history.settled(seat.id, settle, now);
    let members: Vec<MemberStatus> =
        view.seats.iter().map(|seat| member(ensemble, observed, seat, settled(seat), &consistency)).collect();
    let count = |wanted: &dyn Fn(&Seat<'_>) -> bool| {
        i32::try_from(view.seats.iter().filter(|seat| wanted(seat)).count()).unwrap_or(i32::MAX)
    };
    ZkEnsembleStatus {
        observed_generation: ensemble.metadata.generation,
        replicas: count(&|seat| seat.voter && seat.standing != Standing::Missing),
        ready_replicas: count(&|seat| seat.standing == Standing::Joined),
        synced: count(&|seat| seat.voter && seat.standing == Standing::Joined),
        selector: format!("app.kubernetes.io/instance={},app.kubernetes.io/component=voter", ensemble.name()),
        leader: view.leader().map(|facts| observed.layout.address(ensemble.name(), facts.my_id).name),
        version: versions(view),
        epoch: view.leader().map(|facts| facts.current_epoch),
        zxid: view.leader().map(|facts| facts.zxid_committed.to_string()),
        divergent: i32::try_from(consistency.divergent.len()).unwrap_or(i32::MAX),
        disk: view.seats.iter().filter_map(used).max().map(percent),
        rollout: cursor(view, rollout, &old, now),
        conditions: conditions(ensemble, view, observed, rollout, &consistency, &old, now),
        members,
    }
}

fn used(seat: &Seat<'_>) -> Option<u64> {
    seat.facts()?.disk_used_percent()
}

fn percent(share: u64) -> String {
    format!("{share}%")
}

fn versions(view: &View<'_>) -> Option<String> {
    let all: BTreeSet<&str> =
        view.seats.iter().filter_map(Seat::facts).map(|facts| facts.version.as_str()).collect();
    match (all.first(), all.last()) {
        (Some(low), Some(high)) if low == high => Some((*low).to_owned()),
        (Some(low), Some(high)) => Some(format!("{low}-{high}")),
        _ => None,
    }
}

fn member(
    ensemble: &ZkEnsemble,
    observed: &Observed,
    seat: &Seat<'_>,
    settled: bool,
    consistency: &Consistency,
) -> MemberStatus {
    let facts = seat.facts();
    MemberStatus {
        id: seat.id.0,
        name: observed.layout.address(ensemble.name(), seat.id).name,
        role: facts.map(|facts| facts.role.to_string()).unwrap_or_default(),
        state: state(seat, settled, consistency),
        joined: seat.standing == Standing::Joined,
        revision: seat.observed.map(|member| member.revision.to_string()).unwrap_or_default(),
        version: facts.map(|facts| facts.version.clone()),
        epoch: facts.map(|facts| facts.current_epoch),
        zxid: facts.map(|facts| facts.zxid_logged.to_string()),
        lag: seat.lag,
        disk: used(seat).map(percent),
        restarts: i32::try_from(seat.restarts()).unwrap_or(i32::MAX),
    }
}

fn state(seat: &Seat<'_>, settled: bool, consistency: &Consistency) -> String {
    if consistency.divergent.contains(&seat.id) {
        return "divergent".to_owned();
    }
    if consistency.reporters.contains(&seat.id) {
        return "saw a digest mismatch".to_owned();
    }
    if let Some(trouble) = seat.facts().and_then(super::MemberFacts::epoch_trouble) {
        return format!("epoch files: {trouble}");
    }
    match (seat.standing, seat.observed.map(|member| &member.process)) {
        (_, Some(Process::Failed { detail })) => detail.clone(),
        (Standing::Missing | Standing::Dead, _) => "missing".to_owned(),
        (Standing::Terminating, _) => "draining".to_owned(),
        (Standing::Silent, _) if seat.impostor().is_some() => "another server answers".to_owned(),
        (Standing::Silent, _) => "not answering".to_owned(),
        (Standing::Apart, _) => "joining".to_owned(),
        (Standing::Joined, _) => if settled { "in sync" } else { "settling" }.to_owned(),
    }
}

fn cursor(view: &View<'_>, rollout: &Rollout, old: &ZkEnsembleStatus, now: Timestamp) -> RolloutStatus {
    let target = view.target.to_string();
    let before = &old.rollout;
    // A hint about another revision is no hint.
    let before_of = |hint: &Option<Time>| if before.revision == target { hint.clone() } else { None };
    let updated = view.seats.iter().filter(|s| !s.outdated && s.standing != Standing::Missing).count();
    let done = rollout.phase == Phase::Complete;
    RolloutStatus {
        phase: rollout.phase.to_string(),
        completed_at: before_of(&before.completed_at).or_else(|| done.then_some(Time(now))),
        last_completed: done.then_some(&view.target).or(view.completed.as_ref()).map(ToString::to_string),
        joined_revisions: view.joined.iter().map(ToString::to_string).collect(),
        updated: format!("{updated}/{}", view.seats.len()),
        current: rollout.current.map(|id| id.0),
        started_at: before_of(&before.started_at).or(Some(Time(now))),
        last_step: rollout.steps.last().map(ToString::to_string).or_else(|| before.last_step.clone()),
        revision: target,
    }
}

/// What is said of one condition: does it hold, why, and in words.
type Verdict = (ConditionType, Option<bool>, Reason, String);

fn conditions(
    ensemble: &ZkEnsemble,
    view: &View<'_>,
    observed: &Observed,
    rollout: &Rollout,
    consistency: &Consistency,
    old: &ZkEnsembleStatus,
    now: Timestamp,
) -> Vec<Condition> {
    let complete = rollout.phase == Phase::Complete;
    let down: Vec<u64> =
        view.seats.iter().filter(|s| s.standing != Standing::Joined).map(|s| s.id.0).collect();
    let paused = ensemble.reconciliation_paused();
    let verdicts: Vec<Verdict> = vec![
        ready(ensemble, view, observed, &down),
        available(view),
        progressing(rollout, complete),
        degraded(view, rollout, consistency, &down),
        synced(view),
        consistent(view, consistency),
        storage(view),
        epoch_files(view),
        scale(ensemble, observed),
        (
            ConditionType::ReconciliationPaused,
            Some(paused),
            if paused { Reason::PausedByAnnotation } else { Reason::NotPaused },
            String::new(),
        ),
    ];
    verdicts.into_iter().map(|verdict| condition(verdict, ensemble.metadata.generation, old, now)).collect()
}

fn condition(verdict: Verdict, generation: Option<i64>, old: &ZkEnsembleStatus, now: Timestamp) -> Condition {
    let (kind, holds, reason, message) = verdict;
    let status = match holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let before = old.condition(kind).filter(|before| before.status == status);
    Condition {
        last_transition_time: before.map_or(Time(now), |before| before.last_transition_time.clone()),
        message,
        observed_generation: generation,
        reason: reason.to_string(),
        status: status.to_owned(),
        type_: kind.to_string(),
    }
}

/// As a Deployment's users expect: not before the last member runs what was asked for.
fn ready(ensemble: &ZkEnsemble, view: &View<'_>, observed: &Observed, down: &[u64]) -> Verdict {
    let (_, serves, why, text) = available(view);
    let outdated: Vec<u64> = view.seats.iter().filter(|seat| seat.outdated).map(|seat| seat.id.0).collect();
    let (reason, text) = if serves != Some(true) {
        (why, text)
    } else if !down.is_empty() {
        (Reason::MemberDown, format!("members {down:?} take no part"))
    } else if !outdated.is_empty() {
        (
            Reason::MembersOutdated,
            format!("members {outdated:?} have yet to be brought to revision {}", view.target),
        )
    } else if let Some(text) = refused_scale(ensemble, observed) {
        (Reason::ScalingNotSupported, text)
    } else {
        (Reason::AsExpected, "every member takes part and runs the current template".to_owned())
    };
    (ConditionType::Ready, Some(reason == Reason::AsExpected), reason, text)
}

fn available(view: &View<'_>) -> Verdict {
    let (synced, quorum) = (view.synced_voters().len(), view.membership.quorum());
    let voters = view.membership.voters.len();
    let text = format!("{synced} of {voters} voters are synced with the leader; a quorum is {quorum}");
    let (holds, reason, text) = match &view.leadership {
        Leadership::None if view.seats.iter().all(|seat| seat.facts().is_none()) => {
            (false, Reason::NoFacts, "no member answers".to_owned())
        }
        Leadership::None => (false, Reason::NoLeader, "no member that answers leads".to_owned()),
        Leadership::Many(ids) => (false, Reason::ManyLeaders, format!("members {ids:?} each say they lead")),
        Leadership::Foreign(id) => {
            (false, Reason::ForeignLeader, format!("member {id} leads other voters than this ensemble's"))
        }
        Leadership::One(_) if synced >= quorum => (true, Reason::QuorumServing, text),
        Leadership::One(_) => (false, Reason::QuorumLost, text),
    };
    (ConditionType::Available, Some(holds), reason, text)
}

fn progressing(rollout: &Rollout, complete: bool) -> Verdict {
    let (holds, reason) = match rollout.phase {
        Phase::Bootstrapping => (true, Reason::Bootstrapping),
        Phase::Progressing => (true, Reason::RollingOut),
        Phase::Waiting => (true, Reason::GateClosed),
        Phase::Complete => (false, Reason::RolloutComplete),
        Phase::Paused => (false, Reason::RolloutPaused),
        Phase::Stalled => (false, Reason::RolloutStalled),
        Phase::AwaitingApproval => (false, Reason::ApprovalNeeded),
    };
    debug_assert_eq!(complete, reason == Reason::RolloutComplete);
    (ConditionType::Progressing, Some(holds), reason, rollout.message.clone())
}

fn degraded(view: &View<'_>, rollout: &Rollout, consistency: &Consistency, down: &[u64]) -> Verdict {
    let (holds, reason, text) = if let Some(trouble) = consistency.trouble() {
        (true, inconsistency(consistency), trouble)
    } else if rollout.phase == Phase::Stalled {
        (true, Reason::RolloutStalled, rollout.message.clone())
    } else if let Some((id, trouble)) =
        view.seats.iter().find_map(|seat| Some((seat.id, seat.facts()?.epoch_trouble()?)))
    {
        (true, Reason::EpochFileUnhealthy, format!("member {id}: {trouble}"))
    } else if !down.is_empty() {
        (true, Reason::MemberDown, format!("members {down:?} take no part"))
    } else {
        (false, Reason::AsExpected, String::new())
    };
    (ConditionType::Degraded, Some(holds), reason, text)
}

fn synced(view: &View<'_>) -> Verdict {
    let missing: Vec<u64> =
        view.seats.iter().filter(|s| s.voter && s.standing != Standing::Joined).map(|s| s.id.0).collect();
    let (holds, reason, text) = if missing.is_empty() {
        (true, Reason::AsExpected, "every voter is synced with the leader".to_owned())
    } else {
        (false, Reason::VotersNotSynced, format!("voters {missing:?} are not synced with the leader"))
    };
    (ConditionType::QuorumSynced, Some(holds), reason, text)
}

fn inconsistency(found: &Consistency) -> Reason {
    if found.undecided.is_some() {
        Reason::NoMajority
    } else if !found.divergent.is_empty() {
        Reason::MembersDivergent
    } else {
        Reason::MismatchSeen
    }
}

fn consistent(view: &View<'_>, found: &Consistency) -> Verdict {
    let trouble = found.trouble().map(|text| (inconsistency(found), text));
    of_all(ConditionType::MembersConsistent, view, trouble, "no difference at any zxid members share")
}

fn storage(view: &View<'_>) -> Verdict {
    let pressed = view.seats.iter().find(|seat| seat.facts().is_some_and(super::MemberFacts::disk_pressure));
    let trouble =
        pressed.map(|seat| (Reason::DiskPressure, format!("the disk of member {} is nearly full", seat.id)));
    of_all(ConditionType::StorageHealthy, view, trouble, "")
}

fn epoch_files(view: &View<'_>) -> Verdict {
    let found = view.seats.iter().find_map(|seat| Some((seat.id, seat.facts()?.epoch_trouble()?)));
    let trouble = found.map(|(id, text)| (Reason::EpochFileUnhealthy, format!("member {id}: {text}")));
    of_all(ConditionType::EpochFilesHealthy, view, trouble, "")
}

/// What is said of all members by what each says of itself: trouble of one is enough to deny it, and silence of one is
/// enough not to claim it.
fn of_all(kind: ConditionType, view: &View<'_>, trouble: Option<(Reason, String)>, good: &str) -> Verdict {
    let silent: Vec<u64> =
        view.seats.iter().filter(|seat| seat.facts().is_none()).map(|seat| seat.id.0).collect();
    match trouble {
        Some((reason, text)) => (kind, Some(false), reason, text),
        None if !silent.is_empty() => {
            (kind, None, Reason::NoFacts, format!("members {silent:?} do not answer"))
        }
        None => (kind, Some(true), Reason::AsExpected, good.to_owned()),
    }
}

/// Members of a running ensemble cannot be changed yet; saying so beats doing half of it.
pub(super) fn refused_scale(ensemble: &ZkEnsemble, observed: &Observed) -> Option<String> {
    let wanted = Membership::wanted(&ensemble.spec);
    let have = observed.membership.as_ref().filter(|have| **have != wanted)?;
    Some(format!(
        "the ensemble keeps its {} voters and {} observers instead of {} and {}: changing the membership of a running ensemble is not supported yet",
        have.voters.len(),
        have.observers.len(),
        wanted.voters.len(),
        wanted.observers.len()
    ))
}

fn scale(ensemble: &ZkEnsemble, observed: &Observed) -> Verdict {
    let (holds, reason, text) = match refused_scale(ensemble, observed) {
        Some(text) => (false, Reason::ScalingNotSupported, text),
        None => (true, Reason::AsExpected, String::new()),
    };
    (ConditionType::ScaleAllowed, Some(holds), reason, text)
}
