//! Reading back what is really on disk (upstream `FileTxnSnapLog.restore`, `QuorumPeer.loadDataBase`).
//!
//! Two phases. First everything is read and judged, and a refusal changes nothing, so that a person or the operator
//! finds the evidence. Only then are the torn tail cut, leftovers removed and epoch files repaired. Nothing counts as
//! logged before it was fsynced here: a killed process leaves bytes that a power cut would still take.

use zk_jute::image::SnapshotSink;
use zk_jute::snapshot::SnapshotTail;
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, Zxid};

use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::files::{self, Marker};
use crate::log_chain::{self, Seen, Walked};
use crate::log_reader::HEADER_LEN;
use crate::names::{self, CLEAN, Named, ORIGIN};
use crate::repair::Repair;
use crate::snapshot_reader::load_within;
use crate::store::{State, Store};

/// Snapshots that are tried before giving up (upstream's number).
const MAX_SNAPSHOTS_TRIED: usize = 100;

/// What a recovery found.
#[derive(Debug)]
pub struct Recovered<T> {
    /// The newest usable snapshot; a fresh sink if there is none. (Or what [`Store::recover_as`] was told to make of it.)
    pub image: T,
    /// The snapshot's zxid; `None` if there is none.
    pub snapshot_zxid: Option<Zxid>,
    /// Digest and last processed zxid of the snapshot.
    pub snapshot_tail: SnapshotTail,
    /// Logged after the snapshot, without a gap. Logged, not known to be committed (invariant 6).
    pub tail: Vec<LoggedTxn>,
    /// The end of history: the last of `tail`, or the snapshot. [`Zxid::ZERO`] without either.
    pub last_logged: Zxid,
    pub accepted: Epoch,
    pub current: Epoch,
    /// There is no history, and nothing says that there should not be: this member must not vote as if it had one
    /// (invariant 9; upstream offers zxid -1).
    pub no_history: bool,
    /// Where the last orderly stop left off; removed at the next change.
    pub clean: Option<Zxid>,
    /// Everything that was not in order.
    pub repairs: Vec<Repair>,
}

/// History as the first phase found it.
struct History<T> {
    image: T,
    snapshot: Option<(Zxid, SnapshotTail)>,
    tail: Vec<LoggedTxn>,
    walked: Walked,
    /// Snapshots that could not be used.
    skipped: Vec<(Named, String)>,
}

impl<D: Disk> Store<D> {
    /// [`Store::recover_as`], with images taken for what they are if their checksums fit.
    ///
    /// # Errors
    /// As [`Store::recover_as`].
    pub fn recover<S: SnapshotSink>(
        &mut self,
        new_sink: impl FnMut() -> S,
    ) -> Result<Recovered<S>, StoreError> {
        self.recover_as(new_sink, |image, _, _| Ok(image))
    }

    /// Reads everything anew, repairs what is provably safe to repair, and makes the store usable. May be called at
    /// any time; whatever was appended and not synced is either durable afterwards or gone.
    ///
    /// `new_sink` makes an empty database; it is called again when a snapshot turns out to be unusable. `finish` gets the
    /// database that was read, zxid and footer of its snapshot (`None`: there is none) and what was logged after it. It
    /// says with an error, which tells why, that the snapshot is not what it claims: an older one is tried then.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] and [`StoreError::Gap`]: history is incomplete, nothing was changed.
    /// [`StoreError::Config`]: directories are mixed up. [`StoreError::Dead`]: an fsync failed before.
    pub fn recover_as<S: SnapshotSink, T>(
        &mut self,
        new_sink: impl FnMut() -> S,
        finish: impl FnMut(S, Option<(Zxid, SnapshotTail)>, &[LoggedTxn]) -> Result<T, String>,
    ) -> Result<Recovered<T>, StoreError> {
        if let State::Dead { why } = &self.state {
            return Err(StoreError::Dead { why: why.clone() });
        }
        self.state = State::Closed;
        self.generation += 1;
        self.log.reset();
        self.verified.clear();
        self.rejected.clear();
        let recovered = self.recover_closed(new_sink, finish);
        let recovered = self.settle(recovered)?;
        self.state = State::Ready;
        Ok(recovered)
    }

    fn recover_closed<S: SnapshotSink, T>(
        &mut self,
        new_sink: impl FnMut() -> S,
        finish: impl FnMut(S, Option<(Zxid, SnapshotTail)>, &[LoggedTxn]) -> Result<T, String>,
    ) -> Result<Recovered<T>, StoreError> {
        self.check_directories()?;
        let mut repairs = self.finish_install()?;
        let history = self.read_history(new_sink, finish)?;
        let last_logged = history.walked.last;
        self.has_history = history.snapshot.is_some() || history.walked.first.is_some();
        let epochs = self.judge_epochs(last_logged)?;
        let clean = self.read_clean_marker(&mut repairs)?;
        check_clean(clean, &history.walked)?;

        self.repair_logs(&history.walked, &mut repairs)?;
        self.remove_leftovers(&mut repairs)?;
        for (named, why) in history.skipped {
            repairs.push(Repair::SnapshotSkipped { file: named.path, why });
        }
        self.repair_epochs(epochs, &mut repairs)?;
        let no_history = self.check_initialize()?;
        self.ensure_reserve();
        self.last_appended = last_logged;
        self.last_durable = last_logged;
        Ok(Recovered {
            image: history.image,
            snapshot_zxid: history.snapshot.map(|(zxid, _)| zxid),
            snapshot_tail: history.snapshot.map(|(_, tail)| tail).unwrap_or_default(),
            tail: history.tail,
            last_logged,
            accepted: self.accepted,
            current: self.current,
            no_history,
            clean,
            repairs,
        })
    }

    /// Creates missing directories and makes every name seen from now on durable. So are the directories' own names, once
    /// a start: a process that was killed, or another server, may have made them and not synced that.
    fn check_directories(&mut self) -> Result<(), StoreError> {
        let snaps = (&self.layout.snap_dir, &self.cfg.data_dir);
        let logs = self.layout.split().then_some((&self.layout.log_dir, &self.layout.log_root));
        for (dir, parent) in [snaps].into_iter().chain(logs) {
            self.disk.create_dir_all(dir).map_err(StoreError::io(dir, "create"))?;
            files::sync_dir(&self.disk, dir)?;
            if !self.directories_durable {
                files::sync_dir(&self.disk, parent)?;
            }
        }
        self.directories_durable = true;
        if self.layout.split() {
            check_not_mixed(&self.disk, &self.layout)?;
        }
        Ok(())
    }

    fn read_history<S: SnapshotSink, T>(
        &mut self,
        mut new_sink: impl FnMut() -> S,
        mut finish: impl FnMut(S, Option<(Zxid, SnapshotTail)>, &[LoggedTxn]) -> Result<T, String>,
    ) -> Result<History<T>, StoreError> {
        let logs = files::list_logs(&self.disk, &self.layout)?;
        let snapshots = files::list_snapshots(&self.disk, &self.layout)?;
        let mut skipped: Vec<(Named, String)> = Vec::new();
        for named in snapshots.into_iter().take(MAX_SNAPSHOTS_TRIED) {
            let mut sink = new_sink();
            let footer = match load_within(&self.disk, &named.path, self.cfg.max_record, &mut sink) {
                Ok(footer) => footer,
                Err(error) if error.is_corrupt() => {
                    skipped.push((named, error.to_string()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let snapshot = Some((named.zxid, footer));
            let (tail, walked) = self.read_tail(snapshot, &logs, &skipped)?;
            match finish(sink, snapshot, &tail) {
                Ok(image) => {
                    self.verified.insert(named.path);
                    return Ok(History { image, snapshot, tail, walked, skipped });
                }
                Err(why) => {
                    self.rejected.insert(named.path.clone());
                    skipped.push((named, why));
                }
            }
        }
        let (tail, walked) = self.read_tail(None, &logs, &skipped)?;
        let image = finish(new_sink(), None, &tail)
            .map_err(|why| StoreError::corrupt(&self.layout.snap_dir, 0, why))?;
        Ok(History { image, snapshot: None, tail, walked, skipped })
    }

    /// What was logged after `snapshot`. Of `skipped` nothing may be missing in it.
    fn read_tail(
        &self,
        snapshot: Option<(Zxid, SnapshotTail)>,
        logs: &[Named],
        skipped: &[(Named, String)],
    ) -> Result<(Vec<LoggedTxn>, Walked), StoreError> {
        let after = snapshot.map(|(zxid, _)| zxid);
        let read = self.read_logged(after, logs);
        let Some((newest, why)) = skipped.first() else { return read };
        match read {
            Ok((tail, walked)) => {
                check_skipped(after, &tail, &walked, skipped)?;
                Ok((tail, walked))
            }
            Err(error @ (StoreError::Gap { .. } | StoreError::Corrupt { .. })) => {
                let what = format!("{why}; without it history is incomplete: {error}");
                Err(StoreError::corrupt(&newest.path, 0, what))
            }
            Err(error) => Err(error),
        }
    }

    fn read_logged(
        &self,
        after: Option<Zxid>,
        logs: &[Named],
    ) -> Result<(Vec<LoggedTxn>, Walked), StoreError> {
        let logs = after.map_or(logs, |after| log_chain::needed_after(logs, after));
        let mut tail: Vec<LoggedTxn> = Vec::new();
        let walked =
            log_chain::walk(&self.disk, logs, self.cfg.max_record, after, &mut |path, offset, seen| {
                match seen {
                    Seen::New(txn) => tail.push(txn),
                    Seen::Again(txn) => check_same(&tail, &txn, path, offset)?,
                }
                Ok(())
            })?;
        if let (None, Some(first)) = (after, walked.first)
            && !self.begins_at(first)?
        {
            return Err(StoreError::Gap {
                after: Zxid::ZERO,
                found: Some(first),
                file: self.layout.log(first),
            });
        }
        Ok((tail, walked))
    }

    /// True if a log that starts with `first` is the whole history: nothing can precede the first transaction of epoch
    /// 0, or this member noted that it logged `first` into an empty directory, or the configuration vouches for it.
    pub(crate) fn begins_at(&self, first: Zxid) -> Result<bool, StoreError> {
        if first == Zxid::new(Epoch(0), 1) || self.cfg.trust_empty {
            return Ok(true);
        }
        let origin = files::read_marker(&self.disk, self.layout.in_snap_dir(ORIGIN))?;
        Ok(matches!(origin, Marker::At(zxid) if zxid == first))
    }

    /// Cuts the torn tail, removes logs without records, and makes durable what was read.
    fn repair_logs(&self, walked: &Walked, repairs: &mut Vec<Repair>) -> Result<(), StoreError> {
        repairs.extend(walked.notes.iter().cloned());
        // Newest first: a crash in between leaves a directory that recovers the same way.
        for empty in walked.empty.iter().rev() {
            files::remove_durably(&self.disk, &empty.file)?;
            repairs.push(Repair::EmptyLogRemoved { file: empty.file.clone(), len: empty.size });
        }
        if let Some(torn) = &walked.torn {
            if torn.offset == HEADER_LEN as u64 {
                files::remove_durably(&self.disk, &torn.file)?;
            } else {
                let mut file = self.open_log(&torn.file)?;
                file.set_len(torn.offset).map_err(StoreError::io(&torn.file, "cut"))?;
            }
            let removed = torn.size - torn.offset;
            let (path, what) = (torn.file.clone(), torn.what.clone());
            repairs.push(Repair::TornTailCut { file: path, offset: torn.offset, removed, what });
        }
        let removed = |path: &&std::path::PathBuf| {
            let torn = walked.torn.as_ref();
            torn.is_some_and(|torn| torn.file == **path && torn.offset == HEADER_LEN as u64)
        };
        for path in walked.files.iter().filter(|path| !removed(path)) {
            self.open_log(path)?.sync().map_err(StoreError::sync(path))?;
        }
        Ok(())
    }

    fn open_log(&self, path: &std::path::Path) -> Result<D::File, StoreError> {
        self.disk.open(path, true).map_err(StoreError::io(path, "open"))
    }

    fn remove_leftovers(&self, repairs: &mut Vec<Repair>) -> Result<(), StoreError> {
        for dir in [&self.layout.snap_dir, &self.layout.log_dir] {
            let before = repairs.len();
            for name in files::list(&self.disk, dir)?.iter().filter(|name| names::is_leftover(name)) {
                let file = dir.join(name);
                files::remove(&self.disk, &file)?;
                repairs.push(Repair::LeftoverRemoved { file });
            }
            if repairs.len() > before {
                files::sync_dir(&self.disk, dir)?;
            }
        }
        Ok(())
    }

    fn read_clean_marker(&mut self, repairs: &mut Vec<Repair>) -> Result<Option<Zxid>, StoreError> {
        let marker = files::read_marker(&self.disk, self.layout.in_snap_dir(CLEAN))?;
        self.clean_marker = !matches!(marker, Marker::Absent);
        Ok(match marker {
            Marker::Absent => None,
            Marker::At(zxid) => Some(zxid),
            Marker::Unreadable { path, content } => {
                repairs.push(Repair::MarkerIgnored { file: path, content });
                None
            }
        })
    }

    /// Whether this member may not claim the empty history that it has.
    fn check_initialize(&mut self) -> Result<bool, StoreError> {
        self.initialize = files::exists(&self.disk, &self.layout.initialize())?;
        let trusted = self.initialize || self.cfg.autocreate;
        self.drop_initialize()?;
        Ok(!self.has_history && !trusted)
    }
}

/// With split directories each kind of file belongs into one of them (upstream's `LogDirContentCheckException`,
/// `SnapDirContentCheckException`; ZOOKEEPER-2967).
pub(crate) fn check_not_mixed<D: Disk>(disk: &D, layout: &names::Layout) -> Result<(), StoreError> {
    for name in files::list(disk, &layout.log_dir)? {
        if name.starts_with("snapshot.") {
            let what = format!("snapshot {name} is in the log directory {}", layout.log_dir.display());
            return Err(StoreError::Config { what });
        }
    }
    for name in files::list(disk, &layout.snap_dir)? {
        if name.starts_with("log.") {
            let what = format!("log {name} is in the snapshot directory {}", layout.snap_dir.display());
            return Err(StoreError::Config { what });
        }
    }
    Ok(())
}

/// Everything up to the clean marker was durable at an orderly stop, so a log that ends before it is damaged, not torn:
/// nothing is cut then.
fn check_clean(clean: Option<Zxid>, walked: &Walked) -> Result<(), StoreError> {
    let Some(clean) = clean.filter(|clean| *clean > walked.last) else { return Ok(()) };
    let what = format!(
        "the log ends at {}, and the last orderly stop was at {clean}: it is damaged here (if another server used this \
         directory since, remove the file `clean` beside the snapshots)",
        walked.last
    );
    let (file, offset) = match &walked.torn {
        Some(torn) => (torn.file.clone(), torn.offset),
        None => (walked.files.last().cloned().unwrap_or_default(), 0),
    };
    Err(StoreError::corrupt(&file, offset, what))
}

/// A snapshot that cannot be used still proves that there was history up to it, and the logs may never have held it: a
/// leader's snapshot replaces what is missing in them. So history without it must pass exactly through its zxid.
fn check_skipped(
    base: Option<Zxid>,
    tail: &[LoggedTxn],
    walked: &Walked,
    skipped: &[(Named, String)],
) -> Result<(), StoreError> {
    let nothing = base.is_none() && walked.first.is_none();
    for (named, why) in skipped {
        let at = named.zxid;
        let after = tail.partition_point(|txn| txn.zxid() <= at);
        let before = after.checked_sub(1).map_or(base.unwrap_or(Zxid::ZERO), |last| tail[last].zxid());
        if before == at && !nothing {
            continue;
        }
        let what = match tail.get(after) {
            None => format!("{why}; without it history ends at {before}"),
            Some(next) => format!(
                "{why}; without it history goes from {before} to {}, and nothing proves that this is all",
                next.zxid()
            ),
        };
        return Err(StoreError::corrupt(&named.path, 0, what));
    }
    Ok(())
}

/// A repeated record must be the same transaction: two of one zxid are divergence within one directory.
fn check_same(
    tail: &[LoggedTxn],
    again: &LoggedTxn,
    path: &std::path::Path,
    offset: u64,
) -> Result<(), StoreError> {
    let zxid = again.zxid();
    match tail.binary_search_by_key(&zxid, LoggedTxn::zxid) {
        Ok(at) if tail[at].bytes == again.bytes => Ok(()),
        Ok(_) => Err(StoreError::corrupt(path, offset, format!("a second, different transaction {zxid}"))),
        Err(_) => Err(StoreError::corrupt(path, offset, format!("{zxid} comes after later transactions"))),
    }
}
