//! Limits and usage of quotas by top namespace (upstream `QuotaMetricsUtils`).

use std::collections::BTreeMap;

use zk_core::tree::{DataTree, QUOTA_NODE, StatsTrack};

/// Node that holds the limits, below the path they are for.
const LIMIT_NODE: &str = "/zookeeper_limits";
/// Node that holds the usage.
const STATS_NODE: &str = "/zookeeper_stats";

/// Sums by the first element of the path.
type ByNamespace = BTreeMap<String, i64>;

/// The four gauge sets. Bound: one entry a top node with a quota.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Quotas {
    count_limit: ByNamespace,
    bytes_limit: ByNamespace,
    count_usage: ByNamespace,
    bytes_usage: ByNamespace,
}

impl Quotas {
    /// Names as upstream's, with the values by namespace.
    pub(super) fn sets(&self) -> [(&'static str, &ByNamespace); 4] {
        [
            ("quota_count_limit_per_namespace", &self.count_limit),
            ("quota_bytes_limit_per_namespace", &self.bytes_limit),
            ("quota_count_usage_per_namespace", &self.count_usage),
            ("quota_bytes_usage_per_namespace", &self.bytes_usage),
        ]
    }

    fn add(&mut self, path: &str, data: Option<&[u8]>) {
        let Some(below) = path.strip_prefix(QUOTA_NODE) else { return };
        let is_limit = below.ends_with(LIMIT_NODE);
        if !is_limit && !below.ends_with(STATS_NODE) {
            return;
        }
        let namespace = below.trim_start_matches('/').split('/').next().unwrap_or_default();
        // Another's text in a quota node is nothing to report a number from.
        let (Ok(stats), false) = (StatsTrack::parse(data), namespace.is_empty()) else { return };
        let sum = |into: &mut ByNamespace, value: i64| {
            let total = into.entry(namespace.to_owned()).or_default();
            *total = total.saturating_add(value);
        };
        if is_limit {
            // A hard limit is what counts, if there is one.
            let limit = |hard: i64, soft: i64| if hard > -1 { hard } else { soft };
            sum(&mut self.count_limit, limit(stats.count_hard_limit(), stats.count()));
            sum(&mut self.bytes_limit, limit(stats.byte_hard_limit(), stats.bytes()));
        } else {
            sum(&mut self.count_usage, stats.count());
            sum(&mut self.bytes_usage, stats.bytes());
        }
    }
}

/// Walks the quota subtree: as many steps as there are nodes in it.
pub(super) fn by_namespace(tree: &DataTree) -> Quotas {
    let mut quotas = Quotas::default();
    let mut open = vec![QUOTA_NODE.to_owned()];
    while let Some(path) = open.pop() {
        let Some(node) = tree.node(&path) else { continue };
        if node.num_children() == 0 {
            quotas.add(&path, node.data().map(|data| &data[..]));
        }
        open.extend(node.child_names().map(|name| format!("{path}/{name}")));
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_usage_are_summed_by_the_first_element_and_a_hard_limit_wins() {
        let mut quotas = Quotas::default();
        quotas.add(
            "/zookeeper/quota/app/a/zookeeper_limits",
            Some(b"count=5,bytes=-1=;byteHardLimit=9;countHardLimit=7"),
        );
        quotas.add("/zookeeper/quota/app/b/zookeeper_limits", Some(b"count=2,bytes=3"));
        quotas.add("/zookeeper/quota/app/b/zookeeper_stats", Some(b"count=1,bytes=4"));
        quotas.add("/zookeeper/quota/other/zookeeper_stats", Some(b"no numbers"));
        let of = |set: &ByNamespace| set.get("app").copied();
        let [count_limit, bytes_limit, count_usage, bytes_usage] = quotas.sets().map(|(_, set)| of(set));
        assert_eq!((count_limit, bytes_limit), (Some(9), Some(12)));
        assert_eq!((count_usage, bytes_usage), (Some(1), Some(4)));
        assert_eq!(quotas.count_usage.get("other"), None);
    }
}
