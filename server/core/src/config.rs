//! What a peer is told about itself and its ensemble. Static here; the member map is one value so that dynamic
//! reconfiguration can replace it as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_jute::ServerId;

/// One member of the configuration. Identity is the id and these strings, never a resolved address (ZOOKEEPER-4708).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub id: ServerId,
    pub voter: bool,
    /// Weight in a hierarchical quorum; 1 by default, 0 never leads.
    pub weight: u32,
    /// Group of a hierarchical quorum, if groups are used.
    pub group: Option<u32>,
    /// The text after `server.N=`, for notifications and `/zookeeper/config`.
    pub text: Arc<str>,
}

/// A whole configuration with its version (the zxid of the reconfig that made it, 0 for a static one).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Membership {
    pub version: i64,
    pub members: BTreeMap<ServerId, Member>,
}

impl Membership {
    /// The text form that notifications, NEWLEADER and `/zookeeper/config` carry.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for member in self.members.values() {
            text.push_str(&format!("server.{}={}\n", member.id, member.text));
        }
        text.push_str(&format!("version={:x}", self.version));
        text
    }
}

/// Settings of one peer. Names and defaults are upstream's.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    pub my_id: ServerId,
    /// `None`: a standalone server without election or quorum.
    pub membership: Option<Membership>,
    /// Milliseconds; upstream requires it in the file, 2000 is usual.
    pub tick_ms: u64,
    /// Ticks.
    pub init_limit: u64,
    /// Ticks.
    pub sync_limit: u64,
    /// Transactions kept in memory for DIFF synchronization (`commitLogCount`, 500).
    pub commit_log_count: usize,
    /// Transactions between snapshots (`snapCount`, 100000).
    pub snap_count: u64,
    /// Bytes of log between snapshots (`snapSizeLimitInKb` x 1024, 4 GiB).
    pub snap_size_limit: u64,
    /// Milliseconds; `fastleader.minNotificationInterval` 200, `maxNotificationInterval` 60000, finalizeWait 200.
    pub election_min_ms: u64,
    pub election_max_ms: u64,
    pub election_finalize_ms: u64,
    /// True if followers serve observers on `observerMasterPort`, and observers dial it.
    pub observer_master: bool,
    /// Seed for the jitter of snapshots, so that members do not all snapshot at once.
    pub seed: u64,
    /// Rules that the request pipeline needs.
    pub rules: Rules,
}

/// Switches of the request pipeline; names are upstream's.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `skipACL`.
    pub skip_acl: bool,
    /// `zookeeper.extendedTypesEnabled`: TTL nodes.
    pub extended_types: bool,
    /// `zookeeper.enforceQuota`.
    pub enforce_quota: bool,
    /// `reconfigEnabled`.
    pub reconfig_enabled: bool,
    /// `zookeeper.digest.enabled`.
    pub digest_enabled: bool,
    /// `zookeeper.closeSessionTxn.enabled`.
    pub close_session_txn: bool,
    /// `zookeeper.DigestAuthenticationProvider.superDigest`, as `user:base64`.
    pub super_digest: Option<Arc<str>>,
    /// `jute.maxbuffer`, bytes: no transaction larger than what every reader accepts is ever proposed (invariant 11).
    pub max_buffer: usize,
    /// `znode.container.checkIntervalMs`, `maxPerMinute`, `maxNeverUsedIntervalMs`.
    pub container_check_ms: u64,
    pub container_max_per_minute: u64,
    pub container_max_never_used_ms: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            skip_acl: false,
            extended_types: false,
            enforce_quota: false,
            reconfig_enabled: false,
            digest_enabled: true,
            close_session_txn: true,
            super_digest: None,
            max_buffer: zk_jute::consts::JUTE_MAX_BUFFER,
            container_check_ms: 60_000,
            container_max_per_minute: 10_000,
            container_max_never_used_ms: 0,
        }
    }
}
