//! Many seeds, on all cores. Each run is alone on its thread; nothing is shared between runs but the next seed's number.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::options::Options;
use crate::run::{Report, run};
use crate::world::Counters;

/// What to sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    pub from: u64,
    /// Seeds at most.
    pub count: u64,
    /// No seed is begun after this.
    pub limit: Duration,
    /// Failing seeds do not end the sweep.
    pub keep_going: bool,
    /// A named wrong behaviour of the core, switched on for every run (needs the cargo feature `mutants`).
    pub mutant: Option<String>,
    pub threads: usize,
}

/// What a sweep found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub seeds: u64,
    pub steps: u64,
    pub committed: u64,
    pub answered: u64,
    pub unknown: u64,
    pub counters: Counters,
    /// The longest that an ensemble took to converge after its faults had ended; milliseconds, and the seed.
    pub slowest: (u64, u64),
    pub took: Duration,
    /// In the order of their seeds.
    pub failed: Vec<Report>,
}

impl Sweep {
    /// `count` seeds from 0, on all cores, without a time limit.
    pub fn of(count: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { from: 0, count, limit: Duration::MAX, keep_going: false, mutant: None, threads }
    }

    /// Plays the seeds.
    pub fn play(&self) -> Found {
        let began = Instant::now();
        let next = AtomicU64::new(self.from);
        let over = AtomicBool::new(false);
        let found = Mutex::new(Found::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.work(began, &next, &over, &found));
            }
        });
        let mut found = found.into_inner().unwrap_or_default();
        found.took = began.elapsed();
        found.failed.sort_by_key(|report| report.seed);
        found
    }

    fn work(&self, began: Instant, next: &AtomicU64, over: &AtomicBool, found: &Mutex<Found>) {
        activate(self.mutant.as_deref());
        while !over.load(Ordering::Relaxed) && began.elapsed() < self.limit {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.from.saturating_add(self.count) {
                return;
            }
            let report = run(Options::swarm(seed), false);
            let failed = report.violation.is_some();
            if let Ok(mut found) = found.lock() {
                found.add(report);
            }
            if failed && !self.keep_going {
                over.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Found {
    /// Seeds per second over all threads.
    pub fn rate(&self) -> f64 {
        self.seeds as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.steps += report.steps;
        self.committed += report.committed as u64;
        self.answered += report.answered as u64;
        self.unknown += report.unknown as u64;
        self.counters += report.counters;
        self.slowest = self.slowest.max((report.calmed_ms, report.seed));
        if report.violation.is_some() {
            self.failed.push(report);
        }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} seeds in {:.1} s ({:.0} a second), {} steps, {} transactions committed, {} requests answered, {} unknown, \
             slowest recovery {} ms (seed {}), {:?}",
            self.seeds,
            self.took.as_secs_f64(),
            self.rate(),
            self.steps,
            self.committed,
            self.answered,
            self.unknown,
            self.slowest.0,
            self.slowest.1,
            self.counters
        )
    }
}

/// Switches a mutant on for this thread.
#[cfg(feature = "mutants")]
pub fn activate(mutant: Option<&str>) {
    zk_core::mutants::clear();
    if let Some(name) = mutant {
        zk_core::mutants::activate(name);
    }
}

/// Without the feature there is nothing to switch on.
///
/// # Panics
/// If a mutant is asked for.
#[cfg(not(feature = "mutants"))]
pub fn activate(mutant: Option<&str>) {
    assert!(mutant.is_none(), "mutant {mutant:?} needs a build with --features mutants");
}
