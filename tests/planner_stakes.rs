//! Stories about templates nobody joined with yet: one member is tried with them and no more, whatever happens to the
//! others meanwhile.

mod planner_fake;

use planner_fake::{Fake, Quality, State, ensemble};
use zk_operator::plan::{MemberId, Plan, Revision};

fn run(fake: &mut Fake, ticks: usize) -> Plan {
    let mut planned = fake.pass();
    for _ in 0..ticks {
        fake.tick();
        planned = fake.pass();
    }
    planned
}

/// The members restarted, in order.
fn order(fake: &Fake) -> Vec<u64> {
    let restarts = fake.log.iter().filter_map(|line| line.strip_prefix("restart member "));
    restarts.map(|rest| rest.split(':').next().expect("an id").parse().expect("an id")).collect()
}

/// An ensemble in which member 2 runs a new template, answers, and never joins.
fn tried(voters: i32) -> (Fake, Revision) {
    let mut fake = Fake::settled(ensemble(voters, 0));
    let before = Revision::of(&fake.ensemble);
    fake.edit(2001, Quality::Loner);
    run(&mut fake, 10);
    assert_eq!((order(&fake), fake.members[&MemberId(2)].state), (vec![2], State::Looking));
    (fake, before)
}

/// Fault: a member that answered counted as proof of the template, so the next one to crash was given it too, and the
/// quorum that its mere return would have brought back was lost for good.
#[test]
fn a_member_that_crashes_while_another_one_has_yet_to_join_comes_back_as_it_was() {
    // The pause of whoever starts it again: short, and longer than the grace without a leader.
    for pause in [3, 60] {
        let (mut fake, before) = tried(3);
        fake.crash(MemberId(3), pause);
        let planned = run(&mut fake, 100);
        assert_eq!(order(&fake), [2], "{}", planned.summary);
        assert_eq!(fake.members[&MemberId(3)].revision, before);
        assert_eq!(fake.synced(), 2, "members 1 and 3 serve: {}", planned.summary);
    }
}

/// Fault: as above, with a leader all along and a member that does not heal by itself.
#[test]
fn while_a_leader_serves_a_template_is_proven_by_joining_only() {
    let (mut fake, _) = tried(5);
    fake.crash(MemberId(3), 1000);
    fake.members.get_mut(&MemberId(3)).expect("it exists").restarts = 9;
    let planned = run(&mut fake, 50);
    assert_eq!(order(&fake), [2]);
    assert!(planned.summary.contains("member 2 has yet to show that it joins"), "{}", planned.summary);
    // Member 2 is what the first attempt left behind: the second one starts there, although 3 is dead.
    fake.edit(2002, Quality::Good);
    fake.pass();
    assert_eq!(order(&fake), [2, 2]);
    run(&mut fake, 200);
    assert!(fake.done(), "{:#?}", fake.log);
    assert_eq!(order(&fake)[..3], [2, 2, 3]);
}

/// Fault: a leader and followers that only we cannot reach counted as no leader, with which answering is proof enough.
#[test]
fn a_leader_that_may_be_there_unseen_is_not_taken_for_none() {
    let (mut fake, _) = tried(5);
    fake.crash(MemberId(3), 1000);
    fake.members.get_mut(&MemberId(3)).expect("it exists").restarts = 9;
    for id in [1, 4, 5] {
        fake.members.get_mut(&MemberId(id)).expect("it exists").unreachable = 1000;
    }
    let planned = run(&mut fake, 100);
    assert_eq!(order(&fake), [2]);
    assert!(planned.summary.contains("no member that answers leads"), "{}", planned.summary);
}

/// Fault: a stopping member, which comes back at the template, did not count as one that is tried.
#[test]
fn a_member_that_crashes_while_another_one_stops_is_not_tried_too() {
    for voters in [3, 5] {
        let mut fake = Fake::settled(ensemble(voters, 0));
        fake.edit(2001, Quality::Loner);
        fake.pass();
        assert!(matches!(fake.members[&MemberId(2)].state, State::Terminating(_)));
        fake.crash(MemberId(3), 4);
        fake.members.get_mut(&MemberId(3)).expect("it exists").restarts = 9;
        run(&mut fake, 60);
        assert_eq!(order(&fake), [2]);
    }
}

/// Fault: a member was given another template the moment its process ended, before anyone could start it again.
#[test]
fn a_process_that_ended_once_is_left_to_its_keeper_and_one_that_keeps_ending_is_not() {
    for (restarts, expected) in [(0, vec![3]), (1, vec![]), (2, vec![3])] {
        let mut fake = Fake::settled(ensemble(3, 0));
        fake.edit(2000, Quality::Good);
        fake.crash(MemberId(3), 1000);
        fake.members.get_mut(&MemberId(3)).expect("it exists").restarts = restarts;
        let planned = fake.pass();
        assert_eq!(order(&fake), expected, "after {restarts} restarts: {}", planned.summary);
    }
}

/// Fault: a lost member was created from the template the rollout had stalled over, and the quorum went with it.
#[test]
fn a_member_lost_while_the_rollout_is_stalled_starts_from_the_last_completed_template() {
    let mut fake = Fake::settled(ensemble(3, 0));
    let before = Revision::of(&fake.ensemble);
    fake.edit(2001, Quality::Crashes);
    let planned = run(&mut fake, 60);
    assert_eq!(planned.status.rollout.phase, "Stalled");
    assert_eq!(planned.status.rollout.last_completed.as_deref(), Some(before.as_str()));
    fake.delete(MemberId(3));
    let planned = fake.pass();
    assert_eq!(planned.status.rollout.phase, "Stalled", "{}", planned.summary);
    run(&mut fake, 60);
    assert_eq!(fake.members[&MemberId(3)].revision, before);
    assert_eq!(fake.synced(), 2);
}

/// Fault: as above, before the rollout was known to have stalled.
#[test]
fn a_member_lost_before_anyone_joined_with_the_template_starts_from_the_last_completed_one() {
    let (mut fake, before) = tried(3);
    fake.delete(MemberId(3));
    run(&mut fake, 30);
    assert_eq!(fake.members[&MemberId(3)].revision, before);
    assert_eq!(fake.synced(), 2);
}

#[test]
fn a_member_lost_after_one_joined_with_the_template_starts_from_it() {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.spec().rollout.settle_seconds = 60;
    let target = fake.edit(2000, Quality::Good);
    run(&mut fake, 15);
    assert_eq!((order(&fake), fake.members[&MemberId(2)].state), (vec![2], State::Synced));
    fake.delete(MemberId(3));
    fake.pass();
    assert_eq!(fake.members[&MemberId(3)].revision, target);
}

#[test]
fn before_any_rollout_was_complete_a_lost_member_starts_as_those_that_joined() {
    let mut fake = Fake::new(ensemble(5, 0));
    let before = Revision::of(&fake.ensemble);
    run(&mut fake, 2);
    fake.members.get_mut(&MemberId(5)).expect("it exists").state = State::Booting(1000);
    run(&mut fake, 10);
    assert!(fake.synced() >= 3);
    assert_eq!(fake.ensemble.status.as_ref().expect("a status").rollout.last_completed, None);
    fake.edit(2001, Quality::Loner);
    fake.delete(MemberId(4));
    // Nor does it take a leader that answers.
    fake.members.values_mut().for_each(|member| member.unreachable = 10);
    fake.pass();
    assert_eq!(fake.members[&MemberId(4)].revision, before);
}
