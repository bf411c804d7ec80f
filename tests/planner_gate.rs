//! The gate before a live member: one case an arm. Each ensemble is healthy but for one thing, has an edit to roll out,
//! and must leave every member alone and say why; without that one thing the rollout starts.

mod planner_fake;

use planner_fake::{Fake, Quality, State, ensemble};
use zk_operator::plan::{MemberId, Revision, Role};

/// One reason for the gate to be closed.
struct Case {
    voters: i32,
    /// Brings it about in a settled ensemble whose template was just edited.
    trouble: fn(&mut Fake),
    /// What the summary must say.
    says: &'static str,
}

fn member(fake: &mut Fake, id: u64) -> &mut planner_fake::FakeMember {
    fake.members.get_mut(&MemberId(id)).expect("it exists")
}

const CASES: &[Case] = &[
    Case { voters: 3, trouble: |fake| member(fake, 1).unreachable = 9, says: "no member that answers leads" },
    Case {
        voters: 3,
        trouble: |fake| member(fake, 3).lie = Some(|facts| facts.role = Role::Leader),
        says: "members [1, 3] each say they lead",
    },
    Case {
        voters: 3,
        trouble: |fake| {
            member(fake, 1).lie = Some(|facts| facts.voters = vec![MemberId(1), MemberId(2)]);
        },
        says: "member 1 leads other voters than this ensemble's",
    },
    Case {
        voters: 5,
        trouble: |fake| member(fake, 3).state = State::Terminating(9),
        says: "member 3 is still stopping",
    },
    Case {
        voters: 5,
        trouble: |fake| {
            let target = Revision::of(&fake.ensemble);
            let member = member(fake, 3);
            (member.revision, member.state) = (target, State::Looking);
        },
        says: "member 3 was restarted and is not back yet: it is not synced with the leader",
    },
    Case {
        voters: 5,
        trouble: |fake| {
            let target = Revision::of(&fake.ensemble);
            let member = member(fake, 3);
            (member.revision, member.boot) = (target, 99);
        },
        says: "member 3 was restarted and is not back yet: it is settling",
    },
    Case {
        voters: 3,
        trouble: |fake| member(fake, 3).config_version = 1,
        says: "members hold different configuration versions",
    },
    Case {
        voters: 3,
        trouble: |fake| member(fake, 3).boot = 99,
        says: "without member 2 only 1 voters are synced and settled, and a quorum is 2",
    },
    Case {
        voters: 3,
        trouble: |fake| (2..=3).for_each(|id| member(fake, id).lag = 2_000_000),
        says: "without member 2 only 1 voters are synced and settled, and a quorum is 2",
    },
    Case {
        voters: 3,
        trouble: |fake| {
            (2..=3)
                .for_each(|id| member(fake, id).epoch_files_error = Some("currentEpoch: empty".to_owned()));
        },
        says: "without member 2 only 1 voters are synced and settled, and a quorum is 2",
    },
    Case {
        voters: 3,
        trouble: |fake| member(fake, 3).data = 1,
        says: "members [3] hold other data than the majority",
    },
    Case {
        voters: 3,
        trouble: |fake| {
            member(fake, 2).data = 1;
            member(fake, 3).data = 2;
        },
        says: "members differ and no majority agrees: a person must decide",
    },
    Case {
        voters: 3,
        trouble: |fake| member(fake, 3).mismatches = 1,
        says: "members [3] saw digests from their leader that are not their own",
    },
    Case {
        voters: 3,
        trouble: |fake| member(fake, 3).disk_low = true,
        says: "the disk of member 3, which the quorum needs, is nearly full",
    },
];

/// A settled ensemble with an edit to roll out.
fn edited(voters: i32) -> Fake {
    let mut fake = Fake::settled(ensemble(voters, 0));
    // Far into the epoch, so that a member can be far behind.
    fake.zxid += 100_000_000;
    fake.edit(2000, Quality::Good);
    fake
}

/// Fault: disk, configuration versions, digests and a second leader were never varied; the gate could lose any of
/// these arms unnoticed.
#[test]
fn each_trouble_closes_the_gate_and_is_named() {
    for case in CASES {
        let mut fake = edited(case.voters);
        (case.trouble)(&mut fake);
        let planned = fake.pass();
        let told = &planned.summary;
        assert!(planned.steps.is_empty() && told.contains(case.says), "{:?}: {told}", case.says);
        assert!(told.contains("must wait"), "{told}");
    }
}

#[test]
fn without_trouble_the_gate_is_open() {
    for voters in [3, 5] {
        let planned = edited(voters).pass();
        assert_eq!(planned.steps.len(), 1, "{}", planned.summary);
    }
}

/// The member to be restarted may be the one with the full disk: the others are the quorum.
#[test]
fn a_full_disk_holds_back_the_others_only() {
    let mut fake = edited(3);
    member(&mut fake, 2).disk_low = true;
    let planned = fake.pass();
    assert_eq!(planned.steps.len(), 1, "{}", planned.summary);
    assert_eq!(planned.steps[0].member(), Some(MemberId(2)));
}

/// No step may stake anything on the kubelet's opinion: with local mode's, which is the answer itself, all of the above
/// holds too.
#[test]
fn the_platforms_opinion_opens_no_gate() {
    for case in CASES {
        let mut fake = edited(case.voters);
        fake.local = true;
        (case.trouble)(&mut fake);
        let planned = fake.pass();
        assert!(planned.steps.is_empty(), "{:?}: {}", case.says, planned.summary);
    }
}
