//! What the epoch files must have said, when they do not say it (upstream `QuorumPeer.loadDataBase`).
//!
//! Only what is provably safe is derived:
//! - Both missing: the data never belonged to a quorum that wrote them (standalone, or before 3.4). Both become the
//!   epoch of the last zxid, as upstream does; 0 without history.
//! - current unusable, accepted equal to the epoch of the last zxid: current can be no higher than accepted, and holding
//!   a gapless part of that epoch's history is what a follower of that epoch holds. Current becomes that epoch.
//! - accepted lower than current or than the log's epoch: written so by an upstream server (ZOOKEEPER-4781). It is raised;
//!   a promise can only have been higher.
//!
//! Anything else is refused: with a guess too low this member would help elect a leader without committed history, with
//! one too high it would be elected itself. A current epoch that lags the log is legal and never raised
//! (ZOOKEEPER-2354).

use std::path::PathBuf;

use zk_jute::{Epoch, Zxid};

use crate::disk::Disk;
use crate::error::StoreError;
use crate::files;
use crate::names::{ACCEPTED_EPOCH, CURRENT_EPOCH};
use crate::repair::Repair;
use crate::store::Store;

/// What an epoch file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EpochFile {
    Missing,
    Holds(Epoch),
    Unreadable(String),
}

/// Values to go on with, and the files to write for them, in this order.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    accepted: Epoch,
    current: Epoch,
    writes: Vec<(&'static str, Epoch, Change)>,
}

#[derive(PartialEq, Eq, Debug)]
enum Change {
    Derived(&'static str),
    Raised { from: Epoch, why: &'static str },
}

impl<D: Disk> Store<D> {
    pub(crate) fn judge_epochs(&self, last: Zxid) -> Result<Judged, StoreError> {
        let accepted = read_epoch(&self.disk, self.layout.in_snap_dir(ACCEPTED_EPOCH))?;
        let current = read_epoch(&self.disk, self.layout.in_snap_dir(CURRENT_EPOCH))?;
        judge(accepted, current, last.epoch(), self.has_history)
            .map_err(|(name, what)| StoreError::corrupt(&self.layout.in_snap_dir(name), 0, what))
    }

    pub(crate) fn repair_epochs(
        &mut self,
        judged: Judged,
        repairs: &mut Vec<Repair>,
    ) -> Result<(), StoreError> {
        for (name, value, change) in judged.writes {
            self.write_epoch(name, value)?;
            let file = self.layout.in_snap_dir(name);
            repairs.push(match change {
                Change::Derived(why) => Repair::EpochDerived { file, value, why },
                Change::Raised { from, why } => Repair::AcceptedRaised { file, from, to: value, why },
            });
        }
        assert!(judged.accepted >= judged.current, "{judged:?}", judged = (judged.accepted, judged.current));
        self.accepted = judged.accepted;
        self.current = judged.current;
        Ok(())
    }
}

/// Reads an epoch file: a decimal number, of which upstream reads the first line. Upstream writes -1 for a member that
/// has no history and may not claim any; that is epoch 0 here.
pub(crate) fn read_epoch<D: Disk>(disk: &D, path: PathBuf) -> Result<EpochFile, StoreError> {
    let Some(content) = files::read_small(disk, &path)? else { return Ok(EpochFile::Missing) };
    let line = content.lines().next().unwrap_or_default().trim();
    Ok(match line.parse::<i64>() {
        Ok(-1) => EpochFile::Holds(Epoch(0)),
        Ok(value) => match u32::try_from(value) {
            Ok(value) => EpochFile::Holds(Epoch(value)),
            Err(_) => EpochFile::Unreadable(content),
        },
        Err(_) => EpochFile::Unreadable(content),
    })
}

/// Applies the rules above. `logged` is the epoch of the last zxid. An error names the file to blame.
fn judge(
    accepted: EpochFile,
    current: EpochFile,
    logged: Epoch,
    has_history: bool,
) -> Result<Judged, (&'static str, String)> {
    let mut writes = Vec::new();
    let (accepted, current) = match (accepted, current) {
        (EpochFile::Missing, EpochFile::Missing) if has_history => {
            const WHY: &str = "neither epoch file exists, so this is the epoch of the last zxid";
            // Accepted first: a crash in between leaves a state of which the current epoch is derived below.
            writes.push((ACCEPTED_EPOCH, logged, Change::Derived(WHY)));
            writes.push((CURRENT_EPOCH, logged, Change::Derived(WHY)));
            (logged, logged)
        }
        (EpochFile::Missing, EpochFile::Missing) => (Epoch(0), Epoch(0)),
        // The first step of the first write ever: see `write_accepted_epoch`.
        (EpochFile::Missing, EpochFile::Holds(current)) if current == Epoch(0) && logged == Epoch(0) => {
            (Epoch(0), current)
        }
        (EpochFile::Holds(accepted), EpochFile::Holds(current)) => (accepted, current),
        (EpochFile::Holds(accepted), _) if has_history && accepted == logged => {
            let why = "it was missing or unreadable, and the accepted epoch and the log agree on it";
            writes.push((CURRENT_EPOCH, accepted, Change::Derived(why)));
            (accepted, accepted)
        }
        (EpochFile::Holds(accepted), current) => {
            let what = format!(
                "{}, and with accepted epoch {accepted} and the last zxid of epoch {logged} its value cannot be known",
                describe(&current)
            );
            return Err((CURRENT_EPOCH, what));
        }
        (accepted, _) => {
            let what = format!("{}, and a promise to a leader may be lost", describe(&accepted));
            return Err((ACCEPTED_EPOCH, what));
        }
    };
    let (floor, why) = if logged > current {
        (logged, "it was lower than the epoch of the last logged zxid")
    } else {
        (current, "it was lower than the current epoch")
    };
    if accepted < floor {
        writes.push((ACCEPTED_EPOCH, floor, Change::Raised { from: accepted, why }));
    }
    Ok(Judged { accepted: accepted.max(floor), current, writes })
}

fn describe(file: &EpochFile) -> String {
    match file {
        EpochFile::Missing => "the file is missing".to_owned(),
        EpochFile::Holds(epoch) => format!("the file holds {epoch}"),
        EpochFile::Unreadable(content) => format!("{content:?} is not an epoch"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(epoch: u32) -> EpochFile {
        EpochFile::Holds(Epoch(epoch))
    }

    fn values(judged: Result<Judged, (&'static str, String)>) -> (u32, u32) {
        let judged = judged.expect("these epochs are usable");
        (judged.accepted.0, judged.current.0)
    }

    #[test]
    fn good_epochs_are_left_alone_and_a_lagging_current_epoch_is_never_raised() {
        for (accepted, current, logged) in [(5, 5, 5), (7, 5, 5), (7, 5, 3), (7, 2, 5), (0, 0, 0)] {
            let judged = judge(holds(accepted), holds(current), Epoch(logged), true).expect("usable");
            assert_eq!((judged.accepted.0, judged.current.0), (accepted, current));
            assert_eq!(judged.writes, []);
        }
    }

    #[test]
    fn accepted_is_raised_to_current_and_to_the_logs_epoch() {
        assert_eq!(values(judge(holds(3), holds(5), Epoch(2), true)), (5, 5));
        assert_eq!(values(judge(holds(3), holds(2), Epoch(6), true)), (6, 2));
        assert_eq!(values(judge(holds(3), holds(5), Epoch(0), false)), (5, 5));
    }

    #[test]
    fn missing_files_take_the_epoch_of_the_log_or_zero() {
        assert_eq!(values(judge(EpochFile::Missing, EpochFile::Missing, Epoch(4), true)), (4, 4));
        assert_eq!(values(judge(EpochFile::Missing, EpochFile::Missing, Epoch(0), false)), (0, 0));
        assert_eq!(values(judge(EpochFile::Missing, holds(0), Epoch(0), false)), (0, 0));
    }

    #[test]
    fn an_unusable_current_epoch_is_derived_only_where_accepted_and_log_agree() {
        for bad in [EpochFile::Missing, EpochFile::Unreadable("x".to_owned())] {
            assert_eq!(values(judge(holds(4), bad.clone(), Epoch(4), true)), (4, 4));
            let refused = judge(holds(5), bad.clone(), Epoch(4), true).expect_err("cannot be known");
            assert_eq!(refused.0, CURRENT_EPOCH);
            let refused = judge(holds(0), bad, Epoch(0), false).expect_err("cannot be known");
            assert_eq!(refused.0, CURRENT_EPOCH);
        }
    }

    #[test]
    fn a_lost_accepted_epoch_is_refused_because_a_promise_may_be_lost() {
        for bad in [EpochFile::Missing, EpochFile::Unreadable(String::new())] {
            let refused = judge(bad, holds(4), Epoch(4), true).expect_err("a promise may be lost");
            assert_eq!(refused.0, ACCEPTED_EPOCH);
        }
    }
}
