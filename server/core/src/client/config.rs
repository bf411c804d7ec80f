//! Settings that all client connections of a server share.

use crate::config::Rules;

/// Names and defaults are upstream's where it has them.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `minSessionTimeout` and `maxSessionTimeout`, milliseconds.
    pub min_session_timeout_ms: i32,
    pub max_session_timeout_ms: i32,
    /// `zookeeper.nio.sessionlessCnxnTimeout`: a connection without a session is closed after this, milliseconds.
    pub sessionless_timeout_ms: u64,
    /// Requests of one connection that may wait; while there are as many, its socket is not read
    /// (`globalOutstandingLimit` is the server's; one connection may use it up).
    pub outstanding_max: usize,
    /// Bytes of replies waiting for the socket at which no further request of the connection is carried out.
    pub output_max: usize,
    /// `jute.maxbuffer` is in here, with the switches for reads.
    pub rules: Rules,
    /// True on a server that serves only reads (`readonlymode.enabled` without a quorum).
    pub read_only: bool,
}

impl ClientConfig {
    /// Upstream's defaults for a tick of `tick_ms`: sessions live 2 to 20 ticks.
    pub fn new(tick_ms: u64, rules: Rules) -> Self {
        let tick_ms = i32::try_from(tick_ms).unwrap_or(i32::MAX);
        Self {
            min_session_timeout_ms: tick_ms.saturating_mul(2),
            max_session_timeout_ms: tick_ms.saturating_mul(20),
            sessionless_timeout_ms: 10_000,
            outstanding_max: 1000,
            output_max: 1 << 20,
            rules,
            read_only: false,
        }
    }

    /// The timeout a client gets for the one it asks for, milliseconds.
    pub(super) fn negotiate(&self, asked_ms: i32) -> i32 {
        asked_ms.max(self.min_session_timeout_ms).min(self.max_session_timeout_ms)
    }
}
