//! The one seam between durable formats and whatever holds bytes.
//!
//! Everything this crate writes goes through [`Disk`], so that the real file system ([`crate::file_disk`]), the plain
//! in-memory disk ([`crate::mem_disk`]) and the simulator's faulty disk are interchangeable. The trait is small and
//! synchronous, and it separates what file systems separate: the *bytes* of a file are durable after
//! [`DiskFile::sync`], its *name* only after [`Disk::sync_dir`] on the directory. Code that forgets the second loses
//! whole files in a power cut, which is why creation, renaming and removal promise nothing on their own.
//!
//! [`crate::disk_suite::disk_suite`] checks any implementation against these words.

use std::io;
use std::path::Path;

/// A directory tree that survives the process.
///
/// Clones are handles to the same disk: the snapshot thread writes through one while the log is written through
/// another. Methods take `&self`; an implementation synchronises inside. Errors are plain [`io::Error`]s, except that
/// a full disk must be reported so that [`is_no_space`] recognises it.
pub trait Disk: Clone {
    /// An open file. It stays usable after its name was renamed or removed, as on Unix.
    type File: DiskFile;

    /// Creates an empty file, or empties an existing one; opened for reading and writing.
    /// Neither the name nor the emptying is durable before a sync.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens an existing file; [`io::ErrorKind::NotFound`] when there is none.
    fn open(&self, path: &Path, write: bool) -> io::Result<Self::File>;

    /// Renames a file and replaces an existing `to` in one step: a reader or a crash sees either the old or the new.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; [`io::ErrorKind::NotFound`] when there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Names (not paths) of everything in a directory, sorted bytewise; [`io::ErrorKind::NotFound`] without it.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Creates a directory and its missing parents, durably; an existing directory is no error.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes every creation, renaming and removal done so far in this directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// How full the file system that holds `dir` is.
    fn usage(&self, dir: &Path) -> io::Result<DiskUsage>;
}

/// An open file of a [`Disk`]. Offsets and lengths are bytes.
pub trait DiskFile {
    /// Writes all of `data` at `offset`, extending the file as needed (a hole reads as zeros). After an error any
    /// prefix may have been written. Durable only after [`DiskFile::sync`].
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Fills `buf` from `offset` and returns how much was there: less than `buf.len()` only at the end of the file.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Length of the file in bytes, preallocated space included.
    fn size(&mut self) -> io::Result<u64>;

    /// Cuts the file, or extends it with zeros that reserve no space.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Reserves `len` bytes at `offset` and extends the file to cover them. What was not written before reads as
    /// zeros, what was written stays. A later write inside the reserved range cannot fail for lack of space.
    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable (fdatasync). After an error it is unknown what is durable, and a later
    /// success proves nothing about the bytes of the failed call: never retry.
    fn sync(&mut self) -> io::Result<()>;
}

/// Space of a file system, as `statvfs` tells it to an unprivileged process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskUsage {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that can still be written.
    pub free: u64,
    /// Files that can still be created; `u64::MAX` where the file system does not count them.
    pub inodes_free: u64,
}

/// True for the errors of a full disk or an exhausted quota: the caller may free space and try again.
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
