//! A follower that serves observers (upstream `ObserverMaster`).
//!
//! It is fed from one place, the transactions this follower applies, whether they came during its own synchronization or
//! after it: there is no second queue of proposals that could miss one (ZOOKEEPER-5088).

use std::collections::{BTreeMap, VecDeque};

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

/// Whose answer it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RevalidatedFor {
    /// A client of this member.
    Here,
    /// An observer's client: it is on its way.
    Observer,
}

/// The observers of one follower.
#[derive(Debug)]
pub(crate) struct ObserverMaster {
    epoch: Epoch,
    handlers: BTreeMap<LinkId, LearnerHandler>,
    /// Who asked for a session, oldest first: the leader answers in order. `None` is a client of this member.
    revalidations: BTreeMap<SessionId, VecDeque<Option<LinkId>>>,
    /// Of observers, in all.
    revalidating: usize,
    next_ping: Instant,
}

impl ObserverMaster {
    pub(crate) const fn new(epoch: Epoch, now: Instant) -> Self {
        Self {
            epoch,
            handlers: BTreeMap::new(),
            revalidations: BTreeMap::new(),
            revalidating: 0,
            next_ping: now,
        }
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
                if self.revalidating >= REVALIDATIONS_MAX {
                    return Err("too many sessions re-attach at once".into());
                }
                self.revalidating += 1;
                self.revalidations.entry(session).or_default().push_back(Some(link));
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

    /// A client of this member asks for a session. Bound: as that of the clients that re-attach.
    pub(crate) fn revalidating_here(&mut self, session: SessionId) {
        self.revalidations.entry(session).or_default().push_back(None);
    }

    /// The leader has answered the oldest request for this session: an observer's answer is passed on.
    pub(crate) fn revalidated(
        &mut self,
        session: SessionId,
        packet: &QuorumPacket,
        out: &mut dyn Sink,
    ) -> RevalidatedFor {
        let Some(asked) = self.revalidations.get_mut(&session) else { return RevalidatedFor::Here };
        let oldest = asked.pop_front().flatten();
        if asked.is_empty() {
            self.revalidations.remove(&session);
        }
        let Some(link) = oldest else { return RevalidatedFor::Here };
        self.revalidating -= 1;
        if self.handlers.contains_key(&link) {
            out.emit(Effect::Send { link, packet: packet.clone() });
        }
        RevalidatedFor::Observer
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

#[cfg(test)]
mod tests {
    use super::*;

    fn revalidate(session: SessionId) -> QuorumPacket {
        with_data(PacketType::Revalidate, Zxid(-1), crate::session::encode_revalidate(session, 1000))
    }

    /// Fault: of two that asked for one session before the first answer, the later one got both, and the other waited
    /// until its client gave up.
    #[test]
    fn each_answer_to_a_re_attachment_goes_to_whoever_asked_first() {
        let (first, second, session) = (LinkId(1), LinkId(2), SessionId(9));
        let mut master = ObserverMaster::new(Epoch(1), Instant(0));
        for link in [first, second] {
            master.handlers.insert(link, LearnerHandler::new(link, Instant(0)));
        }
        let ask = |master: &mut ObserverMaster, link| {
            let forward = master.conversation(link, PacketType::Revalidate, &revalidate(session));
            assert!(matches!(forward, Ok(Some(Forward::Packet(_)))));
        };
        ask(&mut master, first);
        master.revalidating_here(session);
        ask(&mut master, second);
        let mut answered = |wanted: RevalidatedFor| {
            let mut out: Vec<Effect> = Vec::new();
            assert_eq!(master.revalidated(session, &revalidate(session), &mut out), wanted);
            out.iter().find_map(|effect| match effect {
                Effect::Send { link, .. } => Some(*link),
                _ => None,
            })
        };
        assert_eq!(answered(RevalidatedFor::Observer), Some(first));
        assert_eq!(answered(RevalidatedFor::Here), None);
        assert_eq!(answered(RevalidatedFor::Observer), Some(second));
        assert!(master.revalidations.is_empty() && master.revalidating == 0, "nothing is kept");
    }
}
