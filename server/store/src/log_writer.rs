//! Writing the log (upstream `FileTxnLog`, `FilePadding`): records gather in memory and go to disk in one write.
//!
//! A log's header and its name are durable before its first record is: a crash can lose records that were never
//! synced, never the file that holds synced ones. Space is reserved ahead, so that most syncs change no metadata.

use std::path::PathBuf;

use zk_jute::Zxid;

use crate::config::{MAX_UNSYNCED, StoreConfig};
use crate::disk::{Disk, DiskFile, is_no_space};
use crate::error::StoreError;
use crate::files;
use crate::log_reader::{HEADER, encode_record, record_len};
use crate::names::Layout;

/// Gathered bytes that are written without waiting for a sync: 1 MiB.
const FLUSH_AT: usize = 1 << 20;
/// Space is reserved once less than this is left (upstream: 4 KiB).
const MARGIN: u64 = 4096;

/// Appends to the newest log.
pub(crate) struct LogWriter<D: Disk> {
    disk: D,
    layout: Layout,
    prealloc: u64,
    force_sync: bool,
    open: Option<OpenLog<D::File>>,
    /// Encoded records that are not written yet: at most [`FLUSH_AT`] and one record.
    pending: Vec<u8>,
    /// Bytes appended since the last sync: at most [`MAX_UNSYNCED`] or one record.
    unsynced: u64,
    since_roll: u64,
}

struct OpenLog<F> {
    file: F,
    path: PathBuf,
    /// Where the next byte goes.
    position: u64,
    /// Length of the file; `None` once reserving failed, which is only slower.
    allocated: Option<u64>,
}

impl<D: Disk> LogWriter<D> {
    pub(crate) fn new(disk: D, layout: Layout, cfg: &StoreConfig) -> Self {
        Self {
            disk,
            layout,
            prealloc: cfg.prealloc_bytes,
            force_sync: cfg.force_sync,
            open: None,
            pending: Vec::new(),
            unsynced: 0,
            since_roll: 0,
        }
    }

    /// Forgets the open log and what was not written.
    pub(crate) fn reset(&mut self) {
        self.open = None;
        self.pending.clear();
        self.unsynced = 0;
        self.since_roll = 0;
    }

    pub(crate) const fn bytes_since_roll(&self) -> u64 {
        self.since_roll
    }

    /// True if a record would go into a new file.
    pub(crate) const fn is_closed(&self) -> bool {
        self.open.is_none()
    }

    pub(crate) fn append(&mut self, zxid: Zxid, body: &[u8]) -> Result<(), StoreError> {
        if self.open.is_none() {
            self.open = Some(self.create(zxid)?);
        }
        let len = record_len(body);
        if self.unsynced > 0 && self.unsynced + len > MAX_UNSYNCED {
            self.sync()?;
        }
        encode_record(body, &mut self.pending);
        self.unsynced += len;
        self.since_roll += len;
        if self.pending.len() >= FLUSH_AT { self.flush() } else { Ok(()) }
    }

    /// Makes everything appended durable.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        if let Some(log) = &mut self.open
            && self.unsynced > 0
            && self.force_sync
        {
            log.file.sync().map_err(StoreError::sync(&log.path))?;
        }
        self.unsynced = 0;
        Ok(())
    }

    /// Syncs and closes; the next append begins a new file.
    pub(crate) fn roll(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        self.reset();
        Ok(())
    }

    fn create(&self, first: Zxid) -> Result<OpenLog<D::File>, StoreError> {
        let path = self.layout.log(first);
        let created = self.create_at(&path);
        if created.is_err() {
            // Best effort: recovery removes a log without records as well.
            let _ = self.disk.remove(&path);
        }
        let (file, allocated) = created?;
        Ok(OpenLog { file, path, position: HEADER.len() as u64, allocated })
    }

    fn create_at(&self, path: &std::path::Path) -> Result<(D::File, Option<u64>), StoreError> {
        let mut file = self.disk.create(path).map_err(StoreError::io(path, "create"))?;
        file.write_at(0, &HEADER).map_err(StoreError::io(path, "write"))?;
        let allocated = match self.prealloc {
            0 => None,
            len => reserve(&mut file, path, 0, len)?,
        };
        file.sync().map_err(StoreError::sync(path))?;
        files::sync_dir(&self.disk, &self.layout.log_dir)?;
        Ok((file, allocated))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let Some(log) = &mut self.open else { return Ok(()) };
        if self.pending.is_empty() {
            return Ok(());
        }
        let end = log.position + self.pending.len() as u64;
        if let Some(allocated) = log.allocated
            && end + MARGIN > allocated
        {
            let missing = end + MARGIN - allocated;
            let len = missing.div_ceil(self.prealloc) * self.prealloc;
            log.allocated = reserve(&mut log.file, &log.path, allocated, len)?;
        }
        log.file.write_at(log.position, &self.pending).map_err(StoreError::io(&log.path, "write"))?;
        log.position = end;
        self.pending.clear();
        self.pending.shrink_to(2 * FLUSH_AT);
        Ok(())
    }
}

/// Extends a log. A full disk only ends the reserving: what is left of it is still good for records.
fn reserve<F: DiskFile>(
    file: &mut F,
    path: &std::path::Path,
    offset: u64,
    len: u64,
) -> Result<Option<u64>, StoreError> {
    match file.allocate(offset, len) {
        Ok(()) => Ok(Some(offset + len)),
        Err(error) if is_no_space(&error) => Ok(None),
        Err(error) => Err(StoreError::io(path, "allocate space for")(error)),
    }
}
