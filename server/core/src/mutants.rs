//! Named wrong behaviours, each taken from a real fault, to show that the simulator would catch it.
//!
//! Without the cargo feature `mutants` every [`mutant!`] is the constant `false` and nothing of this is compiled in.

/// Every mutant, with the fault that it repeats.
pub const ALL: &[(&str, &str)] = &[
    ("ack_before_sync", "a follower acknowledges a proposal that is only buffered (ZOOKEEPER-3911, 4646)"),
    (
        "newleader_ack_early",
        "a learner acknowledges NEWLEADER before the synced transactions are durable (4646, 3023)",
    ),
    ("current_epoch_first", "currentEpoch is written before the synced transactions (ZOOKEEPER-4643, 4785)"),
    (
        "epoch_memory_first",
        "the new epoch is offered although its file could not be written (ZOOKEEPER-4781, 1291)",
    ),
    (
        "no_drain_before_election",
        "an election starts with transactions that never reach the log (ZOOKEEPER-4541, 4712)",
    ),
    ("commit_unlogged", "a COMMIT is applied although the own append is not durable (ZOOKEEPER-4882)"),
    (
        "apply_tail_at_load",
        "logged but uncommitted transactions enter the tree and its snapshots (ZOOKEEPER-1549)",
    ),
    ("keep_memory_after_failed_sync", "a broken synchronization keeps its memory (ZOOKEEPER-5094, 2845)"),
    (
        "observer_master_skips",
        "proposals received while syncing are not forwarded to observers (ZOOKEEPER-5088)",
    ),
    ("placeholder_range", "a sync range is computed from an empty committed log (ZOOKEEPER-3526, 4352)"),
    ("empty_voter_votes", "a wiped member votes as if it had history (invariant 9)"),
    ("commit_without_quorum", "a proposal is committed one acknowledgement short of a quorum"),
    ("forward_gap", "one proposal is left out of a learner's stream (ZOOKEEPER-4925)"),
    ("expiry_lost", "an expired session's ephemerals survive on followers (ZOOKEEPER-5010, 4837)"),
];

#[cfg(feature = "mutants")]
mod active {
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Switches one mutant on for this thread.
    ///
    /// # Panics
    /// If no mutant has that name.
    pub fn activate(name: &str) {
        let (known, _) =
            super::ALL.iter().find(|(known, _)| *known == name).expect("a mutant of mutants::ALL");
        ACTIVE.with(|active| active.set(Some(known)));
    }

    /// Switches all mutants of this thread off.
    pub fn clear() {
        ACTIVE.with(|active| active.set(None));
    }

    /// True if `name` is switched on.
    pub fn is_active(name: &str) -> bool {
        debug_assert!(super::ALL.iter().any(|(known, _)| *known == name), "unknown mutant {name}");
        ACTIVE.with(Cell::get) == Some(name)
    }
}

#[cfg(feature = "mutants")]
pub use active::{activate, clear, is_active};

/// Without the feature no mutant is ever active.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_active(_name: &str) -> bool {
    false
}

/// True if the named mutant is switched on; a constant `false` without the feature.
macro_rules! mutant {
    ($name:literal) => {
        crate::mutants::is_active($name)
    };
}
pub(crate) use mutant;
