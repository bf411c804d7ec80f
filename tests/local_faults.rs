//! `zk-operator local` when something about its directory or its ports is not as it was left.

mod local_support;

use std::time::Duration;

use local_support::client::Client;
use local_support::{Local, THREE};

const LONG: Duration = Duration::from_secs(120);

/// The fault: the first member that could not be started kept the others from starting, and its step and error were
/// printed four times a second.
#[test]
fn a_member_that_cannot_be_started_keeps_no_other_from_starting() {
    let mut local = Local::start(THREE, 30100, &[]);
    local.wait_for("ready:", LONG);
    local.stop();
    // The file that a new zoo.cfg is written to first.
    let obstacle = local.path("data/three-members-1/zoo.new");
    std::fs::create_dir(&obstacle).expect("an obstacle");
    local.again();
    local.wait_until("the others to serve", LONG, |local| [2, 3].iter().all(|id| local.member_joined(*id)));
    let steps = local.lines_with("start member 1");
    assert_eq!(steps.len(), 1, "told once: {steps:#?}");
    let errors = local.lines_with("error: member 1: cannot write");
    assert_eq!(errors.len(), 1, "told once: {errors:#?}");
    std::fs::remove_dir(&obstacle).expect("the obstacle goes");
    local.wait_until("member 1 to be back", LONG, |local| local.member_joined(1));
    local.stop();
}

/// The fault: with the record lost (or data brought from elsewhere to one member), the two members without data were
/// told to start from nothing, and could take the history from the one that had it.
#[test]
fn data_that_only_one_member_has_is_kept_and_spread_before_any_member_starts() {
    let mut local = Local::start(THREE, 30600, &[]);
    local.wait_for("ready:", LONG);
    Client::connect(30600).expect("a member serves").must_create("/kept", "as it was");
    local.stop();
    std::fs::remove_file(local.path("data/three-members.membership.yaml")).expect("the record is lost");
    let history = |local: &Local, id: u64| local.path(&format!("data/three-members-{id}/data/version-2"));
    for id in [2, 3] {
        std::fs::remove_dir_all(history(&local, id)).expect("and so is the data");
    }
    local.again();
    local.wait_for("there is data in three-members-1, and 2 of 3 voters must have it", LONG);
    assert!(local.lines_with(" started, pid ").is_empty(), "nobody runs before that");
    // In place at once: half a copy counts as data, too.
    let beside = local.path("data/three-members-2/data/copy");
    std::fs::create_dir(&beside).expect("a directory");
    for entry in std::fs::read_dir(history(&local, 1)).expect("the data").flatten() {
        std::fs::copy(entry.path(), beside.join(entry.file_name())).expect("a copy");
    }
    std::fs::rename(&beside, history(&local, 2)).expect("the copy is in place");
    local.wait_for("data found in three-members-1, three-members-2", LONG);
    local.wait_for("ready:", LONG);
    let mut client = Client::connect(30602).expect("member 3 serves");
    client.sync();
    assert_eq!(client.get("/kept").0, "as it was");
    local.stop();
}

/// The fault: after a kill of the operator, a quick restart met the ports of members that still drained, and told the
/// user to choose others.
#[test]
fn members_that_still_drain_are_waited_for() {
    let mut local = Local::start(THREE, 31100, &[]);
    local.wait_for("ready:", LONG);
    let slow = local.pid_of(2);
    local_support::signal(slow, "STOP");
    local.kill();
    local.again();
    local.wait_for("members that an operator left behind may still drain", LONG);
    local_support::signal(slow, "CONT");
    local.wait_for("ready:", LONG);
    local.stop();
}
