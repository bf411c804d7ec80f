//! The storage thread of one member: it takes disk operations in their order and makes them durable in batches.
//!
//! Neighbouring appends share one fsync. They are written when the batch begins and synced when it ends, so a power cut in between
//! finds them written and not durable; every other operation is carried out as a whole at the end, and a planned power cut can
//! strike between any two of its steps. After an error everything is dropped until the next `Load`, as the core expects.

use std::collections::VecDeque;

use zk_core::effect::{IoId, PersistOp};
use zk_core::input::{DiskError, Persisted, Recovery};
use zk_core::tree::{DataTree, TreeBuilder};
use zk_jute::Zxid;
use zk_store::{PendingSnapshot, SnapshotWriter, Store, StoreConfig, StoreError};

use crate::disk::SimDisk;
use crate::oracle::ledger::Entry;

/// Where every member keeps its data on its own disk.
pub const DATA_DIR: &str = "/data";
/// The files of the epochs.
pub const ACCEPTED_EPOCH: &str = "/data/version-2/acceptedEpoch";
pub const CURRENT_EPOCH: &str = "/data/version-2/currentEpoch";
/// The marker of a first bootstrap.
pub const INITIALIZE: &str = "/data/initialize";

/// What the storage is busy with.
#[derive(Debug)]
pub enum Running {
    /// Written, not yet synced.
    Appends { entries: Vec<(IoId, Entry)>, failed: Option<(IoId, DiskError)> },
    /// To be carried out when its time is over.
    One(IoId, PersistOp),
}

/// A periodic snapshot in the making.
pub struct Snapshotting {
    pub image: DataTree,
    pub writer: SnapshotWriter<SimDisk>,
    /// Written out, waiting for the storage to be idle to get its name.
    pub written: Option<Result<PendingSnapshot, DiskError>>,
}

/// Queue and store of one process.
pub struct Storage {
    pub store: Store<SimDisk>,
    /// Bound: what the core lets be outstanding.
    pub queue: VecDeque<(IoId, PersistOp)>,
    pub running: Option<Running>,
    /// An operation failed: nothing but a `Load` is carried out.
    broken: bool,
    /// A scenario stops the disk.
    pub held: bool,
    pub snapshot: Option<Snapshotting>,
}

impl Storage {
    /// The storage of a new process.
    pub fn open(disk: &SimDisk, autocreate: bool) -> Self {
        let config = StoreConfig { prealloc_bytes: 4096, autocreate, reserve_bytes: 512, ..StoreConfig::new(DATA_DIR) };
        Self {
            store: Store::open(disk.clone(), config),
            queue: VecDeque::new(),
            running: None,
            broken: false,
            held: false,
            snapshot: None,
        }
    }

    /// Adds an operation; dropped if an earlier one failed.
    pub fn push(&mut self, io: IoId, op: PersistOp) {
        if self.broken && !matches!(op, PersistOp::Load) {
            return;
        }
        self.broken = false;
        self.queue.push_back((io, op));
    }

    /// Takes the next batch of at most `batch_max` appends, or one other operation. Returns true if there is one.
    pub fn begin(&mut self, batch_max: usize) -> bool {
        if self.held || self.running.is_some() {
            return false;
        }
        let Some((io, op)) = self.queue.pop_front() else { return false };
        self.running = Some(match op {
            PersistOp::Append { zxid, bytes } => self.begin_appends(io, Entry::new(zxid, &bytes), batch_max),
            other => Running::One(io, other),
        });
        true
    }

    fn begin_appends(&mut self, io: IoId, first: Entry, batch_max: usize) -> Running {
        let mut entries = Vec::new();
        let mut next = Some((io, first));
        while let Some((io, entry)) = next.take() {
            if let Err(error) = self.store.append(entry.zxid, &entry.bytes) {
                self.fail();
                return Running::Appends { entries, failed: Some((io, disk_error(&error))) };
            }
            entries.push((io, entry));
            let more = entries.len() < batch_max && matches!(self.queue.front(), Some((_, PersistOp::Append { .. })));
            if more && let Some((io, PersistOp::Append { zxid, bytes })) = self.queue.pop_front() {
                next = Some((io, Entry::new(zxid, &bytes)));
            }
        }
        Running::Appends { entries, failed: None }
    }

    /// Syncs what [`Storage::begin`] appended.
    pub fn finish_appends(&mut self) -> Result<(), DiskError> {
        self.store.sync().map_err(|error| {
            self.fail();
            disk_error(&error)
        })
    }

    /// Carries one operation out.
    pub fn carry_out(&mut self, op: &PersistOp) -> Result<Persisted, DiskError> {
        let done = match op {
            PersistOp::Load => return self.load(),
            PersistOp::Append { zxid, bytes } => self.store.append(*zxid, bytes).and_then(|()| self.store.sync()),
            PersistOp::WriteAcceptedEpoch(epoch) => self.store.write_accepted_epoch(*epoch),
            PersistOp::WriteCurrentEpoch(epoch) => self.store.write_current_epoch(*epoch),
            PersistOp::Truncate { zxid } => self.store.truncate(*zxid),
            PersistOp::InstallSnapshot { image } => self.store.install_snapshot(image, image.last_processed()),
            PersistOp::RollLog => self.store.roll(),
            PersistOp::WriteCleanMarker { zxid } => self.store.write_clean_marker(*zxid),
        };
        done.map(|()| Persisted::Done).map_err(|error| {
            self.fail();
            disk_error(&error)
        })
    }

    fn load(&mut self) -> Result<Persisted, DiskError> {
        let found = self.store.recover(TreeBuilder::new).map_err(|error| {
            self.fail();
            disk_error(&error)
        })?;
        let tree = match found.snapshot_zxid {
            Some(zxid) => found.image.finish(found.snapshot_tail, zxid).map_err(DiskError::Corrupt)?,
            None => DataTree::new(),
        };
        Ok(Persisted::Loaded(Box::new(Recovery {
            tree,
            tail: found.tail,
            last_logged: found.last_logged,
            accepted: found.accepted,
            current: found.current,
            no_history: found.no_history,
        })))
    }

    /// A periodic snapshot begins.
    pub fn begin_snapshot(&mut self, image: DataTree) {
        let writer = self.store.begin_snapshot();
        self.snapshot = Some(Snapshotting { image, writer, written: None });
    }

    /// Writes the snapshot out under a temporary name.
    pub fn write_snapshot(&mut self) {
        if let Some(snapshot) = &mut self.snapshot {
            let zxid = snapshot.image.last_processed();
            snapshot.written = Some(snapshot.writer.write(&snapshot.image, zxid).map_err(|error| disk_error(&error)));
        }
    }

    /// Gives a written snapshot its name, between two batches as the storage thread does.
    pub fn publish_snapshot(&mut self) -> Option<(Zxid, Result<(), DiskError>)> {
        if self.running.is_some() || self.snapshot.as_ref()?.written.is_none() {
            return None;
        }
        let snapshot = self.snapshot.take()?;
        let zxid = snapshot.image.last_processed();
        let result = snapshot.written?.and_then(|pending| {
            self.store.publish_snapshot(pending).map(drop).map_err(|error| disk_error(&error))
        });
        Some((zxid, result))
    }

    fn fail(&mut self) {
        // What follows is dropped up to the next Load, which starts anew.
        let load = self.queue.iter().position(|(_, op)| matches!(op, PersistOp::Load));
        self.queue.drain(..load.unwrap_or(self.queue.len()));
        self.broken = load.is_none();
    }
}

/// A store's error as the core knows it.
pub fn disk_error(error: &StoreError) -> DiskError {
    let text = error.to_string();
    match error {
        StoreError::NoSpace { .. } => DiskError::NoSpace(text),
        StoreError::SyncFailed { .. } => DiskError::SyncFailed(text),
        StoreError::Io { .. } | StoreError::OutOfUse { .. } => DiskError::Io(text),
        StoreError::Corrupt { .. }
        | StoreError::Gap { .. }
        | StoreError::TruncateImpossible { .. }
        | StoreError::Config { .. } => DiskError::Corrupt(text),
    }
}
