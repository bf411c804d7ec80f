//! The election alone, notification by notification.

use zk_core::config::{Member, Membership};
use zk_core::election::{Election, ElectionAction, Intervals};
use zk_core::time::Instant;
use zk_core::zab::QuorumVerifier;
use zk_jute::election::{Notification, PeerState};
use zk_jute::{ServerId, Zxid};

const ME: ServerId = ServerId(7);
const OTHER: ServerId = ServerId(1);
const NOW: Instant = Instant(0);

fn quorum() -> QuorumVerifier {
    let member = |id| Member { id, voter: true, weight: 1, group: None, text: "".into() };
    let members = [OTHER, ServerId(2), ME].map(|id| (id, member(id))).into();
    QuorumVerifier::new(&Membership { version: 0, members })
}

fn looking(zxid: i64) -> Election {
    let intervals = Intervals { min_ms: 200, max_ms: 60_000, finalize_ms: 200 };
    Election::start(ME, true, intervals, 0, (Zxid(zxid), 3), NOW)
}

fn says(leader: ServerId, zxid: i64, round: i64) -> Notification {
    Notification {
        state: PeerState::Looking,
        leader,
        zxid: Zxid(zxid),
        election_epoch: round,
        peer_epoch: 3,
        version: 2,
        config: None,
    }
}

/// Seed 22911: 7's log had been cut back since it last voted, and 1 still proposed it with the zxid from before.
#[test]
fn a_member_never_votes_for_itself_with_more_than_it_has_and_makes_the_others_forget_it() {
    for round in [1, 4] {
        let mut election = looking(0x3_0000_0020);
        let actions = election.receive(OTHER, &says(ME, 0x3_0000_0022, round), &quorum(), NOW);
        assert_eq!(actions, [ElectionAction::Broadcast]);
        let proposal = election.proposal();
        assert_eq!((proposal.leader, proposal.zxid), (ME, Zxid(0x3_0000_0020)));
        assert_eq!(
            (proposal.round, election.round()),
            (round + 1, round + 1),
            "the others' votes are of a past round"
        );
        // The old claim does not count for a quorum, and whoever repeats it is told the new round.
        assert!(election.tick(NOW.plus_ms(200)).iter().all(|action| *action == ElectionAction::Broadcast));
        let again = election.receive(OTHER, &says(ME, 0x3_0000_0022, round), &quorum(), NOW);
        assert_eq!(again, [ElectionAction::Answer(OTHER)]);
    }
}

#[test]
fn a_member_that_is_proposed_with_what_it_has_or_less_stays_in_its_round() {
    for zxid in [0x3_0000_0020, 0x3_0000_001f] {
        let mut election = looking(0x3_0000_0020);
        election.receive(OTHER, &says(ME, zxid, 4), &quorum(), NOW);
        assert_eq!((election.round(), election.proposal().zxid), (4, Zxid(0x3_0000_0020)));
    }
}

#[test]
fn a_better_vote_for_somebody_else_is_adopted_as_it_is() {
    let mut election = looking(0x3_0000_0020);
    election.receive(OTHER, &says(OTHER, 0x3_0000_0021, 1), &quorum(), NOW);
    let proposal = election.proposal();
    assert_eq!((proposal.leader, proposal.zxid, proposal.round), (OTHER, Zxid(0x3_0000_0021), 1));
}
