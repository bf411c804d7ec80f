//! `zk-operator local` with real servers: it serves, it rolls edits out with the leader last, it survives crashes and
//! bad templates, and it leaves nothing running.

mod local_support;

use std::time::Duration;

use local_support::{Local, THREE, four_letter};

/// Time an ensemble gets to form, and a whole rollout to finish, on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn the_quick_start_serves_and_an_edit_restarts_members_one_by_one_with_the_leader_last() {
    let mut local = Local::start(THREE, 22100, &[]);
    local.wait_for("ready: three-members serves with 3 members", LONG);
    for port in [22100, 22101, 22102] {
        assert_eq!(four_letter(port, "ruok").as_deref(), Some("imok"), "member on port {port}");
    }
    local.edit("snapCount: \"100000\"", "snapCount: \"50000\"");
    local.wait_for("edit accepted", LONG);
    local.wait_for("complete: every member runs revision", LONG);
    let restarts = local.lines_with("restart member ");
    assert_eq!(restarts.len(), 3, "{restarts:#?}");
    assert!(restarts[..2].iter().all(|line| line.contains("a follower")), "{restarts:#?}");
    assert!(restarts[2].contains("the leader, last"), "{restarts:#?}");
    local.stop();
}

#[test]
fn observers_serve_and_a_supervised_rollout_waits_before_the_leader() {
    let text = include_str!("../examples/with-observers.yaml");
    let mut local = Local::start(text, 22600, &[]);
    local.wait_for("ready: with-observers serves with 5 members", LONG);
    assert!(four_letter(22610, "srvr").expect("an answer").contains("Mode: observer"));
    local.edit("snapRetainCount: \"5\"", "snapRetainCount: \"4\"");
    local.wait_for("awaitingapproval: the leader", LONG);
    let restarts = local.lines_with("restart member ");
    assert_eq!(restarts.len(), 4, "{restarts:#?}");
    assert!(restarts[..2].iter().all(|line| line.contains("an observer")), "{restarts:#?}");
    local.stop();
}

#[test]
fn a_member_that_crashes_is_started_again_with_its_data() {
    let mut local = Local::start(THREE, 23100, &[]);
    local.wait_for("ready:", LONG);
    let pid = local.pid_of(2);
    local_support::signal(pid, "KILL");
    local.wait_for("member 2 ended with signal: 9", LONG);
    local.wait_for("member 2 started", LONG);
    local.wait_until("member 2 to be back", LONG, |local| local.member_joined(2));
    assert!(local.lines_with("restart member ").is_empty(), "a crash is no rollout");
    local.stop();
}

#[test]
fn a_server_that_does_not_start_stalls_at_the_first_member_and_going_back_heals() {
    let mut local = Local::start(THREE, 23600, &[]);
    local.wait_for("ready:", LONG);
    local.edit("spec:\n", "spec:\n  image: local:no/such/zk-server\n");
    local.wait_for("stalled: member ", LONG);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(local.lines_with("restart member ").len(), 1, "no second member gets a template that failed");
    assert!(local.status().contains("type: Available"), "the status tells");
    local.edit("  image: local:no/such/zk-server\n", "");
    local.wait_for("complete: every member runs revision", LONG);
    assert_eq!(local.lines_with("restart member ").len(), 1, "only the failed one is touched again");
    local.stop();
}

#[test]
fn a_refused_edit_changes_nothing_and_says_what_is_wrong() {
    let mut local = Local::start(THREE, 24100, &[]);
    local.wait_for("ready:", LONG);
    local.edit("replicas: 3", "replicas: 4");
    local.wait_for("edit refused", LONG);
    local.wait_for("spec.replicas: must be odd", LONG);
    std::thread::sleep(Duration::from_secs(2));
    assert!(local.lines_with("restart member ").is_empty());
    local.stop();
}

#[test]
fn data_outlives_the_operator_when_a_directory_is_named() {
    let kept = tempfile::tempdir().expect("a directory");
    let data = kept.path().to_str().expect("a path").to_owned();
    let mut local = Local::start(THREE, 24600, &["--data-dir", &data]);
    local.wait_for("ready:", LONG);
    local.stop();
    let mut again = Local::start(THREE, 24600, &["--data-dir", &data]);
    again.wait_for("ready:", LONG);
    assert!(again.lines_with("bootstrap").is_empty(), "an ensemble is bootstrapped once in its life");
    again.stop();
}

#[test]
fn members_die_with_an_operator_that_is_killed() {
    let mut local = Local::start(THREE, 25100, &[]);
    local.wait_for("ready:", LONG);
    let pids: Vec<u32> = [1, 2, 3].map(|id| local.pid_of(id)).into();
    local.kill();
    local_support::wait(LONG, "the members to end", || pids.iter().all(|pid| !local_support::alive(*pid)));
}

#[test]
fn a_port_in_use_is_named_before_anything_starts() {
    let taken = std::net::TcpListener::bind("127.0.0.1:25702").expect("the port");
    let mut local = Local::start(THREE, 25600, &[]);
    let text = local.wait_for_end(Duration::from_secs(20));
    assert!(text.contains("port 25702, the admin port of member 3, cannot be used"), "{text}");
    drop(taken);
}
