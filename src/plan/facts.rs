//! What one member says of itself: the JSON of its admin command `member`.
//!
//! Fields a newer server adds are ignored and fields an older one lacks take their default, which never claims
//! more than was said: not synced, no epoch on disk, no digest.

use serde::{Deserialize, Deserializer};

use super::ensemble::MemberId;

/// A transaction id: the epoch in the upper 32 bits, a counter in the lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zxid(pub i64);

/// What a member is doing (upstream's `ServerState`, and more).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Leader,
    Follower,
    Observer,
    Standalone,
    Looking,
    Draining,
    /// Not said, or a word this operator does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The digest of the data tree after one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Digest {
    /// The transaction.
    pub zxid: Zxid,
    /// The digest as the member prints it.
    pub digest: String,
    /// Version of the digest's definition; only equal versions compare.
    pub version: i64,
}

/// What one member says of itself.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MemberFacts {
    /// Why the member could not answer, if it could not.
    pub error: Option<String>,
    /// Version of the server.
    pub version: String,
    /// Differs for every run of the process.
    pub boot_id: String,
    /// The member's id.
    pub my_id: MemberId,
    /// What it is doing.
    pub role: Role,
    /// The leader it follows, or itself when it leads.
    pub leader_id: Option<MemberId>,
    /// `acceptedEpoch` in memory.
    pub accepted_epoch: i64,
    /// `currentEpoch` in memory.
    pub current_epoch: i64,
    /// `acceptedEpoch` as its file holds it; none when it cannot be read.
    pub accepted_epoch_disk: Option<i64>,
    /// `currentEpoch` as its file holds it; none when it cannot be read.
    pub current_epoch_disk: Option<i64>,
    /// What is wrong with the epoch files.
    pub epoch_files_error: Option<String>,
    /// Last transaction durable in the log.
    pub zxid_logged: Zxid,
    /// Last transaction known committed.
    pub zxid_committed: Zxid,
    /// Last transaction applied to the tree.
    pub zxid_applied: Zxid,
    /// Whether it caught up with the leader and serves.
    pub synced: bool,
    /// Voters of the configuration it holds.
    pub voters: Vec<MemberId>,
    /// Observers of the configuration it holds.
    pub observers: Vec<MemberId>,
    /// Voters synced with it, itself included; the leader only.
    pub synced_voters: Vec<MemberId>,
    /// Observers synced with it; the leader only.
    pub synced_observers: Vec<MemberId>,
    /// Requests waiting for their fsync.
    pub sync_queue_depth: u64,
    /// Version of the configuration it holds.
    pub config_version: Zxid,
    /// Digests of its latest transactions.
    pub digests: Vec<Digest>,
    /// Digests that did not match what the leader sent, since the process started.
    pub digest_mismatches: u64,
    /// Free bytes of the data disk.
    pub disk_free_bytes: Option<u64>,
    /// Size of the data disk in bytes.
    pub disk_total_bytes: Option<u64>,
    /// Whether writes fail because the disk is full.
    pub disk_full: bool,
    /// Whether it is draining.
    pub draining: bool,
    /// Milliseconds since the process started.
    pub uptime_ms: u64,
    /// Port it serves clients on.
    pub client_port: u16,
    /// Sessions of the ensemble it knows.
    pub sessions: u64,
    /// Client connections.
    pub connections: u64,
    /// Client requests in flight.
    pub outstanding: u64,
}

impl Zxid {
    /// The epoch part.
    #[must_use]
    pub fn epoch(self) -> i64 {
        self.0 >> 32
    }

    /// The counter part: transactions since the epoch began.
    #[must_use]
    pub fn counter(self) -> i64 {
        self.0 & 0xffff_ffff
    }
}

impl std::fmt::Display for Zxid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl<'de> Deserialize<'de> for Zxid {
    /// Reads `"0x300000004"`, as every ZooKeeper tool prints it, or a plain number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(i64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(number) => Ok(Self(number)),
            Form::Text(text) => {
                let digits = text.strip_prefix("0x").unwrap_or(&text);
                // -1, a member without history, is written as sixteen f.
                let bits = u64::from_str_radix(digits, 16).map_err(|error| {
                    serde::de::Error::custom(format!("{text:?} is not a hexadecimal zxid: {error}"))
                })?;
                Ok(Self(bits.cast_signed()))
            }
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Standalone => "standalone",
            Self::Looking => "looking",
            Self::Draining => "draining",
            Self::Unknown => "unknown",
        })
    }
}

impl MemberFacts {
    /// Whether it says it leads. A standalone server leads itself.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader | Role::Standalone)
    }

    /// Share of the data disk in use, 0 to 100, when the member knows.
    #[must_use]
    pub fn disk_used_percent(&self) -> Option<u64> {
        let (free, total) = (self.disk_free_bytes?, self.disk_total_bytes?);
        (total > 0).then(|| 100 - (free.min(total) / (total / 100).max(1)).min(100))
    }

    /// Whether the data disk is full or nearly so: less than a twentieth and less than 1 GiB free.
    #[must_use]
    pub fn disk_pressure(&self) -> bool {
        const SMALL: u64 = 1 << 30;
        let near = match (self.disk_free_bytes, self.disk_total_bytes) {
            (Some(free), Some(total)) if total > 0 => free < SMALL.min(total / 20),
            _ => false,
        };
        self.disk_full || near
    }

    /// What is wrong with the epoch files: unreadable, or not what memory says (invariants 3 and 8).
    #[must_use]
    pub fn epoch_trouble(&self) -> Option<String> {
        if let Some(error) = &self.epoch_files_error {
            return Some(error.clone());
        }
        let (accepted, current) = (self.accepted_epoch_disk, self.current_epoch_disk);
        if self.synced && (accepted, current) != (Some(self.accepted_epoch), Some(self.current_epoch)) {
            return Some(format!(
                "acceptedEpoch and currentEpoch are {} and {} in memory, {} and {} on disk",
                self.accepted_epoch,
                self.current_epoch,
                shown(accepted),
                shown(current)
            ));
        }
        match (accepted, current) {
            (Some(accepted), Some(current)) if accepted < current => {
                Some(format!("acceptedEpoch {accepted} is below currentEpoch {current}"))
            }
            _ => None,
        }
    }
}

fn shown(epoch: Option<i64>) -> String {
    epoch.map_or_else(|| "missing".to_owned(), |epoch| epoch.to_string())
}
