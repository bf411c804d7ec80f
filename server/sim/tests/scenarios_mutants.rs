//! The scenarios can fail: each named wrong behaviour of the core breaks the stories of the fault that it was taken from, by an
//! assertion or an oracle and not merely by another transcript.
//!
//! `cargo test -p zk-sim --features mutants --test scenarios_mutants`
#![cfg(feature = "mutants")]

use std::path::Path;

use zk_core::mutants;
use zk_sim::scenario::{Played, Scenario};

/// Mutant, scenario, and what its failure must name: an oracle, or the step of the story.
const PAIRS: &[(&str, &str, &str)] = &[
    ("ack_before_sync", "blackout_loses_nothing_answered", "DurableBeforeAck"),
    ("ack_before_sync", "zk4541_unsynced_proposal_at_shutdown", "DurableBeforeAck"),
    ("ack_before_sync", "zk4882_failed_append_and_commit", "DurableBeforeAck"),
    ("newleader_ack_early", "zk3023_newleader_waits_for_the_log", "ACK of NEWLEADER"),
    ("newleader_ack_early", "zk3911_ack_of_unwritten_diff", "ACK of NEWLEADER"),
    ("newleader_ack_early", "zk4646_crash_after_ack_of_newleader", "ACK of NEWLEADER"),
    ("newleader_ack_early", "zk4685_ack_order_in_synchronization", "ACK of NEWLEADER"),
    ("newleader_ack_early", "zk4394_commit_before_uptodate", "ACK of NEWLEADER"),
    ("current_epoch_first", "zk4643_power_cut_between_log_and_epoch", "expect-epochs 3"),
    ("current_epoch_first", "zk4785_every_step_between_diff_and_ack", "expect-epochs 1"),
    ("current_epoch_first", "zk2354_log_ahead_of_current_epoch", "expect-"),
    ("current_epoch_first", "zk3911_ack_of_unwritten_diff", "elect 2"),
    ("epoch_memory_first", "zk4781_full_disk_at_accepted_epoch", "LEADERINFO"),
    ("epoch_memory_first", "zk1291_leader_crash_at_accepted_epoch", "LEADERINFO"),
    ("epoch_memory_first", "zk2307_power_cuts_while_epochs_are_written", "LEADERINFO"),
    ("no_drain_before_election", "zk4541_unsynced_proposal_at_shutdown", "AppliedIsLogged"),
    ("no_drain_before_election", "zk4712_late_write_of_the_old_role", "AppliedIsLogged"),
    ("commit_unlogged", "zk4882_failed_append_and_commit", "AppliedIsLogged"),
    ("commit_unlogged", "zk4541_unsynced_proposal_at_shutdown", "AppliedIsLogged"),
    ("commit_unlogged", "zk4712_late_write_of_the_old_role", "AppliedIsLogged"),
    ("commit_unlogged", "commit_needs_a_quorum", "AppliedIsLogged"),
    ("apply_tail_at_load", "zk1549_uncommitted_tail_in_snapshot", "CommittedOnQuorum"),
    ("apply_tail_at_load", "zk1549_leader_with_tail_sends_snap", "CommittedOnQuorum"),
    ("apply_tail_at_load", "snap_and_its_tail_are_one_step", "CommittedOnQuorum"),
    ("keep_memory_after_failed_sync", "zk5094_interrupted_snap", "DurableBeforeAck"),
    ("observer_master_skips", "zk5088_observer_master_uncommitted_proposal", "StreamWithoutGap"),
    ("placeholder_range", "zk2846_hole_below_a_snapshot", "settle"),
    ("placeholder_range", "zk3526_empty_window_is_no_range", "settle"),
    ("placeholder_range", "zk4352_new_learner_of_an_empty_window", "settle"),
    ("empty_voter_votes", "empty_member_never_votes", "NoEmptyVoter"),
    ("commit_without_quorum", "commit_needs_a_quorum", "CommittedOnQuorum"),
    ("commit_without_quorum", "zk2845_retained_database", "CommittedOnQuorum"),
    ("forward_gap", "zk4925_hole_in_the_committed_log", "create a /p"),
    ("forward_gap", "zk4646_crash_after_ack_of_newleader", "MessageLegality"),
    ("expiry_lost", "zk4837_expiry_in_a_partition", "TreeEquality"),
    ("expiry_lost", "zk5010_stale_ephemeral_after_diff", "TreeEquality"),
    ("expiry_lost", "zk4306_session_with_more_ephemerals_than_a_txn_holds", "TreeEquality"),
];

fn play(name: &str) -> Played {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Scenario::parse(&text).play()
}

#[test]
fn every_mutant_breaks_the_stories_of_its_fault() {
    let mut wrong = Vec::new();
    for (mutant, scenario, expected) in PAIRS {
        mutants::activate(mutant);
        let failure = play(scenario).failure;
        mutants::clear();
        match failure {
            Some(failure) if failure.contains(expected) => {}
            Some(failure) => {
                wrong.push(format!("{scenario} with {mutant} fails by {failure}, not {expected}"))
            }
            None => wrong.push(format!("{scenario} with {mutant} holds")),
        }
        let clean = play(scenario).failure;
        wrong.extend(clean.map(|failure| format!("{scenario} without a mutant: {failure}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_mutant_has_a_story() {
    for (mutant, fault) in mutants::ALL {
        assert!(PAIRS.iter().any(|(paired, ..)| paired == mutant), "no scenario for {mutant}: {fault}");
    }
}
