//! `/commands/<name>` (upstream `Commands`): names, aliases and fields are upstream's.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use zk_core::facts::{Facts, Role};

use super::environment::environment;
use super::words::peer_state;
use super::{Admin, FULL_VERSION, NOT_SERVING, dir_size, monitor};
use crate::net::connections::ConnView;

/// A command: its names, the first being the primary one, and whether it needs a serving role.
struct Command {
    names: &'static [&'static str],
    needs_server: bool,
    run: fn(&Admin, &Facts, &BTreeMap<String, String>) -> Value,
}

const fn command(
    names: &'static [&'static str],
    needs_server: bool,
    run: fn(&Admin, &Facts, &BTreeMap<String, String>) -> Value,
) -> Command {
    Command { names, needs_server, run }
}

const COMMANDS: &[Command] = &[
    command(&["configuration", "conf", "config"], true, |admin, _, _| configuration(admin)),
    command(&["connection_stat_reset", "crst"], true, |admin, _, _| {
        admin.connections.all().iter().for_each(|conn| conn.ask_reset());
        json!({})
    }),
    command(&["connections", "cons"], true, |admin, _, _| connections(admin, false)),
    command(&["dirs"], true, |admin, _, _| {
        json!({ "datadir_size": dir_size(&admin.snap_dir()), "logdir_size": dir_size(&admin.log_dir()) })
    }),
    command(&["dump"], true, |admin, _, _| dump(admin)),
    command(&["environment", "env", "envi"], false, |_, _, _| {
        environment().into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect::<Map<_, _>>().into()
    }),
    command(&["get_trace_mask", "gtmk"], false, |_, _, _| json!({ "tracemask": 306 })),
    command(&["hash"], true, |admin, _, _| digests(admin)),
    command(&["initial_configuration", "icfg"], true, |admin, _, _| {
        json!({ "initial_configuration": admin.config.initial_text })
    }),
    command(&["is_read_only", "isro"], true, |_, _, _| json!({ "read_only": false })),
    command(&["last_snapshot", "lsnp"], true, |admin, _, _| last_snapshot(admin)),
    command(&["leader", "lead"], true, leader),
    command(&["monitor", "mntr"], false, |admin, facts, _| monitor_values(admin, facts)),
    command(&["observer_connection_stat_reset", "orst"], true, |_, _, _| json!({})),
    command(&["observers", "obsr"], true, |admin, facts, _| observers(admin, facts)),
    command(&["ruok"], true, |_, _, _| json!({})),
    command(&["server_stats", "srvr"], true, |admin, facts, _| server_stats(admin, facts)),
    command(&["set_trace_mask", "stmk"], false, |_, _, arguments| set_trace_mask(arguments)),
    command(&["stat_reset", "srst"], true, |admin, _, _| {
        admin.metrics.reset_server_stats();
        json!({})
    }),
    command(&["stats", "stat"], true, |admin, facts, _| {
        merge(server_stats(admin, facts), connections(admin, true))
    }),
    command(&["system_properties", "sysp"], false, |admin, _, _| {
        json!(crate::config::without_secrets(&admin.config.properties))
    }),
    command(&["voting_view"], true, |admin, _, _| voting_view(admin)),
    command(&["watch_summary", "wchs"], true, |admin, _, _| {
        let summary = admin.shared.watches.lock().summary();
        json!({
            "num_connections": summary.connections,
            "num_paths": summary.paths,
            "num_total_watches": summary.total,
        })
    }),
    command(&["watches", "wchc"], true, |admin, _, _| {
        let report = admin.shared.watches.lock().by_session();
        let report: BTreeMap<String, _> = report.into_iter().map(|(id, paths)| (id.0.to_string(), strings(paths))).collect();
        json!({ "session_id_to_watched_paths": report })
    }),
    command(&["watches_by_path", "wchp"], true, |admin, _, _| {
        let report = admin.shared.watches.lock().by_path();
        let ids = |sessions: std::collections::BTreeSet<zk_jute::SessionId>| {
            sessions.into_iter().map(|session| session.0).collect::<Vec<_>>()
        };
        let report: BTreeMap<String, _> = report.into_iter().map(|(path, ids_of)| (path.to_string(), ids(ids_of))).collect();
        json!({ "path_to_session_ids": report })
    }),
    command(&["zabstate"], false, zabstate),
];

/// Primary names, for the page of links; `member` is ours.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.names[0]).chain(["member"])
}

/// Runs one command; unknown ones and refusals are answers too, as upstream has it.
pub async fn run(admin: &Admin, name: &str, arguments: &BTreeMap<String, String>) -> Value {
    if name == "member" {
        let facts = admin.facts().await;
        return serde_json::to_value(super::member::member(admin, &facts))
            .unwrap_or_else(|error| json!({ "command": "member", "error": error.to_string() }));
    }
    let Some(command) = COMMANDS.iter().find(|command| command.names.contains(&name)) else {
        return json!({ "command": name, "error": format!("Unknown command: {name}") });
    };
    if command.needs_server && !admin.shared.is_serving() {
        return json!({ "command": name, "error": NOT_SERVING });
    }
    let facts = admin.facts().await;
    let data = (command.run)(admin, &facts, arguments);
    merge(json!({ "command": command.names[0], "error": null }), data)
}

fn merge(into: Value, from: Value) -> Value {
    match (into, from) {
        (Value::Object(mut into), Value::Object(from)) => {
            into.extend(from);
            Value::Object(into)
        }
        (into, _) => into,
    }
}

fn strings(paths: std::collections::BTreeSet<std::sync::Arc<str>>) -> Vec<String> {
    paths.into_iter().map(|path| path.to_string()).collect()
}

fn configuration(admin: &Admin) -> Value {
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

fn connections(admin: &Admin, brief: bool) -> Value {
    let all: Vec<Value> = admin.connections.all().iter().filter_map(|conn| connection(conn, brief)).collect();
    json!({ "connections": all, "secure_connections": [] })
}

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

fn dump(admin: &Admin) -> Value {
    let tree = admin.shared.tree.read();
    let ephemerals: BTreeMap<String, Vec<String>> = tree
        .ephemerals()
        .map(|(session, paths)| (session.0.to_string(), paths.map(ToString::to_string).collect()))
        .collect();
    json!({ "expiry_time_to_session_ids": {}, "session_id_to_ephemeral_paths": ephemerals })
}

fn digests(admin: &Admin) -> Value {
    let tree = admin.shared.tree.read();
    let digests: Vec<Value> = tree
        .digest_log()
        .iter()
        .map(|(zxid, digest)| {
            json!({ "zxid": zxid.0, "digest": digest, "digestVersion": zk_core::tree::DIGEST_VERSION })
        })
        .collect();
    json!({ "digests": digests })
}

/// zxid and time (seconds) of the newest snapshot file.
fn last_snapshot(admin: &Admin) -> Value {
    let newest = admin.storage.last_snapshot();
    json!({
        "zxid": newest.map_or_else(|| "ffffffffffffffff".to_owned(), |(zxid, _)| format!("{:x}", zxid.0)),
        "timestamp": newest.map_or(-1, |(_, wall_ms)| wall_ms / 1000),
    })
}

fn leader(admin: &Admin, facts: &Facts, _: &BTreeMap<String, String>) -> Value {
    let Some(ensemble) = &admin.config.ensemble else { return json!({ "error": "server is not initialized" }) };
    let line = facts.leader.and_then(|id| ensemble.servers.get(&id));
    json!({
        "is_leader": facts.role == Role::Leading,
        "leader_id": facts.leader.map_or(-1, |id| id.0),
        "leader_ip": line.and_then(|line| line.quorum.first()).map_or("", |address| address.host.as_str()),
    })
}

fn monitor_values(admin: &Admin, facts: &Facts) -> Value {
    let mut values = Map::new();
    values.insert("version".to_owned(), FULL_VERSION.into());
    values.insert("server_state".to_owned(), admin.server_state(facts).into());
    if let Some(state) = peer_state(facts) {
        values.insert("peer_state".to_owned(), state.into());
    }
    if facts.role == Role::Observing {
        values.insert("observer_master_id".to_owned(), facts.leader.map_or(-1, |id| id.0).into());
    }
    values.extend(monitor::all(admin, facts).into_iter().map(|(name, value)| (name, value.json())));
    values.into()
}

fn observers(admin: &Admin, facts: &Facts) -> Value {
    let others = facts.learners.iter().filter(|learner| !learner.voter && learner.sid != admin.config.my_id);
    let observers: Vec<Value> = others
        .map(|learner| json!({ "sid": learner.sid.0, "synced": learner.synced, "last_zxid": learner.last_zxid.to_string() }))
        .collect();
    json!({ "synced_observers": observers.len(), "observers": observers })
}

fn server_stats(admin: &Admin, facts: &Facts) -> Value {
    let metrics = &admin.metrics;
    let (last, min, max) = metrics.client_response.get();
    let response = json!({ "last_buffer_size": last, "min_buffer_size": min, "max_buffer_size": max });
    let tree = admin.shared.tree.read();
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
            "last_processed_zxid": tree.last_processed().0,
            "outstanding_requests": facts.outstanding,
            "server_state": admin.server_state(facts),
            "num_alive_client_connections": admin.connections.count(),
            "provider_null": false,
            "uptime": admin.clock.uptime_ms(),
        },
        "client_response": response,
        "node_count": tree.node_count(),
    });
    if facts.role == Role::Leading {
        stats["proposal_stats"] = json!({ "last_buffer_size": -1, "min_buffer_size": -1, "max_buffer_size": -1 });
    }
    stats
}

fn set_trace_mask(arguments: &BTreeMap<String, String>) -> Value {
    match arguments.get("traceMask").map(|text| (text, text.parse::<i64>())) {
        None => json!({ "error": "setTraceMask requires long traceMask argument" }),
        Some((_, Ok(mask))) => json!({ "tracemask": mask }),
        Some((text, Err(_))) => json!({ "error": format!("setTraceMask requires long traceMask argument, got {text}") }),
    }
}

fn voting_view(admin: &Admin) -> Value {
    let Some(ensemble) = &admin.config.ensemble else { return json!({ "current_config": {} }) };
    let texts = |addresses: &[crate::config::HostPort]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    let view: BTreeMap<String, Value> = ensemble
        .servers
        .iter()
        .filter(|(_, line)| line.voter)
        .map(|(id, line)| {
            let member = json!({
                "server_addresses": texts(&line.quorum),
                "election_addresses": texts(&line.election),
                "client_address": line.client.as_ref().map_or_else(String::new, ToString::to_string),
                "learner_type": "participant",
            });
            (id.to_string(), member)
        })
        .collect();
    json!({ "current_config": view })
}

fn zabstate(admin: &Admin, facts: &Facts, _: &BTreeMap<String, String>) -> Value {
    let mine = admin.config.ensemble.as_ref().and_then(|ensemble| ensemble.servers.get(&admin.config.my_id));
    let Some(mine) = mine else { return json!({ "voting": false, "zabstate": "" }) };
    let first = |addresses: &[crate::config::HostPort]| addresses.first().map_or_else(String::new, ToString::to_string);
    let zxid = facts.zxid_applied;
    let state = match (facts.role, facts.serving) {
        (Role::Loading | Role::Looking, _) => "election",
        (Role::Draining | Role::Halted, _) => "",
        (Role::Leading | Role::Following | Role::Observing | Role::Standalone, true) => "broadcast",
        (Role::Leading | Role::Following | Role::Observing | Role::Standalone, false) => "synchronization",
    };
    json!({
        "myid": admin.config.my_id.0,
        "is_leader": facts.role == Role::Leading,
        "quorum_address": first(&mine.quorum),
        "election_address": first(&mine.election),
        "client_address": admin.config.client.address.as_ref().map_or_else(String::new, ToString::to_string),
        "voting": mine.voter,
        "last_zxid": format!("0x{:x}", zxid.0),
        "zab_epoch": zxid.epoch().0,
        "zab_counter": zxid.counter(),
        "zabstate": state,
    })
}
