//! The numbers behind `mntr`, `/commands/monitor` and `/metrics`: gauges that are read now, and everything in
//! [`crate::metrics`], under upstream's names.

use std::fmt::Write;

use zk_core::facts::{Facts, Role};

use super::{Admin, java_double};
use crate::metrics::Summary;

/// A number, printed as Java prints it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Whole(i64),
    Fraction(f64),
}

impl Number {
    fn of(value: impl TryInto<i64>) -> Self {
        Self::Whole(value.try_into().unwrap_or(i64::MAX))
    }

    /// As `mntr` and the exposition format show it.
    pub fn text(self) -> String {
        match self {
            Self::Whole(value) => value.to_string(),
            Self::Fraction(value) => java_double(value),
        }
    }

    /// As JSON shows it.
    pub fn json(self) -> serde_json::Value {
        match self {
            Self::Whole(value) => value.into(),
            Self::Fraction(value) => value.into(),
        }
    }
}

/// Gauges of every role, then those of an ensemble's member.
pub fn gauges(admin: &Admin, facts: &Facts) -> Vec<(&'static str, Number)> {
    let metrics = &admin.metrics;
    let (last, min, max) = metrics.client_response.get();
    let watches = admin.shared.watches.lock().count();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let mut found = vec![
        ("avg_latency", Number::Fraction(metrics.latency.avg())),
        ("max_latency", Number::of(metrics.latency.max())),
        ("min_latency", Number::of(metrics.latency.min())),
        ("packets_received", Number::of(metrics.packets_received.get())),
        ("packets_sent", Number::of(metrics.packets_sent.get())),
        ("num_alive_connections", Number::of(admin.connections.count())),
        ("outstanding_requests", Number::of(facts.outstanding)),
        ("uptime", Number::of(admin.clock.uptime_ms())),
        ("watch_count", Number::of(watches)),
        ("global_sessions", Number::of(facts.sessions)),
        ("local_sessions", Number::Whole(0)),
        ("open_file_descriptor_count", Number::of(open)),
        ("max_file_descriptor_count", Number::of(limit.unwrap_or(u64::MAX))),
        ("connection_drop_probability", Number::Fraction(0.0)),
        ("last_client_response_size", Number::Whole(last)),
        ("max_client_response_size", Number::Whole(max)),
        ("min_client_response_size", Number::Whole(min)),
        ("outstanding_tls_handshake", Number::Whole(0)),
        ("auth_failed_count", Number::Whole(0)),
        ("non_mtls_remote_conn_count", Number::Whole(0)),
        ("non_mtls_local_conn_count", Number::Whole(0)),
    ];
    {
        let tree = admin.shared.tree.read();
        found.push(("znode_count", Number::of(tree.node_count())));
        found.push(("ephemerals_count", Number::of(tree.ephemerals_count())));
        found.push(("approximate_data_size", Number::of(tree.approximate_data_size())));
    }
    if let Some(ensemble) = &admin.config.ensemble {
        found.push(("quorum_size", Number::of(ensemble.voters().count())));
        learner_gauges(admin, facts, &mut found);
    }
    found
}

fn learner_gauges(admin: &Admin, facts: &Facts, found: &mut Vec<(&'static str, Number)>) {
    let others = || facts.learners.iter().filter(|learner| learner.sid != admin.config.my_id);
    let synced = |voter: bool| others().filter(|learner| learner.synced && learner.voter == voter).count();
    if facts.role == Role::Leading {
        found.push(("learners", Number::of(others().count())));
        found.push(("synced_followers", Number::of(synced(true))));
        found.push(("synced_non_voting_followers", Number::Whole(0)));
        found.push(("pending_syncs", Number::of(others().filter(|learner| !learner.synced).count())));
        found.push(("leader_uptime", Number::of(admin.metrics.leader_uptime_ms())));
    }
    if matches!(facts.role, Role::Leading | Role::Following) {
        found.push(("synced_observers", Number::of(synced(false))));
    }
}

/// A summary as upstream's default provider names its parts.
pub fn summary_parts(name: &str, summary: &Summary) -> Vec<(String, Number)> {
    let quantile = |q: f64| Number::of(summary.quantile(q));
    vec![
        (format!("avg_{name}"), Number::Fraction(summary.avg())),
        (format!("min_{name}"), Number::Whole(summary.min())),
        (format!("max_{name}"), Number::of(summary.max())),
        (format!("cnt_{name}"), Number::of(summary.count())),
        (format!("sum_{name}"), Number::of(summary.sum())),
        (format!("p50_{name}"), quantile(0.5)),
        (format!("p95_{name}"), quantile(0.95)),
        (format!("p99_{name}"), quantile(0.99)),
        (format!("p999_{name}"), quantile(0.999)),
    ]
}

/// Everything as name and number, as `mntr` lists it.
pub fn all(admin: &Admin, facts: &Facts) -> Vec<(String, Number)> {
    let mut found: Vec<(String, Number)> =
        gauges(admin, facts).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    found.extend(admin.metrics.counters().map(|(name, value)| (name.to_owned(), Number::of(value))));
    for (name, summary) in admin.metrics.summaries() {
        found.extend(summary_parts(name, summary));
    }
    found
}

/// The exposition format of Prometheus, with the names of upstream's provider.
pub fn prometheus(admin: &Admin, facts: &Facts) -> String {
    let mut out = String::new();
    for (name, value) in gauges(admin, facts) {
        single(&mut out, "gauge", name, value);
    }
    for (name, value) in admin.metrics.counters() {
        single(&mut out, "counter", name, Number::of(value));
    }
    for (name, summary) in admin.metrics.summaries() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {name} {name}\n# TYPE {name} summary");
        for q in [0.5, 0.9, 0.99] {
            let _ = writeln!(out, "{name}{{quantile=\"{q}\"}} {}", summary.quantile(q));
        }
        let _ = writeln!(out, "{name}_count {}\n{name}_sum {}", summary.count(), summary.sum());
    }
    for (name, value) in process() {
        single(&mut out, "gauge", name, value);
    }
    out
}

fn single(out: &mut String, kind: &str, name: &str, value: Number) {
    let _ = writeln!(out, "# HELP {name} {name}\n# TYPE {name} {kind}\n{name} {}", value.text());
}

/// The `process_*` series that Prometheus clients export.
fn process() -> Vec<(&'static str, Number)> {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the command's closing parenthesis; see proc(5), whose fields 14, 15 and 24 these are.
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .map_or(Vec::new(), |(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect());
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let page = rustix::param::page_size() as u64;
    vec![
        ("process_cpu_seconds_total", Number::Fraction((field(14) + field(15)) as f64 / ticks as f64)),
        ("process_resident_memory_bytes", Number::of(field(24) * page)),
    ]
}
