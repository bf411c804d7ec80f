//! Commands about clients: their connections, sessions and watches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use zk_jute::SessionId;

use super::merge;
use crate::admin::Admin;
use crate::net::connections::ConnView;

/// `connections`, and, `brief`, the part of `stats` about them.
pub(super) fn connections(admin: &Admin, brief: bool) -> Value {
    let all: Vec<Value> = admin.connections.all().iter().filter_map(|conn| connection(conn, brief)).collect();
    json!({ "connections": all, "secure_connections": [] })
}

/// `None` for a connection that has said nothing yet.
fn connection(conn: &ConnView, brief: bool) -> Option<Value> {
    let info = conn.info()?;
    let value = json!({
        "remote_socket_address": conn.remote.to_string(),
        "interest_ops": 1,
        "outstanding_requests": info.queued,
        "packets_received": info.packets_received,
        "packets_sent": info.packets_sent,
    });
    if brief {
        return Some(value);
    }
    let more = json!({
        "session_id": info.session.0,
        "last_operation": info.last_op,
        "established": info.established_ms,
        "session_timeout": info.timeout_ms,
        "last_cxid": info.last_cxid,
        "last_zxid": info.last_zxid,
        "last_response_time": info.last_response_ms,
        "last_latency": info.last_latency_ms,
        "min_latency": info.min_latency_ms,
        "avg_latency": info.avg_latency_ms,
        "max_latency": info.max_latency_ms,
    });
    Some(merge(value, more))
}

/// `dump`. When sessions expire is known to the core alone, so that map is empty, as it is on upstream's learners.
pub(super) fn dump(admin: &Admin) -> Value {
    let tree = admin.shared.tree.read();
    let ephemerals: BTreeMap<String, Vec<String>> = tree
        .ephemerals()
        .map(|(session, paths)| (session.0.to_string(), paths.map(ToString::to_string).collect()))
        .collect();
    json!({ "expiry_time_to_session_ids": {}, "session_id_to_ephemeral_paths": ephemerals })
}

/// `watch_summary`.
pub(super) fn watch_summary(admin: &Admin) -> Value {
    let summary = admin.shared.watches.lock().summary();
    json!({
        "num_connections": summary.connections,
        "num_paths": summary.paths,
        "num_total_watches": summary.total,
    })
}

/// `watches`.
pub(super) fn watches(admin: &Admin) -> Value {
    let report = admin.shared.watches.lock().by_session();
    let paths =
        |paths: BTreeSet<std::sync::Arc<str>>| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let report: BTreeMap<String, _> =
        report.into_iter().map(|(session, watched)| (session.0.to_string(), paths(watched))).collect();
    json!({ "session_id_to_watched_paths": report })
}

/// `watches_by_path`.
pub(super) fn watches_by_path(admin: &Admin) -> Value {
    let report = admin.shared.watches.lock().by_path();
    let ids =
        |sessions: BTreeSet<SessionId>| sessions.into_iter().map(|session| session.0).collect::<Vec<_>>();
    let report: BTreeMap<String, _> =
        report.into_iter().map(|(path, sessions)| (path.to_string(), ids(sessions))).collect();
    json!({ "path_to_session_ids": report })
}
