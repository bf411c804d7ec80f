//! Commands about the server itself: settings, counters, directories, digests.

use serde_json::{Value, json};
use zk_core::facts::{Facts, Role};
use zk_core::tree::DIGEST_VERSION;

use crate::admin::{Admin, FULL_VERSION, dir_size};
use crate::metrics::BufferStats;

/// `configuration` (upstream `ZooKeeperServerConf`).
pub(super) fn configuration(admin: &Admin) -> Value {
    let config = &admin.config;
    json!({
        "client_port": config.client.address.as_ref().map_or(-1, |address| i32::from(address.port)),
        "data_dir": admin.snap_dir(),
        "data_log_dir": admin.log_dir(),
        "tick_time": config.peer.tick_ms,
        "max_client_cnxns": config.client.max_per_ip,
        "min_session_timeout": config.client.min_session_timeout,
        "max_session_timeout": config.client.max_session_timeout,
        "server_id": if config.ensemble.is_some() { config.my_id.0 } else { 0 },
        "client_port_listen_backlog": config.client.backlog.map_or(-1, i64::from),
    })
}

/// `dirs`, in bytes.
pub(super) fn dirs(admin: &Admin) -> Value {
    json!({ "datadir_size": dir_size(&admin.snap_dir()), "logdir_size": dir_size(&admin.log_dir()) })
}

/// `hash`.
pub(super) fn digests(admin: &Admin) -> Value {
    let tree = admin.shared.tree.read();
    let digest = |(zxid, digest): (zk_jute::Zxid, i64)| json!({ "zxid": zxid.0, "digest": digest, "digest_version": DIGEST_VERSION });
    json!({ "digests": tree.digest_log().iter().map(digest).collect::<Vec<_>>() })
}

/// `last_snapshot`: zxid and time (seconds since 1970) of the newest snapshot file.
pub(super) fn last_snapshot(admin: &Admin) -> Value {
    let newest = admin.storage.last_snapshot();
    json!({
        "zxid": format!("{:x}", newest.map_or(-1, |(zxid, _)| zxid.0)),
        "timestamp": newest.map_or(-1, |(_, wall_ms)| wall_ms / 1000),
    })
}

fn buffer(stats: &BufferStats) -> Value {
    let (last, min, max) = stats.get();
    json!({ "last_buffer_size": last, "min_buffer_size": min, "max_buffer_size": max })
}

/// `server_stats` (upstream `ServerStats`, each getter a field).
pub(super) fn server_stats(admin: &Admin, facts: &Facts) -> Value {
    let metrics = &admin.metrics;
    let response = buffer(&metrics.client_response);
    let (zxid, nodes) = {
        let tree = admin.shared.tree.read();
        (tree.last_processed(), tree.node_count())
    };
    let mut stats = json!({
        "version": FULL_VERSION,
        "read_only": false,
        "server_stats": {
            "packets_sent": metrics.packets_sent.get(),
            "packets_received": metrics.packets_received.get(),
            "max_latency": metrics.latency.max(),
            "min_latency": metrics.latency.min(),
            "avg_latency": metrics.latency.avg(),
            "fsync_threshold_exceed_count": metrics.fsync_threshold_exceeded.get(),
            "client_response_stats": response.clone(),
            "data_dir_size": dir_size(&admin.snap_dir()),
            "log_dir_size": dir_size(&admin.log_dir()),
            "last_processed_zxid": zxid.0,
            "outstanding_requests": facts.outstanding,
            "server_state": admin.server_state(facts),
            "num_alive_client_connections": admin.connections.count(),
            "provider_null": false,
            "uptime": admin.clock.uptime_ms(),
            // TLS and failed authentication of members: neither exists here yet.
            "auth_failed_count": 0,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
        },
        "client_response": response,
        "node_count": nodes,
    });
    if facts.role == Role::Leading {
        stats["proposal_stats"] = buffer(&metrics.proposal_size);
    }
    stats
}

/// The configuration's text with the values of secret keys blotted out. Upstream shows them.
pub(super) fn without_secrets(text: &str) -> String {
    let line = |line: &str| {
        let key = line.split(['=', ':']).next().unwrap_or_default().trim().to_ascii_lowercase();
        let secret = key.contains("password") || key.contains("passwd") || key.contains("superdigest");
        if secret {
            format!("{}=********", line.split(['=', ':']).next().unwrap_or_default().trim_end())
        } else {
            line.to_owned()
        }
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_configuration_are_never_shown() {
        let text = "tickTime=2000\nssl.keyStore.password = hunter2\nDigestAuthenticationProvider.superDigest:super:x=\n";
        let shown = without_secrets(text);
        assert_eq!(
            shown,
            "tickTime=2000\nssl.keyStore.password=********\nDigestAuthenticationProvider.superDigest=********\n"
        );
    }
}
