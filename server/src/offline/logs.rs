//! What a check wants to know of the log files beyond what a replay sees: where a transaction is, and whether records that
//! repeat a zxid agree.
//!
//! Two different transactions of one zxid are divergence within one directory (invariant 10); repeated equal ones are
//! harmless (ZOOKEEPER-4541).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use foldhash::fast::FixedState;
use zk_jute::Zxid;
use zk_jute::txn::LoggedTxn;
use zk_store::check::LogFacts;
use zk_store::dump::dump_log;
use zk_store::{FileDisk, StoreError};

/// Repeated zxids that are remembered and compared: 100,000 of at most some 100 bytes, 10 MB.
const REPEATS_MAX: usize = 100_000;

/// A record of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    /// Byte offset of the record.
    pub(super) offset: u64,
}

/// A record that says something else than an earlier one of the same zxid.
#[derive(Debug)]
pub(super) struct Contradiction {
    pub(super) zxid: Zxid,
    pub(super) place: Place,
    pub(super) first: Place,
}

/// What one pass over all logs found.
#[derive(Default, Debug)]
pub(super) struct Scan {
    /// The first record of each zxid that was asked for.
    pub(super) places: BTreeMap<Zxid, Place>,
    /// Zxids that came again, at most [`REPEATS_MAX`].
    repeated: BTreeSet<Zxid>,
}

impl Scan {
    /// Reads all of `logs`, oldest first, for the places of `wanted` and for repetitions.
    ///
    /// # Errors
    /// A file that cannot be read; damage ends only the file that has it.
    pub(super) fn of(logs: &[LogFacts], wanted: &BTreeSet<Zxid>) -> Result<Self, StoreError> {
        let (mut scan, mut last) = (Self::default(), None);
        each_record(logs, &mut |file, offset, txn| {
            let zxid = txn.zxid();
            if Some(zxid) <= last && scan.repeated.len() < REPEATS_MAX {
                scan.repeated.insert(zxid);
            }
            last = last.max(Some(zxid));
            if wanted.contains(&zxid) {
                scan.places.entry(zxid).or_insert_with(|| Place { file: file.to_owned(), offset });
            }
        })?;
        Ok(scan)
    }

    /// Compares the records of every repeated zxid, in a pass of its own that is made only if there is any. The first
    /// `limit` that differ are returned.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub(super) fn contradictions(
        &self,
        logs: &[LogFacts],
        limit: usize,
    ) -> Result<Vec<Contradiction>, StoreError> {
        let mut found = Vec::new();
        if self.repeated.is_empty() {
            return Ok(found);
        }
        let hasher = FixedState::default();
        let mut firsts: BTreeMap<Zxid, (u64, Place)> = BTreeMap::new();
        each_record(logs, &mut |file, offset, txn| {
            let zxid = txn.zxid();
            if !self.repeated.contains(&zxid) {
                return;
            }
            let (hash, place) = (hasher.hash_one(&txn.bytes[..]), Place { file: file.to_owned(), offset });
            match firsts.get(&zxid) {
                None => {
                    firsts.insert(zxid, (hash, place));
                }
                Some((first_hash, first)) if *first_hash != hash && found.len() < limit => {
                    found.push(Contradiction { zxid, place, first: first.clone() });
                }
                Some(_) => {}
            }
        })?;
        Ok(found)
    }
}

fn each_record(logs: &[LogFacts], visit: &mut dyn FnMut(&Path, u64, &LoggedTxn)) -> Result<(), StoreError> {
    for log in logs {
        match dump_log(&FileDisk, &log.file, &mut |offset, txn| visit(&log.file, offset, txn)) {
            // Damage is in the report already.
            Ok(_) | Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The zxid that a file is named after; `prefix` is `log.` or `snapshot.`.
pub(super) fn zxid_in_name(file: &Path, prefix: &str) -> Option<Zxid> {
    let rest = file.file_name()?.to_str()?.strip_prefix(prefix)?;
    let hex = rest.split_once('.').map_or(rest, |(hex, _)| hex);
    i64::from_str_radix(hex, 16).ok().map(Zxid)
}

/// A zxid as reports hold it, in hexadecimal with prefix.
pub(super) fn zxid_in_report(text: &str) -> Option<Zxid> {
    i64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(Zxid)
}
