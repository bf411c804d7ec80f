//! A follower that serves observers (upstream `ObserverMaster`).
//!
//! It is fed from one place, the transactions this follower applies, whether they came during its own synchronization or
//! after it: there is no second queue of proposals that could miss one (ZOOKEEPER-5088).

use std::collections::BTreeMap;

use zk_jute::quorum::{LEARNER_PROTOCOL_VERSION, PacketType, QuorumPacket};
use zk_jute::txn::LoggedTxn;
use zk_jute::{Epoch, OpCode, SessionId, Zxid};

use super::base::Ctx;
use super::leader_requests::{ForwardedRequest, introduction};
use super::learner_handler::{HandlerState, LearnerHandler, bare, with_data};
use crate::effect::{Effect, Observation, Sink};
use crate::input::{LinkEvent, LinkId};
use crate::session::{decode_ping, decode_revalidate};
use crate::time::Instant;

/// Observers of one follower. 256 handlers of about 100 bytes.
const OBSERVERS_MAX: usize = 256;
/// Re-attachments under way at once through one observer master: 64 Ki of 16 bytes.
const REVALIDATIONS_MAX: usize = 65_536;

/// What an observer wants passed on to the leader.
#[derive(Debug)]
pub(crate) enum Forward {
    Packet(QuorumPacket),
    /// A sync: its answer comes back in order.
    Sync(QuorumPacket),
    Touches(Vec<(SessionId, i32)>),
}

/// The observers of one follower.
#[derive(Debug)]
pub(crate) struct ObserverMaster {
    epoch: Epoch,
    handlers: BTreeMap<LinkId, LearnerHandler>,
    revalidations: BTreeMap<SessionId, LinkId>,
    next_ping: Instant,
}

impl ObserverMaster {
    pub(crate) const fn new(epoch: Epoch, now: Instant) -> Self {
        Self { epoch, handlers: BTreeMap::new(), revalidations: BTreeMap::new(), next_ping: now }
    }

    /// Its learners, for the facts.
    pub(crate) fn handlers(&self) -> impl Iterator<Item = &LearnerHandler> {
        self.handlers.values()
    }

    /// Sends one applied transaction to every observer that is forwarded to.
    pub(crate) fn inform(&mut self, txn: &LoggedTxn, out: &mut dyn Sink) {
        for handler in self.handlers.values_mut().filter(|handler| handler.is_forwarding()) {
            handler.queue_txn(PacketType::Inform, txn, out);
        }
    }

    /// Something happened on an observer's link; returns what must go to the leader.
    pub(crate) fn link(&mut self, ctx: &mut Ctx<'_>, link: LinkId, event: LinkEvent) -> Option<Forward> {
        match event {
            LinkEvent::AcceptedObserver if self.handlers.len() < OBSERVERS_MAX => {
                self.handlers.insert(link, LearnerHandler::new(link, ctx.now.mono));
                None
            }
            LinkEvent::Packet(packet) => match self.packet(ctx, link, &packet) {
                Ok(forward) => forward,
                Err(refusal) => {
                    self.drop_observer(ctx, link, refusal);
                    None
                }
            },
            LinkEvent::Closed { .. } => {
                self.handlers.remove(&link);
                None
            }
            LinkEvent::Progress => {
                if let Some(handler) = self.handlers.get_mut(&link) {
                    handler.last_heard = ctx.now.mono;
                }
                None
            }
            LinkEvent::AcceptedObserver
            | LinkEvent::Accepted
            | LinkEvent::Connected
            | LinkEvent::Snapshot(_) => {
                ctx.out.emit(Effect::Close { link, reason: "not for an observer master".into() });
                None
            }
        }
    }

    fn packet(
        &mut self,
        ctx: &mut Ctx<'_>,
        link: LinkId,
        packet: &QuorumPacket,
    ) -> Result<Option<Forward>, String> {
        let Some(handler) = self.handlers.get_mut(&link) else { return Ok(None) };
        handler.last_heard = ctx.now.mono;
        match (handler.state, packet.kind) {
            (HandlerState::Connected, PacketType::ObserverInfo) => {
                let info = introduction(packet, ctx.base.membership.version)?;
                handler.sid = info.server_id;
                handler.state = HandlerState::Informed;
                let version = bytes::Bytes::copy_from_slice(&LEARNER_PROTOCOL_VERSION.to_be_bytes());
                handler.send(with_data(PacketType::LeaderInfo, Zxid::new(self.epoch, 0), version), ctx.out);
            }
            (HandlerState::Informed, PacketType::AckEpoch) => {
                // An observer that another member has brought further is not cut back: it finds one that is as far, or
                // the leader.
                if packet.zxid > ctx.base.journal.applied {
                    return Err(format!("the observer is at {}, ahead of us", packet.zxid));
                }
                handler.last_logged = packet.zxid;
                let config = bytes::Bytes::from(ctx.base.membership.to_text());
                let new_leader = with_data(PacketType::NewLeader, Zxid::new(self.epoch, 0), config);
                // Only what is applied here: an observer is never ahead of its master.
                let applied = ctx.base.journal.applied;
                handler.synchronize(ctx, applied, new_leader);
            }
            (HandlerState::Syncing, PacketType::Ack) => {
                handler.state = HandlerState::Serving;
                handler.send(bare(PacketType::UpToDate, Zxid(-1)), ctx.out);
            }
            (HandlerState::Serving, kind) => return self.conversation(link, kind, packet),
            (state, kind) => return Err(format!("{kind:?} while {state:?}")),
        }
        Ok(None)
    }

    fn conversation(
        &mut self,
        link: LinkId,
        kind: PacketType,
        packet: &QuorumPacket,
    ) -> Result<Option<Forward>, String> {
        match kind {
            PacketType::Ack => Ok(None),
            PacketType::Ping => {
                let touched = decode_ping(packet.data.as_ref()).map_err(|error| format!("PING: {error}"))?;
                Ok(Some(Forward::Touches(touched)))
            }
            PacketType::Revalidate => {
                let data = packet.data.as_ref().ok_or("REVALIDATE without data")?;
                let (session, _) = decode_revalidate(data).map_err(|error| format!("REVALIDATE: {error}"))?;
                if self.revalidations.len() >= REVALIDATIONS_MAX {
                    return Err("too many sessions re-attach at once".into());
                }
                self.revalidations.insert(session, link);
                Ok(Some(Forward::Packet(packet.clone())))
            }
            PacketType::Request => {
                let request = ForwardedRequest::decode(packet)?;
                let packet = packet.clone();
                let sync = request.op == OpCode::Sync as i32;
                Ok(Some(if sync { Forward::Sync(packet) } else { Forward::Packet(packet) }))
            }
            other => Err(format!("unexpected {other:?}")),
        }
    }

    /// Passes the leader's answer to a re-attachment on; false if no observer asked for it.
    pub(crate) fn revalidated(
        &mut self,
        session: SessionId,
        packet: &QuorumPacket,
        out: &mut dyn Sink,
    ) -> bool {
        let Some(link) = self.revalidations.remove(&session) else { return false };
        if self.handlers.contains_key(&link) {
            out.emit(Effect::Send { link, packet: packet.clone() });
        }
        true
    }

    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) {
        if self.next_ping > ctx.now.mono {
            return;
        }
        self.next_ping = ctx.now.mono.plus_ms((ctx.base.config.tick_ms / 2).max(1));
        let serving_ms = ctx.base.ticks_ms(ctx.base.config.sync_limit);
        let syncing_ms = ctx.base.ticks_ms(ctx.base.config.init_limit + ctx.base.config.sync_limit);
        let now = ctx.now.mono;
        let mut overdue = Vec::new();
        for handler in self.handlers.values() {
            let limit = if handler.state == HandlerState::Serving { serving_ms } else { syncing_ms };
            if handler.is_overdue(now, limit) {
                overdue.push(handler.link);
            } else if handler.state == HandlerState::Serving {
                handler.send(bare(PacketType::Ping, ctx.base.journal.applied), ctx.out);
            }
        }
        for link in overdue {
            self.drop_observer(ctx, link, "silent for too long".into());
        }
    }

    pub(crate) const fn next_deadline(&self) -> Instant {
        self.next_ping
    }

    fn drop_observer(&mut self, ctx: &mut Ctx<'_>, link: LinkId, why: String) {
        if let Some(handler) = self.handlers.remove(&link) {
            ctx.observe(Observation::LinkFault { peer: handler.sid, why: why.clone() });
            ctx.out.emit(Effect::Close { link, reason: why });
        }
    }

    pub(crate) fn close_all(&mut self, ctx: &mut Ctx<'_>, why: &str) {
        for link in std::mem::take(&mut self.handlers).into_keys() {
            ctx.out.emit(Effect::Close { link, reason: why.to_owned() });
        }
    }
}
