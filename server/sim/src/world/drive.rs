//! One input into one peer, and everything that follows from it at the same moment.

use bytes::Bytes;
use zk_core::effect::Port;
use zk_core::facts::Facts;
use zk_core::input::{Input, LinkEvent, LinkId};
use zk_jute::ServerId;
use zk_jute::quorum::PacketType;

use super::World;
use crate::event::Event;
use crate::net::{Carried, Delivery, NetEvent};
use crate::oracle::{Process, Violation};
use crate::trace::FnvWriter;
use crate::wire;

impl World {
    /// Hands `input` to the peer of `id` and carries out what it causes.
    pub(crate) fn input(&mut self, id: i64, input: Input) {
        self.input_only(id, input);
        self.settle(id);
    }

    /// [`World::input`] without waking client connections.
    pub(super) fn input_only(&mut self, id: i64, input: Input) {
        let now = self.agenda.now();
        let text = if self.trace.keeps_lines() { describe(&input) } else { String::new() };
        let node = self.node_mut(id);
        let local = node.clock.at(now);
        let Some(process) = &mut node.proc else { return };
        let mut effects = Vec::new();
        process.peer.handle(local, input, &mut effects);
        let mut digest = FnvWriter::default();
        if self.trace.keeps_lines() {
            use std::fmt::Write as _;
            for effect in &effects {
                let _infallible = write!(digest, "{effect:?};");
            }
        }
        self.trace.step(now, id, &text, digest.0);
        self.carry_out(id, effects);
    }

    /// After an input: tells the oracles where the tree is, wakes connections, sets the next tick.
    pub(super) fn settle(&mut self, id: i64) {
        self.check_applied(id);
        self.drive_conns(id);
        self.schedule_tick(id);
        self.storage_begin(id);
    }

    pub(crate) fn facts(&self, id: i64) -> Option<Facts> {
        self.node(id).proc.as_ref().map(|process| process.peer.facts())
    }

    /// Something arrives over the network.
    pub(super) fn arrive(&mut self, event: NetEvent) {
        let now = self.agenda.now();
        if let Some(delivery) = self.net.arrive(now, event) {
            self.deliver(delivery);
        }
    }

    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Vote { from, to, bytes } => self.deliver_vote(from, to, bytes),
            Delivery::Link { node, boot, id, carried, .. } => {
                if self.runs(node, boot) {
                    self.deliver_link(node, boot, id, carried);
                }
            }
        }
    }

    fn deliver_vote(&mut self, from: i64, to: i64, bytes: Bytes) {
        match wire::decode_vote(bytes) {
            Ok(notification) => self.input(to, Input::Vote { from: ServerId(from), notification }),
            Err(text) => self.oracles.check(Err(Violation::new("Codec", text))),
        }
    }

    fn deliver_link(&mut self, node: i64, boot: u64, link: LinkId, carried: Carried) {
        let event = match carried {
            Carried::Open(Port::Quorum) => LinkEvent::Accepted,
            Carried::Open(Port::ObserverMaster) => LinkEvent::AcceptedObserver,
            Carried::Opened => LinkEvent::Connected,
            Carried::Closed(reason) => LinkEvent::Closed { reason },
            Carried::Packet(bytes) => match wire::decode_packet(&bytes) {
                Ok(packet) => {
                    self.oracles.received(Process { node, boot }, link, &packet);
                    if packet.kind == PacketType::Snap
                        && let Some(process) = &mut self.node_mut(node).proc
                    {
                        process.snap_zxid.insert(link, packet.zxid);
                    }
                    LinkEvent::Packet(packet)
                }
                Err(text) => return self.oracles.check(Err(Violation::new("Codec", text))),
            },
            Carried::Image(bytes) => {
                let zxid = self.node(node).proc.as_ref().and_then(|process| process.snap_zxid.get(&link));
                match wire::decode_image(&bytes, zxid.copied().unwrap_or_default()) {
                    Ok(tree) => LinkEvent::Snapshot(Box::new(tree)),
                    Err(text) => return self.oracles.check(Err(Violation::new("Codec", text))),
                }
            }
        };
        self.say_event(node, link, &event);
        self.input(node, Input::Link { link, event });
    }

    /// The tree may have moved: every transaction it took in must be the one history's.
    pub(super) fn check_applied(&mut self, id: i64) {
        let Some(process) = &mut self.node_mut(id).proc else { return };
        let (zxid, digest) = {
            let tree = process.shared.tree.read();
            (tree.last_processed(), tree.digest())
        };
        let before = process.applied.replace(zxid);
        if before == Some(zxid) {
            return;
        }
        let from = before.unwrap_or(zxid).min(zxid);
        self.oracles.applied(id, from, zxid, digest);
    }

    fn schedule_tick(&mut self, id: i64) {
        let node = self.node_mut(id);
        let (boot, clock) = (node.boot, node.clock);
        let Some(process) = &mut node.proc else { return };
        let conns = process.conns.values().filter_map(|server| server.conn.next_deadline()).min();
        let deadline = [process.peer.next_deadline(), conns].into_iter().flatten().min();
        let Some(deadline) = deadline else { return };
        let at = clock.when(deadline);
        if process.tick_at.is_none_or(|scheduled| at < scheduled) {
            process.tick_at = Some(at);
            self.agenda.at(at, Event::Tick { node: id, boot });
        }
    }
}

/// One line for an input; large values by their size or end only.
fn describe(input: &Input) -> String {
    match input {
        Input::Link { link, event: LinkEvent::Snapshot(tree) } => {
            format!("Link {link:?} Snapshot zxid {} digest {:x}", tree.last_processed(), tree.digest())
        }
        Input::Link { link, event: LinkEvent::Packet(packet) } => {
            let hash = crate::trace::fnv(packet.data.as_deref().unwrap_or_default());
            format!("Link {link:?} {:?} {} data {hash:016x}", packet.kind, packet.zxid)
        }
        Input::Persisted { io, result } => match result {
            Ok(zk_core::input::Persisted::Loaded(found)) => format!(
                "Persisted {io:?} Loaded image {} last {} epochs {}/{} no_history {}",
                found.tree.last_processed(),
                found.last_logged,
                found.accepted,
                found.current,
                found.no_history
            ),
            Ok(zk_core::input::Persisted::Done) => format!("Persisted {io:?}"),
            Err(error) => format!("Persisted {io:?} {error}"),
        },
        other => format!("{other:?}"),
    }
}
