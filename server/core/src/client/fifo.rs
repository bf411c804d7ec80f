//! The requests of one connection that are not answered yet, in the client's order (upstream `CommitProcessor`, one
//! session's view).
//!
//! A client's requests take effect in the order sent, even when it does not wait for answers. A read therefore waits for
//! the writes before it, and a write waits for the reads before it: had it been sent on, a read ahead of it might see
//! what it wrote. Writes behind writes go out at once, so a pipeline of writes is one batch for the quorum.

use std::collections::VecDeque;
use std::sync::Arc;

use zk_jute::ErrorCode;
use zk_jute::records::Id;
use zk_jute::request::Request;

use super::CloseReason;
use crate::input::ClientRequest;
use crate::time::Instant;

/// A reply that needs nothing but its turn.
#[derive(Debug)]
pub(super) struct Ready {
    pub xid: i32,
    pub op: i32,
    pub zxid: i64,
    pub err: i32,
    pub body: &'static [u8],
    /// The connection ends with it.
    pub then_close: Option<CloseReason>,
}

/// A read that waits, or is about to be carried out.
#[derive(Debug)]
pub(super) struct Read {
    pub xid: i32,
    pub op: i32,
    /// An error if the body made no sense; that is the answer, in its turn.
    pub request: Result<Request, ErrorCode>,
    /// Identities at the time of the request.
    pub ids: Arc<[Id]>,
}

#[derive(Debug)]
pub(super) enum Step {
    Read(Read),
    Ping,
    Ready(Ready),
}

#[derive(Debug)]
enum Item {
    /// A write, `sync` or `closeSession` at the core.
    Sent {
        xid: i32,
        op: i32,
    },
    /// One that waits for the reads before it.
    Held(ClientRequest),
    Local(Step),
}

/// Bound: `outstanding_max` of [`super::ClientConfig`], kept by the caller; bodies are at most `jute.maxbuffer` each.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    items: VecDeque<(Instant, Item)>,
    /// Reads in `items`.
    reads: usize,
    held: usize,
}

impl Fifo {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// True if every request is answered.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn push_local(&mut self, now: Instant, step: Step) {
        self.reads += usize::from(matches!(step, Step::Read(_)));
        self.items.push_back((now, Item::Local(step)));
    }

    /// Takes a write in; returns it if it may go to the core at once.
    pub(super) fn push_write(&mut self, now: Instant, request: ClientRequest) -> Option<ClientRequest> {
        if self.reads > 0 {
            self.held += 1;
            self.items.push_back((now, Item::Held(request)));
            return None;
        }
        self.items.push_back((now, Item::Sent { xid: request.xid, op: request.op }));
        Some(request)
    }

    /// The next request that is carried out here, if its turn has come.
    pub(super) fn pop_local(&mut self) -> Option<(Instant, Step)> {
        match self.items.pop_front_if(|(_, item)| matches!(item, Item::Local(_)))? {
            (since, Item::Local(step)) => {
                self.reads -= usize::from(matches!(step, Step::Read(_)));
                Some((since, step))
            }
            (_, Item::Sent { .. } | Item::Held(_)) => unreachable!("only local items are taken"),
        }
    }

    /// The core has answered the request with `xid`: when it came and what it was. `None` if that is not its turn.
    pub(super) fn pop_sent(&mut self, answered: i32) -> Option<(Instant, i32)> {
        let is_next =
            |(_, item): &mut (Instant, Item)| matches!(item, Item::Sent { xid, .. } if *xid == answered);
        match self.items.pop_front_if(is_next)? {
            (since, Item::Sent { op, .. }) => Some((since, op)),
            (_, Item::Held(_) | Item::Local(_)) => unreachable!("only sent items are taken"),
        }
    }

    /// Calls `send` for every held write that no read precedes any more.
    pub(super) fn release(&mut self, mut send: impl FnMut(ClientRequest)) {
        if self.held == 0 {
            return;
        }
        for (_, item) in &mut self.items {
            match item {
                Item::Local(Step::Read(_)) => return,
                Item::Sent { .. } | Item::Local(Step::Ping | Step::Ready(_)) => {}
                Item::Held(request) => {
                    let sent = Item::Sent { xid: request.xid, op: request.op };
                    let Item::Held(request) = std::mem::replace(item, sent) else { unreachable!() };
                    self.held -= 1;
                    send(request);
                }
            }
        }
    }
}
