//! Starting and stopping one real process: odd directories, signals during the start, what may hold the end up.

mod common;

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Output, Stdio};

use common::client::{Client, raw_exchange, word};
use common::process::{LIMIT, Member, eventually, free_port, server};
use rustix::fs::{FlockOperation, flock};
use zk_jute::OpCode;
use zk_jute::request::Request;

fn member(extra: &str) -> (tempfile::TempDir, Member) {
    let dir = tempfile::tempdir().expect("directory");
    let member = Member::new(dir.path(), extra);
    (dir, member)
}

fn drain(member: &Member) -> Output {
    server(&["drain", "--config", member.config.to_str().expect("path")]).output().expect("drain")
}

/// True if no process has the directory; leaves it unlocked.
fn is_free(dir: &Path) -> bool {
    let dir = File::open(dir).expect("open");
    flock(&dir, FlockOperation::NonBlockingLockShared).is_ok()
}

/// A member of an ensemble whose election port is taken, so that its start waits without end.
fn member_without_election_port() -> (tempfile::TempDir, Member, TcpListener) {
    let taken = TcpListener::bind("127.0.0.1:0").expect("listener");
    let port = taken.local_addr().expect("address").port();
    let (dir, member) = member(&format!(
        "initLimit=10\nsyncLimit=5\nelectionPortBindRetry=0\nserver.1=127.0.0.1:{}:{port}\nserver.2=127.0.0.1:{}:{}",
        free_port(),
        free_port(),
        free_port()
    ));
    std::fs::write(member.data().join("myid"), "1").expect("myid");
    (dir, member, taken)
}

/// Fault: the control socket's path did not fit into a socket address, and the start was refused.
#[test]
fn a_data_directory_with_a_long_path_serves_and_drains() {
    let dir = tempfile::tempdir().expect("directory");
    let mut member = Member::new(&dir.path().join("d".repeat(100)).join("e".repeat(100)), "");
    let mut client = member.start();
    client.create("/a", b"").expect("create");
    assert!(member.data().join("zk-server.sock").exists(), "the socket is where it always is");
    let output = drain(&member);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(member.wait().code(), Some(0));
    assert!(!member.data().join("zk-server.sock").exists());
}

/// Fault: a `dataLogDir` that is `dataDir` by another name was locked twice, and the start was refused.
#[test]
fn a_log_directory_that_is_the_data_directory_by_another_name_is_the_same_directory() {
    let dir = tempfile::tempdir().expect("directory");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path().join("data"), &link).expect("link");
    let mut member = Member::new(dir.path(), &format!("dataLogDir={}", link.display()));
    let mut client = member.start();
    client.create("/a", b"").expect("create");
    assert_eq!(member.terminate(), Some(0), "{}", member.log());
    // Snapshots and logs lie in one directory now, which is refused of two.
    assert_eq!(member.start().children("/").expect("children"), ["a", "zookeeper"]);
}

/// Fault: signals had no handler until all ports were open, so that SIGTERM killed a start that waited for one.
#[test]
fn a_start_that_waits_for_a_port_is_ended_by_sigterm_in_good_order() {
    let (_dir, mut member, _taken) = member_without_election_port();
    member.spawn(&[]);
    eventually("the start waits", || member.log().contains("cannot listen on"));
    assert_eq!(member.terminate(), Some(0), "{}", member.log());
    assert!(!member.data().join("zk-server.sock").exists() && is_free(&member.data()));
}

/// Fault: as above, and a start that reads from a file system that hangs must hear the signal too.
#[test]
fn a_start_that_waits_for_a_file_is_ended_by_sigterm_in_good_order() {
    let (_dir, mut member) = member("");
    std::fs::remove_file(&member.config).expect("remove");
    let made = std::process::Command::new("mkfifo").arg(&member.config).status().expect("mkfifo");
    assert!(made.success());
    member.spawn(&[]);
    // Opening it for writing without waiting succeeds once the server has it open for reading.
    let mut unwritten = None;
    eventually("the start waits", || {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        unwritten = rustix::fs::open(&member.config, flags, rustix::fs::Mode::empty()).ok();
        unwritten.is_some()
    });
    assert_eq!(member.terminate(), Some(0), "{}", member.log());
}

/// Fault: the parent was first looked at when all ports were open, so that one that had ended by then was never missed.
#[test]
fn a_start_that_waits_for_a_port_is_given_up_when_the_parent_ends() {
    let (_dir, member, _taken) = member_without_election_port();
    let binary = env!("CARGO_BIN_EXE_zk-server");
    let script = format!("{binary} start --exit-with-parent --config {} & sleep 60", member.config.display());
    let mut shell =
        std::process::Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).spawn().expect("sh");
    eventually("the start has begun", || !is_free(&member.data()));
    shell.kill().expect("kill");
    shell.wait().expect("wait");
    eventually("the server ends", || is_free(&member.data()));
}

/// Fault: an admin address that does not resolve was waited for without end, and the member with it.
#[test]
fn a_member_whose_admin_address_does_not_resolve_serves_without() {
    let (_dir, mut member) = member("admin.serverAddress=no-such-host.invalid");
    let mut client = member.start();
    client.create("/a", b"").expect("create");
    eventually("it says so", || member.log().contains("this server runs without"));
    assert_eq!(member.terminate(), Some(0));
}

/// Fault: `drain` returned as soon as it had the report, while the process could go on for seconds.
#[test]
fn drain_returns_when_the_process_is_gone() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/big", &vec![b'x'; 500_000]).expect("create");
    // A client that does not read what it asked for keeps the process for a while.
    for _ in 0..100 {
        client.send(OpCode::GetData, &Request::GetData { path: "/big".into(), watch: false }).expect("send");
    }
    eventually("its answers wait", || word(member.client_port, "cons").contains("lop=GETD"));
    let output = drain(&member);
    assert!(is_free(&member.data()), "the process still has the directory");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(member.wait().code(), Some(0));
}

/// Fault: the end waited for every open connection, also for those without a session, which nobody closed, and for
/// control connections that had asked for nothing.
#[test]
fn connections_that_are_owed_nothing_do_not_hold_the_end_up() {
    let (_dir, mut member) = member("");
    let client = member.start();
    let mut idle = TcpStream::connect(("127.0.0.1", member.client_port)).expect("connect");
    let mut control = UnixStream::connect(member.data().join("zk-server.sock")).expect("connect");
    eventually("both are open", || word(member.client_port, "srvr").contains("Connections: 3"));
    assert_eq!(member.terminate(), Some(0));
    assert!(!member.log().contains("did not close in time"), "{}", member.log());
    assert!(matches!(idle.read(&mut [0; 1]), Ok(0) | Err(_)), "closed");
    assert!(matches!(control.read(&mut [0; 1]), Ok(0) | Err(_)), "closed");
    drop(client);
}

/// Fault: `clientTcpKeepAlive` was read and had no effect.
#[test]
#[cfg(target_os = "linux")]
fn client_sockets_have_keep_alive_as_configured() {
    for (extra, timer) in [("clientTcpKeepAlive=true", "02"), ("", "00")] {
        let (_dir, mut member) = member(extra);
        let _client: Client = member.start();
        let port = format!(":{:04X}", member.client_port);
        let table = std::fs::read_to_string("/proc/net/tcp").expect("sockets");
        // Columns: number, local, remote, state, queues, timer and its time.
        let ours = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let timers: Vec<_> = ours
            .filter(|fields| fields.len() > 5 && fields[1].ends_with(&port) && fields[3] == "01")
            .map(|fields| fields[5][..2].to_owned())
            .collect();
        assert_eq!(timers, [timer], "{extra:?}");
    }
}

/// Fault: when nobody read standard error any more, the next log line was a panic and ended the server.
#[test]
fn a_server_whose_log_nobody_reads_goes_on() {
    let (_dir, member) = member("");
    let mut child = server(&["start", "--config", member.config.to_str().expect("path")])
        .stderr(Stdio::piped())
        .spawn()
        .expect("zk-server");
    let mut client = member.client();
    drop(child.stderr.take());
    // Each of these is worth a line.
    for _ in 0..3 {
        raw_exchange(member.client_port, &[0xff; 4]).expect("closed");
    }
    client.create("/a", b"").expect("create");
    let output = drain(&member);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(child.wait().expect("wait").code(), Some(0));
}

/// Set in the process that [`a_panic_in_any_thread_ends_the_process_with_70`] starts.
const PANIC_WHERE: &str = "ZK_TEST_PANIC_WHERE";

/// The rule that a thread never dies alone; in a process of its own, which is this test again.
#[test]
fn a_panic_in_any_thread_ends_the_process_with_70() {
    if let Ok(place) = std::env::var(PANIC_WHERE) {
        return panic_and_wait(&place);
    }
    for place in ["thread", "task", "blocking"] {
        let output = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "a_panic_in_any_thread_ends_the_process_with_70", "--nocapture"])
            .env(PANIC_WHERE, place)
            .output()
            .expect("run");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{place}: {text}");
        assert!(text.contains("PANIC in thread") && text.contains("on purpose"), "{place}: {text}");
    }
}

fn panic_and_wait(place: &str) {
    zk_server::log::exit_on_panic();
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    match place {
        "thread" => drop(std::thread::spawn(|| panic!("on purpose"))),
        "task" => drop(runtime.spawn(async { panic!("on purpose") })),
        _ => drop(runtime.spawn_blocking(|| panic!("on purpose"))),
    }
    // The process ends under this thread, or the test fails.
    std::thread::sleep(LIMIT);
}

/// Fault: a parent that had ended before the new process looked for it was never missed, and the server ran on alone.
#[test]
fn a_server_whose_named_parent_is_gone_already_does_not_start() {
    let (_dir, mut member) = member("");
    member.spawn(&["--exit-with-parent=1"]);
    assert_eq!(member.wait().code(), Some(0), "{}", member.log());
    assert!(member.log().contains("the parent process is gone"), "{}", member.log());
}
