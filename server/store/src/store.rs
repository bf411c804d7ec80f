//! [`Store`]: everything one member keeps on disk, driven by one storage thread (invariant 1).
//!
//! Memory follows disk (invariant 3): what the accessors tell changes only once it is durable. After an error in the
//! middle of a change the store refuses everything until [`Store::recover`] has read again what is really there; after
//! a failed fsync it refuses even that (invariant 4).

use bytes::Bytes;
use zk_jute::{Epoch, Zxid};

use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::files;
use crate::log_reader::zxid_of;
use crate::log_writer::LogWriter;
use crate::names::{CLEAN, Layout, ORIGIN};

/// Whether the store may be used.
#[derive(Debug)]
pub(crate) enum State {
    /// Not recovered yet.
    Closed,
    Ready,
    /// A change failed half way: memory and disk may differ until the next recovery.
    Failed {
        why: String,
    },
    /// An fsync failed: nothing this process reads back proves anything about the disk.
    Dead {
        why: String,
    },
}

/// The durable state of one member.
pub struct Store<D: Disk> {
    pub(crate) disk: D,
    pub(crate) cfg: StoreConfig,
    pub(crate) layout: Layout,
    pub(crate) log: LogWriter<D>,
    pub(crate) state: State,
    /// Last transaction appended, durable or not.
    pub(crate) last_appended: Zxid,
    /// Last transaction (or snapshot) that is durable.
    pub(crate) last_durable: Zxid,
    pub(crate) accepted: Epoch,
    pub(crate) current: Epoch,
    /// Bumped by whatever makes snapshots in the making worthless.
    pub(crate) generation: u64,
    /// The names of the directories themselves were made durable.
    pub(crate) directories_durable: bool,
    /// A snapshot or a log exists.
    pub(crate) has_history: bool,
    /// The `clean` marker is on disk and must go before anything changes.
    pub(crate) clean_marker: bool,
    /// The `initialize` file is on disk and goes once there is history.
    pub(crate) initialize: bool,
    /// Snapshots that this process wrote or read completely, by name.
    pub(crate) verified: std::collections::BTreeSet<std::path::PathBuf>,
    /// Snapshots whose checksums fit, and which are not what they claim to be.
    pub(crate) rejected: std::collections::BTreeSet<std::path::PathBuf>,
}

impl<D: Disk> Store<D> {
    /// A store over `disk`; nothing is read before [`Store::recover`].
    pub fn open(disk: D, cfg: StoreConfig) -> Self {
        let layout = Layout::new(&cfg);
        let log = LogWriter::new(disk.clone(), layout.clone(), &cfg);
        Self {
            disk,
            cfg,
            layout,
            log,
            state: State::Closed,
            last_appended: Zxid::ZERO,
            last_durable: Zxid::ZERO,
            accepted: Epoch(0),
            current: Epoch(0),
            generation: 0,
            directories_durable: false,
            has_history: false,
            clean_marker: false,
            initialize: false,
            verified: std::collections::BTreeSet::new(),
            rejected: std::collections::BTreeSet::new(),
        }
    }

    /// `acceptedEpoch` as it is on disk.
    pub const fn accepted_epoch(&self) -> Epoch {
        self.accepted
    }

    /// `currentEpoch` as it is on disk.
    pub const fn current_epoch(&self) -> Epoch {
        self.current
    }

    /// The last transaction or snapshot that is durable here: what may be offered to an election.
    pub const fn last_durable(&self) -> Zxid {
        self.last_durable
    }

    /// Bytes of records appended since the log was rolled.
    pub const fn log_bytes_since_roll(&self) -> u64 {
        self.log.bytes_since_roll()
    }

    /// Appends a transaction; it is durable after the next [`Store::sync`]. `body` is the transaction as it is logged.
    ///
    /// # Errors
    /// [`StoreError::Gap`] if `zxid` does not follow the last one: nothing was changed. Any other error leaves the
    /// store out of use until it is recovered, and nothing appended since the last sync may be relied on.
    ///
    /// # Panics
    /// If `zxid` is not greater than the last one, or not the one inside `body`: a log that cannot be read back must
    /// not be written (invariant 11).
    pub fn append(&mut self, zxid: Zxid, body: &Bytes) -> Result<(), StoreError> {
        self.ready()?;
        let last = self.last_appended;
        assert!(zxid > last, "append of {zxid} after {last}");
        assert!(zxid_of(body) == Some(zxid), "append of {zxid} with a body of {:?}", zxid_of(body));
        assert!(body.len() <= self.cfg.max_record, "append of a record of {} bytes", body.len());
        assert!(zxid.epoch() <= self.accepted, "append of {zxid} with accepted epoch {}", self.accepted);
        if !zxid.follows(last) {
            let file = self.layout.log(zxid);
            return Err(StoreError::Gap { after: last, found: Some(zxid), file });
        }
        let appended = self.append_ready(zxid, body);
        self.settle(appended)?;
        self.last_appended = zxid;
        Ok(())
    }

    fn append_ready(&mut self, zxid: Zxid, body: &Bytes) -> Result<(), StoreError> {
        self.drop_clean_marker()?;
        if self.log.is_closed() && !self.has_history {
            // Before the log exists: a log that starts with this zxid is then known to be the whole history.
            let origin = self.layout.in_snap_dir(ORIGIN);
            self.write_reserved(&origin, &format!("{:x}", zxid.0))?;
        }
        self.log.append(zxid, body)?;
        self.has_history = true;
        Ok(())
    }

    /// Makes every appended transaction durable.
    ///
    /// # Errors
    /// As [`Store::append`]; after [`StoreError::SyncFailed`] the process must end.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.ready()?;
        let synced = self.log.sync().and_then(|()| self.drop_initialize());
        self.settle(synced)?;
        self.last_durable = self.last_appended;
        Ok(())
    }

    /// Syncs and closes the log; the next append begins a new file. Called when a snapshot begins.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn roll(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        let rolled = self.log.roll();
        self.settle(rolled)
    }

    /// Writes the marker of an orderly stop: everything up to `zxid` is on disk and nothing follows. It is removed
    /// before the next change.
    ///
    /// # Errors
    /// As [`Store::sync`]; [`StoreError::NoSpace`] leaves the store usable.
    ///
    /// # Panics
    /// If something is appended and not synced, or the last transaction is another one.
    pub fn write_clean_marker(&mut self, zxid: Zxid) -> Result<(), StoreError> {
        self.ready()?;
        assert!(
            zxid == self.last_durable && zxid == self.last_appended,
            "a clean stop at {zxid} with {} durable and {} appended",
            self.last_durable,
            self.last_appended
        );
        let path = self.layout.in_snap_dir(CLEAN);
        self.clean_marker = true;
        let written = self.write_reserved(&path, &format!("{:x}", zxid.0));
        self.settle_small(written)
    }

    pub(crate) fn ready(&self) -> Result<(), StoreError> {
        let why = match &self.state {
            State::Ready => return Ok(()),
            State::Closed => "it was not recovered yet",
            State::Failed { why } => why,
            State::Dead { why } => return Err(StoreError::Dead { why: why.clone() }),
        };
        Err(StoreError::OutOfUse { why: why.to_owned() })
    }

    /// Takes the store out of use if a change failed.
    pub(crate) fn settle<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result {
            let why = error.to_string();
            self.state = match error {
                StoreError::SyncFailed { .. } => State::Dead { why },
                _ => State::Failed { why },
            };
        }
        result
    }

    /// [`Store::settle`] for a change of a small file, which a full disk leaves as it was.
    pub(crate) fn settle_small<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match result {
            Err(StoreError::NoSpace { .. }) => result,
            other => self.settle(other),
        }
    }

    /// Removes the marker of an orderly stop, durably, because it is about to become untrue.
    pub(crate) fn drop_clean_marker(&mut self) -> Result<(), StoreError> {
        if self.clean_marker {
            files::remove_durably(&self.disk, &self.layout.in_snap_dir(CLEAN))?;
            self.clean_marker = false;
        }
        Ok(())
    }

    /// Removes `initialize` once history is durable: from then on an empty directory is a lost one.
    pub(crate) fn drop_initialize(&mut self) -> Result<(), StoreError> {
        if self.initialize && self.has_history {
            files::remove_durably(&self.disk, &self.layout.initialize())?;
            self.initialize = false;
        }
        Ok(())
    }
}
