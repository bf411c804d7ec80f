//! The validated configuration: plain values with units, no strings left to parse.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use zk_core::config::PeerConfig;
use zk_jute::ServerId;

use super::ensemble::Ensemble;
use super::server_line::HostPort;

/// Everything one server was told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of `zoo.cfg`, if there was one.
    pub file: Option<PathBuf>,
    /// `myid`; 1 for a standalone server without that file, as upstream's session ids have it.
    pub my_id: ServerId,
    /// Present with more than one voter, or with `standaloneEnabled=false`.
    pub ensemble: Option<Ensemble>,
    /// What the core is told.
    pub peer: PeerConfig,
    pub storage: StorageConfig,
    pub client: ClientPortConfig,
    pub net: NetConfig,
    pub admin: AdminConfig,
    pub metrics: Option<MetricsConfig>,
    /// `4lw.commands.whitelist`.
    pub words: WordList,
    /// All properties as given, for `/commands/system_properties`.
    pub properties: BTreeMap<String, String>,
    /// The file's text as read, for `/commands/initial_configuration`.
    pub initial_text: String,
}

/// Directories and how they are written.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// `dataDir`: `myid`, snapshots and epoch files.
    pub data_dir: PathBuf,
    /// `dataLogDir`, `dataDir` by default: transaction logs.
    pub data_log_dir: PathBuf,
    /// `datadir.autocreate`: make the directories if they are missing.
    pub create_dirs: bool,
    /// `db.autocreate`: an empty directory may vote as an empty database.
    pub db_autocreate: bool,
    /// `snapshot.trust.empty`: logs without a snapshot are accepted.
    pub trust_empty_snapshot: bool,
    /// `preAllocSize` x 1024, bytes by which log files grow.
    pub prealloc_bytes: u64,
    /// `txnLogSizeLimitInKb` x 1024: a log file that reaches it is followed by a new one. `None`: no limit.
    pub log_size_limit: Option<u64>,
    /// `forceSync=no` skips fsync, and with it every durability promise.
    pub force_sync: bool,
    /// `fsync.warningthresholdms`.
    pub fsync_warning: Duration,
    /// `autopurge.snapRetainCount`, at least 3.
    pub snap_retain_count: usize,
    /// `autopurge.purgeInterval`; `None`: never.
    pub purge_interval: Option<Duration>,
    /// Limit for one transaction or snapshot record read from disk or from another member, in bytes:
    /// `jute.maxbuffer` + `jute.maxbuffer.extrasize`.
    pub max_record: usize,
    /// `digest.enabled`: a snapshot that is not what its digest says is not loaded.
    pub digest_enabled: bool,
}

/// The port for clients.
#[derive(Clone, Debug)]
pub struct ClientPortConfig {
    /// `None`: no client port (`clientPort` is not set).
    pub address: Option<HostPort>,
    /// `clientPortListenBacklog`; `None`: the system's default.
    pub backlog: Option<u32>,
    /// `maxClientCnxns` for one address; 0: unlimited.
    pub max_per_ip: usize,
    /// `maxCnxns` in all; 0: unlimited.
    pub max_total: usize,
    /// Milliseconds.
    pub min_session_timeout: i32,
    /// Milliseconds.
    pub max_session_timeout: i32,
    /// `jute.maxbuffer`, bytes.
    pub max_buffer: usize,
    /// `globalOutstandingLimit`: requests in flight at which connections stop reading.
    pub outstanding_limit: usize,
    /// `clientTcpKeepAlive`, on accepted sockets.
    pub keep_alive: bool,
}

/// Ports between members.
#[derive(Clone, Debug)]
pub struct NetConfig {
    pub listen_on_all_ips: bool,
    /// `electionPortBindRetry`; `None`: for ever.
    pub bind_retries: Option<u32>,
    /// `cnxTimeout`.
    pub election_connect_timeout: Duration,
    /// `connectToLearnerMasterLimit` or else `initLimit`, in time: how long a learner tries to connect.
    pub learner_connect_limit: Duration,
    /// `observerMasterPort`.
    pub observer_master_port: Option<u16>,
    /// `multiAddress.enabled`: the newer of the two handshakes is sent.
    pub multi_address: bool,
    /// `tcpKeepAlive`, on accepted and on opened sockets between members.
    pub keep_alive: bool,
}

/// The HTTP port for operators.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    pub enabled: bool,
    pub address: HostPort,
    /// `admin.commandURL`, `/commands`.
    pub command_url: String,
    /// `admin.idleTimeout`, 30 s: how long a connection may keep its request to itself.
    pub idle_timeout: Duration,
}

/// `metricsProvider.*`, present when the class is the Prometheus one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsConfig {
    pub address: HostPort,
}

/// Which four-letter words are answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WordList {
    All,
    Only(BTreeSet<String>),
}

impl WordList {
    /// True if `word` may be executed. `srvr` always may: upstream's own start script depends on it.
    pub fn allows(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(words) => word == "srvr" || words.contains(word),
        }
    }

    /// Reads the comma-separated value; `*` means all.
    pub fn parse(text: &str) -> Self {
        let words: BTreeSet<String> =
            text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect();
        if words.contains("*") { Self::All } else { Self::Only(words) }
    }
}
