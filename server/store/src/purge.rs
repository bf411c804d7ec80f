//! Removing what no recovery needs any more (upstream `PurgeTxnLog`).
//!
//! A snapshot counts only if its checksums fit, and history must stay buildable from the oldest one kept. With fewer
//! than the wanted number of good snapshots nothing is removed.

use std::path::PathBuf;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::files;
use crate::log_chain;
use crate::names::Named;
use crate::snapshot_reader::{NullSink, load_within};
use crate::store::Store;

/// The least number of snapshots to keep (upstream's).
pub const MIN_RETAIN: usize = 3;

impl<D: Disk> Store<D> {
    /// Keeps the `retain` newest verified snapshots (at least [`MIN_RETAIN`]) and every log needed from the oldest of
    /// them on, and removes what is older. Returns the removed files. Snapshots that this process has not read or
    /// written itself are read once, so the first purge takes as long as reading them.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a file cannot be read or removed; the store stays usable, and a later purge goes on.
    pub fn purge(&mut self, retain: usize) -> Result<Vec<PathBuf>, StoreError> {
        self.ready()?;
        let retain = retain.max(MIN_RETAIN);
        let snapshots = files::list_snapshots(&self.disk, &self.layout)?;
        let mut kept: Vec<&Named> = Vec::new();
        for snapshot in &snapshots {
            if kept.len() < retain && self.verify(snapshot)? {
                kept.push(snapshot);
            }
        }
        let (true, Some(newest), Some(oldest)) = (kept.len() == retain, kept.first(), kept.last()) else {
            return Ok(Vec::new());
        };
        // A bad snapshot newer than every good one stays: it proves that there was history up to it.
        let goes = |s: &&Named| s.zxid < newest.zxid && !kept.iter().any(|kept| kept.path == s.path);
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

    fn verify(&mut self, snapshot: &Named) -> Result<bool, StoreError> {
        if self.verified.contains(&snapshot.path) {
            return Ok(true);
        }
        if self.rejected.contains(&snapshot.path) {
            return Ok(false);
        }
        match load_within(&self.disk, &snapshot.path, self.cfg.max_record, &mut NullSink) {
            Ok(_) => {
                self.verified.insert(snapshot.path.clone());
                Ok(true)
            }
            Err(error) if error.is_corrupt() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
