//! A disk with one directory tree: page cache, platter, names, capacity and planned faults.
//!
//! The fault model, so that nobody has to guess what a server must survive:
//! - a power cut keeps synced bytes; unsynced writes are kept, torn or lost each on its own; of the names created,
//!   renamed or removed in a directory since its last directory sync a prefix (in order) is kept;
//! - the end of the process alone loses nothing: the page cache is the kernel's;
//! - a full disk fails a write after the bytes that still fit; a failed write leaves its prefix behind;
//! - a failed fsync loses some of what it should have kept, and is reported once;
//! - bits flip only where [`Model::flip_bit`] is called, by runs that declare a budget for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::inode::{Inode, Tear};
use crate::prng::Prng;

/// A change of a directory that no directory sync covers yet.
#[derive(Clone, Debug)]
enum NameChange {
    Put(String, u64),
    Remove(String),
}

/// One fault that waits for its moment. Operations are counted from 0 when the fault is planned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Planned {
    /// The operation after `after` others whose name starts with `what` ("write", "sync", "create", "rename", ...) and
    /// whose path contains `path` fails with an I/O error.
    Fail { what: String, path: String, after: u64 },
    /// The power goes right before that operation.
    PowerCut { what: String, path: String, after: u64 },
    /// The disk is full from that operation on.
    Fill { what: String, path: String, after: u64 },
}

/// The disk itself.
#[derive(Clone, Debug)]
pub(super) struct Model {
    inodes: BTreeMap<u64, Inode>,
    /// Open handles of each file: a file without a name lives as long as one of them.
    handles: BTreeMap<u64, u32>,
    /// Directories; they are created durably and never removed.
    dirs: BTreeSet<String>,
    next_inode: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// In order, for all directories; each change belongs to the parent of its path.
    changes: Vec<NameChange>,
    capacity: Option<usize>,
    /// Bytes reserved by files that a name or a handle reaches.
    used: usize,
    /// Files whose space is free again though a power cut could still bring them back.
    freed: BTreeSet<u64>,
    planned: Vec<Planned>,
    /// Set by a planned power cut: every operation fails until the world restarts the machine.
    dark: bool,
    prng: Prng,
    pub(super) operations: u64,
}

impl Model {
    pub(super) fn new(prng: Prng) -> Self {
        Self {
            inodes: BTreeMap::new(),
            handles: BTreeMap::new(),
            dirs: BTreeSet::new(),
            next_inode: 1,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            capacity: None,
            used: 0,
            freed: BTreeSet::new(),
            planned: Vec::new(),
            dark: false,
            prng,
            operations: 0,
        }
    }

    // Operations of the process. Each begins with `begin`, which is where planned faults strike.

    pub(super) fn create(&mut self, path: &str) -> io::Result<u64> {
        self.begin("create", path)?;
        if let Some(inode) = self.names.get(path).copied() {
            self.resize(inode, 0);
            return Ok(self.opened(inode));
        }
        if !self.dirs.contains(parent(path)) {
            return Err(missing(path));
        }
        if self.capacity.is_some_and(|capacity| self.used >= capacity) {
            return Err(full(path));
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        self.names.insert(path.to_owned(), inode);
        self.changes.push(NameChange::Put(path.to_owned(), inode));
        Ok(self.opened(inode))
    }

    pub(super) fn open(&mut self, path: &str) -> io::Result<u64> {
        self.begin("open", path)?;
        let inode = self.names.get(path).copied().ok_or_else(|| missing(path))?;
        Ok(self.opened(inode))
    }

    /// The last use of a handle from [`Model::create`] or [`Model::open`].
    pub(super) fn close(&mut self, inode: u64) {
        let Some(count) = self.handles.get_mut(&inode) else { return };
        *count -= 1;
        if *count == 0 {
            self.handles.remove(&inode);
            self.release(inode);
        }
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.names.contains_key(path) || self.dirs.contains(path)
    }

    pub(super) fn make_dirs(&mut self, path: &str) -> io::Result<()> {
        self.begin("mkdir", path)?;
        let ends = path.char_indices().filter(|(at, letter)| *letter == '/' && *at > 0).map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            self.dirs.insert(path[..end].to_owned());
        }
        Ok(())
    }

    pub(super) fn len(&self, inode: u64) -> usize {
        self.inodes.get(&inode).map_or(0, |file| file.cached().len())
    }

    /// Copies cached bytes into `buf` and says how many there were.
    pub(super) fn read(&mut self, path: &str, inode: u64, at: usize, buf: &mut [u8]) -> io::Result<usize> {
        self.begin("read", path)?;
        let bytes = self.inodes.get(&inode).ok_or_else(|| missing(path))?.cached();
        let rest = bytes.get(at..).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    pub(super) fn write(&mut self, path: &str, inode: u64, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.begin("write", path)?;
        let room = self.room();
        let file = self.inodes.get_mut(&inode).ok_or_else(|| missing(path))?;
        let growth = file.growth(at, bytes.len());
        if growth <= room {
            file.write(at, bytes);
            self.used += growth;
            return Ok(());
        }
        let fits = bytes.len().saturating_sub(growth - room);
        self.used += file.growth(at, fits);
        file.write(at, &bytes[..fits]);
        Err(full(path))
    }

    pub(super) fn set_len(&mut self, path: &str, inode: u64, len: usize) -> io::Result<()> {
        self.begin("resize", path)?;
        self.resize(inode, len);
        Ok(())
    }

    pub(super) fn allocate(&mut self, path: &str, inode: u64, end: usize) -> io::Result<()> {
        self.begin("allocate", path)?;
        let room = self.room();
        let file = self.inodes.get_mut(&inode).ok_or_else(|| missing(path))?;
        let growth = file.growth(end, 0);
        if growth > room {
            return Err(full(path));
        }
        file.allocate(end);
        self.used += growth;
        Ok(())
    }

    pub(super) fn sync(&mut self, path: &str, inode: u64) -> io::Result<()> {
        let begun = self.begin("sync", path);
        let file = self.inodes.get_mut(&inode).ok_or_else(|| missing(path))?;
        match begun {
            Ok(()) => file.sync(),
            Err(_) if !self.dark => file.sync_failed(&mut self.prng),
            Err(_) => {}
        }
        begun
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.begin("rename", from)?;
        let inode = self.names.remove(from).ok_or_else(|| missing(from))?;
        let replaced = self.names.insert(to.to_owned(), inode);
        // One change for both names: a rename is atomic, across a power cut too.
        self.changes.push(NameChange::Put(to.to_owned(), inode));
        if let Some(old) = replaced.filter(|old| *old != inode) {
            self.release(old);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str) -> io::Result<()> {
        self.begin("remove", path)?;
        let inode = self.names.remove(path).ok_or_else(|| missing(path))?;
        self.changes.push(NameChange::Remove(path.to_owned()));
        self.release(inode);
        Ok(())
    }

    /// Names directly in `dir`, in order.
    pub(super) fn list(&mut self, dir: &str) -> io::Result<Vec<String>> {
        self.begin("list", dir)?;
        if !self.dirs.contains(dir) {
            return Err(missing(dir));
        }
        Ok(self.names.keys().filter(|path| parent(path) == dir).map(|path| leaf(path).to_owned()).collect())
    }

    pub(super) fn sync_dir(&mut self, dir: &str) -> io::Result<()> {
        self.begin("syncdir", dir)?;
        for change in std::mem::take(&mut self.changes) {
            let (NameChange::Put(path, _) | NameChange::Remove(path)) = &change;
            if parent(path) == dir {
                commit_name(&mut self.durable_names, change);
            } else {
                self.changes.push(change);
            }
        }
        self.forget_unreachable();
        Ok(())
    }

    // Acts of the world.

    /// The power comes back after a cut: only what was on the platter is there.
    pub(super) fn power_cut(&mut self, tear: Tear) {
        for change in std::mem::take(&mut self.changes).into_iter().take(self.kept_changes(tear)) {
            commit_name(&mut self.durable_names, change);
        }
        self.names = self.durable_names.clone();
        self.handles.clear();
        for inode in self.inodes.values_mut() {
            inode.power_cut(tear, &mut self.prng);
        }
        self.forget_unreachable();
        self.recount();
        self.dark = false;
        self.planned.clear();
    }

    /// Pages that a failed fsync left behind are evicted with the process.
    pub(super) fn process_ended(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.evict();
        }
        self.recount();
    }

    /// What is on the platter now, as a disk of its own without faults.
    pub(super) fn durable_copy(&self) -> Self {
        let mut copy = Self::new(self.prng.clone());
        copy.next_inode = self.next_inode;
        copy.dirs = self.dirs.clone();
        copy.names = self.durable_names.clone();
        copy.durable_names = self.durable_names.clone();
        copy.inodes = self
            .durable_names
            .values()
            .filter_map(|id| Some((*id, self.inodes.get(id)?.durable_only())))
            .collect();
        copy.recount();
        copy
    }

    /// Removes every file below `prefix`, names and all, at once and durably.
    pub(super) fn wipe(&mut self, prefix: &str) {
        self.changes.clear();
        self.names.retain(|path, _| !path.starts_with(prefix));
        self.durable_names = self.names.clone();
        self.handles.clear();
        self.forget_unreachable();
        self.recount();
    }

    /// Writes a file durably, past every fault.
    pub(super) fn place(&mut self, path: &str, bytes: &[u8]) {
        let inode = self.next_inode;
        self.next_inode += 1;
        let mut file = Inode::default();
        file.write(0, bytes);
        file.sync();
        self.inodes.insert(inode, file);
        self.names.insert(path.to_owned(), inode);
        self.durable_names.insert(path.to_owned(), inode);
        self.used += bytes.len();
    }

    pub(super) const fn capacity(&self) -> Option<usize> {
        self.capacity
    }

    pub(super) fn limit(&mut self, capacity: Option<usize>) {
        self.capacity = capacity;
    }

    pub(super) const fn used(&self) -> usize {
        self.used
    }

    pub(super) fn plan(&mut self, fault: Planned) {
        self.planned.push(fault);
    }

    pub(super) fn clear_plan(&mut self) {
        self.planned.clear();
    }

    pub(super) const fn is_dark(&self) -> bool {
        self.dark
    }

    pub(super) fn durable_bytes(&self, path: &str) -> Option<&[u8]> {
        self.inodes.get(self.durable_names.get(path)?).map(Inode::durable)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        self.names.keys()
    }

    pub(super) fn flip_bit(&mut self, path: &str, at: usize, bit: u8) -> bool {
        let found = self.names.get(path).and_then(|inode| self.inodes.get_mut(inode));
        found.is_some_and(|file| {
            let inside = at < file.cached().len();
            file.flip_bit(at, bit);
            inside
        })
    }

    /// True if a power cut now could change the contents of `path`.
    pub(super) fn is_dirty(&self, path: &str) -> bool {
        self.names.get(path).and_then(|inode| self.inodes.get(inode)).is_some_and(Inode::is_dirty)
    }

    fn begin(&mut self, what: &str, path: &str) -> io::Result<()> {
        if self.dark {
            return Err(io::Error::other("the power is gone"));
        }
        self.operations += 1;
        let struck = self.planned.iter_mut().position(|fault| {
            let (Planned::Fail { what: w, path: p, after }
            | Planned::PowerCut { what: w, path: p, after }
            | Planned::Fill { what: w, path: p, after }) = fault;
            if !what.starts_with(w.as_str()) || !path.contains(p.as_str()) {
                return false;
            }
            *after = after.wrapping_sub(1);
            *after == u64::MAX
        });
        match struck.map(|index| self.planned.remove(index)) {
            None => Ok(()),
            Some(Planned::Fail { .. }) => Err(io::Error::other(format!("injected: {what} {path}"))),
            Some(Planned::PowerCut { .. }) => {
                self.dark = true;
                Err(io::Error::other("the power is gone"))
            }
            Some(Planned::Fill { .. }) => {
                self.capacity = Some(self.used);
                Ok(())
            }
        }
    }

    /// Counts the occupied space anew, and which files are only kept because a power cut could bring them back.
    fn recount(&mut self) {
        let reached: BTreeSet<u64> = self.names.values().chain(self.handles.keys()).copied().collect();
        let (used, free): (Vec<_>, Vec<_>) = self.inodes.iter().partition(|(id, _)| reached.contains(id));
        self.used = used.iter().map(|(_, file)| file.reserved()).sum();
        self.freed = free.iter().map(|(id, _)| **id).collect();
    }

    fn room(&self) -> usize {
        self.capacity.map_or(usize::MAX, |capacity| capacity.saturating_sub(self.used))
    }

    fn opened(&mut self, inode: u64) -> u64 {
        *self.handles.entry(inode).or_default() += 1;
        inode
    }

    fn resize(&mut self, inode: u64, len: usize) {
        if let Some(file) = self.inodes.get_mut(&inode) {
            let before = file.reserved();
            file.set_len(len);
            self.used -= before - file.reserved();
        }
    }

    /// Frees the space of a file that nothing of the running system reaches any more.
    fn release(&mut self, inode: u64) {
        if self.handles.contains_key(&inode) || self.names.values().any(|id| *id == inode) {
            return;
        }
        if let Some(file) = self.inodes.get(&inode).filter(|_| !self.freed.contains(&inode)) {
            self.used -= file.reserved();
            self.freed.insert(inode);
        }
    }

    /// Drops files that no name, no handle and no name that a power cut could bring back reaches.
    fn forget_unreachable(&mut self) {
        let put = |change: &NameChange| match change {
            NameChange::Put(_, inode) => Some(*inode),
            NameChange::Remove(_) => None,
        };
        let named =
            self.names.values().chain(self.durable_names.values()).chain(self.handles.keys()).copied();
        let reachable: BTreeSet<u64> = named.chain(self.changes.iter().filter_map(put)).collect();
        self.inodes.retain(|id, _| reachable.contains(id));
        let inodes = &self.inodes;
        self.freed.retain(|id| inodes.contains_key(id));
    }

    fn kept_changes(&mut self, tear: Tear) -> usize {
        match tear {
            Tear::Lose => 0,
            Tear::Sectors(_) => self.prng.below(self.changes.len() as u64 + 1) as usize,
        }
    }
}

fn commit_name(names: &mut BTreeMap<String, u64>, change: NameChange) {
    match change {
        NameChange::Put(path, inode) => {
            names.retain(|_, id| *id != inode);
            names.insert(path, inode);
        }
        NameChange::Remove(path) => {
            names.remove(&path);
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

fn leaf(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn missing(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, path.to_owned())
}

fn full(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, format!("no space left on device: {path}"))
}
