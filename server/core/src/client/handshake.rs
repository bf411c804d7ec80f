//! From the connect request to the session (upstream `ZooKeeperServer.processConnectRequest`, `reopenSession`,
//! `finishSessionInit`).

use bytes::Bytes;
use zk_jute::request::{ConnectRequest, ConnectResponse};
use zk_jute::{Reader, SessionId, Zxid, session_password};

use super::conn::Phase;
use super::frame::put_frame;
use super::{ClientConn, CloseReason};
use crate::input::ClientCommand;
use crate::time::Now;

impl ClientConn {
    pub(super) fn on_connect_request(&mut self, now: Now, frame: Bytes) {
        if let Err(reason) = self.connect(now, frame) {
            self.close(reason);
        }
    }

    /// Checks in upstream's order, then asks the core for the session.
    fn connect(&mut self, now: Now, frame: Bytes) -> Result<(), CloseReason> {
        if !self.shared.is_serving() {
            return Err(CloseReason::NotServing);
        }
        let request =
            ConnectRequest::decode(&mut Reader::new(frame)).map_err(CloseReason::BadConnectRequest)?;
        if self.config.read_only && request.read_only != Some(true) {
            return Err(CloseReason::NotReadOnlyClient);
        }
        let (seen, ours) = (Zxid(request.last_zxid_seen), self.shared.tree.read().last_processed());
        if seen > ours {
            // What the client has seen must not be undone before its eyes: it has to find a server that is as far.
            return Err(CloseReason::ZxidAhead { seen, ours });
        }
        self.timeout_ms = self.config.negotiate(request.timeout_ms);
        self.phase = Phase::Connecting { read_only: request.read_only };
        self.last_touch = now.mono;
        let session = SessionId(request.session_id);
        if session.0 == 0 {
            self.core_knows = true;
            self.commands.push(ClientCommand::CreateSession { timeout_ms: self.timeout_ms });
        } else if *request.password == session_password(session) {
            self.session = session;
            self.core_knows = true;
            self.commands.push(ClientCommand::Reattach { session, timeout_ms: self.timeout_ms });
        } else {
            self.refuse(request.read_only);
            return Err(CloseReason::WrongPassword(session));
        }
        Ok(())
    }

    pub(super) fn on_established(&mut self, now: Now, session: SessionId, timeout_ms: i32) {
        let Phase::Connecting { read_only } = self.phase else {
            return self.close(CloseReason::Internal(format!("session {session} established twice")));
        };
        self.session = session;
        self.timeout_ms = timeout_ms;
        self.phase = Phase::Established;
        (self.last_touch, self.last_heard) = (now.mono, now.mono);
        let password = Bytes::copy_from_slice(&session_password(session));
        self.respond(timeout_ms, session, password, read_only);
    }

    pub(super) fn on_session_invalid(&mut self) {
        if let Phase::Connecting { read_only } = self.phase {
            self.refuse(read_only);
        }
        self.close(CloseReason::SessionInvalid(self.session));
    }

    /// Zeros tell the client that its session is gone for good.
    fn refuse(&mut self, read_only: Option<bool>) {
        self.respond(0, SessionId(0), Bytes::from_static(&[0; 16]), read_only);
    }

    fn respond(&mut self, timeout_ms: i32, session: SessionId, password: Bytes, read_only: Option<bool>) {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id: session.0,
            password,
            // A client that did not send the byte does not expect it either (ZOOKEEPER-4814).
            read_only: read_only.map(|_| self.config.read_only),
        };
        put_frame(&mut self.output, |w| response.encode(w));
        self.stats.sent();
    }
}
