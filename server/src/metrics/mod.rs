//! What the process measures, under upstream's names (`ServerMetrics`, `ServerStats`).
//!
//! Series exist from the start and through every change of role, so that none vanishes during an election.

mod summary;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use zk_core::effect::Observation;
use zk_jute::Zxid;

pub use summary::Summary;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Sizes of answers to clients (upstream `BufferStats`); -1 before the first.
#[derive(Debug)]
pub struct BufferStats {
    last: AtomicI64,
    min: AtomicI64,
    max: AtomicI64,
}

impl Default for BufferStats {
    fn default() -> Self {
        Self { last: AtomicI64::new(-1), min: AtomicI64::new(-1), max: AtomicI64::new(-1) }
    }
}

impl BufferStats {
    pub fn set(&self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.last.store(bytes, Ordering::Relaxed);
        if self.min.fetch_min(bytes, Ordering::Relaxed) < 0 {
            self.min.store(bytes, Ordering::Relaxed);
        }
        self.max.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Last, smallest, largest.
    pub fn get(&self) -> (i64, i64, i64) {
        let load = |value: &AtomicI64| value.load(Ordering::Relaxed);
        (load(&self.last), load(&self.min), load(&self.max))
    }

    pub fn reset(&self) {
        [&self.last, &self.min, &self.max].into_iter().for_each(|value| value.store(-1, Ordering::Relaxed));
    }
}

/// zxid of the newest commit counted; [`Zxid::NONE`] before the first.
#[derive(Debug)]
struct LastCommit(AtomicI64);

impl Default for LastCommit {
    fn default() -> Self {
        Self(AtomicI64::new(Zxid::NONE.0))
    }
}

/// When the present condition began.
#[derive(Debug, Default)]
struct Moments {
    looking: Option<Instant>,
    not_serving: Option<Instant>,
    leading: Option<Instant>,
}

/// Everything that is counted. Times are milliseconds, sizes bytes.
#[derive(Debug, Default)]
pub struct Metrics {
    // ServerStats, reset by `srst`.
    pub packets_received: Counter,
    pub packets_sent: Counter,
    pub latency: Summary,
    pub client_response: BufferStats,
    pub fsync_threshold_exceeded: Counter,
    // Summaries.
    pub fsync_time: Summary,
    pub sync_batch_size: Summary,
    pub snapshot_time: Summary,
    pub db_init_time: Summary,
    pub startup_txns_loaded: Summary,
    pub election_time: Summary,
    pub unavailable_time: Summary,
    pub read_latency: Summary,
    pub update_latency: Summary,
    // Counters.
    pub looking_count: Counter,
    pub diff_count: Counter,
    pub snap_count: Counter,
    pub commit_count: Counter,
    pub digest_mismatches: Counter,
    pub sessions_expired: Counter,
    pub snapshot_errors: Counter,
    pub unrecoverable_errors: Counter,
    pub connection_requests: Counter,
    pub connection_rejected: Counter,
    pub connection_drops: Counter,
    pub bytes_received: Counter,
    pub response_bytes: Counter,
    pub proposal_count: Counter,
    pub learner_proposals: Counter,
    pub learner_commits: Counter,
    /// Sizes of proposals while leading.
    pub proposal_size: BufferStats,
    leading: AtomicBool,
    learning: AtomicBool,
    last_commit: LastCommit,
    moments: Mutex<Moments>,
}

impl Metrics {
    /// Counts what the core reports.
    pub fn observe(&self, observation: &Observation) {
        match observation {
            Observation::Committed { zxid } => self.committed(*zxid),
            Observation::RoleChanged { role, .. } => self.role_changed(role),
            Observation::ElectionFinished { .. } => {
                if let Some(began) = self.moments.lock().looking.take() {
                    self.election_time.record(ms_since(began));
                }
            }
            Observation::Synchronizing { mode, .. } => {
                if *mode == "SNAP" { &self.snap_count } else { &self.diff_count }.add(1);
            }
            Observation::Serving { zxid, .. } => {
                // What came by synchronization or from the disk was not committed here.
                self.last_commit.0.store(zxid.0, Ordering::Relaxed);
                if let Some(began) = self.moments.lock().not_serving.take() {
                    self.unavailable_time.record(ms_since(began));
                }
            }
            Observation::DigestMismatch { .. } => self.digest_mismatches.add(1),
            Observation::SessionExpired(_) => self.sessions_expired.add(1),
            Observation::LeftRole { .. }
            | Observation::EpochAccepted(_)
            | Observation::EpochCurrent(_)
            | Observation::LinkFault { .. }
            | Observation::DiskFault(_)
            | Observation::SnapshotStarted { .. }
            | Observation::Note(_) => {}
        }
    }

    /// One transaction goes to the log: a proposal of this leader, or one that a learner received.
    pub fn appended(&self, bytes: usize) {
        if self.leading.load(Ordering::Relaxed) {
            self.proposal_count.add(1);
            self.proposal_size.set(bytes);
        } else if self.learning.load(Ordering::Relaxed) {
            self.learner_proposals.add(1);
        }
    }

    /// Commits are reported a batch at a time, by the last of each: within an epoch the counter tells how many.
    fn committed(&self, zxid: Zxid) {
        let previous = Zxid(self.last_commit.0.swap(zxid.0, Ordering::Relaxed));
        let counter = u64::from(zxid.counter());
        let count = if previous == Zxid::NONE {
            // How many there were is not known: the process just started.
            1
        } else if previous.epoch() == zxid.epoch() {
            counter.saturating_sub(u64::from(previous.counter()))
        } else {
            counter
        };
        // As upstream: a leader counts what it commits (`Leader.commit`), a learner what it is told of.
        if self.leading.load(Ordering::Relaxed) {
            self.commit_count.add(count);
        } else if self.learning.load(Ordering::Relaxed) {
            self.learner_commits.add(count);
        }
    }

    fn role_changed(&self, role: &str) {
        let now = Instant::now();
        let learning = role.eq_ignore_ascii_case("following") || role.eq_ignore_ascii_case("observing");
        self.leading.store(role.eq_ignore_ascii_case("leading"), Ordering::Relaxed);
        self.learning.store(learning, Ordering::Relaxed);
        let mut moments = self.moments.lock();
        moments.leading = role.eq_ignore_ascii_case("leading").then_some(now);
        if role.eq_ignore_ascii_case("looking") {
            self.looking_count.add(1);
            moments.looking.get_or_insert(now);
            moments.not_serving.get_or_insert(now);
        }
    }

    /// How long this member has been leading; 0 elsewhere.
    pub fn leader_uptime_ms(&self) -> u64 {
        self.moments.lock().leading.map_or(0, ms_since)
    }

    /// `srst`: what upstream's `ServerStats.reset` forgets.
    pub fn reset_server_stats(&self) {
        self.packets_received.reset();
        self.packets_sent.reset();
        self.latency.reset();
        self.client_response.reset();
        self.proposal_size.reset();
    }

    /// Summaries with quantiles, by name.
    pub fn summaries(&self) -> [(&'static str, &Summary); 9] {
        [
            ("fsynctime", &self.fsync_time),
            ("sync_processor_batch_size", &self.sync_batch_size),
            ("snapshottime", &self.snapshot_time),
            ("dbinittime", &self.db_init_time),
            ("startup_txns_loaded", &self.startup_txns_loaded),
            ("election_time", &self.election_time),
            ("unavailable_time", &self.unavailable_time),
            ("readlatency", &self.read_latency),
            ("updatelatency", &self.update_latency),
        ]
    }

    /// Counters by name.
    pub fn counters(&self) -> [(&'static str, u64); 17] {
        [
            ("looking_count", self.looking_count.get()),
            ("diff_count", self.diff_count.get()),
            ("snap_count", self.snap_count.get()),
            ("commit_count", self.commit_count.get()),
            ("digest_mismatches_count", self.digest_mismatches.get()),
            ("stale_sessions_expired", self.sessions_expired.get()),
            ("snapshot_error_count", self.snapshot_errors.get()),
            ("unrecoverable_error_count", self.unrecoverable_errors.get()),
            ("connection_request_count", self.connection_requests.get()),
            ("connection_rejected", self.connection_rejected.get()),
            ("connection_drop_count", self.connection_drops.get()),
            ("bytes_received_count", self.bytes_received.get()),
            ("response_bytes", self.response_bytes.get()),
            ("proposal_count", self.proposal_count.get()),
            ("learner_proposal_received_count", self.learner_proposals.get()),
            ("learner_commit_received_count", self.learner_commits.get()),
            ("fsync_threshold_exceed_count", self.fsync_threshold_exceeded.get()),
        ]
    }
}

fn ms_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_reported_by_batch_are_counted_one_by_one_also_across_epochs() {
        let metrics = Metrics::default();
        let commit = |raw| metrics.observe(&Observation::Committed { zxid: Zxid(raw) });
        let role = |role| metrics.observe(&Observation::RoleChanged { role, epoch: zk_jute::Epoch(1) });
        let serving =
            |raw| metrics.observe(&Observation::Serving { epoch: zk_jute::Epoch(1), zxid: Zxid(raw) });
        role("leading");
        serving(0x1_0000_0900);
        commit(0x1_0000_0903);
        commit(0x1_0000_0904);
        commit(0x2_0000_0005);
        assert_eq!((metrics.commit_count.get(), metrics.learner_commits.get()), (9, 0));
        role("following");
        commit(0x2_0000_0007);
        assert_eq!((metrics.commit_count.get(), metrics.learner_commits.get()), (9, 2));
        role("standalone");
        commit(0x2_0000_0009);
        assert_eq!((metrics.commit_count.get(), metrics.learner_commits.get()), (9, 2));
    }

    #[test]
    fn what_is_appended_is_a_proposal_of_the_leader_or_one_received_by_a_learner() {
        let metrics = Metrics::default();
        let role = |role| metrics.observe(&Observation::RoleChanged { role, epoch: zk_jute::Epoch(1) });
        metrics.appended(10);
        role("leading");
        metrics.appended(30);
        metrics.appended(20);
        role("observing");
        metrics.appended(40);
        assert_eq!((metrics.proposal_count.get(), metrics.learner_proposals.get()), (2, 1));
        assert_eq!(metrics.proposal_size.get(), (20, 20, 30));
    }
}
