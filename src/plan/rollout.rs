//! The rolling restart: which member is next, and whether it is its turn.
//!
//! Order: missing, dead at an old revision, silent, apart, observers, followers with the most lagged first, the
//! leader last. The first two are down already and need no gate; the rest pass `gate`. Found anew at each pass, so a
//! change of leader in the middle only changes who is last.
//!
//! A template is a bet until a member joined with it, and the stake is one member: while a leader exists, no second
//! one is given it, a missing member is created from the template before it, and a member whose process ended is left
//! to whoever starts it again.

use super::Timestamp;
use super::ensemble::MemberId;
use super::facts::Role;
use super::gate::{self, Closed};
use super::observed::{Observed, Process};
use super::step::Step;
use super::view::{Leadership, Seat, Standing, View};
use crate::crd::{APPROVE, ZkEnsemble};

/// Seconds nobody must have led or followed before a live member that takes no part may be restarted without a
/// leader. Longer than any election, because restarting a voter in the middle of one would only prolong it.
pub const NO_LEADER_GRACE_SECONDS: i64 = 60;

/// Where the rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The ensemble has no data yet.
    Bootstrapping,
    /// Every member runs the template.
    Complete,
    /// A step was just decided.
    Progressing,
    /// The next step waits for its gate.
    Waiting,
    /// `spec.rollout.paused`, or the pause annotation.
    Paused,
    /// A member fails at the template's revision: no further member is given that template.
    Stalled,
    /// A supervised rollout stands before the leader.
    AwaitingApproval,
}

/// What was decided.
#[derive(Clone, Debug)]
pub struct Rollout {
    /// Where the rollout stands.
    pub phase: Phase,
    /// What to do.
    pub steps: Vec<Step>,
    /// Why, in words.
    pub message: String,
    /// The member acted on or waited for.
    pub current: Option<MemberId>,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variant's name is the phase's name.
        write!(f, "{self:?}")
    }
}

impl Rollout {
    fn idle(phase: Phase, current: Option<MemberId>, message: impl Into<String>) -> Self {
        Self { phase, steps: Vec::new(), message: message.into(), current }
    }

    fn act(phase: Phase, steps: Vec<Step>) -> Self {
        let message = steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let current = steps.first().and_then(Step::member);
        Self { phase, steps, message, current }
    }
}

/// Decides the next step.
pub(super) fn decide(ensemble: &ZkEnsemble, view: &View<'_>, observed: &Observed, now: Timestamp) -> Rollout {
    if ensemble.reconciliation_paused() {
        return Rollout::idle(Phase::Paused, None, "the pause annotation stops every act");
    }
    if observed.membership.is_none() {
        let reason = format!(
            "the ensemble has no data yet; {} voters start from nothing",
            view.membership.voters.len()
        );
        return Rollout::act(Phase::Bootstrapping, vec![Step::Bootstrap { reason }]);
    }
    let stalled = failing(ensemble, view, now);
    if let Some(rollout) = missing(ensemble, view, stalled.is_some()) {
        return rollout;
    }
    if !view.seats.iter().any(|seat| seat.outdated) {
        return complete(ensemble, view, stalled);
    }
    if ensemble.spec.rollout.paused {
        return Rollout::idle(Phase::Paused, None, "spec.rollout.paused holds every restart back");
    }
    if let Some((id, message)) = stalled {
        return Rollout::idle(Phase::Stalled, Some(id), message);
    }
    dead(view, observed, now).unwrap_or_else(|| live(ensemble, view, observed, now))
}

/// Members that do not exist are created at once: that lowers nothing. But losing a member must not carry a rollout
/// on that is held back, nor stake a second member on a template nobody joined with.
fn missing(ensemble: &ZkEnsemble, view: &View<'_>, stalled: bool) -> Option<Rollout> {
    let phase = match (stalled, ensemble.spec.rollout.paused) {
        (true, _) => Some(Phase::Stalled),
        (false, true) => Some(Phase::Paused),
        (false, false) => (!view.proven()).then_some(Phase::Progressing),
    };
    let held = phase.and_then(|phase| Some((phase, view.fallback().filter(|old| **old != view.target)?)));
    let (phase, revision, reason) = match held {
        Some((phase @ Phase::Stalled, old)) => (phase, old, "it does not exist, and the rollout stalled"),
        Some((phase @ Phase::Paused, old)) => (phase, old, "it does not exist, and the rollout is paused"),
        Some((phase, old)) => (phase, old, "it does not exist, and no member joined at a later revision yet"),
        None => (Phase::Progressing, &view.target, "it does not exist"),
    };
    let gone = view.seats.iter().filter(|seat| seat.standing == Standing::Missing);
    let steps: Vec<Step> = gone
        .map(|seat| Step::Start { member: seat.id, revision: revision.clone(), reason: reason.to_owned() })
        .collect();
    (!steps.is_empty()).then(|| Rollout::act(phase, steps))
}

/// A member that fails at the target revision, while no rollout to that revision ever completed.
fn failing(ensemble: &ZkEnsemble, view: &View<'_>, now: Timestamp) -> Option<(MemberId, String)> {
    let outdated = view.seats.iter().any(|seat| seat.outdated);
    if !outdated && completed_before(ensemble, view) {
        return None;
    }
    let deadline = i64::from(ensemble.spec.rollout.progress_deadline_seconds);
    let suspects = view.seats.iter().filter(|seat| match seat.standing {
        Standing::Dead | Standing::Silent => !seat.outdated,
        // Without a leader nobody can join, whatever the template is worth.
        Standing::Apart => !seat.outdated && view.leader().is_some(),
        Standing::Missing | Standing::Terminating | Standing::Joined => false,
    });
    suspects.into_iter().find_map(|seat| {
        let member = seat.observed?;
        let what = match &member.process {
            Process::Failed { detail } => detail.clone(),
            Process::Running | Process::Terminating if member.restarts > 0 => {
                "its process ended by itself and it has not rejoined since".to_owned()
            }
            Process::Running | Process::Terminating => {
                let age = now.duration_since(member.created_at).as_secs();
                (age > deadline).then(|| format!("it did not rejoin within {deadline} s"))?
            }
        };
        Some((seat.id, format!("member {} fails at revision {}: {what}", seat.id, view.target)))
    })
}

/// Whether the rollout to the present revision was complete once, as far as the last status remembers.
fn completed_before(ensemble: &ZkEnsemble, view: &View<'_>) -> bool {
    ensemble.status.as_ref().is_some_and(|status| {
        status.rollout.revision == view.target.as_str() && status.rollout.completed_at.is_some()
    })
}

fn complete(ensemble: &ZkEnsemble, view: &View<'_>, stalled: Option<(MemberId, String)>) -> Rollout {
    if let Some((id, message)) = stalled {
        return Rollout::idle(Phase::Stalled, Some(id), message);
    }
    let apart = view.seats.iter().find(|seat| seat.standing != Standing::Joined);
    match apart {
        Some(seat) if !completed_before(ensemble, view) => {
            let message = format!("member {} runs revision {} and has yet to join", seat.id, view.target);
            Rollout::idle(Phase::Waiting, Some(seat.id), message)
        }
        _ => Rollout::idle(Phase::Complete, None, format!("every member runs revision {}", view.target)),
    }
}

/// Dead members at an old revision are replaced without a gate, which is what lets a corrected template heal a broken
/// one: all of them once the template is proven, and one until then, the stray of an earlier attempt first.
fn dead(view: &View<'_>, observed: &Observed, now: Timestamp) -> Option<Rollout> {
    let dead: Vec<&Seat<'_>> =
        view.seats.iter().filter(|s| s.outdated && s.standing == Standing::Dead).collect();
    if dead.is_empty() {
        return None;
    }
    // A stopping member comes back at the template, so it is a stake already.
    if let Some(seat) = view.seats.iter().find(|seat| seat.standing == Standing::Terminating) {
        return Some(Rollout::idle(Phase::Waiting, Some(seat.id), "waiting for a member to stop"));
    }
    let current: Vec<&Seat<'_>> = view.seats.iter().filter(|seat| !seat.outdated).collect();
    if let Some(seat) = current.iter().find(|seat| seat.standing < Standing::Apart) {
        let message = format!("member {} has yet to show that revision {} starts", seat.id, view.target);
        return Some(Rollout::idle(Phase::Waiting, Some(seat.id), message));
    }
    let act = |chosen: &[&Seat<'_>]| {
        let reason = "its process ended at an old revision";
        let steps = chosen.iter().filter_map(|seat| restart(seat, None, reason)).collect();
        Some(Rollout::act(Phase::Progressing, steps))
    };
    if view.proven() {
        return act(&dead);
    }
    // With nobody to join, answering is all a template can show.
    let leaderless = leaderless_for_long(view, observed, now);
    if view.leader().is_none() && !leaderless {
        let first = dead.first().map(|seat| seat.id);
        return Some(Rollout::idle(
            Phase::Waiting,
            first,
            format!("dead members must wait: {}", Closed::NoLeader),
        ));
    }
    if let Some(seat) = current.first().filter(|_| !leaderless) {
        let message = format!("member {} has yet to show that it joins at revision {}", seat.id, view.target);
        return Some(Rollout::idle(Phase::Waiting, Some(seat.id), message));
    }
    let (strays, kept): (Vec<&Seat<'_>>, Vec<&Seat<'_>>) = dead.iter().partition(|seat| view.stray(seat));
    if strays.is_empty() && view.seats.iter().any(|seat| view.stray(seat)) {
        return None;
    }
    let hopeless = kept.iter().copied().filter(|seat| !seat.left_to_keeper());
    let chosen: Vec<&Seat<'_>> = strays.into_iter().chain(hopeless).collect();
    if chosen.is_empty() {
        let first = kept.first().map(|seat| seat.id);
        let message = "waiting for a member whose process ended once to be started again as it was";
        return Some(Rollout::idle(Phase::Waiting, first, message));
    }
    let stakes = if current.is_empty() { 1 } else { chosen.len() };
    act(&chosen[..stakes])
}

/// Whether nobody has led or followed for long, as far as we see and the platform says.
fn leaderless_for_long(view: &View<'_>, observed: &Observed, now: Timestamp) -> bool {
    // A member that serves in the platform's eyes and is silent to us may well follow a leader we cannot see.
    let hidden = view.seats.iter().any(|seat| {
        seat.voter && seat.standing == Standing::Silent && seat.observed.is_some_and(|member| member.ready)
    });
    let since = observed.history.leaderless_seconds(now);
    !hidden && since.is_some_and(|since| since >= NO_LEADER_GRACE_SECONDS)
}

fn live(ensemble: &ZkEnsemble, view: &View<'_>, observed: &Observed, now: Timestamp) -> Rollout {
    let mut candidates: Vec<&Seat<'_>> =
        view.seats.iter().filter(|s| s.outdated && s.standing >= Standing::Silent).collect();
    candidates.sort_by_key(|seat| turn(view, seat));
    let Some(next) = candidates.first() else {
        let stopping =
            view.seats.iter().find(|seat| seat.standing == Standing::Terminating).map(|seat| seat.id);
        return Rollout::idle(Phase::Waiting, stopping, "waiting for a member to stop");
    };
    if matches!(view.leadership, Leadership::None)
        && let Some(rollout) = leaderless(view, &candidates, observed, now)
    {
        return rollout;
    }
    if let Err(closed) = gate::check(ensemble, view, observed, next.id, now) {
        let current = closed.member().unwrap_or(next.id);
        return Rollout::idle(
            Phase::Waiting,
            Some(current),
            format!("member {} must wait: {closed}", next.id),
        );
    }
    let leads = next.facts().is_some_and(super::MemberFacts::leads);
    if leads && ensemble.spec.rollout.supervised && ensemble.annotation(APPROVE) != Some(view.target.as_str())
    {
        let message =
            format!("the leader, member {}, waits for annotation {APPROVE}: {}", next.id, view.target);
        return Rollout::idle(Phase::AwaitingApproval, Some(next.id), message);
    }
    let successor = if leads { successor(view, next.id) } else { None };
    let steps = restart(next, successor, &reason(next, successor)).into_iter().collect();
    Rollout::act(Phase::Progressing, steps)
}

/// The sort key of a live member's turn: the class, then the most lagged first, then the id.
///
/// A member the leader does not count takes no part, whoever brought that about, so it goes before every one the leader
/// counts. That also bounds the members that are down because of us when the template changes in the middle of a restart.
fn turn(view: &View<'_>, seat: &Seat<'_>) -> (u8, i64, MemberId) {
    let leads = seat.facts().is_some_and(super::MemberFacts::leads);
    let class = match seat.standing {
        Standing::Missing | Standing::Dead | Standing::Terminating => 0,
        // Whatever an earlier template left behind goes before this template is tried on a member that worked.
        Standing::Silent | Standing::Apart if view.stray(seat) => 0,
        Standing::Silent if !view.counted(seat.id) => 1,
        Standing::Apart if !leads && !view.counted(seat.id) => 2,
        Standing::Silent => 3,
        Standing::Apart if !leads => 4,
        Standing::Joined if !seat.voter => 5,
        Standing::Joined if !leads => 6,
        Standing::Apart | Standing::Joined => 7,
    };
    (class, -seat.lag.unwrap_or(i64::MAX), seat.id)
}

/// With no leader for long, and nobody following one, there is no service to protect: a member that takes no part may
/// be given the new template, one at a time and each only after the last one answers.
fn leaderless(
    view: &View<'_>,
    candidates: &[&Seat<'_>],
    observed: &Observed,
    now: Timestamp,
) -> Option<Rollout> {
    let unproven = |seat: &Seat<'_>| {
        seat.standing == Standing::Terminating || (!seat.outdated && seat.standing < Standing::Apart)
    };
    if !leaderless_for_long(view, observed, now) || view.seats.iter().any(unproven) {
        return None;
    }
    let idle = candidates.iter().find(|seat| match seat.facts() {
        Some(facts) => facts.role == Role::Looking,
        // Nobody's word but the platform's, as in `leaderless_for_long`.
        None => seat.observed.is_some_and(|member| !member.ready),
    })?;
    let reason = "nobody has led for long and it takes no part";
    Some(Rollout::act(Phase::Progressing, restart(idle, None, reason).into_iter().collect()))
}

/// The synced follower with the longest log, who can take over without losing a moment to catch up.
fn successor(view: &View<'_>, leader: MemberId) -> Option<MemberId> {
    let followers =
        view.seats.iter().filter(|seat| seat.voter && seat.id != leader && seat.standing == Standing::Joined);
    followers.max_by_key(|seat| (seat.facts().map(|facts| facts.zxid_logged), seat.id)).map(|seat| seat.id)
}

fn restart(seat: &Seat<'_>, successor: Option<MemberId>, reason: &str) -> Option<Step> {
    let uid = seat.observed?.uid.clone();
    Some(Step::Restart { member: seat.id, uid, successor, reason: reason.to_owned() })
}

fn reason(seat: &Seat<'_>, successor: Option<MemberId>) -> String {
    let revision = seat.observed.map(|member| member.revision.to_string()).unwrap_or_default();
    let what = match seat.standing {
        Standing::Silent => "it does not answer".to_owned(),
        Standing::Apart => "it takes no full part".to_owned(),
        Standing::Joined if !seat.voter => "an observer".to_owned(),
        Standing::Joined if seat.facts().is_some_and(super::MemberFacts::leads) => match successor {
            Some(id) => format!("the leader, last; member {id} is ready to take over"),
            None => "the only voter".to_owned(),
        },
        Standing::Joined => format!("a follower, {} behind", seat.lag.unwrap_or_default()),
        Standing::Missing | Standing::Dead | Standing::Terminating => "it is down".to_owned(),
    };
    format!("{what}; it runs the old revision {revision}")
}
