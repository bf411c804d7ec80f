//! The epoch files (upstream `QuorumPeer.writeLongToFile`, `AtomicFileWritingIdiom`) and the space kept aside for them.
//!
//! accepted >= current holds on disk across any crash (invariant 3): each file is replaced in one durable step, and the
//! one that must stay ahead is written first.

use std::path::Path;

use zk_jute::Epoch;

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::files;
use crate::names::{ACCEPTED_EPOCH, CURRENT_EPOCH, RESERVE};
use crate::store::Store;

/// The reserve is taken only from a disk with this many times its size free, so that it never causes what it is for.
const ROOM_FOR_RESERVE: u64 = 4;

impl<D: Disk> Store<D> {
    /// Makes `epoch` the accepted epoch, durably.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] leaves file and store as they were; others as [`Store::sync`].
    ///
    /// # Panics
    /// If the epoch goes back, or below the current epoch.
    pub fn write_accepted_epoch(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        self.ready()?;
        assert!(
            epoch >= self.accepted && epoch >= self.current,
            "accepted epoch {epoch} after {} with current {}",
            self.accepted,
            self.current
        );
        let current = self.layout.in_snap_dir(CURRENT_EPOCH);
        // A missing current epoch beside an accepted one would be ambiguous at the next start.
        let written = match files::exists(&self.disk, &current) {
            Ok(true) => Ok(()),
            Ok(false) => self.write_epoch(CURRENT_EPOCH, self.current),
            Err(error) => Err(error),
        };
        let written = written.and_then(|()| self.write_epoch(ACCEPTED_EPOCH, epoch));
        self.settle_small(written)?;
        self.accepted = epoch;
        Ok(())
    }

    /// Makes `epoch` the current epoch, durably.
    ///
    /// # Errors
    /// As [`Store::write_accepted_epoch`].
    ///
    /// # Panics
    /// If the epoch goes back, or above the accepted epoch.
    pub fn write_current_epoch(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        self.ready()?;
        assert!(
            epoch >= self.current && epoch <= self.accepted,
            "current epoch {epoch} after {} with accepted {}",
            self.current,
            self.accepted
        );
        let written = self.write_epoch(CURRENT_EPOCH, epoch);
        self.settle_small(written)?;
        self.current = epoch;
        Ok(())
    }

    pub(crate) fn write_epoch(&mut self, name: &str, epoch: Epoch) -> Result<(), StoreError> {
        let path = self.layout.in_snap_dir(name);
        self.write_reserved(&path, &epoch.to_string())
    }

    /// Replaces a small file; on a full disk it takes the reserve.
    pub(crate) fn write_reserved(&mut self, path: &Path, content: &str) -> Result<(), StoreError> {
        match files::write_small(&self.disk, path, content) {
            Err(StoreError::NoSpace { .. }) if self.release_reserve()? => {
                files::write_small(&self.disk, path, content)
            }
            other => other,
        }
    }

    fn release_reserve(&self) -> Result<bool, StoreError> {
        files::remove_durably(&self.disk, &self.layout.in_snap_dir(RESERVE))
    }

    /// Sets the reserve aside if it is missing and there is room. Called when the store is recovered and when space was
    /// freed; the caller may do so after freeing space itself. Failing to is no error, but the result says so.
    pub fn ensure_reserve(&self) -> bool {
        let len = self.cfg.reserve_bytes;
        let path = self.layout.in_snap_dir(RESERVE);
        if len == 0 || matches!(files::exists(&self.disk, &path), Ok(true)) {
            return true;
        }
        let Ok(usage) = self.disk.usage(&self.layout.snap_dir) else { return false };
        if usage.free < len.saturating_mul(ROOM_FOR_RESERVE) {
            return false;
        }
        let made = self.make_reserve(&path, len);
        if made.is_err() {
            // Best effort: a reserve of zero length would pass for one.
            let _ = self.disk.remove(&path);
        }
        made.is_ok()
    }

    /// Reserved blocks alone would do on most file systems; written ones do on all.
    fn make_reserve(&self, path: &Path, len: u64) -> std::io::Result<()> {
        let mut file = self.disk.create(path)?;
        file.allocate(0, len)?;
        file.write_at(0, &vec![0x5a; usize::try_from(len).unwrap_or(usize::MAX)])?;
        file.sync()?;
        self.disk.sync_dir(&self.layout.snap_dir)
    }
}
