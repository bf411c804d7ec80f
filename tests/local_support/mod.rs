//! Runs `zk-operator local` for a test: its file, its output, its end.

// Each test binary uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod client;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The example of the quick start.
pub const THREE: &str = include_str!("../../examples/three-members.yaml");

const OPERATOR: &str = env!("CARGO_BIN_EXE_zk-operator");

pub struct Local {
    child: Child,
    directory: tempfile::TempDir,
    /// How it was started, to do it again.
    arguments: Vec<String>,
    /// Bytes of the output before the last edit; waiting looks beyond them.
    seen: usize,
}

/// The zk-server under test: `ZK_SERVER_BIN`, or the one built beside the operator.
pub fn server_binary() -> PathBuf {
    let beside = Path::new(OPERATOR).parent().expect("a directory").join("zk-server");
    let path = std::env::var_os("ZK_SERVER_BIN").map_or(beside, PathBuf::from);
    assert!(
        path.is_file(),
        "these tests need a real server and {} is none: run `cargo build -p zk-server` first, or set ZK_SERVER_BIN",
        path.display()
    );
    // Members run somewhere else.
    path.canonicalize().expect("a path")
}

/// A directory with `text` as the file that describes an ensemble.
pub fn directory(text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join(FILE), text).expect("the file is written");
    directory
}

const FILE: &str = "ensemble.yaml";

impl Local {
    /// Starts local mode on a copy of `text`. Tests run side by side: each takes a base port of its own.
    pub fn start(text: &str, base_port: u16, arguments: &[&str]) -> Self {
        Self::start_in(directory(text), base_port, arguments, &|_| {})
    }

    /// Starts local mode on the file in `directory`, which is named as a user in that directory would name it.
    pub fn start_in(
        directory: tempfile::TempDir,
        base_port: u16,
        arguments: &[&str],
        adjust: &dyn Fn(&mut Command),
    ) -> Self {
        let mut all: Vec<String> = ["local", FILE, "--base-port"].map(str::to_owned).into();
        all.extend([base_port.to_string(), "--server-binary".to_owned()]);
        all.push(server_binary().display().to_string());
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        if !arguments.contains(&"--data-dir") {
            all.extend(["--data-dir", "data"].map(str::to_owned));
        }
        let child = spawn(directory.path(), &all, adjust);
        Self { child, directory, arguments: all, seen: 0 }
    }

    /// Starts it again, as before; from here on, waiting looks at new output only.
    pub fn again(&mut self) {
        self.seen = self.output().len();
        // What the last run found is not what this one finds.
        if let Some(status) = self.status_file() {
            std::fs::remove_file(status).expect("the old status goes");
        }
        self.child = spawn(self.directory.path(), &self.arguments, &|_| {});
    }

    /// A path in the directory of the file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The operator's own pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ended without an error.
    pub fn succeeded(&mut self) -> bool {
        self.child.wait().expect("its status").success()
    }

    /// All output so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("out")).unwrap_or_default()
    }

    /// Replaces a piece of the file; from here on, waiting looks at new output only.
    pub fn edit(&mut self, from: &str, to: &str) {
        self.seen = self.output().len();
        let path = self.directory.path().join(FILE);
        let text = std::fs::read_to_string(&path).expect("the file");
        assert!(text.contains(from), "nothing to replace: {from}");
        std::fs::write(&path, text.replacen(from, to, 1)).expect("the file is written");
    }

    /// Waits for `wanted` in the output since the last edit.
    pub fn wait_for(&mut self, wanted: &str, patience: Duration) {
        let seen = self.seen;
        self.wait_until(wanted, patience, |local| local.output()[seen..].contains(wanted));
    }

    /// Waits until `done`; the operator must not end meanwhile.
    pub fn wait_until(&mut self, what: &str, patience: Duration, done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            if let Some(status) = self.child.try_wait().expect("its status") {
                panic!("zk-operator ended ({status}) while waiting for {what:?}:\n{}", self.report());
            }
            assert!(start.elapsed() < patience, "waited in vain for {what:?}:\n{}", self.report());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for the operator to end by itself and answers its output.
    pub fn wait_for_end(&mut self, patience: Duration) -> String {
        wait(patience, "zk-operator to end", || self.child.try_wait().expect("its status").is_some());
        self.output()
    }

    /// Lines since the last edit that contain `wanted`.
    pub fn lines_with(&self, wanted: &str) -> Vec<String> {
        self.output()[self.seen..].lines().filter(|line| line.contains(wanted)).map(str::to_owned).collect()
    }

    /// The pid of the member's latest process.
    pub fn pid_of(&self, id: u64) -> u32 {
        let mark = format!("member {id} started, pid ");
        let output = self.output();
        let line = output.lines().rev().find(|line| line.contains(&mark)).expect("the member was started");
        line.split(&mark).nth(1).and_then(|pid| pid.trim().parse().ok()).expect("a pid")
    }

    /// The status the operator published; empty before it did.
    pub fn status(&self) -> String {
        self.status_file().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    }

    fn status_file(&self) -> Option<PathBuf> {
        let files = std::fs::read_dir(self.path("data")).into_iter().flatten().flatten();
        files.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with(".status.yaml"))
    }

    /// Whether the status says that the member takes part.
    pub fn member_joined(&self, id: u64) -> bool {
        let status: serde_yaml::Value = serde_yaml::from_str(&self.status()).unwrap_or_default();
        let members = status["members"].as_sequence().cloned().unwrap_or_default();
        members
            .iter()
            .any(|member| member["id"].as_u64() == Some(id) && member["joined"].as_bool() == Some(true))
    }

    /// Interrupts the operator as Ctrl-C does and checks that it leaves nothing running.
    pub fn stop(&mut self) {
        self.stop_by(&["INT"]);
    }

    /// Ends the operator by these signals, the second one once the first is acted on, and checks that it leaves nothing
    /// running.
    pub fn stop_by(&mut self, signals: &[&str]) {
        let pids = self.all_pids();
        assert!(!pids.is_empty(), "no member was ever started");
        for (n, name) in signals.iter().enumerate() {
            if n > 0 {
                self.wait_for("stopping: ", Duration::from_secs(60));
            }
            signal(self.child.id(), name);
        }
        let output = self.wait_for_end(Duration::from_secs(60));
        assert!(self.succeeded(), "{output}");
        assert!(output[self.seen..].contains("stopped: no member is left running"), "{output}");
        let left: Vec<_> = pids.into_iter().filter(|pid| alive(*pid)).collect();
        assert!(left.is_empty(), "processes {left:?} are left");
    }

    /// Kills the operator without a chance to say goodbye.
    pub fn kill(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("its status");
    }

    fn all_pids(&self) -> Vec<u32> {
        let output = self.output();
        output.lines().filter_map(|line| line.split(" started, pid ").nth(1)?.trim().parse().ok()).collect()
    }

    /// Output and the ends of the members' logs, for a failure.
    fn report(&self) -> String {
        let mut text = self.output();
        let data = self.directory.path().join("data");
        for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
            if let Ok(log) = std::fs::read_to_string(entry.path().join("server.log")) {
                let tail: Vec<&str> = log.lines().rev().take(25).collect();
                text.push_str(&format!("\n--- {}\n", entry.path().display()));
                tail.iter().rev().for_each(|line| text.push_str(&format!("{line}\n")));
            }
        }
        text
    }
}

fn spawn(directory: &Path, arguments: &[String], adjust: &dyn Fn(&mut Command)) -> Child {
    let out = File::options().create(true).append(true).open(directory.join("out")).expect("the output");
    let mut command = Command::new(OPERATOR);
    command.args(arguments).current_dir(directory);
    command.stdin(Stdio::null()).stderr(out.try_clone().expect("a handle")).stdout(out);
    adjust(&mut command);
    command.spawn().expect("zk-operator starts")
}

impl Drop for Local {
    fn drop(&mut self) {
        // Only a failed test gets here with the operator alive; its members end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `done`.
pub fn wait(patience: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < patience, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Whether the process runs; a zombie does not.
pub fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// Sends a signal by name.
pub fn signal(pid: u32, name: &str) {
    let status =
        Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().expect("kill runs");
    assert!(status.success(), "kill -{name} {pid}");
}

/// Asks a four-letter word.
pub fn four_letter(port: u16, word: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(word.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
