//! How `zk-operator local` starts and ends its members, with a stand-in for the server that does as the test wants.

mod local_support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use local_support::Local;

const LONG: Duration = Duration::from_secs(60);

/// One member, whose binary is a script beside the file.
const FAKE: &str = "apiVersion: zkensemble.dev/v1alpha1
kind: ZkEnsemble
metadata:
  name: fake
spec:
  replicas: 1
  image: local:fake
  rollout:
    settleSeconds: 2
";

/// Ends at once when told to, and leaves a note that it was told.
const POLITE: &str = "trap 'touch \"$0.drained\"; exit 0' TERM; while :; do sleep 0.1; done";

fn start(script: &str, base_port: u16, adjust: &dyn Fn(&mut Command)) -> Local {
    let directory = local_support::directory(FAKE);
    let path = directory.path().join("fake");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("the script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it may run");
    Local::start_in(directory, base_port, &[], adjust)
}

/// Waits until the member runs the script, beyond its first line.
fn runs(local: &mut Local) {
    local.wait_for("member 1 started", LONG);
    // The shell has set its traps once it waits in a child of its own.
    let pid = local.pid_of(1);
    let children = format!("/proc/{pid}/task/{pid}/children");
    local_support::wait(LONG, "the script to loop", || {
        std::fs::read_to_string(Path::new(&children)).is_ok_and(|list| !list.trim().is_empty())
    });
}

/// The fault: `println!` panics when nobody reads (`| head`), and the members were killed instead of drained.
#[test]
fn a_reader_that_goes_away_ends_the_printing_and_nothing_else() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut local = start(POLITE, 27100, &|command| {
        command.stdout(writer.try_clone().expect("a handle"));
    });
    drop(writer);
    local.wait_until("the first status", LONG, |local| local.status().contains("observedGeneration: 1"));
    drop(reader);
    local.edit("settleSeconds: 2", "settleSeconds: 3");
    local.wait_until("the edit to be taken", LONG, |local| local.status().contains("observedGeneration: 2"));
    local_support::signal(local.pid(), "TERM");
    local.wait_for_end(LONG);
    assert!(local.succeeded(), "{}", local.output());
    assert!(local.path("fake.drained").exists(), "the member was not asked to drain");
}

/// The fault: nothing showed that a terminal that is closed drains the members as Ctrl-C does.
#[test]
fn a_hangup_drains_like_an_interrupt() {
    let mut local = start(POLITE, 27600, &|_| {});
    runs(&mut local);
    local.stop_by(&["HUP"]);
    assert!(local.path("fake.drained").exists(), "the member was not asked to drain");
}

/// The fault: nothing showed that a second Ctrl-C ends the patience of the first.
#[test]
fn a_second_interrupt_kills_what_does_not_drain() {
    let mut local = start("trap '' TERM; while :; do sleep 0.1; done", 28100, &|_| {});
    runs(&mut local);
    local.stop_by(&["INT", "INT"]);
    let output = local.output();
    assert!(output.contains("asked again: what still drains is killed"), "{output}");
    assert!(output.contains("member 1 did not drain in time and was killed"), "{output}");
}

/// The fault: a drain that ended with an fsync error was told as one in good order.
#[test]
fn a_drain_that_fails_says_how() {
    let mut local = start("trap 'exit 6' TERM; while :; do sleep 0.1; done", 28600, &|_| {});
    runs(&mut local);
    local.stop_by(&["INT"]);
    let output = local.output();
    assert!(output.contains("member 1 stopped, not in good order: ended with exit status: 6"), "{output}");
}

/// The fault: members took settings from the environment of the operator, `forceSync=no` among them.
#[test]
fn members_do_not_inherit_settings_meant_for_another_server() {
    let script = format!("env > \"$0.env\"; {POLITE}");
    let mut local = start(&script, 29100, &|command| {
        for name in ["JVMFLAGS", "SERVER_JVMFLAGS"] {
            command.env(name, "-Dzookeeper.forceSync=no");
        }
        command.env("ZK_JAVA_PROPS", "forceSync=no").env("FOR_ALL", "stays");
    });
    runs(&mut local);
    let seen = std::fs::read_to_string(local.path("fake.env")).expect("its environment");
    assert!(seen.contains("FOR_ALL=stays"), "{seen}");
    assert!(!seen.contains("forceSync"), "{seen}");
    local.stop();
}

/// The fault: the ports that had to be free were those of the file, not of the members that would start.
#[test]
fn ports_of_members_that_do_not_start_may_be_in_use() {
    let mut local = start(POLITE, 29600, &|_| {});
    runs(&mut local);
    local.stop();
    let _taken = std::net::TcpListener::bind("127.0.0.1:29601").expect("the port of a member 2");
    local.edit("replicas: 1", "replicas: 3");
    local.again();
    local.wait_for("member 1 started", LONG);
    local.stop();
}
