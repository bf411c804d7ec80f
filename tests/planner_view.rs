//! Stories about what members' answers are worth: answers given at different moments, and answers of other servers.

mod planner_fake;

use planner_fake::{Fake, Quality, State, TICK, ensemble};
use zk_operator::crd::ConditionType;
use zk_operator::plan::{MemberFacts, MemberId, NO_LEADER_GRACE_SECONDS, Plan, Role, Zxid};

/// Transactions between two passes of a busy ensemble.
const BUSY: i64 = 100_000;

/// Runs a busy ensemble in which every follower's answer is this much older than the leader's.
fn run_busy(fake: &mut Fake, ticks: usize, older: fn(&mut MemberFacts)) -> Vec<Plan> {
    let mut plans = Vec::new();
    for _ in 0..ticks {
        fake.zxid += BUSY;
        let leader = fake.leader;
        for (id, member) in &mut fake.members {
            member.lie = (leader != Some(*id)).then_some(older);
        }
        plans.push(fake.pass());
        fake.tick();
    }
    plans
}

fn behind(facts: &mut MemberFacts, transactions: i64) {
    facts.zxid_logged = Zxid(facts.zxid_logged.0 - transactions);
}

/// A settled ensemble far into its epoch.
fn settled() -> Fake {
    let mut fake = Fake::settled(ensemble(3, 0));
    fake.zxid += 100_000_000;
    fake
}

/// Fault: one comparison of answers given at different moments made a healthy follower leave, and its settling start
/// anew, so that no rollout got anywhere on a busy ensemble.
#[test]
fn answers_given_at_different_moments_make_no_member_leave_and_hold_no_rollout() {
    let mut fake = settled();
    let plans = run_busy(&mut fake, 20, |facts| behind(facts, 50_000));
    let steady = plans.iter().all(|plan| plan.status.is_true(ConditionType::Ready));
    assert!(steady, "Ready flaps");
    fake.edit(2000, Quality::Good);
    let plans = run_busy(&mut fake, 100, |facts| behind(facts, 50_000));
    assert!(fake.done(), "{}", plans.last().expect("a plan").summary);
}

#[test]
fn a_member_that_is_further_behind_than_a_pass_and_the_limit_has_not_joined() {
    let mut fake = settled();
    fake.edit(2000, Quality::Good);
    let plans = run_busy(&mut fake, 60, |facts| behind(facts, 3 * BUSY));
    let last = plans.last().expect("a plan");
    assert_eq!(fake.members[&MemberId(2)].state, State::Synced);
    assert!(last.summary.contains("member 2 was restarted and is not back yet"), "{}", last.summary);
}

#[test]
fn a_joined_member_leaves_when_no_moment_explains_how_far_it_is_behind() {
    let mut fake = settled();
    run_busy(&mut fake, 5, |facts| behind(facts, 50_000));
    let plans = run_busy(&mut fake, 2, |facts| behind(facts, 2_000_000));
    assert_eq!(plans.last().expect("a plan").status.synced, 1);
}

/// Fault: any server that answered on a member's port and said it leads was taken for the leader.
#[test]
fn a_server_with_another_id_is_not_the_member_it_was_asked_as() {
    let mut fake = settled();
    fake.members.get_mut(&MemberId(2)).expect("it exists").lie = Some(|facts| {
        facts.my_id = MemberId(9);
        facts.role = Role::Leader;
        facts.synced_voters = vec![MemberId(2), MemberId(3)];
    });
    let planned = fake.pass();
    assert_eq!(planned.status.leader.as_deref(), Some("zoo-1"), "one leader, not two");
    assert_eq!(planned.status.members[1].state, "another server answers");
    assert!(!planned.status.members[1].joined);
    // With the true leader gone from sight, the other one must not take its place either.
    fake.members.get_mut(&MemberId(1)).expect("it exists").unreachable = 9;
    assert_eq!(fake.pass().status.leader, None);
}

/// Fault: a leader of other voters was believed when it named the synced ones.
#[test]
fn a_leader_of_other_voters_is_no_leader_and_no_lack_of_one() {
    let mut fake = settled();
    fake.edit(2000, Quality::Good);
    let ticks = usize::try_from(NO_LEADER_GRACE_SECONDS / TICK).expect("few ticks") * 2;
    for _ in 0..ticks {
        for (id, member) in &mut fake.members {
            member.lie = Some(match id.0 {
                1 => |facts| facts.voters = vec![MemberId(1), MemberId(7), MemberId(8)],
                _ => |facts| facts.role = Role::Looking,
            });
        }
        let planned = fake.pass();
        assert_eq!(planned.steps, [], "{}", planned.summary);
        assert!(planned.summary.contains("member 1 leads other voters"), "{}", planned.summary);
        let available = planned.status.condition(ConditionType::Available).expect("it is computed");
        assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "ForeignLeader"));
        fake.tick();
    }
}

#[test]
fn the_order_in_which_a_leader_names_its_voters_does_not_matter() {
    let mut fake = settled();
    for member in fake.members.values_mut() {
        member.lie = Some(|facts| facts.voters.reverse());
    }
    assert_eq!(fake.pass().status.synced, 3);
}
