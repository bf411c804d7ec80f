//! What only the tree can tell of a data directory: digests, ephemeral nodes without a session, lost ACLs; and what a start
//! would refuse although every file is well for itself.
//!
//! Lists are bounded by [`LISTED_MAX`], counts are exact: a single lost transaction makes every later digest differ.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use zk_core::tree::DataTree;
use zk_jute::consts::perms;
use zk_jute::{Epoch, Zxid};
use zk_store::check::{CheckReport, Problem, Severity};
use zk_store::{StoreConfig, StoreError};

use super::VERSION_DIR;
use super::format::printable;
use super::logs::{Place, Scan, zxid_in_report};
use super::replay::Replay;

/// Problems of one kind that are listed.
pub(super) const LISTED_MAX: usize = 20;

/// A transaction after which the tree has another digest than its leader logged.
#[derive(Debug, Serialize)]
pub(super) struct DigestMismatch {
    pub(super) file: Option<PathBuf>,
    pub(super) offset: Option<u64>,
    pub(super) zxid: String,
    pub(super) txn: String,
    pub(super) expected: String,
    pub(super) actual: String,
}

/// An ephemeral node whose session is not open.
#[derive(Debug, Serialize)]
pub(super) struct OrphanEphemeral {
    pub(super) session: String,
    pub(super) path: String,
}

/// What the directory's tree is. Zxids and digests are in hexadecimal.
#[derive(Debug, Serialize)]
pub(super) struct TreeFacts {
    /// `None`: built from the log alone.
    pub(super) snapshot: Option<PathBuf>,
    pub(super) last_zxid: String,
    pub(super) replayed: u64,
    /// Transactions with a digest that was compared.
    pub(super) compared: u64,
    pub(super) digest: String,
    pub(super) nodes: usize,
    pub(super) sessions: usize,
    pub(super) ephemerals: usize,
    pub(super) digest_mismatches: u64,
    pub(super) orphan_ephemerals: usize,
    /// Nodes whose ACL the snapshot lacks.
    pub(super) repaired_acls: u64,
    /// The first of `digest_mismatches`.
    pub(super) mismatches: Vec<DigestMismatch>,
    /// The first of `orphan_ephemerals`.
    pub(super) orphans: Vec<OrphanEphemeral>,
}

/// Builds the tree, replays the log, and adds what is wrong to `report`. `None` if there is no tree to speak of.
///
/// # Errors
/// What cannot be read at all.
pub(super) fn verify(
    config: &StoreConfig,
    report: &mut CheckReport,
) -> Result<Option<TreeFacts>, StoreError> {
    verify_epochs(config, report);
    let installing = config.data_dir.join(VERSION_DIR).join("installing");
    if installing.exists() {
        let what = "the tree was not verified: a start finishes the installation and so replaces all history";
        add(report, Severity::Warning, &installing, None, what);
        return Ok(None);
    }
    let Some(mut replay) = load(config, report)? else { return Ok(None) };
    let ended = replay.run(config, LISTED_MAX);
    let mismatches = verify_log(&replay, report)?;
    if let Err(error) = ended {
        stopped(error, report)?;
    }
    verify_tree(&replay, report);
    Ok(Some(facts(&replay, mismatches)))
}

fn add(
    report: &mut CheckReport,
    severity: Severity,
    file: &Path,
    offset: Option<u64>,
    what: impl Into<String>,
) {
    report.problems.push(Problem { severity, file: file.to_owned(), offset, what: what.into() });
}

/// One epoch file without the other: a start derives the missing one only where it provably can.
fn verify_epochs(config: &StoreConfig, report: &mut CheckReport) {
    let dir = config.data_dir.join(VERSION_DIR);
    let last = report.last_zxid.as_deref().and_then(zxid_in_report);
    let epoch = last.unwrap_or(Zxid::ZERO).epoch();
    match (report.accepted_epoch, report.current_epoch) {
        (None, Some(current)) if current != 0 || epoch != Epoch(0) => {
            let what = "a start refuses: without it a promise to a leader may be lost";
            add(report, Severity::Error, &dir.join("acceptedEpoch"), None, what);
        }
        (Some(accepted), None) if last.is_none() || accepted != epoch.0 => {
            let what = format!(
                "a start refuses: with accepted epoch {accepted} and the last zxid of epoch {epoch} its value cannot be known"
            );
            add(report, Severity::Error, &dir.join("currentEpoch"), None, what);
        }
        (None | Some(_), None | Some(_)) => {}
    }
}

/// The newest snapshot that is a tree; the initial tree if the log is the whole history.
fn load(config: &StoreConfig, report: &mut CheckReport) -> Result<Option<Replay>, StoreError> {
    let snapshots: Vec<_> = report.snapshots.iter().filter(|snapshot| snapshot.valid).cloned().collect();
    for snapshot in snapshots {
        let Some(zxid) = zxid_in_report(&snapshot.zxid) else { continue };
        match Replay::from_snapshot(config, &snapshot.file, zxid) {
            Ok(Ok(replay)) => return Ok(Some(replay)),
            Ok(Err(what)) => add(report, Severity::Error, &snapshot.file, None, what),
            Err(StoreError::Corrupt { file, offset, what }) => {
                add(report, Severity::Error, &file, Some(offset), what);
            }
            Err(error) => return Err(error),
        }
    }
    let first = report.logs.iter().find_map(|log| Some((log.file.clone(), log.first.clone()?)));
    let Some((file, first)) = first else { return Ok(None) };
    if begins_at(config, zxid_in_report(&first)) {
        return Ok(Some(Replay::from_nothing()));
    }
    let what = format!("history begins with {first}: there is no intact snapshot of what came before");
    add(report, Severity::Error, &file, None, what);
    Ok(None)
}

/// True if nothing can precede `first`, or this member noted that it was the first that it ever logged.
fn begins_at(config: &StoreConfig, first: Option<Zxid>) -> bool {
    let origin = std::fs::read_to_string(config.data_dir.join(VERSION_DIR).join("origin"));
    let origin = origin.ok().and_then(|text| i64::from_str_radix(text.trim(), 16).ok()).map(Zxid);
    first == Some(Zxid::new(Epoch(0), 1)) || (first.is_some() && first == origin)
}

/// What ended the replay before the end of the logs.
fn stopped(error: StoreError, report: &mut CheckReport) -> Result<(), StoreError> {
    let (file, offset, what) = match error {
        StoreError::Corrupt { file, offset, what } => (file, Some(offset), what),
        StoreError::Gap { after, found: Some(found), file } => {
            (file, None, format!("{found} comes after {after}, and what was between is missing"))
        }
        StoreError::Gap { after, found: None, file } => {
            (file, None, format!("history ends at {after}, but there was more"))
        }
        other => return Err(other),
    };
    add(report, Severity::Error, &file, offset, format!("{what}; the replay stopped here"));
    Ok(())
}

/// Digest mismatches, now with their places, and contradicting records.
fn verify_log(replay: &Replay, report: &mut CheckReport) -> Result<Vec<DigestMismatch>, StoreError> {
    let wanted: BTreeSet<Zxid> = replay.mismatches.iter().map(|mismatch| mismatch.zxid).collect();
    let scan = Scan::of(&report.logs, &wanted)?;
    let mut listed = Vec::new();
    for mismatch in &replay.mismatches {
        let place = scan.places.get(&mismatch.zxid).cloned();
        let (expected, actual) = (format!("{:#x}", mismatch.expected), format!("{:#x}", mismatch.actual));
        let (zxid, txn) = (mismatch.zxid.to_string(), mismatch.txn.clone());
        let what = format!("digest mismatch at zxid {zxid}: expected {expected}, actual {actual} ({txn})");
        let (file, offset) = place.map(|Place { file, offset }| (file, offset)).unzip();
        add(report, Severity::Error, file.as_deref().unwrap_or(Path::new("")), offset, what);
        listed.push(DigestMismatch { file, offset, zxid, txn, expected, actual });
    }
    let more = replay.mismatched - listed.len() as u64;
    if let (Some(DigestMismatch { file: Some(file), .. }), 1..) = (listed.last(), more) {
        add(report, Severity::Error, file, None, format!("{more} more digest mismatches follow"));
    }
    for other in scan.contradictions(&report.logs, LISTED_MAX)? {
        // A start does not look at what its snapshot covers.
        let severity = if other.zxid > replay.from { Severity::Error } else { Severity::Warning };
        let (zxid, first) = (other.zxid, other.first);
        let what = format!(
            "a second, different transaction {zxid}; the first is in {} at byte {}",
            first.file.display(),
            first.offset
        );
        add(report, severity, &other.place.file, Some(other.place.offset), what);
    }
    Ok(listed)
}

/// What is wrong with the tree at the end of the log.
fn verify_tree(replay: &Replay, report: &mut CheckReport) {
    let tree = &replay.tree;
    let file = replay.snapshot.clone().or_else(|| report.logs.first().map(|log| log.file.clone()));
    let file = file.unwrap_or_default();
    for (session, path) in tree.orphan_ephemerals().take(LISTED_MAX) {
        let what =
            format!("ephemeral node {} belongs to session {session}, which is not open", printable(path));
        add(report, Severity::Error, &file, None, what);
    }
    let more = tree.orphan_ephemerals().count().saturating_sub(LISTED_MAX);
    if more > 0 {
        let what = format!("{more} more ephemeral nodes belong to no open session");
        add(report, Severity::Error, &file, None, what);
    }
    verify_acls(replay, &file, report);
}

/// Nodes that lost their ACL are closed to all but the superuser, unless the log brought it back.
fn verify_acls(replay: &Replay, file: &Path, report: &mut CheckReport) {
    let closed = replay.unknown_acls.iter().filter(|path| is_closed(&replay.tree, path));
    let count = closed.clone().count();
    for path in closed.take(LISTED_MAX) {
        let path = if path.is_empty() { "/".into() } else { printable(path) };
        let what = format!("node {path} has an ACL that the snapshot lacks, and is closed to all");
        add(report, Severity::Error, file, None, what);
    }
    if count > LISTED_MAX {
        let what = format!("{} more nodes have an ACL that the snapshot lacks", count - LISTED_MAX);
        add(report, Severity::Error, file, None, what);
    }
    let restored = replay.unknown_acls.len() - count;
    if restored > 0 {
        let what =
            format!("the snapshot lacks the ACL of {restored} nodes; the log brings it, or removes them");
        add(report, Severity::Warning, file, None, what);
    }
}

/// True if nobody has any right to the node, which no client can ask for.
fn is_closed(tree: &DataTree, path: &str) -> bool {
    tree.node(path).is_some_and(|node| tree.acl(node).iter().all(|acl| acl.perms & perms::ALL == 0))
}

fn facts(replay: &Replay, mismatches: Vec<DigestMismatch>) -> TreeFacts {
    let tree = &replay.tree;
    let orphans = tree.orphan_ephemerals().take(LISTED_MAX);
    TreeFacts {
        snapshot: replay.snapshot.clone(),
        last_zxid: tree.last_processed().to_string(),
        replayed: replay.replayed,
        compared: replay.compared,
        digest: format!("{:#x}", tree.digest()),
        nodes: tree.descendants("/") + 1,
        sessions: tree.sessions().len(),
        ephemerals: tree.ephemerals_count(),
        digest_mismatches: replay.mismatched,
        orphan_ephemerals: tree.orphan_ephemerals().count(),
        repaired_acls: tree.repaired_acls(),
        mismatches,
        orphans: orphans
            .map(|(session, path)| OrphanEphemeral { session: session.to_string(), path: path.to_string() })
            .collect(),
    }
}
