//! [`Disk`] in memory, with what tests need from a disk: a capacity, a power switch and a pessimistic power cut.
//!
//! It keeps what is visible beside what is durable. [`MemDisk::power_cut`] keeps the durable part and, of everything
//! that was not synced, whatever [`Survival`] says: unsynced writes of a file and unsynced names of a directory may
//! survive in any combination, because no standard promises an order between them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile, DiskUsage};

/// What a power cut leaves of the things that were not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// Nothing: the worst case for durability.
    Nothing,
    /// Everything: what a killed process leaves behind.
    Everything,
    /// Some, drawn from the seed; the last surviving write of a file may be torn at any byte.
    Some { seed: u64 },
}

/// A disk in memory. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
}

/// A file of [`MemDisk`].
#[derive(Debug)]
pub struct MemFile {
    disk: MemDisk,
    inode: u64,
    write: bool,
}

#[derive(Default, Debug)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    dirs: BTreeMap<PathBuf, Dir>,
    next_inode: u64,
    capacity: Option<u64>,
    /// Changes that still succeed before the power fails.
    changes_left: Option<u64>,
    changes: u64,
}

#[derive(Default, Debug)]
struct Inode {
    data: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Resize { len: usize },
}

#[derive(Default, Debug)]
struct Dir {
    names: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    unsynced: Vec<NameChange>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Link { name: String, inode: u64 },
    Unlink { name: String },
    Rename { from: String, to: String, inode: u64 },
}

impl MemDisk {
    /// An empty disk without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many bytes all files together may have; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Lets `changes` more changing operations succeed; then every operation fails until [`MemDisk::power_cut`].
    pub fn fail_after(&self, changes: u64) {
        self.lock().changes_left = Some(changes);
    }

    /// Changing operations so far: what a test enumerates to fail after each of them.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Bytes in all files.
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// Cuts the power and turns it on again. Files that are open stay open on what remains.
    pub fn power_cut(&self, survival: Survival) {
        let mut state = self.lock();
        state.changes_left = None;
        if survival == Survival::Everything {
            return;
        }
        let mut coin = Coin::new(survival);
        for dir in state.dirs.values_mut() {
            dir.cut(&mut coin);
        }
        for inode in state.inodes.values_mut() {
            inode.cut(&mut coin);
        }
    }

    /// A second disk with the same content, visible and durable, to try several ends from one state.
    pub fn fork(&self) -> Self {
        let state = self.lock();
        let inodes = state.inodes.iter().map(|(id, inode)| {
            let (data, durable) = (inode.data.clone(), inode.durable.clone());
            (*id, Inode { data, durable, unsynced: inode.unsynced.clone() })
        });
        let dirs = state.dirs.iter().map(|(path, dir)| {
            let (names, durable) = (dir.names.clone(), dir.durable.clone());
            (path.clone(), Dir { names, durable, unsynced: dir.unsynced.clone() })
        });
        let copy = State {
            inodes: inodes.collect(),
            dirs: dirs.collect(),
            next_inode: state.next_inode,
            capacity: state.capacity,
            changes_left: None,
            changes: state.changes,
        };
        Self { state: Arc::new(Mutex::new(copy)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides what survives a power cut (xorshift64*).
struct Coin {
    state: u64,
    never: bool,
}

impl Coin {
    const fn new(survival: Survival) -> Self {
        match survival {
            Survival::Some { seed } => Self { state: seed ^ 0x9E37_79B9_7F4A_7C15 | 1, never: false },
            Survival::Nothing | Survival::Everything => Self { state: 1, never: true },
        }
    }

    const fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    const fn flip(&mut self) -> bool {
        !self.never && self.next() & 1 == 1
    }
}

impl Inode {
    fn cut(&mut self, coin: &mut Coin) {
        let mut data = std::mem::take(&mut self.durable);
        for mut change in self.unsynced.drain(..) {
            if !coin.flip() {
                continue;
            }
            if let Change::Write { data, .. } = &mut change
                && coin.flip()
            {
                data.truncate(coin.next() as usize % (data.len() + 1));
            }
            change.apply(&mut data);
        }
        self.durable.clone_from(&data);
        self.data = data;
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { data, .. } if data.is_empty() => {}
            Self::Write { offset, data } => {
                let end = offset + data.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(data);
            }
            Self::Resize { len } => to.resize(*len, 0),
        }
    }
}

impl Dir {
    fn cut(&mut self, coin: &mut Coin) {
        let mut names = std::mem::take(&mut self.durable);
        for change in self.unsynced.drain(..) {
            if coin.flip() {
                change.apply(&mut names);
            }
        }
        self.durable.clone_from(&names);
        self.names = names;
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced.push(change);
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Self::Unlink { name } => {
                names.remove(name);
            }
            Self::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}

impl State {
    /// Counts a changing operation; fails it once the power is off.
    fn change(&mut self) -> io::Result<()> {
        self.read()?;
        if let Some(left) = &mut self.changes_left {
            *left -= 1;
        }
        self.changes += 1;
        Ok(())
    }

    fn read(&self) -> io::Result<()> {
        if self.changes_left == Some(0) { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn used(&self) -> u64 {
        let linked = |id: &u64| self.dirs.values().any(|dir| dir.names.values().any(|other| other == id));
        self.inodes.iter().filter(|(id, _)| linked(id)).map(|(_, inode)| inode.data.len() as u64).sum()
    }

    /// How far a file of `len` bytes may grow.
    fn room(&self, len: u64) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| len + capacity.saturating_sub(self.used()))
    }

    fn dir(&mut self, path: &Path) -> io::Result<&mut Dir> {
        self.dirs.get_mut(path).ok_or_else(|| not_found(path))
    }

    fn inode_of(&mut self, path: &Path) -> io::Result<u64> {
        let (parent, name) = split(path);
        self.dir(parent)?.names.get(name).copied().ok_or_else(|| not_found(path))
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} does not exist", path.display()))
}

fn split(path: &Path) -> (&Path, &str) {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a path on a MemDisk names a file");
    (path.parent().expect("a path with a file name has a parent"), name)
}

impl Disk for MemDisk {
    type File = MemFile;

    fn create(&self, path: &Path) -> io::Result<MemFile> {
        let mut state = self.lock();
        state.change()?;
        if let Ok(inode) = state.inode_of(path) {
            let file = state.inodes.get_mut(&inode).expect("a name leads to an inode");
            file.data.clear();
            file.unsynced.push(Change::Resize { len: 0 });
            return Ok(MemFile { disk: self.clone(), inode, write: true });
        }
        let inode = state.next_inode;
        let (parent, name) = split(path);
        state.dir(parent)?.change(NameChange::Link { name: name.to_owned(), inode });
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        Ok(MemFile { disk: self.clone(), inode, write: true })
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<MemFile> {
        let mut state = self.lock();
        state.read()?;
        Ok(MemFile { disk: self.clone(), inode: state.inode_of(path)?, write })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        let inode = state.inode_of(from)?;
        let ((parent, from), (to_parent, to)) = (split(from), split(to));
        assert!(parent == to_parent, "a MemDisk renames within a directory");
        state.dir(parent)?.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        state.inode_of(path)?;
        let (parent, name) = split(path);
        state.dir(parent)?.change(NameChange::Unlink { name: name.to_owned() });
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.read()?;
        Ok(state.dir(dir)?.names.keys().cloned().collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.lock();
        state.read()?;
        Ok(state.dirs.contains_key(path) || state.inode_of(path).is_ok())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        for ancestor in dir.ancestors() {
            state.dirs.entry(ancestor.to_owned()).or_default();
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change()?;
        let dir = state.dir(dir)?;
        dir.durable.clone_from(&dir.names);
        dir.unsynced.clear();
        Ok(())
    }

    fn usage(&self, dir: &Path) -> io::Result<DiskUsage> {
        let mut state = self.lock();
        state.read()?;
        state.dir(dir)?;
        let total = state.capacity.unwrap_or(1 << 40);
        Ok(DiskUsage { total, free: total.saturating_sub(state.used()), inodes_free: u64::MAX })
    }
}

impl MemFile {
    /// Applies a change to the visible bytes; only as much of it as there is room for.
    fn apply(&self, mut change: Change) -> io::Result<()> {
        if !self.write {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file was opened for reading"));
        }
        let mut state = self.disk.lock();
        state.change()?;
        let len = state.inodes[&self.inode].data.len() as u64;
        let room = state.room(len) as usize;
        let full = match &mut change {
            Change::Write { offset, data } if *offset + data.len() > room => {
                data.truncate(room.saturating_sub(*offset));
                true
            }
            Change::Resize { len } if *len > room => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Change::Write { .. } | Change::Resize { .. } => false,
        };
        let inode = state.inodes.get_mut(&self.inode).expect("an open file has an inode");
        change.apply(&mut inode.data);
        inode.unsynced.push(change);
        if full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl DiskFile for MemFile {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.apply(Change::Write { offset: offset as usize, data: data.to_vec() })
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.lock();
        state.read()?;
        let data = &state.inodes[&self.inode].data;
        let start = data.len().min(offset as usize);
        let n = buf.len().min(data.len() - start);
        buf[..n].copy_from_slice(&data[start..start + n]);
        Ok(n)
    }

    fn size(&mut self) -> io::Result<u64> {
        let state = self.disk.lock();
        state.read()?;
        Ok(state.inodes[&self.inode].data.len() as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.apply(Change::Resize { len: len as usize })
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let end = (offset + len).max(self.size()?);
        self.apply(Change::Resize { len: end as usize })
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.change()?;
        let inode = state.inodes.get_mut(&self.inode).expect("an open file has an inode");
        inode.durable.clone_from(&inode.data);
        inode.unsynced.clear();
        Ok(())
    }
}
