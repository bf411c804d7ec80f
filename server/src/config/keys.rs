//! Every key of upstream 3.9, and what this server makes of it. A key that is in no table is unknown, and warned of.

/// What happens to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Read into [`super::Config`].
    Used,
    /// Tunes something this server does not have (a thread pool, a cache, the JVM): accepted without a word.
    NotNeeded,
    /// Upstream has it, this server does not yet: accepted with a warning, unless its value is the default.
    NotYet { default: &'static str },
    /// Asks for protection that this server cannot give: refused, unless its value says not to.
    Protection { harmless: &'static str },
    /// Belongs to TLS but asks for nothing by itself.
    TlsDetail,
}

use Treatment::{NotNeeded, NotYet, Protection, TlsDetail, Used};

const USED: &[&str] = &[
    "4lw.commands.whitelist",
    "admin.commandURL",
    "admin.enableServer",
    "admin.idleTimeout",
    "admin.serverAddress",
    "admin.serverPort",
    "autopurge.purgeInterval",
    "autopurge.snapRetainCount",
    "clientPort",
    "clientPortAddress",
    "clientPortListenBacklog",
    "clientTcpKeepAlive",
    "closeSessionTxn.enabled",
    "cnxTimeout",
    "commitLogCount",
    "connectToLearnerMasterLimit",
    "dataDir",
    "dataLogDir",
    "datadir.autocreate",
    "db.autocreate",
    "DigestAuthenticationProvider.superDigest",
    "digest.enabled",
    "dynamicConfigFile",
    "electionAlg",
    "electionPortBindRetry",
    "enforceQuota",
    "extendedTypesEnabled",
    "fastleader.maxNotificationInterval",
    "fastleader.minNotificationInterval",
    "forceSync",
    "fsync.warningthresholdms",
    "globalOutstandingLimit",
    "initLimit",
    "jute.maxbuffer",
    "jute.maxbuffer.extrasize",
    "maxClientCnxns",
    "maxCnxns",
    "maxSessionTimeout",
    "metricsProvider.className",
    "metricsProvider.httpHost",
    "metricsProvider.httpPort",
    "minSessionTimeout",
    "multiAddress.enabled",
    "observerMasterPort",
    "peerType",
    "preAllocSize",
    "quorumListenOnAllIPs",
    "skipACL",
    "snapCount",
    "snapSizeLimitInKb",
    "snapshot.trust.empty",
    "standaloneEnabled",
    "syncLimit",
    "tcpKeepAlive",
    "tickTime",
    "txnLogSizeLimitInKb",
    "version",
    "znode.container.checkIntervalMs",
    "znode.container.maxNeverUsedIntervalMs",
    "znode.container.maxPerMinute",
];

const NOT_NEEDED: &[&str] = &[
    "admin.httpVersion",
    "admin.rateLimiterIntervalInMS",
    "allowSaslFailedClients",
    "bitHashCacheSize",
    "fips-mode",
    "flushDelay",
    "follower.nodelay",
    "IPAuthenticationProvider.usexforwardedfor",
    "largeRequestMaxBytes",
    "leaderConnectDelayDuringRetryMs",
    "leader.closeSocketAsync",
    "leader.maxConcurrentDiffSyncs",
    "leader.maxConcurrentSnapSyncs",
    "leader.nodelay",
    "learner.asyncSending",
    "learner.closeSocketAsync",
    "maxBatchSize",
    "maxGetChildrenResponseCacheSize",
    "maxResponseCacheSize",
    "maxWriteQueuePollTime",
    "multiAddress.reachabilityCheckEnabled",
    "multiAddress.reachabilityCheckTimeoutMs",
    "observer.reconnectDelayMs",
    "observer.electionDelayMs",
    "observer.syncEnabled",
    "observerMaster.sizeLimit",
    "quorum.cnxn.threads.size",
    "quorumCnxnTimeoutMs",
    "requestStaleConnectionCheck",
    "requestStaleLatencyCheck",
    "request_throttler.shutdownTimeout",
    "serverCnxnFactory",
    "skipTxnZxidCheck",
    "snapsync.enabled",
    "syncEnabled",
    "watchManagerName",
    "watcherCleanIntervalInSeconds",
    "watcherCleanThreadsNum",
    "watcherCleanThreshold",
    "maxInProcessingDeadWatchers",
];

/// Families of [`Treatment::NotNeeded`].
const NOT_NEEDED_PREFIXES: &[&str] = &[
    "commitProcessor.",
    "jvm.pause.",
    "leader.ackLoggingFrequency",
    "metricsProvider.exportJvmInfo",
    "metricsProvider.maxQueueSize",
    "metricsProvider.numWorkerThreads",
    "metricsProvider.workerShutdownTimeoutMs",
    "netty.",
    "nio.",
    "kerberos.",
    "quorum.auth.kerberos.",
    "quorum.auth.learner.saslLoginContext",
    "quorum.auth.server.saslLoginContext",
    "log.",
    "log4j.",
    "messageTracker.",
    "pathStats.",
];

const NOT_YET: &[(&str, &str)] = &[
    ("admin.restore.enabled", "true"),
    ("admin.snapshot.enabled", "true"),
    ("audit.enable", "false"),
    ("connection_throttle_tokens", "0"),
    ("emulate353TTLNodes", "false"),
    ("ensembleAuthName", ""),
    ("forceSnapshotSync", "false"),
    ("largeRequestThreshold", "-1"),
    ("leader.maxTimeToWaitForEpoch", "-1"),
    ("leaderServes", "yes"),
    ("localSessionsEnabled", "false"),
    ("localSessionsUpgradingEnabled", "true"),
    ("nio.sessionlessCnxnTimeout", "10000"),
    ("oraclePath", ""),
    ("readonlymode.enabled", "false"),
    // What it changes here is which error `reconfig` gets.
    ("reconfigEnabled", "false"),
    ("request_throttle_drop_stale", "true"),
    ("request_throttle_max_requests", "0"),
    ("request_throttle_stall_time", "100"),
    ("serializeLastProcessedZxid.enabled", "true"),
    ("snapshot.compression.method", ""),
    ("snapshotSizeFactor", "0.33"),
    ("throttledOpWaitTime", "0"),
    ("throttled_op_wait_time", "0"),
];

const PROTECTION: &[(&str, &str)] = &[
    ("admin.forceHttps", "false"),
    ("admin.needClientAuth", "false"),
    ("admin.portUnification", "false"),
    ("client.portUnification", "false"),
    ("DigestAuthenticationProvider.digestAlg", "SHA1"),
    ("DigestAuthenticationProvider.enabled", "true"),
    ("enforce.auth.enabled", "false"),
    ("enforce.auth.schemes", ""),
    ("metricsProvider.httpsPort", ""),
    ("portUnification", "false"),
    ("quorum.auth.enableSasl", "false"),
    ("quorum.auth.learnerRequireSasl", "false"),
    ("quorum.auth.serverRequireSasl", "false"),
    ("secureClientPort", ""),
    ("secureClientPortAddress", ""),
    ("sessionRequireClientSASLAuth", "false"),
    ("sslQuorum", "false"),
    ("superUser", ""),
];

/// Families of [`Treatment::TlsDetail`].
const TLS_PREFIXES: &[&str] = &[
    "ssl.",
    "client.certReload",
    "sslQuorumReloadCertFiles",
    "X509AuthenticationProvider.",
    "metricsProvider.ssl.",
];

/// What is done with `key` (without the prefix `zookeeper.`), or `None` if upstream 3.9 does not know it either.
pub fn treatment(key: &str) -> Option<Treatment> {
    let value_of = |table: &[(&'static str, &'static str)]| {
        table.iter().find(|(known, _)| *known == key).map(|(_, default)| *default)
    };
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| key.starts_with(prefix));
    if USED.contains(&key) || ["server.", "group.", "weight."].iter().any(|family| key.starts_with(family)) {
        Some(Used)
    } else if let Some(harmless) = value_of(PROTECTION) {
        Some(Protection { harmless })
    } else if key.starts_with("authProvider.") || key.starts_with("superUser.") {
        Some(Protection { harmless: "" })
    } else if let Some(default) = value_of(NOT_YET) {
        Some(NotYet { default })
    } else if starts(TLS_PREFIXES) {
        Some(TlsDetail)
    } else if NOT_NEEDED.contains(&key) || starts(NOT_NEEDED_PREFIXES) || key.starts_with("connection") {
        Some(NotNeeded)
    } else {
        None
    }
}
