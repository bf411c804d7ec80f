//! PrefixConsistency, TotalOrder, Agreement and Integrity: what members apply is one sequence, and all of it was proposed.
//!
//! The first member to apply a transaction adds it to the one global history; every other must apply the same bytes at the same
//! place. When it is added, a quorum of voters must hold it durably: that is what "committed" means.

use std::collections::BTreeMap;

use zk_jute::Zxid;

use super::Violation;
use super::ledger::{Entry, Ledger, Ledgers};

/// The one history.
#[derive(Debug, Default)]
pub struct Committed {
    history: Vec<Entry>,
    /// What each leader proposed: zxid -> hash and leader.
    proposed: BTreeMap<Zxid, (u64, i64)>,
    /// What members held when an operator emptied their directory: their acknowledgements may still be under way.
    pub lost: Ledgers,
}

impl Committed {
    /// The last committed transaction.
    pub fn last(&self) -> Zxid {
        self.history.last().map_or(Zxid::ZERO, |entry| entry.zxid)
    }

    /// The whole history, in order.
    pub fn history(&self) -> &[Entry] {
        &self.history
    }

    /// The committed transaction `zxid`.
    pub fn entry(&self, zxid: Zxid) -> Option<&Entry> {
        let at = self.history.binary_search_by_key(&zxid, |entry| entry.zxid).ok()?;
        self.history.get(at)
    }

    /// A leader writes a proposal of its own epoch. One zxid is proposed once, by one leader (LocalPrimaryOrder).
    pub fn proposed(&mut self, leader: i64, entry: &Entry) -> Result<(), Violation> {
        match self.proposed.insert(entry.zxid, (entry.hash, leader)) {
            Some((hash, by)) if (hash, by) != (entry.hash, leader) => {
                let text = format!("{} was proposed by {by} and, differently, by {leader}", entry.zxid);
                Err(Violation::new("PrimaryOrder", text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// `node`'s tree moved from `from` to `to`; `ledger` is its log. `voters` are those who count.
    pub fn applied(
        &mut self,
        node: i64,
        from: Zxid,
        to: Zxid,
        ledgers: &Ledgers,
        voters: &[i64],
    ) -> Result<(), Violation> {
        let Some(ledger) = ledgers.get(&node) else { return Ok(()) };
        self.check_base(node, to, ledger)?;
        // Up to the base it is the image that speaks.
        for entry in ledger.range(from.max(ledger.base), to) {
            if !ledger.holds(entry.zxid, entry.hash, true) {
                let text = format!("{node} applied {} before its own log had it durably", entry.zxid);
                return Err(Violation::new("AppliedIsLogged", text));
            }
            self.apply_one(node, entry, ledgers, voters)?;
        }
        if to > ledger.last() && to.counter() != 0 {
            let text = format!("{node} applied up to {to}, but its log ends at {}", ledger.last());
            return Err(Violation::new("AppliedIsLogged", text));
        }
        Ok(())
    }

    /// An image that `node` starts from must hold committed transactions only.
    pub fn check_base(&self, node: i64, reached: Zxid, ledger: &Ledger) -> Result<(), Violation> {
        let base = ledger.base;
        if base.counter() == 0 || base > reached || self.entry(base).is_some() {
            return Ok(());
        }
        Err(Violation::new(
            "CommittedSnapshot",
            format!("{node} has an image that ends at {base}, which was never committed"),
        ))
    }

    fn apply_one(
        &mut self,
        node: i64,
        entry: &Entry,
        ledgers: &Ledgers,
        voters: &[i64],
    ) -> Result<(), Violation> {
        if entry.zxid <= self.last() {
            return match self.entry(entry.zxid) {
                Some(known) if known.hash == entry.hash => Ok(()),
                Some(_) => Err(Violation::new(
                    "PrefixConsistency",
                    format!("{node} applied another transaction as {} than was committed", entry.zxid),
                )),
                None => Err(Violation::new(
                    "TotalOrder",
                    format!(
                        "{node} applied {}, which was skipped: the history is at {}",
                        entry.zxid,
                        self.last()
                    ),
                )),
            };
        }
        self.commit(node, entry, ledgers, voters)
    }

    fn commit(
        &mut self,
        node: i64,
        entry: &Entry,
        ledgers: &Ledgers,
        voters: &[i64],
    ) -> Result<(), Violation> {
        let last = self.last();
        let follows = entry.zxid.follows(last) || (last == Zxid::ZERO && entry.zxid.counter() == 1);
        if !follows {
            return Err(Violation::new(
                "TotalOrder",
                format!("{node} committed {} right after {last}", entry.zxid),
            ));
        }
        if self.proposed.get(&entry.zxid).is_none_or(|(hash, _)| *hash != entry.hash) {
            return Err(Violation::new(
                "Integrity",
                format!("{node} committed {}, which nobody proposed so", entry.zxid),
            ));
        }
        let holders = voters
            .iter()
            .filter(|voter| {
                let mut either = [ledgers.get(voter), self.lost.get(voter)].into_iter().flatten();
                either.any(|ledger| ledger.holds(entry.zxid, entry.hash, true))
            })
            .count();
        if holders * 2 <= voters.len() {
            let text =
                format!("{node} committed {}, durable on {holders} of {} voters", entry.zxid, voters.len());
            return Err(Violation::new("CommittedOnQuorum", text));
        }
        self.history.push(entry.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zk_jute::Epoch;

    use super::*;

    fn entry(counter: u32, content: &'static str) -> Entry {
        Entry::new(Zxid::new(Epoch(1), counter), &Bytes::from_static(content.as_bytes()))
    }

    fn world(logs: &[&[Entry]]) -> (Committed, Ledgers) {
        let mut committed = Committed::default();
        let mut ledgers = Ledgers::default();
        for (index, log) in logs.iter().enumerate() {
            let ledger = ledgers.entry(index as i64 + 1).or_default();
            for entry in *log {
                ledger.append(entry.clone()).expect("in order");
                ledger.sync_through(entry.zxid);
                if index == 0 {
                    committed.proposed(1, entry).expect("proposed once");
                }
            }
        }
        (committed, ledgers)
    }

    #[test]
    fn a_transaction_on_a_minority_is_not_committed() {
        let (mut committed, ledgers) = world(&[&[entry(1, "a")], &[], &[]]);
        let error =
            committed.applied(1, Zxid::ZERO, entry(1, "a").zxid, &ledgers, &[1, 2, 3]).expect_err("minority");
        assert_eq!(error.oracle, "CommittedOnQuorum");
    }

    #[test]
    fn two_members_that_apply_different_bytes_are_caught() {
        let (mut committed, mut ledgers) = world(&[&[entry(1, "a")], &[entry(1, "a")], &[]]);
        committed.applied(1, Zxid::ZERO, entry(1, "a").zxid, &ledgers, &[1, 2, 3]).expect("quorum");
        let other = ledgers.entry(3).or_default();
        other.append(entry(1, "b")).expect("in order");
        other.sync_through(entry(1, "b").zxid);
        let error = committed
            .applied(3, Zxid::ZERO, entry(1, "b").zxid, &ledgers, &[1, 2, 3])
            .expect_err("other bytes");
        assert_eq!(error.oracle, "PrefixConsistency");
    }

    #[test]
    fn applying_what_is_not_durable_here_is_caught() {
        let (mut committed, mut ledgers) = world(&[&[entry(1, "a")], &[entry(1, "a")], &[]]);
        ledgers.entry(3).or_default().append(entry(1, "a")).expect("in order");
        let error = committed
            .applied(3, Zxid::ZERO, entry(1, "a").zxid, &ledgers, &[1, 2, 3])
            .expect_err("not synced");
        assert_eq!(error.oracle, "AppliedIsLogged");
    }
}
