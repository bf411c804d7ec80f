//! What a script does to the world and a sweep does not: small doors into it, and readings of its state.

use zk_core::facts::{Facts, Role};
use zk_jute::{Epoch, Zxid};

use crate::net::{Carried, Delivery};
use crate::oracle::epochs;
use crate::storage::{ACCEPTED_EPOCH, CURRENT_EPOCH};
use crate::wire;
use crate::world::World;

impl World {
    /// Breaks every link that stands between two members.
    pub(super) fn break_links(&mut self, one: i64, other: i64) -> usize {
        let now = self.agenda.now();
        let links: Vec<u64> = self
            .net
            .standing()
            .into_iter()
            .filter(|(_, a, b)| (*a, *b) == (one, other) || (*a, *b) == (other, one))
            .map(|(link, ..)| link)
            .collect();
        for link in &links {
            self.net.break_link(now, *link);
        }
        links.len()
    }

    /// Lets one thing through that is held from `from` to `to`, and says what kind of thing it was.
    pub(super) fn let_one_through(&mut self, from: i64, to: i64) -> Option<String> {
        let now = self.agenda.now();
        let delivery = self.net.deliver_one(now, from, to)?;
        let kind = kind_of(&delivery);
        self.deliver(delivery);
        self.settle_network();
        Some(kind)
    }

    /// Stops or starts the disk of a running member.
    pub(super) fn hold_disk(&mut self, id: i64, held: bool) -> Result<(), String> {
        let process = self.node_mut(id).proc.as_mut().ok_or_else(|| format!("{id} is down"))?;
        process.storage.held = held;
        if !held {
            self.storage_begin(id);
        }
        Ok(())
    }

    /// acceptedEpoch and currentEpoch as a power cut would leave them.
    pub(super) fn durable_epochs(&self, id: i64) -> (Epoch, Epoch) {
        let disk = &self.node(id).disk;
        let read = |path| disk.durable_bytes(path).as_deref().and_then(epochs::parse).unwrap_or_default();
        (read(ACCEPTED_EPOCH), read(CURRENT_EPOCH))
    }

    /// Where the log of a member ends, as far as a power cut cannot take it.
    pub(super) fn durable_end(&self, id: i64) -> Zxid {
        self.oracles.ledgers.get(&id).map_or(Zxid::ZERO, |ledger| ledger.durable_last())
    }

    /// Members whose process exists.
    pub(super) fn up(&self) -> Vec<i64> {
        self.options.members().filter(|id| self.node(*id).is_up()).collect()
    }

    /// Members that serve as leader.
    pub(super) fn leaders(&self) -> Vec<i64> {
        let leads = |facts: &Facts| facts.serving && matches!(facts.role, Role::Leading | Role::Standalone);
        self.up().into_iter().filter(|id| self.facts(*id).is_some_and(|facts| leads(&facts))).collect()
    }

    /// Digest of a running member's tree.
    pub(super) fn tree_digest(&self, id: i64) -> Option<i64> {
        Some(self.node(id).proc.as_ref()?.shared.tree.read().digest())
    }

    /// True once every running member serves the same state under one leader; else what is lacking.
    pub(super) fn settled(&self) -> Result<(), String> {
        let leaders = self.leaders();
        let [leader] = leaders[..] else { return Err(format!("leaders {leaders:?}")) };
        let led = self.facts(leader).unwrap_or_default();
        for id in self.up() {
            let facts = self.facts(id).unwrap_or_default();
            let same = facts.serving
                && facts.current_epoch == led.current_epoch
                && facts.zxid_applied == led.zxid_applied
                && facts.zxid_logged == led.zxid_logged
                && led.zxid_applied == led.zxid_logged
                && self.tree_digest(id) == self.tree_digest(leader);
            if !same {
                return Err(format!("{id} is {facts:?}, the leader {led:?}"));
            }
        }
        Ok(())
    }
}

/// The kind of a packet, or Vote, Open, Opened, Image, Closed.
fn kind_of(delivery: &Delivery) -> String {
    let Delivery::Link { carried, .. } = delivery else { return "Vote".to_owned() };
    match carried {
        Carried::Open(_) => "Open".to_owned(),
        Carried::Opened => "Opened".to_owned(),
        Carried::Image(_) => "Image".to_owned(),
        Carried::Closed(_) => "Closed".to_owned(),
        Carried::Packet(bytes) => {
            wire::decode_packet(bytes).map_or("?".to_owned(), |packet| format!("{:?}", packet.kind))
        }
    }
}
