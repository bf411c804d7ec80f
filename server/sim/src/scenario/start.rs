//! `start`: the ensemble of a script.
//!
//! `start VOTERS [only ID...] [observers N] [observer-master] [snap-count N] [commit-log N] [max-buffer BYTES] [purge]`:
//! boots all members, or only those named. Every delay is one millisecond and every clock exact: order is the script's.

use super::player::Player;
use zk_core::config::Rules;

use crate::clock::MS;
use crate::net::Delays;
use crate::options::Options;
use crate::world::World;

impl Player {
    /// Plays the first line of a script.
    pub(super) fn start(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace().peekable();
        if words.next() != Some("start") {
            return Err("a script begins with start".to_owned());
        }
        let mut options = plain(number(words.next())?);
        let mut only = Vec::new();
        while let Some(word) = words.next() {
            match word {
                "only" => {
                    while let Some(id) = words.peek().and_then(|word| word.parse().ok()) {
                        only.push(id);
                        words.next();
                    }
                }
                "observers" => options.observers = number(words.next())?,
                "observer-master" => options.observer_master = true,
                "snap-count" => options.snap_count = number(words.next())?,
                "commit-log" => options.commit_log_count = number(words.next())? as usize,
                "max-buffer" => options.rules.max_buffer = number(words.next())? as usize,
                "purge" => options.purge = true,
                other => return Err(format!("what is {other}?")),
            }
        }
        let mut world = World::new(options, false);
        world.supervised = false;
        world.transcript = Some(Vec::new());
        world.show_packets = true;
        for id in world.options.members() {
            if only.is_empty() || only.contains(&id) {
                world.boot(id);
            }
        }
        let mut player = Self::new(world);
        player.say(&format!("> {line}"));
        Ok(player)
    }
}

/// A number that must be there.
pub(super) fn number(word: Option<&str>) -> Result<u64, String> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| format!("a number is expected, not {word:?}"))
}

/// Options without any chance in them. The tick allows sessions of 4 s, which outlive a failover.
fn plain(voters: u64) -> Options {
    Options {
        voters,
        observers: 0,
        standalone: false,
        observer_master: false,
        rules: Rules::default(),
        tick_ms: 200,
        init_limit: 10,
        sync_limit: 5,
        snap_count: 100_000,
        commit_log_count: 500,
        purge: false,
        delays: Delays { least: MS, most: MS },
        disk_least: MS,
        disk_most: MS,
        batch_max: 16,
        clients: 0,
        session_timeout_ms: 4_000,
        faults: Vec::new(),
        sector: 512,
        drift_ppm: 0,
        steps_max: 1_000_000,
        ..Options::swarm(0)
    }
}
