//! What the status claims: no more than what members said, and what a person waiting for a condition expects of it.

mod planner_fake;

use planner_fake::{Fake, Quality, State, TICK, ensemble};
use zk_operator::crd::ConditionType;
use zk_operator::plan::{Digest, MemberFacts, MemberId, Plan, Zxid};

fn member(fake: &mut Fake, id: u64) -> &mut planner_fake::FakeMember {
    fake.members.get_mut(&MemberId(id)).expect("it exists")
}

/// Status and reason of a condition.
fn told(planned: &Plan, kind: ConditionType) -> (&str, &str) {
    let condition = planned.status.condition(kind).expect("every condition is computed");
    (&condition.status, &condition.reason)
}

fn message(planned: &Plan, kind: ConditionType) -> &str {
    &planned.status.condition(kind).expect("every condition is computed").message
}

fn states(planned: &Plan) -> Vec<&str> {
    planned.status.members.iter().map(|member| member.state.as_str()).collect()
}

/// Fault: members that saw a mismatch were named divergent although the leader was the wrong one, so that every member
/// was a candidate to lose its data.
#[test]
fn when_the_leader_is_the_wrong_one_it_alone_is_named() {
    let mut fake = Fake::settled(ensemble(3, 0));
    member(&mut fake, 1).data = 1;
    member(&mut fake, 2).mismatches = 4;
    member(&mut fake, 3).mismatches = 4;
    let planned = fake.pass();
    assert_eq!(planned.status.divergent, 1);
    assert_eq!(states(&planned), ["divergent", "saw a digest mismatch", "saw a digest mismatch"]);
    assert_eq!(told(&planned, ConditionType::MembersConsistent), ("False", "MembersDivergent"));
    let text = message(&planned, ConditionType::MembersConsistent);
    assert!(text.contains("members [1] differ from the majority: stop each"), "{text}");
    assert!(text.contains("members [2, 3] saw digests from their leader"), "{text}");
    assert!(text.contains("end the process of each of [2, 3] in turn"), "{text}");
}

/// Fault: a mismatch seen made its reporter divergent.
#[test]
fn a_mismatch_seen_names_nobody_divergent() {
    let mut fake = Fake::settled(ensemble(3, 0));
    member(&mut fake, 2).mismatches = 1;
    let planned = fake.pass();
    assert_eq!(planned.status.divergent, 0);
    assert_eq!(told(&planned, ConditionType::MembersConsistent), ("False", "MismatchSeen"));
    assert_eq!(told(&planned, ConditionType::Degraded), ("True", "MismatchSeen"));
}

#[test]
fn a_majority_of_those_that_answer_is_no_majority_of_the_voters() {
    let mut fake = Fake::settled(ensemble(5, 0));
    member(&mut fake, 3).data = 1;
    member(&mut fake, 4).unreachable = 9;
    member(&mut fake, 5).unreachable = 9;
    let planned = fake.pass();
    assert_eq!(planned.status.divergent, 0);
    assert_eq!(told(&planned, ConditionType::MembersConsistent), ("False", "NoMajority"));
    assert!(!states(&planned).contains(&"divergent"));
    // Observers' digests are compared, and lend no vote.
    let mut fake = Fake::settled(ensemble(3, 2));
    member(&mut fake, 3).unreachable = 9;
    member(&mut fake, 2).data = 1;
    let planned = fake.pass();
    assert_eq!(planned.status.divergent, 0);
    assert_eq!(told(&planned, ConditionType::MembersConsistent), ("False", "NoMajority"));
}

fn says(facts: &mut MemberFacts, digests: [(i64, &str); 2]) {
    let digest =
        |(zxid, digest): (i64, &str)| Digest { zxid: Zxid(zxid), digest: digest.to_owned(), version: 2 };
    facts.digests = digests.map(digest).into();
}

/// Majorities that contradict each other: members 1 and 2 against 3 at one zxid, 2 and 3 against 1 at another.
#[test]
fn majorities_that_contradict_each_other_name_nobody() {
    let mut fake = Fake::settled(ensemble(3, 0));
    member(&mut fake, 1).lie = Some(|facts| says(facts, [(128, "a"), (256, "x")]));
    member(&mut fake, 2).lie = Some(|facts| says(facts, [(128, "a"), (256, "b")]));
    member(&mut fake, 3).lie = Some(|facts| says(facts, [(128, "x"), (256, "b")]));
    let planned = fake.pass();
    assert_eq!(planned.status.divergent, 0);
    assert_eq!(told(&planned, ConditionType::MembersConsistent), ("False", "NoMajority"));
}

/// A difference between two members that one of them, already found wrong elsewhere, explains is decided.
#[test]
fn a_member_found_wrong_explains_its_other_differences() {
    let mut fake = Fake::settled(ensemble(3, 0));
    member(&mut fake, 1).lie = Some(|facts| says(facts, [(128, "a"), (300, "b")]));
    member(&mut fake, 2).lie = Some(|facts| says(facts, [(128, "a"), (301, "c")]));
    member(&mut fake, 3).lie = Some(|facts| says(facts, [(128, "x"), (300, "x")]));
    let planned = fake.pass();
    assert_eq!(planned.status.divergent, 1);
    assert_eq!(states(&planned)[2], "divergent");
}

/// Fault: Ready stayed true over an edit, so whoever waited for it right after one was told at once that all is done.
#[test]
fn ready_is_false_from_the_edit_until_the_last_member_runs_it() {
    let mut fake = Fake::settled(ensemble(3, 0));
    assert_eq!(told(&fake.pass(), ConditionType::Ready), ("True", "AsExpected"));
    fake.edit(2000, Quality::Good);
    fake.ensemble.metadata.generation = Some(7);
    // The gate is closed, so every member still takes part.
    fake.history = Default::default();
    let planned = fake.pass();
    assert_eq!((planned.steps.len(), planned.status.synced), (0, 3));
    assert_eq!(told(&planned, ConditionType::Ready), ("False", "MembersOutdated"));
    assert_eq!(told(&planned, ConditionType::Available), ("True", "QuorumServing"));
    let ready = planned.status.condition(ConditionType::Ready).expect("it is computed");
    assert_eq!(ready.observed_generation, Some(7));
    for _ in 0..100 {
        fake.tick();
        let planned = fake.pass();
        assert!(!planned.status.is_true(ConditionType::Ready) || fake.done(), "{:?}", fake.members);
    }
    assert!(fake.done() && fake.pass().status.is_true(ConditionType::Ready));
}

/// Fault: what is said of every member was said for those that do not answer, too.
#[test]
fn nothing_is_claimed_for_members_that_do_not_answer() {
    const KINDS: [ConditionType; 3] =
        [ConditionType::MembersConsistent, ConditionType::StorageHealthy, ConditionType::EpochFilesHealthy];
    for silent in [vec![3], vec![1, 2, 3]] {
        let mut fake = Fake::settled(ensemble(3, 0));
        silent.iter().for_each(|id| member(&mut fake, *id).unreachable = 9);
        let planned = fake.pass();
        for kind in KINDS {
            assert_eq!(told(&planned, kind), ("Unknown", "NoFacts"), "{kind}");
            assert_eq!(message(&planned, kind), format!("members {silent:?} do not answer"));
        }
    }
    let mut fake = Fake::settled(ensemble(3, 0));
    let planned = fake.pass();
    assert!(KINDS.iter().all(|kind| planned.status.is_true(*kind)));
    // Trouble of one is known, whoever is silent.
    member(&mut fake, 3).unreachable = 9;
    member(&mut fake, 2).disk_low = true;
    member(&mut fake, 2).epoch_files_error = Some("currentEpoch: empty".to_owned());
    let planned = fake.pass();
    assert_eq!(told(&planned, ConditionType::StorageHealthy), ("False", "DiskPressure"));
    assert_eq!(told(&planned, ConditionType::EpochFilesHealthy), ("False", "EpochFileUnhealthy"));
}

/// The platform's opinion decides one thing: whether a silent member may be restarted when nobody has led for long.
#[test]
fn silence_without_a_leader_is_an_outage_only_where_the_platform_agrees() {
    for (local, acts) in [(false, false), (true, true)] {
        let mut fake = Fake::settled(ensemble(3, 0));
        fake.local = local;
        fake.edit(2000, Quality::Good);
        for id in 1..=3 {
            let member = member(&mut fake, id);
            if local {
                // Hung: on one machine nothing else makes a process silent.
                member.state = State::Booting(100);
            } else {
                member.unreachable = 100;
            }
        }
        fake.leader = fake.leader.filter(|_| !local);
        for _ in 0..(2 * zk_operator::plan::NO_LEADER_GRACE_SECONDS / TICK) {
            fake.pass();
            fake.tick();
        }
        assert_eq!(!fake.log.is_empty(), acts, "local mode: {local}: {:?}", fake.log);
    }
}
