//! Server processes in directories of their own, on ports of their own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::{Client, admin};

/// How long a process may take to start or to stop.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Ports of one test process: more than any of them has members.
const BLOCK: u16 = 200;
/// Blocks, from 10,000 up to where the system takes ports for outgoing connections from.
const BLOCKS: u16 = 100;

static NEXT_PORT: AtomicU16 = AtomicU16::new(0);
/// The block of this process, and what holds it: a socket at its first port, for as long as the process lives. So no other
/// process takes a port of this one between the look at it and the server's own bind.
static OWN_BLOCK: LazyLock<(u16, TcpListener)> = LazyLock::new(|| {
    let first = u16::try_from(std::process::id() % u32::from(BLOCKS)).expect("small");
    let candidates = (0..BLOCKS).map(|step| 10_000 + (first + step) % BLOCKS * BLOCK);
    let mut held = candidates.filter_map(|base| Some((base, TcpListener::bind(("127.0.0.1", base)).ok()?)));
    held.next().expect("a block of ports that no other process holds")
});

/// A port that nobody listens on, below the range from which the system takes ports for outgoing connections.
pub fn free_port() -> u16 {
    loop {
        let port = OWN_BLOCK.0 + 1 + NEXT_PORT.fetch_add(1, Ordering::Relaxed) % (BLOCK - 1);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// One member: a directory, its ports, and at most one process.
pub struct Member {
    pub dir: PathBuf,
    pub config: PathBuf,
    pub client_port: u16,
    pub admin_port: u16,
    child: Option<Child>,
    log: Arc<Mutex<String>>,
    /// Reads the process's log; ends with it.
    reader: Option<JoinHandle<()>>,
}

impl Member {
    /// A member whose files are below `dir`; `extra` is added to its configuration.
    pub fn new(dir: &Path, extra: &str) -> Self {
        let (client_port, admin_port) = (free_port(), free_port());
        fs::create_dir_all(dir.join("data")).expect("data directory");
        let config = dir.join("zoo.cfg");
        let text = format!(
            "tickTime=500\ndataDir={}\nclientPort={client_port}\nclientPortAddress=127.0.0.1\n\
             admin.serverPort={admin_port}\nadmin.serverAddress=127.0.0.1\n4lw.commands.whitelist=*\npreAllocSize=64\n{extra}\n",
            dir.join("data").display()
        );
        fs::write(&config, text).expect("configuration");
        Self {
            dir: dir.to_owned(),
            config,
            client_port,
            admin_port,
            child: None,
            log: Arc::default(),
            reader: None,
        }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts the process without waiting for it to serve.
    pub fn spawn(&mut self, arguments: &[&str]) {
        assert!(self.child.is_none(), "one process at a time");
        let mut child = server(&["start", "--config", self.config.to_str().expect("path")])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("zk-server");
        let (stderr, log) = (child.stderr.take().expect("stderr"), self.log.clone());
        self.reader = Some(std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = log.lock().expect("log");
                log.push_str(&line);
                log.push('\n');
            }
        }));
        self.child = Some(child);
    }

    /// Starts the process and waits until it serves.
    pub fn start(&mut self) -> Client {
        self.spawn(&[]);
        self.client()
    }

    /// A session, once the member serves.
    pub fn client(&self) -> Client {
        Client::connect_within(self.client_port, LIMIT)
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("log").clone()
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().expect("running").id()).expect("pid")
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("pid");
        rustix::process::kill_process(pid, signal).expect("signal");
    }

    /// SIGTERM, and the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        self.wait().code()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.wait();
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("running");
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("wait") {
                // The log is a moment behind the process.
                if let Some(reader) = self.reader.take() {
                    reader.join().expect("the log's reader");
                }
                return status;
            }
            if began.elapsed() > LIMIT {
                child.kill().expect("kill");
                panic!("the process did not end in {LIMIT:?}:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("wait").is_none())
    }

    /// `/commands/member`, or `None` while nobody answers.
    pub fn facts(&self) -> Option<serde_json::Value> {
        admin(self.admin_port, "/commands/member").ok()
    }

    /// Role as the member tells it.
    pub fn role(&self) -> String {
        self.facts().and_then(|facts| facts["role"].as_str().map(str::to_owned)).unwrap_or_default()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}", self.dir.display(), self.log());
        }
    }
}

/// The server's command line.
pub fn server(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-server"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("JVMFLAGS");
    command
}

/// Waits until `check` says yes.
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
