//! What learners say to their leader, by state of the conversation (upstream `LearnerHandler.run`).
//!
//! A packet that does not belong closes that link and nothing else.

use zk_jute::quorum::{LearnerInfo, PacketType, QuorumPacket};
use zk_jute::records::Id;
use zk_jute::{Epoch, OpCode, Reader, ServerId, SessionId, Zxid};

use super::base::{Ctx, Flow, Leave};
use super::leader::{Leader, Phase};
use super::learner_handler::{HandlerState, LearnerHandler, with_data};
use crate::effect::Effect;
use crate::input::{LinkEvent, LinkId};
use crate::pipeline::ProposedRequest;
use crate::session::{decode_ping, decode_revalidate, encode_revalidate_reply};

/// Learners at once: members of one ensemble, with room for reconnects that overlap. 256 handlers of about 100 bytes.
const HANDLERS_MAX: usize = 256;

/// Why a link must be closed.
type Refusal = String;

/// A client request as it travels from learner to leader: session, xid, operation, then the record.
#[derive(Debug)]
pub(crate) struct ForwardedRequest {
    pub session: SessionId,
    pub cxid: i32,
    pub op: i32,
    pub body: bytes::Bytes,
    pub auth: Vec<Id>,
}

impl ForwardedRequest {
    /// Reads the data of a REQUEST packet.
    pub(crate) fn decode(packet: &QuorumPacket) -> Result<Self, Refusal> {
        let data = packet.data.clone().ok_or("REQUEST without data")?;
        let mut reader = Reader::new(data.clone());
        let mut head =
            || -> Result<_, zk_jute::DecodeError> { Ok((reader.i64()?, reader.i32()?, reader.i32()?)) };
        let (session, cxid, op) = head().map_err(|error| format!("REQUEST: {error}"))?;
        let auth = packet.auth_info.clone().unwrap_or_default();
        Ok(Self { session: SessionId(session), cxid, op, body: data.slice(16..), auth })
    }

    /// The packet for a request.
    pub(crate) fn encode(&self) -> QuorumPacket {
        let mut data = Vec::with_capacity(16 + self.body.len());
        data.extend_from_slice(&self.session.0.to_be_bytes());
        data.extend_from_slice(&self.cxid.to_be_bytes());
        data.extend_from_slice(&self.op.to_be_bytes());
        data.extend_from_slice(&self.body);
        QuorumPacket {
            kind: PacketType::Request,
            zxid: Zxid(-1),
            data: Some(data.into()),
            auth_info: Some(self.auth.clone()),
        }
    }
}

/// What FOLLOWERINFO and OBSERVERINFO carry, or why it is refused.
pub(crate) fn introduction(packet: &QuorumPacket, config_version: i64) -> Result<LearnerInfo, Refusal> {
    let data = packet.data.clone().ok_or("a learner that does not tell its id")?;
    let info =
        LearnerInfo::decode(&mut Reader::new(data)).map_err(|error| format!("learner info: {error}"))?;
    if info.config_version > config_version {
        return Err("the follower is ahead of the leader (has a later activated configuration)".into());
    }
    Ok(info)
}

/// Current epoch (-1: does not count) and last logged zxid of an ACKEPOCH.
fn epoch_acknowledgement(packet: &QuorumPacket) -> Result<(i32, Zxid), Refusal> {
    let data = packet.data.clone().ok_or("ACKEPOCH without the current epoch")?;
    let epoch = Reader::new(data).i32().map_err(|error| format!("ACKEPOCH: {error}"))?;
    Ok((epoch, packet.zxid))
}

impl Leader {
    /// Something happened on a learner's link.
    pub(crate) fn link(&mut self, ctx: &mut Ctx<'_>, link: LinkId, event: LinkEvent) -> Flow {
        match event {
            LinkEvent::Accepted => self.accept(ctx, link),
            LinkEvent::Packet(packet) => self.packet(ctx, link, &packet)?,
            LinkEvent::Closed { .. } => {
                self.handlers.remove(&link);
            }
            LinkEvent::Progress => {
                if let Some(handler) = self.handlers.get_mut(&link) {
                    handler.last_heard = ctx.now.mono;
                }
            }
            LinkEvent::AcceptedObserver | LinkEvent::Connected | LinkEvent::Snapshot(_) => {
                ctx.out.emit(Effect::Close { link, reason: "not for a leader".into() });
            }
        }
        Ok(())
    }

    fn accept(&mut self, ctx: &mut Ctx<'_>, link: LinkId) {
        if self.handlers.len() >= HANDLERS_MAX || self.is_resigning() {
            ctx.out.emit(Effect::Close { link, reason: "no more learners".into() });
            return;
        }
        self.handlers.insert(link, LearnerHandler::new(link, ctx.now.mono));
    }

    fn packet(&mut self, ctx: &mut Ctx<'_>, link: LinkId, packet: &QuorumPacket) -> Flow {
        let Some(handler) = self.handlers.get_mut(&link) else { return Ok(()) };
        handler.last_heard = ctx.now.mono;
        let result = match (handler.state, packet.kind) {
            (HandlerState::Connected, PacketType::FollowerInfo | PacketType::ObserverInfo) => {
                self.introduce(ctx, link, packet)
            }
            (HandlerState::Informed, PacketType::AckEpoch) => self.epoch_acknowledged(ctx, link, packet),
            (HandlerState::Syncing, PacketType::Ack) => self.new_leader_acknowledged(ctx, link, packet),
            (HandlerState::Synced | HandlerState::Serving, kind) => {
                self.conversation(ctx, link, kind, packet)
            }
            (state, kind) => Ok(Err(format!("{kind:?} while {state:?}"))),
        };
        match result? {
            Ok(()) => Ok(()),
            Err(refusal) => {
                self.drop_learner(ctx, link, &refusal);
                Ok(())
            }
        }
    }

    fn introduce(
        &mut self,
        ctx: &mut Ctx<'_>,
        link: LinkId,
        packet: &QuorumPacket,
    ) -> Result<Result<(), Refusal>, Leave> {
        let info = match introduction(packet, ctx.base.membership.version) {
            Ok(info) => info,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // A member that comes again has lost its earlier link, even if we have not noticed yet.
        if let Some(older) = self.link_of(info.server_id) {
            self.drop_learner(ctx, older, "connected again");
        }
        // A Java member without history says -1: it has accepted nothing.
        let accepted = if packet.zxid.0 < 0 { Epoch(0) } else { packet.zxid.epoch() };
        if let Some(handler) = self.handlers.get_mut(&link) {
            handler.sid = info.server_id;
            handler.voter =
                packet.kind == PacketType::FollowerInfo && ctx.base.quorum.is_voter(info.server_id);
            handler.accepted_epoch = accepted;
            handler.state = HandlerState::Introduced;
        }
        let voter = self.handlers.get(&link).is_some_and(|handler| handler.voter);
        match self.phase {
            Phase::Discovery => self.choose_epoch(ctx)?,
            Phase::AcceptingEpoch => {}
            // It was part of a leadership that failed before anybody else heard of its epoch, and may not follow an older
            // one. Upstream lets it knock for ever; one more election takes everybody past that epoch.
            _ if voter && accepted > self.epoch => {
                let sid = info.server_id;
                return Err(Leave::because(format!(
                    "voter {sid} has accepted epoch {accepted}, newer than ours"
                )));
            }
            Phase::Agreeing | Phase::EnteringEpoch | Phase::Synchronization | Phase::Broadcast => {
                self.inform(ctx, link);
            }
        }
        Ok(Ok(()))
    }

    fn epoch_acknowledged(
        &mut self,
        ctx: &mut Ctx<'_>,
        link: LinkId,
        packet: &QuorumPacket,
    ) -> Result<Result<(), Refusal>, Leave> {
        let (epoch, last_logged) = match epoch_acknowledgement(packet) {
            Ok(acknowledgement) => acknowledgement,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let deciding = matches!(self.phase, Phase::Agreeing | Phase::AcceptingEpoch);
        let mine = (i64::from(ctx.base.epochs.current.0), self.initial_end);
        if deciding && epoch != -1 && (i64::from(epoch), last_logged) > mine {
            // That learner only, as upstream: with a quorum of others it is let in later, and cut to our history.
            return Ok(Err(format!("the learner is ahead: epoch {epoch}, zxid {last_logged}")));
        }
        let Some(handler) = self.handlers.get_mut(&link) else { return Ok(Ok(())) };
        handler.last_logged = last_logged;
        handler.state = HandlerState::Agreed;
        // -1: it had accepted this epoch before and its agreement does not count again; it is still synchronized.
        let counts = epoch != -1;
        match self.phase {
            Phase::Discovery | Phase::AcceptingEpoch | Phase::Agreeing | Phase::EnteringEpoch => {
                handler.counts_for_epoch = counts;
                self.agree(ctx)?;
            }
            Phase::Synchronization | Phase::Broadcast => self.synchronize(ctx, link),
        }
        Ok(Ok(()))
    }

    fn new_leader_acknowledged(
        &mut self,
        ctx: &mut Ctx<'_>,
        link: LinkId,
        packet: &QuorumPacket,
    ) -> Result<Result<(), Refusal>, Leave> {
        // Followers of releases 3.8 to 3.9.1 log on another thread than the one that acknowledges NEWLEADER: their ACK of a
        // proposal may come first. It counts once they are synced.
        if packet.zxid.counter() != 0 && packet.zxid.epoch() == self.epoch {
            if let Some(handler) = self.handlers.get_mut(&link) {
                handler.acknowledge(packet.zxid);
            }
            return Ok(Ok(()));
        }
        if packet.zxid != self.new_leader_zxid() {
            return Ok(Err(format!("ACK {} where {} was due", packet.zxid, self.new_leader_zxid())));
        }
        if let Some(handler) = self.handlers.get_mut(&link) {
            handler.state = HandlerState::Synced;
        }
        if self.phase == Phase::Broadcast {
            self.admit(ctx, link);
            // What it acknowledged before may be all that a proposal waits for.
            self.commit(ctx)?;
        } else {
            self.establish(ctx)?;
        }
        Ok(Ok(()))
    }

    fn conversation(
        &mut self,
        ctx: &mut Ctx<'_>,
        link: LinkId,
        kind: PacketType,
        packet: &QuorumPacket,
    ) -> Result<Result<(), Refusal>, Leave> {
        match kind {
            PacketType::Ack => {
                self.acknowledged(ctx, link, packet.zxid)?;
                Ok(Ok(()))
            }
            PacketType::Ping => Ok(self.touches(ctx, packet)),
            PacketType::Revalidate => Ok(self.revalidate(ctx, link, packet)),
            PacketType::Request => self.request(ctx, link, packet),
            other => Ok(Err(format!("unexpected {other:?}"))),
        }
    }

    fn acknowledged(&mut self, ctx: &mut Ctx<'_>, link: LinkId, zxid: Zxid) -> Flow {
        // (epoch, 0) acknowledges UPTODATE and names no transaction.
        if zxid.counter() == 0 {
            return Ok(());
        }
        if let Some(handler) = self.handlers.get_mut(&link).filter(|handler| handler.voter) {
            handler.acknowledge(zxid);
        }
        self.commit(ctx)
    }

    fn touches(&mut self, ctx: &mut Ctx<'_>, packet: &QuorumPacket) -> Result<(), Refusal> {
        let touched = decode_ping(packet.data.as_ref()).map_err(|error| format!("PING: {error}"))?;
        if let Some(primary) = &mut self.primary {
            for (session, timeout_ms) in touched {
                primary.touch(session, timeout_ms, ctx);
            }
        }
        Ok(())
    }

    fn revalidate(&mut self, ctx: &mut Ctx<'_>, link: LinkId, packet: &QuorumPacket) -> Result<(), Refusal> {
        let data = packet.data.as_ref().ok_or("REVALIDATE without data")?;
        let (session, timeout_ms) =
            decode_revalidate(data).map_err(|error| format!("REVALIDATE: {error}"))?;
        let Some(handler) = self.handlers.get(&link) else { return Ok(()) };
        let owner = handler.sid;
        let valid =
            self.primary.as_mut().is_some_and(|primary| primary.revalidate(session, timeout_ms, owner, ctx));
        let reply = encode_revalidate_reply(session, valid);
        handler.send(with_data(PacketType::Revalidate, Zxid(-1), reply), ctx.out);
        Ok(())
    }

    fn request(
        &mut self,
        ctx: &mut Ctx<'_>,
        link: LinkId,
        packet: &QuorumPacket,
    ) -> Result<Result<(), Refusal>, Leave> {
        let request = match ForwardedRequest::decode(packet) {
            Ok(request) => request,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let owner = self.handlers.get(&link).map_or(ServerId(0), |handler| handler.sid);
        let resigning = self.is_resigning();
        let Some(primary) = self.primary.as_mut().filter(|_| !resigning) else {
            // Not answered: the learner's role ends with this leadership, and its clients learn of the lost connection.
            return Ok(Ok(()));
        };
        if request.op == OpCode::Sync as i32 {
            primary.learner_sync(ctx, link);
            self.answer_syncs(ctx);
            return Ok(Ok(()));
        }
        let ForwardedRequest { session, cxid, op, body, auth } = request;
        let txns = primary.submit(ctx, &ProposedRequest { session, cxid, op, body, auth, owner })?;
        self.propose(ctx, &txns);
        Ok(Ok(()))
    }
}
