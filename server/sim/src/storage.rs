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
    pub image: Box<DataTree>,
    pub writer: Result<SnapshotWriter<SimDisk>, DiskError>,
    /// Written out, waiting for the storage to be idle to get its name.
    pub written: Option<Result<PendingSnapshot, DiskError>>,
}

/// Something for the storage thread to do.
#[derive(Debug)]
pub enum Job {
    Op(IoId, PersistOp),
    /// Begin a periodic snapshot, which then goes on beside the stream.
    Snapshot(Box<DataTree>),
}

/// Queue and store of one process.
pub struct Storage {
    pub store: Store<SimDisk>,
    /// Bound: what the core lets be outstanding.
    queue: VecDeque<Job>,
    pub running: Option<Running>,
    /// An operation failed: nothing but a `Load` is carried out.
    broken: bool,
    /// A scenario stops the disk.
    pub held: bool,
    pub snapshot: Option<Snapshotting>,
    /// Old files are removed after each snapshot.
    purge: bool,
}

impl Storage {
    /// The storage of a new process.
    pub fn open(disk: &SimDisk, autocreate: bool, purge: bool) -> Self {
        let config = StoreConfig {
            prealloc_bytes: 4096,
            autocreate,
            reserve_bytes: 512,
            ..StoreConfig::new(DATA_DIR)
        };
        Self {
            store: Store::open(disk.clone(), config),
            queue: VecDeque::new(),
            running: None,
            broken: false,
            held: false,
            snapshot: None,
            purge,
        }
    }

    /// Adds an operation; dropped if an earlier one failed.
    pub fn push(&mut self, io: IoId, op: PersistOp) {
        if self.broken && !matches!(op, PersistOp::Load) {
            return;
        }
        self.broken = false;
        self.queue.push_back(Job::Op(io, op));
    }

    /// Adds a periodic snapshot behind the operations before it.
    pub fn push_snapshot(&mut self, image: Box<DataTree>) {
        self.queue.push_back(Job::Snapshot(image));
    }

    /// Operations that wait or are being carried out.
    pub fn depth(&self) -> usize {
        self.queue.len() + usize::from(self.running.is_some())
    }

    /// Takes a snapshot that is next in the queue; true if there was one.
    pub fn begin_snapshot(&mut self) -> bool {
        if self.held || self.running.is_some() {
            return false;
        }
        let Some(Job::Snapshot(image)) = self.queue.pop_front_if(|job| matches!(job, Job::Snapshot(_)))
        else {
            return false;
        };
        let writer = self.store.begin_snapshot().map_err(|error| disk_error(&error));
        self.snapshot = Some(Snapshotting { image, writer, written: None });
        true
    }

    /// Takes the next batch of at most `batch_max` appends, or one other operation. Returns true if there is one.
    pub fn begin(&mut self, batch_max: usize) -> bool {
        if self.held || self.running.is_some() {
            return false;
        }
        let Some(Job::Op(io, op)) = self.queue.pop_front_if(|job| matches!(job, Job::Op(..))) else {
            return false;
        };
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
            let more = |job: &mut Job| {
                matches!(job, Job::Op(_, PersistOp::Append { .. })) && entries.len() < batch_max
            };
            if let Some(Job::Op(io, PersistOp::Append { zxid, bytes })) = self.queue.pop_front_if(more) {
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
            PersistOp::Load | PersistOp::Reload => return self.load(),
            PersistOp::Append { zxid, bytes } => {
                self.store.append(*zxid, bytes).and_then(|()| self.store.sync())
            }
            PersistOp::WriteAcceptedEpoch(epoch) => self.store.write_accepted_epoch(*epoch),
            PersistOp::WriteCurrentEpoch(epoch) => self.store.write_current_epoch(*epoch),
            PersistOp::Truncate { zxid } => self.store.truncate(*zxid),
            PersistOp::InstallSnapshot { image, tail } => {
                self.store.install_snapshot(&**image, image.last_processed(), tail)
            }
            PersistOp::RollLog => self.store.roll(),
            PersistOp::WriteCleanMarker { zxid } => self.store.write_clean_marker(*zxid),
        };
        done.map(|()| Persisted::Done).map_err(|error| {
            self.fail();
            disk_error(&error)
        })
    }

    fn load(&mut self) -> Result<Persisted, DiskError> {
        let found = self.store.recover_as(TreeBuilder::new, TreeBuilder::restore).map_err(|error| {
            self.fail();
            disk_error(&error)
        })?;
        Ok(Persisted::Loaded(Box::new(Recovery {
            tree: found.image,
            tail: found.tail,
            last_logged: found.last_logged,
            accepted: found.accepted,
            current: found.current,
            no_history: found.no_history,
        })))
    }

    /// Writes the snapshot out under a temporary name.
    pub fn write_snapshot(&mut self) {
        if let Some(Snapshotting { image, writer, written }) = &mut self.snapshot {
            let zxid = image.last_processed();
            *written = Some(match writer {
                Ok(writer) => writer.write(&**image, zxid).map_err(|error| disk_error(&error)),
                Err(error) => Err(error.clone()),
            });
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
        if self.purge && result.is_ok() {
            // A purge that cannot remove something costs space only; a failed fsync ends the process wherever it happens.
            if let Err(error @ StoreError::SyncFailed { .. }) = self.store.purge(zk_store::MIN_RETAIN) {
                return Some((zxid, Err(disk_error(&error))));
            }
        }
        Some((zxid, result))
    }

    /// What follows is dropped up to the next Load, which starts anew.
    fn fail(&mut self) {
        let load = self.queue.iter().position(|job| matches!(job, Job::Op(_, PersistOp::Load)));
        let dropped = load.unwrap_or(self.queue.len());
        let mut at = 0;
        self.queue.retain(|job| {
            at += 1;
            at > dropped || matches!(job, Job::Snapshot(_))
        });
        self.broken = load.is_none();
    }
}

/// A store's error as the core knows it.
pub fn disk_error(error: &StoreError) -> DiskError {
    let text = error.to_string();
    match error {
        StoreError::NoSpace { .. } => DiskError::NoSpace(text),
        StoreError::SyncFailed { .. } | StoreError::Dead { .. } => DiskError::SyncFailed(text),
        StoreError::Io { .. } | StoreError::OutOfUse { .. } => DiskError::Io(text),
        StoreError::Corrupt { .. }
        | StoreError::Gap { .. }
        | StoreError::TruncateImpossible { .. }
        | StoreError::Config { .. } => DiskError::Corrupt(text),
    }
}
