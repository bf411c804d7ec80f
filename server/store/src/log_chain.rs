//! Reading history across log files: nothing is skipped silently (invariant 10).
//!
//! Every transaction must follow the one before it. Damage at the end of the newest log is a torn tail, which may be
//! cut; damage anywhere else is harmless only if the next record proves by its zxid that nothing is missing.
//! Repeated records (ZOOKEEPER-4541) are tolerated, contradicting ones are not.

use std::path::{Path, PathBuf};

use zk_jute::Zxid;
use zk_jute::txn::LoggedTxn;

use crate::config::MAX_UNSYNCED;
use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::log_reader::{LogEnd, LogReader, Next, Opened};
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
/// taken as it is, and the caller judges whether history may begin there.
///
/// # Errors
/// A gap, damage that may have swallowed transactions, or whatever `visit` returns.
pub(crate) fn walk<D: Disk>(
    disk: &D,
    logs: &[Named],
    after: Option<Zxid>,
    visit: &mut dyn FnMut(&Path, u64, Seen) -> Result<(), StoreError>,
) -> Result<Walked, StoreError> {
    let walked = Walked { last: after.unwrap_or(Zxid::ZERO), ..Walked::default() };
    let mut walk = Walk { after, doubt: None, previous: None, walked, visit };
    for log in logs {
        walk.file(disk, &log.path)?;
    }
    walk.finish()
}

struct Walk<'a, F> {
    /// Transactions up to here are known to the caller.
    after: Option<Zxid>,
    /// Damage since the last record, of which the next record must prove that it swallowed nothing.
    doubt: Option<(PathBuf, u64, String)>,
    /// The last file with a record, and how it ended.
    previous: Option<(LogReader<F>, LogEnd, PathBuf)>,
    walked: Walked,
    visit: &'a mut dyn FnMut(&Path, u64, Seen) -> Result<(), StoreError>,
}

impl<F: DiskFile> Walk<'_, F> {
    fn file<D: Disk<File = F>>(&mut self, disk: &D, path: &Path) -> Result<(), StoreError> {
        let mut reader = match LogReader::open(disk, path)? {
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
                        self.enter()?;
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
        // Zeros right after the header: only a look behind them tells an empty log from a torn one.
        let end = if reader.offset() == start { reader.tail_damage(end)? } else { end };
        if reader.offset() == start && end == LogEnd::Clean {
            let (file, size) = (path.to_owned(), reader.size());
            self.walked.empty.push(EmptyLog { file, size, headless: false });
        } else {
            if reader.offset() == start {
                self.enter()?;
            }
            self.walked.files.push(path.to_owned());
            self.previous = Some((reader, end, path.to_owned()));
        }
        Ok(())
    }

    /// A file with content begins: the one before it is not the newest, so its damage is no torn tail.
    fn enter(&mut self) -> Result<(), StoreError> {
        if let Some((reader, LogEnd::Damaged { what }, path)) = self.previous.take() {
            self.doubt.get_or_insert((path, reader.offset(), what));
        }
        // A log without a record is no doubt if its header is whole: nothing was ever appended to it.
        for empty in self.walked.empty.drain(..).filter(|empty| empty.headless) {
            self.doubt.get_or_insert((empty.file, 0, "the file has no header".to_owned()));
        }
        Ok(())
    }

    /// Returns whether the transaction repeats one that was handed over.
    fn txn(&mut self, path: &Path, offset: u64, txn: LoggedTxn) -> Result<bool, StoreError> {
        let zxid = txn.zxid();
        let last = self.walked.last;
        let known = self.after.is_some() || self.walked.first.is_some();
        if known && zxid <= last {
            if self.after.is_some_and(|after| zxid <= after) {
                // Whatever was damaged before this record is older still, and so known to the caller.
                if let Some((file, offset, what)) = self.doubt.take() {
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
    /// nothing about the end of the old one.
    fn settle_doubt(&mut self, last: Zxid, zxid: Zxid) -> Result<(), StoreError> {
        let Some((file, offset, what)) = self.doubt.take() else { return Ok(()) };
        if last.next_in_epoch() != Some(zxid) {
            let what = format!("{what}; the logs continue with {zxid}, and what came after {last} is lost");
            return Err(StoreError::Corrupt { file, offset, what });
        }
        self.walked.notes.push(Repair::DamageTolerated { file, offset, what });
        Ok(())
    }

    fn finish(mut self) -> Result<Walked, StoreError> {
        let Some((mut reader, end, file)) = self.previous.take() else { return Ok(self.walked) };
        let LogEnd::Damaged { what } = reader.tail_damage(end)? else { return Ok(self.walked) };
        let (last_intact, count) = reader.intact_behind(self.walked.last)?;
        let offset = reader.offset();
        if last_intact - offset > MAX_UNSYNCED {
            let what = format!(
                "{what}; {count} intact records follow, up to byte {last_intact}, so this was no torn write"
            );
            return Err(StoreError::corrupt(&file, offset, what));
        }
        self.walked.torn = Some(TornTail { file, offset, size: reader.size(), what });
        Ok(self.walked)
    }
}
