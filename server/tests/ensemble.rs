//! Three real members: election, replication, losing one, stopping in order.

mod common;

use std::time::{Duration, Instant};

use common::client::{Client, admin};
use common::ensemble::{Ensemble, is_synced};
use common::process::{LIMIT, eventually, server};

/// Writes through whichever member answers, until `count` writes are acknowledged; the paths that were.
fn write_through(ensemble: &Ensemble, members: &[usize], prefix: &str, count: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let began = Instant::now();
    let mut attempt = 0;
    while acknowledged.len() < count {
        assert!(began.elapsed() < LIMIT, "only {} of {count} writes", acknowledged.len());
        let member = &ensemble.members[members[attempt % members.len()]];
        let Ok(mut client) = Client::connect(member.client_port) else {
            attempt += 1;
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        while acknowledged.len() < count {
            let path = format!("/{prefix}-{attempt}");
            attempt += 1;
            match client.create(&path, b"v") {
                Ok(()) => acknowledged.push(path),
                Err(_) => break,
            }
        }
    }
    acknowledged
}

/// Every acknowledged path is at `member`, once it has caught up.
fn assert_has(ensemble: &Ensemble, member: usize, paths: &[String]) {
    let mut client = ensemble.members[member].client();
    client.sync("/").expect("sync");
    let children = client.children("/").expect("children");
    for path in paths {
        assert!(
            children.contains(&path[1..].to_owned()),
            "{path} was acknowledged and is not at member {}",
            member + 1
        );
    }
}

fn digests_agree(ensemble: &Ensemble) -> bool {
    let facts: Vec<_> = ensemble.members.iter().filter_map(common::process::Member::facts).collect();
    let last = |facts: &serde_json::Value| facts["digests"].as_array().and_then(|all| all.last().cloned());
    facts.len() == ensemble.members.len() && facts.windows(2).all(|pair| last(&pair[0]) == last(&pair[1]))
}

#[test]
fn three_members_elect_replicate_and_agree() {
    let dir = tempfile::tempdir().expect("directory");
    let mut ensemble = Ensemble::below(dir.path(), 3);
    ensemble.start();
    let leader = ensemble.leader();
    let all = [0, 1, 2];
    let paths = write_through(&ensemble, &all, "w", 60);
    all.iter().for_each(|member| assert_has(&ensemble, *member, &paths));
    eventually("the digests agree", || digests_agree(&ensemble));
    let facts = ensemble.members[leader].facts().expect("facts");
    assert_eq!(facts["synced_voters"].as_array().map(Vec::len), Some(3), "{facts:#}");
    for member in &ensemble.members {
        let facts = member.facts().expect("facts");
        assert_eq!(facts["leader_id"].as_u64(), Some(leader as u64 + 1));
        assert_eq!(facts["accepted_epoch"], facts["accepted_epoch_disk"]);
        assert_eq!(facts["current_epoch"], facts["current_epoch_disk"]);
    }
    let state = admin(ensemble.members[leader].admin_port, "/commands/zabstate").expect("zabstate");
    assert_eq!((state["zabstate"].as_str(), state["is_leader"].as_bool()), (Some("broadcast"), Some(true)));
}

#[test]
fn a_killed_leader_costs_no_acknowledged_write_and_comes_back() {
    let dir = tempfile::tempdir().expect("directory");
    let mut ensemble = Ensemble::below(dir.path(), 3);
    ensemble.start();
    let mut acknowledged = Vec::new();
    for round in 0..2 {
        let leader = ensemble.leader();
        acknowledged.extend(write_through(&ensemble, &[0, 1, 2], &format!("before{round}"), 20));
        ensemble.members[leader].kill();
        let others = ensemble.others(leader);
        acknowledged.extend(write_through(&ensemble, &others, &format!("after{round}"), 20));
        others.iter().for_each(|member| assert_has(&ensemble, *member, &acknowledged));
        ensemble.members[leader].spawn(&[]);
        eventually("the killed member takes part again", || is_synced(&ensemble.members[leader]));
        assert_has(&ensemble, leader, &acknowledged);
    }
    eventually("the digests agree", || digests_agree(&ensemble));
}

#[test]
fn a_session_moves_to_another_member_with_its_ephemerals() {
    let dir = tempfile::tempdir().expect("directory");
    let mut ensemble = Ensemble::below(dir.path(), 3);
    ensemble.start();
    let leader = ensemble.leader();
    let others = ensemble.others(leader);
    let mut client = ensemble.members[others[0]].client();
    client.create_ephemeral("/mine").expect("create");
    let (session, password) = (client.session, client.password.clone());
    ensemble.members[others[0]].kill();
    let mut client = None;
    eventually("the session is resumed", || {
        client = Client::resume(ensemble.members[others[1]].client_port, session, password.clone(), 0).ok();
        client.is_some()
    });
    let mut client = client.expect("resumed");
    assert!(client.children("/").expect("children").contains(&"mine".to_owned()));
    client.close().expect("close");
    let mut reader = ensemble.members[leader].client();
    assert!(!reader.children("/").expect("children").contains(&"mine".to_owned()));
}

#[test]
fn a_drained_leader_resigns_and_the_others_go_on_at_once() {
    let dir = tempfile::tempdir().expect("directory");
    let mut ensemble = Ensemble::below(dir.path(), 3);
    ensemble.start();
    let leader = ensemble.leader();
    let others = ensemble.others(leader);
    let before = write_through(&ensemble, &others, "before", 10);
    let config = ensemble.members[leader].config.clone();
    let drain = server(&["drain", "--config", config.to_str().expect("path")]).output().expect("drain");
    let report: serde_json::Value = serde_json::from_slice(&drain.stdout).expect("JSON");
    assert_eq!(
        (report["drained"].as_bool(), report["resigned"].as_bool()),
        (Some(true), Some(true)),
        "{report}"
    );
    assert_eq!(ensemble.members[leader].wait().code(), Some(0));
    let began = Instant::now();
    let after = write_through(&ensemble, &others, "after", 10);
    println!("failover after a resignation took {:?}", began.elapsed());
    for member in others {
        assert_has(&ensemble, member, &before);
        assert_has(&ensemble, member, &after);
    }
    ensemble.members[leader].spawn(&[]);
    eventually("it takes part again", || is_synced(&ensemble.members[leader]));
}

#[test]
fn a_wiped_member_is_given_everything_by_the_leader() {
    let dir = tempfile::tempdir().expect("directory");
    let mut ensemble = Ensemble::below(dir.path(), 3);
    ensemble.start();
    let leader = ensemble.leader();
    let paths = write_through(&ensemble, &[0, 1, 2], "w", 40);
    let wiped = ensemble.others(leader)[0];
    assert_eq!(ensemble.members[wiped].terminate(), Some(0));
    std::fs::remove_dir_all(ensemble.members[wiped].data().join("version-2")).expect("wipe");
    let more = write_through(&ensemble, &[leader], "m", 600);
    ensemble.members[wiped].spawn(&[]);
    eventually("the wiped member takes part", || is_synced(&ensemble.members[wiped]));
    assert_has(&ensemble, wiped, &paths);
    assert_has(&ensemble, wiped, &more);
    eventually("the digests agree", || digests_agree(&ensemble));
}

#[test]
fn two_members_without_the_third_serve_and_one_alone_does_not() {
    let dir = tempfile::tempdir().expect("directory");
    let mut ensemble = Ensemble::below(dir.path(), 3);
    ensemble.members[0].spawn(&[]);
    ensemble.members[1].spawn(&[]);
    write_through(&ensemble, &[0, 1], "w", 10);
    let leader = ensemble.leader();
    let other = if leader == 0 { 1 } else { 0 };
    ensemble.members[leader].kill();
    eventually("the last one stops serving", || ensemble.members[other].role() == "looking");
    assert!(Client::connect(ensemble.members[other].client_port).is_err(), "no quorum, no session");
    assert!(ensemble.members[other].is_running());
}
