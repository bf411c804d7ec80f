//! What one run is made of, all of it drawn from the seed ("swarm": each run turns different faults on and off, because a run with
//! every fault at once hides what a few of them do together).

use zk_core::config::Rules;

use crate::clock::{MS, Nanos};
use crate::net::Delays;
use crate::prng::Prng;

/// One kind of trouble.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// The process ends at once; the page cache survives.
    Kill,
    /// The machine loses power; what was not synced is lost or torn.
    PowerCut,
    /// The power goes in the middle of a later disk operation.
    PowerCutInOperation,
    /// The whole ensemble loses power at once.
    Blackout,
    /// The process stands still for a while.
    Pause,
    /// The members split into two sides.
    Partition,
    /// One direction between two members stalls.
    OneWay,
    /// One link breaks.
    BreakLink,
    /// An operator stops a member in good order.
    Drain,
    /// The disk fills up, and has room again later.
    DiskFull,
    /// One later disk operation fails.
    IoError,
    /// One later fsync fails.
    FsyncError,
    /// The disk becomes slow for a while.
    SlowDisk,
    /// An operator empties the directory of one member, which must resync.
    Wipe,
    /// The leader is cut off from everybody, and perhaps loses power before that ends: proposals nobody else has.
    IsolateLeader,
    /// Trouble for a member right after the next step of some kind (a sync, an epoch, a role): where upstream's faults live.
    Ambush,
    /// A client loses its connection.
    BreakClient,
    /// A client stands still past its session's timeout.
    StallClient,
}

/// Every kind, in the order in which a seed decides on them.
pub const FAULT_KINDS: [FaultKind; 18] = [
    FaultKind::Kill,
    FaultKind::PowerCut,
    FaultKind::PowerCutInOperation,
    FaultKind::Blackout,
    FaultKind::Pause,
    FaultKind::Partition,
    FaultKind::OneWay,
    FaultKind::BreakLink,
    FaultKind::Drain,
    FaultKind::DiskFull,
    FaultKind::IoError,
    FaultKind::FsyncError,
    FaultKind::SlowDisk,
    FaultKind::Wipe,
    FaultKind::IsolateLeader,
    FaultKind::Ambush,
    FaultKind::BreakClient,
    FaultKind::StallClient,
];

/// One run.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// 1 to 7.
    pub voters: u64,
    /// 0 to 2.
    pub observers: u64,
    /// A server without election and quorum; one voter only.
    pub standalone: bool,
    /// Followers serve observers.
    pub observer_master: bool,
    pub tick_ms: u64,
    pub init_limit: u64,
    pub sync_limit: u64,
    /// Small, so that snapshots, DIFF, TRUNC and SNAP all occur within a short run.
    pub snap_count: u64,
    pub commit_log_count: usize,
    /// Old snapshots and logs are removed after each new snapshot.
    pub purge: bool,
    pub delays: Delays,
    /// Latency of one disk batch; nanoseconds.
    pub disk_least: Nanos,
    pub disk_most: Nanos,
    /// Transactions that the storage takes into one fsync.
    pub batch_max: usize,
    pub clients: usize,
    /// Paths that the clients share.
    pub keys: u64,
    /// Mean time between two requests of one client; nanoseconds.
    pub think: Nanos,
    pub session_timeout_ms: i32,
    /// Faults that may happen, each with its weight.
    pub faults: Vec<(FaultKind, u64)>,
    /// Mean time between two faults; nanoseconds.
    pub fault_every: Nanos,
    /// Sector size of torn writes.
    pub sector: usize,
    /// Clocks run wrong by up to this much.
    pub drift_ppm: u64,
    /// Length of the phase with faults; nanoseconds.
    pub safety: Nanos,
    /// Limit of the phase in which the ensemble must recover; nanoseconds.
    pub liveness: Nanos,
    /// Inputs of peers after which a run is stuck in a loop.
    pub steps_max: u64,
    pub rules: Rules,
}

impl Options {
    /// What `seed` stands for.
    pub fn swarm(seed: u64) -> Self {
        let mut prng = Prng::new(seed, "options");
        let voters = *prng.pick(&[1, 2, 3, 3, 3, 3, 3, 4, 5, 5, 7]).unwrap_or(&3);
        let observers = *prng.pick(&[0, 0, 1, 1, 2]).unwrap_or(&0);
        let calm = prng.chance(30);
        let standalone = voters + observers == 1 && prng.chance(500);
        let max_buffer = if prng.chance(200) { 700 } else { zk_jute::consts::JUTE_MAX_BUFFER };
        let least = prng.between(MS / 10, 2 * MS);
        let disk_least = prng.between(MS / 10, 4 * MS);
        Self {
            seed,
            voters,
            observers,
            standalone,
            observer_master: prng.chance(700),
            tick_ms: 100,
            init_limit: 10,
            sync_limit: 5,
            snap_count: *prng.pick(&[6, 12, 30, 100]).unwrap_or(&30),
            commit_log_count: *prng.pick(&[1, 3, 10, 50, 500]).unwrap_or(&10) as usize,
            purge: prng.chance(700),
            delays: Delays { least, most: least + prng.between(0, 10 * MS) },
            disk_least,
            disk_most: disk_least + prng.between(0, 20 * MS),
            batch_max: prng.between(1, 16) as usize,
            clients: prng.between(1, 4) as usize,
            keys: prng.between(2, 6),
            think: prng.between(10, 100) * MS,
            session_timeout_ms: *prng.pick(&[300, 600, 1500]).unwrap_or(&600),
            faults: if calm { Vec::new() } else { choose_faults(&mut prng, voters) },
            fault_every: prng.between(100, 600) * MS,
            sector: *prng.pick(&[1, 16, 512]).unwrap_or(&512) as usize,
            drift_ppm: *prng.pick(&[0, 0, 1_000, 50_000]).unwrap_or(&0),
            safety: prng.between(1_500, 6_000) * MS,
            liveness: 20_000 * MS,
            steps_max: 400_000,
            rules: Rules { max_buffer, ..Rules::default() },
        }
    }

    /// Ids of all members: voters first.
    pub fn members(&self) -> impl Iterator<Item = i64> + use<> {
        1..=(self.voters + self.observers) as i64
    }

    /// True if `node` votes.
    pub const fn is_voter(&self, node: i64) -> bool {
        node <= self.voters as i64
    }
}

/// Each fault is on in one run of three, with a weight.
fn choose_faults(prng: &mut Prng, voters: u64) -> Vec<(FaultKind, u64)> {
    let mut faults = Vec::new();
    for kind in FAULT_KINDS {
        let on = prng.chance(340);
        let weight = prng.between(1, 5);
        // A lone voter that loses its disk has lost the history: nothing could be asserted.
        let possible = kind != FaultKind::Wipe || voters >= 3;
        if on && possible {
            faults.push((kind, weight));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_swarm_covers_every_size_and_every_fault() {
        let runs: Vec<Options> = (0..400).map(Options::swarm).collect();
        for voters in [1, 2, 3, 4, 5, 7] {
            assert!(runs.iter().any(|run| run.voters == voters), "no run with {voters} voters");
        }
        for kind in FAULT_KINDS {
            let with = runs.iter().filter(|run| run.faults.iter().any(|(on, _)| *on == kind)).count();
            assert!((40..260).contains(&with), "{kind:?} is on in {with} of 400 runs");
        }
        assert!(runs.iter().any(|run| run.observers == 2 && run.observer_master));
    }
}
