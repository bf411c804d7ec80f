//! Reading history across log files: nothing is skipped silently (invariant 10).
//!
//! Every transaction must follow the one before it. Damage at the end of the newest log is a torn tail, which may be
//! cut, unless intact records behind it show that it was durable. Damage anywhere else is harmless only if the next
//! record proves by its zxid that nothing is missing, or if it is an append that a server was stopped in: those of
//! upstream begin a new file then and leave the old one as it is. Repeated records (ZOOKEEPER-4541) are tolerated, contradicting ones are not.

use std::path::{Path, PathBuf};

use zk_jute::Zxid;
use zk_jute::txn::LoggedTxn;

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::log_reader::{Damage, Intact, LogReader, Next, Opened, Rest};
use crate::names::Named;
use crate::repair::Repair;

/// What a walk hands to its visitor.
pub(crate) enum Seen {
    /// The next transaction of the history.
    New(LoggedTxn),
    /// A repetition of one that was handed over before.
    Again(LoggedTxn),
}

/// The torn tail of the newest log.
#[derive(Debug)]
pub(crate) struct TornTail {
    pub(crate) file: PathBuf,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) what: String,
}

/// A log without a record.
#[derive(Debug)]
pub(crate) struct EmptyLog {
    pub(crate) file: PathBuf,
    pub(crate) size: u64,
    /// Not even the header is there.
    pub(crate) headless: bool,
}

/// What a walk found besides the transactions.
#[derive(Default, Debug)]
pub(crate) struct Walked {
    /// First transaction handed over.
    pub(crate) first: Option<Zxid>,
    /// Last transaction of the history; where the walk started if there was none.
    pub(crate) last: Zxid,
    /// Files that were read, oldest first.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) torn: Option<TornTail>,
    /// Logs without a record behind the last one that has any, oldest first.
    pub(crate) empty: Vec<EmptyLog>,
    /// Repetitions and harmless damage.
    pub(crate) notes: Vec<Repair>,
}

/// The logs that can hold something after `after`: the last one that starts at or before it, and all later ones
/// (upstream `FileTxnLog.getLogFiles`).
pub(crate) fn needed_after(logs: &[Named], after: Zxid) -> &[Named] {
    let later = logs.partition_point(|log| log.zxid <= after);
    &logs[later.saturating_sub(1)..]
}

/// Calls `visit` for each transaction after `after` in `logs` (oldest first). With `after` `None` the first record is
/// taken as it is, and the caller judges whether history may begin there. Records longer than `limit` bytes are damage.
///
/// # Errors
/// A gap, damage that may have swallowed transactions, or whatever `visit` returns.
pub(crate) fn walk<D: Disk>(
    disk: &D,
    logs: &[Named],
    limit: usize,
    after: Option<Zxid>,
    visit: &mut dyn FnMut(&Path, u64, Seen) -> Result<(), StoreError>,
) -> Result<Walked, StoreError> {
    let walked = Walked { last: after.unwrap_or(Zxid::ZERO), ..Walked::default() };
    let mut walk = Walk { limit, after, doubt: None, previous: None, walked, visit };
    for log in logs {
        walk.file(disk, &log.path)?;
    }
    walk.finish()
}

/// Damage that the next record must prove harmless.
struct Doubt {
    file: PathBuf,
    offset: u64,
    what: String,
    /// No whole record was ever there.
    cut_short: bool,
}

/// A file with something in it, and what is behind its last record.
struct Ended {
    file: PathBuf,
    offset: u64,
    size: u64,
    rest: Rest,
}

struct Walk<'a> {
    limit: usize,
    /// Transactions up to here are known to the caller.
    after: Option<Zxid>,
    /// Damage since the last record, of which the next record must prove that it swallowed nothing.
    doubt: Option<Doubt>,
    previous: Option<Ended>,
    walked: Walked,
    visit: &'a mut dyn FnMut(&Path, u64, Seen) -> Result<(), StoreError>,
}

impl Walk<'_> {
    fn file<D: Disk>(&mut self, disk: &D, path: &Path) -> Result<(), StoreError> {
        let mut reader = match LogReader::open(disk, path, self.limit)? {
            Opened::Log(reader) => reader,
            Opened::Headless => {
                let size = disk.open(path, false).and_then(|mut file| file.size());
                let size = size.map_err(StoreError::io(path, "measure"))?;
                self.walked.empty.push(EmptyLog { file: path.to_owned(), size, headless: true });
                return Ok(());
            }
        };
        let start = reader.offset();
        let mut repeated: Option<(u64, Zxid)> = None;
        let end = loop {
            match reader.next()? {
                Next::End(end) => break end,
                Next::Txn { offset, txn } => {
                    if offset == start {
                        self.enter();
                    }
                    let zxid = txn.zxid();
                    if self.txn(path, offset, txn)? {
                        let (count, first) = repeated.unwrap_or((0, zxid));
                        repeated = Some((count + 1, first));
                    }
                }
            }
        };
        if let Some((count, first)) = repeated {
            self.walked.notes.push(Repair::DuplicatesSkipped { file: path.to_owned(), count, first });
        }
        let rest = reader.rest(end, self.walked.last)?;
        let (file, offset, size) = (path.to_owned(), reader.offset(), reader.size());
        if offset == start && rest == Rest::Nothing {
            self.walked.empty.push(EmptyLog { file, size, headless: false });
            return Ok(());
        }
        if offset == start {
            self.enter();
        }
        self.walked.files.push(file.clone());
        self.previous = Some(Ended { file, offset, size, rest });
        Ok(())
    }

    /// A file with content begins: the one before it is not the newest, so its damage is no torn tail.
    fn enter(&mut self) {
        if let Some(Ended { file, offset, rest: Rest::Damaged(damage), .. }) = self.previous.take() {
            let Damage { what, cut_short, .. } = damage;
            self.doubt.get_or_insert(Doubt { file, offset, what, cut_short });
        }
        // A log without a record is no doubt if its header is whole: nothing was ever appended to it.
        for empty in self.walked.empty.drain(..).filter(|empty| empty.headless) {
            let what = "the file has no header".to_owned();
            self.doubt.get_or_insert(Doubt { file: empty.file, offset: 0, what, cut_short: false });
        }
    }

    /// Returns whether the transaction repeats one that was handed over.
    fn txn(&mut self, path: &Path, offset: u64, txn: LoggedTxn) -> Result<bool, StoreError> {
        let zxid = txn.zxid();
        let last = self.walked.last;
        let known = self.after.is_some() || self.walked.first.is_some();
        if known && zxid <= last {
            if self.after.is_some_and(|after| zxid <= after) {
                // Whatever was damaged before this record is older still, and so known to the caller.
                if let Some(Doubt { file, offset, what, .. }) = self.doubt.take() {
                    self.walked.notes.push(Repair::DamageTolerated { file, offset, what });
                }
                return Ok(false);
            }
            (self.visit)(path, offset, Seen::Again(txn))?;
            return Ok(true);
        }
        self.settle_doubt(last, zxid)?;
        if known && !zxid.follows(last) {
            return Err(StoreError::Gap { after: last, found: Some(zxid), file: path.to_owned() });
        }
        self.walked.first.get_or_insert(zxid);
        self.walked.last = zxid;
        (self.visit)(path, offset, Seen::New(txn))?;
        Ok(false)
    }

    /// Damage before `zxid` swallowed nothing if `zxid` is the very next of its epoch. The first of a new epoch proves
    /// nothing about the end of the old one; only a record that was never whole was never acknowledged either.
    fn settle_doubt(&mut self, last: Zxid, zxid: Zxid) -> Result<(), StoreError> {
        let Some(Doubt { file, offset, what, cut_short }) = self.doubt.take() else { return Ok(()) };
        if last.next_in_epoch() != Some(zxid) && !(cut_short && zxid.epoch() > last.epoch()) {
            let what = format!("{what}; the logs continue with {zxid}, and what came after {last} is lost");
            return Err(StoreError::Corrupt { file, offset, what });
        }
        self.walked.notes.push(Repair::DamageTolerated { file, offset, what });
        Ok(())
    }

    fn finish(mut self) -> Result<Walked, StoreError> {
        let Some(Ended { file, offset, size, rest: Rest::Damaged(damage) }) = self.previous.take() else {
            return Ok(self.walked);
        };
        let Damage { what, durable, .. } = damage;
        if let Some(Intact { count, end, .. }) = durable {
            let what =
                format!("{what}; {count} intact records follow, up to byte {end}, so this was no torn write");
            return Err(StoreError::Corrupt { file, offset, what });
        }
        self.walked.torn = Some(TornTail { file, offset, size, what });
        Ok(self.walked)
    }
}
