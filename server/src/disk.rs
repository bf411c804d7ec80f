//! The storage thread: carries out the core's one ordered stream of disk operations (invariant 1).
//!
//! Neighbouring appends share one fsync: whatever has queued up while the last fsync ran is written and synced
//! together. Snapshots are written by a thread of their own, and only given their name here. A failure is reported
//! once, for the first operation that it may concern, and everything after it is dropped until the core asks for a
//! reload (invariant 4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info, warn};
use zk_core::Input;
use zk_core::effect::{IoId, PersistOp};
use zk_core::input::{DiskError, Persisted, Recovery};
use zk_core::tree::{DataTree, TreeBuilder};
use zk_jute::Zxid;
use zk_jute::snapshot::SnapshotTail;
use zk_store::{
    DEFAULT_MAX_RECORD, FileDisk, LONGEST_RECORD, PendingSnapshot, PurgePlan, Store, StoreConfig, StoreError,
};

use crate::clock::wall_ms;
use crate::config::StorageConfig;
use crate::driver::Handle;
use crate::metrics::Metrics;

/// Bytes of appends in one fsync. Below what the store may hold unsynced (16 MiB), and small enough that the first of
/// a group does not wait long for the last.
const GROUP_BYTES: usize = 4 << 20;
/// Free space below which a member calls itself full: what one log extension and the epoch files need.
const FULL_BELOW: u64 = 1 << 20;

/// What the storage thread is told.
enum Message {
    Ops(Vec<(IoId, PersistOp)>),
    Snapshot(Box<DataTree>),
    /// A snapshot is written and waits for its name, or failed.
    Written {
        zxid: Zxid,
        began: Instant,
        result: Result<PendingSnapshot, StoreError>,
    },
    Purge,
    /// The snapshots that a purge keeps are verified, or cannot be.
    Verified(Result<PurgePlan, StoreError>),
}

/// Where operations go.
#[derive(Clone)]
pub struct StorageHandle {
    sender: Sender<Message>,
}

impl StorageHandle {
    /// Queues operations, in order. The queue's bound is the core's: it stops taking writes in when too many wait.
    pub fn ops(&self, ops: Vec<(IoId, PersistOp)>) {
        self.send(Message::Ops(ops));
    }

    /// Starts a snapshot beside the stream.
    pub fn snapshot(&self, image: Box<DataTree>) {
        self.send(Message::Snapshot(image));
    }

    fn send(&self, message: Message) {
        // The thread ends only with the process.
        drop(self.sender.send(message));
    }
}

/// What others may know of the disk.
#[derive(Debug, Default)]
pub struct StorageStatus {
    /// The last write failed for lack of space.
    full: AtomicBool,
    last_snapshot: Mutex<Option<(Zxid, i64)>>,
}

/// Space on a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub total: u64,
    pub free: u64,
    pub inodes_free: u64,
}

impl StorageStatus {
    /// The tighter of the two directories' file systems; zeros if the system does not tell.
    pub fn usage(config: &StorageConfig) -> Usage {
        let of = |dir: &std::path::Path| {
            let stat = rustix::fs::statvfs(dir).ok()?;
            Some(Usage {
                total: stat.f_blocks.saturating_mul(stat.f_frsize),
                free: stat.f_bavail.saturating_mul(stat.f_frsize),
                inodes_free: stat.f_favail,
            })
        };
        let both = [of(&config.data_dir), of(&config.data_log_dir)];
        both.into_iter().flatten().min_by_key(|usage| usage.free).unwrap_or_default()
    }

    /// True if writes fail, or soon will.
    pub fn is_full(&self, usage: &Usage) -> bool {
        self.full.load(Ordering::Relaxed) || usage.total > 0 && usage.free < FULL_BELOW
    }

    /// zxid and time (milliseconds since 1970) of the last snapshot this process wrote or loaded.
    pub fn last_snapshot(&self) -> Option<(Zxid, i64)> {
        *self.last_snapshot.lock()
    }
}

/// Appends that are written and wait for their fsync.
#[derive(Default)]
struct Group {
    first: Option<IoId>,
    last: IoId,
    count: u64,
    bytes: usize,
}

/// The thread's state.
pub struct Storage {
    store: Store<FileDisk>,
    config: StorageConfig,
    receiver: Receiver<Message>,
    own: StorageHandle,
    driver: Handle,
    metrics: Arc<Metrics>,
    status: Arc<StorageStatus>,
    group: Group,
    /// An operation failed: everything up to the next reload is dropped.
    failed: bool,
    /// The directory was read once, so it may be purged.
    loaded: bool,
    /// A thread verifies snapshots for a purge; one is enough.
    purging: bool,
}

impl Storage {
    /// The thread's state and the handle to it.
    pub fn new(
        config: StorageConfig,
        driver: Handle,
        metrics: Arc<Metrics>,
        status: Arc<StorageStatus>,
    ) -> (Self, StorageHandle) {
        let (sender, receiver) = channel();
        let own = StorageHandle { sender };
        let store = Store::open(FileDisk, store_config(&config));
        let group = Group::default();
        let storage = Self {
            store,
            config,
            receiver,
            own: own.clone(),
            driver,
            metrics,
            status,
            group,
            failed: false,
            loaded: false,
            purging: false,
        };
        (storage, own)
    }

    /// Runs for ever.
    pub fn run(mut self) {
        loop {
            let message = if self.group.count == 0 {
                self.receiver.recv().ok()
            } else {
                match self.receiver.try_recv() {
                    Ok(message) => Some(message),
                    Err(TryRecvError::Empty) => {
                        self.commit();
                        continue;
                    }
                    Err(TryRecvError::Disconnected) => None,
                }
            };
            // The thread holds a sender itself, so there is always another message.
            let Some(message) = message else { return };
            self.message(message);
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Ops(ops) => ops.into_iter().for_each(|(io, op)| self.op(io, op)),
            Message::Snapshot(image) => self.start_snapshot(image),
            Message::Written { zxid, began, result } => {
                self.commit();
                self.publish(zxid, began, result);
            }
            Message::Purge => {
                self.commit();
                self.start_purge();
            }
            Message::Verified(plan) => {
                self.commit();
                self.purging = false;
                self.purge(plan);
            }
        }
    }

    fn op(&mut self, io: IoId, op: PersistOp) {
        if self.failed && !matches!(op, PersistOp::Load) {
            return;
        }
        if let PersistOp::Append { zxid, bytes } = op {
            return self.append(io, zxid, &bytes);
        }
        self.commit();
        if self.failed && !matches!(op, PersistOp::Load) {
            return;
        }
        let result = match op {
            PersistOp::Load | PersistOp::Reload => {
                self.failed = false;
                let loaded = self.load().map(|recovery| Persisted::Loaded(Box::new(recovery)));
                if loaded.is_ok() && !std::mem::replace(&mut self.loaded, true) {
                    self.start_purge_timer();
                }
                loaded
            }
            PersistOp::Append { .. } => unreachable!("appends are grouped"),
            PersistOp::WriteAcceptedEpoch(epoch) => {
                self.store.write_accepted_epoch(epoch).map(|()| Persisted::Done)
            }
            PersistOp::WriteCurrentEpoch(epoch) => {
                self.store.write_current_epoch(epoch).map(|()| Persisted::Done)
            }
            PersistOp::Truncate { zxid } => self.store.truncate(zxid).map(|_| Persisted::Done),
            PersistOp::InstallSnapshot { image, tail } => {
                let zxid = image.last_processed();
                self.store.install_snapshot(&*image, zxid, &tail).map(|()| {
                    *self.status.last_snapshot.lock() = Some((zxid, wall_ms()));
                    Persisted::Done
                })
            }
            PersistOp::RollLog => self.store.roll().map(|()| Persisted::Done),
            PersistOp::WriteCleanMarker { zxid } => {
                self.store.write_clean_marker(zxid).map(|()| Persisted::Done)
            }
        };
        self.report(io, result);
    }

    fn append(&mut self, io: IoId, zxid: Zxid, bytes: &bytes::Bytes) {
        self.group.first.get_or_insert(io);
        self.group.last = io;
        self.group.count += 1;
        self.group.bytes += bytes.len();
        if let Err(error) = self.store.append(zxid, bytes) {
            // Nothing since the last fsync can be relied on, so the failure is the whole group's.
            let group = std::mem::take(&mut self.group);
            return self.report(group.first.unwrap_or(io), Err(error));
        }
        if self.group.bytes >= GROUP_BYTES {
            self.commit();
        }
    }

    /// Syncs what was appended and reports it.
    fn commit(&mut self) {
        let group = std::mem::take(&mut self.group);
        let Some(first) = group.first else { return };
        let began = Instant::now();
        let result = self.store.sync();
        let took = began.elapsed();
        self.metrics.fsync_time.record(millis(took));
        self.metrics.sync_batch_size.record(group.count);
        if took >= self.config.fsync_warning {
            self.metrics.fsync_threshold_exceeded.add(1);
            warn!(
                "fsync of the transaction log took {} ms; latency suffers, see fsync.warningthresholdms",
                took.as_millis()
            );
        }
        match result {
            Ok(()) => {
                self.report(group.last, Ok(Persisted::Done));
                self.roll_if_large();
            }
            Err(error) => self.report(first, Err(error)),
        }
    }

    /// `txnLogSizeLimitInKb`.
    fn roll_if_large(&mut self) {
        let Some(limit) = self.config.log_size_limit else { return };
        if self.store.log_bytes_since_roll() >= limit
            && let Err(error) = self.store.roll()
        {
            // The store is out of use now, which the next operation reports.
            warn!("the log could not be rolled: {error}");
        }
    }

    fn report(&mut self, io: IoId, result: Result<Persisted, StoreError>) {
        let result = result.map_err(|error| {
            error!("disk: {error}");
            self.failed = true;
            disk_error(error)
        });
        self.status.full.store(matches!(result, Err(DiskError::NoSpace(_))), Ordering::Relaxed);
        if result.is_err() {
            self.metrics.unrecoverable_errors.add(1);
        }
        self.driver.input(Input::Persisted { io, result });
    }

    fn load(&mut self) -> Result<Recovery, StoreError> {
        let began = Instant::now();
        let compare = self.config.digest_enabled;
        let recovered = self.store.recover_as(TreeBuilder::new, |builder, at, log| {
            let at = at.map(|(zxid, tail)| (zxid, if compare { tail } else { undigested(tail) }));
            let hint = "digest.enabled=false loads it without comparing";
            builder.restore(at, log).map_err(|what| format!("{what} ({hint})"))
        })?;
        for repair in &recovered.repairs {
            warn!("recovery: {repair}");
        }
        if let Some(zxid) = recovered.snapshot_zxid {
            *self.status.last_snapshot.lock() = Some((zxid, wall_ms()));
        }
        let tree = recovered.image;
        if recovered.snapshot_zxid.is_none() && recovered.tail.is_empty() && !recovered.no_history {
            // As upstream does for a new database, which otherwise could not take this directory over.
            self.store.write_snapshot(&tree, Zxid::ZERO)?;
        }
        let took = began.elapsed();
        self.metrics.db_init_time.record(millis(took));
        self.metrics.startup_txns_loaded.record(recovered.tail.len() as u64);
        info!(
            "loaded {} nodes at {} and {} logged transactions up to {} in {} ms",
            tree.node_count(),
            tree.last_processed(),
            recovered.tail.len(),
            recovered.last_logged,
            took.as_millis()
        );
        Ok(Recovery {
            tree,
            tail: recovered.tail,
            last_logged: recovered.last_logged,
            accepted: recovered.accepted,
            current: recovered.current,
            no_history: recovered.no_history,
        })
    }

    /// Writes the image on a thread of its own; the core asks for one at a time.
    fn start_snapshot(&self, image: Box<DataTree>) {
        let (zxid, began) = (image.last_processed(), Instant::now());
        let writer = match self.store.begin_snapshot() {
            Ok(writer) => writer,
            Err(error) => return self.own.send(Message::Written { zxid, began, result: Err(error) }),
        };
        let own = self.own.clone();
        let write = move || own.send(Message::Written { zxid, began, result: writer.write(&*image, zxid) });
        let spawned = thread::Builder::new().name("snapshot".to_owned()).spawn(write);
        if let Err(failure) = spawned {
            warn!("no thread for a snapshot: {failure}");
            self.driver.input(Input::SnapshotDone { zxid, result: Err(DiskError::Io(failure.to_string())) });
        }
    }

    fn publish(&mut self, zxid: Zxid, began: Instant, result: Result<PendingSnapshot, StoreError>) {
        let result = result.and_then(|pending| self.store.publish_snapshot(pending));
        self.metrics.snapshot_time.record(millis(began.elapsed()));
        let result = match result {
            Ok(published) => {
                if published {
                    *self.status.last_snapshot.lock() = Some((zxid, wall_ms()));
                }
                info!("snapshot at {zxid} took {} ms", began.elapsed().as_millis());
                Ok(())
            }
            Err(failure) => {
                self.metrics.snapshot_errors.add(1);
                error!("snapshot at {zxid} failed: {failure}");
                Err(disk_error(failure))
            }
        };
        self.driver.input(Input::SnapshotDone { zxid, result });
    }

    fn start_purge_timer(&self) {
        let Some(interval) = self.config.purge_interval else { return };
        let own = self.own.clone();
        let tick = move || loop {
            own.send(Message::Purge);
            thread::sleep(interval);
        };
        if let Err(failure) = thread::Builder::new().name("purge".to_owned()).spawn(tick) {
            error!("no thread for autopurge: {failure}");
        }
    }

    /// Verifies on a thread of its own what a purge would keep: reading a large snapshot takes longer than any write may.
    fn start_purge(&mut self) {
        if self.purging {
            return;
        }
        let check = match self.store.begin_purge(self.config.snap_retain_count) {
            Ok(check) => check,
            Err(failure) => return warn!("purge: {failure}"),
        };
        let own = self.own.clone();
        let verify = move || own.send(Message::Verified(check.verify()));
        match thread::Builder::new().name("purge-verify".to_owned()).spawn(verify) {
            Ok(_) => self.purging = true,
            Err(failure) => warn!("no thread for a purge: {failure}"),
        }
    }

    fn purge(&mut self, plan: Result<PurgePlan, StoreError>) {
        match plan.and_then(|plan| self.store.finish_purge(plan)) {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => info!("purge: removed {removed:?}"),
            Err(failure) => {
                warn!("purge: {failure}");
                // A failed fsync ends the process whatever it was for: the core hears of it as of a snapshot's.
                if let DiskError::SyncFailed(text) = disk_error(failure) {
                    let zxid = self.store.last_durable();
                    self.driver.input(Input::SnapshotDone { zxid, result: Err(DiskError::SyncFailed(text)) });
                }
            }
        }
        self.store.ensure_reserve();
    }
}

/// Bytes of the longest record that is read, with upstream's allowance for what a request becomes in the log. Never less
/// than by default: `jute.maxbuffer` may have been larger when the files were written.
fn max_record(configured: usize) -> usize {
    const ALLOWANCE: usize = 1 << 20;
    configured.saturating_add(ALLOWANCE).clamp(DEFAULT_MAX_RECORD, LONGEST_RECORD)
}

/// A snapshot's footer without its digest, so that the nodes are taken as they are.
fn undigested(tail: SnapshotTail) -> SnapshotTail {
    SnapshotTail { digest: None, ..tail }
}

/// The store's settings.
pub fn store_config(config: &StorageConfig) -> StoreConfig {
    StoreConfig {
        data_dir: config.data_dir.clone(),
        log_dir: config.data_log_dir.clone(),
        prealloc_bytes: config.prealloc_bytes,
        autocreate: config.db_autocreate,
        force_sync: config.force_sync,
        trust_empty: config.trust_empty_snapshot,
        max_record: max_record(config.max_record),
        ..StoreConfig::new(&config.data_dir)
    }
}

fn disk_error(error: StoreError) -> DiskError {
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    /// The fault: what a raised `jute.maxbuffer` allowed to be logged could not be read back.
    #[test]
    fn what_jute_maxbuffer_allows_can_be_read_back() {
        let dir = tempfile::tempdir().expect("directory");
        let limit = |text: &str| {
            let file = dir.path().join("zoo.cfg");
            let text = format!("dataDir={}\nclientPort=1\ntickTime=2000\n{text}\n", dir.path().display());
            std::fs::write(&file, text).expect("write");
            let loaded = load(&Sources { file: Some(file), ..Sources::default() }).expect("valid");
            store_config(&loaded.config.storage).max_record
        };
        assert_eq!(limit(""), 256 << 20, "far above the default");
        assert_eq!(limit("jute.maxbuffer=1048576"), 256 << 20, "never lowered");
        assert_eq!(
            limit("jute.maxbuffer=536870911"),
            (1 << 30) - 2 + (1 << 20),
            "twice, as upstream, and 1 MiB"
        );
        assert_eq!(limit("jute.maxbuffer=536870911\njute.maxbuffer.extrasize=2147483647"), LONGEST_RECORD);
    }
}
