//! What becomes of each request of an established session (upstream `ZooKeeperServer.processPacket`,
//! `submitRequestNow`).

use bytes::Bytes;
use zk_jute::records::Id;
use zk_jute::request::{Request, RequestHeader};
use zk_jute::{ErrorCode, OpCode, Reader};

use super::fifo::{Read, Ready, Step};
use super::{ClientConn, CloseReason};
use crate::input::{ClientCommand, ClientRequest};
use crate::pipeline::auth::authenticate;
use crate::time::Now;

/// Bytes of xid and type before every request.
const HEADER: usize = 8;
/// A session that is heard from again and again is reported this many times a timeout: what is left unsaid makes it look
/// older than it is by an eighth at most. A fixed least interval would be too much of a short timeout (seed 38275: 100 ms
/// of 300 ms, and two hops of PINGs behind an observer master used up the rest).
const TOUCHES_PER_TIMEOUT: u64 = 8;
/// Identities of one connection. They travel with every write, so they are counted in bytes too: a hundred of a megabyte
/// each would make a packet that no leader reads, and every follower that forwards it would lose its link.
const MAX_IDS: usize = 256;
/// Bytes of all identities of one connection, 256 of them at most.
const MAX_ID_BYTES: usize = 64 << 10;
/// zxid of what belongs to no transaction.
pub(super) const NO_ZXID: i64 = -1;
/// Jute's null buffer: the token in the answer to `sasl` when SASL is not configured.
const NULL_BUFFER: &[u8] = &[0xff; 4];

/// What to do with an operation code.
enum Kind {
    Write,
    CloseSession,
    Read(OpCode),
    Ping,
    Auth,
    Sasl,
    /// Unknown, or not for clients.
    Unimplemented,
}

impl Kind {
    /// Upstream lets clients send `createSession` and `deleteContainer` too, although no client does: the one would move
    /// sessions about, the other delete nodes past their ACL.
    const fn of(op: i32) -> Self {
        let Some(op) = OpCode::from_i32(op) else { return Self::Unimplemented };
        match op {
            OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::SetAcl
            | OpCode::Sync
            | OpCode::Multi
            | OpCode::Reconfig => Self::Write,
            OpCode::CloseSession => Self::CloseSession,
            OpCode::Exists
            | OpCode::GetData
            | OpCode::GetAcl
            | OpCode::GetChildren
            | OpCode::GetChildren2
            | OpCode::MultiRead
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::GetEphemerals
            | OpCode::GetAllChildrenNumber
            | OpCode::AddWatch
            | OpCode::WhoAmI => Self::Read(op),
            OpCode::Ping => Self::Ping,
            OpCode::Auth => Self::Auth,
            OpCode::Sasl => Self::Sasl,
            OpCode::Notification
            | OpCode::Check
            | OpCode::DeleteContainer
            | OpCode::CreateSession
            | OpCode::Error => Self::Unimplemented,
        }
    }
}

impl ClientConn {
    pub(super) fn on_request(&mut self, now: Now, frame: Bytes) {
        if !self.shared.is_serving() {
            return self.close(CloseReason::NotServing);
        }
        let mut reader = Reader::new(frame.clone());
        let RequestHeader { xid, op } = match RequestHeader::decode(&mut reader) {
            Ok(header) => header,
            Err(error) => return self.close(CloseReason::BadHeader(error)),
        };
        self.touch(now);
        let body = frame.slice(HEADER..);
        match Kind::of(op) {
            Kind::Write => self.on_write(now, xid, op, body),
            Kind::CloseSession => {
                self.input_ended = true;
                self.on_write(now, xid, op, body);
            }
            Kind::Read(code) => self.on_read(now, xid, op, decode(code, body)),
            Kind::Ping => self.fifo.push_local(now.mono, Step::Ping),
            Kind::Auth => self.on_auth(now, xid, body),
            // Without SASL configured upstream answers every token with none, and goes on.
            Kind::Sasl => match decode(OpCode::Sasl, body) {
                Ok(_) => self.answer(now, Ready { body: NULL_BUFFER, ..ready(xid, op, 0, ErrorCode::Ok) }),
                Err(code) => self.answer(now, ready(xid, op, 0, code)),
            },
            Kind::Unimplemented => {
                self.input_ended = true;
                let then_close = Some(CloseReason::Unimplemented(op));
                self.answer(now, Ready { then_close, ..ready(xid, op, NO_ZXID, ErrorCode::Unimplemented) });
            }
        }
    }

    fn on_read(&mut self, now: Now, xid: i32, op: i32, request: Result<Request, ErrorCode>) {
        self.fifo.push_local(now.mono, Step::Read(Read { xid, op, request, ids: self.ids.clone() }));
    }

    /// A write that is refused here is answered as a read that fails: in its turn, with the zxid this server is at.
    fn on_write(&mut self, now: Now, xid: i32, op: i32, body: Bytes) {
        // A sync is answered with its path without being prepared, so nobody else would notice.
        if op == OpCode::Sync as i32
            && let Err(code) = decode(OpCode::Sync, body.clone())
        {
            return self.on_read(now, xid, op, Err(code));
        }
        if self.config.read_only && op != OpCode::CloseSession as i32 {
            return self.on_read(now, xid, op, Err(ErrorCode::NotReadOnly));
        }
        let request = ClientRequest { session: self.session, xid, op, body, auth: self.ids.to_vec() };
        if let Some(request) = self.fifo.push_write(now.mono, request) {
            self.commands.push(ClientCommand::Request(request));
        }
    }

    /// New identities count for everything behind this packet; the reply takes its turn.
    fn on_auth(&mut self, now: Now, xid: i32, body: Bytes) {
        let op = OpCode::Auth as i32;
        let Ok(Request::Auth { scheme, auth, .. }) = decode(OpCode::Auth, body) else {
            self.input_ended = true;
            let then_close = Some(CloseReason::AuthFailed("malformed packet".into()));
            return self.answer(now, Ready { then_close, ..ready(xid, op, 0, ErrorCode::AuthFailed) });
        };
        let super_digest = self.config.rules.super_digest.as_deref();
        match authenticate(&scheme, &auth, self.peer_ip, super_digest).and_then(|ids| self.add_ids(ids)) {
            Ok(()) => self.answer(now, ready(xid, op, 0, ErrorCode::Ok)),
            Err(code) => {
                self.input_ended = true;
                let then_close = Some(CloseReason::AuthFailed(scheme.to_string()));
                self.answer(now, Ready { then_close, ..ready(xid, op, 0, code) });
            }
        }
    }

    fn add_ids(&mut self, proved: Vec<Id>) -> Result<(), ErrorCode> {
        let mut ids = self.ids.to_vec();
        for id in proved {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let bytes: usize = ids.iter().map(|id| id.scheme.len() + id.id.len()).sum();
        if ids.len() > MAX_IDS || bytes > MAX_ID_BYTES {
            return Err(ErrorCode::AuthFailed);
        }
        self.ids = ids.into();
        self.shared.watches.lock().set_auth(self.conn, self.session, &self.ids);
        Ok(())
    }

    fn answer(&mut self, now: Now, reply: Ready) {
        self.fifo.push_local(now.mono, Step::Ready(reply));
    }

    fn touch(&mut self, now: Now) {
        let every = u64::from(self.timeout_ms.max(0).unsigned_abs()) / TOUCHES_PER_TIMEOUT;
        if now.mono.ms_since(self.last_touch) >= every {
            self.last_touch = now.mono;
            self.commands.push(ClientCommand::Touch { session: self.session, timeout_ms: self.timeout_ms });
        }
    }
}

/// A body that makes no sense is an answer, not the end of the connection.
fn decode(op: OpCode, body: Bytes) -> Result<Request, ErrorCode> {
    Request::decode(op, &mut Reader::new(body)).map_err(|_| ErrorCode::MarshallingError)
}

fn ready(xid: i32, op: i32, zxid: i64, err: ErrorCode) -> Ready {
    Ready { xid, op, zxid, err: err as i32, body: &[], then_close: None }
}
