//! Writing a snapshot file (upstream `FileSnap`, `SnapStream`).
//!
//! Format: header `ZKSN`, int version 2, long -1; the database as [`zk_jute::snapshot`] encodes it; a seal (long Adler-32
//! of everything so far, string "/"); then, each with a seal of its own, the digest and the last processed zxid.
//! The file is streamed in chunks, fsynced under a temporary name, and only then renamed: a file that is called a
//! snapshot is a whole one.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use zk_jute::image::SnapshotSource;
use zk_jute::snapshot::{SnapshotTail, encode_end, encode_head, encode_node};
use zk_jute::{Writer, Zxid};

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::names::Layout;

/// Bytes gathered before they are written: 256 KiB, plus one record.
const CHUNK: usize = 256 << 10;

/// The file header: magic, version 2, dbid -1.
pub(crate) const HEADER: [u8; 16] = *b"ZKSN\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff";

/// Writes periodic snapshots beside the storage thread. See [`crate::Store::begin_snapshot`].
#[derive(Clone, Debug)]
pub struct SnapshotWriter<D: Disk> {
    pub(crate) disk: D,
    pub(crate) layout: Layout,
    pub(crate) generation: u64,
}

/// A whole and durable snapshot that waits for its name. See [`crate::Store::publish_snapshot`].
#[derive(Debug)]
#[must_use = "a snapshot counts only once it is published"]
pub struct PendingSnapshot {
    pub(crate) tmp: PathBuf,
    pub(crate) zxid: Zxid,
    pub(crate) generation: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl PendingSnapshot {
    /// The state it holds.
    pub const fn zxid(&self) -> Zxid {
        self.zxid
    }
}

impl<D: Disk> SnapshotWriter<D> {
    /// Writes and fsyncs the state of `source`, which is that at `zxid`, under a temporary name.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] and [`StoreError::Io`] concern this snapshot only; what was written is removed.
    pub fn write(&self, source: &dyn SnapshotSource, zxid: Zxid) -> Result<PendingSnapshot, StoreError> {
        let tmp = self.layout.snapshot_tmp(zxid, self.generation);
        match write_file(&self.disk, &tmp, source, zxid) {
            Ok(bytes) => Ok(PendingSnapshot { tmp, zxid, generation: self.generation, bytes }),
            Err(error) => {
                // Best effort: recovery removes it as well.
                let _ = self.disk.remove(&tmp);
                Err(error)
            }
        }
    }
}

/// Writes and fsyncs a snapshot file and returns its length. The name is not durable yet.
pub(crate) fn write_file<D: Disk>(
    disk: &D,
    path: &Path,
    source: &dyn SnapshotSource,
    zxid: Zxid,
) -> Result<u64, StoreError> {
    let tail = source.tail();
    assert!(
        tail.last_processed.is_none_or(|processed| processed == zxid),
        "a snapshot of {zxid} must not claim {:?}",
        tail.last_processed
    );
    let file = disk.create(path).map_err(StoreError::io(path, "create"))?;
    let mut out = Output { file, path, chunk: Vec::new(), offset: 0, adler: adler2::Adler32::new() };
    out.chunk.extend_from_slice(&HEADER);
    encode_head(&source.head(), &mut out.chunk);
    let mut failed = None;
    let complete = source.visit_nodes(&mut |node| {
        encode_node(node, &mut out.chunk);
        match out.flush_at(CHUNK) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    assert!(complete, "a snapshot source stops early only when it is told to");
    encode_end(&mut out.chunk);
    out.footers(tail)?;
    out.finish()
}

struct Output<'a, F> {
    file: F,
    path: &'a Path,
    chunk: Vec<u8>,
    offset: u64,
    adler: adler2::Adler32,
}

impl<F: DiskFile> Output<'_, F> {
    /// Writes what was gathered if it is `limit` bytes or more.
    fn flush_at(&mut self, limit: usize) -> Result<(), StoreError> {
        if self.chunk.len() < limit {
            return Ok(());
        }
        self.adler.write_slice(&self.chunk);
        self.file.write_at(self.offset, &self.chunk).map_err(StoreError::io(self.path, "write"))?;
        self.offset += self.chunk.len() as u64;
        self.chunk.clear();
        Ok(())
    }

    /// Appends the checksum of everything so far, earlier seals included.
    fn seal(&mut self) -> Result<(), StoreError> {
        self.flush_at(0)?;
        let checksum = i64::from(self.adler.checksum());
        let mut w = Writer::new(&mut self.chunk);
        w.i64(checksum);
        w.string("/");
        Ok(())
    }

    fn footers(&mut self, tail: SnapshotTail) -> Result<(), StoreError> {
        self.seal()?;
        if let Some(digest) = tail.digest {
            SnapshotTail::encode_digest(digest, &mut Writer::new(&mut self.chunk));
            self.seal()?;
        }
        if let Some(zxid) = tail.last_processed {
            Writer::new(&mut self.chunk).i64(zxid.0);
            self.seal()?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, StoreError> {
        self.flush_at(0)?;
        self.file.sync().map_err(StoreError::sync(self.path))?;
        Ok(self.offset)
    }
}
