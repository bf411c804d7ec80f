//! The world of a story: quiet unless a verb stirs it, and the same every time.

use zk_core::facts::Role;

use crate::clock::{MS, Nanos};
use crate::event::Event;
use crate::net::Delays;
use crate::options::Options;
use crate::oracle::Violation;
use crate::world::World;

/// How long a verb that waits for something waits.
pub(super) const PATIENCE: Nanos = 30_000 * MS;
/// How finely it looks.
const LOOK_EVERY: Nanos = MS;

/// The stage. Nothing can happen before `start`.
#[derive(Default)]
pub struct Stage {
    world: Option<World>,
    /// Said before there is a world.
    early: Vec<String>,
}

impl Stage {
    /// Makes the world: no process runs yet.
    pub(super) fn set(&mut self, options: Options) {
        let members: Vec<i64> = options.members().collect();
        let mut world = World::new(options, false);
        world.transcript = Some(Vec::new());
        world.supervised = false;
        // One client for each member; it does what verbs say and keeps its session alive in between.
        for _ in members {
            let client = world.add_client();
            world.clients[client].scripted = true;
            world.agenda.after(MS, Event::Client { client });
        }
        self.world = Some(world);
    }

    /// The world, once `start` made it.
    pub(super) fn world(&mut self) -> Result<&mut World, String> {
        self.world.as_mut().ok_or_else(|| "the first verb is start".to_owned())
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.world.as_ref()?.oracles.violation()
    }

    /// Adds a line to the transcript.
    pub fn say(&mut self, text: &str) {
        match &mut self.world {
            Some(world) => world.say(text),
            None => self.early.push(text.to_owned()),
        }
    }

    /// What was said since the last call.
    pub fn take_transcript(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.early);
        if let Some(said) = self.world.as_mut().and_then(|world| world.transcript.as_mut()) {
            lines.append(said);
        }
        lines
    }

    /// Lets time pass until `done`, at most [`PATIENCE`].
    pub(super) fn wait(&mut self, what: &str, done: impl Fn(&World) -> bool) -> Result<(), String> {
        let world = self.world()?;
        let limit = world.now() + PATIENCE;
        while !done(world) {
            if world.oracles.violation().is_some() {
                return Ok(());
            }
            if world.now() >= limit {
                return Err(format!("waited {} s in vain for {what}", PATIENCE / (1000 * MS)));
            }
            let next = world.now() + LOOK_EVERY;
            world.run_until(next, |_| false);
        }
        Ok(())
    }
}

/// Options of a story: everything takes one millisecond, nothing is random.
pub(super) fn quiet_options() -> Options {
    Options {
        voters: 3,
        observers: 0,
        observer_master: false,
        snap_count: 100_000,
        commit_log_count: 500,
        purge: false,
        delays: Delays { least: MS, most: MS },
        disk_least: MS,
        disk_most: MS,
        batch_max: 16,
        clients: 0,
        think: 50 * MS,
        session_timeout_ms: 2_000,
        faults: Vec::new(),
        sector: 1,
        drift_ppm: 0,
        steps_max: 2_000_000,
        ..Options::swarm(0)
    }
}

/// The member that leads and serves, if exactly one does.
pub(super) fn leader(world: &World) -> Option<i64> {
    let mut leading = world.options.members().filter(|id| {
        world.facts(*id).is_some_and(|facts| matches!(facts.role, Role::Leading | Role::Standalone) && facts.serving)
    });
    let first = leading.next();
    if leading.next().is_some() { None } else { first }
}

/// All members that are up serve the same state.
pub(super) fn settled(world: &World) -> bool {
    let Some(leader) = leader(world) else { return false };
    let Some(led) = world.facts(leader) else { return false };
    world.options.members().filter(|id| world.node(*id).is_up()).all(|id| {
        world.facts(id).is_some_and(|facts| {
            facts.serving
                && facts.current_epoch == led.current_epoch
                && facts.zxid_applied == led.zxid_applied
                && facts.zxid_logged == led.zxid_logged
                && facts.sync_queue_depth == 0
        })
    })
}
