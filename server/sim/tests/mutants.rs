//! Would the sweep notice? Each named wrong behaviour of the core must be caught, by an oracle, within so many seeds.
#![cfg(feature = "mutants")]

use zk_sim::run::quiet_panics;
use zk_sim::sweep::Sweep;

/// Seeds within which each mutant must be caught: some five times what it took when this was written.
const WITHIN: &[(&str, u64)] = &[
    ("ack_before_sync", 10),
    ("newleader_ack_early", 10),
    ("current_epoch_first", 10),
    ("epoch_memory_first", 10),
    ("no_drain_before_election", 10),
    ("commit_unlogged", 10),
    ("apply_tail_at_load", 100),
    ("keep_memory_after_failed_sync", 500),
    ("observer_master_skips", 8_000),
    ("placeholder_range", 50),
    ("empty_voter_votes", 300),
    ("commit_without_quorum", 10),
    ("forward_gap", 10),
    ("expiry_lost", 50),
];

#[test]
fn every_mutant_is_caught_within_its_seeds() {
    quiet_panics();
    for (name, fault) in zk_core::mutants::ALL {
        let within = WITHIN.iter().find(|(known, _)| known == name).map(|(_, within)| *within);
        let within = within.unwrap_or_else(|| panic!("say within how many seeds {name} must be caught"));
        let found = Sweep { mutant: Some((*name).to_owned()), ..Sweep::of(within) }.play();
        let Some(first) = found.failed.first() else { panic!("{name} ({fault}) survived {within} seeds") };
        let violation = first.violation.as_ref().map(ToString::to_string).unwrap_or_default();
        println!("{name}: seed {} of {within}: {violation}", first.seed);
    }
}
