//! The verbs of operators, networks and disks.
//!
//! | verb | what it does |
//! |---|---|
//! | `start N [observers=K] [om] [snap=C] [window=C] [boot=none]` | a world of N voters; all processes start |
//! | `boot A ...`, `kill A ...`, `crash A ... [torn]` | a process starts; ends (page cache survives); loses power |
//! | `drain A`, `wipe A`, `pause A MS` | an operator's acts |
//! | `elect A` | waits until A leads and everybody that is up follows |
//! | `run MS`, `stabilize` | lets time pass; until all that are up serve the same state |
//! | `show packets\|quiet` | which lines the transcript gets |
//! | `hold A->B`, `deliver A->B [COUNT\|KIND]`, `release A->B` | what A sends to B waits; some or all of it arrives |
//! | `hold-disk A`, `release-disk A` | the storage of A stands still; goes on |
//! | `fill-disk A [room=BYTES] [at=OP:PATH]`, `free-disk A` | no space left, at once or from an operation on |
//! | `fail-disk A OP:PATH [after=K]`, `cut-disk A OP:PATH [after=K]` | an operation fails; the power goes before it |
//! | `place A FILE TEXT` | a file appears in the data directory of A, as another program would write it |
//! | `partition A,B\|C`, `heal`, `break A B` | the network |
//! | `state` | one line for each member |

use zk_core::facts::Role;
use zk_core::input::Input;

use super::stage::{Stage, leader, quiet_options, settled};
use crate::clock::MS;
use crate::disk::{Planned, Tear};
use crate::world::World;

impl Stage {
    /// Carries one verb out.
    pub(super) fn act(&mut self, words: &[&str]) -> Result<(), String> {
        let (verb, rest) = words.split_first().ok_or("an empty line")?;
        match *verb {
            "start" => self.start(rest),
            "expect" => self.expect(rest),
            "elect" => self.elect(member(rest.first())?),
            "stabilize" => self.wait("one settled ensemble", settled),
            "run" => {
                let world = self.world()?;
                let until = world.now() + number(rest.first())? * MS;
                world.run_until(until, |_| false);
                Ok(())
            }
            "boot" | "kill" | "crash" | "wipe" | "drain" | "pause" => self.operate(verb, rest),
            "hold" | "release" | "deliver" | "partition" | "heal" | "break" => self.network(verb, rest),
            "hold-disk" | "release-disk" | "fill-disk" | "free-disk" | "fail-disk" | "cut-disk" | "place" => {
                self.disk(verb, rest)
            }
            "show" => {
                self.world()?.show_packets = rest.first() == Some(&"packets");
                Ok(())
            }
            "state" => self.state(),
            _ => self.client_verb(verb, rest),
        }
    }

    fn start(&mut self, words: &[&str]) -> Result<(), String> {
        let mut options = quiet_options();
        options.voters = number(words.first())?;
        let mut boot = true;
        for word in &words[1..] {
            match word.split_once('=') {
                Some(("observers", count)) => options.observers = parse(count)?,
                Some(("snap", count)) => options.snap_count = parse(count)?,
                Some(("window", count)) => options.commit_log_count = parse(count)? as usize,
                Some(("timeout", ms)) => options.session_timeout_ms = parse(ms)? as i32,
                Some(("maxbuffer", bytes)) => options.rules.max_buffer = parse(bytes)? as usize,
                Some(("boot", "none")) => boot = false,
                None if *word == "om" => options.observer_master = true,
                _ => return Err(format!("start knows no {word}")),
            }
        }
        self.set(options);
        if boot {
            self.world()?.boot_all();
        }
        Ok(())
    }

    fn elect(&mut self, id: i64) -> Result<(), String> {
        self.wait("a leader", |world| leader(world).is_some() && settled(world))?;
        match leader(self.world()?) {
            Some(leads) if leads == id => Ok(()),
            other => Err(format!("the leader is {other:?}")),
        }
    }

    fn operate(&mut self, verb: &str, words: &[&str]) -> Result<(), String> {
        let torn = words.contains(&"torn");
        let world = self.world()?;
        if verb == "pause" {
            let until = world.now() + number(words.get(1))? * MS;
            return pause(world, member(words.first())?, until);
        }
        for word in words.iter().filter(|word| **word != "torn") {
            let id = member(Some(word))?;
            match verb {
                "boot" if world.node(id).is_up() => return Err(format!("{id} is up")),
                "boot" => world.boot(id),
                "kill" => world.kill(id, 0),
                "crash" => world.power_cut(id, 0, if torn { Tear::Sectors(1) } else { Tear::Lose }),
                "wipe" => world.wipe(id),
                _ => world.input(id, Input::Drain),
            }
        }
        Ok(())
    }

    fn network(&mut self, verb: &str, words: &[&str]) -> Result<(), String> {
        let world = self.world()?;
        let now = world.now();
        match verb {
            "heal" => world.net.heal(now),
            "break" => {
                let (one, other) = (member(words.first())?, member(words.get(1))?);
                let links = world.net.standing();
                for (link, a, b) in links.into_iter().filter(|(_, a, b)| (*a, *b) == (one, other) || (*b, *a) == (one, other)) {
                    let _ends = (a, b);
                    world.net.break_link(now, link);
                }
            }
            "partition" => {
                let sides: Vec<Vec<i64>> = words.first().ok_or("partition A,B|C")?.split('|').map(ids).collect::<Result<_, _>>()?;
                for (at, side) in sides.iter().enumerate() {
                    for (there, other) in sides.iter().enumerate() {
                        if at != there {
                            block_all(world, side, other);
                        }
                    }
                }
            }
            _ => {
                let (from, to) = way(words.first())?;
                match verb {
                    "hold" => world.net.hold(from, to),
                    "release" => world.net.release(now, from, to),
                    _ => return deliver(world, from, to, words.get(1).copied()),
                }
            }
        }
        world.settle_network();
        Ok(())
    }

    fn disk(&mut self, verb: &str, words: &[&str]) -> Result<(), String> {
        let world = self.world()?;
        let id = member(words.first())?;
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let after = option("after").map_or(Ok(0), parse)?;
        match verb {
            "hold-disk" | "release-disk" => {
                let process = world.node_mut(id).proc.as_mut().ok_or("it is down")?;
                process.storage.held = verb == "hold-disk";
                world.storage_begin(id);
            }
            "free-disk" => world.node(id).disk.limit(None),
            "fill-disk" => match option("at") {
                Some(at) => {
                    let (what, path) = operation(Some(&at))?;
                    world.node(id).disk.plan(Planned::Fill { what, path, after });
                }
                None => {
                    let room = option("room").map_or(Ok(0), parse)? as usize;
                    let disk = &world.node(id).disk;
                    disk.limit(Some(disk.used() + room));
                }
            },
            "place" => {
                let name = words.get(1).ok_or("which file?")?;
                let text = words.get(2).copied().unwrap_or_default();
                world.node(id).disk.place(&format!("/data/{name}"), text.as_bytes());
            }
            _ => {
                let (what, path) = operation(words.get(1))?;
                let fault = if verb == "fail-disk" {
                    Planned::Fail { what, path, after }
                } else {
                    Planned::PowerCut { what, path, after }
                };
                world.node(id).disk.plan(fault);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<(), String> {
        let world = self.world()?;
        for id in world.options.members().collect::<Vec<_>>() {
            let line = match world.facts(id) {
                None => match &world.node(id).halted {
                    Some(reason) => format!("{id} down: {reason:?}"),
                    None => format!("{id} down"),
                },
                Some(facts) => format!(
                    "{id} {} epochs {}/{} logged {} committed {} applied {}",
                    role(&facts),
                    facts.accepted_epoch,
                    facts.current_epoch,
                    facts.zxid_logged,
                    facts.zxid_committed,
                    facts.zxid_applied
                ),
            };
            world.say(&line);
        }
        Ok(())
    }
}

fn role(facts: &zk_core::facts::Facts) -> String {
    let name = match facts.role {
        Role::Loading => "loading",
        Role::Looking => "looking",
        Role::Following => "following",
        Role::Observing => "observing",
        Role::Leading => "leading",
        Role::Standalone => "standalone",
        Role::Draining => "draining",
        Role::Halted => "halted",
    };
    if facts.serving { name.to_owned() } else { format!("{name} (not serving)") }
}

fn pause(world: &mut World, id: i64, until: u64) -> Result<(), String> {
    world.pause_until(id, until);
    Ok(())
}

fn deliver(world: &mut World, from: i64, to: i64, what: Option<&str>) -> Result<(), String> {
    let count: Option<u64> = what.and_then(|what| what.parse().ok());
    let kind = what.filter(|_| count.is_none());
    let mut delivered = 0;
    // Bound: what is held.
    while count.is_none_or(|count| delivered < count) {
        let now = world.now();
        let Some(delivery) = world.net.deliver_one(now, from, to) else { break };
        delivered += 1;
        let name = World::delivery_kind(&delivery);
        world.deliver(delivery);
        world.settle_network();
        if kind.is_some_and(|kind| name == kind) {
            return Ok(());
        }
    }
    match (kind, count) {
        (Some(kind), _) => Err(format!("no {kind} was held from {from} to {to}")),
        (None, Some(count)) if delivered < count => Err(format!("only {delivered} were held")),
        (None, _) => Ok(()),
    }
}

fn block_all(world: &mut World, side: &[i64], other: &[i64]) {
    for from in side {
        for to in other {
            world.net.block(*from, *to);
        }
    }
}

pub(super) fn member(word: Option<&&str>) -> Result<i64, String> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| format!("which member is {word:?}?"))
}

pub(super) fn number(word: Option<&&str>) -> Result<u64, String> {
    parse(word.ok_or("a number is missing")?)
}

fn parse(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn ids(text: &str) -> Result<Vec<i64>, String> {
    text.split(',').map(|id| id.parse().map_err(|_| format!("{id} is no member"))).collect()
}

fn way(word: Option<&&str>) -> Result<(i64, i64), String> {
    let (from, to) = word.and_then(|word| word.split_once("->")).ok_or("which way? A->B")?;
    Ok((member(Some(&from))?, member(Some(&to))?))
}

fn operation(word: Option<&&str>) -> Result<(String, String), String> {
    let (what, path) = word.and_then(|word| word.split_once(':')).ok_or("which operation? OP:PATH")?;
    Ok((what.to_owned(), path.to_owned()))
}
