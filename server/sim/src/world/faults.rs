//! Random trouble: which fault strikes next, and when it ends.

use zk_core::input::Input;

use super::World;
use crate::clock::{MS, Nanos};
use crate::disk::{Planned, Tear};
use crate::event::{Event, Repair};
use crate::options::FaultKind;

/// Operations of a disk that can be made to fail, apart from syncs.
const FAILING: [&str; 6] = ["write", "create", "rename", "resize", "allocate", "remove"];
/// Operations in front of which the power may go.
const CUTTABLE: [&str; 7] = ["write", "create", "rename", "resize", "remove", "sync", "syncdir"];

/// A step of the protocol that trouble can wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    RoleChanged,
    EpochAccepted,
    EpochCurrent,
    Synchronizing,
    Serving,
    SnapshotStarted,
}

const STEPS: [Step; 6] = [
    Step::RoleChanged,
    Step::EpochAccepted,
    Step::EpochCurrent,
    Step::Synchronizing,
    Step::Serving,
    Step::SnapshotStarted,
];

impl World {
    /// Begins the phase with faults.
    pub fn trouble(&mut self) {
        self.troubled = true;
        self.next_fault();
    }

    /// Every fault ends, and everything that is down starts.
    pub fn calm(&mut self) {
        let now = self.agenda.now();
        self.troubled = false;
        self.ambush = None;
        self.net.heal(now);
        for id in self.options.members() {
            let node = self.node_mut(id);
            node.disk.limit(None);
            node.disk.clear_plan();
            node.disk_slowness = 1;
            node.stopped = false;
            if let Some(until) = node.paused_until {
                self.agenda.at(until, Event::Resume { node: id });
            }
            self.agenda.after(MS, Event::Boot { node: id });
        }
    }

    fn next_fault(&mut self) {
        let mean = self.options.fault_every / MS;
        let delay = self.fault_prng.between(mean / 4, 2 * mean) * MS;
        self.agenda.after(delay, Event::Fault);
    }

    pub(super) fn random_fault(&mut self) {
        if !self.troubled {
            return;
        }
        let total: u64 = self.options.faults.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.fault_prng.below(total);
        let chosen = self.options.faults.iter().find(|(_, weight)| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        if let Some((kind, _)) = chosen.copied() {
            self.counters.faults += 1;
            self.strike(kind);
        }
        self.next_fault();
    }

    fn strike(&mut self, kind: FaultKind) {
        let node = self.any_member();
        self.note(&format!("fault {kind:?} {node}"));
        self.strike_at(kind, node);
    }

    fn strike_at(&mut self, kind: FaultKind, node: i64) {
        match kind {
            FaultKind::Kill => self.kill(node, 0),
            FaultKind::PowerCut => {
                let (silence, tear) = (self.silence(), self.tear());
                self.power_cut(node, silence, tear);
            }
            FaultKind::PowerCutInOperation => self.plan_power_cut(node),
            FaultKind::Blackout => {
                for node in self.options.members() {
                    let tear = self.tear();
                    self.power_cut(node, 0, tear);
                }
            }
            FaultKind::Pause => self.pause(node),
            FaultKind::Partition => self.partition(),
            FaultKind::OneWay => self.one_way(node),
            FaultKind::BreakLink => self.break_some_link(),
            FaultKind::Drain => self.input(node, Input::Drain),
            FaultKind::DiskFull => self.fill_disk(node),
            FaultKind::IoError => self.plan_failure(node),
            FaultKind::FsyncError => {
                let after = self.fault_prng.below(6);
                let disk = &self.node(node).disk;
                disk.plan(Planned::Fail { what: "sync".to_owned(), path: String::new(), after });
            }
            FaultKind::SlowDisk => self.slow_disk(node),
            FaultKind::Wipe => self.wipe_one(node),
            FaultKind::IsolateLeader => self.isolate_leader(),
            FaultKind::Ambush => {
                let step = *self.fault_prng.pick(&STEPS).unwrap_or(&Step::Synchronizing);
                self.ambush = Some(step);
            }
            FaultKind::BreakClient => {
                if let Some(client) = self.any_client() {
                    self.client_hangs_up(client);
                }
            }
            FaultKind::StallClient => self.stall_client(),
        }
    }

    fn isolate_leader(&mut self) {
        let leads = |id: &i64| self.node(*id).proc.as_ref().is_some_and(|process| process.leading.is_some());
        let Some(leader) = self.options.members().find(leads) else { return };
        for other in self.options.members().filter(|other| *other != leader) {
            self.net.block(leader, other);
            self.net.block(other, leader);
        }
        let delay = self.fault_prng.between(30, 1_500) * MS;
        self.agenda.after(delay, Event::Repair(Repair::Network));
        if self.fault_prng.chance(500) {
            let delay = self.fault_prng.below(delay / MS) * MS;
            self.agenda.after(delay, Event::Ambush { node: leader });
        }
    }

    /// `id` has taken a step, perhaps with `peer`: somebody may be waiting for that.
    pub(super) fn step_taken(&mut self, step: Step, id: i64, peer: Option<i64>) {
        if self.ambush != Some(step) || !self.troubled {
            return;
        }
        self.ambush = None;
        let node = peer.filter(|_| self.fault_prng.chance(500)).unwrap_or(id);
        let delay =
            self.fault_prng.below(4 * (self.options.delays.most + self.options.disk_most) / MS + 1) * MS;
        self.agenda.after(delay, Event::Ambush { node });
    }

    pub(super) fn ambushed(&mut self, node: i64) {
        if !self.troubled {
            return;
        }
        let kind = *self
            .fault_prng
            .pick(&[
                FaultKind::PowerCut,
                FaultKind::PowerCut,
                FaultKind::Kill,
                FaultKind::BreakLink,
                FaultKind::Pause,
            ])
            .unwrap_or(&FaultKind::PowerCut);
        self.note(&format!("ambush {kind:?} {node}"));
        self.strike_at(kind, node);
    }

    fn any_member(&mut self) -> i64 {
        self.fault_prng.between(1, self.nodes.len() as u64) as i64
    }

    fn any_client(&mut self) -> Option<usize> {
        let count = self.clients.len() as u64;
        (count > 0).then(|| self.fault_prng.below(count) as usize)
    }

    /// How long the others take to notice: a machine without power sends no RST.
    fn silence(&mut self) -> Nanos {
        if self.fault_prng.chance(500) { 0 } else { self.fault_prng.between(10, 2_000) * MS }
    }

    fn tear(&mut self) -> Tear {
        if self.fault_prng.chance(300) { Tear::Lose } else { Tear::Sectors(self.options.sector) }
    }

    fn plan_power_cut(&mut self, node: i64) {
        let what = (*self.fault_prng.pick(&CUTTABLE).unwrap_or(&"write")).to_owned();
        let after = self.fault_prng.below(8);
        self.node(node).disk.plan(Planned::PowerCut { what, path: String::new(), after });
    }

    fn plan_failure(&mut self, node: i64) {
        let what = (*self.fault_prng.pick(&FAILING).unwrap_or(&"write")).to_owned();
        let after = self.fault_prng.below(8);
        self.node(node).disk.plan(Planned::Fail { what, path: String::new(), after });
    }

    fn pause(&mut self, id: i64) {
        let until = self.agenda.now() + self.fault_prng.between(20, 2_500) * MS;
        self.pause_until(id, until);
    }

    /// The process of `id` stands still until `until`.
    pub(crate) fn pause_until(&mut self, id: i64, until: Nanos) {
        let node = self.node_mut(id);
        if node.is_up() && node.paused_until.is_none() {
            node.paused_until = Some(until);
            self.agenda.at(until, Event::Resume { node: id });
        }
    }

    fn partition(&mut self) {
        let sides: Vec<(i64, bool)> = self
            .options
            .members()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|node| (node, self.fault_prng.chance(500)))
            .collect();
        for (one, side) in &sides {
            for (other, _) in sides.iter().filter(|(_, there)| there != side) {
                self.net.block(*one, *other);
            }
        }
        self.heal_later();
    }

    fn one_way(&mut self, from: i64) {
        let to = self.any_member();
        if from != to {
            self.net.block(from, to);
            self.heal_later();
        }
    }

    fn heal_later(&mut self) {
        let delay = self.fault_prng.between(50, 3_000) * MS;
        self.agenda.after(delay, Event::Repair(Repair::Network));
    }

    fn break_some_link(&mut self) {
        let now = self.agenda.now();
        if let Some((link, ..)) = self.fault_prng.pick(&self.net.standing()) {
            self.net.break_link(now, *link);
        }
    }

    fn fill_disk(&mut self, node: i64) {
        let room = self.fault_prng.below(1_500) as usize;
        let delay = self.fault_prng.between(100, 4_000) * MS;
        let disk = &self.node(node).disk;
        disk.limit(Some(disk.used() + room));
        self.agenda.after(delay, Event::Repair(Repair::FreeDisk(node)));
    }

    fn slow_disk(&mut self, node: i64) {
        self.node_mut(node).disk_slowness = self.fault_prng.between(5, 60);
        let delay = self.fault_prng.between(200, 3_000) * MS;
        self.agenda.after(delay, Event::Repair(Repair::QuickDisk(node)));
    }

    /// One member at a time loses its disk: the next only after the last one has everything again.
    fn wipe_one(&mut self, node: i64) {
        let unsynced = self.nodes.iter().any(|other| other.wiped && self.options.is_voter(other.id));
        if unsynced || self.oracles.committed.last() == zk_jute::Zxid::ZERO {
            return;
        }
        self.kill(node, 0);
        self.wipe(node);
    }

    fn stall_client(&mut self) {
        let now = self.agenda.now();
        let factor = self.fault_prng.between(5, 25);
        if let Some(client) = self.any_client() {
            let client = &mut self.clients[client];
            client.stalled_until = now + client.timeout_ms as u64 * MS * factor / 10;
        }
    }
}
