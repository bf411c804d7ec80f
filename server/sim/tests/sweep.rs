//! The sweep that every change must pass, and the determinism without which no failing seed could be replayed.

use zk_sim::options::Options;
use zk_sim::run::{quiet_panics, run};
use zk_sim::sweep::Sweep;

/// Seeds of the sweep; `SIM_SEEDS` asks for more or less.
const SEEDS: u64 = 2_000;

#[test]
fn the_core_passes_the_sweep() {
    quiet_panics();
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let found = Sweep { keep_going: true, ..Sweep::of(seeds) }.play();
    println!("{found}");
    let failed: Vec<String> = found
        .failed
        .iter()
        .map(|report| {
            let seed = report.seed;
            let violation = report.violation.as_ref().map(ToString::to_string).unwrap_or_default();
            format!(
                "seed {seed}: {violation}\n  again: cargo run --profile sim -p zk-sim -- run --seed {seed}"
            )
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // A sweep in which nothing happens proves nothing.
    let counters = found.counters;
    for (what, count) in [
        ("transactions", found.committed),
        ("answers", found.answered),
        ("power cuts", counters.power_cuts),
        ("DIFFs", counters.diffs),
        ("TRUNCs", counters.truncs),
        ("SNAPs", counters.snaps),
        ("snapshots", counters.snapshots),
        ("expired sessions", counters.expired),
    ] {
        assert!(count * 50 >= seeds, "only {count} {what} in {seeds} seeds");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_to_the_byte() {
    quiet_panics();
    for seed in 0..40 {
        let (one, two) = (run(Options::swarm(seed), true), run(Options::swarm(seed), true));
        assert!(one.trace.len() > 50, "seed {seed} left {} lines", one.trace.len());
        for (number, (a, b)) in one.trace.iter().zip(&two.trace).enumerate() {
            assert_eq!(a, b, "seed {seed} line {number}");
        }
        assert_eq!(one.trace.len(), two.trace.len(), "seed {seed}");
    }
}

#[test]
fn keeping_the_trace_does_not_change_the_run() {
    quiet_panics();
    for seed in 40..60 {
        let (kept, bare) = (run(Options::swarm(seed), true), run(Options::swarm(seed), false));
        assert_eq!(
            (kept.steps, kept.committed, kept.counters),
            (bare.steps, bare.committed, bare.counters),
            "seed {seed}"
        );
    }
}
