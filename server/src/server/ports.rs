//! Every listener of a server.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tracing::error;

use crate::config::{AdminConfig, Config, HostPort};
use crate::net::dial::Listen;

/// How long the name of the admin address may take to resolve.
const ADMIN_LIMIT: Duration = Duration::from_secs(5);

/// Every listener, opened before anything else happens: a port in use must be found out early.
pub(super) struct Ports {
    pub(super) client: Option<TcpListener>,
    pub(super) quorum: Vec<TcpListener>,
    pub(super) observer_master: Vec<TcpListener>,
    pub(super) election: Vec<TcpListener>,
    pub(super) admin: Option<TcpListener>,
    pub(super) metrics: Option<TcpListener>,
}

impl Ports {
    /// Opens all that are configured. Waits as long as names of this member do not resolve or its ports are in use, so
    /// the caller must be ready to give it up; what is open by then is closed again.
    ///
    /// # Errors
    /// A port cannot be opened; the chain has the system's error.
    pub(super) async fn open(config: &Config) -> anyhow::Result<Self> {
        let client = match &config.client.address {
            Some(address) => {
                let listen = Listen {
                    backlog: config.client.backlog,
                    keep_alive: config.client.keep_alive,
                    ..once(address)
                };
                Some(open(&listen, "client port").await?)
            }
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
            ports.metrics = Some(open(&once(&metrics.address), "metrics port").await?);
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
        // Last, when this member's own name has been seen to resolve.
        if config.admin.enabled {
            ports.admin = open_admin(&config.admin).await;
        }
        Ok(ports)
    }
}

/// As upstream: a member without its admin port is better than no member.
async fn open_admin(admin: &AdminConfig) -> Option<TcpListener> {
    let opened = timeout(ADMIN_LIMIT, open(&once(&admin.address), "admin port")).await;
    let failure = match opened {
        Ok(Ok(listener)) => return Some(listener),
        Ok(Err(failure)) => failure,
        Err(_) => {
            anyhow::anyhow!("admin port {}: the name does not resolve within {ADMIN_LIMIT:?}", admin.address)
        }
    };
    error!("{failure:#}; this server runs without (see admin.serverPort and admin.serverAddress)");
    None
}

/// A port that is an error if it is in use.
fn once(address: &HostPort) -> Listen {
    Listen {
        address: address.clone(),
        all_interfaces: false,
        backlog: None,
        retries: Some(0),
        keep_alive: false,
    }
}

async fn open(listen: &Listen, what: &str) -> anyhow::Result<TcpListener> {
    listen.open(what).await.with_context(|| format!("{what} {}", listen.address))
}

async fn open_between_members(
    config: &Config,
    addresses: &[HostPort],
    what: &str,
) -> anyhow::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    // On all interfaces one listener a port is enough, and two would collide.
    let mut seen = BTreeSet::new();
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
        listeners.push(open(&listen, what).await?);
    }
    Ok(listeners)
}
