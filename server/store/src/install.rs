//! Replacing all history by a leader's snapshot (upstream `Learner.syncWithLeader` on SNAP, made crash-safe), and giving
//! periodic snapshots their names.
//!
//! Order of an installation:
//! 1. The snapshot is written and fsynced under a temporary name. A crash up to here leaves the old history.
//! 2. The marker `installing` is written durably. This is the commit point.
//! 3. The snapshot gets its name; then all logs and all snapshots at or after its zxid go, because they belong to a
//!    history that may not be the leader's (invariant 10).
//! 4. The marker goes. A crash between 2 and 4 is finished by the next recovery.

use zk_jute::Zxid;
use zk_jute::image::SnapshotSource;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::files::{self, Marker};
use crate::names::INSTALLING;
use crate::repair::Repair;
use crate::snapshot_reader::{NullSink, load_snapshot};
use crate::snapshot_writer::{PendingSnapshot, SnapshotWriter, write_file};
use crate::store::Store;

impl<D: Disk> Store<D> {
    /// Replaces everything by the state of `source`, which is that at `zxid`. Afterwards the log starts anew.
    ///
    /// # Errors
    /// After any error the store must be recovered, and holds either the old history or the new one, whole.
    ///
    /// # Panics
    /// If the snapshot is of an epoch that was never accepted here.
    pub fn install_snapshot(&mut self, source: &dyn SnapshotSource, zxid: Zxid) -> Result<(), StoreError> {
        self.ready()?;
        assert!(
            zxid.epoch() <= self.accepted,
            "installation of {zxid} with accepted epoch {}",
            self.accepted
        );
        self.generation += 1;
        let installed = self.install_ready(source, zxid);
        self.settle(installed)?;
        self.last_appended = zxid;
        self.last_durable = zxid;
        Ok(())
    }

    fn install_ready(&mut self, source: &dyn SnapshotSource, zxid: Zxid) -> Result<(), StoreError> {
        self.log.roll()?;
        self.drop_clean_marker()?;
        let tmp = self.layout.install_tmp();
        if let Err(error) = write_file(&self.disk, &tmp, source, zxid) {
            // Best effort: recovery removes it as well.
            let _ = self.disk.remove(&tmp);
            return Err(error);
        }
        files::sync_dir(&self.disk, &self.layout.snap_dir)?;
        let marker = self.layout.in_snap_dir(INSTALLING);
        self.write_reserved(&marker, &format!("{:x}", zxid.0))?;
        self.complete_install(zxid)
    }

    /// Everything after the commit point. May be repeated after a crash at any point.
    fn complete_install(&mut self, zxid: Zxid) -> Result<(), StoreError> {
        let (tmp, path) = (self.layout.install_tmp(), self.layout.snapshot(zxid));
        if files::exists(&self.disk, &tmp)? {
            files::rename(&self.disk, &tmp, &path)?;
            files::sync_dir(&self.disk, &self.layout.snap_dir)?;
        }
        for log in files::list_logs(&self.disk, &self.layout)? {
            files::remove(&self.disk, &log.path)?;
        }
        files::sync_dir(&self.disk, &self.layout.log_dir)?;
        for snapshot in files::list_snapshots(&self.disk, &self.layout)? {
            if snapshot.zxid >= zxid && snapshot.path != path {
                self.verified.remove(&snapshot.path);
                files::remove(&self.disk, &snapshot.path)?;
            }
        }
        files::sync_dir(&self.disk, &self.layout.snap_dir)?;
        files::remove_durably(&self.disk, &self.layout.in_snap_dir(INSTALLING))?;
        self.verified.insert(path);
        self.has_history = true;
        self.drop_initialize()
    }

    /// Finishes an installation that a crash interrupted after its commit point.
    pub(crate) fn finish_install(&mut self) -> Result<Vec<Repair>, StoreError> {
        let marker = files::read_marker(&self.disk, self.layout.in_snap_dir(INSTALLING))?;
        let zxid = match marker {
            Marker::Absent => return Ok(Vec::new()),
            Marker::At(zxid) => zxid,
            Marker::Unreadable { path, content } => {
                return Err(StoreError::corrupt(&path, 0, format!("{content:?} is not a zxid")));
            }
        };
        // It was durable before the marker was. Should the disk have lost it since, then what is left of the old
        // history is the only evidence, and stays.
        let tmp = self.layout.install_tmp();
        let path = if files::exists(&self.disk, &tmp)? { tmp } else { self.layout.snapshot(zxid) };
        if !files::exists(&self.disk, &path)? {
            let what = "the snapshot that an interrupted installation announces is missing";
            return Err(StoreError::corrupt(&path, 0, what));
        }
        load_snapshot(&self.disk, &path, &mut NullSink)?;
        self.complete_install(zxid)?;
        Ok(vec![Repair::InstallFinished { zxid }])
    }

    /// Hands out a writer for a periodic snapshot, to be used on another thread while this store goes on.
    ///
    /// # Errors
    /// [`StoreError::OutOfUse`].
    pub fn begin_snapshot(&self) -> Result<SnapshotWriter<D>, StoreError> {
        self.ready()?;
        let (disk, layout) = (self.disk.clone(), self.layout.clone());
        Ok(SnapshotWriter { disk, layout, generation: self.generation })
    }

    /// Gives a written snapshot its name, durably. Returns false, and drops the snapshot, if the store was truncated,
    /// recovered or given a leader's snapshot meanwhile: it may hold what is no longer history here (invariant 10).
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn publish_snapshot(&mut self, snapshot: PendingSnapshot) -> Result<bool, StoreError> {
        self.ready()?;
        if snapshot.generation != self.generation {
            // Best effort: recovery removes it as well.
            let _ = self.disk.remove(&snapshot.tmp);
            return Ok(false);
        }
        let published = self.publish_ready(&snapshot);
        self.settle(published)?;
        Ok(true)
    }

    fn publish_ready(&mut self, snapshot: &PendingSnapshot) -> Result<(), StoreError> {
        let path = self.layout.snapshot(snapshot.zxid);
        files::rename(&self.disk, &snapshot.tmp, &path)?;
        files::sync_dir(&self.disk, &self.layout.snap_dir)?;
        self.verified.insert(path);
        self.has_history = true;
        self.drop_initialize()
    }

    /// Writes and publishes a snapshot in one go, for callers without a second thread. The first one, at
    /// [`Zxid::ZERO`], is what upstream writes when an empty database is created, and what lets a Java server take
    /// the directory over.
    ///
    /// # Errors
    /// As [`SnapshotWriter::write`] and [`Store::publish_snapshot`].
    pub fn write_snapshot(&mut self, source: &dyn SnapshotSource, zxid: Zxid) -> Result<(), StoreError> {
        let written = self.begin_snapshot()?.write(source, zxid)?;
        self.publish_snapshot(written)?;
        Ok(())
    }
}
