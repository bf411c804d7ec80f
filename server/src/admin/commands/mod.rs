//! `/commands/<name>` (upstream `Commands`, `CommandBase`, `JettyAdminServer`): names, aliases and fields are upstream's.
//!
//! Every answer carries `command` and `error`. What cannot be answered is an answer too, with status 200, as upstream
//! has it. Where upstream's command fails without a server, as `monitor` does while a leader is looked for, this one
//! answers.

mod clients;
mod quorum;
mod stats;

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use zk_core::facts::Facts;

use super::environment::environment;
use super::{Admin, NOT_SERVING, Picture, member, monitor, trace_mask};

/// The arguments of the query, by name.
pub(super) type Arguments = BTreeMap<String, String>;

type Run = fn(&Admin, &Facts, &Arguments) -> Value;

/// A command: its names, the first being the primary one, and whether it needs a role that serves.
struct Command {
    names: &'static [&'static str],
    needs_server: bool,
    run: Run,
}

const fn needs_server(names: &'static [&'static str], run: Run) -> Command {
    Command { names, needs_server: true, run }
}

const fn always(names: &'static [&'static str], run: Run) -> Command {
    Command { names, needs_server: false, run }
}

/// The command of the operator.
const MEMBER: &str = "member";
/// Its error when the core does not answer.
const STALE: &str = "the core did not answer in time: these facts are old";

/// Those that stream a database in or out.
const NOT_SUPPORTED: &[(&str, &str)] = &[("restore", "rest"), ("snapshot", "snap")];

const COMMANDS: &[Command] = &[
    needs_server(&["configuration", "conf", "config"], |admin, _, _| stats::configuration(admin)),
    needs_server(&["connection_stat_reset", "crst"], |admin, _, _| {
        admin.connections.all().iter().for_each(|conn| conn.ask_reset());
        json!({})
    }),
    needs_server(&["connections", "cons"], |admin, _, _| clients::connections(admin, false)),
    needs_server(&["dirs"], |admin, _, _| stats::dirs(admin)),
    needs_server(&["dump"], |admin, _, _| clients::dump(admin)),
    always(&["environment", "env", "envi"], |_, _, _| {
        environment()
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect::<Map<_, _>>()
            .into()
    }),
    always(&["get_trace_mask", "gtmk"], |_, _, _| json!({ "tracemask": trace_mask::get() })),
    needs_server(&["hash"], |admin, _, _| stats::digests(admin)),
    needs_server(
        &["initial_configuration", "icfg"],
        |admin, _, _| json!({ "initial_configuration": stats::without_secrets(&admin.config.initial_text) }),
    ),
    needs_server(&["is_read_only", "isro"], |_, _, _| json!({ "read_only": false })),
    needs_server(&["last_snapshot", "lsnp"], |admin, _, _| stats::last_snapshot(admin)),
    needs_server(&["leader", "lead"], |admin, facts, _| quorum::leader(admin, facts)),
    always(&[MEMBER], |admin, facts, _| member::member(admin, facts)),
    always(&["monitor", "mntr"], |admin, facts, _| monitor_values(admin, facts)),
    needs_server(&["observer_connection_stat_reset", "orst"], |_, _, _| json!({})),
    needs_server(&["observers", "obsr"], |admin, facts, _| quorum::observers(admin, facts)),
    needs_server(&["ruok"], |_, _, _| json!({})),
    needs_server(&["server_stats", "srvr"], |admin, facts, _| stats::server_stats(admin, facts)),
    always(&["set_trace_mask", "stmk"], |_, _, arguments| set_trace_mask(arguments)),
    needs_server(&["stat_reset", "srst"], |admin, _, _| {
        admin.metrics.reset_server_stats();
        json!({})
    }),
    needs_server(&["stats", "stat"], |admin, facts, _| {
        merge(stats::server_stats(admin, facts), clients::connections(admin, true))
    }),
    always(&["system_properties", "sysp"], |admin, _, _| {
        json!(crate::config::without_secrets(&admin.config.properties))
    }),
    needs_server(&["voting_view"], |admin, _, _| quorum::voting_view(admin)),
    needs_server(&["watch_summary", "wchs"], |admin, _, _| clients::watch_summary(admin)),
    needs_server(&["watches", "wchc"], |admin, _, _| clients::watches(admin)),
    needs_server(&["watches_by_path", "wchp"], |admin, _, _| clients::watches_by_path(admin)),
    always(&["zabstate"], |admin, facts, _| quorum::zabstate(admin, facts)),
];

/// Primary names, in order, for the page of links. `member` is ours.
pub(super) fn names() -> Vec<&'static str> {
    let all =
        COMMANDS.iter().map(|command| command.names[0]).chain(NOT_SUPPORTED.iter().map(|(name, _)| *name));
    let mut all: Vec<&str> = all.collect();
    all.sort_unstable();
    all
}

/// Runs one command. Blocks on files: the disk is looked at anew by some.
pub(super) fn run(
    admin: &Admin,
    picture: &Picture,
    name: &str,
    arguments: &Arguments,
) -> (StatusCode, Value) {
    let facts = &picture.facts;
    let failed = |name: &str, error: String| json!({ "command": name, "error": error });
    if let Some((primary, _)) =
        NOT_SUPPORTED.iter().find(|(primary, alias)| name == *primary || name == *alias)
    {
        // Upstream's status for a command that is switched off.
        let error = format!("The {primary} command is not supported by this server");
        return (StatusCode::SERVICE_UNAVAILABLE, failed(primary, error));
    }
    let Some(command) = COMMANDS.iter().find(|command| command.names.contains(&name)) else {
        return (StatusCode::OK, failed(name, format!("Unknown command: {name}")));
    };
    if command.needs_server && !facts.serving {
        return (StatusCode::OK, failed(name, NOT_SERVING.to_owned()));
    }
    let data = (command.run)(admin, facts, arguments);
    // An operator must not take what a member said long ago for what it is: a leader that hangs would be one for ever.
    let error = (command.names[0] == MEMBER && picture.stale).then_some(STALE);
    (StatusCode::OK, merge(json!({ "command": command.names[0], "error": error }), data))
}

/// The fields of both; those of `from` win.
fn merge(into: Value, from: Value) -> Value {
    match (into, from) {
        (Value::Object(mut into), Value::Object(from)) => {
            into.extend(from);
            Value::Object(into)
        }
        (into, _) => into,
    }
}

fn monitor_values(admin: &Admin, facts: &Facts) -> Value {
    let mut values = Map::new();
    values.extend(monitor::texts(admin, facts).into_iter().map(|(name, value)| (name.to_owned(), value)));
    values.extend(monitor::all(admin, facts).into_iter().map(|(name, value)| (name, value.json())));
    values.into()
}

fn set_trace_mask(arguments: &Arguments) -> Value {
    const WANTED: &str = "setTraceMask requires long traceMask argument";
    match arguments.get("traceMask").map(|text| (text, text.parse::<i64>())) {
        None => json!({ "error": WANTED }),
        Some((_, Ok(mask))) => {
            trace_mask::set(mask);
            json!({ "tracemask": mask })
        }
        Some((text, Err(_))) => json!({ "error": format!("{WANTED}, got {text}") }),
    }
}
