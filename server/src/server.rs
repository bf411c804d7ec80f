//! Puts a server together, runs it, and takes it down in order.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};
use zk_core::client::ClientConfig;
use zk_core::effect::HaltReason;
use zk_core::{Input, Shared};

use crate::admin::{self, Admin};
use crate::cli::Exit;
use crate::clock::Clock;
use crate::config::{self, Config, HostPort, Sources};
use crate::control;
use crate::disk::{Storage, StorageStatus};
use crate::driver::{Driver, Handle};
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::net::client_port::ClientPort;
use crate::net::connections::Connections;
use crate::net::dial::Listen;
use crate::net::election_port::ElectionPort;
use crate::net::quorum_port::QuorumPort;
use crate::sink::DriverSink;

/// How long last answers to clients and to the control socket may take once the peer has halted.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// How often the parent is looked for.
const PARENT_POLL: Duration = Duration::from_secs(1);
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
pub fn start(sources: &Sources, exit_with_parent: bool) -> Exit {
    let config = match load_config(sources) {
        Ok(config) => Arc::new(config),
        Err(exit) => return exit,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("net").build() {
        Ok(runtime) => runtime,
        Err(failure) => {
            error!("no runtime: {failure}");
            return Exit::Other;
        }
    };
    let exit = runtime.block_on(async {
        match run(config, exit_with_parent).await {
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

async fn run(config: Arc<Config>, exit_with_parent: bool) -> Result<Exit, StartError> {
    let _locks = lock_directories(&config)?;
    let ports = Ports::open(&config).await?;
    let control = control::listen(&config.storage.data_dir).context("control socket")?;
    let (lifecycle, announce) = Lifecycle::new();
    let data_dir = config.storage.data_dir.clone();
    let server = Server::build(config, announce)?;
    let (driver, connections) = (server.admin.driver.clone(), server.admin.connections.clone());
    server.serve(ports);
    tokio::spawn(control::serve(control, driver.clone(), lifecycle.clone()));
    if exit_with_parent {
        tokio::spawn(watch_parent(driver.clone()));
    }
    let second_signal = drain_on_signal(driver)?;
    let exit = tokio::select! {
        reason = lifecycle.halted() => {
            say_farewell(&lifecycle, &connections).await;
            exit_of(&reason)
        }
        () = second_signal => {
            warn!("second signal: stopping at once");
            Exit::Other
        }
    };
    control::remove(&data_dir);
    Ok(exit)
}

async fn say_farewell(lifecycle: &Lifecycle, connections: &Connections) {
    let farewell = async {
        lifecycle.idle().await;
        while connections.count() > 0 {
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

/// Asks for a drain at SIGTERM or SIGINT; the future returned ends with the next one.
fn drain_on_signal(driver: Handle) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    Ok(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if first {
                info!("signal received: draining");
                driver.input(Input::Drain);
            }
        }
    })
}

/// Asks for a drain once the parent is another process.
async fn watch_parent(driver: Handle) {
    let parent = rustix::process::getppid();
    while rustix::process::getppid() == parent {
        sleep(PARENT_POLL).await;
    }
    warn!("the parent process is gone: draining");
    driver.input(Input::Drain);
}

/// Two servers on one directory would destroy it, so its directories stay locked while the process lives.
fn lock_directories(config: &Config) -> anyhow::Result<Vec<File>> {
    let mut locks = vec![lock_directory(&config.storage.data_dir, config.storage.create_dirs)?];
    if config.storage.data_log_dir != config.storage.data_dir {
        locks.push(lock_directory(&config.storage.data_log_dir, config.storage.create_dirs)?);
    }
    Ok(locks)
}

fn lock_directory(dir: &Path, create: bool) -> anyhow::Result<File> {
    if create {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let file = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("{} is used by another server", dir.display()))?;
    Ok(file)
}

/// Every listener, opened before anything else happens: a port in use must be found out early.
struct Ports {
    client: Option<TcpListener>,
    quorum: Vec<TcpListener>,
    observer_master: Vec<TcpListener>,
    election: Vec<TcpListener>,
    admin: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Ports {
    async fn open(config: &Config) -> anyhow::Result<Self> {
        let client = match &config.client.address {
            Some(address) => Some(open(address, config.client.backlog, "client port").await?),
            None => None,
        };
        let mut ports = Self {
            client,
            quorum: vec![],
            observer_master: vec![],
            election: vec![],
            admin: None,
            metrics: None,
        };
        if let Some(metrics) = &config.metrics {
            ports.metrics = Some(open(&metrics.address, None, "metrics port").await?);
        }
        if config.admin.enabled {
            // As upstream: a member without its admin port is better than no member.
            match open(&config.admin.address, None, "admin port").await {
                Ok(listener) => ports.admin = Some(listener),
                Err(failure) => error!("{failure:#}; this server runs without (see admin.serverPort)"),
            }
        }
        let mine = config.ensemble.as_ref().and_then(|ensemble| ensemble.servers.get(&config.my_id));
        if let Some(mine) = mine {
            ports.election = open_between_members(config, &mine.election, "election port").await?;
            ports.quorum = open_between_members(config, &mine.quorum, "quorum port").await?;
            if let Some(port) = config.net.observer_master_port {
                let addresses: Vec<HostPort> =
                    mine.quorum.iter().map(|address| HostPort { port, ..address.clone() }).collect();
                ports.observer_master =
                    open_between_members(config, &addresses, "observer master port").await?;
            }
        }
        Ok(ports)
    }
}

async fn open(address: &HostPort, backlog: Option<u32>, what: &str) -> anyhow::Result<TcpListener> {
    let listen = Listen {
        address: address.clone(),
        all_interfaces: false,
        backlog,
        retries: Some(0),
        keep_alive: false,
    };
    listen.open(what).await.with_context(|| format!("{what} {address}"))
}

async fn open_between_members(
    config: &Config,
    addresses: &[HostPort],
    what: &str,
) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    // On all interfaces one listener a port is enough, and two would collide.
    let mut seen = std::collections::BTreeSet::new();
    for address in addresses {
        if config.net.listen_on_all_ips && !seen.insert(address.port) {
            continue;
        }
        let listen = Listen {
            address: address.clone(),
            all_interfaces: config.net.listen_on_all_ips,
            backlog: None,
            retries: config.net.bind_retries,
            keep_alive: config.net.keep_alive,
        };
        listeners.push(listen.open(what).await.with_context(|| format!("{what} {address}"))?);
    }
    Ok(listeners)
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
