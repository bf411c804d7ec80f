//! The observed ensemble as the planner reasons about it: who leads, and how each member stands.
//!
//! "Joined" is the strict word used throughout: the member follows the one leader, both say it is synced, its epochs
//! in memory and on disk are the leader's, and it caught up. Anything less does not count. Facts count only from a
//! server that says it is the member it was asked as.

use std::collections::BTreeSet;

use super::ensemble::{MemberId, Membership};
use super::facts::{MemberFacts, Role, Zxid};
use super::observed::{Observed, ObservedMember, Process};
use super::revision::Revision;
use crate::crd::ZkEnsemble;

/// Who leads, as far as the members that answered say.
#[derive(Clone, Debug)]
pub enum Leadership<'a> {
    /// No member that answered leads.
    None,
    /// Exactly one does.
    One(&'a MemberFacts),
    /// Several say they do: one of them is out of date, and nobody knows which.
    Many(Vec<MemberId>),
    /// The one that does leads other voters than the configuration has: its word on who is synced is worth nothing.
    Foreign(MemberId),
}

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It does not exist.
    Missing,
    /// Its process does not run.
    Dead,
    /// It was told to stop.
    Terminating,
    /// It runs and does not answer.
    Silent,
    /// It answers and takes no full part in the ensemble.
    Apart,
    /// It takes full part.
    Joined,
}

/// One member of the committed configuration.
#[derive(Clone, Debug)]
pub struct Seat<'a> {
    /// The member's id.
    pub id: MemberId,
    /// Whether it votes.
    pub voter: bool,
    /// What was seen of it.
    pub observed: Option<&'a ObservedMember>,
    /// How it stands.
    pub standing: Standing,
    /// Transactions it is behind the leader; none when that cannot be said.
    pub lag: Option<i64>,
    /// Whether it exists at another revision than the template's.
    pub outdated: bool,
}

/// The observed ensemble.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The committed configuration.
    pub membership: Membership,
    /// Revision members should be at.
    pub target: Revision,
    /// The last revision every member took part with, as far as the last status remembers.
    pub completed: Option<Revision>,
    /// Revisions of members that some member took part with, now or as far as the last status remembers.
    pub joined: BTreeSet<Revision>,
    /// Who leads.
    pub leadership: Leadership<'a>,
    /// Every member, voters first.
    pub seats: Vec<Seat<'a>>,
}

impl<'a> View<'a> {
    /// Reads `observed` against what `ensemble` asks for.
    #[must_use]
    pub fn new(ensemble: &ZkEnsemble, observed: &'a Observed) -> Self {
        let membership = observed.membership.clone().unwrap_or_else(|| Membership::wanted(&ensemble.spec));
        let target = Revision::of(ensemble);
        let leadership = leadership(&membership, observed);
        let max_lag = ensemble.spec.rollout.max_lag_zxids;
        let mut seats: Vec<Seat<'_>> = Vec::new();
        for id in membership.ids() {
            seats.push(seat(id, &membership, observed, &leadership, &target, max_lag));
        }
        let completed = completed(ensemble);
        let mut view = Self { membership, target, completed, joined: BTreeSet::new(), leadership, seats };
        view.joined = view.joined_revisions(ensemble);
        view
    }

    /// The one leader's facts.
    #[must_use]
    pub fn leader(&self) -> Option<&'a MemberFacts> {
        match self.leadership {
            Leadership::One(facts) => Some(facts),
            Leadership::None | Leadership::Many(_) | Leadership::Foreign(_) => None,
        }
    }

    /// Voters that take full part, the leader included: the synced quorum's members, on both sides' word.
    #[must_use]
    pub fn synced_voters(&self) -> BTreeSet<MemberId> {
        self.seats.iter().filter(|s| s.voter && s.standing == Standing::Joined).map(|s| s.id).collect()
    }

    fn joined_revisions(&self, ensemble: &ZkEnsemble) -> BTreeSet<Revision> {
        let before = ensemble.status.iter().flat_map(|status| &status.rollout.joined_revisions);
        let now = self.seats.iter().filter(|s| s.standing == Standing::Joined || self.counted(s.id));
        let mut joined: BTreeSet<Revision> = before.map(|text| Revision::recorded(text)).collect();
        joined.extend(now.filter_map(Seat::revision).cloned());
        joined.retain(|revision| self.seats.iter().any(|seat| seat.revision() == Some(revision)));
        joined
    }

    /// Whether the target may be given to more than one member: one takes part with it now, or all once did.
    #[must_use]
    pub fn proven(&self) -> bool {
        let joined = |seat: &Seat<'_>| seat.standing == Standing::Joined && !seat.outdated;
        self.completed.as_ref() == Some(&self.target) || self.seats.iter().any(joined)
    }

    /// Whether the member takes no part at an old revision that nobody is known to join with: it is what an attempt
    /// left behind, and no further attempt may be made elsewhere before it is gone.
    #[must_use]
    pub fn stray(&self, seat: &Seat<'_>) -> bool {
        let apart = seat.standing != Standing::Joined && !self.counted(seat.id);
        let known = |revision| self.completed.as_ref() == Some(revision) || self.joined.contains(revision);
        seat.outdated && apart && !seat.revision().is_some_and(known)
    }

    /// The revision to fall back on while the target is not proven: the last completed one, else the one of those some
    /// member took part with that most members have.
    #[must_use]
    pub fn fallback(&self) -> Option<&Revision> {
        let members = |revision: &&Revision| {
            self.seats.iter().filter(|seat| seat.revision() == Some(*revision)).count()
        };
        self.completed.as_ref().or_else(|| self.joined.iter().max_by_key(members))
    }

    /// The member called `id`.
    #[must_use]
    pub fn seat(&self, id: MemberId) -> Option<&Seat<'a>> {
        self.seats.iter().find(|seat| seat.id == id)
    }

    /// Whether the leader counts `id` as synced, whatever `id` itself says or does not say.
    #[must_use]
    pub fn counted(&self, id: MemberId) -> bool {
        self.leader().is_some_and(|leader| {
            leader.my_id == id || leader.synced_voters.contains(&id) || leader.synced_observers.contains(&id)
        })
    }

    /// Whether some member says it follows a leader, visible to us or not: then there may well be a quorum.
    #[must_use]
    pub fn someone_follows(&self) -> bool {
        self.seats
            .iter()
            .filter_map(Seat::facts)
            .any(|facts| matches!(facts.role, Role::Follower | Role::Observer))
    }
}

impl<'a> Seat<'a> {
    /// What the member said of itself, unless it was told to stop.
    #[must_use]
    pub fn facts(&self) -> Option<&'a MemberFacts> {
        self.observed.and_then(|member| answer(self.id, member))
    }

    /// The id of the server that answers in the member's place, if it is another one.
    #[must_use]
    pub fn impostor(&self) -> Option<MemberId> {
        let facts = self.observed?.facts.as_ref().filter(|facts| facts.error.is_none())?;
        (facts.my_id != self.id).then_some(facts.my_id)
    }

    /// The revision it was created from, if it exists.
    #[must_use]
    pub fn revision(&self) -> Option<&'a Revision> {
        self.observed.map(|member| &member.revision)
    }

    /// Whether the platform will start a dead member again in a moment: its process ran at this revision and ended
    /// once. One that ended more often, or that could never be run, will hardly heal by itself.
    #[must_use]
    pub fn left_to_keeper(&self) -> bool {
        self.standing == Standing::Dead && self.restarts() == 1
    }

    /// Times its process ended by itself at its present revision.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.observed.map_or(0, |member| member.restarts)
    }
}

/// A member's answer, if it counts: a terminating member is down, whatever it still says, and a server with another
/// id is not the member, but whoever took its port or its pod's address.
fn answer(id: MemberId, member: &ObservedMember) -> Option<&MemberFacts> {
    match member.process {
        Process::Running => member.facts.as_ref().filter(|facts| facts.error.is_none() && facts.my_id == id),
        Process::Terminating | Process::Failed { .. } => None,
    }
}

/// A status written before `lastCompleted` existed tells by `completedAt`.
fn completed(ensemble: &ZkEnsemble) -> Option<Revision> {
    let rollout = &ensemble.status.as_ref()?.rollout;
    let revision = rollout.last_completed.as_ref();
    revision
        .or_else(|| rollout.completed_at.as_ref().map(|_| &rollout.revision))
        .map(|text| Revision::recorded(text))
}

fn leadership<'a>(membership: &Membership, observed: &'a Observed) -> Leadership<'a> {
    let answers = membership.voters.iter().filter_map(|id| answer(*id, observed.members.get(id)?));
    let leaders: Vec<&MemberFacts> = answers.filter(|facts| facts.leads()).collect();
    match leaders.as_slice() {
        [] => Leadership::None,
        // A server that does not tell its voters, and an old one does not, is taken at its word.
        [one]
            if !one.voters.is_empty()
                && !one.voters.iter().copied().collect::<BTreeSet<_>>().eq(&membership.voters) =>
        {
            Leadership::Foreign(one.my_id)
        }
        [one] => Leadership::One(one),
        many => Leadership::Many(many.iter().map(|facts| facts.my_id).collect()),
    }
}

fn seat<'a>(
    id: MemberId,
    membership: &Membership,
    observed: &'a Observed,
    leadership: &Leadership<'_>,
    target: &Revision,
    max_lag: i64,
) -> Seat<'a> {
    let voter = membership.voters.contains(&id);
    let member = observed.members.get(&id);
    let leader = match leadership {
        Leadership::One(leader) => Some(*leader),
        Leadership::None | Leadership::Many(_) | Leadership::Foreign(_) => None,
    };
    let answer = member.and_then(|member| answer(id, member));
    let lag = leader.zip(answer).map(|(leader, facts)| lag(leader.zxid_committed, facts));
    let standing = match member.map(|member| (&member.process, answer)) {
        None => Standing::Missing,
        Some((Process::Failed { .. }, _)) => Standing::Dead,
        Some((Process::Terminating, _)) => Standing::Terminating,
        Some((Process::Running, None)) => Standing::Silent,
        Some((Process::Running, Some(facts))) => match leader {
            Some(leader)
                if joined(id, voter, facts, leader) && caught_up(id, observed, facts, lag, max_lag) =>
            {
                Standing::Joined
            }
            Some(_) | None => Standing::Apart,
        },
    };
    let outdated = member.is_some_and(|member| member.revision != *target);
    Seat { id, voter, observed: member, standing, lag, outdated }
}

/// Whether a member the leader counts is near enough to it to take full part.
///
/// The answers of the leader and the member were given at different moments, so at tens of thousands of writes a second
/// their difference is mostly how far these moments lie apart. Two things make up for that: a member joins once it has
/// logged what the leader had committed a pass ago, or within `max_lag` of what it has now; and one that has joined
/// stays so, as long as the leader counts it, until it is behind by far more than moments can explain.
fn caught_up(id: MemberId, observed: &Observed, facts: &MemberFacts, now: Option<i64>, max_lag: i64) -> bool {
    let history = &observed.history;
    let uid = observed.members.get(&id).map_or("", |member| &member.uid);
    let limit = if history.joined(id, &facts.boot_id, uid) { leave_lag(max_lag) } else { max_lag };
    let before = history.committed().map(|committed| lag(committed, facts));
    now.into_iter().chain(before).any(|lag| lag <= limit)
}

/// Transactions a joined member may be behind and stay joined: a hundred times what it may be to join, and no less than
/// a busy leader commits in several seconds.
fn leave_lag(max_lag: i64) -> i64 {
    const SEVERAL_SECONDS: i64 = 1_000_000;
    max_lag.saturating_mul(100).max(SEVERAL_SECONDS)
}

/// Transactions `facts` is behind `committed`, a leader's. A synced member that logged nothing of the leader's epoch yet holds all
/// history before it, so only the epoch's own transactions are missing; for any other member it is a lower bound.
fn lag(committed: Zxid, facts: &MemberFacts) -> i64 {
    let logged = facts.zxid_logged;
    if logged.epoch() < committed.epoch() { committed.counter() } else { (committed.0 - logged.0).max(0) }
}

fn joined(id: MemberId, voter: bool, facts: &MemberFacts, leader: &MemberFacts) -> bool {
    let leads = facts.leads();
    let counted = if leads {
        facts.my_id == leader.my_id
    } else if voter {
        leader.synced_voters.contains(&id)
    } else {
        leader.synced_observers.contains(&id)
    };
    let role = leads || facts.role == if voter { Role::Follower } else { Role::Observer };
    let epoch = Some(leader.current_epoch);
    role && counted
        && facts.synced
        && !facts.draining
        && (leads || facts.leader_id == Some(leader.my_id))
        && facts.current_epoch == leader.current_epoch
        // Memory follows disk: a member back in the quorum has made this epoch its own on disk.
        && (facts.role == Role::Standalone || (facts.current_epoch_disk == epoch && facts.accepted_epoch_disk == epoch))
        && facts.epoch_files_error.is_none()
}
