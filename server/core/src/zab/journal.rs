//! What this member knows of its log, in memory: applied, committed, durable and appended, in that order.
//!
//! Invariants, asserted at every door: zxids are contiguous; `applied <= committed`; `applied <= durable <= appended`.
//! The tree never holds what is not both committed and logged here (invariant 6).

use std::collections::VecDeque;
use std::sync::Arc;

use zk_jute::Zxid;
use zk_jute::txn::LoggedTxn;

use crate::input::Recovery;
use crate::time::Instant;

/// Transactions that may be appended and not applied here. A quorum commits without our disk; a member whose disk has
/// stopped must not gather its writes for ever. 65,536 of at most 1 MiB, usually of a few hundred bytes.
const BACKLOG_MAX: usize = 65_536;

/// The same in bytes: `globalOutstandingLimit` (1,000) requests of the largest size (1 MiB) are 1,000 MiB, so a burst that
/// clients may send does not reach it. The bytes are held once: journal, links and disk stream count references.
const BACKLOG_BYTES_MAX: usize = 1 << 30;

/// The log as the protocol sees it.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Last transaction in the tree.
    pub applied: Zxid,
    /// Last transaction known to be committed.
    pub committed: Zxid,
    /// Last transaction known to be fsynced here.
    pub durable: Zxid,
    /// Last transaction handed to the disk.
    pub appended: Zxid,
    /// Transactions after `applied`, up to `appended`.
    entries: VecDeque<Arc<LoggedTxn>>,
    /// Sum of the bytes of `entries`.
    entries_bytes: usize,
    /// Appends that the disk has not reported yet, each with when it was handed over. Bound: `entries`.
    unlogged: VecDeque<(Zxid, Instant)>,
    /// Transactions after `window_base`, up to `applied`: what DIFF is made of.
    window: VecDeque<Arc<LoggedTxn>>,
    window_base: Zxid,
    /// Bound of `window` (`commitLogCount`).
    window_max: usize,
    /// True while memory may not equal disk: a synchronization was begun and has not finished (invariant 10).
    pub dirty: bool,
}

impl Journal {
    pub(crate) fn new(window_max: usize) -> Self {
        Self {
            applied: Zxid::ZERO,
            committed: Zxid::ZERO,
            durable: Zxid::ZERO,
            appended: Zxid::ZERO,
            entries: VecDeque::new(),
            entries_bytes: 0,
            unlogged: VecDeque::new(),
            window: VecDeque::new(),
            window_base: Zxid::ZERO,
            window_max,
            dirty: false,
        }
    }

    /// Everything anew, as read from disk.
    pub(crate) fn reset(&mut self, recovery: &mut Recovery) {
        let applied = recovery.tree.last_processed();
        *self = Self::new(self.window_max);
        self.applied = applied;
        self.committed = applied;
        self.window_base = applied;
        self.appended = applied;
        for txn in std::mem::take(&mut recovery.tail) {
            self.push(Arc::new(txn));
        }
        assert_eq!(
            self.appended, recovery.last_logged,
            "the recovered tail must end at the last logged zxid"
        );
        self.durable = self.appended;
    }

    /// Disk was read again in the middle of the stream (TRUNC below what was applied): what was appended after that
    /// read stays.
    pub(crate) fn rebase(&mut self, recovery: &mut Recovery) {
        let later = std::mem::take(&mut self.entries);
        let durable = self.durable;
        let unlogged = std::mem::take(&mut self.unlogged);
        self.reset(recovery);
        self.unlogged = unlogged;
        for txn in later {
            self.push(txn);
        }
        self.durable = self.durable.max(durable.min(self.appended));
        self.dirty = true;
    }

    /// The history becomes that of an image ending at `zxid`; memory follows when the image is durable.
    pub(crate) fn replace_history(&mut self, zxid: Zxid) {
        self.entries.clear();
        self.entries_bytes = 0;
        self.unlogged.clear();
        self.window.clear();
        self.window_base = zxid;
        self.appended = zxid;
        self.durable = self.durable.min(zxid);
        self.dirty = true;
    }

    /// The image at `zxid` is durable and in memory, and the log that came with it is durable up to `end`.
    pub(crate) fn installed(&mut self, zxid: Zxid, end: Zxid) {
        self.durable = end;
        self.applied = zxid;
        self.committed = zxid;
        self.window.clear();
        self.window_base = zxid;
    }

    /// Takes in one transaction that is being appended.
    ///
    /// # Panics
    /// If it does not follow what is there: a gap must be found by [`Self::accepts`] before.
    pub(crate) fn push(&mut self, txn: Arc<LoggedTxn>) {
        assert!(self.accepts(txn.header.zxid), "{} does not follow {}", txn.header.zxid, self.appended);
        self.appended = txn.header.zxid;
        self.entries_bytes += txn.bytes.len();
        self.entries.push_back(txn);
    }

    /// `zxid` was handed to the disk at `now`.
    pub(crate) fn handed_over(&mut self, zxid: Zxid, now: Instant) {
        self.unlogged.push_back((zxid, now));
    }

    /// The disk reports everything up to `zxid` as fsynced.
    pub(crate) fn logged(&mut self, zxid: Zxid) {
        self.durable = self.durable.max(zxid).min(self.appended);
        while self.unlogged.pop_front_if(|(oldest, _)| *oldest <= zxid).is_some() {}
    }

    /// Since when the disk has owed the oldest append.
    pub(crate) fn unlogged_since(&self) -> Option<Instant> {
        self.unlogged.front().map(|(_, since)| *since)
    }

    /// True if `zxid` may be appended next.
    pub(crate) fn accepts(&self, zxid: Zxid) -> bool {
        zxid.follows(self.appended)
    }

    /// Drops everything after `zxid`, which must not be below what is applied.
    pub(crate) fn truncate(&mut self, zxid: Zxid) {
        assert!(zxid >= self.applied, "cannot cut {zxid}, below applied {}", self.applied);
        while self.entries.back().is_some_and(|txn| txn.header.zxid > zxid) {
            if let Some(cut) = self.entries.pop_back() {
                self.entries_bytes -= cut.bytes.len();
            }
        }
        self.unlogged.retain(|(unlogged, _)| *unlogged <= zxid);
        self.appended = self.entries.back().map_or(self.applied, |txn| txn.header.zxid);
        self.durable = self.durable.min(self.appended);
        self.committed = self.committed.min(self.appended);
        self.dirty = true;
    }

    /// Drops all entries and waits for [`Self::rebase`]: the cut lies below what is applied.
    pub(crate) fn truncate_below_applied(&mut self, zxid: Zxid) {
        self.replace_history(zxid);
    }

    /// The first transaction that is logged or being logged and not yet committed.
    pub(crate) fn next_uncommitted(&self) -> Option<&Arc<LoggedTxn>> {
        let at = self.entries.partition_point(|txn| txn.header.zxid <= self.committed);
        self.entries.get(at)
    }

    /// Transactions that are both committed and durable here, oldest first, to be applied now.
    pub(crate) fn take_applicable(&mut self) -> Vec<Arc<LoggedTxn>> {
        let unlogged =
            crate::mutants::mutant!("commit_unlogged") || crate::mutants::mutant!("no_drain_before_election");
        let limit = if unlogged { self.committed } else { self.committed.min(self.durable) };
        let mut ready = Vec::new();
        while self.entries.front().is_some_and(|txn| txn.header.zxid <= limit) {
            let Some(txn) = self.entries.pop_front() else { break };
            self.applied = txn.header.zxid;
            self.entries_bytes -= txn.bytes.len();
            self.window.push_back(Arc::clone(&txn));
            ready.push(txn);
        }
        while self.window.len() > self.window_max {
            if let Some(oldest) = self.window.pop_front() {
                self.window_base = oldest.header.zxid;
            }
        }
        ready
    }

    /// The zxid from which the history in memory is known without a gap. Never a placeholder: with an empty window it
    /// is what was applied (ZOOKEEPER-3526, 4352).
    pub(crate) fn history_base(&self) -> Zxid {
        if crate::mutants::mutant!("placeholder_range") { Zxid::ZERO } else { self.window_base }
    }

    /// Transactions after `after` up to and including `until`, oldest first.
    pub(crate) fn history(&self, after: Zxid, until: Zxid) -> impl Iterator<Item = &Arc<LoggedTxn>> {
        let window_at = self.window.partition_point(|txn| txn.header.zxid <= after);
        let entries_at = self.entries.partition_point(|txn| txn.header.zxid <= after);
        self.window
            .range(window_at..)
            .chain(self.entries.range(entries_at..))
            .take_while(move |txn| txn.header.zxid <= until)
    }

    /// The last zxid of the history in memory that is not after `zxid`: one of a transaction, or the base.
    pub(crate) fn last_not_after(&self, zxid: Zxid) -> Zxid {
        let at = self.entries.partition_point(|txn| txn.header.zxid <= zxid);
        if at > 0 {
            return self.entries[at - 1].header.zxid;
        }
        let at = self.window.partition_point(|txn| txn.header.zxid <= zxid);
        if at > 0 { self.window[at - 1].header.zxid } else { self.window_base }
    }

    /// Number of transactions appended and not yet applied.
    pub(crate) fn backlog(&self) -> usize {
        self.entries.len()
    }

    /// True if more is appended and not applied than a member may hold in memory.
    pub(crate) fn overflows(&self) -> bool {
        self.entries.len() > BACKLOG_MAX || self.entries_bytes > BACKLOG_BYTES_MAX
    }
}
