//! What asks this process to stop: SIGTERM, SIGINT, and the end of the parent where that was asked for.

use std::fmt;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, getppid};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

/// How often the parent is looked for.
const PARENT_POLL: Duration = Duration::from_secs(1);

/// Why the process is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Terminate,
    Interrupt,
    ParentGone,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM received",
            Self::Interrupt => "SIGINT received",
            Self::ParentGone => "the parent process is gone",
        })
    }
}

/// The process that must stay for this one to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parent(Option<Pid>);

impl Parent {
    /// The parent of number `named`, or the present one. A parent that ended before this process could look is missed only
    /// if it is named.
    pub(super) fn of(named: Option<i32>) -> Self {
        Self(named.map_or_else(getppid, Pid::from_raw))
    }

    async fn gone(self) {
        while getppid() == self.0 {
            sleep(PARENT_POLL).await;
        }
    }
}

/// Where requests to stop arrive.
#[derive(Debug)]
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// Missed once at most.
    parent: Option<Parent>,
}

impl Stop {
    /// Takes the signals over. From now on they end nothing by themselves.
    pub(super) fn install(parent: Option<Parent>) -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
        let interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
        Ok(Self { terminate, interrupt, parent })
    }

    /// Waits for the next request. Nothing is lost if the wait is given up.
    pub(super) async fn asked(&mut self) -> Cause {
        let parent = self.parent;
        let orphaned = async {
            match parent {
                Some(parent) => parent.gone().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Cause::Terminate,
            _ = self.interrupt.recv() => Cause::Interrupt,
            () = orphaned => {
                self.parent = None;
                Cause::ParentGone
            }
        }
    }
}
