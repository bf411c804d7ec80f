//! What recovery changed, or looked past, to make a directory usable. Nothing is repaired silently: the server logs
//! and counts each of these.

use std::fmt;
use std::path::PathBuf;

use zk_jute::{Epoch, Zxid};

/// One thing that was not as it should be and is now, or that was proven harmless.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repair {
    /// The newest log ended in a record that was never synced; cut at `offset`.
    TornTailCut { file: PathBuf, offset: u64, removed: u64, what: String },
    /// A log without a single record (a crash or a full disk at its creation; ZOOKEEPER-2332) was removed.
    EmptyLogRemoved { file: PathBuf, len: u64 },
    /// Records repeated what was read before (ZOOKEEPER-4541) and were skipped.
    DuplicatesSkipped { file: PathBuf, count: u64, first: Zxid },
    /// A log that is not the newest ends in damage, but the next log continues without a gap, or the damage is a record
    /// that was never written to its end.
    DamageTolerated { file: PathBuf, offset: u64, what: String },
    /// A snapshot is unusable; an older one and the logs cover it.
    SnapshotSkipped { file: PathBuf, why: String },
    /// A temporary file of an interrupted write was removed.
    LeftoverRemoved { file: PathBuf },
    /// An interrupted installation of a snapshot had passed its commit point and was finished.
    InstallFinished { zxid: Zxid },
    /// An epoch file was missing or unreadable, and its value follows from the rest.
    EpochDerived { file: PathBuf, value: Epoch, why: &'static str },
    /// acceptedEpoch was lower than something it can never be lower than (ZOOKEEPER-4781).
    AcceptedRaised { file: PathBuf, from: Epoch, to: Epoch, why: &'static str },
    /// A marker file without a zxid in it was ignored.
    MarkerIgnored { file: PathBuf, content: String },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornTailCut { file, offset, removed, what } => {
                let file = file.display();
                write!(f, "cut the torn tail of {file} at byte {offset} ({removed} bytes removed): {what}")
            }
            Self::EmptyLogRemoved { file, len } => {
                write!(f, "removed {} ({len} bytes): it holds no record", file.display())
            }
            Self::DuplicatesSkipped { file, count, first } => {
                write!(f, "skipped {count} repeated records in {}, the first {first}", file.display())
            }
            Self::DamageTolerated { file, offset, what } => {
                let file = file.display();
                write!(
                    f,
                    "{file} is damaged at byte {offset} ({what}), but no durable transaction can have been there"
                )
            }
            Self::SnapshotSkipped { file, why } => write!(f, "skipped snapshot {}: {why}", file.display()),
            Self::LeftoverRemoved { file } => {
                write!(f, "removed {}, left by an interrupted write", file.display())
            }
            Self::InstallFinished { zxid } => {
                write!(f, "finished the interrupted installation of the snapshot at {zxid}")
            }
            Self::EpochDerived { file, value, why } => {
                write!(f, "set {} to {value}: {why}", file.display())
            }
            Self::AcceptedRaised { file, from, to, why } => {
                write!(f, "raised {} from {from} to {to}: {why}", file.display())
            }
            Self::MarkerIgnored { file, content } => {
                write!(f, "ignored {}: {content:?} is not a zxid", file.display())
            }
        }
    }
}
