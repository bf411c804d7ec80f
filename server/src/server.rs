//! Puts a server together, runs it, and takes it down in order.

mod directories;
mod ports;
mod stop;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};
use zk_core::client::ClientConfig;
use zk_core::effect::HaltReason;
use zk_core::{Input, Shared};
use zk_jute::SessionId;

use self::ports::Ports;
use self::stop::{Cause, Parent, Stop};
use crate::admin::{self, Admin};
use crate::cli::Exit;
use crate::clock::Clock;
use crate::config::{self, Config, Sources};
use crate::control;
use crate::disk::{Storage, StorageStatus};
use crate::driver::{Driver, Handle};
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::net::client_port::ClientPort;
use crate::net::connections::{ConnView, Connections};
use crate::net::election_port::ElectionPort;
use crate::net::quorum_port::QuorumPort;
use crate::sink::DriverSink;

/// How long last answers to clients and to the control socket may take once the peer has halted.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// Upstream leaves a connection without a session this long.
const SESSIONLESS_TIMEOUT_MS: u64 = 10_000;
/// Bytes of answers that may wait for one client's socket.
const CLIENT_OUTPUT_MAX: usize = 1 << 20;

/// Why a server could not start, with the exit code.
#[derive(Debug)]
pub struct StartError {
    pub exit: Exit,
    pub error: anyhow::Error,
}

impl From<anyhow::Error> for StartError {
    fn from(error: anyhow::Error) -> Self {
        let in_use = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
        let port = in_use.into_iter().any(|cause| cause.kind() == io::ErrorKind::AddrInUse);
        Self { exit: if port { Exit::PortInUse } else { Exit::Other }, error }
    }
}

/// Reads the configuration and says what is wrong or odd about it.
pub fn load_config(sources: &Sources) -> Result<Config, Exit> {
    match config::load(sources) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                warn!("configuration: {warning}");
            }
            Ok(loaded.config)
        }
        Err(faults) => {
            for fault in &faults {
                error!("configuration: {fault}");
            }
            Err(Exit::Usage)
        }
    }
}

/// Runs the server until it halts.
pub fn start(sources: Sources, exit_with_parent: Option<Option<i32>>) -> Exit {
    let parent = exit_with_parent.map(Parent::of);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("net").build() {
        Ok(runtime) => runtime,
        Err(failure) => {
            error!("no runtime: {failure}");
            return Exit::Other;
        }
    };
    let exit = runtime.block_on(async {
        match run(sources, parent).await {
            Ok(exit) => exit,
            Err(StartError { exit, error }) => {
                error!("cannot start: {error:#}");
                exit
            }
        }
    });
    runtime.shutdown_background();
    exit
}

async fn run(sources: Sources, parent: Option<Parent>) -> Result<Exit, StartError> {
    // Before anything that may take its time: whoever asks a starting server to stop must not wait for it.
    let mut stop = Stop::install(parent)?;
    let (config, ports) = tokio::select! {
        prepared = prepare(sources) => prepared?,
        cause = stop.asked() => {
            info!("{cause}: the start is given up");
            return Ok(Exit::Clean);
        }
    };
    let (control, _socket_file) = control::listen(&config.storage.data_dir).context("control socket")?;
    let (lifecycle, announce) = Lifecycle::new();
    let server = Server::build(config, announce)?;
    let (driver, connections) = (server.admin.driver.clone(), server.admin.connections.clone());
    server.serve(ports);
    tokio::spawn(control::serve(control, driver.clone(), lifecycle.clone()));
    match halted(&mut stop, &driver, &lifecycle).await {
        End::Halted(reason) => {
            say_farewell(&lifecycle, &connections).await;
            Ok(exit_of(&reason))
        }
        End::SecondSignal => {
            warn!("second signal: stopping at once");
            Ok(Exit::Other)
        }
        End::CoreGone => {
            error!("a bug: the thread of the core ended without a reason");
            Ok(Exit::Panic)
        }
    }
}

/// Everything that comes before the first change on disk.
async fn prepare(sources: Sources) -> Result<(Arc<Config>, Ports), StartError> {
    // On a thread of its own: a file system that hangs must not keep signals from being heard.
    let read = tokio::task::spawn_blocking(move || -> Result<Config, StartError> {
        let mut config = load_config(&sources)
            .map_err(|exit| StartError { exit, error: anyhow::anyhow!("the configuration is refused") })?;
        directories::prepare(&mut config.storage)?;
        Ok(config)
    });
    let config = Arc::new(read.await.context("reading the configuration")??);
    let ports = Ports::open(&config).await?;
    Ok((config, ports))
}

/// How serving ended.
#[derive(Debug)]
enum End {
    Halted(HaltReason),
    /// Whoever asks twice does not want to wait.
    SecondSignal,
    CoreGone,
}

/// Waits for the halt and passes requests to stop on.
async fn halted(stop: &mut Stop, driver: &Handle, lifecycle: &Lifecycle) -> End {
    let mut signalled = false;
    loop {
        let cause = tokio::select! {
            biased;
            reason = lifecycle.halted() => return reason.map_or(End::CoreGone, End::Halted),
            cause = stop.asked() => cause,
        };
        if cause != Cause::ParentGone && std::mem::replace(&mut signalled, true) {
            return End::SecondSignal;
        }
        info!("{cause}: draining");
        driver.input(Input::Drain);
    }
}

/// Lets last answers leave. Connections without a session are owed none, and close with the process.
async fn say_farewell(lifecycle: &Lifecycle, connections: &Connections) {
    let has_session =
        |view: &Arc<ConnView>| view.info().is_some_and(|info| info.session != SessionId::default());
    let farewell = async {
        lifecycle.idle().await;
        while connections.all().iter().any(has_session) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(FAREWELL_LIMIT, farewell).await.is_err() {
        info!("some connections did not close in time");
    }
}

/// The exit code of a halt, with a line that says why.
fn exit_of(reason: &HaltReason) -> Exit {
    match reason {
        HaltReason::Drained { zxid, resigned } => {
            let how = if *resigned { ", after resigning as leader" } else { "" };
            info!("stopped cleanly at {zxid}{how}");
            Exit::Clean
        }
        HaltReason::DiskFailed(why) => {
            error!("the disk failed: {why}");
            Exit::DiskFailed
        }
        HaltReason::DiskFull(why) => {
            error!("the disk is full: {why}");
            Exit::DiskFull
        }
        HaltReason::CorruptData(why) => {
            error!("the data is corrupt: {why}");
            Exit::CorruptData
        }
    }
}

/// The parts that serve ports.
struct Server {
    admin: Arc<Admin>,
    client: Arc<ClientPort>,
    quorum: Option<Arc<QuorumPort>>,
    election: Option<Arc<ElectionPort>>,
}

impl Server {
    /// Builds everything and starts the storage and core threads.
    fn build(config: Arc<Config>, announce: watch::Sender<Option<HaltReason>>) -> anyhow::Result<Self> {
        let clock = Clock::start();
        let metrics = Arc::new(Metrics::default());
        let shared = Shared::new();
        let published = Arc::new(Mutex::default());
        let storage_status = Arc::new(StorageStatus::default());
        let connections = Connections::new(config.client.max_per_ip, config.client.max_total);
        let runtime = tokio::runtime::Handle::current();
        let (driver, receiver) = Handle::new();
        let (storage, storage_handle) =
            Storage::new(config.storage.clone(), driver.clone(), metrics.clone(), storage_status.clone());
        let quorum = config
            .ensemble
            .is_some()
            .then(|| QuorumPort::new(config.clone(), driver.clone(), runtime.clone()));
        let election = config
            .ensemble
            .as_ref()
            .map(|ensemble| ElectionPort::new(config.my_id, ensemble, &config.net, driver.clone(), runtime));
        let sink = DriverSink::new(storage_handle, election.clone(), quorum.clone(), metrics.clone());
        thread::Builder::new().name("storage".to_owned()).spawn(move || storage.run())?;
        let (peer_config, for_core, for_driver) = (config.peer.clone(), shared.clone(), published.clone());
        thread::Builder::new().name("core".to_owned()).spawn(move || {
            let core = Driver::new(peer_config, for_core, sink, receiver, clock, for_driver);
            announce.send_replace(Some(core.run()));
        })?;
        let admin = Arc::new(Admin {
            config: config.clone(),
            driver: driver.clone(),
            published,
            shared: shared.clone(),
            metrics: metrics.clone(),
            connections: connections.clone(),
            storage: storage_status,
            clock,
            boot_id: boot_id(),
        });
        let client = Arc::new(ClientPort {
            config: Arc::new(client_config(&config)),
            shared,
            driver,
            connections,
            metrics,
            admin: admin.clone(),
            clock,
            outstanding_limit: outstanding_limit(&config),
        });
        Ok(Self { admin, client, quorum, election })
    }

    fn serve(self, ports: Ports) {
        if let Some(listener) = ports.client {
            tokio::spawn(self.client.serve(listener));
        }
        for listener in ports.election {
            if let Some(election) = &self.election {
                tokio::spawn(election.clone().serve(listener));
            }
        }
        let learners = ports.quorum.into_iter().map(|listener| (listener, false));
        let observers = ports.observer_master.into_iter().map(|listener| (listener, true));
        for (listener, observers) in learners.chain(observers) {
            if let Some(quorum) = &self.quorum {
                tokio::spawn(quorum.clone().serve(listener, observers));
            }
        }
        if let Some(listener) = ports.metrics {
            tokio::spawn(admin::serve_metrics(listener, self.admin.clone()));
        }
        if let Some(listener) = ports.admin {
            tokio::spawn(admin::serve_admin(listener, self.admin));
        }
    }
}

fn client_config(config: &Config) -> ClientConfig {
    ClientConfig {
        min_session_timeout_ms: config.client.min_session_timeout,
        max_session_timeout_ms: config.client.max_session_timeout,
        sessionless_timeout_ms: SESSIONLESS_TIMEOUT_MS,
        outstanding_max: config.client.outstanding_limit,
        output_max: CLIENT_OUTPUT_MAX,
        rules: config.peer.rules.clone(),
        read_only: false,
    }
}

/// Upstream divides `globalOutstandingLimit` among the members that forward requests.
fn outstanding_limit(config: &Config) -> usize {
    let voters = config.ensemble.as_ref().map_or(0, |ensemble| ensemble.voters().count());
    let divisor = if voters > 2 { voters - 1 } else { 1 };
    (config.client.outstanding_limit / divisor).max(1)
}

/// 32 random hexadecimal digits.
fn boot_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", random(), random())
}
