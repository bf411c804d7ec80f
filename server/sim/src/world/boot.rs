//! Processes begin and end.

use std::sync::Arc;

use zk_core::effect::HaltReason;
use zk_core::{Peer, Shared};

use super::World;
use crate::clock::{MS, Nanos};
use crate::disk::Tear;
use crate::event::Event;
use crate::node::{Proc, peer_config};
use crate::oracle::{Process, Violation};
use crate::storage::Storage;

/// How long a supervisor waits before it starts a process again.
const RESTART_DELAY: Nanos = 200 * MS;

impl World {
    /// Starts every process.
    pub fn boot_all(&mut self) {
        for node in self.options.members() {
            self.boot(node);
        }
    }

    /// Starts the process of `id`.
    ///
    /// # Panics
    /// If it runs.
    pub fn boot(&mut self, id: i64) {
        let now = self.agenda.now();
        let options = self.options.clone();
        let node = self.node_mut(id);
        assert!(node.proc.is_none(), "{id} runs already");
        node.boot += 1;
        node.halted = None;
        node.paused_until = None;
        // `db.autocreate=false` everywhere: only the marker of the first bootstrap lets an empty directory vote.
        let storage = Storage::open(&node.disk, false, options.purge);
        let shared = Shared::new();
        let mut effects = Vec::new();
        let peer = Peer::new(
            peer_config(&options, id, node.boot),
            Arc::clone(&shared),
            node.clock.at(now),
            &mut effects,
        );
        node.proc = Some(Proc::new(peer, shared, storage, &options));
        self.counters.boots += 1;
        self.net.reconnect_votes(now, id);
        self.carry_out(id, effects);
        self.settle(id);
    }

    pub(super) fn boot_if_wanted(&mut self, id: i64) {
        if !self.node(id).is_up() && !self.node(id).stopped {
            self.boot(id);
        }
    }

    /// The process ends at once. What it wrote is in the page cache still. `silence` is how long the others take to learn it.
    pub fn kill(&mut self, id: i64, silence: Nanos) {
        let now = self.agenda.now();
        let node = self.node_mut(id);
        let boot = node.boot;
        let Some(process) = node.proc.take() else { return };
        node.paused_until = None;
        node.disk.process_ended();
        let conns: Vec<(usize, u64)> =
            process.conns.values().map(|conn| (conn.client, conn.connection)).collect();
        drop(process);
        self.net.process_gone(now, id, boot, silence);
        self.oracles.process_gone(Process { node: id, boot });
        for (client, connection) in conns {
            self.agenda.after(silence + MS, Event::ToClient { client, connection, bytes: None });
        }
        if self.supervised && !self.node(id).stopped {
            self.agenda.after(RESTART_DELAY, Event::Boot { node: id });
        }
    }

    /// The machine loses power and comes back: what was not synced is torn or lost.
    pub fn power_cut(&mut self, id: i64, silence: Nanos, tear: Tear) {
        self.kill(id, silence);
        self.counters.power_cuts += 1;
        let node = self.node_mut(id);
        node.disk.power_cut(tear);
        self.check_epochs(id);
    }

    /// A planned power cut struck while the storage worked.
    pub(super) fn power_cut_if_dark(&mut self, id: i64) -> bool {
        if !self.node(id).disk.is_dark() {
            return false;
        }
        self.note(&format!("power cut {id} in a disk operation"));
        let tear = Tear::Sectors(self.options.sector);
        self.power_cut(id, MS, tear);
        true
    }

    /// The core ended its process.
    pub(super) fn halted(&mut self, id: i64, reason: HaltReason) {
        self.note(&format!("{id} halt {reason:?}"));
        if let HaltReason::CorruptData(text) = &reason {
            let text = format!("{id} cannot read its own disk: {text}");
            self.oracles.check(Err(Violation::new("OwnDataIsReadable", text)));
        }
        self.node_mut(id).halted = Some(reason);
        self.kill(id, 0);
    }

    /// An operator empties the data directory of a member that is down. It must resync before it counts again.
    pub fn wipe(&mut self, id: i64) {
        assert!(!self.node(id).is_up(), "a running member is not wiped");
        let node = self.node_mut(id);
        node.disk.wipe("/data/");
        node.wiped = true;
        self.oracles.wiped(id);
    }
}
