//! The clients of a script: sessions with names.
//!
//! A session is kept alive and comes back to its member by itself, unless the script stalls it or hangs up.

use std::sync::Arc;

use bytes::Bytes;
use zk_jute::OpCode;
use zk_jute::records::Acl;
use zk_jute::request::{CreateRequest, Request, xid};

use super::player::{AFTER, Player, Step};
use crate::client::{Link, request_frame};
use crate::clock::MS;
use crate::history::Outcome;

/// One named client.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) client: usize,
    /// The member it connects to.
    home: i64,
    /// It pings and reconnects.
    lively: bool,
    /// Its last operation in the history.
    last: Option<usize>,
}

impl Player {
    /// `session S at N [timeout MS]`
    pub(super) fn open_session(&mut self, name: &str, home: i64, timeout_ms: Option<i32>) -> Step {
        self.wait("service", |world| world.facts(home).is_some_and(|facts| facts.serving))?;
        let client = self.world.add_client();
        self.world.clients[client].scripted = true;
        if let Some(timeout_ms) = timeout_ms {
            self.world.clients[client].timeout_ms = timeout_ms;
        }
        self.wording.clients.insert(client, name.to_owned());
        self.sessions.insert(name.to_owned(), Named { client, home, lively: true, last: None });
        self.world.client_connects(client, Some(home));
        self.wait("a session", |world| world.clients[client].link == Link::Up)?;
        self.pass(AFTER, |_| false);
        Ok(())
    }

    /// `move S to N`: the same session, at another member.
    pub(super) fn move_session(&mut self, name: &str, home: i64) -> Step {
        let client = self.named(name)?.client;
        if self.world.clients[client].link != Link::Down {
            self.world.client_hangs_up(client);
        }
        if let Some(named) = self.sessions.get_mut(name) {
            (named.home, named.lively) = (home, true);
        }
        self.world.client_connects(client, Some(home));
        self.wait("the connection", |world| world.clients[client].link == Link::Up)
    }

    /// `stall S` stops its pings; `hang-up S` ends its connection for good.
    pub(super) fn abandon_session(&mut self, name: &str, hang_up: bool) -> Step {
        let client = self.named(name)?.client;
        if let Some(named) = self.sessions.get_mut(name) {
            named.lively = false;
        }
        if hang_up {
            self.world.client_hangs_up(client);
        }
        Ok(())
    }

    /// Sends a request; unless `later`, waits for its answer, which must be a success.
    pub(super) fn request(&mut self, name: &str, request: Request, later: bool) -> Step {
        let client = self.named(name)?.client;
        self.wait("a connection", |world| world.clients[client].link == Link::Up)?;
        let number = self.world.history.operations().len();
        self.world.client_requests(client, request);
        if let Some(named) = self.sessions.get_mut(name) {
            named.last = Some(number);
        }
        if later {
            self.pass(AFTER, |_| false);
            return Ok(());
        }
        self.wait("an answer", |world| world.history.operations()[number].outcome != Outcome::Open)?;
        self.pass(AFTER, |_| false);
        self.expect_outcome(name, "ok")
    }

    /// `expect-outcome S ok|open|lost|failed`: of its last request.
    pub(super) fn expect_outcome(&self, name: &str, expected: &str) -> Step {
        let last = self.named(name)?.last.ok_or("it has asked for nothing")?;
        let outcome = self.world.history.operations()[last].outcome;
        let found = match outcome {
            Outcome::Open => "open",
            Outcome::Unknown { .. } => "lost",
            Outcome::Answered { err: 0, .. } => "ok",
            Outcome::Answered { .. } => "failed",
        };
        if found == expected { Ok(()) } else { Err(format!("{name}'s request is {found}: {outcome:?}")) }
    }

    /// Keeps lively sessions alive.
    pub(super) fn tend_sessions(&mut self) {
        let lively: Vec<Named> = self.sessions.values().filter(|named| named.lively).cloned().collect();
        let now = self.world.now();
        for Named { client, home, .. } in lively {
            let state = &self.world.clients[client];
            let quiet = now.saturating_sub(state.last_sent);
            let third = state.timeout_ms as u64 * MS / 3;
            match state.link {
                Link::Down
                    if state.session.0 != 0 && self.world.facts(home).is_some_and(|facts| facts.serving) =>
                {
                    self.world.client_connects(client, Some(home));
                }
                Link::Connecting if quiet > third => self.world.client_hangs_up(client),
                Link::Up if quiet > third => {
                    self.world.client_sends(client, request_frame(xid::PING, &Request::Ping));
                }
                Link::Down | Link::Connecting | Link::Up => {}
            }
        }
    }

    /// Remembers which session id belongs to which name.
    pub(super) fn learn_names(&mut self) {
        for (name, named) in &self.sessions {
            let session = self.world.clients[named.client].session;
            if session.0 != 0 {
                self.wording.ids.entry(session.to_string()).or_insert_with(|| name.clone());
            }
        }
    }

    pub(super) fn named(&self, name: &str) -> Result<&Named, String> {
        self.sessions.get(name).ok_or_else(|| format!("no session is called {name}"))
    }
}

/// A create of `path` with the given flags and some data.
pub(super) fn create(path: &str, flags: i32) -> Request {
    Request::Create(CreateRequest {
        op: OpCode::Create,
        path: Arc::from(path),
        data: Some(Bytes::copy_from_slice(path.as_bytes())),
        acl: Some(vec![Acl::open()]),
        flags,
        ttl: 0,
    })
}
