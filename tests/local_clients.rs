//! `zk-operator local` while clients go on: a rollout costs them reconnects, and no write that was acknowledged.

mod local_support;

use std::path::Path;
use std::time::Duration;

use local_support::client::{Writer, check_history};
use local_support::{Local, THREE};

/// Time an ensemble gets to form, and a whole rollout to finish, on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// The fault: no test had clients writing while members are restarted, nor changed the binary to one that works.
#[test]
fn clients_write_on_while_members_take_another_binary_and_no_acknowledged_write_is_lost() {
    let ports = [26100, 26101, 26102];
    let mut local = Local::start(THREE, ports[0], &[]);
    local.wait_for("ready:", LONG);
    let writer = Writer::start(ports.into());
    local_support::wait(LONG, "the first writes", || writer.count() > 10);

    let another = local.path("another-zk-server");
    std::fs::copy(local_support::server_binary(), &another).expect("a copy of the server");
    let before = writer.count();
    local.edit("spec:\n", "spec:\n  image: local:another-zk-server\n");
    local.wait_for("edit accepted", LONG);
    local.wait_for("complete: every member runs revision", LONG);
    let after = writer.count();
    assert!(after > before, "no write got through during the rollout: {before}, {after}");

    let restarts = local.lines_with("restart member ");
    assert_eq!(restarts.len(), 3, "{restarts:#?}");
    assert!(restarts[2].contains("the leader, last"), "{restarts:#?}");
    let another = another.canonicalize().expect("the copy");
    for id in 1..=3 {
        let runs = std::fs::read_link(Path::new("/proc").join(local.pid_of(id).to_string()).join("exe"));
        assert_eq!(runs.expect("its binary"), another, "member {id}");
    }

    local_support::wait(LONG, "writes after the rollout", || writer.count() > after + 10);
    let written = writer.stop();
    for port in ports {
        check_history(port, &written);
    }
    local.stop();
}
