//! Replacing all history by a leader's snapshot (upstream `Learner.syncWithLeader` on SNAP, made crash-safe), and giving
//! periodic snapshots their names.
//!
//! The transactions that the leader sent after its snapshot are part of the installation: this member may be one of those
//! that made them committed, and must at no moment hold less than it did (design, rule 6).
//!
//! Order of an installation:
//! 1. The snapshot, and the transactions after it as a log, are written and fsynced under temporary names. A crash up to
//!    here leaves the old history.
//! 2. The marker `installing` is written durably. This is the commit point.
//! 3. The snapshot gets its name; all old logs go, then the new log gets its name; then all other snapshots go. Later
//!    ones belong to a history that may not be the leader's (invariant 10), and from earlier ones no log leads here any
//!    more: should the new one ever be unreadable, a start would take them and the new log for a whole history.
//! 4. The marker goes. A crash between 2 and 4 is finished by the next recovery.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use zk_jute::Zxid;
use zk_jute::image::SnapshotSource;

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::files;
use crate::log_reader::{HEADER, encode_record, zxid_of};
use crate::names::{self, INSTALLING};
use crate::repair::Repair;
use crate::snapshot_reader::{NullSink, load_within};
use crate::snapshot_writer::{PendingSnapshot, SnapshotWriter, write_file};
use crate::store::Store;

/// Bytes of a log that are gathered before they are written: 1 MiB.
const LOG_CHUNK: usize = 1 << 20;

impl<D: Disk> Store<D> {
    /// Replaces everything by the state of `source`, which is that at `zxid`, and by the transactions of `tail`, which
    /// follow it without a gap. All or nothing, across any crash. Afterwards the log starts anew.
    ///
    /// # Errors
    /// After any error the store must be recovered, and holds either the old history or the new one, whole.
    ///
    /// # Panics
    /// If the end is of an epoch that was never accepted here, or `tail` has a gap.
    pub fn install_snapshot(
        &mut self,
        source: &dyn SnapshotSource,
        zxid: Zxid,
        tail: &[(Zxid, Bytes)],
    ) -> Result<(), StoreError> {
        self.ready()?;
        let mut end = zxid;
        for (next, body) in tail {
            assert!(next.follows(end), "installation with a gap: {next} after {end}");
            assert!(
                zxid_of(body) == Some(*next),
                "installation of {next} with a body of {:?}",
                zxid_of(body)
            );
            end = *next;
        }
        assert!(
            end.epoch() <= self.accepted,
            "installation up to {end} with accepted epoch {}",
            self.accepted
        );
        self.generation += 1;
        let installed = self.install_ready(source, zxid, tail);
        self.settle(installed)?;
        self.last_appended = end;
        self.last_durable = end;
        Ok(())
    }

    fn install_ready(
        &mut self,
        source: &dyn SnapshotSource,
        zxid: Zxid,
        tail: &[(Zxid, Bytes)],
    ) -> Result<(), StoreError> {
        self.log.roll()?;
        self.drop_clean_marker()?;
        if !tail.is_empty() {
            let path = self.layout.install_log_tmp();
            if let Err(error) = write_log(&self.disk, &path, tail) {
                // Best effort: recovery removes it as well.
                let _ = self.disk.remove(&path);
                return Err(error);
            }
            files::sync_dir(&self.disk, &self.layout.log_dir)?;
        }
        let tmp = self.layout.install_tmp();
        if let Err(error) = write_file(&self.disk, &tmp, source, zxid) {
            // Best effort: recovery removes it as well.
            let _ = self.disk.remove(&tmp);
            let _ = self.disk.remove(&self.layout.install_log_tmp());
            return Err(error);
        }
        files::sync_dir(&self.disk, &self.layout.snap_dir)?;
        let marker = Announcement { zxid, log: tail.first().map(|(first, _)| *first) };
        self.write_reserved(&self.layout.in_snap_dir(INSTALLING), &marker.to_string())?;
        self.complete_install(marker)
    }

    /// Everything after the commit point. May be repeated after a crash at any point: until the marker goes, the
    /// snapshot is found under one of its two names, so only the removals must be durable before that.
    fn complete_install(&mut self, Announcement { zxid, log }: Announcement) -> Result<(), StoreError> {
        let (tmp, path) = (self.layout.install_tmp(), self.layout.snapshot(zxid));
        if files::exists(&self.disk, &tmp)? {
            files::rename(&self.disk, &tmp, &path)?;
        }
        self.replace_logs(log)?;
        for snapshot in files::list_snapshots(&self.disk, &self.layout)? {
            if snapshot.path != path {
                self.verified.remove(&snapshot.path);
                files::remove(&self.disk, &snapshot.path)?;
            }
        }
        files::sync_dir(&self.disk, &self.layout.snap_dir)?;
        files::remove_durably(&self.disk, &self.layout.in_snap_dir(INSTALLING))?;
        self.rejected.clear();
        self.verified.insert(path);
        self.has_history = true;
        self.drop_initialize()
    }

    /// Removes the logs of the old history and names the new one, in that order: as long as it has its temporary name
    /// every other log is old, and once it has its own nothing is left to remove. An old log that has the new one's
    /// name is replaced by the renaming.
    fn replace_logs(&self, first: Option<Zxid>) -> Result<(), StoreError> {
        let tmp = self.layout.install_log_tmp();
        let named = first.map(|first| self.layout.log(first));
        let waiting = named.is_some() && files::exists(&self.disk, &tmp)?;
        for log in files::list_logs(&self.disk, &self.layout)? {
            if named.as_ref() != Some(&log.path) {
                files::remove(&self.disk, &log.path)?;
            }
        }
        files::sync_dir(&self.disk, &self.layout.log_dir)?;
        if let Some(named) = named.filter(|_| waiting) {
            files::rename(&self.disk, &tmp, &named)?;
            files::sync_dir(&self.disk, &self.layout.log_dir)?;
        }
        Ok(())
    }

    /// Finishes an installation that a crash interrupted after its commit point.
    pub(crate) fn finish_install(&mut self) -> Result<Vec<Repair>, StoreError> {
        let marker = self.layout.in_snap_dir(INSTALLING);
        let Some(content) = files::read_small(&self.disk, &marker)? else { return Ok(Vec::new()) };
        let Some(announced) = Announcement::parse(&content) else {
            return Err(StoreError::corrupt(&marker, 0, format!("{content:?} announces no installation")));
        };
        let zxid = announced.zxid;
        // It was durable before the marker was. Should the disk have lost it since, then what is left of the old
        // history is the only evidence, and stays.
        let tmp = self.layout.install_tmp();
        let path = if files::exists(&self.disk, &tmp)? { tmp } else { self.layout.snapshot(zxid) };
        if !files::exists(&self.disk, &path)? {
            let what = "the snapshot that an interrupted installation announces is missing";
            return Err(StoreError::corrupt(&path, 0, what));
        }
        load_within(&self.disk, &path, self.cfg.max_record, &mut NullSink)?;
        if let Some(first) = announced.log {
            let (tmp, named) = (self.layout.install_log_tmp(), self.layout.log(first));
            if !files::exists(&self.disk, &tmp)? && !files::exists(&self.disk, &named)? {
                let what = "the log that an interrupted installation announces is missing";
                return Err(StoreError::corrupt(&named, 0, what));
            }
        }
        self.complete_install(announced)?;
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

/// What the marker `installing` says: the snapshot, and the first transaction of the log that belongs to it, if any.
#[derive(Clone, Copy)]
struct Announcement {
    zxid: Zxid,
    log: Option<Zxid>,
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.zxid.0)?;
        self.log.map_or(Ok(()), |first| write!(f, " {:x}", first.0))
    }
}

impl Announcement {
    fn parse(content: &str) -> Option<Self> {
        let mut words = content.split_whitespace().map(names::parse_hex);
        let zxid = words.next()??;
        let log = match words.next() {
            Some(first) => Some(first?),
            None => None,
        };
        words.next().is_none().then_some(Self { zxid, log })
    }
}

/// Writes and fsyncs a whole log. Bound: what a leader sends between its snapshot and NEWLEADER, which it holds in memory
/// itself.
fn write_log<D: Disk>(disk: &D, path: &Path, txns: &[(Zxid, Bytes)]) -> Result<(), StoreError> {
    let mut file = disk.create(path).map_err(StoreError::io(path, "create"))?;
    let mut chunk = HEADER.to_vec();
    let mut offset = 0;
    for (_, body) in txns {
        encode_record(body, &mut chunk);
        if chunk.len() >= LOG_CHUNK {
            file.write_at(offset, &chunk).map_err(StoreError::io(path, "write"))?;
            offset += chunk.len() as u64;
            chunk.clear();
        }
    }
    file.write_at(offset, &chunk).map_err(StoreError::io(path, "write"))?;
    file.sync().map_err(StoreError::sync(path))
}
