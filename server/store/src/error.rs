//! Why the store could not do something, sorted by what the caller can do about it.
//!
//! Every error names the file. The caller's choices: free space and reload ([`StoreError::NoSpace`]), leave the role
//! and reload ([`StoreError::Io`]), end the process ([`StoreError::SyncFailed`]), ask a person or resync the member
//! ([`StoreError::Corrupt`], [`StoreError::Gap`]), ask the leader for a SNAP ([`StoreError::TruncateImpossible`]).

use std::io;
use std::path::{Path, PathBuf};

use zk_jute::Zxid;

use crate::disk::is_no_space;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk or a quota is full. Nothing that was durable is lost.
    #[error("no space left to {action} {}: {source}", .file.display())]
    NoSpace { file: PathBuf, action: &'static str, source: io::Error },

    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", .file.display())]
    Io { file: PathBuf, action: &'static str, source: io::Error },

    /// A sync failed, so what is durable is unknown. It must never be retried: the process has to end, and the next
    /// one reads what really is on disk.
    #[error("fsync of {} failed, what is durable is unknown: {source}", .file.display())]
    SyncFailed { file: PathBuf, source: io::Error },

    /// Bytes on disk are not what was written there, or not what this program can read.
    #[error("{} is corrupt at byte {offset}: {what}", .file.display())]
    Corrupt { file: PathBuf, offset: u64, what: String },

    /// Transactions are missing from the history on disk: after `after` something else than its successor was found
    /// in `file` (`None`: nothing more, although `file` proves that there was more).
    #[error("history has a gap after {after}: {} {}", .file.display(), found_text(.found))]
    Gap { after: Zxid, found: Option<Zxid>, file: PathBuf },

    /// A truncation would leave nothing from which the state at `zxid` could be built; nothing was changed. The
    /// leader must send a snapshot.
    #[error(
        "cannot truncate to {zxid}: no snapshot at or before it, and the log does not reach back to the beginning"
    )]
    TruncateImpossible { zxid: Zxid },

    /// The directories are not laid out as the configuration says.
    #[error("data directories: {what}")]
    Config { what: String },

    /// An earlier error left the store unusable until it is recovered.
    #[error("the store is out of use: {why}")]
    OutOfUse { why: String },

    /// An earlier fsync failed, and what is durable is unknown: no operation of this process may be believed any more.
    #[error("the store is dead since an fsync failed: {why}")]
    Dead { why: String },
}

fn found_text(found: &Option<Zxid>) -> String {
    match found {
        Some(zxid) => format!("continues with {zxid}"),
        None => "shows that there was more".to_owned(),
    }
}

impl StoreError {
    /// For `map_err`: names the file and the action of a failed operation.
    pub(crate) fn io(file: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| {
            if is_no_space(&source) {
                Self::NoSpace { file, action, source }
            } else {
                Self::Io { file, action, source }
            }
        }
    }

    /// For `map_err`: a failed sync of a file or directory.
    pub(crate) fn sync(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::SyncFailed { file, source }
    }

    pub(crate) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_owned(), offset, what: what.into() }
    }

    /// True if the bytes are to blame and another copy may do (an older snapshot).
    pub(crate) const fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}
