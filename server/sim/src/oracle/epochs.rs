//! EpochMonotonic: on disk, across any crash, `acceptedEpoch >= currentEpoch`, `acceptedEpoch >=` the epoch of the last logged
//! transaction, and neither ever falls.

use std::collections::BTreeMap;

use zk_jute::Epoch;

use super::Violation;
use super::ledger::Ledger;

/// Epochs seen on each member's platter.
#[derive(Debug, Default)]
pub struct Epochs {
    seen: BTreeMap<i64, (Epoch, Epoch)>,
}

impl Epochs {
    /// What `node`'s platter holds now; `None` is a file that is not there.
    pub fn on_disk(
        &mut self,
        node: i64,
        accepted: Option<Epoch>,
        current: Option<Epoch>,
        ledger: &Ledger,
    ) -> Result<(), Violation> {
        let violation = |text: String| Err(Violation::new("EpochMonotonic", format!("{node}: {text}")));
        let (accepted, current) = (accepted.unwrap_or_default(), current.unwrap_or_default());
        if accepted < current {
            return violation(format!("acceptedEpoch {accepted} < currentEpoch {current}"));
        }
        let logged = ledger.durable_last().epoch();
        if accepted < logged {
            return violation(format!(
                "acceptedEpoch {accepted} < epoch {logged} of the last logged transaction"
            ));
        }
        let (accepted_before, current_before) =
            self.seen.insert(node, (accepted, current)).unwrap_or_default();
        if accepted < accepted_before || current < current_before {
            return violation(format!(
                "epochs fell from {accepted_before}/{current_before} to {accepted}/{current}"
            ));
        }
        Ok(())
    }

    /// The member's directory was emptied by its operator.
    pub fn forget(&mut self, node: i64) {
        self.seen.remove(&node);
    }
}

/// The number in an epoch file.
pub fn parse(bytes: &[u8]) -> Option<Epoch> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok().map(Epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_falling_or_inverted_epoch_is_caught() {
        let mut epochs = Epochs::default();
        let ledger = Ledger::default();
        epochs.on_disk(1, Some(Epoch(2)), Some(Epoch(1)), &ledger).expect("accepted may be ahead");
        epochs.on_disk(1, Some(Epoch(2)), Some(Epoch(3)), &ledger).expect_err("current ahead of accepted");
        epochs.on_disk(2, Some(Epoch(2)), Some(Epoch(2)), &ledger).expect("equal");
        epochs.on_disk(2, Some(Epoch(1)), Some(Epoch(1)), &ledger).expect_err("fell");
    }
}
