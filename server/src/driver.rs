//! The one thread that owns the [`Peer`]: it drains events in batches, hands each to the core, and carries out what
//! comes back.
//!
//! Order is everything here. Effects are carried out in the order of the calls: a message for a client is in that
//! client's inbox before `emit` returns, so a watch event is there before any reply that saw the new data. What only
//! wakes somebody (connection tasks, link writers, the storage thread) waits until the batch is done, because waking
//! costs more than the work itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tracing::error;
use zk_core::effect::{Effect, HaltReason, Sink};
use zk_core::facts::Facts;
use zk_core::input::{ConnId, LinkEvent, LinkId};
use zk_core::{Input, Peer, Shared};

use crate::clock::Clock;
use crate::net::client_port::Mailbox;
use crate::net::link::Link;
use crate::sink::DriverSink;

/// Events handled before connections are woken and the clock is read again.
const BATCH: usize = 256;
/// Longest sleep, so that a clock that was set back cannot stall timers.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What the driver is told.
#[derive(Debug)]
pub enum Message {
    Input(Input),
    /// Several events of one source, in order.
    Inputs(Vec<Input>),
    /// A client connection exists; comes before its first event.
    ClientOpened {
        conn: ConnId,
        mailbox: Arc<Mailbox>,
    },
    /// A learner or observer connected; comes before the link's packets.
    LinkOpened {
        id: LinkId,
        link: Arc<Link>,
        event: LinkEvent,
    },
    /// Something came over a link; `cost` goes back to its budget.
    Link {
        id: LinkId,
        event: LinkEvent,
        cost: u32,
    },
    /// A link is gone.
    LinkEnded {
        id: LinkId,
        reason: String,
    },
    /// Somebody wants a picture of the peer.
    Facts(oneshot::Sender<Facts>),
}

/// Where events go. Cloned into every task. The queue itself has no bound, but everything that fills it has one:
/// connections by `globalOutstandingLimit`, links by their budget, elections by one message a member and round trip.
#[derive(Clone, Debug)]
pub struct Handle {
    sender: Sender<Message>,
}

impl Handle {
    /// A handle and the queue that the driver reads.
    pub fn new() -> (Self, Receiver<Message>) {
        let (sender, receiver) = channel();
        (Self { sender }, receiver)
    }

    /// Tells the driver. Once it has ended, nothing matters any more.
    pub fn send(&self, message: Message) {
        drop(self.sender.send(message));
    }

    /// Tells the driver of one event.
    pub fn input(&self, input: Input) {
        self.send(Message::Input(input));
    }

    /// A picture of the peer, or `None` if the driver does not answer within `limit`.
    pub async fn facts(&self, limit: Duration) -> Option<Facts> {
        let (sender, receiver) = oneshot::channel();
        self.send(Message::Facts(sender));
        tokio::time::timeout(limit, receiver).await.ok()?.ok()
    }
}

/// The thread's state.
pub struct Driver {
    peer: Peer,
    sink: DriverSink,
    receiver: Receiver<Message>,
    clock: Clock,
    /// The newest picture, for readers that cannot wait.
    published: Arc<Mutex<Facts>>,
}

impl Driver {
    /// Starts the peer, which asks for the disk to be read.
    pub fn new(
        config: zk_core::config::PeerConfig,
        shared: Arc<Shared>,
        mut sink: DriverSink,
        receiver: Receiver<Message>,
        clock: Clock,
        published: Arc<Mutex<Facts>>,
    ) -> Self {
        let peer = Peer::new(config, shared, clock.now(), &mut sink);
        sink.flush();
        Self { peer, sink, receiver, clock, published }
    }

    /// Runs until the peer halts.
    pub fn run(mut self) -> HaltReason {
        loop {
            let timeout = self.time_to_deadline();
            match self.receiver.recv_timeout(timeout) {
                Ok(first) => self.batch(first),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the driver's sink holds a sender"),
            }
            self.tick_if_due();
            self.sink.flush();
            if let Some(reason) = self.sink.take_halt() {
                *self.published.lock() = self.peer.facts();
                // Whatever ended it: no session is served here any more, and its client must not find out by waiting.
                self.sink.emit(Effect::CloseAllClients);
                self.sink.flush();
                return reason;
            }
        }
    }

    fn time_to_deadline(&self) -> Duration {
        let deadline = self.peer.next_deadline();
        deadline.map_or(SLEEP_MAX, |deadline| deadline.until(self.clock.now().mono)).min(SLEEP_MAX)
    }

    fn batch(&mut self, first: Message) {
        let now = self.clock.now();
        self.message(now, first);
        for _ in 1..BATCH {
            if self.sink.halted() {
                return;
            }
            match self.receiver.try_recv() {
                Ok(message) => self.message(now, message),
                Err(_) => return,
            }
        }
    }

    fn tick_if_due(&mut self) {
        let now = self.clock.now();
        if !self.sink.halted() && self.peer.next_deadline().is_some_and(|deadline| deadline <= now.mono) {
            self.handle(now, Input::Tick);
        }
    }

    fn message(&mut self, now: zk_core::time::Now, message: Message) {
        match message {
            Message::Input(input) => self.handle(now, input),
            Message::Inputs(inputs) => inputs.into_iter().for_each(|input| self.handle(now, input)),
            Message::ClientOpened { conn, mailbox } => self.sink.add_client(conn, mailbox),
            Message::LinkOpened { id, link, event } => {
                self.sink.add_link(id, link);
                self.handle(now, Input::Link { link: id, event });
            }
            Message::Link { id, event, cost } => {
                // Packets of a link that the core has closed are not its business any more.
                if self.sink.received(id, cost) {
                    self.handle(now, Input::Link { link: id, event });
                }
            }
            Message::LinkEnded { id, reason } => {
                if self.sink.remove_link(id) {
                    self.handle(now, Input::Link { link: id, event: LinkEvent::Closed { reason } });
                }
            }
            Message::Facts(reply) => {
                let facts = self.peer.facts();
                self.published.lock().clone_from(&facts);
                drop(reply.send(facts));
            }
        }
    }

    fn handle(&mut self, now: zk_core::time::Now, input: Input) {
        if self.sink.halted() {
            return;
        }
        if let Input::Client { conn, command: zk_core::input::ClientCommand::Disconnected } = &input {
            self.sink.remove_client(*conn);
        }
        self.peer.handle(now, input, &mut self.sink);
        // Links that failed while effects were carried out: the core hears of it only between two calls.
        while let Some((id, reason)) = self.sink.take_failed_link() {
            error!("link {} closed: {reason}", id.0);
            self.peer.handle(
                now,
                Input::Link { link: id, event: LinkEvent::Closed { reason } },
                &mut self.sink,
            );
        }
    }
}

/// Connections known to the driver, by their number.
pub type Clients = HashMap<ConnId, Arc<Mailbox>, foldhash::fast::FixedState>;
