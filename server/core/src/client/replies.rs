//! Replies and events of an established session, in the order that clients rely on (upstream `FinalRequestProcessor`,
//! `CommitProcessor` as far as one session sees it).

use zk_jute::request::{MultiResult, ReplyHeader, Response, WatcherEvent, xid};
use zk_jute::{ErrorCode, OpCode, Writer, Zxid};

use super::fifo::{Read, Step};
use super::frame::put_frame;
use super::requests::NO_ZXID;
use super::{ClientConn, CloseReason, Inbox};
use crate::effect::ClientMessage;
use crate::input::ClientCommand;
use crate::time::{Instant, Now};
use crate::tree::{ReadContext, process_read};

impl ClientConn {
    /// Carries out what is next, until a write is next or the output is full.
    pub(super) fn advance(&mut self, now: Now) {
        while !self.output_full()
            && let Some((since, step)) = self.fifo.pop_local()
        {
            match step {
                Step::Read(read) => self.read(now, since, &read),
                Step::Ping => self.ping(now, since),
                Step::Ready(ready) => {
                    let body = ready.body;
                    self.reply(now, since, (ready.xid, ready.op), ready.zxid, ready.err, |w| w.raw(body));
                    if let Some(reason) = ready.then_close {
                        return self.close(reason);
                    }
                }
            }
            if self.closing().is_some() {
                return;
            }
        }
        self.fifo.release(|request| self.commands.push(ClientCommand::Request(request)));
    }

    fn read(&mut self, now: Now, since: Instant, read: &Read) {
        let context =
            ReadContext { conn: self.conn, session: self.session, ids: &read.ids, rules: &self.config.rules };
        let (zxid, result, missed) = match &read.request {
            Ok(request) => {
                let reply = process_read(&self.shared, context, request);
                (reply.zxid, reply.result, reply.events)
            }
            Err(code) => (self.shared.tree.read().last_processed(), Err(*code), Vec::new()),
        };
        // Whatever happened up to `zxid` comes first; what happened since waits, because the client watches only once it
        // has this reply.
        self.take_seen(now, zxid);
        if self.closing().is_some() {
            return;
        }
        for event in missed {
            self.event(NO_ZXID, &event);
        }
        let names = (read.xid, read.op);
        match result {
            Ok(response) => self.reply(now, since, names, zxid.0, 0, |w| response.encode(w)),
            Err(code) => self.reply(now, since, names, zxid.0, code as i32, |_| {}),
        }
    }

    /// A ping tells how far this server is, but only if no reply of this connection is due before that point.
    fn ping(&mut self, now: Now, since: Instant) {
        let mut zxid = Zxid(self.last_zxid);
        if self.fifo.is_empty() {
            zxid = self.shared.tree.read().last_processed();
            self.take_seen(now, zxid);
        }
        if self.closing().is_none() {
            self.reply(now, since, (xid::PING, OpCode::Ping as i32), zxid.0, 0, |_| {});
        }
    }

    /// Takes messages while there is room for what they bring.
    pub(super) fn take_messages(&mut self, now: Now) {
        while self.closing().is_none() && !self.output_full() && !self.inbox.is_empty() {
            let Some(message) = self.inbox.take() else { break };
            self.on_message(now, message);
            // A reply gives the turn to what waited behind that request, before the next reply can be taken.
            self.advance(now);
        }
        self.check_overflow();
    }

    fn take_seen(&mut self, now: Now, zxid: Zxid) {
        while self.closing().is_none()
            && let Some(message) = self.inbox.take_seen(zxid)
        {
            self.on_message(now, message);
        }
        self.check_overflow();
    }

    /// Once an event is lost, no reply may follow that shows a zxid beyond it: the client could not ask for it again.
    fn check_overflow(&mut self) {
        if self.closing().is_none() && self.inbox.overflowed() {
            self.close(CloseReason::SlowReader(Inbox::LIMIT));
        }
    }

    fn on_message(&mut self, now: Now, message: ClientMessage) {
        match message {
            ClientMessage::Established { session, timeout_ms } => {
                self.on_established(now, session, timeout_ms)
            }
            ClientMessage::SessionInvalid => self.on_session_invalid(),
            ClientMessage::Reply { xid, zxid, err, response } => {
                self.on_reply(now, xid, zxid, err, &response)
            }
            ClientMessage::Event { zxid, event } => self.event(zxid.0, &event),
            ClientMessage::Close => self.close(CloseReason::ByServer),
        }
    }

    fn on_reply(&mut self, now: Now, xid: i32, zxid: Zxid, err: i32, response: &Response) {
        let Some((since, op)) = self.fifo.pop_sent(xid) else {
            return self.close(CloseReason::Internal(format!("reply to xid {xid} out of turn")));
        };
        if moved(err, response) {
            // An error of the connection, not of the request: this client is served elsewhere (ZOOKEEPER-710).
            return self.close(CloseReason::SessionMoved);
        }
        self.reply(now, since, (xid, op), zxid.0, err, |w| {
            if err == 0 {
                response.encode(w);
            }
        });
        if op == OpCode::CloseSession as i32 {
            self.close(CloseReason::SessionClosed);
        }
    }

    fn event(&mut self, zxid: i64, event: &WatcherEvent) {
        put_frame(&mut self.output, |w| {
            ReplyHeader { xid: xid::NOTIFICATION, zxid, err: 0 }.encode(w);
            event.encode(w);
        });
        self.stats.sent();
    }

    fn reply(
        &mut self,
        now: Now,
        since: Instant,
        (xid, op): (i32, i32),
        zxid: i64,
        err: i32,
        body: impl FnOnce(&mut Writer<'_>),
    ) {
        // A zxid of 0 or -1 says nothing and stays.
        let zxid = if zxid > 0 { zxid.max(self.last_zxid) } else { zxid };
        self.last_zxid = self.last_zxid.max(zxid);
        put_frame(&mut self.output, |w| {
            ReplyHeader { xid, zxid, err }.encode(w);
            body(w);
        });
        self.stats.sent();
        self.stats.answered(op, xid, zxid, since, now);
    }
}

fn moved(err: i32, response: &Response) -> bool {
    let code = ErrorCode::SessionMoved as i32;
    let in_multi = |results: &[MultiResult]| results.iter().any(|result| *result == MultiResult::Error(code));
    err == code || matches!(response, Response::Multi(results) if in_multi(results))
}
