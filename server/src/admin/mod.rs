//! What operators see: four-letter words on the client port, HTTP commands and metrics on the admin port.
//!
//! Names and shapes are upstream's, because tools parse them; `member` is ours. Nothing here acts on the member.

mod catalog;
mod commands;
mod environment;
mod exposition;
mod http;
mod member;
mod monitor;
mod process;
mod quota;
mod trace_mask;
pub mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zk_core::Shared;
use zk_core::facts::{Facts, Role};

use crate::clock::Clock;
use crate::config::Config;
use crate::disk::StorageStatus;
use crate::driver::Handle;
use crate::metrics::Metrics;
use crate::net::connections::Connections;

pub use http::{serve_admin, serve_metrics};

/// What clients see as the version: the upstream release whose behaviour this is, then our own in the place of the
/// revision. Clients parse the form `<release>-<revision>, built on <date> UTC`, where a revision has no dash.
pub const FULL_VERSION: &str =
    concat!("3.9.5-zkensemble.", env!("CARGO_PKG_VERSION"), ", built on 2026-02-01 00:00 UTC");
/// How long a picture of the peer is waited for before the last one is shown.
const FACTS_LIMIT: Duration = Duration::from_secs(1);
/// What upstream answers while there is no role to serve in.
pub const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// What is known of the peer.
#[derive(Debug)]
pub struct Picture {
    pub facts: Facts,
    /// The driver did not answer within a second: the facts may be of any age.
    pub stale: bool,
}

/// Everything that reports need. One for the process.
#[derive(Debug)]
pub struct Admin {
    pub config: Arc<Config>,
    pub driver: Handle,
    /// The newest picture known, shown when the driver does not answer in time.
    pub published: Arc<Mutex<Facts>>,
    pub shared: Arc<Shared>,
    pub metrics: Arc<Metrics>,
    pub connections: Arc<Connections>,
    pub storage: Arc<StorageStatus>,
    pub clock: Clock,
    /// Random, different for each start.
    pub boot_id: String,
}

impl Admin {
    /// A picture of the peer, fresh if the driver answers in time.
    pub async fn picture(&self) -> Picture {
        match self.driver.facts(FACTS_LIMIT).await {
            Some(facts) => Picture { facts, stale: false },
            None => Picture { facts: self.published.lock().clone(), stale: true },
        }
    }

    /// Upstream's word for what this server is (`getState`).
    pub fn server_state(&self, facts: &Facts) -> &'static str {
        match facts.role {
            Role::Leading => "leader",
            Role::Following => "follower",
            Role::Observing => "observer",
            Role::Standalone => "standalone",
            Role::Draining if self.config.ensemble.is_none() => "standalone",
            Role::Loading | Role::Looking | Role::Draining | Role::Halted => "looking",
        }
    }

    /// Directory of snapshots and epoch files.
    pub fn snap_dir(&self) -> PathBuf {
        self.config.storage.data_dir.join("version-2")
    }

    /// Directory of transaction logs.
    pub fn log_dir(&self) -> PathBuf {
        self.config.storage.data_log_dir.join("version-2")
    }
}

/// Where the role is in the protocol (upstream `ZabState`); `None` without a role of an ensemble.
fn zab_phase(facts: &Facts) -> Option<&'static str> {
    match facts.role {
        Role::Loading | Role::Looking | Role::Draining | Role::Halted | Role::Standalone => None,
        Role::Leading | Role::Following | Role::Observing if facts.serving => Some("broadcast"),
        Role::Leading | Role::Following | Role::Observing => Some("synchronization"),
    }
}

/// Upstream's `getDetailedPeerState`; absent for a standalone server.
fn peer_state(facts: &Facts) -> Option<String> {
    let role = match facts.role {
        Role::Leading => "leading",
        Role::Following => "following",
        Role::Observing => "observing",
        Role::Looking | Role::Loading => return Some("looking".to_owned()),
        Role::Standalone | Role::Draining | Role::Halted => return None,
    };
    Some(format!("{role} - {}", zab_phase(facts).unwrap_or_default()))
}

/// Bytes of all files directly in `dir`.
fn dir_size(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

/// Java's `Double.toString`, near enough for the values shown here.
fn java_double(value: f64) -> String {
    format!("{value:?}")
}
