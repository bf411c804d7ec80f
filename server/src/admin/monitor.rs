//! The numbers behind `mntr`, `/commands/monitor` and `/metrics`: gauges that are read now, and everything in
//! [`crate::metrics`], under upstream's names (`ServerMetrics`, `registerMetrics` of each `ZooKeeperServer`).
//!
//! Unlike upstream's, the gauges of every role stay while a member looks for a leader: a series that vanishes during
//! an election blinds the alert that is about the election.

use zk_core::facts::{Facts, Role};

use super::catalog::{ADVANCED_SUMMARIES, BASIC_SUMMARIES, COUNTERS, OWN_COUNTERS};
use super::{Admin, FULL_VERSION, java_double, quota};
use crate::metrics::Summary;

/// A number, printed as Java prints it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Whole(i64),
    Fraction(f64),
}

impl Number {
    /// Saturates.
    pub(super) fn of(value: impl TryInto<i64>) -> Self {
        Self::Whole(value.try_into().unwrap_or(i64::MAX))
    }

    /// As `mntr` and the exposition format show it.
    pub(super) fn text(self) -> String {
        match self {
            Self::Whole(value) => value.to_string(),
            Self::Fraction(value) => java_double(value),
        }
    }

    /// As JSON shows it.
    pub(super) fn json(self) -> serde_json::Value {
        match self {
            Self::Whole(value) => value.into(),
            Self::Fraction(value) => value.into(),
        }
    }
}

/// A distribution with the detail that upstream gives it.
pub(super) struct NamedSummary<'a> {
    pub name: &'static str,
    /// High quantiles are shown.
    pub advanced: bool,
    /// `None`: never observed here.
    pub summary: Option<&'a Summary>,
}

/// The values that are texts, not numbers (upstream `dumpMonitorValues`).
pub(super) fn texts(admin: &Admin, facts: &Facts) -> Vec<(&'static str, serde_json::Value)> {
    let mut found =
        vec![("version", FULL_VERSION.into()), ("server_state", admin.server_state(facts).into())];
    if let Some(state) = super::peer_state(facts) {
        found.push(("peer_state", state.into()));
    }
    if facts.role == Role::Observing {
        found.push(("observer_master_id", facts.leader.map_or(-1, |id| id.0).into()));
    }
    found
}

/// Gauges of every role, then those of a member of an ensemble.
pub(super) fn gauges(admin: &Admin, facts: &Facts) -> Vec<(&'static str, Number)> {
    let mut found = Vec::new();
    server_gauges(admin, facts, &mut found);
    tree_gauges(admin, &mut found);
    unsupported_gauges(&mut found);
    if let Some(ensemble) = &admin.config.ensemble {
        found.push(("quorum_size", Number::of(ensemble.voters().count())));
        learner_gauges(admin, facts, &mut found);
    }
    found
}

fn server_gauges(admin: &Admin, facts: &Facts, found: &mut Vec<(&'static str, Number)>) {
    let metrics = &admin.metrics;
    let (last, min, max) = metrics.client_response.get();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    found.extend([
        ("avg_latency", Number::Fraction(metrics.latency.avg())),
        ("max_latency", Number::of(metrics.latency.max())),
        ("min_latency", Number::of(metrics.latency.min())),
        ("packets_received", Number::of(metrics.packets_received.get())),
        ("packets_sent", Number::of(metrics.packets_sent.get())),
        ("num_alive_connections", Number::of(admin.connections.count())),
        ("outstanding_requests", Number::of(facts.outstanding)),
        ("uptime", Number::of(admin.clock.uptime_ms())),
        ("global_sessions", Number::of(facts.sessions)),
        ("open_file_descriptor_count", Number::of(open)),
        ("max_file_descriptor_count", Number::of(limit.unwrap_or(u64::MAX))),
        ("last_client_response_size", Number::Whole(last)),
        ("max_client_response_size", Number::Whole(max)),
        ("min_client_response_size", Number::Whole(min)),
    ]);
}

fn tree_gauges(admin: &Admin, found: &mut Vec<(&'static str, Number)>) {
    let tree = admin.shared.tree.read();
    let watches = admin.shared.watches.lock().count();
    found.extend([
        ("znode_count", Number::of(tree.node_count())),
        ("ephemerals_count", Number::of(tree.ephemerals_count())),
        ("approximate_data_size", Number::of(tree.approximate_data_size())),
        ("watch_count", Number::of(watches)),
    ]);
}

/// Local sessions, the connection throttle and TLS do not exist here: upstream's gauges without them read 0 as well.
fn unsupported_gauges(found: &mut Vec<(&'static str, Number)>) {
    found.extend([
        ("local_sessions", Number::Whole(0)),
        ("connection_drop_probability", Number::Fraction(0.0)),
        ("outstanding_tls_handshake", Number::Whole(0)),
        ("auth_failed_count", Number::Whole(0)),
        ("non_mtls_remote_conn_count", Number::Whole(0)),
        ("non_mtls_local_conn_count", Number::Whole(0)),
    ]);
}

fn learner_gauges(admin: &Admin, facts: &Facts, found: &mut Vec<(&'static str, Number)>) {
    let others = || facts.learners.iter().filter(|learner| learner.sid != admin.config.my_id);
    let synced = |voter: bool| others().filter(|learner| learner.synced && learner.voter == voter).count();
    if facts.role == Role::Leading {
        let (last, min, max) = admin.metrics.proposal_size.get();
        found.extend([
            ("learners", Number::of(others().count())),
            ("synced_followers", Number::of(synced(true))),
            ("synced_non_voting_followers", Number::Whole(0)),
            ("pending_syncs", Number::of(others().filter(|learner| !learner.synced).count())),
            ("leader_uptime", Number::of(admin.metrics.leader_uptime_ms())),
            ("last_proposal_size", Number::Whole(last)),
            ("max_proposal_size", Number::Whole(max)),
            ("min_proposal_size", Number::Whole(min)),
        ]);
    }
    let observer_master = facts.role == Role::Following && admin.config.net.observer_master_port.is_some();
    if facts.role == Role::Leading || observer_master {
        found.push(("synced_observers", Number::of(synced(false))));
    }
}

/// Every counter of upstream, in the order of the catalog, then our own.
pub(super) fn counters(admin: &Admin) -> Vec<(&'static str, u64)> {
    let measured = admin.metrics.counters();
    let value = |name: &str| measured.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
    COUNTERS.iter().chain(OWN_COUNTERS).map(|name| (*name, value(name))).collect()
}

/// Every summary of upstream, in the order of the catalog.
pub(super) fn summaries(admin: &Admin) -> Vec<NamedSummary<'_>> {
    let measured = admin.metrics.summaries();
    let named = |name: &'static str, advanced: bool| {
        let summary = measured.iter().find(|(known, _)| *known == name).map(|(_, summary)| *summary);
        NamedSummary { name, advanced, summary }
    };
    let basic = BASIC_SUMMARIES.iter().map(|name| named(name, false));
    basic.chain(ADVANCED_SUMMARIES.iter().map(|name| named(name, true))).collect()
}

/// A summary as upstream's default provider names its parts.
fn parts(named: &NamedSummary<'_>, found: &mut Vec<(String, Number)>) {
    let (name, summary) = (named.name, named.summary);
    let whole = |value: Option<u64>| Number::of(value.unwrap_or(0));
    let quantile = |q: f64| whole(summary.map(|summary| summary.quantile(q)));
    found.extend([
        (format!("avg_{name}"), Number::Fraction(summary.map_or(0.0, Summary::avg))),
        (format!("min_{name}"), Number::Whole(summary.map_or(0, Summary::min))),
        (format!("max_{name}"), whole(summary.map(Summary::max))),
        (format!("cnt_{name}"), whole(summary.map(Summary::count))),
        (format!("sum_{name}"), whole(summary.map(Summary::sum))),
    ]);
    if named.advanced {
        found.extend([
            (format!("p50_{name}"), quantile(0.5)),
            (format!("p95_{name}"), quantile(0.95)),
            (format!("p99_{name}"), quantile(0.99)),
            (format!("p999_{name}"), quantile(0.999)),
        ]);
    }
}

/// Every number by name, as `mntr` lists it.
pub(super) fn all(admin: &Admin, facts: &Facts) -> Vec<(String, Number)> {
    let mut found: Vec<(String, Number)> =
        gauges(admin, facts).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, values) in quota::by_namespace(&admin.shared.tree.read()).sets() {
        found.extend(
            values.iter().map(|(namespace, value)| (format!("{namespace}_{name}"), Number::Whole(*value))),
        );
    }
    found.extend(counters(admin).into_iter().map(|(name, value)| (name.to_owned(), Number::of(value))));
    for summary in summaries(admin) {
        parts(&summary, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn everything_that_is_measured_has_a_place_in_the_catalog() {
        let metrics = Metrics::default();
        for (name, _) in metrics.counters() {
            assert!(COUNTERS.contains(&name) || OWN_COUNTERS.contains(&name), "{name} would never be shown");
        }
        for (name, _) in metrics.summaries() {
            assert!(
                BASIC_SUMMARIES.contains(&name) || ADVANCED_SUMMARIES.contains(&name),
                "{name} would never be shown"
            );
        }
    }

    #[test]
    fn a_basic_summary_has_five_parts_and_an_advanced_one_nine() {
        let (summary, mut found) = (Summary::default(), Vec::new());
        summary.record(7);
        parts(&NamedSummary { name: "fsynctime", advanced: false, summary: Some(&summary) }, &mut found);
        assert_eq!((found.len(), &found[0]), (5, &("avg_fsynctime".to_owned(), Number::Fraction(7.0))));
        parts(&NamedSummary { name: "readlatency", advanced: true, summary: None }, &mut found);
        assert_eq!((found.len(), &found[13]), (14, &("p999_readlatency".to_owned(), Number::Whole(0))));
    }
}
