//! What a learner does for clients and observers that are connected to it (upstream `FollowerRequestProcessor`,
//! `ObserverRequestProcessor`, `LearnerZooKeeperServer`).

use bytes::Bytes;
use zk_jute::quorum::{PacketType, QuorumPacket};
use zk_jute::{OpCode, SessionId, Zxid};

use super::base::{Ctx, Flow};
use super::clients::{Clients, Opening};
use super::leader_requests::ForwardedRequest;
use super::learner::{Learner, Stage, SyncOrigin, answer_observers};
use super::learner_handler::with_data;
use super::observer_master::{Forward, RevalidatedFor};
use super::primary::sync_path;
use crate::effect::{ClientMessage, Effect};
use crate::input::{ClientCommand, ClientRequest, ConnId, LinkEvent, LinkId};
use crate::session::{encode_ping, encode_revalidate};

impl Learner {
    /// A client connected to this member.
    pub(crate) fn client(&mut self, ctx: &mut Ctx<'_>, conn: ConnId, command: ClientCommand) {
        if self.stage != Stage::Broadcast {
            ctx.base.clients.disconnected(conn);
            Clients::tell(conn, ClientMessage::Close, ctx.out);
            return;
        }
        match command {
            ClientCommand::CreateSession { timeout_ms } => self.create_session(ctx, conn, timeout_ms),
            ClientCommand::Reattach { session, timeout_ms } => {
                ctx.base.clients.reattaching(session, Opening { conn, timeout_ms }, ctx.out);
                if let Some(master) = &mut self.master {
                    master.revalidating_here(session);
                }
                let data = encode_revalidate(session, timeout_ms);
                self.send(ctx, with_data(PacketType::Revalidate, Zxid(-1), data));
            }
            ClientCommand::Request(request) => self.client_request(ctx, conn, request),
            ClientCommand::Touch { session, timeout_ms } => self.sessions.touch(session, timeout_ms),
            ClientCommand::Disconnected => ctx.base.clients.disconnected(conn),
        }
    }

    /// The learner names the session; the leader creates it by a transaction like any other.
    fn create_session(&mut self, ctx: &mut Ctx<'_>, conn: ConnId, timeout_ms: i32) {
        let session = {
            let tree = ctx.base.shared.tree.read();
            self.sessions.next_id(|id| tree.session_timeout(id).is_some())
        };
        ctx.base.clients.creating(session, Opening { conn, timeout_ms });
        let body = Bytes::copy_from_slice(&timeout_ms.to_be_bytes());
        let op = OpCode::CreateSession as i32;
        self.send(ctx, ForwardedRequest { session, cxid: 0, op, body, auth: Vec::new() }.encode());
    }

    fn client_request(&mut self, ctx: &mut Ctx<'_>, conn: ConnId, request: ClientRequest) {
        if !ctx.base.clients.owns(conn, request.session) {
            Clients::tell(conn, ClientMessage::Close, ctx.out);
            return;
        }
        let ClientRequest { session, xid, op, body, auth } = request;
        if op == OpCode::Sync as i32 {
            self.syncs.push_back(SyncOrigin::Client(session));
            ctx.base.clients.syncing(session, conn, xid, sync_path(&body), None);
        } else {
            ctx.base.clients.waiting(session, conn, xid);
        }
        self.send(ctx, ForwardedRequest { session, cxid: xid, op, body, auth }.encode());
    }

    /// PING: tells the leader which sessions were heard from.
    pub(super) fn answer_ping(&mut self, ctx: &mut Ctx<'_>) {
        let touched = self.sessions.drain();
        self.send(ctx, with_data(PacketType::Ping, ctx.base.journal.appended, encode_ping(&touched)));
    }

    /// The leader has answered a re-attachment: one of our clients', or an observer's.
    pub(super) fn session_revalidated(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionId,
        valid: bool,
        packet: &QuorumPacket,
    ) {
        if let Some(master) = &mut self.master
            && master.revalidated(session, packet, ctx.out) == RevalidatedFor::Observer
        {
            return;
        }
        ctx.base.clients.reattached(session, valid, ctx.out);
    }

    /// The leader has answered the oldest sync: everything committed before it has its COMMIT here already, but our own
    /// log may still be behind.
    pub(super) fn sync_settled(&mut self, ctx: &mut Ctx<'_>) {
        let (committed, applied) = (ctx.base.journal.committed, ctx.base.journal.applied);
        match self.syncs.pop_front() {
            Some(SyncOrigin::Client(session)) => {
                ctx.base.clients.settle_sync(session, committed);
                ctx.base.clients.answer_syncs(applied, ctx.out);
            }
            Some(SyncOrigin::Observer(link)) => {
                self.settled_syncs.push_back((committed, link));
                self.settled_syncs = answer_observers(std::mem::take(&mut self.settled_syncs), applied, ctx);
            }
            None => {}
        }
    }

    /// Something happened on an observer's link.
    pub(super) fn observer_link(&mut self, ctx: &mut Ctx<'_>, link: LinkId, event: LinkEvent) -> Flow {
        let Some(master) = &mut self.master else {
            if !matches!(event, LinkEvent::Closed { .. }) {
                ctx.out.emit(Effect::Close { link, reason: "not serving observers".into() });
            }
            return Ok(());
        };
        match master.link(ctx, link, event) {
            Some(Forward::Touches(touched)) => {
                for (session, timeout_ms) in touched {
                    self.sessions.touch(session, timeout_ms);
                }
            }
            Some(Forward::Sync(packet)) => {
                self.syncs.push_back(SyncOrigin::Observer(link));
                self.send(ctx, packet);
            }
            Some(Forward::Packet(packet)) => self.send(ctx, packet),
            None => {}
        }
        Ok(())
    }
}
