//! File operations that name what failed, and the one way small files are replaced.

use std::io;
use std::path::{Path, PathBuf};

use zk_jute::Zxid;

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::names::{self, Layout, Named};

/// Longest small file that is read: epoch files and markers hold one number.
const MAX_SMALL_FILE: usize = 4096;

pub(crate) fn sync_dir<D: Disk>(disk: &D, dir: &Path) -> Result<(), StoreError> {
    disk.sync_dir(dir).map_err(StoreError::sync(dir))
}

pub(crate) fn exists<D: Disk>(disk: &D, path: &Path) -> Result<bool, StoreError> {
    disk.exists(path).map_err(StoreError::io(path, "look up"))
}

pub(crate) fn remove<D: Disk>(disk: &D, path: &Path) -> Result<(), StoreError> {
    disk.remove(path).map_err(StoreError::io(path, "remove"))
}

pub(crate) fn rename<D: Disk>(disk: &D, from: &Path, to: &Path) -> Result<(), StoreError> {
    disk.rename(from, to).map_err(StoreError::io(to, "rename to"))
}

/// Removes a file if it is there, durably. Returns whether it was.
pub(crate) fn remove_durably<D: Disk>(disk: &D, path: &Path) -> Result<bool, StoreError> {
    if !exists(disk, path)? {
        return Ok(false);
    }
    remove(disk, path)?;
    sync_dir(disk, path.parent().unwrap_or(Path::new("")))?;
    Ok(true)
}

pub(crate) fn list<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<String>, StoreError> {
    disk.list(dir).map_err(StoreError::io(dir, "list"))
}

/// Logs of a directory, oldest first.
pub(crate) fn list_logs<D: Disk>(disk: &D, layout: &Layout) -> Result<Vec<Named>, StoreError> {
    let names = list(disk, &layout.log_dir)?;
    let mut logs: Vec<Named> = names
        .iter()
        .filter_map(|name| {
            let path = layout.log_dir.join(name);
            Some(Named { zxid: names::parse_log(name)?, path, compression: names::Compression::None })
        })
        .collect();
    logs.sort_by_key(|log| log.zxid);
    Ok(logs)
}

/// Snapshots of a directory, newest first, good or not.
pub(crate) fn list_snapshots<D: Disk>(disk: &D, layout: &Layout) -> Result<Vec<Named>, StoreError> {
    let names = list(disk, &layout.snap_dir)?;
    let mut snapshots: Vec<Named> = names
        .iter()
        .filter_map(|name| {
            let (zxid, compression) = names::parse_snapshot(name)?;
            Some(Named { zxid, path: layout.snap_dir.join(name), compression })
        })
        .collect();
    snapshots.sort_by_key(|snapshot| (std::cmp::Reverse(snapshot.zxid), snapshot.compression));
    Ok(snapshots)
}

/// The content of a small file, or `None` if there is no such file.
pub(crate) fn read_small<D: Disk>(disk: &D, path: &Path) -> Result<Option<String>, StoreError> {
    let mut file = match disk.open(path, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(StoreError::io(path, "open"))?,
    };
    let mut content = vec![0; MAX_SMALL_FILE];
    let len = file.read_at(0, &mut content).map_err(StoreError::io(path, "read"))?;
    content.truncate(len);
    Ok(Some(String::from_utf8_lossy(&content).into_owned()))
}

/// Replaces a small file so that a crash at any point leaves the old or the new content, and returns only when the
/// new one is durable: write beside it, fsync, rename over it, fsync the directory.
pub(crate) fn write_small<D: Disk>(disk: &D, path: &Path, content: &str) -> Result<(), StoreError> {
    let tmp = names::tmp_of(path);
    let written = write_whole(disk, &tmp, content.as_bytes());
    if let Err(error) = written {
        // Best effort: on a full disk the leftover takes space, and recovery removes it anyway.
        let _ = disk.remove(&tmp);
        return Err(error);
    }
    rename(disk, &tmp, path)?;
    sync_dir(disk, path.parent().unwrap_or(Path::new("")))
}

/// Writes and fsyncs a whole file; its name is not durable yet.
pub(crate) fn write_whole<D: Disk>(disk: &D, path: &Path, data: &[u8]) -> Result<(), StoreError> {
    let mut file = disk.create(path).map_err(StoreError::io(path, "create"))?;
    file.write_at(0, data).map_err(StoreError::io(path, "write"))?;
    file.sync().map_err(StoreError::sync(path))
}

/// What a marker file says.
pub(crate) enum Marker {
    Absent,
    At(Zxid),
    Unreadable { path: PathBuf, content: String },
}

/// Reads a file that holds a zxid in hexadecimal.
pub(crate) fn read_marker<D: Disk>(disk: &D, path: PathBuf) -> Result<Marker, StoreError> {
    let Some(content) = read_small(disk, &path)? else { return Ok(Marker::Absent) };
    Ok(match names::parse_hex(content.trim()) {
        Some(zxid) => Marker::At(zxid),
        None => Marker::Unreadable { path, content },
    })
}

/// A file read through a window that moves forward, so that neither small reads nor huge files cost much.
pub(crate) struct Window<F> {
    file: F,
    path: PathBuf,
    buf: Vec<u8>,
    start: u64,
    size: u64,
}

/// Bytes read at once. A longer record makes the window grow to its length.
pub(crate) const WINDOW: usize = 1 << 20;

impl<F: DiskFile> Window<F> {
    pub(crate) fn open<D: Disk<File = F>>(disk: &D, path: &Path) -> Result<Self, StoreError> {
        let mut file = disk.open(path, false).map_err(StoreError::io(path, "open"))?;
        let size = file.size().map_err(StoreError::io(path, "measure"))?;
        Ok(Self { file, path: path.to_owned(), buf: Vec::new(), start: 0, size })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file when it was opened.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// The bytes at `offset`: `len` of them, or fewer at the end of the file.
    pub(crate) fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], StoreError> {
        let have = self.start + self.buf.len() as u64;
        let want = (offset + len as u64).min(self.size);
        if offset < self.start || want > have {
            let fill = len.max(WINDOW).min(self.size.saturating_sub(offset) as usize);
            self.buf.resize(fill, 0);
            let read = self.file.read_at(offset, &mut self.buf);
            self.buf.truncate(read.map_err(StoreError::io(&self.path, "read"))?);
            self.start = offset;
        }
        let from = self.buf.len().min((offset - self.start) as usize);
        let to = self.buf.len().min(from + len);
        Ok(&self.buf[from..to])
    }

    /// Where the first byte other than zero is, at or after `offset`.
    pub(crate) fn first_nonzero(&mut self, mut offset: u64) -> Result<Option<u64>, StoreError> {
        while offset < self.size {
            // At least one byte, and then all that the window has anyway.
            if self.get(offset, 1)?.is_empty() {
                break;
            }
            let bytes = &self.buf[(offset - self.start) as usize..];
            if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(Some(offset + at as u64));
            }
            offset += bytes.len() as u64;
        }
        Ok(None)
    }
}
