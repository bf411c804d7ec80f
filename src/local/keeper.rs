//! Keeps one member's process: starts it, starts it again when it ends by itself, stops it when told to.
//!
//! What the kubelet does for a pod, and no more: a process that ends is started again *at the revision it had*, with a
//! growing pause. Giving it another revision is the planner's business.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::plan::{Process, Revision, Timestamp};

/// First pause before a process that ended is started again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A run this long makes the next pause a first one again.
const LONG_RUN: Duration = Duration::from_secs(60);
/// Longest wait for a killed process to be gone, when the keeper is dropped with it.
const REAP_PATIENCE: Duration = Duration::from_secs(5);
/// Environment variables from which zk-server takes settings as upstream does. They are about some server of this
/// user's, not about this ensemble: `forceSync=no` in one would cost it its durability.
const FOREIGN_SETTINGS: [&str; 3] = ["JVMFLAGS", "SERVER_JVMFLAGS", "ZK_JAVA_PROPS"];

/// What to run.
pub(super) struct Launch {
    /// Identity of the incarnation.
    pub(super) uid: String,
    /// Revision it was made from.
    pub(super) revision: Revision,
    /// The server binary.
    pub(super) binary: PathBuf,
    /// Its configuration file.
    pub(super) zoo_cfg: PathBuf,
    /// Where its output goes.
    pub(super) log: std::fs::File,
}

/// One member's process.
pub(super) struct Keeper {
    launch: Launch,
    created_at: Timestamp,
    restarts: u32,
    pause: Duration,
    state: State,
}

enum State {
    Running {
        child: Child,
        since: Instant,
    },
    /// It ended by itself or could not be started.
    Paused {
        until: Instant,
        detail: String,
    },
    Stopping {
        child: Child,
        deadline: Instant,
        killed: bool,
    },
    Stopped,
}

/// What happened since the last look, when something did.
pub(super) enum Event {
    Started {
        pid: u32,
    },
    Ended {
        detail: String,
    },
    /// Told to stop, and gone.
    Stopped {
        /// How it ended, unless all went well.
        fault: Option<String>,
    },
    /// The drain took longer than it may, and the process was killed.
    Overrun,
}

impl Keeper {
    /// Starts a new incarnation; one that cannot be started fails like one that ended at once.
    pub(super) fn start(launch: Launch, now: Timestamp) -> (Self, Event) {
        let state = State::Stopped;
        let mut keeper = Self { launch, created_at: now, restarts: 0, pause: FIRST_PAUSE, state };
        let event = keeper.spawn();
        (keeper, event)
    }

    fn spawn(&mut self) -> Event {
        let launch = &self.launch;
        let child = launch.log.try_clone().and_then(|log| {
            let mut command = Command::new(&launch.binary);
            FOREIGN_SETTINGS.iter().for_each(|name| {
                command.env_remove(name);
            });
            command
                .arg("start")
                .arg("--config")
                .arg(&launch.zoo_cfg)
                // Dies with this process, however and however soon this process dies.
                .arg(format!("--exit-with-parent={}", std::process::id()))
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                // An interrupt typed at the terminal is for this process, which then drains its children.
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
        });
        match child {
            Ok(child) => {
                let pid = child.id().unwrap_or_default();
                self.state = State::Running { child, since: Instant::now() };
                Event::Started { pid }
            }
            Err(error) => {
                self.ended(format!("cannot run {}: {error}", launch.binary.display()), Duration::ZERO)
            }
        }
    }

    fn ended(&mut self, detail: String, ran: Duration) -> Event {
        self.restarts = self.restarts.saturating_add(1);
        self.pause = if ran >= LONG_RUN { FIRST_PAUSE } else { self.pause };
        self.state = State::Paused { until: Instant::now() + self.pause, detail: detail.clone() };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Event::Ended { detail }
    }

    /// Looks at the process and does what is due.
    pub(super) fn tick(&mut self) -> Option<Event> {
        match &mut self.state {
            State::Running { child, since } => {
                let ran = since.elapsed();
                let detail = match child.try_wait() {
                    Ok(None) => return None,
                    Ok(Some(status)) => exit_detail(status),
                    Err(error) => format!("lost: {error}"),
                };
                Some(self.ended(detail, ran))
            }
            State::Paused { until, .. } => (Instant::now() >= *until).then(|| self.spawn()),
            State::Stopping { child, deadline, killed } => {
                let fault = match child.try_wait() {
                    Ok(None) => None,
                    Ok(Some(status)) if status.success() => Some(None),
                    Ok(Some(status)) => Some(Some(exit_detail(status))),
                    Err(error) => Some(Some(format!("lost: {error}"))),
                };
                if let Some(fault) = fault {
                    self.state = State::Stopped;
                    return Some(Event::Stopped { fault });
                }
                if *killed || Instant::now() < *deadline {
                    return None;
                }
                *killed = true;
                // An error means that it is gone already, which the next look finds.
                let _ = child.start_kill();
                Some(Event::Overrun)
            }
            State::Stopped => None,
        }
    }

    /// Asks the process to drain and end, and bounds how long it may take. A process already stopping may only lose
    /// time.
    pub(super) fn stop(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.state = match std::mem::replace(&mut self.state, State::Stopped) {
            State::Running { child, .. } => {
                let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
                // An error means that it is gone already, which the next look finds.
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
                State::Stopping { child, deadline, killed: false }
            }
            State::Stopping { child, deadline: before, killed } => {
                State::Stopping { child, deadline: before.min(deadline), killed }
            }
            State::Paused { .. } | State::Stopped => State::Stopped,
        };
    }

    /// Whether it was stopped and is gone.
    pub(super) fn stopped(&self) -> bool {
        matches!(self.state, State::Stopped)
    }

    /// Whether it can be asked anything.
    pub(super) fn running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// What an observer is told of the process.
    pub(super) fn process(&self) -> Process {
        match &self.state {
            State::Running { .. } => Process::Running,
            State::Paused { detail, .. } => Process::Failed { detail: detail.clone() },
            State::Stopping { .. } | State::Stopped => Process::Terminating,
        }
    }

    /// Identity of the incarnation.
    pub(super) fn uid(&self) -> &str {
        &self.launch.uid
    }

    /// Revision it was made from.
    pub(super) fn revision(&self) -> &Revision {
        &self.launch.revision
    }

    /// When the incarnation was made.
    pub(super) fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Times the process ended by itself since then.
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }
}

impl Drop for Keeper {
    /// Ends the process and waits until it is gone: what comes next may be the removal of its directory.
    fn drop(&mut self) {
        let (State::Running { child, .. } | State::Stopping { child, .. }) = &mut self.state else { return };
        // An error means that it is gone already.
        let _ = child.start_kill();
        let deadline = Instant::now() + REAP_PATIENCE;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// An exit status in words; the numbers are zk-server's own.
fn exit_detail(status: ExitStatus) -> String {
    let meaning = match status.code() {
        Some(2) => " (the configuration is wrong)",
        Some(3) => " (the data on disk is corrupt)",
        Some(4) => " (the disk is full)",
        Some(5) => " (a port is in use)",
        Some(6) => " (the disk failed)",
        Some(70) => " (a bug: see its log)",
        Some(_) | None => "",
    };
    format!("ended with {status}{meaning}")
}
