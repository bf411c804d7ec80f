//! Offline verification of a data directory; never writes (`zk-server check`).
//!
//! It reports everything it finds instead of stopping at the first, and it looks at all files, not only those a start
//! would read. What needs the tree (digests) is left to whoever replays; see [`crate::dump::for_each_txn`].

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use zk_jute::Zxid;
use zk_jute::image::SnapshotSink;
use zk_jute::snapshot::{SnapshotHead, SnapshotNode};

use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::dump::{LogFileEnd, dump_log};
use crate::error::StoreError;
use crate::files::{self, Marker};
use crate::names::{self, ACCEPTED_EPOCH, CLEAN, CURRENT_EPOCH, INSTALLING, Layout, Named};
use crate::recovery::check_not_mixed;
use crate::recovery_epochs::{EpochFile, read_epoch};
use crate::snapshot_reader::load_within;

/// How bad a [`Problem`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A start repairs it, or proves it harmless.
    Warning,
    /// A start would refuse, or would be without something that was there.
    Error,
}

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    pub severity: Severity,
    pub file: PathBuf,
    /// Byte offset, where one makes sense.
    pub offset: Option<u64>,
    pub what: String,
}

/// One log file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LogFacts {
    pub file: PathBuf,
    /// First and last zxid, in hexadecimal; `None` without a record.
    pub first: Option<String>,
    pub last: Option<String>,
    pub records: u64,
}

/// One snapshot file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SnapshotFacts {
    pub file: PathBuf,
    /// In hexadecimal.
    pub zxid: String,
    /// Every checksum fits.
    pub valid: bool,
    pub nodes: u64,
    pub sessions: u64,
    /// Zxid and tree digest (both in hexadecimal) from the footer.
    pub digest: Option<(String, String)>,
}

/// Everything [`check_dir`] found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CheckReport {
    pub problems: Vec<Problem>,
    /// Oldest first.
    pub logs: Vec<LogFacts>,
    /// Newest first.
    pub snapshots: Vec<SnapshotFacts>,
    pub accepted_epoch: Option<u32>,
    pub current_epoch: Option<u32>,
    /// In hexadecimal.
    pub last_zxid: Option<String>,
    /// The marker of an orderly stop, in hexadecimal.
    pub clean: Option<String>,
}

impl CheckReport {
    /// True if there is nothing a start could not cope with.
    pub fn is_usable(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity < Severity::Error)
    }

    /// The report as one JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a report is plain data")
    }

    fn add(&mut self, severity: Severity, file: &Path, offset: Option<u64>, what: impl Into<String>) {
        self.problems.push(Problem { severity, file: file.to_owned(), offset, what: what.into() });
    }

    /// Notes an error as a problem, unless it is one of reading as such.
    fn absorb(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Corrupt { file, offset, what } => {
                self.add(Severity::Error, &file, Some(offset), what);
                Ok(())
            }
            StoreError::Config { what } => {
                self.add(Severity::Error, Path::new(""), None, what);
                Ok(())
            }
            other => Err(other),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        for snapshot in &self.snapshots {
            let state = if snapshot.valid { "valid" } else { "INVALID" };
            let (file, nodes, sessions) = (snapshot.file.display(), snapshot.nodes, snapshot.sessions);
            writeln!(f, "{file}: {state}, {nodes} nodes, {sessions} sessions")?;
        }
        for log in &self.logs {
            let (file, first, last) = (log.file.display(), or_none(&log.first), or_none(&log.last));
            writeln!(f, "{file}: {} records, {first} to {last}", log.records)?;
        }
        let epoch = |epoch: Option<u32>| epoch.map_or("none".to_owned(), |epoch| epoch.to_string());
        let (accepted, current) = (epoch(self.accepted_epoch), epoch(self.current_epoch));
        writeln!(f, "acceptedEpoch {accepted}, currentEpoch {current}")?;
        writeln!(f, "last zxid {}, clean marker {}", or_none(&self.last_zxid), or_none(&self.clean))?;
        for problem in &self.problems {
            writeln!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Checks everything in the directories of `cfg`.
///
/// # Errors
/// [`StoreError::Io`] if something cannot be read at all. What is wrong with the content is in the report.
pub fn check_dir<D: Disk>(disk: &D, cfg: &StoreConfig) -> Result<CheckReport, StoreError> {
    let layout = Layout::new(cfg);
    let mut report = CheckReport::default();
    if layout.split()
        && let Err(error) = check_not_mixed(disk, &layout)
    {
        report.absorb(error)?;
    }
    let snapshots = check_snapshots(disk, &layout, cfg.max_record, &mut report)?;
    let logged = check_logs(disk, &layout, snapshots, &mut report)?;
    let last = logged.max(snapshots);
    report.last_zxid = last.map(|zxid| zxid.to_string());
    check_epochs(disk, &layout, last, &mut report)?;
    check_markers(disk, &layout, last, &mut report)?;
    Ok(report)
}

#[derive(Default)]
struct Counter {
    nodes: u64,
    sessions: u64,
}

impl SnapshotSink for Counter {
    fn head(&mut self, head: SnapshotHead) {
        self.sessions = head.sessions.len() as u64;
    }

    fn node(&mut self, _node: SnapshotNode) -> Result<(), String> {
        self.nodes += 1;
        Ok(())
    }
}

/// Returns the newest valid snapshot.
fn check_snapshots<D: Disk>(
    disk: &D,
    layout: &Layout,
    limit: usize,
    report: &mut CheckReport,
) -> Result<Option<Zxid>, StoreError> {
    let mut newest = None;
    for snapshot in files::list_snapshots(disk, layout)? {
        let mut counter = Counter::default();
        let loaded = load_within(disk, &snapshot.path, limit, &mut counter);
        let valid = loaded.is_ok();
        let digest = loaded.as_ref().ok().and_then(|tail| tail.digest);
        if let Err(error) = loaded {
            report.absorb(error)?;
        } else if newest.is_none() {
            newest = Some(snapshot.zxid);
        }
        report.snapshots.push(SnapshotFacts {
            file: snapshot.path,
            zxid: snapshot.zxid.to_string(),
            valid,
            nodes: counter.nodes,
            sessions: counter.sessions,
            digest: digest.map(|(zxid, _, digest)| (zxid.to_string(), format!("{digest:#x}"))),
        });
    }
    Ok(newest)
}

/// Returns the last transaction of any log.
fn check_logs<D: Disk>(
    disk: &D,
    layout: &Layout,
    snapshot: Option<Zxid>,
    report: &mut CheckReport,
) -> Result<Option<Zxid>, StoreError> {
    let mut walk = LogWalk::default();
    for log in &files::list_logs(disk, layout)? {
        check_log(disk, log, snapshot, &mut walk, report)?;
    }
    if let Some(doubt) = walk.doubt.take() {
        let severity = if doubt.durable { Severity::Error } else { Severity::Warning };
        report.add(severity, &doubt.file, Some(doubt.offset), doubt.what);
    }
    Ok(walk.last)
}

/// The logs so far.
#[derive(Default)]
struct LogWalk {
    last: Option<Zxid>,
    doubt: Option<Doubt>,
}

/// How the last log with a record ends, if that is in damage: how bad it is shows in what comes next.
struct Doubt {
    file: PathBuf,
    offset: u64,
    what: String,
    durable: bool,
    cut_short: bool,
}

impl LogWalk {
    /// Another log begins with `zxid`: a start accepts damage before it if nothing can be missing.
    fn enter(&mut self, zxid: Zxid, report: &mut CheckReport) {
        let Some(doubt) = self.doubt.take() else { return };
        let last = self.last.unwrap_or(Zxid::ZERO);
        let harmless = last.next_in_epoch() == Some(zxid) || doubt.cut_short && zxid.epoch() > last.epoch();
        let severity = if harmless { Severity::Warning } else { Severity::Error };
        report.add(severity, &doubt.file, Some(doubt.offset), doubt.what);
    }
}

fn check_log<D: Disk>(
    disk: &D,
    log: &Named,
    snapshot: Option<Zxid>,
    walk: &mut LogWalk,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let mut seen: Option<(Zxid, Zxid)> = None;
    let (mut records, mut repeated) = (0, 0);
    let mut jumps = Vec::new();
    let end = dump_log(disk, &log.path, &mut |offset, txn| {
        let zxid = txn.zxid();
        if seen.is_none() {
            walk.enter(zxid, report);
        }
        records += 1;
        seen = Some((seen.map_or(zxid, |(first, _)| first), zxid));
        match walk.last {
            Some(previous) if zxid <= previous => repeated += 1,
            Some(previous) if !zxid.follows(previous) => jumps.push((offset, previous, zxid)),
            Some(_) => {}
            // What came before the first log is in the snapshot.
            None => jumps
                .extend(snapshot.filter(|at| zxid > *at && !zxid.follows(*at)).map(|at| (offset, at, zxid))),
        }
        walk.last = walk.last.max(Some(zxid));
    });
    for (offset, previous, zxid) in jumps {
        // A snapshot that a leader sent bridges a hole in the logs.
        let bridged = snapshot.is_some_and(|at| at >= previous && (zxid <= at || zxid.follows(at)));
        let severity = if bridged { Severity::Warning } else { Severity::Error };
        report.add(severity, &log.path, Some(offset), format!("{zxid} does not follow {previous}"));
    }
    if repeated > 0 {
        report.add(Severity::Warning, &log.path, None, format!("{repeated} records repeat earlier ones"));
    }
    if let Some((first, _)) = seen
        && first != log.zxid
    {
        report.add(Severity::Warning, &log.path, None, format!("the file begins with {first}"));
    }
    match end {
        Ok(LogFileEnd::Clean { .. }) => {}
        Ok(LogFileEnd::Headless) => report.add(Severity::Warning, &log.path, Some(0), "there is no header"),
        Ok(LogFileEnd::Damaged { offset, what, durable, cut_short }) => {
            walk.doubt.get_or_insert(Doubt { file: log.path.clone(), offset, what, durable, cut_short });
        }
        Err(error) => report.absorb(error)?,
    }
    report.logs.push(LogFacts {
        file: log.path.clone(),
        first: seen.map(|(first, _)| first.to_string()),
        last: seen.map(|(_, last)| last.to_string()),
        records,
    });
    Ok(())
}

fn check_epochs<D: Disk>(
    disk: &D,
    layout: &Layout,
    last: Option<Zxid>,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    report.accepted_epoch = check_epoch(disk, layout, ACCEPTED_EPOCH, last.is_some(), report)?;
    report.current_epoch = check_epoch(disk, layout, CURRENT_EPOCH, last.is_some(), report)?;
    let Some(accepted) = report.accepted_epoch else { return Ok(()) };
    let path = layout.in_snap_dir(ACCEPTED_EPOCH);
    if let Some(current) = report.current_epoch.filter(|current| *current > accepted) {
        report.add(
            Severity::Warning,
            &path,
            None,
            format!("{accepted} is lower than currentEpoch {current}"),
        );
    }
    if let Some(last) = last.filter(|last| last.epoch().0 > accepted) {
        let what = format!("{accepted} is lower than the epoch of the last zxid {last}");
        report.add(Severity::Warning, &path, None, what);
    }
    Ok(())
}

fn check_epoch<D: Disk>(
    disk: &D,
    layout: &Layout,
    name: &str,
    has_history: bool,
    report: &mut CheckReport,
) -> Result<Option<u32>, StoreError> {
    let path = layout.in_snap_dir(name);
    match read_epoch(disk, path.clone())? {
        EpochFile::Holds(epoch) => return Ok(Some(epoch.0)),
        EpochFile::Missing if has_history => {
            report.add(Severity::Warning, &path, None, "the file is missing");
        }
        EpochFile::Missing => {}
        EpochFile::Unreadable(content) => {
            report.add(Severity::Error, &path, Some(0), format!("{content:?} is not an epoch"));
        }
    }
    Ok(None)
}

fn check_markers<D: Disk>(
    disk: &D,
    layout: &Layout,
    last: Option<Zxid>,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let path = layout.in_snap_dir(CLEAN);
    match files::read_marker(disk, path.clone())? {
        Marker::Absent => {}
        Marker::At(zxid) => {
            report.clean = Some(zxid.to_string());
            if last.unwrap_or(Zxid::ZERO) != zxid {
                report.add(
                    Severity::Error,
                    &path,
                    None,
                    format!("a clean stop at {zxid}, but history differs"),
                );
            }
        }
        Marker::Unreadable { content, .. } => {
            report.add(Severity::Warning, &path, Some(0), format!("{content:?} is not a zxid"));
        }
    }
    if files::exists(disk, &layout.in_snap_dir(INSTALLING))? {
        let what = "the installation of a snapshot was interrupted; a start finishes it";
        report.add(Severity::Warning, &layout.in_snap_dir(INSTALLING), None, what);
    }
    for name in files::list(disk, &layout.snap_dir)?.iter().filter(|name| names::is_leftover(name)) {
        let what = "left by an interrupted write; a start removes it";
        report.add(Severity::Warning, &layout.in_snap_dir(name), None, what);
    }
    Ok(())
}
