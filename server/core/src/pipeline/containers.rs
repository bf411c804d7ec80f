//! Which containers and TTL nodes are due, and how fast they go (upstream `ContainerManager`).
//!
//! A candidate is only proposed: [`super::Prep`] looks again, because its node may have changed since.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use zk_jute::request::Request;
use zk_jute::{OpCode, ServerId, SessionId, Writer};

use super::ProposedRequest;
use crate::config::Rules;
use crate::time::{Instant, Now};
use crate::tree::{DataTree, EphemeralType, Node};

/// Deletions go out in batches this many milliseconds apart, not one by one every few milliseconds.
const BATCH_MS: u64 = 100;
const MINUTE_MS: u64 = 60_000;

/// Looks through the containers and TTL nodes every `znode.container.checkIntervalMs` and has at most
/// `znode.container.maxPerMinute` of them deleted a minute.
#[derive(Debug)]
pub struct ContainerManager {
    check_ms: u64,
    max_never_used_ms: u64,
    batch: usize,
    batch_ms: u64,
    next_check: Instant,
    next_batch: Instant,
    /// Bound: what can be deleted until the next check, `check_ms` / `batch_ms` batches.
    candidates: VecDeque<Arc<str>>,
}

impl ContainerManager {
    /// The first check comes one interval from now.
    pub fn new(rules: &Rules, now: Now) -> Self {
        let per_minute = rules.container_max_per_minute.max(1);
        let batch = (per_minute * BATCH_MS / MINUTE_MS).max(1);
        let check_ms = rules.container_check_ms.max(1);
        Self {
            check_ms,
            max_never_used_ms: rules.container_max_never_used_ms,
            batch: usize::try_from(batch).unwrap_or(usize::MAX),
            batch_ms: (MINUTE_MS * batch / per_minute).max(1),
            next_check: now.mono.plus_ms(check_ms),
            next_batch: now.mono,
            candidates: VecDeque::new(),
        }
    }

    /// When [`Self::due`] wants to be called next.
    pub fn next_deadline(&self) -> Instant {
        if self.candidates.is_empty() { self.next_check } else { self.next_check.min(self.next_batch) }
    }

    /// Paths to delete now, each through a [`delete_request`].
    pub fn due(&mut self, tree: &DataTree, now: Now) -> Vec<Arc<str>> {
        if now.mono >= self.next_check {
            self.next_check = now.mono.plus_ms(self.check_ms);
            self.candidates = self.find_candidates(tree, now.wall_ms);
        }
        if self.candidates.is_empty() || now.mono < self.next_batch {
            return Vec::new();
        }
        self.next_batch = now.mono.plus_ms(self.batch_ms);
        let count = self.batch.min(self.candidates.len());
        self.candidates.drain(..count).collect()
    }

    fn find_candidates(&self, tree: &DataTree, wall_ms: i64) -> VecDeque<Arc<str>> {
        let rounds = usize::try_from(self.check_ms / self.batch_ms).unwrap_or(usize::MAX).max(1);
        tree.containers()
            .chain(tree.ttls())
            .filter(|path| tree.node(path).is_some_and(|node| self.is_candidate(node, wall_ms)))
            .take(rounds.saturating_mul(self.batch))
            .cloned()
            .collect()
    }

    fn is_candidate(&self, node: &Node, wall_ms: i64) -> bool {
        if node.num_children() > 0 {
            return false;
        }
        let stat = node.stat();
        let idle_ms = wall_ms.saturating_sub(stat.mtime);
        match node.ephemeral_type() {
            // A container that never had a child is kept, for its creator is about to put one there.
            EphemeralType::Container if stat.cversion > 0 => true,
            EphemeralType::Container => {
                self.max_never_used_ms > 0
                    && idle_ms > i64::try_from(self.max_never_used_ms).unwrap_or(i64::MAX)
            }
            EphemeralType::Ttl(ttl_ms) => idle_ms > ttl_ms,
            EphemeralType::Void | EphemeralType::Session(_) => false,
        }
    }
}

/// The request that deletes a container or TTL node; it belongs to no session.
pub fn delete_request(path: &Arc<str>, owner: ServerId) -> ProposedRequest {
    let body: Bytes = Writer::build(|w| Request::DeleteContainer { path: path.clone() }.encode(w));
    let op = OpCode::DeleteContainer as i32;
    ProposedRequest { session: SessionId(0), cxid: 0, op, body, auth: Vec::new(), owner }
}
