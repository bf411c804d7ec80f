//! The simulated disk behind the store's [`Disk`] trait.
//!
//! [`SimDisk`] is a handle; clones share one [`Model`](model). The store under test runs on it unchanged, and the world keeps a
//! handle of its own to cut the power, fill the disk, plan a failing operation, or read what is durable.

mod inode;
mod model;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use zk_store::disk::{Disk, DiskFile, DiskUsage};

pub use self::inode::Tear;
use self::model::Model;
pub use self::model::Planned;
use crate::prng::Prng;

/// Bytes reported as the size of a disk without a limit: 1 GiB.
const UNLIMITED: u64 = 1 << 30;

/// A handle to one simulated disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<Model>>);

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    /// The name it was opened by, for planned faults.
    path: String,
    inode: u64,
}

impl SimDisk {
    /// An empty disk; `prng` decides what a power cut keeps.
    pub fn new(prng: Prng) -> Self {
        Self(Arc::new(Mutex::new(Model::new(prng))))
    }

    /// The power goes and comes back; handles to open files are stale from here on and must not be used.
    pub fn power_cut(&self, tear: Tear) {
        self.model().power_cut(tear);
    }

    /// The process that used the disk is gone. What a failed fsync left in the page cache is evicted with it: no later fsync
    /// would write it.
    pub fn process_ended(&self) {
        self.model().process_ended();
    }

    /// Creates a directory and its parents.
    pub fn make_dirs(&self, path: &str) {
        self.model().make_dirs(path).expect("no fault is planned yet");
    }

    /// True once a planned power cut struck: the machine must be restarted.
    pub fn is_dark(&self) -> bool {
        self.model().is_dark()
    }

    /// An independent disk that holds what is durable at this moment, without faults.
    pub fn durable_copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.model().durable_copy())))
    }

    /// Durable contents of one file, `None` if its name is not durable.
    pub fn durable_bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.model().durable_bytes(path).map(<[u8]>::to_vec)
    }

    /// Removes every file whose path starts with `prefix`, at once and durably: an operator's `rm`.
    pub fn wipe(&self, prefix: &str) {
        self.model().wipe(prefix);
    }

    /// Puts a file there, durably, as an operator would.
    pub fn place(&self, path: &str, bytes: &[u8]) {
        self.model().place(path, bytes);
    }

    /// Allows `bytes` in all, or any number.
    pub fn limit(&self, bytes: Option<usize>) {
        self.model().limit(bytes);
    }

    /// Bytes occupied.
    pub fn used(&self) -> usize {
        self.model().used()
    }

    /// Plans one fault.
    pub fn plan(&self, fault: Planned) {
        self.model().plan(fault);
    }

    /// Forgets faults that have not struck yet.
    pub fn clear_plan(&self) {
        self.model().clear_plan();
    }

    /// Flips one bit for good; false if `path` has no such byte.
    pub fn flip_bit(&self, path: &str, at: usize, bit: u8) -> bool {
        self.model().flip_bit(path, at, bit)
    }

    /// Paths of all files, in order.
    pub fn paths(&self) -> Vec<String> {
        self.model().paths().cloned().collect()
    }

    /// True if a power cut now could change the contents of `path`.
    pub fn is_dirty(&self, path: &str) -> bool {
        self.model().is_dirty(path)
    }

    /// Operations so far: two runs of one seed agree on it.
    pub fn operations(&self) -> u64 {
        self.model().operations
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn file(&self, path: &str, inode: u64) -> SimFile {
        SimFile { disk: self.clone(), path: path.to_owned(), inode }
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn create(&self, path: &Path) -> io::Result<SimFile> {
        let path = text(path);
        let inode = self.model().create(&path)?;
        Ok(self.file(&path, inode))
    }

    fn open(&self, path: &Path, _write: bool) -> io::Result<SimFile> {
        let path = text(path);
        let inode = self.model().open(&path)?;
        Ok(self.file(&path, inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.model().rename(&text(from), &text(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.model().remove(&text(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.model().list(&text(dir))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.model().exists(&text(path)))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.model().make_dirs(&text(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.model().sync_dir(&text(dir))
    }

    fn usage(&self, _dir: &Path) -> io::Result<DiskUsage> {
        let model = self.model();
        let total = model.capacity().map_or(UNLIMITED, |capacity| capacity as u64);
        Ok(DiskUsage { total, free: total.saturating_sub(model.used() as u64), inodes_free: u64::MAX })
    }
}

impl DiskFile for SimFile {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.model().write(&self.path, self.inode, offset as usize, data)
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.disk.model().read(&self.path, self.inode, offset as usize, buf)
    }

    fn size(&mut self) -> io::Result<u64> {
        Ok(self.disk.model().len(self.inode) as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.disk.model().set_len(&self.path, self.inode, len as usize)
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.model().allocate(&self.path, self.inode, (offset + len) as usize)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.model().sync(&self.path, self.inode)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.model().close(self.inode);
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
