//! One file as the page cache and the platter see it.
//!
//! `cached` is what the process reads; `durable` is what a power cut leaves, and `dirty` the changes between the two in
//! their order. A power cut applies each dirty write wholly, partly or not at all, independently of the others: that is
//! all that POSIX promises about writes that were never synced.

use crate::prng::Prng;

/// A change that no fsync covers yet.
#[derive(Clone, Debug)]
enum Dirty {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

/// How unsynced data fares at a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tear {
    /// All of it is lost.
    Lose,
    /// Each write is kept, lost, or cut at a multiple of this many bytes, at random. 512 is what disks promise, less is
    /// what file systems that copy pages do.
    Sectors(usize),
}

/// The contents of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<Dirty>,
    /// Bytes from the start that have space reserved, written or not; a hole beyond costs nothing.
    reserved: usize,
    /// An fsync failed: `cached` holds what no later fsync will write.
    poisoned: bool,
}

impl Inode {
    pub(super) fn cached(&self) -> &[u8] {
        &self.cached
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// True if a power cut now could change what is read.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Bytes of space that this file occupies.
    pub(super) const fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes of space that `len` bytes at `at` would take beyond what is reserved.
    pub(super) fn growth(&self, at: usize, len: usize) -> usize {
        (at + len).saturating_sub(self.reserved)
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        put(&mut self.cached, at, bytes);
        self.reserved = self.reserved.max(at + bytes.len());
        self.dirty.push(Dirty::Write { at, bytes: bytes.to_vec() });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.cached.resize(len, 0);
        self.reserved = self.reserved.min(len);
        self.dirty.push(Dirty::Length(len));
    }

    /// Reserves space up to `end` and extends the file to it.
    pub(super) fn allocate(&mut self, end: usize) {
        self.reserved = self.reserved.max(end);
        if end > self.cached.len() {
            self.cached.resize(end, 0);
            self.dirty.push(Dirty::Length(end));
        }
    }

    /// fsync: the platter catches up.
    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.dirty) {
            apply(&mut self.durable, &change);
        }
    }

    /// A failed fsync: the kernel reports the error once and forgets which pages were dirty, so that a later fsync
    /// succeeds without them. Some reached the platter, some never will.
    pub(super) fn sync_failed(&mut self, prng: &mut Prng) {
        self.poisoned = true;
        for change in std::mem::take(&mut self.dirty) {
            if prng.chance(500) {
                apply(&mut self.durable, &change);
            }
        }
    }

    /// Drops what a failed fsync left in the cache.
    pub(super) fn evict(&mut self) {
        if self.poisoned {
            self.dirty.clear();
            self.cached = self.durable.clone();
            self.reserved = self.cached.len();
        }
        self.poisoned = false;
    }

    /// A power cut: what is read afterwards is what was on the platter.
    pub(super) fn power_cut(&mut self, tear: Tear, prng: &mut Prng) {
        for change in std::mem::take(&mut self.dirty) {
            if let Tear::Sectors(sector) = tear {
                tear_one(&mut self.durable, change, sector, prng);
            }
        }
        self.cached = self.durable.clone();
        self.reserved = self.cached.len();
    }

    /// The same file if the power went now and everything unsynced was lost.
    pub(super) fn durable_only(&self) -> Self {
        Self {
            cached: self.durable.clone(),
            durable: self.durable.clone(),
            dirty: Vec::new(),
            reserved: self.durable.len(),
            poisoned: false,
        }
    }

    /// Flips one bit on the platter and in the cache; outside a declared budget nobody calls this.
    pub(super) fn flip_bit(&mut self, at: usize, bit: u8) {
        for side in [&mut self.cached, &mut self.durable] {
            if let Some(byte) = side.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}

fn tear_one(durable: &mut Vec<u8>, change: Dirty, sector: usize, prng: &mut Prng) {
    match (prng.below(3), change) {
        (0, change) => apply(durable, &change),
        (1, Dirty::Write { at, bytes }) => {
            let end = at + prng.below(bytes.len() as u64 + 1) as usize;
            let cut = (end - end % sector.max(1)).saturating_sub(at);
            put(durable, at, &bytes[..cut]);
        }
        _ => {}
    }
}

fn apply(durable: &mut Vec<u8>, change: &Dirty) {
    match change {
        Dirty::Write { at, bytes } => put(durable, *at, bytes),
        Dirty::Length(len) => durable.resize(*len, 0),
    }
}

fn put(target: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if target.len() < at + bytes.len() {
        target.resize(at + bytes.len(), 0);
    }
    target[at..at + bytes.len()].copy_from_slice(bytes);
}
