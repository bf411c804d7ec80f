//! [`ClientConn`]: the state of one connection and the loop that drives it.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use zk_jute::SessionId;
use zk_jute::records::Id;

use super::fifo::Fifo;
use super::frame::take_frame;
use super::stats::ConnStats;
use super::{ClientConfig, CloseReason, ConnInfo, Inbox};
use crate::Shared;
use crate::input::{ClientCommand, ConnId};
use crate::pipeline::auth::ip_id;
use crate::time::{Instant, Now};

/// Bytes already sent that may stay at the front of the output before they are moved out.
const COMPACT_AT: usize = 64 << 10;

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Nothing but the connect request is accepted.
    Handshake,
    /// The core is asked for the session. `read_only` is the byte that old clients do not send.
    Connecting {
        read_only: Option<bool>,
    },
    Established,
}

/// One client connection.
///
/// The owner of the socket calls [`Self::drive`] whenever bytes came, the inbox was filled or output was sent, then carries
/// out [`Self::drain_commands`] and writes [`Self::output`]; [`Self::on_tick`] at [`Self::next_deadline`]. Once
/// [`Self::closing`] gives a reason it sends what is left of the output and closes the socket.
#[derive(Debug)]
pub struct ClientConn {
    pub(super) conn: ConnId,
    pub(super) peer_ip: IpAddr,
    pub(super) config: Arc<ClientConfig>,
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) phase: Phase,
    /// 0 before the session is known.
    pub(super) session: SessionId,
    pub(super) timeout_ms: i32,
    /// The address first, then what `auth` packets proved.
    pub(super) ids: Arc<[Id]>,
    pub(super) fifo: Fifo,
    /// Bound: `output_max`, one reply more, and the events that came with it.
    pub(super) output: Vec<u8>,
    output_sent: usize,
    pub(super) commands: Vec<ClientCommand>,
    /// The last request is in: failed authentication, `closeSession`, a request nobody knows.
    pub(super) input_ended: bool,
    closing: Option<CloseReason>,
    /// The core was told of this connection and must be told of its end.
    pub(super) core_knows: bool,
    /// Highest zxid in a reply so far. A reply never shows less: a client that reconnects asks for what came after the last
    /// one it saw.
    pub(super) last_zxid: i64,
    pub(super) last_touch: Instant,
    pub(super) last_heard: Instant,
    pub(super) stats: ConnStats,
}

impl ClientConn {
    /// A connection that was just accepted.
    pub fn new(
        conn: ConnId,
        peer_ip: IpAddr,
        config: Arc<ClientConfig>,
        shared: Arc<Shared>,
        now: Now,
    ) -> Self {
        Self {
            conn,
            peer_ip,
            config,
            shared,
            inbox: Arc::default(),
            phase: Phase::Handshake,
            session: SessionId(0),
            timeout_ms: 0,
            ids: Arc::from([ip_id(peer_ip)]),
            fifo: Fifo::default(),
            output: Vec::new(),
            output_sent: 0,
            commands: Vec::new(),
            input_ended: false,
            closing: None,
            core_knows: false,
            last_zxid: 0,
            last_touch: now.mono,
            last_heard: now.mono,
            stats: ConnStats::new(now),
        }
    }

    /// Where the core's messages for this connection go. See [`Inbox::push`] for when.
    pub fn inbox(&self) -> Arc<Inbox> {
        self.inbox.clone()
    }

    /// Goes as far as messages, `input` and the bounds allow. What it cannot take yet stays in `input`.
    pub fn drive(&mut self, now: Now, input: &mut BytesMut) {
        loop {
            self.take_messages(now);
            self.advance(now);
            if !self.wants_input() {
                break;
            }
            match take_frame(input, self.config.rules.max_buffer) {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    self.stats.received();
                    self.last_heard = now.mono;
                    match self.phase {
                        Phase::Handshake => self.on_connect_request(now, frame),
                        Phase::Established => self.on_request(now, frame),
                        Phase::Connecting { .. } => unreachable!("no input is wanted while connecting"),
                    }
                }
                Err(reason) => self.close(reason),
            }
        }
    }

    /// False while the socket should not be read: the session is not settled, too many requests or replies wait, or the
    /// last request is in.
    pub fn wants_input(&self) -> bool {
        self.closing.is_none()
            && !self.input_ended
            && !matches!(self.phase, Phase::Connecting { .. })
            && self.fifo.len() < self.config.outstanding_max
            && !self.output_full()
    }

    /// Bytes to send.
    pub fn output(&self) -> &[u8] {
        &self.output[self.output_sent..]
    }

    /// The first `sent` bytes of [`Self::output`] are sent. Call [`Self::drive`] next: requests may have waited for it.
    ///
    /// # Panics
    /// If `sent` exceeds the output.
    pub fn consume_output(&mut self, sent: usize) {
        self.output_sent += sent;
        assert!(self.output_sent <= self.output.len(), "more bytes sent than there were");
        if self.output_sent == self.output.len() {
            self.output.clear();
            self.output.shrink_to(COMPACT_AT);
            self.output_sent = 0;
        } else if self.output_sent > COMPACT_AT {
            self.output.drain(..self.output_sent);
            self.output_sent = 0;
        }
    }

    /// What to pass to the core, in this order.
    pub fn drain_commands(&mut self) -> impl Iterator<Item = ClientCommand> + '_ {
        self.commands.drain(..)
    }

    /// Why the connection must be closed, once it must.
    pub const fn closing(&self) -> Option<&CloseReason> {
        self.closing.as_ref()
    }

    /// Ends the connection: nothing is read, carried out or taken from the inbox any more, and its watches are gone. The
    /// session lives on unless it was closed.
    pub fn close(&mut self, reason: CloseReason) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(reason);
        self.inbox.close();
        self.fifo.clear();
        self.shared.watches.lock().remove_conn(self.conn);
        if self.core_knows {
            self.commands.push(ClientCommand::Disconnected);
        }
    }

    /// When [`Self::on_tick`] is wanted: a connection that is silent for a session timeout is dead, and one without a
    /// session gets less time.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.closing.is_none().then(|| self.last_heard.plus_ms(self.patience_ms()))
    }

    /// Closes the connection if it has been silent for too long.
    pub fn on_tick(&mut self, now: Now) {
        let Some(deadline) = self.next_deadline() else { return };
        if now.mono < deadline {
            return;
        }
        let patience = self.patience_ms();
        self.close(match self.phase {
            Phase::Handshake => CloseReason::HandshakeTimeout(patience),
            Phase::Connecting { .. } | Phase::Established => CloseReason::Idle(patience),
        });
    }

    /// A picture for four-letter words and the admin server.
    pub fn info(&self) -> ConnInfo {
        self.stats.info(self.conn, self.peer_ip, self.session, self.timeout_ms, self.fifo.len())
    }

    /// Counts anew (`crst`).
    pub fn reset_stats(&mut self, now: Now) {
        self.stats.reset(now);
    }

    /// This connection's number.
    pub const fn id(&self) -> ConnId {
        self.conn
    }

    /// The session, once it is established.
    pub fn session(&self) -> Option<SessionId> {
        (self.phase == Phase::Established).then_some(self.session)
    }

    /// True while [`Self::output`] holds so much that [`Self::drive`] goes no further: it has to be called again once some
    /// is sent.
    pub fn output_full(&self) -> bool {
        self.output.len() - self.output_sent >= self.config.output_max
    }

    fn patience_ms(&self) -> u64 {
        match self.phase {
            Phase::Handshake => self.config.sessionless_timeout_ms,
            Phase::Connecting { .. } | Phase::Established => u64::from(self.timeout_ms.max(0).unsigned_abs()),
        }
    }
}
