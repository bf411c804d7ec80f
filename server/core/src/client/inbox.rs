//! What the core has to tell one connection.
//!
//! The core pushes while it holds the tree's write lock. So whoever has read the tree at zxid z finds every message of a
//! transaction up to z already here: that is what puts a watch event before the reply that saw its change. The other
//! half is [`Inbox::take_seen`]: an event after z must wait until that reply is written, because the reply is what
//! tells the client that it watches at all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use zk_jute::Zxid;

use crate::effect::ClientMessage;

/// Length of a queue that was too long: never empty, but nothing can be taken.
const OVERFLOWED: usize = usize::MAX;

/// A bounded queue of [`ClientMessage`]s from the core to one connection.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<State>,
    /// Length of the queue, so that a read finds it empty without taking the lock.
    len: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<ClientMessage>,
    /// Nothing is taken in any more.
    closed: bool,
}

impl Inbox {
    /// Messages that may wait, about 100 bytes each: 6.5 MB a connection. A client with more unread watch events is
    /// disconnected; on its return `setWatches` tells it what it missed.
    pub const LIMIT: usize = 65_536;

    /// Adds a message; true if the connection has to be woken, because it may not know of any. Call it before the
    /// tree's write lock is released.
    pub fn push(&self, message: ClientMessage) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        if state.messages.len() >= Self::LIMIT {
            // What is lost here is never missed: the connection ends without another reply.
            state.messages.clear();
            state.closed = true;
            self.len.store(OVERFLOWED, Ordering::Release);
            return true;
        }
        state.messages.push_back(message);
        self.len.store(state.messages.len(), Ordering::Release);
        state.messages.len() == 1
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// True once messages were lost because the connection did not take them.
    pub(super) fn overflowed(&self) -> bool {
        self.len.load(Ordering::Acquire) == OVERFLOWED
    }

    /// Takes the next message.
    pub(super) fn take(&self) -> Option<ClientMessage> {
        self.take_if(|_| true)
    }

    /// Takes the next message if its transaction is at or before `zxid`.
    pub(super) fn take_seen(&self, zxid: Zxid) -> Option<ClientMessage> {
        // Nothing can be missed: what was pushed up to `zxid` happened before the read that saw `zxid`.
        if self.is_empty() {
            return None;
        }
        self.take_if(|message| zxid_of(message) <= zxid)
    }

    /// Drops everything now and in future.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.messages.clear();
        self.len.store(0, Ordering::Release);
    }

    fn take_if(&self, wanted: impl Fn(&ClientMessage) -> bool) -> Option<ClientMessage> {
        let mut state = self.state.lock();
        let message = state.messages.pop_front_if(|message| wanted(message))?;
        self.len.store(state.messages.len(), Ordering::Release);
        Some(message)
    }
}

/// What belongs to no transaction is never held back.
const fn zxid_of(message: &ClientMessage) -> Zxid {
    match message {
        ClientMessage::Reply { zxid, .. } | ClientMessage::Event { zxid, .. } => *zxid,
        ClientMessage::Established { .. } | ClientMessage::SessionInvalid | ClientMessage::Close => {
            Zxid::ZERO
        }
    }
}
