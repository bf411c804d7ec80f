//! The directories' own names: nothing in them is durable before they are.

mod common;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{Image, config};
use zk_store::mem_disk::MemFile;
use zk_store::{Disk, DiskUsage, MemDisk, Store, StoreConfig};

/// A disk that remembers which directories were synced.
#[derive(Clone, Default)]
struct Watched {
    disk: MemDisk,
    synced: Arc<Mutex<Vec<PathBuf>>>,
}

impl Disk for Watched {
    type File = MemFile;

    fn create(&self, path: &Path) -> io::Result<MemFile> {
        self.disk.create(path)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<MemFile> {
        self.disk.open(path, write)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.synced.lock().expect("no test panics within").push(dir.to_owned());
        self.disk.sync_dir(dir)
    }

    fn usage(&self, dir: &Path) -> io::Result<DiskUsage> {
        self.disk.usage(dir)
    }
}

/// The fault: a directory that was there already was taken for durable, although its creator may have been killed before it
/// made it so.
#[test]
fn directories_that_exist_are_made_durable_once_a_start() {
    let disk = Watched::default();
    let cfg = StoreConfig { log_dir: "/log".into(), ..config() };
    let count =
        |dir: &str| disk.synced.lock().expect("the lock").iter().filter(|d| **d == *Path::new(dir)).count();
    for dir in ["/data/version-2", "/log/version-2"] {
        disk.create_dir_all(Path::new(dir)).expect("create");
    }
    for start in 1..=2 {
        let mut store = Store::open(disk.clone(), cfg.clone());
        store.recover(Image::default).expect("recover");
        store.recover(Image::default).expect("recover");
        assert_eq!((count("/data"), count("/log")), (start, start));
    }
}
