//! Local mode: the planner's plans carried out as child processes of this machine.
//!
//! One loop and no task besides it: look at the file, look at the children, ask them, plan, act, tell. A step that
//! takes time (a drain) is a state of its child, which the next pass observes like everything else.

mod banner;
mod directory;
mod keeper;
mod machine;
mod printer;
mod source;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use self::directory::Root;
use self::machine::Machine;
use self::source::Source;
use crate::cli::LocalArgs;
use crate::crd::{LOCAL_IMAGE, ZkEnsemble};
use crate::plan::{Layout, Membership};

/// Time between two passes.
const PASS: Duration = Duration::from_millis(250);

/// Runs the ensemble `args.file` describes until a signal says to stop.
///
/// # Errors
/// A file that is not a valid ensemble, a directory or port that is in use, no server binary. Once members run, what
/// goes wrong is told on standard output and tried again; it ends nothing.
pub async fn run(args: LocalArgs) -> anyhow::Result<()> {
    let source = Source::open(&args.file)?;
    let root = Root::open(args.data_dir.as_deref())?;
    let layout = Layout::Machine { base_port: args.base_port, root: root.path().display().to_string() };
    let binary = Binary { default: args.server_binary.clone(), beside: file_directory(&args.file) };
    binary.of(source.ensemble())?;
    check_ports(source.ensemble(), &layout, args.base_port)?;

    let mut stop = Stop::new()?;
    let mut machine = Machine::new(source, root, layout, binary)?;
    let mut passes = tokio::time::interval(PASS);
    passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.asked() => break,
            _ = passes.tick() => machine.pass().await,
        }
    }
    machine.drain();
    loop {
        tokio::select! {
            biased;
            // Asked a second time: no more patience.
            () = stop.asked() => machine.kill(),
            _ = passes.tick() => if machine.stopped() { return Ok(()) },
        }
    }
}

/// The signals that end local mode.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Stop {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// Finds the zk-server an ensemble asks for.
struct Binary {
    /// What the command line names.
    default: Option<PathBuf>,
    /// What relative paths in the file are relative to.
    beside: PathBuf,
}

impl Binary {
    /// The binary `ensemble` is to run. That a named one exists is not checked: it fails as an image that cannot be
    /// pulled would, member by member, and the rollout stalls at the first.
    fn of(&self, ensemble: &ZkEnsemble) -> anyhow::Result<PathBuf> {
        let image = ensemble.spec.image.as_deref().unwrap_or_default();
        if let Some(path) = image.strip_prefix(LOCAL_IMAGE) {
            return Ok(self.beside.join(path));
        }
        if let Some(path) = &self.default {
            return Ok(path.clone());
        }
        let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("zk-server")));
        match beside {
            Some(path) if path.is_file() => Ok(path),
            _ => bail!(
                "no zk-server found beside this binary: build it (cargo build -p zk-server), name one with \
                 --server-binary, or set spec.image to local:PATH"
            ),
        }
    }
}

fn file_directory(file: &Path) -> PathBuf {
    // A bare name would be searched for in $PATH.
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// A port in use would show only as a member that keeps failing; better to say so before anything starts.
fn check_ports(ensemble: &ZkEnsemble, layout: &Layout, base_port: u16) -> anyhow::Result<()> {
    if base_port == 0 || base_port > crate::plan::MAX_BASE_PORT {
        bail!("--base-port must be from 1 to {}, is {base_port}", crate::plan::MAX_BASE_PORT);
    }
    for id in Membership::wanted(&ensemble.spec).ids() {
        let at = layout.address(ensemble.name(), id);
        let ports = [
            (at.client_port, "client"),
            (at.admin_port, "admin"),
            (at.quorum_port, "quorum"),
            (at.election_port, "election"),
        ];
        for (port, what) in ports {
            std::net::TcpListener::bind((at.host.as_str(), port)).with_context(|| {
                format!("port {port}, the {what} port of member {id}, cannot be used; choose others with --base-port")
            })?;
        }
    }
    Ok(())
}
