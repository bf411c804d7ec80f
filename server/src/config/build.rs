//! From properties to [`Config`]: every range and every default, in the groups of the administrator's guide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_core::config::{PeerConfig, Rules};
use zk_jute::ServerId;

use super::ensemble::{Ensemble, parse_my_id};
use super::properties::{self, Origin, Property};
use super::server_line::HostPort;
use super::settings::{
    AdminConfig, ClientPortConfig, Config, MetricsConfig, NetConfig, StorageConfig, WordList,
};
use super::source::{Diagnostic, Settings};

/// `tickTime` unless it is set (upstream `ZooKeeperServer.DEFAULT_TICK_TIME`), milliseconds.
const DEFAULT_TICK_MS: i64 = 3000;
/// Where upstream reads an `int` and takes everything below some value for "off".
const ANY_NEGATIVE: i64 = i32::MIN as i64;
/// `electionPortBindRetry` unless it is set.
const DEFAULT_BIND_RETRIES: i64 = 3;
/// Largest `jute.maxbuffer` that is used, bytes: lengths are added up below 2^31.
const BUFFER_MAX: i64 = i32::MAX as i64 / 4;

/// Where properties come from, in rising precedence: environment, `-D`, file. As upstream, where a key of the file
/// overwrites the system property of that name.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// `key=value` texts of `-D`.
    pub defines: Vec<String>,
    /// Lines `key=value` (`ZK_JAVA_PROPS`).
    pub env_properties: Option<String>,
    /// A Java command line (`JVMFLAGS`, `SERVER_JVMFLAGS`), of which only the `-Dkey=value` words count.
    pub env_flags: Vec<String>,
}

impl Sources {
    /// The sources of this process.
    pub fn from_env(file: Option<PathBuf>, defines: Vec<String>) -> Self {
        let flags = ["JVMFLAGS", "SERVER_JVMFLAGS"].iter().filter_map(|name| std::env::var(name).ok());
        Self {
            file,
            defines,
            env_properties: std::env::var("ZK_JAVA_PROPS").ok(),
            env_flags: flags.collect(),
        }
    }

    fn properties_outside_the_file(&self) -> Vec<Property> {
        let mut found = Vec::new();
        for flags in &self.env_flags {
            let words = flags.split_whitespace().filter_map(|word| word.strip_prefix("-D"));
            found.extend(words.filter(|word| is_ours(word)).map(|word| define("JVMFLAGS", word)));
        }
        if let Some(text) = &self.env_properties {
            found.extend(properties::parse("ZK_JAVA_PROPS", text));
        }
        found.extend(self.defines.iter().map(|word| define("-D", word)));
        found
    }
}

/// Java's own properties in `JVMFLAGS` are none of our business.
fn is_ours(word: &str) -> bool {
    word.starts_with("zookeeper.") || word.starts_with("jute.") || word.starts_with("znode.")
}

fn define(source: &str, word: &str) -> Property {
    let (key, value) = word.split_once('=').unwrap_or((word, "true"));
    Property { key: key.trim().to_owned(), value: value.trim().to_owned(), origin: Origin::whole(source) }
}

/// A configuration that can be run, and what should be said about it.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<Diagnostic>,
}

/// Reads and checks everything. All faults are returned at once, each with its place.
pub fn load(sources: &Sources) -> Result<Loaded, Vec<Diagnostic>> {
    let name =
        sources.file.as_ref().map_or_else(|| "configuration".to_owned(), |file| file.display().to_string());
    let main = Origin::whole(&name);
    let mut all = sources.properties_outside_the_file();
    let initial_text = match &sources.file {
        Some(file) => read_text(file)?,
        None => String::new(),
    };
    all.extend(properties::parse(&name, &initial_text));
    let mut settings = Settings::new(main, all);
    let config = build(&mut settings, sources.file.clone(), initial_text);
    match config {
        Some(config) if settings.errors.is_empty() => Ok(Loaded { config, warnings: settings.warnings }),
        _ => Err(settings.errors),
    }
}

fn read_text(file: &Path) -> Result<String, Vec<Diagnostic>> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => {
            let origin = Origin::whole(&file.display().to_string());
            Err(vec![Diagnostic { origin, message: format!("cannot be read: {error}") }])
        }
    }
}

/// `None` only together with an error in `settings`.
fn build(settings: &mut Settings, file: Option<PathBuf>, initial_text: String) -> Option<Config> {
    let tick_ms = settings.number("tickTime", DEFAULT_TICK_MS, 1..=3_600_000).unsigned_abs();
    let storage = read_storage(settings)?;
    let mut members = read_members(settings);
    let standalone_enabled = settings.flag("standaloneEnabled", true);
    let distributed = is_distributed(settings, members.as_ref(), standalone_enabled);
    let my_id = read_my_id(settings, &storage.data_dir, distributed);
    if distributed && let Some(ensemble) = &members {
        check_membership(settings, ensemble, my_id);
    }
    let client = read_client(settings, tick_ms, members.as_ref(), my_id);
    if !distributed {
        members = None;
    }
    let (init_limit, sync_limit) = read_limits(settings, distributed);
    let net = read_net(settings, tick_ms, init_limit);
    let peer = read_peer(settings, tick_ms, (init_limit, sync_limit), members.as_ref(), my_id, &client);
    settings.choice("electionAlg", 3, &[("3", 3)]);
    Some(Config {
        file,
        my_id,
        ensemble: members,
        peer,
        storage,
        client,
        net,
        admin: read_admin(settings),
        metrics: read_metrics(settings),
        words: WordList::parse(&settings.text("4lw.commands.whitelist").unwrap_or_default()),
        properties: settings.all(),
        initial_text,
    })
}

fn read_storage(settings: &mut Settings) -> Option<StorageConfig> {
    let Some(data_dir) = settings.text("dataDir").map(PathBuf::from) else {
        settings.error(
            settings.place("dataDir"),
            "dataDir is not set: a directory for snapshots and myid".to_owned(),
        );
        return None;
    };
    let snap_retain_count =
        settings.number("autopurge.snapRetainCount", 3, ANY_NEGATIVE..=i64::from(i32::MAX));
    if snap_retain_count < 3 {
        let place = settings.place("autopurge.snapRetainCount");
        settings.warn(place, format!("autopurge.snapRetainCount={snap_retain_count} is too low: 3 is used"));
    }
    // As upstream, 0 and less is "never".
    let purge_hours =
        settings.number("autopurge.purgeInterval", 0, ANY_NEGATIVE..=100_000).max(0).unsigned_abs();
    let log_limit_kib = settings.number("txnLogSizeLimitInKb", -1, ANY_NEGATIVE..=1 << 40);
    let force_sync = settings.yes("forceSync", true);
    if !force_sync {
        let text = "forceSync=no: acknowledged writes can be lost in a crash of the machine".to_owned();
        settings.warn(settings.place("forceSync"), text);
    }
    let max_buffer = read_max_buffer(settings);
    let extra =
        settings.number("jute.maxbuffer.extrasize", i64_of(max_buffer.max(1024)), 0..=i64::from(i32::MAX));
    Some(StorageConfig {
        data_log_dir: settings.text("dataLogDir").map_or_else(|| data_dir.clone(), PathBuf::from),
        data_dir,
        create_dirs: settings.flag("datadir.autocreate", true),
        db_autocreate: settings.flag("db.autocreate", true),
        trust_empty_snapshot: settings.flag("snapshot.trust.empty", false),
        prealloc_bytes: settings.number("preAllocSize", 65_536, ANY_NEGATIVE..=1 << 22).max(0).unsigned_abs()
            * 1024,
        log_size_limit: (log_limit_kib > 0).then(|| log_limit_kib.unsigned_abs() * 1024),
        force_sync,
        fsync_warning: Duration::from_millis(
            settings.number("fsync.warningthresholdms", 1000, 0..=i64::from(i32::MAX)).unsigned_abs(),
        ),
        snap_retain_count: size_of(snap_retain_count.max(3)),
        purge_interval: (purge_hours > 0).then(|| Duration::from_secs(purge_hours * 3600)),
        max_record: max_buffer.saturating_add(size_of(extra)),
        digest_enabled: settings.flag("digest.enabled", true),
    })
}

fn read_max_buffer(settings: &mut Settings) -> usize {
    let default = i64_of(zk_jute::consts::JUTE_MAX_BUFFER);
    let asked = settings.number("jute.maxbuffer", default, 1024..=i64::from(i32::MAX));
    if asked > BUFFER_MAX {
        let place = settings.place("jute.maxbuffer");
        settings.warn(place, format!("jute.maxbuffer={asked} is too high: {BUFFER_MAX} is used"));
    }
    size_of(asked.min(BUFFER_MAX))
}

/// Members from the dynamic file, if there is one, else from the main file.
fn read_members(settings: &mut Settings) -> Option<Ensemble> {
    let Some(pointer) = settings.raw("dynamicConfigFile").cloned() else {
        return Ensemble::read(settings, None);
    };
    for family in ["server.", "group.", "weight."] {
        for (_, property) in settings.family(family) {
            let text =
                format!("{} must be in the dynamic configuration file {}", property.key, pointer.value);
            settings.error(property.origin, text);
        }
    }
    let text = match read_text(Path::new(&pointer.value)) {
        Ok(text) => text,
        Err(faults) => {
            let what = faults.into_iter().map(|fault| fault.to_string()).collect::<Vec<_>>().join(", ");
            settings.error(pointer.origin, format!("dynamicConfigFile: {what}"));
            return None;
        }
    };
    let mut all = dynamic_properties(settings, &pointer.value, &text);
    all.extend(settings.raw("multiAddress.enabled").cloned());
    let mut dynamic = Settings::new(Origin::whole(&pointer.value), all);
    let members = Ensemble::read(&mut dynamic, version_of_name(&pointer.value));
    settings.errors.append(&mut dynamic.errors);
    settings.warnings.append(&mut dynamic.warnings);
    members
}

/// What stands behind the last dot of the file's name, if it is a hexadecimal number (upstream
/// `getVersionFromFilename`).
fn version_of_name(name: &str) -> Option<i64> {
    name.rsplit_once('.').and_then(|(_, hex)| i64::from_str_radix(hex, 16).ok())
}

fn dynamic_properties(settings: &mut Settings, file: &str, text: &str) -> Vec<Property> {
    let belongs = |key: &str| {
        key == "version" || ["server.", "group.", "weight."].iter().any(|family| key.starts_with(family))
    };
    let (allowed, other): (Vec<_>, Vec<_>) =
        properties::parse(file, text).into_iter().partition(|property| belongs(&property.key));
    for property in other {
        let text = format!("{}: only server.N, group.N, weight.N and version are allowed here", property.key);
        settings.error(property.origin, text);
    }
    allowed
}

fn is_distributed(settings: &mut Settings, members: Option<&Ensemble>, standalone_enabled: bool) -> bool {
    let voters = members.map_or(0, |ensemble| ensemble.voters().count());
    let observers = members.map_or(0, |ensemble| ensemble.observers().count());
    let place = settings.place("standaloneEnabled");
    if voters == 0 && !standalone_enabled {
        settings.error(place.clone(), "standaloneEnabled=false needs at least one participant".to_owned());
    }
    if voters < 2 && standalone_enabled && observers > 0 {
        settings.error(
            place.clone(),
            "observers need more than one participant, or standaloneEnabled=false".to_owned(),
        );
    }
    let distributed = voters > 1 || (voters == 1 && !standalone_enabled);
    if voters == 1 && standalone_enabled {
        settings.warn(place, "only one server is configured: it runs standalone".to_owned());
    } else if voters == 2 {
        settings.warn(place, "two servers tolerate no failure: at least 3 are needed for that".to_owned());
    } else if voters > 2 && voters.is_multiple_of(2) {
        settings.warn(place, format!("{voters} voters tolerate no more failures than {}", voters - 1));
    }
    distributed
}

fn read_my_id(settings: &mut Settings, data_dir: &Path, distributed: bool) -> ServerId {
    let file = data_dir.join("myid");
    let origin = Origin { source: file.display().to_string().into(), line: 1 };
    match std::fs::read_to_string(&file) {
        Ok(text) => parse_my_id(&text, &origin, settings).unwrap_or(ServerId(1)),
        Err(error) => {
            if distributed {
                let text = format!("cannot be read ({error}): it must hold this server's id, 0 to 255");
                settings.error(Origin::whole(&file.display().to_string()), text);
            }
            ServerId(1)
        }
    }
}

fn check_membership(settings: &mut Settings, ensemble: &Ensemble, my_id: ServerId) {
    let Some(mine) = ensemble.servers.get(&my_id) else {
        let known: Vec<String> = ensemble.servers.keys().map(|id| format!("server.{id}")).collect();
        let text =
            format!("there is no server.{my_id}, and myid says {my_id}: there are {}", known.join(", "));
        settings.error(settings.place("server.1"), text);
        return;
    };
    let declared =
        settings.choice("peerType", None, &[("participant", Some(true)), ("observer", Some(false))]);
    if let Some(voter) = declared
        && voter != mine.voter
    {
        let text = "peerType does not match the list of servers, which wins".to_owned();
        settings.warn(settings.place("peerType"), text);
    }
}

fn read_client(
    settings: &mut Settings,
    tick_ms: u64,
    members: Option<&Ensemble>,
    my_id: ServerId,
) -> ClientPortConfig {
    // As upstream, port 0 is "not set".
    let port = settings.number_if_set("clientPort", 0..=65_535).filter(|port| *port > 0);
    let host = settings.text("clientPortAddress");
    if host.is_some() && port.is_none() {
        let text = "clientPortAddress is set but clientPort is not: 1 to 65535".to_owned();
        settings.error(settings.place("clientPortAddress"), text);
    }
    let file = port
        .and_then(|port| u16::try_from(port).ok())
        .map(|port| HostPort { host: host.unwrap_or_else(|| "0.0.0.0".to_owned()), port });
    let line = members.and_then(|ensemble| ensemble.servers.get(&my_id)).and_then(|line| line.client.clone());
    if let (Some(file), Some(line)) = (&file, &line)
        && (file.port != line.port || (!file.is_wildcard() && file != line))
    {
        let text = format!("clientPort says {file}, server.{my_id} says {line}: they must agree");
        settings.error(settings.place("clientPort"), text);
    }
    let address = line.or(file);
    if address.is_none() {
        settings
            .warn(settings.place("clientPort"), "clientPort is not set: no clients can connect".to_owned());
    }
    let tick = i64::try_from(tick_ms).unwrap_or(i64::MAX);
    let timeouts = -1..=i64::from(i32::MAX);
    let min = default_if_unset(settings.number("minSessionTimeout", -1, timeouts.clone()), tick * 2);
    let max = default_if_unset(settings.number("maxSessionTimeout", -1, timeouts), tick * 20);
    if min > max {
        let text = format!("minSessionTimeout {min} is larger than maxSessionTimeout {max}");
        settings.error(settings.place("minSessionTimeout"), text);
    }
    let backlog = settings.number("clientPortListenBacklog", -1, ANY_NEGATIVE..=i64::from(i32::MAX));
    ClientPortConfig {
        address,
        backlog: u32::try_from(backlog).ok(),
        // As upstream, 0 and less is "unlimited" for both.
        max_per_ip: size_of(settings.number("maxClientCnxns", 60, ANY_NEGATIVE..=i64::from(i32::MAX)).max(0)),
        max_total: size_of(settings.number("maxCnxns", 0, ANY_NEGATIVE..=i64::from(i32::MAX)).max(0)),
        min_session_timeout: i32::try_from(min).unwrap_or(i32::MAX),
        max_session_timeout: i32::try_from(max).unwrap_or(i32::MAX),
        max_buffer: read_max_buffer(settings),
        outstanding_limit: size_of(settings.number("globalOutstandingLimit", 1000, 1..=i64::from(i32::MAX))),
        keep_alive: settings.flag("clientTcpKeepAlive", false),
    }
}

fn default_if_unset(value: i64, default: i64) -> i64 {
    if value == -1 { default } else { value }
}

fn read_limits(settings: &mut Settings, distributed: bool) -> (u64, u64) {
    if !distributed {
        let init = settings.number("initLimit", 10, 0..=1_000_000);
        return (init.unsigned_abs(), settings.number("syncLimit", 5, 0..=1_000_000).unsigned_abs());
    }
    let init = settings.required("initLimit", 1..=1_000_000).unsigned_abs();
    (init, settings.required("syncLimit", 1..=1_000_000).unsigned_abs())
}

fn read_net(settings: &mut Settings, tick_ms: u64, init_limit: u64) -> NetConfig {
    let retries = read_bind_retries(settings);
    let connect_ticks = settings.number("connectToLearnerMasterLimit", 0, 0..=1_000_000).unsigned_abs();
    let connect_ticks = if connect_ticks == 0 { init_limit } else { connect_ticks };
    NetConfig {
        listen_on_all_ips: settings.flag("quorumListenOnAllIPs", false),
        bind_retries: u32::try_from(retries).ok().filter(|retries| *retries > 0),
        election_connect_timeout: Duration::from_millis(
            settings.number("cnxTimeout", 5000, 1..=i64::from(i32::MAX)).unsigned_abs(),
        ),
        learner_connect_limit: Duration::from_millis(connect_ticks.saturating_mul(tick_ms)),
        observer_master_port: read_observer_master_port(settings),
        multi_address: settings.flag("multiAddress.enabled", false),
        keep_alive: settings.flag("tcpKeepAlive", false),
    }
}

/// As upstream, 0 and less is "off".
fn read_observer_master_port(settings: &mut Settings) -> Option<u16> {
    let port = settings.number("observerMasterPort", 0, ANY_NEGATIVE..=65_535);
    u16::try_from(port).ok().filter(|port| *port > 0)
}

/// As upstream, 0 is "without end" and less is the default.
fn read_bind_retries(settings: &mut Settings) -> i64 {
    let retries =
        settings.number("electionPortBindRetry", DEFAULT_BIND_RETRIES, ANY_NEGATIVE..=i64::from(i32::MAX));
    if retries >= 0 {
        return retries;
    }
    let place = settings.place("electionPortBindRetry");
    settings
        .warn(place, format!("electionPortBindRetry={retries} is below 0: {DEFAULT_BIND_RETRIES} is used"));
    DEFAULT_BIND_RETRIES
}

fn read_peer(
    settings: &mut Settings,
    tick_ms: u64,
    (init_limit, sync_limit): (u64, u64),
    members: Option<&Ensemble>,
    my_id: ServerId,
    client: &ClientPortConfig,
) -> PeerConfig {
    let snap_kib = settings.number("snapSizeLimitInKb", 4_194_304, ANY_NEGATIVE..=1 << 40);
    let commit_log_count = settings.number("commitLogCount", 500, ANY_NEGATIVE..=10_000_000);
    if commit_log_count < 500 {
        let place = settings.place("commitLogCount");
        settings.warn(place, format!("commitLogCount={commit_log_count} is too low: 500 is used"));
    }
    PeerConfig {
        my_id,
        membership: members.map(Ensemble::membership),
        tick_ms,
        init_limit,
        sync_limit,
        commit_log_count: size_of(commit_log_count.max(500)),
        snap_count: settings.number("snapCount", 100_000, 1..=i64::from(i32::MAX)).unsigned_abs().max(2),
        snap_size_limit: if snap_kib > 0 { snap_kib.unsigned_abs() * 1024 } else { u64::MAX },
        election_min_ms: settings
            .number("fastleader.minNotificationInterval", 200, 1..=3_600_000)
            .unsigned_abs(),
        election_max_ms: settings
            .number("fastleader.maxNotificationInterval", 60_000, 1..=3_600_000)
            .unsigned_abs(),
        election_finalize_ms: 200,
        observer_master: read_observer_master_port(settings).is_some(),
        seed: rand_seed(my_id),
        rules: read_rules(settings, client),
    }
}

/// Differs between members and between starts; nothing depends on its quality.
fn rand_seed(my_id: ServerId) -> u64 {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(time.subsec_nanos()) ^ (my_id.0.unsigned_abs() << 40) ^ u64::from(std::process::id())
}

fn read_rules(settings: &mut Settings, client: &ClientPortConfig) -> Rules {
    let millis = 0..=i64::from(i32::MAX);
    Rules {
        skip_acl: settings.yes("skipACL", false),
        extended_types: settings.flag("extendedTypesEnabled", false),
        enforce_quota: settings.flag("enforceQuota", false),
        reconfig_enabled: settings.flag("reconfigEnabled", false),
        digest_enabled: settings.flag("digest.enabled", true),
        close_session_txn: settings.flag("closeSessionTxn.enabled", true),
        super_digest: settings.text("DigestAuthenticationProvider.superDigest").map(Into::into),
        max_buffer: client.max_buffer,
        container_check_ms: settings
            .number("znode.container.checkIntervalMs", 60_000, 1..=86_400_000)
            .unsigned_abs(),
        container_max_per_minute: settings
            .number("znode.container.maxPerMinute", 10_000, 1..=60_000_000)
            .unsigned_abs(),
        container_max_never_used_ms: settings
            .number("znode.container.maxNeverUsedIntervalMs", 0, millis)
            .unsigned_abs(),
    }
}

fn read_admin(settings: &mut Settings) -> AdminConfig {
    let port = settings.number("admin.serverPort", 8080, 0..=65_535);
    AdminConfig {
        enabled: settings.flag("admin.enableServer", true),
        address: HostPort {
            host: settings.text("admin.serverAddress").unwrap_or_else(|| "0.0.0.0".to_owned()),
            port: u16::try_from(port).unwrap_or(8080),
        },
        command_url: settings.text("admin.commandURL").unwrap_or_else(|| "/commands".to_owned()),
        idle_timeout: Duration::from_millis(
            settings.number("admin.idleTimeout", 30_000, 1..=3_600_000).unsigned_abs(),
        ),
    }
}

fn read_metrics(settings: &mut Settings) -> Option<MetricsConfig> {
    let class = settings.text("metricsProvider.className")?;
    if !class.ends_with(".PrometheusMetricsProvider") {
        if !class.ends_with(".DefaultMetricsProvider") && !class.ends_with(".NullMetricsProvider") {
            let text = format!(
                "metricsProvider.className: {class} is not built in: ...PrometheusMetricsProvider is"
            );
            settings.error(settings.place("metricsProvider.className"), text);
        }
        return None;
    }
    let port = settings.number("metricsProvider.httpPort", 7000, 0..=65_535);
    let host = settings.text("metricsProvider.httpHost").unwrap_or_else(|| "0.0.0.0".to_owned());
    Some(MetricsConfig { address: HostPort { host, port: u16::try_from(port).unwrap_or(7000) } })
}

fn size_of(value: i64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn i64_of(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The properties that are not secret, for display.
pub fn without_secrets(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let secret = |key: &str| {
        let key = key.to_ascii_lowercase();
        key.contains("password") || key.contains("digest") && key.contains("super")
    };
    properties
        .iter()
        .map(|(k, v)| (k.clone(), if secret(k) { "********".to_owned() } else { v.clone() }))
        .collect()
}
