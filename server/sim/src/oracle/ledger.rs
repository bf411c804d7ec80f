//! What each member's log holds, as the world saw it written: the ground the other oracles stand on.
//!
//! A ledger follows the disk operations of one member from outside: issued appends, what a completed fsync covers,
//! truncations, installed images. It survives the member's crashes, so that what recovery brings back can be compared with
//! what had been promised.

use std::collections::BTreeMap;

use bytes::Bytes;
use zk_jute::{Epoch, Zxid};

use super::Violation;
use crate::trace::fnv;

/// One logged transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub zxid: Zxid,
    pub hash: u64,
    pub bytes: Bytes,
}

impl Entry {
    /// The entry of a transaction with these bytes.
    pub fn new(zxid: Zxid, bytes: &Bytes) -> Self {
        Self { zxid, hash: fnv(bytes), bytes: bytes.clone() }
    }
}

/// A change of the whole history that was begun: until it is known to be done, recovery may find either side of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doubt {
    Truncate(Zxid),
    /// An image, and the transactions that come with it.
    Install(Zxid, Vec<Entry>),
}

/// One member's log and epochs.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Where the member's image ends; a transaction up to it that the log does not show counts as held.
    pub base: Zxid,
    /// Ends of earlier images that a truncation could fall back to.
    older_bases: Vec<Zxid>,
    /// Kept from before the image too: a truncation may go back behind it.
    entries: Vec<Entry>,
    /// How many entries an fsync covers.
    durable: usize,
    /// Begun and not known to be done.
    pub doubt: Option<Doubt>,
    /// As durable on disk.
    pub accepted: Epoch,
    pub current: Epoch,
}

impl Ledger {
    /// Appends, in memory of the disk only.
    pub fn append(&mut self, entry: Entry) -> Result<(), Violation> {
        let last = self.last();
        let zxid = entry.zxid;
        self.entries.push(entry);
        if zxid.follows(last) || (last == Zxid::ZERO && zxid.counter() == 1) {
            return Ok(());
        }
        Err(Violation::new("LogWithoutGap", format!("{zxid} was appended after {last}")))
    }

    /// An fsync covers everything up to `zxid`.
    pub fn sync_through(&mut self, zxid: Zxid) {
        self.durable = self.durable.max(self.entries.partition_point(|entry| entry.zxid <= zxid));
    }

    /// The log ends at `zxid` from here on; an image that ends later goes with it.
    pub fn truncate(&mut self, zxid: Zxid) {
        self.doubt = None;
        let keep = self.entries.partition_point(|entry| entry.zxid <= zxid);
        self.entries.truncate(keep);
        self.durable = self.durable.min(keep);
        while self.base > zxid {
            self.base = self.older_bases.pop().unwrap_or_default();
        }
    }

    /// An image, and the transactions that come with it, become the whole history.
    pub fn install(&mut self, zxid: Zxid, tail: Vec<Entry>) {
        let durable = tail.len();
        let (accepted, current) = (self.accepted, self.current);
        *self = Self { base: zxid, entries: tail, durable, accepted, current, ..Self::default() };
    }

    /// The member's process read its directory and found this; all of it counts as durable from here on.
    pub fn recovered(&mut self, base: Zxid, tail: Vec<Entry>) {
        if let Some(Doubt::Install(zxid, installed)) = self.doubt.take()
            && zxid == base
            && installed == tail
        {
            return self.install(base, tail);
        }
        if self.base < base {
            self.older_bases.push(self.base);
        }
        self.base = base;
        let keep = self.entries.partition_point(|entry| entry.zxid <= base);
        self.entries.truncate(keep);
        self.entries.extend(tail);
        self.durable = self.entries.len();
    }

    /// Last transaction written, durable or not.
    pub fn last(&self) -> Zxid {
        self.entries.last().map_or(self.base, |entry| entry.zxid.max(self.base))
    }

    /// Last transaction that a power cut cannot take.
    pub fn durable_last(&self) -> Zxid {
        self.durable
            .checked_sub(1)
            .and_then(|at| self.entries.get(at))
            .map_or(self.base, |entry| entry.zxid.max(self.base))
    }

    /// The entry of `zxid`, if the log still has it apart from the image.
    pub fn entry(&self, zxid: Zxid) -> Option<&Entry> {
        let at = self.entries.binary_search_by_key(&zxid, |entry| entry.zxid).ok()?;
        self.entries.get(at)
    }

    /// True if the log or the image before it holds this very transaction; `durable` asks for what an fsync covers.
    pub fn holds(&self, zxid: Zxid, hash: u64, durable: bool) -> bool {
        match self.entries.binary_search_by_key(&zxid, |entry| entry.zxid) {
            Ok(at) => self.entries[at].hash == hash && (!durable || at < self.durable),
            Err(_) => zxid <= self.base,
        }
    }

    /// Entries after `after` up to and including `until`.
    pub fn range(&self, after: Zxid, until: Zxid) -> &[Entry] {
        let from = self.entries.partition_point(|entry| entry.zxid <= after);
        let to = self.entries.partition_point(|entry| entry.zxid <= until);
        &self.entries[from..to.max(from)]
    }

    /// Everything the log was seen to hold.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// The ledgers of all members.
pub type Ledgers = BTreeMap<i64, Ledger>;

/// Checks what recovery found against what had been written: nothing that was synced is missing, nothing was invented.
pub fn check_recovery(before: &Ledger, base: Zxid, found: &[Entry]) -> Result<(), Violation> {
    let last = found.last().map_or(base, |entry| entry.zxid);
    let owed = match &before.doubt {
        // The new history, whole: nothing of the old one is owed any more.
        Some(Doubt::Install(zxid, tail)) if *zxid == base && tail == found => return Ok(()),
        Some(Doubt::Truncate(zxid)) => before.durable_last().min(*zxid),
        Some(Doubt::Install(..)) | None => before.durable_last(),
    };
    if last < owed {
        return Err(Violation::new(
            "Durability",
            format!("recovery ends at {last}, but {owed} was promised"),
        ));
    }
    for entry in found {
        if !before.holds(entry.zxid, entry.hash, false) {
            let text = format!(
                "recovery found {} that was never written so (log {}..{})",
                entry.zxid,
                before.base,
                before.last()
            );
            return Err(Violation::new("Durability", text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(counter: u32) -> Entry {
        Entry::new(Zxid::new(Epoch(1), counter), &Bytes::from(vec![counter as u8]))
    }

    #[test]
    fn a_gap_is_seen_when_it_is_written() {
        let mut ledger = Ledger::default();
        ledger.append(entry(1)).expect("first");
        ledger.append(entry(2)).expect("second");
        assert_eq!(ledger.append(entry(4)).expect_err("gap").oracle, "LogWithoutGap");
    }

    #[test]
    fn recovery_may_lose_only_what_no_fsync_covered() {
        let mut ledger = Ledger::default();
        for counter in 1..=3 {
            ledger.append(entry(counter)).expect("in order");
        }
        ledger.sync_through(entry(2).zxid);
        check_recovery(&ledger, Zxid::ZERO, &[entry(1), entry(2)]).expect("the third was not synced");
        check_recovery(&ledger, Zxid::ZERO, &[entry(1)]).expect_err("the second was");
        let invented = Entry { hash: 1, ..entry(3) };
        check_recovery(&ledger, Zxid::ZERO, &[entry(1), entry(2), invented]).expect_err("invented");
    }
}
