//! Stories about the rolling restart: the order, the gate, what freezes a rollout and what thaws it.

mod planner_fake;

use planner_fake::{Fake, Quality, State, TICK, ensemble};
use zk_operator::crd::{APPROVE, ConditionType, PAUSE, RESTARTED_AT};
use zk_operator::plan::{MemberId, NO_LEADER_GRACE_SECONDS, Plan, Revision};

/// The members restarted, in order.
fn order(fake: &Fake) -> Vec<u64> {
    let restarts = fake.log.iter().filter_map(|line| line.strip_prefix("restart member "));
    restarts.map(|rest| rest.split(':').next().expect("an id").parse().expect("an id")).collect()
}

fn run(fake: &mut Fake, ticks: usize) -> Plan {
    let mut planned = fake.pass();
    for _ in 0..ticks {
        fake.tick();
        planned = fake.pass();
    }
    planned
}

fn reason(planned: &Plan, kind: ConditionType) -> String {
    planned.status.condition(kind).expect("every condition is computed").reason.clone()
}

#[test]
fn an_unchanged_ensemble_is_left_alone() {
    let mut fake = Fake::settled(ensemble(3, 1));
    let planned = run(&mut fake, 50);
    assert_eq!(fake.log, Vec::<String>::new());
    assert_eq!(planned.status.rollout.phase, "Complete");
    assert!(planned.status.is_true(ConditionType::Ready));
    assert_eq!((planned.status.replicas, planned.status.ready_replicas, planned.status.synced), (3, 4, 3));
    assert_eq!(planned.status.leader.as_deref(), Some("zoo-1"));
}

#[test]
fn a_new_template_reaches_observers_then_followers_and_the_leader_last() {
    let mut fake = Fake::settled(ensemble(5, 2));
    fake.edit(2000, Quality::Good);
    run(&mut fake, 200);
    assert!(fake.done());
    let order = order(&fake);
    assert_eq!(order.len(), 7, "each member is restarted once: {order:?}");
    assert_eq!(order[..2], [101, 102]);
    assert_eq!(order[6], 1, "the leader at the time goes last");
}

#[test]
fn the_most_lagged_follower_goes_first() {
    let mut fake = Fake::settled(ensemble(5, 0));
    fake.edit(2000, Quality::Good);
    fake.members.get_mut(&MemberId(4)).expect("it exists").lag = 50;
    fake.members.get_mut(&MemberId(3)).expect("it exists").lag = 30;
    fake.pass();
    assert_eq!(order(&fake), [4]);
}

#[test]
fn a_leader_that_changes_in_the_middle_only_changes_who_is_last() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.edit(2000, Quality::Good);
    run(&mut fake, 3);
    assert_eq!(order(&fake), [2]);
    fake.lead(MemberId(3));
    run(&mut fake, 100);
    assert_eq!(order(&fake), [2, 1, 3]);
}

#[test]
fn the_next_member_waits_until_the_last_one_has_settled() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.spec().rollout.settle_seconds = 60;
    fake.edit(2000, Quality::Good);
    // Drain, boot and join take about ten ticks; the settle time takes thirty more.
    let planned = run(&mut fake, 25);
    assert_eq!(order(&fake), [2]);
    assert!(planned.summary.contains("it is settling"), "{}", planned.summary);
    run(&mut fake, 30);
    assert_eq!(order(&fake), [2, 3]);
}

#[test]
fn a_restarted_operator_waits_to_see_a_quorum_twice_before_it_acts() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.edit(2000, Quality::Good);
    fake.history = zk_operator::plan::History::default();
    let planned = fake.pass();
    assert!(planned.steps.is_empty(), "{:?}", planned.steps);
    run(&mut fake, 8);
    assert_eq!(order(&fake), [2]);
}

#[test]
fn a_template_that_crashes_stops_at_the_first_member_and_a_corrected_one_goes_on() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.edit(2001, Quality::Crashes);
    let planned = run(&mut fake, 100);
    assert_eq!(order(&fake), [2], "no second member gets a template that failed");
    assert_eq!(planned.status.rollout.phase, "Stalled");
    assert_eq!(reason(&planned, ConditionType::Progressing), "RolloutStalled");
    assert!(planned.status.is_true(ConditionType::Available), "the others serve on");
    fake.edit(2002, Quality::Good);
    let planned = run(&mut fake, 200);
    assert!(fake.done(), "{}", planned.summary);
    assert_eq!(order(&fake), [2, 2, 3, 1]);
}

#[test]
fn a_template_that_never_answers_stalls_after_the_deadline_and_going_back_heals() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.spec().rollout.progress_deadline_seconds = 120;
    let before = fake.spec().config.clone();
    fake.edit(2001, Quality::Hangs);
    let planned = run(&mut fake, 40);
    assert_eq!(planned.status.rollout.phase, "Waiting");
    let planned = run(&mut fake, 60);
    assert_eq!(planned.status.rollout.phase, "Stalled");
    fake.spec().config = before;
    run(&mut fake, 60);
    assert!(fake.done());
    assert_eq!(order(&fake), [2, 2]);
}

#[test]
fn an_ensemble_bootstrapped_from_a_broken_template_heals_with_a_corrected_one() {
    for quality in [Quality::Crashes, Quality::Hangs, Quality::Loner] {
        let mut fake = Fake::new(ensemble(3, 1));
        fake.edit(2001, quality);
        let planned = run(&mut fake, 30);
        assert!(!planned.status.is_true(ConditionType::Available));
        fake.edit(2002, Quality::Good);
        let planned = run(&mut fake, 300);
        assert!(fake.done(), "{quality:?}: {}\n{:#?}", planned.summary, fake.log);
    }
}

#[test]
fn without_a_leader_no_live_member_is_touched_until_the_grace_is_over() {
    let mut fake = Fake::new(ensemble(3, 0));
    fake.edit(2001, Quality::Loner);
    run(&mut fake, 10);
    fake.edit(2002, Quality::Good);
    let ticks = usize::try_from(NO_LEADER_GRACE_SECONDS / TICK).expect("few ticks");
    let planned = run(&mut fake, ticks - 15);
    assert_eq!(order(&fake), Vec::<u64>::new());
    assert!(planned.summary.contains("no member that answers leads"), "{}", planned.summary);
    run(&mut fake, 10);
    assert_eq!(order(&fake).len(), 1, "then one goes first: {:?}", fake.log);
}

#[test]
fn members_the_operator_cannot_reach_are_not_taken_for_dead() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.edit(2000, Quality::Good);
    for member in fake.members.values_mut() {
        member.unreachable = 1000;
    }
    let planned = run(&mut fake, 200);
    assert_eq!(fake.log, Vec::<String>::new(), "blind is not allowed to act");
    assert_eq!(reason(&planned, ConditionType::Available), "NoFacts");
}

#[test]
fn a_follower_is_not_restarted_while_another_one_is_down() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.crash(MemberId(3), 1000);
    // It comes back at the old revision only: as if the platform could not start it.
    fake.members.get_mut(&MemberId(3)).expect("it exists").state = State::Booting(1000);
    fake.edit(2000, Quality::Good);
    fake.pass();
    // The silent one is brought to the new template; nobody else is touched while it is away.
    assert_eq!(order(&fake), [3]);
    let planned = run(&mut fake, 2);
    assert_eq!(order(&fake), [3]);
    assert!(planned.summary.contains("must wait: member 3"), "{}", planned.summary);
}

#[test]
fn a_supervised_rollout_stops_before_the_leader_until_its_revision_is_approved() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.spec().rollout.supervised = true;
    let revision = fake.edit(2000, Quality::Good);
    let planned = run(&mut fake, 100);
    assert_eq!(order(&fake), [2, 3]);
    assert_eq!(planned.status.rollout.phase, "AwaitingApproval");
    approve(&mut fake, "an older revision");
    run(&mut fake, 20);
    assert_eq!(order(&fake), [2, 3]);
    approve(&mut fake, revision.as_str());
    run(&mut fake, 40);
    assert_eq!(order(&fake), [2, 3, 1]);
    assert!(fake.done());
}

fn annotate(fake: &mut Fake, key: &str, value: &str) {
    fake.ensemble.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

fn approve(fake: &mut Fake, revision: &str) {
    annotate(fake, APPROVE, revision);
}

#[test]
fn a_paused_rollout_restarts_nobody_and_starts_who_is_missing_as_it_was() {
    let mut fake = Fake::settled(ensemble(3, 0));
    let before = Revision::of(&fake.ensemble);
    fake.spec().rollout.paused = true;
    fake.edit(2000, Quality::Good);
    fake.delete(MemberId(3));
    let planned = run(&mut fake, 40);
    let reason = "it does not exist, and the rollout is paused";
    assert_eq!(fake.log, [format!("start member 3 at revision {before}: {reason}")]);
    assert_eq!(planned.status.rollout.phase, "Paused");
    assert_eq!(fake.synced(), 3);
}

#[test]
fn the_pause_annotation_stops_every_act() {
    let mut fake = Fake::settled(ensemble(3, 0));
    annotate(&mut fake, PAUSE, "true");
    fake.edit(2000, Quality::Good);
    fake.delete(MemberId(3));
    let planned = run(&mut fake, 40);
    assert_eq!(fake.log, Vec::<String>::new());
    assert!(planned.status.is_true(ConditionType::ReconciliationPaused));
}

#[test]
fn a_restart_annotation_restarts_every_member_in_turn() {
    let mut fake = Fake::settled(ensemble(3, 0));
    annotate(&mut fake, RESTARTED_AT, "2027-01-01T00:00:00Z");
    run(&mut fake, 100);
    assert_eq!(order(&fake), [2, 3, 1]);
}

#[test]
fn a_single_member_is_restarted_although_nobody_can_stand_in() {
    let mut fake = Fake::settled(ensemble(1, 0));
    fake.edit(2000, Quality::Good);
    run(&mut fake, 40);
    assert_eq!(order(&fake), [1]);
    assert!(fake.done());
}

#[test]
fn a_changed_size_changes_no_running_ensemble_and_is_told() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.spec().replicas = 5;
    let planned = run(&mut fake, 20);
    assert_eq!(fake.log, Vec::<String>::new());
    for kind in [ConditionType::ScaleAllowed, ConditionType::Ready] {
        let condition = planned.status.condition(kind).expect("it is computed");
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "ScalingNotSupported"));
        assert!(condition.message.contains("keeps its 3 voters"), "{}", condition.message);
    }
    assert!(planned.summary.contains("not supported yet"), "{}", planned.summary);
    assert_eq!(planned.objects.members.len(), 3);
}

#[test]
fn the_revision_depends_on_what_a_process_is_started_with_and_on_nothing_else() {
    let base = ensemble(3, 0);
    let revision = |change: fn(&mut zk_operator::crd::ZkEnsemble)| {
        let mut changed = base.clone();
        change(&mut changed);
        Revision::of(&changed)
    };
    let same = Revision::of(&base);
    assert_eq!(revision(|e| e.spec.rollout.settle_seconds = 99), same);
    assert_eq!(revision(|e| e.spec.storage.size = "20Gi".to_owned()), same);
    assert_eq!(revision(|e| e.spec.replicas = 5), same);
    assert_ne!(revision(|e| e.spec.image = Some("local:x".to_owned())), same);
    assert_ne!(revision(|e| e.spec.version = Some("9".to_owned())), same);
    assert_ne!(revision(|e| e.spec.resources = Some(Default::default())), same);
    assert_ne!(revision(|e| drop(e.spec.config.insert("tickTime".to_owned(), "900".to_owned()))), same);
    // A key set to its default value is no change.
    assert_eq!(revision(|e| drop(e.spec.config.insert("tickTime".to_owned(), "2000".to_owned()))), same);
}
