//! Leadership and LeaderCompleteness: at most one established leader an epoch, and it holds every committed transaction.

use std::collections::BTreeMap;

use zk_jute::Epoch;

use super::Violation;
use super::committed::Committed;
use super::ledger::Ledger;

/// Who was established in which epoch.
#[derive(Debug, Default)]
pub struct Leadership {
    established: BTreeMap<Epoch, (i64, u64)>,
}

impl Leadership {
    /// `node`, in its `boot`th process, begins to serve as leader of `epoch`.
    pub fn established(
        &mut self,
        node: i64,
        boot: u64,
        epoch: Epoch,
        ledger: &Ledger,
        committed: &Committed,
    ) -> Result<(), Violation> {
        if let Some((other, other_boot)) = self.established.insert(epoch, (node, boot))
            && (other, other_boot) != (node, boot)
        {
            let text = format!("{node} and {other} were both established as leader of epoch {epoch}");
            return Err(Violation::new("Leadership", text));
        }
        // What later epochs commit is not its business: its acknowledgements may have been under way for long.
        let older = committed.history().iter().rev().filter(|entry| entry.zxid.epoch() < epoch);
        let missing = older.into_iter().find(|entry| !ledger.holds(entry.zxid, entry.hash, true));
        match missing {
            None => Ok(()),
            Some(entry) => {
                let text = format!("{node} leads epoch {epoch} without the committed {}", entry.zxid);
                Err(Violation::new("LeaderCompleteness", text))
            }
        }
    }

    /// The latest epoch with an established leader.
    pub fn latest(&self) -> Option<Epoch> {
        self.established.keys().next_back().copied()
    }

    /// Epochs that had an established leader.
    pub fn epochs(&self) -> usize {
        self.established.len()
    }
}
