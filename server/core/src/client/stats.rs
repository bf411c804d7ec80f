//! What `cons`, `stat` and the admin server show of a connection (upstream `ServerCnxn.updateStatsForResponse`,
//! `dumpConnectionInfo`).

use std::net::IpAddr;

use zk_jute::{OpCode, SessionId};

use crate::input::ConnId;
use crate::time::{Instant, Now};

/// A picture of one connection. Latencies are whole milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnInfo {
    pub conn: ConnId,
    pub peer_ip: IpAddr,
    /// 0 until a session is established.
    pub session: SessionId,
    pub timeout_ms: i32,
    /// Milliseconds since 1970.
    pub established_ms: i64,
    /// Requests not answered yet.
    pub queued: usize,
    pub packets_received: u64,
    pub packets_sent: u64,
    /// Upstream's short name, "NA" before the first request.
    pub last_op: &'static str,
    /// xid of the last request with an xid of its own, -1 before.
    pub last_cxid: i32,
    /// zxid in the last reply, -1 before.
    pub last_zxid: i64,
    /// Milliseconds since 1970, 0 before the first reply.
    pub last_response_ms: i64,
    pub last_latency_ms: u64,
    pub min_latency_ms: u64,
    pub avg_latency_ms: u64,
    pub max_latency_ms: u64,
    /// Replies that the latencies are about.
    pub replies: u64,
    /// Of those, the answers to what has no transaction, and to what has.
    pub reads: Latencies,
    pub updates: Latencies,
}

/// How long answers took, milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Latencies {
    pub count: u64,
    pub total: u64,
    pub max: u64,
}

impl Latencies {
    const fn add(&mut self, latency: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(latency);
        if latency > self.max {
            self.max = latency;
        }
    }
}

/// Counters of one connection.
#[derive(Clone, Debug)]
pub(super) struct ConnStats {
    established_ms: i64,
    received: u64,
    sent: u64,
    last_op: &'static str,
    last_cxid: i32,
    last_zxid: i64,
    last_response_ms: i64,
    last_latency: u64,
    min_latency: u64,
    max_latency: u64,
    total_latency: u64,
    replies: u64,
    reads: Latencies,
    updates: Latencies,
}

impl ConnStats {
    pub(super) const fn new(now: Now) -> Self {
        Self {
            established_ms: now.wall_ms,
            received: 0,
            sent: 0,
            last_op: "NA",
            last_cxid: -1,
            last_zxid: -1,
            last_response_ms: 0,
            last_latency: 0,
            min_latency: u64::MAX,
            max_latency: 0,
            total_latency: 0,
            replies: 0,
            reads: Latencies { count: 0, total: 0, max: 0 },
            updates: Latencies { count: 0, total: 0, max: 0 },
        }
    }

    /// Begins anew, as `crst` does; what describes the connection stays.
    pub(super) fn reset(&mut self, now: Now) {
        *self = Self { established_ms: self.established_ms, ..Self::new(now) };
    }

    pub(super) const fn received(&mut self) {
        self.received += 1;
    }

    pub(super) const fn sent(&mut self) {
        self.sent += 1;
    }

    /// A request that came at `since` is answered.
    pub(super) fn answered(&mut self, op: i32, xid: i32, zxid: i64, since: Instant, now: Now) {
        // The client's own numbers are of interest, not -2 for its pings.
        if xid >= 0 {
            self.last_cxid = xid;
        }
        let latency = now.mono.ms_since(since);
        self.last_op = short_name(op);
        self.last_zxid = zxid;
        self.last_response_ms = now.wall_ms;
        self.last_latency = latency;
        self.min_latency = self.min_latency.min(latency);
        self.max_latency = self.max_latency.max(latency);
        self.total_latency = self.total_latency.saturating_add(latency);
        self.replies += 1;
        if has_transaction(op) { &mut self.updates } else { &mut self.reads }.add(latency);
    }

    pub(super) fn info(
        &self,
        conn: ConnId,
        peer_ip: IpAddr,
        session: SessionId,
        timeout_ms: i32,
        queued: usize,
    ) -> ConnInfo {
        ConnInfo {
            conn,
            peer_ip,
            session,
            timeout_ms,
            established_ms: self.established_ms,
            queued,
            packets_received: self.received,
            packets_sent: self.sent,
            last_op: self.last_op,
            last_cxid: self.last_cxid,
            last_zxid: self.last_zxid,
            last_response_ms: self.last_response_ms,
            last_latency_ms: self.last_latency,
            min_latency_ms: if self.replies == 0 { 0 } else { self.min_latency },
            avg_latency_ms: self.total_latency.checked_div(self.replies).unwrap_or(0),
            max_latency_ms: self.max_latency,
            replies: self.replies,
            reads: self.reads,
            updates: self.updates,
        }
    }
}

/// True for what becomes a transaction, even one that fails: upstream's `ServerStats.updateLatency` tells the two kinds
/// apart by the header that only those have. `sync` and the watches of a client are not among them.
const fn has_transaction(op: i32) -> bool {
    matches!(
        OpCode::from_i32(op),
        Some(
            OpCode::CreateSession
                | OpCode::Multi
                | OpCode::Create
                | OpCode::Create2
                | OpCode::CreateTtl
                | OpCode::CreateContainer
                | OpCode::Delete
                | OpCode::DeleteContainer
                | OpCode::SetData
                | OpCode::Reconfig
                | OpCode::SetAcl
                | OpCode::CloseSession
                | OpCode::Check
        )
    )
}

/// Names as upstream's `FinalRequestProcessor` has them.
const fn short_name(op: i32) -> &'static str {
    match OpCode::from_i32(op) {
        Some(OpCode::Ping) => "PING",
        Some(OpCode::CreateSession) => "SESS",
        Some(OpCode::Multi) => "MULT",
        Some(OpCode::MultiRead) => "MLTR",
        Some(OpCode::Create | OpCode::Create2 | OpCode::CreateTtl | OpCode::CreateContainer) => "CREA",
        Some(OpCode::Delete | OpCode::DeleteContainer) => "DELE",
        Some(OpCode::SetData) => "SETD",
        Some(OpCode::Reconfig) => "RECO",
        Some(OpCode::SetAcl) => "SETA",
        Some(OpCode::CloseSession) => "CLOS",
        Some(OpCode::Sync) => "SYNC",
        Some(OpCode::Check) => "CHEC",
        Some(OpCode::Exists) => "EXIS",
        Some(OpCode::GetData) => "GETD",
        Some(OpCode::SetWatches) => "SETW",
        Some(OpCode::SetWatches2) => "STW2",
        Some(OpCode::AddWatch) => "ADDW",
        Some(OpCode::GetAcl) => "GETA",
        Some(OpCode::GetChildren | OpCode::GetChildren2) => "GETC",
        Some(OpCode::GetAllChildrenNumber) => "GETACN",
        Some(OpCode::CheckWatches) => "CHKW",
        Some(OpCode::RemoveWatches) => "REMW",
        Some(OpCode::WhoAmI) => "HOMI",
        Some(OpCode::GetEphemerals) => "GETE",
        Some(OpCode::Notification | OpCode::Auth | OpCode::Sasl | OpCode::Error) | None => "NA",
    }
}
