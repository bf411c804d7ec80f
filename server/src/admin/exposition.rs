//! `/metrics`: the text exposition format of Prometheus, with the names of upstream's `PrometheusMetricsProvider`.
//!
//! Names are exact: no prefix and no `_total`, which the client library of upstream's provider does not add either.

use std::fmt::Write;

use zk_core::facts::Facts;

use super::monitor::{self, NamedSummary, Number};
use super::{Admin, process, quota};

/// Content type of the answer.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writing to a String cannot fail, so the results are dropped.
pub(super) fn prometheus(admin: &Admin, facts: &Facts) -> String {
    let mut out = String::new();
    for (name, value) in monitor::gauges(admin, facts) {
        single(&mut out, "gauge", name, value);
    }
    for (name, values) in quota::by_namespace(&admin.shared.tree.read()).sets() {
        header(&mut out, "gauge", name);
        for (key, value) in values {
            let _ = writeln!(out, "{name}{{key=\"{}\"}} {value}", escape(key));
        }
    }
    for (name, value) in monitor::counters(admin) {
        single(&mut out, "counter", name, Number::of(value));
    }
    for named in monitor::summaries(admin) {
        summary(&mut out, &named);
    }
    for (name, kind, value) in process::series() {
        single(&mut out, kind, name, value);
    }
    out
}

fn header(out: &mut String, kind: &str, name: &str) {
    let _ = writeln!(out, "# HELP {name} {name}\n# TYPE {name} {kind}");
}

fn single(out: &mut String, kind: &str, name: &str, value: Number) {
    header(out, kind, name);
    let _ = writeln!(out, "{name} {}", value.text());
}

/// Without observations a quantile is NaN, as in upstream's library.
fn summary(out: &mut String, named: &NamedSummary<'_>) {
    let name = named.name;
    header(out, "summary", name);
    let quantiles: &[f64] = if named.advanced { &[0.5, 0.9, 0.99] } else { &[0.5] };
    let observed = named.summary.filter(|summary| summary.count() > 0);
    for q in quantiles {
        let value = observed.map_or_else(|| "NaN".to_owned(), |summary| summary.quantile(*q).to_string());
        let _ = writeln!(out, "{name}{{quantile=\"{q}\"}} {value}");
    }
    let (count, sum) = observed.map_or((0, 0), |summary| (summary.count(), summary.sum()));
    let _ = writeln!(out, "{name}_count {count}\n{name}_sum {sum}");
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Summary;

    #[test]
    fn a_summary_without_observations_has_no_quantiles_and_a_basic_one_only_the_median() {
        let mut out = String::new();
        summary(&mut out, &NamedSummary { name: "fsynctime", advanced: false, summary: None });
        let expected = "# HELP fsynctime fsynctime\n# TYPE fsynctime summary\nfsynctime{quantile=\"0.5\"} NaN\n\
                        fsynctime_count 0\nfsynctime_sum 0\n";
        assert_eq!(out, expected);
        let (mut out, observed) = (String::new(), Summary::default());
        observed.record(3);
        summary(&mut out, &NamedSummary { name: "readlatency", advanced: true, summary: Some(&observed) });
        assert!(
            out.contains("readlatency{quantile=\"0.99\"} 3\nreadlatency_count 1\nreadlatency_sum 3\n"),
            "{out}"
        );
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
