//! One seed from beginning to end: trouble, then calm, then judgement.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use zk_core::facts::{Facts, Role};
use zk_jute::SessionId;

use crate::clock::{MS, Nanos};
use crate::event::Event;
use crate::history::Outcome;
use crate::options::Options;
use crate::oracle::Violation;
use crate::storage::DATA_DIR;
use crate::workload::Workload;
use crate::world::{Counters, World};

/// How often convergence is looked for.
const LOOK_EVERY: Nanos = 50 * MS;

/// What became of a run.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    pub violation: Option<Violation>,
    pub steps: u64,
    pub committed: usize,
    pub answered: usize,
    pub unknown: usize,
    pub epochs: usize,
    /// How long the ensemble took to converge once the faults had ended; milliseconds.
    pub calmed_ms: u64,
    pub counters: Counters,
    /// Lines of the trace, if they were asked for.
    pub trace: Vec<String>,
}

/// Runs one seed. A panic of the code under test is a violation like any other.
pub fn run(options: Options, keep_trace: bool) -> Report {
    let mut world = World::new(options, keep_trace);
    let outcome = catch_unwind(AssertUnwindSafe(|| drive(&mut world)));
    let violation = match outcome {
        Ok(()) => world.oracles.violation().cloned(),
        Err(payload) => Some(Violation::new("Panic", panic_text(&*payload))),
    };
    let (answered, unknown) = world.history.counts();
    Report {
        seed: world.options.seed,
        violation,
        steps: world.trace.steps(),
        committed: world.oracles.committed.history().len(),
        answered,
        unknown,
        epochs: world.oracles.leadership.epochs(),
        calmed_ms: world.calmed / MS,
        counters: world.counters,
        trace: world.trace.lines().to_vec(),
    }
}

thread_local! {
    static PANIC_PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics of runs off the terminal; [`run`] reports them.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        PANIC_PLACE.with(|slot| *slot.borrow_mut() = place);
    }));
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let place = PANIC_PLACE.with(|slot| slot.borrow().clone());
    format!("{} at {place}", text.unwrap_or_default())
}

fn drive(world: &mut World) {
    world.boot_all();
    for number in 0..world.options.clients {
        let client = world.add_client();
        world.agenda.after((50 + 10 * number as u64) * MS, Event::Client { client });
    }
    world.trouble();
    world.run_until(world.options.safety, |_| false);
    world.note("calm");
    world.calm();
    settle(world);
}

/// Liveness: the ensemble must elect, converge and serve a write within the limit.
fn settle(world: &mut World) {
    let began = world.now();
    let limit = began + world.options.liveness;
    if !converge(world, limit) {
        return;
    }
    world.calmed = world.now() - began;
    let probe = world.add_client();
    world.clients[probe].scripted = true;
    let mut asked = None;
    while world.oracles.violation().is_none() {
        if world.now() >= limit {
            let text = "the calm ensemble converged, but served no write".to_owned();
            return world.oracles.check(Err(Violation::new("Liveness", text)));
        }
        match asked {
            None if world.clients[probe].link == crate::client::Link::Up => {
                asked = Some(world.history.operations().len());
                world.client_requests(probe, Workload::probe(0));
            }
            None if world.clients[probe].link == crate::client::Link::Down => {
                world.client_connects(probe, None)
            }
            None => {}
            Some(number) => match world.history.operations()[number].outcome {
                Outcome::Answered { err: 0, .. } => break,
                Outcome::Open => {}
                Outcome::Answered { .. } | Outcome::Unknown { .. } => asked = None,
            },
        }
        let next = world.now() + LOOK_EVERY;
        world.run_until(next, |_| false);
    }
    if converge(world, limit) {
        judge(world);
        judge_quiet(world);
        judge_disks(world);
    }
}

/// Goes on until every member serves the same state, or the limit.
fn converge(world: &mut World, limit: Nanos) -> bool {
    loop {
        if world.oracles.violation().is_some() {
            return false;
        }
        let Err(lacking) = converged(world) else { return true };
        if world.now() >= limit {
            let text = format!(
                "not converged {} s after the faults ended: {lacking}",
                world.options.liveness / (1000 * MS)
            );
            world.oracles.check(Err(Violation::new("Liveness", text)));
            return false;
        }
        let next = world.now() + LOOK_EVERY;
        world.run_until(next, |_| false);
    }
}

/// One leader, everybody serving, equal epochs, zxids and digests; else what is lacking.
pub fn converged(world: &World) -> Result<(), String> {
    let facts: Vec<(i64, Facts)> =
        world.options.members().map(|id| (id, world.facts(id).unwrap_or_default())).collect();
    let leaders: Vec<i64> = facts.iter().filter(|(_, facts)| is_leader(facts)).map(|(id, _)| *id).collect();
    let [leader] = leaders[..] else { return Err(format!("leaders {leaders:?}")) };
    let (_, led) = facts.iter().find(|(id, _)| *id == leader).ok_or("no leader")?;
    for (id, facts) in &facts {
        let same = facts.serving
            && facts.current_epoch == led.current_epoch
            && facts.zxid_applied == led.zxid_applied
            && facts.zxid_logged == led.zxid_logged
            && digest(world, *id) == digest(world, leader);
        if !same {
            return Err(format!(
                "{id} is {:?} serving {} epoch {} applied {} logged {}, the leader {leader} epoch {} applied {} logged {}",
                facts.role,
                facts.serving,
                facts.current_epoch,
                facts.zxid_applied,
                facts.zxid_logged,
                led.current_epoch,
                led.zxid_applied,
                led.zxid_logged
            ));
        }
    }
    Ok(())
}

fn is_leader(facts: &Facts) -> bool {
    matches!(facts.role, Role::Leading | Role::Standalone) && facts.serving
}

fn digest(world: &World, id: i64) -> Option<i64> {
    Some(world.node(id).proc.as_ref()?.shared.tree.read().digest())
}

/// Without any fault nothing may go wrong: no session expires, no answer is missing.
fn judge_quiet(world: &mut World) {
    if !world.options.faults.is_empty() {
        return;
    }
    let (_, unknown) = world.history.counts();
    if world.counters.expired > 0 || unknown > 0 {
        let text = format!(
            "{} sessions expired and {unknown} answers are missing without any fault",
            world.counters.expired
        );
        world.oracles.check(Err(Violation::new("Quiet", text)));
    }
}

/// The offline check finds every data directory in order.
fn judge_disks(world: &mut World) {
    let mut config = zk_store::StoreConfig::new(DATA_DIR);
    config.autocreate = false;
    for id in world.options.members().collect::<Vec<_>>() {
        let fault = match zk_store::check::check_dir(&world.node(id).disk, &config) {
            Ok(report) if report.is_usable() => continue,
            Ok(report) => format!("{:?}", report.problems),
            Err(error) => error.to_string(),
        };
        world.oracles.check(Err(Violation::new("OfflineCheck", format!("{id}: {fault}"))));
    }
}

/// The trees, compared with the history: nothing more, nothing less, ephemerals exactly as long as their sessions.
fn judge(world: &mut World) {
    let members: Vec<i64> = world.options.members().collect();
    for id in members {
        let result = judge_tree(world, id);
        world.oracles.check(result);
    }
}

pub(crate) fn judge_tree(world: &World, id: i64) -> Result<(), Violation> {
    let Some(process) = &world.node(id).proc else { return Ok(()) };
    let tree = process.shared.tree.read();
    let violation = |text: String| Err(Violation::new("FinalTree", format!("{id}: {text}")));
    let mut expected = 0;
    for (path, node) in world.oracles.model.live() {
        expected += 1;
        let Some(stat) = tree.client_stat(path) else { return violation(format!("{path} is missing")) };
        let agrees = (stat.version, stat.czxid, stat.mzxid) == (node.version, node.czxid.0, node.mzxid.0);
        if !agrees || stat.ephemeral_owner != node.owner {
            return violation(format!("{path} is {stat:?}, the history says {node:?}"));
        }
    }
    // "/", "/zookeeper", "/zookeeper/quota" and "/zookeeper/config" come with an empty tree; the root counts twice.
    let found = tree.node_count() - 5;
    if found != expected {
        return violation(format!("{found} nodes, the history says {expected}"));
    }
    let open: Vec<SessionId> = tree.sessions().map(|(session, _)| session).collect();
    if !open.iter().eq(world.oracles.model.sessions().iter()) {
        return violation(format!(
            "open sessions {open:?}, the history says {:?}",
            world.oracles.model.sessions()
        ));
    }
    if let Some((session, path)) = tree.orphan_ephemerals().next() {
        return violation(format!("{path} outlived its session {session}"));
    }
    Ok(())
}
