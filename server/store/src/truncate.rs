//! Cutting history back to what the leader has (upstream `FileTxnLog.truncate`, `ZKDatabase.truncateLog`).
//!
//! Snapshots that end after the target go, logs go from the newest backwards, and what remains of the history after the
//! target is cut out of older logs; each step is durable before the next. So a crash in between leaves a prefix of the
//! old history that still holds the target, never one with a hole. Upstream cuts only logs and then reloads a newer
//! snapshot with it (ZOOKEEPER-1549).

use std::path::{Path, PathBuf};

use zk_jute::Zxid;

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::files;
use crate::log_chain::{self, Seen};
use crate::log_reader::{LogReader, Next, Opened};
use crate::names::Named;
use crate::snapshot_reader::{NullSink, load_within};
use crate::store::Store;

/// What is to be done, found out before anything is changed.
struct Cut {
    /// Snapshots after the target, newest first.
    snapshots: Vec<Named>,
    /// The logs alone hold everything from an earlier snapshot (or the beginning) to the newest of `snapshots`.
    covered: bool,
    /// Logs that begin after the target, newest first.
    logs: Vec<Named>,
    /// Other logs that hold transactions after the target, newest first, and where the first of those is.
    rests: Vec<(PathBuf, u64)>,
}

impl<D: Disk> Store<D> {
    /// Removes everything after `zxid`, which becomes the last durable transaction. The caller must recover the store
    /// to get the image at that point.
    ///
    /// # Errors
    /// [`StoreError::TruncateImpossible`]: history up to exactly `zxid` cannot be built here; nothing was changed, and
    /// the leader must send a snapshot. After any other error the store must be recovered.
    pub fn truncate(&mut self, zxid: Zxid) -> Result<(), StoreError> {
        self.ready()?;
        self.generation += 1;
        let rolled = self.log.roll();
        self.settle(rolled)?;
        self.last_durable = self.last_appended;
        if zxid == self.last_durable {
            return Ok(());
        }
        let cut = match self.plan_cut(zxid) {
            Err(error @ StoreError::TruncateImpossible { .. }) => return Err(error),
            other => self.settle(other)?,
        };
        let done = self.cut(cut);
        self.settle(done)?;
        self.last_appended = zxid;
        self.last_durable = zxid;
        Ok(())
    }

    fn plan_cut(&self, zxid: Zxid) -> Result<Cut, StoreError> {
        let (after, snapshots) = self.base_for(zxid)?;
        let all = files::list_logs(&self.disk, &self.layout)?;
        let needed = after.map_or(&all[..], |after| log_chain::needed_after(&all, after));
        let (mut first, mut reached) = (None, after);
        let walked = log_chain::walk(&self.disk, needed, self.cfg.max_record, after, &mut |_, _, seen| {
            if let Seen::New(txn) = seen {
                first.get_or_insert(txn.zxid());
                reached = reached.max(Some(txn.zxid()).filter(|at| *at <= zxid));
            }
            Ok(())
        });
        // A hole or damage after the target does not matter: it is about to go.
        let end = match walked {
            Ok(walked) => Some(walked.last),
            Err(StoreError::Gap { .. } | StoreError::Corrupt { .. }) => None,
            Err(other) => return Err(other),
        };
        let whole = match (after, first) {
            (None, Some(first)) => self.begins_at(first)?,
            (Some(_), _) | (None, None) => true,
        };
        if !whole || reached.unwrap_or(Zxid::ZERO) != zxid {
            return Err(StoreError::TruncateImpossible { zxid });
        }
        let newest = snapshots.first().map_or(Zxid::ZERO, |snapshot| snapshot.zxid);
        let (mut older, mut logs): (Vec<_>, Vec<_>) = all.into_iter().partition(|log| log.zxid <= zxid);
        older.reverse();
        logs.reverse();
        let rests = self.rests_after(&older, zxid)?;
        Ok(Cut { snapshots, covered: end.is_some_and(|end| end >= newest), logs, rests })
    }

    /// The newest whole snapshot at or before `zxid` (`None`: none, the logs must do), and the snapshots after it.
    fn base_for(&self, zxid: Zxid) -> Result<(Option<Zxid>, Vec<Named>), StoreError> {
        let mut later = Vec::new();
        for snapshot in files::list_snapshots(&self.disk, &self.layout)? {
            if snapshot.zxid > zxid {
                later.push(snapshot);
                continue;
            }
            if self.rejected.contains(&snapshot.path) {
                continue;
            }
            match load_within(&self.disk, &snapshot.path, self.cfg.max_record, &mut NullSink) {
                Ok(_) => return Ok((Some(snapshot.zxid), later)),
                Err(error) if error.is_corrupt() => {}
                Err(error) => return Err(error),
            }
        }
        Ok((None, later))
    }

    /// All logs are searched, not only the one with the target: records may be repeated across files
    /// (ZOOKEEPER-4541), and a repetition must not bring back what is cut.
    fn rests_after(&self, logs: &[Named], zxid: Zxid) -> Result<Vec<(PathBuf, u64)>, StoreError> {
        let mut rests = Vec::new();
        for log in logs {
            if let Some(offset) = first_after(&self.disk, &log.path, self.cfg.max_record, zxid)? {
                rests.push((log.path.clone(), offset));
            }
        }
        Ok(rests)
    }

    fn cut(&mut self, cut: Cut) -> Result<(), StoreError> {
        self.drop_clean_marker()?;
        if cut.covered {
            self.cut_snapshots(&cut.snapshots)?;
            self.cut_logs(&cut)
        } else {
            // The logs have a hole that only a snapshot bridges: it goes when nothing behind the hole is left.
            self.cut_logs(&cut)?;
            self.cut_snapshots(&cut.snapshots)
        }
    }

    fn cut_snapshots(&mut self, snapshots: &[Named]) -> Result<(), StoreError> {
        for snapshot in snapshots {
            self.verified.remove(&snapshot.path);
            files::remove_durably(&self.disk, &snapshot.path)?;
        }
        Ok(())
    }

    fn cut_logs(&self, cut: &Cut) -> Result<(), StoreError> {
        for log in &cut.logs {
            files::remove_durably(&self.disk, &log.path)?;
        }
        for (path, end) in &cut.rests {
            let mut file = self.disk.open(path, true).map_err(StoreError::io(path, "open"))?;
            file.set_len(*end).map_err(StoreError::io(path, "cut"))?;
            file.sync().map_err(StoreError::sync(path))?;
        }
        Ok(())
    }
}

/// Offset of the first transaction after `zxid` in one log.
fn first_after<D: Disk>(disk: &D, path: &Path, limit: usize, zxid: Zxid) -> Result<Option<u64>, StoreError> {
    let Opened::Log(mut reader) = LogReader::open(disk, path, limit)? else { return Ok(None) };
    loop {
        match reader.next()? {
            Next::Txn { offset, txn } if txn.zxid() > zxid => return Ok(Some(offset)),
            Next::Txn { .. } => {}
            Next::End(_) => return Ok(None),
        }
    }
}
