//! `/commands/member`: everything the operator needs to know about one member, as one JSON object. Ours, not upstream's.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use zk_core::facts::{Facts, Role};

use super::Admin;
use crate::disk::StorageStatus;

/// Digests shown beside the present one: the newest of those at round zxids.
const DIGESTS_SHOWN: usize = 16;

/// The answer, beside `command` and `error`. Field names are a contract with the operator.
#[derive(Debug, Serialize)]
struct Member {
    version: &'static str,
    boot_id: String,
    my_id: i64,
    role: &'static str,
    leader_id: Option<i64>,
    accepted_epoch: u32,
    current_epoch: u32,
    /// As in the files, read now; absent if there is none or it cannot be read.
    accepted_epoch_disk: Option<u32>,
    current_epoch_disk: Option<u32>,
    epoch_files_error: Option<String>,
    zxid_logged: String,
    zxid_committed: String,
    zxid_applied: String,
    /// Takes part: serves in a role.
    synced: bool,
    voters: Vec<i64>,
    observers: Vec<i64>,
    /// With the leader only.
    synced_voters: Vec<i64>,
    synced_observers: Vec<i64>,
    sync_queue_depth: u64,
    config_version: String,
    digests: Vec<Digest>,
    digest_mismatches: u64,
    disk_free_bytes: u64,
    disk_total_bytes: u64,
    inodes_free: u64,
    disk_full: bool,
    draining: bool,
    /// zxid of the last clean stop, if nothing was written since.
    clean_marker: Option<String>,
    uptime_ms: u64,
    client_port: u16,
    sessions: u64,
    connections: u64,
    outstanding: u64,
}

#[derive(Debug, Serialize)]
struct Digest {
    zxid: String,
    digest: String,
    version: i32,
}

/// Reads the facts and the disk. Blocks on small files.
pub(super) fn member(admin: &Admin, facts: &Facts) -> Value {
    let ids = |ids: Vec<zk_jute::ServerId>| ids.into_iter().map(|id| id.0).collect::<Vec<_>>();
    let my_id = admin.config.my_id;
    let (voters, observers) = match &admin.config.ensemble {
        Some(ensemble) => (ids(ensemble.voters().collect()), ids(ensemble.observers().collect())),
        None => (vec![my_id.0], Vec::new()),
    };
    let epochs = EpochFiles::read(&admin.snap_dir());
    let usage = StorageStatus::usage(&admin.config.storage);
    let member = Member {
        version: env!("CARGO_PKG_VERSION"),
        boot_id: admin.boot_id.clone(),
        my_id: my_id.0,
        role: role_name(facts),
        leader_id: facts.leader.map(|id| id.0),
        accepted_epoch: facts.accepted_epoch.0,
        current_epoch: facts.current_epoch.0,
        accepted_epoch_disk: epochs.accepted,
        current_epoch_disk: epochs.current,
        epoch_files_error: epochs.error,
        zxid_logged: facts.zxid_logged.to_string(),
        zxid_committed: facts.zxid_committed.to_string(),
        zxid_applied: facts.zxid_applied.to_string(),
        synced: facts.serving,
        voters,
        observers,
        synced_voters: synced(facts, my_id.0, true),
        synced_observers: synced(facts, my_id.0, false),
        sync_queue_depth: facts.sync_queue_depth,
        config_version: format!("{:#x}", facts.config_version),
        digests: digests(admin),
        digest_mismatches: facts.digest_mismatches,
        disk_free_bytes: usage.free,
        disk_total_bytes: usage.total,
        inodes_free: usage.inodes_free,
        disk_full: admin.storage.is_full(&usage),
        draining: facts.draining,
        clean_marker: clean_marker(&admin.snap_dir()),
        uptime_ms: admin.clock.uptime_ms(),
        client_port: admin.config.client.address.as_ref().map_or(0, |address| address.port),
        sessions: facts.sessions,
        connections: admin.connections.count() as u64,
        outstanding: facts.outstanding,
    };
    serde_json::to_value(member).unwrap_or_else(|failure| json!({ "error": failure.to_string() }))
}

const fn role_name(facts: &Facts) -> &'static str {
    if facts.draining {
        return "draining";
    }
    match facts.role {
        Role::Leading => "leader",
        Role::Following => "follower",
        Role::Observing => "observer",
        Role::Standalone => "standalone",
        Role::Loading | Role::Looking => "looking",
        Role::Draining | Role::Halted => "draining",
    }
}

/// Ids of the synced learners; the leader counts itself among the voters once it serves.
fn synced(facts: &Facts, my_id: i64, voters: bool) -> Vec<i64> {
    if facts.role != Role::Leading {
        return Vec::new();
    }
    let learners = facts.learners.iter().filter(|learner| learner.synced && learner.voter == voters);
    let mut ids: Vec<i64> = learners.map(|learner| learner.sid.0).collect();
    if voters && facts.serving && !ids.contains(&my_id) {
        ids.push(my_id);
    }
    ids.sort_unstable();
    ids
}

fn digests(admin: &Admin) -> Vec<Digest> {
    let tree = admin.shared.tree.read();
    let log = tree.digest_log();
    let skip = log.iter().len().saturating_sub(DIGESTS_SHOWN);
    let mut shown: Vec<_> = log.iter().skip(skip).collect();
    let present = (tree.last_processed(), tree.digest());
    if shown.last() != Some(&present) {
        shown.push(present);
    }
    let digest = |(zxid, digest): (zk_jute::Zxid, i64)| Digest {
        zxid: zxid.to_string(),
        digest: format!("{digest:#x}"),
        version: zk_core::tree::DIGEST_VERSION,
    };
    shown.into_iter().map(digest).collect()
}

/// The two epoch files as they are now.
struct EpochFiles {
    accepted: Option<u32>,
    current: Option<u32>,
    error: Option<String>,
}

impl EpochFiles {
    fn read(dir: &Path) -> Self {
        let mut files = Self { accepted: None, current: None, error: None };
        let mut read = |name: &str| match std::fs::read_to_string(dir.join(name)) {
            Ok(text) => match text.trim().parse::<u32>() {
                Ok(epoch) => Some(epoch),
                Err(error) => {
                    files.error = Some(format!("{name}: {error}"));
                    None
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                files.error = Some(format!("{name}: {error}"));
                None
            }
        };
        let (accepted, current) = (read("acceptedEpoch"), read("currentEpoch"));
        (files.accepted, files.current) = (accepted, current);
        files
    }
}

/// The marker holds the zxid in hexadecimal.
fn clean_marker(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join("clean")).ok()?;
    Some(format!("0x{}", text.trim().trim_start_matches("0x")))
}
