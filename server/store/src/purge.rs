//! Removing what no recovery needs any more (upstream `PurgeTxnLog`).
//!
//! A snapshot counts only if its checksums fit, and history must stay buildable from the oldest one kept. With fewer
//! than the wanted number of good snapshots nothing is removed.
//!
//! Reading snapshots takes long, and removing files is the storage thread's. So a purge has three steps: the storage
//! thread begins it, any thread verifies, the storage thread removes, if what was verified is still what is there.

use std::path::PathBuf;

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::files;
use crate::log_chain;
use crate::names::Named;
use crate::snapshot_reader::{NullSink, load_within};
use crate::store::Store;

/// The least number of snapshots to keep (upstream's).
pub const MIN_RETAIN: usize = 3;

/// Snapshots that may have to be read before anything is removed. See [`Store::begin_purge`].
#[derive(Debug)]
pub struct PurgeCheck<D: Disk> {
    disk: D,
    max_record: usize,
    retain: usize,
    generation: u64,
    /// Newest first, and whether this process has read or written it already.
    candidates: Vec<(Named, bool)>,
}

/// Snapshots that are verified, for [`Store::finish_purge`].
#[derive(Debug)]
#[must_use = "a purge removes nothing before it is finished"]
pub struct PurgePlan {
    generation: u64,
    /// To be kept, newest first, with their lengths in bytes. Empty if there are too few.
    kept: Vec<(Named, u64)>,
}

impl<D: Disk> PurgeCheck<D> {
    /// Reads snapshots, newest first, until enough of them are good. Not to be done on the storage thread: it takes as long
    /// as reading those that this process has not read or written itself.
    ///
    /// # Errors
    /// [`StoreError::Io`] if one cannot be read.
    pub fn verify(self) -> Result<PurgePlan, StoreError> {
        let mut kept = Vec::new();
        for (named, known) in self.candidates {
            if kept.len() == self.retain {
                break;
            }
            let good = known || {
                match load_within(&self.disk, &named.path, self.max_record, &mut NullSink) {
                    Ok(_) => true,
                    Err(error) if error.is_corrupt() => false,
                    Err(error) => return Err(error),
                }
            };
            if good {
                let len = length(&self.disk, &named.path)?;
                kept.push((named, len));
            }
        }
        if kept.len() < self.retain {
            kept.clear();
        }
        Ok(PurgePlan { generation: self.generation, kept })
    }
}

fn length<D: Disk>(disk: &D, path: &std::path::Path) -> Result<u64, StoreError> {
    disk.open(path, false).and_then(|mut file| file.size()).map_err(StoreError::io(path, "measure"))
}

impl<D: Disk> Store<D> {
    /// Begins a purge that keeps the `retain` newest verified snapshots (at least [`MIN_RETAIN`]) and every log needed
    /// from the oldest of them on, and removes what is older.
    ///
    /// # Errors
    /// [`StoreError::OutOfUse`]; [`StoreError::Io`] if the directory cannot be listed.
    pub fn begin_purge(&self, retain: usize) -> Result<PurgeCheck<D>, StoreError> {
        self.ready()?;
        let mut candidates = Vec::new();
        for named in files::list_snapshots(&self.disk, &self.layout)? {
            if !self.rejected.contains(&named.path) {
                let known = self.verified.contains(&named.path);
                candidates.push((named, known));
            }
        }
        Ok(PurgeCheck {
            disk: self.disk.clone(),
            max_record: self.cfg.max_record,
            retain: retain.max(MIN_RETAIN),
            generation: self.generation,
            candidates,
        })
    }

    /// Removes what `plan` does not need, and returns the removed files: none if history was cut or replaced meanwhile, or
    /// if one of the verified snapshots is not there any more as it was.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a file cannot be removed; the store stays usable, and a later purge goes on.
    pub fn finish_purge(&mut self, plan: PurgePlan) -> Result<Vec<PathBuf>, StoreError> {
        self.ready()?;
        let (Some((newest, _)), Some((oldest, _))) = (plan.kept.first(), plan.kept.last()) else {
            return Ok(Vec::new());
        };
        let snapshots = files::list_snapshots(&self.disk, &self.layout)?;
        for (named, len) in &plan.kept {
            if !snapshots.contains(named) || length(&self.disk, &named.path)? != *len {
                return Ok(Vec::new());
            }
        }
        if plan.generation != self.generation {
            return Ok(Vec::new());
        }
        self.verified.extend(plan.kept.iter().map(|(named, _)| named.path.clone()));
        // A bad snapshot newer than every good one stays: it proves that there was history up to it.
        let goes =
            |s: &&Named| s.zxid < newest.zxid && !plan.kept.iter().any(|(kept, _)| kept.path == s.path);
        let mut removed: Vec<PathBuf> = snapshots.iter().rev().filter(goes).map(|s| s.path.clone()).collect();
        self.remove_all(&removed)?;
        let logs = files::list_logs(&self.disk, &self.layout)?;
        let needed = log_chain::needed_after(&logs, oldest.zxid).len();
        let unneeded: Vec<PathBuf> = logs[..logs.len() - needed].iter().map(|log| log.path.clone()).collect();
        self.remove_all(&unneeded)?;
        removed.extend(unneeded);
        self.ensure_reserve();
        Ok(removed)
    }

    /// A whole purge in one go, for callers without a second thread.
    ///
    /// # Errors
    /// As [`PurgeCheck::verify`] and [`Store::finish_purge`].
    pub fn purge(&mut self, retain: usize) -> Result<Vec<PathBuf>, StoreError> {
        let plan = self.begin_purge(retain)?.verify()?;
        self.finish_purge(plan)
    }

    /// Oldest first, each durable before the next, so that what remains has no hole.
    fn remove_all(&mut self, paths: &[PathBuf]) -> Result<(), StoreError> {
        for path in paths {
            self.verified.remove(path);
            let removed = files::remove_durably(&self.disk, path);
            match removed {
                Err(error @ StoreError::SyncFailed { .. }) => return self.settle(Err(error)),
                other => other?,
            };
        }
        Ok(())
    }
}
