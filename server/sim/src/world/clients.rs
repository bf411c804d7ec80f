//! Clients in the world: their connections, what they ask, and what the oracles make of the answers.

use bytes::Bytes;
use zk_jute::request::{ConnectResponse, ReplyHeader, Request, Response, WatcherEvent, xid};
use zk_jute::{OpCode, Reader, SessionId, Zxid};

use super::World;
use crate::client::{Link, Pending, SimClient, reply_header, request_frame};
use crate::clock::MS;
use crate::event::Event;
use crate::history::{Operation, Outcome};
use crate::oracle::Violation;
use crate::oracle::replies::Answer;
use crate::oracle::watches::Table;

impl World {
    /// Adds a client; it acts once [`Event::Client`] comes.
    pub(crate) fn add_client(&mut self) -> usize {
        let id = self.clients.len();
        self.clients.push(SimClient::new(id, self.options.session_timeout_ms));
        id
    }

    /// The client's next act: connect, or ask, or ping, or give up waiting.
    pub(super) fn client_acts(&mut self, id: usize) {
        let now = self.agenda.now();
        // Never so long that a ping would come too late.
        let longest = (2 * self.options.think / MS).min(self.clients[id].timeout_ms as u64 / 6).max(1);
        let next = self.client_prng.between(1, longest) * MS;
        self.agenda.after(next, Event::Client { client: id });
        let client = &self.clients[id];
        if client.stalled_until > now {
            return;
        }
        let patience = client.timeout_ms as u64 * MS;
        let waits = client.pending.front().is_some_and(|pending| now - pending.since > patience);
        match client.link {
            Link::Down if !client.scripted => self.client_connects(id, None),
            Link::Down => {}
            Link::Connecting if now.saturating_sub(client.last_sent) > patience => self.client_hangs_up(id),
            Link::Connecting => {}
            Link::Up if waits => self.client_hangs_up(id),
            Link::Up => self.client_asks(id),
        }
    }

    fn client_asks(&mut self, id: usize) {
        let now = self.agenda.now();
        let client = &self.clients[id];
        let idle = now - client.last_sent > client.timeout_ms as u64 * MS / 3;
        let room = client.pending.len() < SimClient::PIPELINE;
        let closing = client.pending.back().is_some_and(|pending| pending.request == Request::CloseSession);
        if self.troubled && !client.scripted && room && !closing {
            let request = self.workload.next(id);
            self.client_requests(id, request);
        } else if idle {
            self.client_sends(id, request_frame(xid::PING, &Request::Ping));
        }
    }

    /// Sends one request of the application.
    pub(crate) fn client_requests(&mut self, id: usize, request: Request) {
        let now = self.agenda.now();
        let floor = self.oracles.committed.last();
        let epoch = self.oracles.leadership.latest();
        let client = &mut self.clients[id];
        let (xid, bytes) = client.request(&request);
        let session = client.session;
        let operation = Operation {
            client: id,
            session,
            xid,
            request: request.clone(),
            invoked: now,
            outcome: Outcome::Open,
        };
        let number = Some(self.history.invoked(operation));
        if self.trace.keeps_lines() {
            self.trace.note(now, &format!("client {id} asks {xid} {request:?}"));
        }
        self.clients[id].pending.push_back(Pending { xid, request, number, floor, epoch, since: now });
        self.client_sends(id, bytes);
    }

    /// Dials a member: the given one, or any.
    pub(crate) fn client_connects(&mut self, id: usize, node: Option<i64>) {
        let members = self.nodes.len() as u64;
        let node = node.unwrap_or_else(|| self.client_prng.between(1, members) as i64);
        let bytes = self.clients[id].connect(node);
        self.client_sends(id, bytes);
    }

    /// Ends the client's connection from its side; what it waits for stays unknown.
    pub(crate) fn client_hangs_up(&mut self, id: usize) {
        let connection = self.clients[id].connection;
        let at = self.clients[id].to_server.max(self.agenda.now() + MS);
        self.agenda.at(at, Event::ToServer { client: id, connection, bytes: None });
        self.client_down(id);
    }

    fn client_down(&mut self, id: usize) {
        let now = self.agenda.now();
        let client = &mut self.clients[id];
        client.link = Link::Down;
        client.connection += 1;
        for pending in std::mem::take(&mut client.pending) {
            if let Some(number) = pending.number {
                self.history.closed(number, Outcome::Unknown { at: now });
            }
        }
    }

    pub(crate) fn client_sends(&mut self, id: usize, bytes: Bytes) {
        let now = self.agenda.now();
        let delay = self.client_prng.between(self.options.delays.least, self.options.delays.most);
        let client = &mut self.clients[id];
        client.last_sent = now;
        client.to_server = client.to_server.max(now + delay);
        let (at, connection) = (client.to_server, client.connection);
        self.agenda.at(at, Event::ToServer { client: id, connection, bytes: Some(bytes) });
    }

    pub(super) fn reaches_client(&mut self, id: usize, connection: u64, bytes: Option<Bytes>) {
        let client = &mut self.clients[id];
        if client.connection != connection || client.link == Link::Down {
            return;
        }
        let Some(bytes) = bytes else {
            // A closed session's connection ends without a word; the session is over either way.
            return self.client_down(id);
        };
        client.input.extend_from_slice(&bytes);
        while self.clients[id].link != Link::Down {
            let Some(frame) = self.clients[id].next_frame() else { return };
            let result = match self.clients[id].link {
                Link::Connecting => self.client_connected(id, frame),
                Link::Up => self.client_reads(id, frame),
                Link::Down => Ok(()),
            };
            self.oracles.check(result);
        }
    }

    fn client_connected(&mut self, id: usize, frame: Bytes) -> Result<(), Violation> {
        let response = ConnectResponse::decode(&mut Reader::new(frame))
            .map_err(|error| Violation::new("Codec", format!("a connect response: {error}")))?;
        let client = &mut self.clients[id];
        if response.session_id == 0 {
            let session = client.session;
            client.forget_session();
            self.oracles.watches.forget(session);
            self.note(&format!("client {id} session {session} is gone"));
            self.client_down(id);
            return Ok(());
        }
        let session = SessionId(response.session_id);
        let resumed = client.session == session;
        client.session = session;
        client.password = response.password;
        client.link = Link::Up;
        let node = client.node;
        self.note(&format!(
            "client {id} {} session {session} at {node}",
            if resumed { "resumes" } else { "has" }
        ));
        if resumed {
            self.client_sets_watches(id);
        }
        Ok(())
    }

    /// After a reconnection the client library tells the new server what it watches.
    fn client_sets_watches(&mut self, id: usize) {
        let session = self.clients[id].session;
        let (mut data, mut exist, mut child) = (Vec::new(), Vec::new(), Vec::new());
        for (table, path, existed) in self.oracles.watches.of(session) {
            match (table, existed) {
                (Table::Child, _) => child.push(path.clone()),
                (Table::Data, true) => data.push(path.clone()),
                (Table::Data, false) => exist.push(path.clone()),
            }
        }
        if data.is_empty() && exist.is_empty() && child.is_empty() {
            return;
        }
        self.oracles.watches.replay_begins(session);
        let relative_zxid = self.clients[id].last_zxid;
        let request = Request::SetWatches { relative_zxid, data, exist, child };
        let since = self.agenda.now();
        let pending =
            Pending { xid: xid::SET_WATCHES, request, number: None, floor: Zxid::ZERO, epoch: None, since };
        self.client_sends(id, request_frame(xid::SET_WATCHES, &pending.request));
        self.clients[id].pending.push_front(pending);
    }

    fn client_reads(&mut self, id: usize, frame: Bytes) -> Result<(), Violation> {
        let codec = |text: String| Violation::new("Codec", text);
        let (header, mut reader) = reply_header(frame).map_err(codec)?;
        if self.trace.keeps_lines() {
            let now = self.agenda.now();
            self.trace.note(
                now,
                &format!("client {id} gets {} err {} zxid {:x}", header.xid, header.err, header.zxid),
            );
        }
        match header.xid {
            xid::PING => Ok(()),
            xid::NOTIFICATION => {
                let event =
                    WatcherEvent::decode(&mut reader).map_err(|error| codec(format!("an event: {error}")))?;
                self.say(&format!("client {id} event {} {}", event.kind, event.path));
                let session = self.clients[id].session;
                self.oracles.watches.fired(session, &event, &self.oracles.model)
            }
            _ => self.client_answered(id, header, reader),
        }
    }

    fn client_answered(
        &mut self,
        id: usize,
        header: ReplyHeader,
        mut reader: Reader,
    ) -> Result<(), Violation> {
        let turn = self.clients[id].pending.front().map(|pending| pending.xid);
        let Some(pending) = self.clients[id].pending.pop_front_if(|pending| pending.xid == header.xid) else {
            let text = format!("client {id} got the answer {} while {turn:?} is due", header.xid);
            return Err(Violation::new("AnswersInOrder", text));
        };
        let op = pending.request.op();
        let has_body = header.err == 0 || op == OpCode::Multi;
        let response = if has_body && reader.remaining() > 0 {
            let decoded = Response::decode(op, &mut reader);
            Some(decoded.map_err(|error| Violation::new("Codec", format!("the answer to {op:?}: {error}")))?)
        } else {
            None
        };
        self.account_answer(id, &pending, header, response.as_ref())
    }

    fn account_answer(
        &mut self,
        id: usize,
        pending: &Pending,
        header: ReplyHeader,
        response: Option<&Response>,
    ) -> Result<(), Violation> {
        let client = &mut self.clients[id];
        let session = client.session;
        if header.zxid > 0 {
            client.last_zxid = client.last_zxid.max(header.zxid);
        }
        let zxid = Zxid(header.zxid);
        if let Some(number) = pending.number {
            let outcome = Outcome::Answered { at: self.agenda.now(), zxid, err: header.err };
            self.history.closed(number, outcome);
            self.say(&format!("client {id} {:?} -> err {} at {zxid}", pending.request.op(), header.err));
        }
        let latest = self.oracles.leadership.latest();
        let node = self.clients[id].node;
        let current = self.facts(node).map(|facts| facts.current_epoch);
        let fresh = latest.is_some() && latest == pending.epoch && latest == current;
        let answer = Answer {
            client: id,
            session,
            request: &pending.request,
            header,
            response,
            floor: pending.floor,
            fresh,
        };
        self.oracles.answered(&answer)?;
        if pending.request == Request::CloseSession && header.err == 0 {
            self.oracles.watches.forget(session);
            self.client_hangs_up(id);
            self.clients[id].forget_session();
        }
        Ok(())
    }
}
