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
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;

use self::directory::Root;
use self::machine::{LAST_PATIENCE, Machine};
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
    let binary = Binary { default: args.server_binary.clone(), beside: file_directory(&args.file)? };
    binary.of(source.ensemble())?;
    if args.base_port == 0 || args.base_port > crate::plan::MAX_BASE_PORT {
        bail!("--base-port must be from 1 to {}, is {}", crate::plan::MAX_BASE_PORT, args.base_port);
    }
    wait_for_ports(source.ensemble(), &root, &layout).await?;

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

/// The directory `file` is in, absolute: a bare program name would be looked for in `$PATH`.
fn file_directory(file: &Path) -> anyhow::Result<PathBuf> {
    let file = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
    Ok(file.parent().map_or_else(PathBuf::new, Path::to_path_buf))
}

/// A port in use would show only as a member that keeps failing; better to say so before anything starts.
///
/// An ensemble that ran before may still be ending: the members of an operator that was killed drain by themselves.
/// They are waited for as long as an operator that ends would wait for them.
async fn wait_for_ports(ensemble: &ZkEnsemble, root: &Root, layout: &Layout) -> anyhow::Result<()> {
    let recorded = root.membership(ensemble.name())?;
    let ran_before = recorded.is_some();
    let membership = recorded.unwrap_or_else(|| Membership::wanted(&ensemble.spec));
    let start = Instant::now();
    let mut told = false;
    loop {
        let error = match check_ports(ensemble.name(), &membership, layout) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if !ran_before || start.elapsed() >= LAST_PATIENCE + PASS {
            return Err(error.context("a port cannot be used; choose others with --base-port"));
        }
        if !std::mem::replace(&mut told, true) {
            printer::print(&format!(
                "{error:#}: members that an operator left behind may still drain; waiting up to {} s\n",
                LAST_PATIENCE.as_secs()
            ));
        }
        tokio::time::sleep(PASS).await;
    }
}

fn check_ports(name: &str, membership: &Membership, layout: &Layout) -> anyhow::Result<()> {
    for id in membership.ids() {
        let at = layout.address(name, id);
        let ports = [
            (at.client_port, "client"),
            (at.admin_port, "admin"),
            (at.quorum_port, "quorum"),
            (at.election_port, "election"),
        ];
        for (port, what) in ports {
            std::net::TcpListener::bind((at.host.as_str(), port))
                .with_context(|| format!("port {port}, the {what} port of member {id}, cannot be used"))?;
        }
    }
    Ok(())
}
