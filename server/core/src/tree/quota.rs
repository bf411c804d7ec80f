//! Quotas (upstream `StatsTrack`, `Quotas`, `PathTrie` and the quota parts of `DataTree`).
//!
//! A limit lives in `/zookeeper/quota<path>/zookeeper_limits`, the running count beside it in `zookeeper_stats`. The
//! counts are written by every member for itself, without a transaction, which is why nothing under `/zookeeper/` enters the
//! digest.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_jute::ErrorCode;

use super::{DataTree, Node, QUOTA_NODE, path};

const LIMIT_NODE: &str = "zookeeper_limits";
const STAT_NODE: &str = "zookeeper_stats";

/// Text in a limit or statistics node that is not of the form `key=number,...`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("quota text {text:?}: {part:?} is not key=number")]
pub struct QuotaError {
    text: String,
    part: String,
}

/// The numbers of a limit or statistics node. A number that is not there is -1: no limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatsTrack {
    values: BTreeMap<String, i64>,
}

impl StatsTrack {
    /// Reads the text form: pairs separated by `,` or `;`, an empty number is -1.
    pub fn parse(data: Option<&[u8]>) -> Result<Self, QuotaError> {
        let text = String::from_utf8_lossy(data.unwrap_or_default());
        let mut track = Self::default();
        if text.is_empty() {
            return Ok(track);
        }
        // Java's split drops what is empty at the end, and takes runs of separators as one.
        let trimmed = text.trim_end_matches([',', ';']);
        let mut parts =
            trimmed.split([',', ';']).enumerate().filter(|(at, part)| *at == 0 || !part.is_empty());
        parts.try_for_each(|(_, part)| {
            let wrong = || QuotaError { text: text.to_string(), part: part.to_owned() };
            let (name, rest) = part.split_once('=').ok_or_else(wrong)?;
            let number = rest.split('=').next().unwrap_or_default();
            let number = if number.is_empty() && rest.contains(|c| c != '=') { "-1" } else { number };
            track.values.insert(name.to_owned(), number.parse().map_err(|_| wrong())?);
            Ok(())
        })?;
        Ok(track)
    }

    /// Nodes: the soft limit, or the count.
    pub fn count(&self) -> i64 {
        self.get("count")
    }

    /// Bytes of data: the soft limit, or the sum.
    pub fn bytes(&self) -> i64 {
        self.get("bytes")
    }

    /// Nodes: the limit that is enforced.
    pub fn count_hard_limit(&self) -> i64 {
        self.get("countHardLimit")
    }

    /// Bytes: the limit that is enforced.
    pub fn byte_hard_limit(&self) -> i64 {
        self.get("byteHardLimit")
    }

    /// The same with other counts.
    pub fn with_counts(mut self, count: i64, bytes: i64) -> Self {
        self.values.insert("count".into(), count);
        self.values.insert("bytes".into(), bytes);
        self
    }

    fn get(&self, name: &str) -> i64 {
        self.values.get(name).copied().unwrap_or(-1)
    }
}

impl fmt::Display for StatsTrack {
    /// Count first, bytes second, then an extra `=` that hides the rest from parsers older than 3.5.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={},bytes={}", self.count(), self.bytes())?;
        let others = || self.values.iter().filter(|(name, _)| !matches!(name.as_str(), "count" | "bytes"));
        if others().next().is_some() {
            f.write_str("=")?;
        }
        others().try_for_each(|(name, value)| write!(f, ";{name}={value}"))
    }
}

impl DataTree {
    /// The deepest path at or above `path` that has a quota.
    pub fn quota_root(&self, path: &str) -> Option<&Arc<str>> {
        if self.quotas.is_empty() {
            return None;
        }
        let mut at = path;
        while at.len() > 1 {
            if let Some(found) = self.quotas.get(at) {
                return Some(found);
            }
            at = path::parent(at)?;
        }
        None
    }

    /// `QuotaExceeded` if adding `bytes` and `nodes` below `path` would pass an enforced limit (upstream `checkQuota`).
    /// Soft limits never refuse.
    pub fn check_quota(&self, path: &str, bytes: i64, nodes: i64) -> Result<(), ErrorCode> {
        let Some(root) = self.quota_root(path) else { return Ok(()) };
        let track = |name: &str| {
            let node = self.node(&format!("{QUOTA_NODE}{root}/{name}"))?;
            StatsTrack::parse(node.data().map(|data| &**data)).ok()
        };
        let (Some(limits), Some(now)) = (track(LIMIT_NODE), track(STAT_NODE)) else { return Ok(()) };
        let passes =
            |limit: i64, now: i64, diff: i64| diff != 0 && limit > -1 && now.saturating_add(diff) > limit;
        if passes(limits.count_hard_limit(), now.count(), nodes)
            || passes(limits.byte_hard_limit(), now.bytes(), bytes)
        {
            return Err(ErrorCode::QuotaExceeded);
        }
        Ok(())
    }

    pub(super) fn quota_after_create(&mut self, path: &str, parent: &str, bytes: usize) {
        if let Some(root) = quota_of(parent) {
            match path::name(path) {
                LIMIT_NODE => _ = Arc::make_mut(&mut self.quotas).insert(root.into()),
                STAT_NODE => self.recount_quota(root),
                _ => {}
            }
        }
        self.add_to_quota(path, bytes as i64, 1);
    }

    pub(super) fn quota_after_delete(&mut self, path: &str, parent: &str, bytes: usize) {
        if let Some(root) = quota_of(parent)
            && path::name(path) == LIMIT_NODE
        {
            Arc::make_mut(&mut self.quotas).remove(root);
        }
        self.add_to_quota(path, -(bytes as i64), -1);
    }

    pub(super) fn quota_after_set(&mut self, path: &str, bytes: i64) {
        self.add_to_quota(path, bytes, 0);
    }

    /// Finds every limit node of a freshly loaded tree and counts anew what it covers.
    pub(super) fn load_quotas(&mut self) {
        let mut limits = Vec::new();
        self.walk(QUOTA_NODE, &mut |path, node| {
            if node.num_children() == 0 && path::name(path) == LIMIT_NODE {
                limits.extend(path::parent(path).and_then(quota_of).map(str::to_owned));
            }
            true
        });
        for root in limits {
            self.recount_quota(&root);
            Arc::make_mut(&mut self.quotas).insert(root.into());
        }
    }

    fn add_to_quota(&mut self, path: &str, bytes: i64, nodes: i64) {
        let Some(root) = self.quota_root(path) else { return };
        let stat = format!("{QUOTA_NODE}{root}/{STAT_NODE}");
        self.change(&stat, |node| {
            // What cannot be read stays as it is: a client may have written anything there.
            if let Ok(track) = StatsTrack::parse(node.data().map(|data| &**data)) {
                let (count, sum) = (track.count().wrapping_add(nodes), track.bytes().wrapping_add(bytes));
                put_track(node, track.with_counts(count, sum));
            }
        });
    }

    fn recount_quota(&mut self, root: &str) {
        let (mut count, mut bytes) = (0, 0);
        self.walk(root, &mut |_, node| {
            count += 1;
            bytes += node.data_len() as i64;
            true
        });
        self.change(&format!("{QUOTA_NODE}{root}/{STAT_NODE}"), |node| {
            put_track(node, StatsTrack::default().with_counts(count, bytes));
        });
    }
}

fn put_track(node: &mut Node, track: StatsTrack) {
    node.put_data(Some(track.to_string().as_bytes()));
}

/// The path that `/zookeeper/quota<path>` is about.
fn quota_of(parent: &str) -> Option<&str> {
    parent.strip_prefix(QUOTA_NODE).filter(|root| root.starts_with('/'))
}
