//! How a learner is brought up to date (upstream `LearnerHandler.syncFollower`): DIFF, TRUNC or SNAP.
//!
//! A range is only ever computed from a history that is in memory without a gap; everything else is a SNAP.

use zk_jute::Zxid;

use super::journal::Journal;

/// The decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncPlan {
    /// The learner's log is a prefix of ours: send what comes after `from`.
    Diff { from: Zxid },
    /// The learner must drop what comes after `to`, then gets what comes after it.
    Trunc { to: Zxid },
    /// Send the committed tree, then what comes after it.
    Snap,
}

/// Decides for a learner whose last logged zxid is `peer`, when our history ends at `end`.
pub(crate) fn plan(journal: &Journal, peer: Zxid, end: Zxid) -> SyncPlan {
    let base = journal.history_base();
    if peer.0 < 0 {
        return SyncPlan::Snap;
    }
    if peer == end {
        return SyncPlan::Diff { from: end };
    }
    // A zxid with counter 0 names an epoch's start, not a transaction. No log can be cut there: a Java learner would
    // keep the transaction after it.
    let names_transaction = peer.counter() != 0;
    if peer > end {
        let can_cut = names_transaction && end.counter() != 0;
        return if can_cut { SyncPlan::Trunc { to: end } } else { SyncPlan::Snap };
    }
    if peer < base {
        return SyncPlan::Snap;
    }
    let known = journal.last_not_after(peer);
    if known == peer || !names_transaction {
        return SyncPlan::Diff { from: known };
    }
    let next = journal.history(peer, end).next().map(|txn| txn.header.zxid);
    match next {
        // The learner has transactions of this epoch that nobody else knows.
        Some(next) if next.epoch() == peer.epoch() && known.counter() != 0 => SyncPlan::Trunc { to: known },
        // Cutting across epochs is what Java learners cannot do.
        _ => SyncPlan::Snap,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};

    use super::*;

    fn journal(zxids: &[i64]) -> Journal {
        let mut journal = Journal::new(3);
        for zxid in zxids {
            let header = TxnHeader { client_id: 0, cxid: 0, zxid: Zxid(*zxid), time: 0, op: -1 };
            journal.push(Arc::new(LoggedTxn::new(header, Txn::Error { err: 0 }, None)));
        }
        let end = journal.appended;
        journal.durable = end;
        journal.committed = end;
        journal.take_applicable();
        journal
    }

    const E1: i64 = 1 << 32;
    const E2: i64 = 2 << 32;

    #[test]
    fn the_plan_follows_upstream_within_the_known_history() {
        // The window holds three: 1.3, 2.1, 2.2; its base is 1.2.
        let journal = journal(&[E1 + 1, E1 + 2, E1 + 3, E2 + 1, E2 + 2]);
        let end = Zxid(E2 + 2);
        let cases = [
            (E2 + 2, SyncPlan::Diff { from: end }),
            (E2 + 1, SyncPlan::Diff { from: Zxid(E2 + 1) }),
            (E1 + 2, SyncPlan::Diff { from: Zxid(E1 + 2) }),
            (E1 + 1, SyncPlan::Snap),
            (E2 + 9, SyncPlan::Trunc { to: end }),
            (E1 + 4, SyncPlan::Snap),
            (E2, SyncPlan::Diff { from: Zxid(E1 + 3) }),
            (3 << 32, SyncPlan::Snap),
            (-1, SyncPlan::Snap),
        ];
        for (peer, expected) in cases {
            assert_eq!(plan(&journal, Zxid(peer), end), expected, "peer {}", Zxid(peer));
        }
    }

    #[test]
    fn an_empty_window_is_never_a_range() {
        // ZOOKEEPER-3526, 4352: a server that has loaded a snapshot and nothing else knows no range at all.
        let mut journal = Journal::new(3);
        journal.replace_history(Zxid(E2 + 5));
        journal.installed(Zxid(E2 + 5), Zxid(E2 + 5));
        assert_eq!(plan(&journal, Zxid(E2 + 4), Zxid(E2 + 5)), SyncPlan::Snap);
        assert_eq!(plan(&journal, Zxid::ZERO, Zxid(E2 + 5)), SyncPlan::Snap);
        assert_eq!(plan(&journal, Zxid(E2 + 5), Zxid(E2 + 5)), SyncPlan::Diff { from: Zxid(E2 + 5) });
    }
}
