//! Reading files without a store: for `zk-server dump`, the offline check, and a leader that serves a learner from its
//! log (upstream `TxnLogToolkit`, `SnapshotFormatter`, `FileTxnSnapLog.readTxnLog`). Nothing here writes.

use std::path::Path;

use zk_jute::Zxid;
use zk_jute::txn::LoggedTxn;

use crate::config::{LONGEST_RECORD, StoreConfig};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::files;
use crate::log_chain::{self, Seen};
use crate::log_reader::{Damage, LogReader, Next, Opened, Rest};
use crate::names::Layout;

/// How a log file ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogFileEnd {
    /// After the last record there is nothing but preallocated space.
    Clean { offset: u64 },
    /// Something else than a record or zeros. `durable`: intact records behind it show that it was durable once, so a
    /// start would not cut it. `cut_short`: it is the start of one record that was never written to its end.
    Damaged { offset: u64, what: String, durable: bool, cut_short: bool },
    /// There is not even a header.
    Headless,
}

/// Calls `visit` for each record of one log file with its offset, in file order, until the first that is not intact.
///
/// # Errors
/// A file that is no log, or a record with a right checksum that is no transaction.
pub fn dump_log<D: Disk>(
    disk: &D,
    path: &Path,
    visit: &mut dyn FnMut(u64, &LoggedTxn),
) -> Result<LogFileEnd, StoreError> {
    let Opened::Log(mut reader) = LogReader::open(disk, path, LONGEST_RECORD)? else {
        return Ok(LogFileEnd::Headless);
    };
    let mut last = Zxid::ZERO;
    loop {
        match reader.next()? {
            Next::Txn { offset, txn } => {
                last = last.max(txn.zxid());
                visit(offset, &txn);
            }
            Next::End(end) => {
                let offset = reader.offset();
                return Ok(match reader.rest(end, last)? {
                    Rest::Nothing => LogFileEnd::Clean { offset },
                    Rest::Damaged(Damage { what, cut_short, durable }) => {
                        LogFileEnd::Damaged { offset, what, durable: durable.is_some(), cut_short }
                    }
                });
            }
        }
    }
}

/// Calls `visit` for each transaction after `after`, without a gap and each once, as a recovery would read them.
/// Returns the last one; `after` itself if there is none. A torn tail ends the walk without an error.
///
/// # Errors
/// [`StoreError::Gap`] if the logs do not continue right after `after`, [`StoreError::Corrupt`] for damage that may have
/// swallowed transactions, and whatever `visit` returns.
pub fn for_each_txn<D: Disk>(
    disk: &D,
    cfg: &StoreConfig,
    after: Zxid,
    visit: &mut dyn FnMut(LoggedTxn) -> Result<(), StoreError>,
) -> Result<Zxid, StoreError> {
    let logs = files::list_logs(disk, &Layout::new(cfg))?;
    let needed = log_chain::needed_after(&logs, after);
    let walked = log_chain::walk(disk, needed, cfg.max_record, Some(after), &mut |_, _, seen| match seen {
        Seen::New(txn) => visit(txn),
        Seen::Again(_) => Ok(()),
    })?;
    Ok(walked.last)
}
