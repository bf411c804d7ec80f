//! Carrying out what a peer asks for, and the lines of a scenario's transcript that tell of it.

use zk_core::client::CloseReason;
use zk_core::effect::{Effect, Observation};
use zk_core::facts::Role;
use zk_core::input::{LinkEvent, LinkId};
use zk_jute::Epoch;
use zk_jute::quorum::{PacketType, QuorumPacket};

use super::World;
use super::faults::Step;
use crate::event::Event;
use crate::net::Carried;
use crate::oracle::ledger::Entry;
use crate::oracle::{Process, Violation};
use crate::wire;

impl World {
    /// Carries effects out in their order.
    pub(super) fn carry_out(&mut self, id: i64, effects: Vec<Effect>) {
        for effect in effects {
            if !self.node(id).is_up() {
                return;
            }
            self.effect(id, effect);
        }
    }

    fn effect(&mut self, id: i64, effect: Effect) {
        let now = self.agenda.now();
        let boot = self.node(id).boot;
        match effect {
            Effect::Persist { io, op } => self.persist(id, io, op),
            Effect::Snapshot { image } => {
                if let Some(process) = &mut self.node_mut(id).proc {
                    process.storage.push_snapshot(image);
                }
            }
            Effect::Client { conn, message } => {
                if let Some(process) = &mut self.node_mut(id).proc
                    && let Some(server) = process.conns.get(&conn)
                {
                    server.inbox.push(message);
                    process.waken.insert(conn);
                }
            }
            Effect::CloseAllClients => self.close_clients(id),
            Effect::SendVote { to, notification } => {
                self.oracles.voted(id, &notification);
                self.net.send_vote(now, id, to.0, wire::encode_vote(&notification));
            }
            Effect::Connect { link, to, port } => {
                let target = self.node(to.0);
                let (refused, target) = (!target.is_up(), (to.0, target.boot));
                self.net.connect(now, (id, boot, link), target, port, refused);
            }
            Effect::Send { link, packet } => self.send(id, link, &packet),
            Effect::SendSnapshot { link, image } => {
                self.net.send(now, (id, boot), link, Carried::Image(wire::encode_image(&image)));
            }
            Effect::Close { link, reason } => self.net.close(now, (id, boot), link, &reason),
            Effect::Observe(observation) => self.observed(id, &observation),
            Effect::Halt(reason) => self.halted(id, reason),
        }
    }

    fn send(&mut self, id: i64, link: LinkId, packet: &QuorumPacket) {
        let now = self.agenda.now();
        let boot = self.node(id).boot;
        if let Some(facts) = self.facts(id) {
            self.oracles.sent(Process { node: id, boot }, link, packet, &facts);
        }
        if packet.kind == PacketType::Ack && self.oracle_prng.chance(10) {
            self.check_platter(id, packet.zxid);
        }
        self.net.send(now, (id, boot), link, Carried::Packet(wire::encode_packet(packet)));
    }

    fn persist(&mut self, id: i64, io: zk_core::effect::IoId, op: zk_core::effect::PersistOp) {
        if let zk_core::effect::PersistOp::Append { zxid, bytes } = &op
            && self.node(id).proc.as_ref().is_some_and(|process| process.leading == Some(zxid.epoch()))
        {
            self.oracles.proposed(id, &Entry::new(*zxid, bytes), self.options.standalone);
        }
        if let Some(process) = &mut self.node_mut(id).proc {
            process.storage.push(io, op);
        }
    }

    fn close_clients(&mut self, id: i64) {
        let Some(process) = &mut self.node_mut(id).proc else { return };
        for (conn, server) in &mut process.conns {
            server.conn.close(CloseReason::NotServing);
            process.waken.insert(*conn);
        }
    }

    fn observed(&mut self, id: i64, observation: &Observation) {
        match observation {
            Observation::Serving { epoch, .. } => {
                self.begins_to_serve(id, *epoch);
                self.step_taken(Step::Serving, id, None);
            }
            Observation::DigestMismatch { zxid, expected, actual } => {
                let text = format!("{id} at {zxid}: its leader predicted {expected:x}, it has {actual:x}");
                self.oracles.check(Err(Violation::new("DigestPredicted", text)));
            }
            Observation::Synchronizing { peer, mode, .. } => {
                match *mode {
                    "DIFF" => self.counters.diffs += 1,
                    "TRUNC" => self.counters.truncs += 1,
                    _ => self.counters.snaps += 1,
                }
                self.step_taken(Step::Synchronizing, id, Some(peer.0));
            }
            Observation::LeftRole { .. } => {
                if let Some(process) = &mut self.node_mut(id).proc {
                    process.leading = None;
                }
            }
            Observation::SnapshotStarted { .. } => {
                self.counters.snapshots += 1;
                self.step_taken(Step::SnapshotStarted, id, None);
            }
            Observation::SessionExpired(_) => self.counters.expired += 1,
            Observation::RoleChanged { .. } => self.step_taken(Step::RoleChanged, id, None),
            Observation::EpochAccepted(_) => self.step_taken(Step::EpochAccepted, id, None),
            Observation::EpochCurrent(_) => self.step_taken(Step::EpochCurrent, id, None),
            Observation::ElectionFinished { .. }
            | Observation::LinkFault { .. }
            | Observation::DiskFault(_)
            | Observation::Committed { .. }
            | Observation::Note(_) => {}
        }
        if self.transcript.is_some() {
            self.say(&format!("{id} {}", observation_line(observation)));
        }
        if self.trace.keeps_lines() {
            let now = self.agenda.now();
            self.trace.note(now, &format!("{id} {}", observation_line(observation)));
        }
    }

    fn begins_to_serve(&mut self, id: i64, epoch: Epoch) {
        let role = self.facts(id).map(|facts| facts.role);
        // The tree has just taken the history in; the oracles must have it before they judge the leader.
        self.check_applied(id);
        let node = self.node_mut(id);
        node.wiped = false;
        let process = Process { node: id, boot: node.boot };
        let leads = matches!(role, Some(Role::Leading | Role::Standalone));
        if let Some(running) = &mut node.proc {
            running.leading = leads.then_some(epoch);
        }
        if role == Some(Role::Leading) {
            self.oracles.established(process, epoch);
        }
    }

    /// A packet reaches a member: a line of the transcript, unless it is the small talk of a healthy link.
    pub(super) fn say_event(&mut self, id: i64, link: LinkId, event: &LinkEvent) {
        if self.transcript.is_none() || !self.show_packets {
            return;
        }
        let from =
            self.net.peer_of(id, self.node(id).boot, link).map_or("?".to_owned(), |peer| peer.to_string());
        let line = match event {
            LinkEvent::Packet(packet) if packet.kind == PacketType::Ping => return,
            LinkEvent::Packet(packet) => format!("{from}->{id} {:?} {}", packet.kind, packet.zxid),
            LinkEvent::Snapshot(tree) => format!("{from}->{id} image {}", tree.last_processed()),
            LinkEvent::Closed { reason } => format!("{id} link closed: {reason}"),
            LinkEvent::Accepted
            | LinkEvent::AcceptedObserver
            | LinkEvent::Connected
            | LinkEvent::Progress => return,
        };
        self.say(&line);
    }

    pub(super) fn schedule_storage(&mut self, id: i64, delay: crate::clock::Nanos) {
        let boot = self.node(id).boot;
        self.agenda.after(delay, Event::Storage { node: id, boot });
    }
}

fn observation_line(observation: &Observation) -> String {
    match observation {
        Observation::RoleChanged { role, epoch } => format!("role {role}, currentEpoch {epoch}"),
        Observation::ElectionFinished { leader, zxid } => format!("elected {leader} at {zxid}"),
        Observation::EpochAccepted(epoch) => format!("acceptedEpoch {epoch}"),
        Observation::EpochCurrent(epoch) => format!("currentEpoch {epoch}"),
        Observation::Synchronizing { peer, mode, from, to } => {
            format!("synchronizes {peer} by {mode} from {from} to {to}")
        }
        Observation::Serving { epoch, zxid } => format!("serving epoch {epoch} at {zxid}"),
        Observation::LeftRole { why } => format!("left its role: {why}"),
        Observation::LinkFault { peer, why } => format!("link fault with {peer}: {why}"),
        Observation::DigestMismatch { zxid, .. } => format!("digest mismatch at {zxid}"),
        Observation::DiskFault(text) => format!("disk fault: {text}"),
        Observation::SnapshotStarted { zxid } => format!("snapshot at {zxid}"),
        Observation::SessionExpired(session) => format!("session {session} expired"),
        Observation::Committed { zxid } => format!("committed {zxid}"),
        Observation::Note(text) => format!("note: {text}"),
    }
}
