//! Plays one script: keeps the world, lets time pass, gathers the transcript.

use std::collections::BTreeMap;

use super::sessions::Named;
use super::transcript::Wording;
use crate::clock::{MS, Nanos};
use crate::world::World;

/// How a step ends; an error names what was expected and what was found.
pub(super) type Step = Result<(), String>;

/// The script's clients are looked after this often.
const SLICE: Nanos = 20 * MS;
/// How long a step waits for what it asks for: several elections.
pub(super) const PATIENCE: Nanos = 20_000 * MS;

/// What a step causes has this long to reach everybody: a few hops of a millisecond each.
pub(super) const AFTER: Nanos = 8 * MS;

/// A script being played.
pub(super) struct Player {
    pub(super) world: World,
    pub(super) sessions: BTreeMap<String, Named>,
    pub(super) wording: Wording,
    /// The first election is over.
    pub(super) staged: bool,
    /// How the last synchronization of each member was begun.
    pub(super) synced_by: BTreeMap<String, String>,
    /// Lines of the world that are told.
    told: usize,
    /// Lines that the world had said when the last step, and the one before it, began.
    begun: [usize; 2],
    out: String,
}

impl Player {
    /// A player for a world in which some members run.
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            sessions: BTreeMap::new(),
            wording: Wording::default(),
            staged: false,
            synced_by: BTreeMap::new(),
            told: 0,
            begun: [0; 2],
            out: String::new(),
        }
    }

    /// Plays one line.
    pub(super) fn play(&mut self, line: &str) -> Step {
        let silent = line.starts_with("expect") || line.starts_with("state") || line.starts_with("trace");
        if !silent {
            self.say(&format!("> {line}"));
        }
        if !silent {
            self.begun = [self.told, self.begun[0]];
        }
        self.world.settle_network();
        let result = self.verb(line);
        self.tell();
        match self.world.oracles.violation() {
            Some(violation) => Err(violation.to_string()),
            None => result,
        }
    }

    /// What was said since the last call.
    pub(super) fn take_lines(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Adds a line of the player itself.
    pub(super) fn say(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// Lets `time` pass, or less if `done` says so; true if it did.
    pub(super) fn pass(&mut self, time: Nanos, mut done: impl FnMut(&World) -> bool) -> bool {
        let end = self.world.now() + time;
        loop {
            self.tend_sessions();
            self.world.settle_network();
            let next = (self.world.now() + SLICE).min(end);
            let mut hit = false;
            self.world.run_until(next, |world| {
                hit = hit || done(world);
                hit
            });
            self.tell();
            if hit || done(&self.world) {
                return true;
            }
            if self.world.oracles.violation().is_some() || self.world.now() >= end {
                return false;
            }
        }
    }

    /// Waits until `done`; `what` is what is waited for.
    pub(super) fn wait(&mut self, what: &str, done: impl FnMut(&World) -> bool) -> Step {
        if self.pass(PATIENCE, done) { Ok(()) } else { Err(format!("waited in vain for {what}")) }
    }

    /// Waits until the world says a line that begins with `text`, or has said it since the step before this one began.
    pub(super) fn wait_for_line(&mut self, text: &str) -> Step {
        let mut seen = self.begun[1];
        let wording = self.wording.clone();
        let found = self.pass(PATIENCE, |world| {
            let lines = world.transcript.as_deref().unwrap_or_default();
            let hit = lines[seen..].iter().any(|line| wording.worded(line).starts_with(text));
            seen = lines.len();
            hit
        });
        if found { Ok(()) } else { Err("it did not happen".to_owned()) }
    }

    /// Moves what the world said into the transcript.
    pub(super) fn tell(&mut self) {
        self.learn_names();
        let lines = self.world.transcript.as_mut().map(std::mem::take).unwrap_or_default();
        for line in &lines[self.told..] {
            self.remember(line);
            if let Some(shown) = self.wording.shown(line) {
                self.out.push_str(shown.trim_end());
                self.out.push('\n');
            }
        }
        self.told = lines.len();
        self.world.transcript = Some(lines);
    }

    fn remember(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if let [_, "synchronizes", learner, "by", mode, ..] = words[..] {
            self.synced_by.insert(learner.to_owned(), mode.to_owned());
        }
    }
}
