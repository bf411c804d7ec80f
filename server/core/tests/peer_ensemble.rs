//! Peers talking to each other through the shortest possible world: instant links, a disk that works. What the
//! simulator does with faults, these tests do by hand where one exact effect matters.

mod mini;

use mini::World;
use zk_core::effect::{ClientMessage, HaltReason, PersistOp};
use zk_core::facts::Role;
use zk_core::input::DiskError;
use zk_jute::Zxid;

#[test]
fn three_members_elect_the_highest_id_and_serve() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    assert_eq!(world.facts(3).role, Role::Leading);
    for id in 1..=3 {
        assert!(world.facts(id).serving, "{id}: {:?}", world.facts(id));
        assert_eq!(world.facts(id).current_epoch.0, 1);
    }
}

#[test]
fn a_write_through_a_follower_reaches_every_member() {
    let mut world = World::new(3, 1);
    world.run_ms(2_000);
    let session = world.create_session(1);
    assert_eq!(world.create(1, session, 1, "/a"), 0);
    world.run_ms(100);
    let zxid = world.facts(3).zxid_applied;
    assert_eq!(zxid, Zxid::new(zk_jute::Epoch(1), 2));
    for id in 1..=4 {
        assert_eq!(world.facts(id).zxid_applied, zxid, "member {id}");
        assert!(world.tree_has(id, "/a"), "member {id}");
        assert_eq!(world.digest(id), world.digest(3));
    }
}

#[test]
fn a_follower_acknowledges_only_what_is_durable() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(3);
    world.hold_disk(1);
    world.hold_disk(2);
    assert_eq!(world.try_create(3, session, 1, "/a"), None, "no quorum has logged it");
    world.release_disk(1);
    assert_eq!(world.reply(3, 1), Some(0));
    assert!(!world.tree_has(2, "/a"), "member 2 has the COMMIT but not the log");
    world.release_disk(2);
    assert!(world.tree_has(2, "/a"));
}

#[test]
fn a_failed_accepted_epoch_ends_leadership_before_anybody_reads_it() {
    // ZOOKEEPER-4781, 1291.
    let mut world = World::new(3, 0);
    world.fail_next(
        3,
        |op| matches!(op, PersistOp::WriteAcceptedEpoch(_)),
        DiskError::NoSpace("test".into()),
    );
    world.run_ms(5_000);
    for id in 1..=3 {
        let facts = world.facts(id);
        assert!(facts.accepted_epoch >= facts.current_epoch, "member {id}: {facts:?}");
    }
    assert_eq!(world.facts(2).role, Role::Leading, "the member with the working disk leads");
}

#[test]
fn a_failed_fsync_ends_the_process() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(3);
    world.fail_next(1, |op| matches!(op, PersistOp::Append { .. }), DiskError::SyncFailed("test".into()));
    assert_eq!(world.create(3, session, 1, "/a"), 0);
    assert!(matches!(world.halted(1), Some(HaltReason::DiskFailed(_))));
}

#[test]
fn a_draining_leader_hands_over_and_halts_clean() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(1);
    assert_eq!(world.create(1, session, 1, "/a"), 0);
    world.drain(3);
    world.run_ms(3_000);
    let Some(HaltReason::Drained { zxid, resigned }) = world.halted(3) else {
        panic!("{:?}", world.halted(3))
    };
    assert!(resigned);
    assert_eq!(zxid, Zxid::new(zk_jute::Epoch(1), 2));
    assert_eq!(world.facts(2).role, Role::Leading);
    assert!(world.tree_has(1, "/a") && world.tree_has(2, "/a"));
}

#[test]
fn a_session_moves_to_another_member() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(1);
    world.reattach(2, session);
    assert_eq!(world.create(2, session, 1, "/b"), 0);
    assert_eq!(world.try_create(1, session, 2, "/c"), None, "the old connection has lost the session");
    assert!(world.messages(1).iter().any(|message| matches!(message, ClientMessage::Close)));
}

#[test]
fn a_standalone_server_commits_what_is_durable() {
    let mut world = World::standalone();
    world.run_ms(10);
    let session = world.create_session(1);
    world.hold_disk(1);
    assert_eq!(world.try_create(1, session, 1, "/a"), None);
    world.release_disk(1);
    assert_eq!(world.reply(1, 1), Some(0));
    world.drain(1);
    world.run_ms(100);
    assert!(matches!(world.halted(1), Some(HaltReason::Drained { .. })));
}

#[test]
fn a_session_that_is_not_heard_from_expires_everywhere() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(1);
    world.run_ms(40_000);
    for id in 1..=3 {
        assert!(!world.has_session(id, session), "member {id}");
    }
}

/// Fault: touches counted with the timeout that the session was created with, not with the one its client had negotiated
/// since, so that the session of a client that was told 40 s, and pinged every 13, was closed after 10.
#[test]
fn a_session_lives_by_the_timeout_it_negotiated_last() {
    for member in [1, 3] {
        let mut world = World::new(3, 0);
        world.run_ms(2_000);
        assert_eq!(world.facts(3).role, Role::Leading);
        let session = world.create_session(member);
        world.reattach_for(member, session, 40_000);
        for _ in 0..3 {
            world.run_ms(13_000);
            world.touch(member, session, 40_000);
        }
        world.run_ms(30_000);
        assert!(world.has_session(3, session), "through member {member}");
        world.run_ms(20_000);
        assert!(!world.has_session(3, session), "through member {member}: it is not heard from any more");
    }
}

/// Fault: the connection that a session had left went on reading and watching in its name at the leader.
#[test]
fn a_session_that_moves_away_from_the_leader_leaves_no_connection_behind() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(3);
    world.reattach(2, session);
    assert!(world.messages(3).iter().any(|message| matches!(message, ClientMessage::Close)));
    assert_eq!(world.create(2, session, 1, "/b"), 0);
}

/// A leader whose disk hung went on to lead: followers committed without it, its own tree stood still, and its clients
/// were never answered.
#[test]
fn a_leader_whose_disk_hangs_leaves_within_sync_limit() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(1);
    world.hold_disk(3);
    assert_eq!(world.create(1, session, 1, "/a"), 0, "the followers are a quorum");
    world.run_ms(800);
    assert_eq!(world.facts(3).role, Role::Leading, "within syncLimit it may recover");
    world.run_ms(1_500);
    assert_ne!(world.facts(3).role, Role::Leading);
    assert!(!world.facts(3).serving);
    assert_eq!(world.facts(2).role, Role::Leading, "the others have gone on");
    world.release_disk(3);
    world.run_ms(2_000);
    assert!(world.tree_has(3, "/a") && world.facts(3).serving);
}

/// An observer whose disk hung served its old tree for ever and gathered every transaction in memory.
#[test]
fn an_observer_whose_disk_hangs_stops_serving_within_sync_limit() {
    let mut world = World::new(3, 1);
    world.run_ms(2_000);
    let session = world.create_session(1);
    world.hold_disk(4);
    assert_eq!(world.create(1, session, 1, "/a"), 0);
    world.run_ms(800);
    assert!(world.facts(4).serving, "within syncLimit it may recover");
    world.run_ms(400);
    assert!(!world.facts(4).serving);
    world.release_disk(4);
    world.run_ms(2_000);
    assert!(world.tree_has(4, "/a") && world.facts(4).serving);
}

/// The leader may be dead to a follower's writes and alive to its reads: the follower itself must notice its disk.
#[test]
fn a_follower_whose_disk_hangs_stops_serving_within_sync_limit() {
    let mut world = World::new(3, 0);
    world.run_ms(2_000);
    let session = world.create_session(2);
    world.hold_disk(1);
    assert_eq!(world.create(2, session, 1, "/a"), 0);
    world.run_ms(1_200);
    assert!(!world.facts(1).serving);
    world.release_disk(1);
    world.run_ms(2_000);
    assert!(world.tree_has(1, "/a") && world.facts(1).serving);
}

/// Votes that came while a member read its disk were dropped, and a better vote does not answer a worse one of its
/// round: the two waited for the next repetition, up to a minute away.
#[test]
fn votes_that_come_while_the_disk_is_read_are_kept_for_the_election() {
    let mut world = World::new(2, 0);
    world.hold_disk(1);
    world.run_ms(6_400);
    world.release_disk(1);
    world.run_ms(1_000);
    assert_eq!(world.facts(2).role, Role::Leading);
    assert!(world.facts(1).serving && world.facts(2).serving);
}

/// A standalone server whose counter ran out began an election among no voters, which never ended.
#[test]
fn a_standalone_server_goes_on_in_the_next_epoch_when_the_counter_runs_out() {
    let mut world = World::standalone();
    world.start_at(1, Zxid::new(zk_jute::Epoch(0), u32::MAX - 0x1_0000));
    world.run_ms(10);
    let session = world.create_session(1);
    assert_eq!(world.create(1, session, 1, "/a"), 0);
    assert_eq!(world.create(1, session, 2, "/b"), 0);
    assert_eq!(world.facts(1).role, Role::Standalone);
    assert_eq!(world.facts(1).zxid_applied, Zxid::new(zk_jute::Epoch(1), 2));
}
