//! What must hold at a point of a story.
//!
//! `expect leader A` · `expect no-leader` · `expect settled` · `expect up A` · `expect down A [REASON]` · `expect node A PATH` · `expect no-node A PATH` ·
//! `expect epochs A ACCEPTED CURRENT` (on disk) · `expect log A ZXID` (durable) · `expect applied A ZXID` · `expect synced A MODE` (the last synchronization of A) ·
//! `expect equal` (digests of all members that are up) · `expect committed ZXID` · `expect role A ROLE`

use zk_jute::{Epoch, Zxid};

use super::stage::{Stage, leader, settled};
use super::verbs::member;
use crate::oracle::epochs;
use crate::storage::{ACCEPTED_EPOCH, CURRENT_EPOCH};
use crate::world::World;

impl Stage {
    pub(super) fn expect(&mut self, words: &[&str]) -> Result<(), String> {
        let world = self.world()?;
        match *words.first().ok_or("expect what?")? {
            "leader" => same("leader", leader(world), Some(member(words.get(1))?)),
            "no-leader" => same("leader", leader(world), None),
            "settled" => same("settled", settled(world), true),
            "equal" => equal(world),
            "committed" => same("committed", world.oracles.committed.last(), zxid(words.get(1))?),
            kind => {
                let id = member(words.get(1))?;
                member_expectation(world, kind, id, words.get(2).copied())
            }
        }
    }
}

fn member_expectation(world: &World, kind: &str, id: i64, word: Option<&str>) -> Result<(), String> {
    let facts = world.facts(id).unwrap_or_default();
    match (kind, word) {
        ("up", _) => same("up", world.node(id).is_up(), true),
        ("down", None) => same("up", world.node(id).is_up(), false),
        ("down", Some(reason)) => {
            let halted = format!("{:?}", world.node(id).halted);
            if halted.contains(reason) { Ok(()) } else { Err(format!("{id} is down because of {halted}")) }
        }
        ("node", Some(path)) => same(path, has_node(world, id, path), true),
        ("no-node", Some(path)) => same(path, has_node(world, id, path), false),
        ("log", Some(_)) => {
            let last = world.oracles.ledgers.get(&id).map(|ledger| ledger.durable_last()).unwrap_or_default();
            same("durable log", last, zxid(word.as_ref())?)
        }
        ("applied", Some(_)) => same("applied", facts.zxid_applied, zxid(word.as_ref())?),
        ("role", Some(role)) => same("role", format!("{:?}", facts.role).to_lowercase(), role.to_owned()),
        ("synced", Some(mode)) => same("synchronized by", world.last_sync(id), Some(mode)),
        ("epochs", Some(pair)) => {
            let (accepted, current) = pair.split_once('/').ok_or("epochs A ACCEPTED/CURRENT")?;
            let read = |path| world.node(id).disk.durable_bytes(path).as_deref().and_then(epochs::parse);
            let want = (accepted.parse().ok().map(Epoch), current.parse().ok().map(Epoch));
            same("epochs on disk", (read(ACCEPTED_EPOCH), read(CURRENT_EPOCH)), want)
        }
        _ => Err(format!("nobody knows what {kind} is")),
    }
}

fn has_node(world: &World, id: i64, path: &str) -> bool {
    world.node(id).proc.as_ref().is_some_and(|process| process.shared.tree.read().node(path).is_some())
}

fn equal(world: &World) -> Result<(), String> {
    let mut digests: Vec<i64> = Vec::new();
    for id in world.options.members() {
        if let Some(process) = &world.node(id).proc {
            digests.push(process.shared.tree.read().digest());
        }
    }
    digests.dedup();
    if digests.len() == 1 { Ok(()) } else { Err(format!("digests {digests:x?}")) }
}

fn zxid(word: Option<&&str>) -> Result<Zxid, String> {
    let word = word.ok_or("which zxid?")?;
    let (epoch, counter) = word.split_once('.').ok_or_else(|| format!("{word} is no zxid; write EPOCH.COUNTER"))?;
    match (epoch.parse(), counter.parse()) {
        (Ok(epoch), Ok(counter)) => Ok(Zxid::new(Epoch(epoch), counter)),
        _ => Err(format!("{word} is no zxid; write EPOCH.COUNTER")),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, want: T) -> Result<(), String> {
    if is == want { Ok(()) } else { Err(format!("{what} is {is:?}, not {want:?}")) }
}
