//! What every role shares: configuration, journal, epochs, the disk stream, clients, and the one place where the tree
//! changes.

use std::sync::Arc;

use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{Epoch, OpCode, ServerId, Zxid};

use super::QuorumVerifier;
use super::clients::Clients;
use super::io_stream::IoStream;
use super::journal::Journal;
use crate::Shared;
use crate::config::{Membership, PeerConfig};
use crate::effect::{Effect, Observation, PersistOp, Sink};
use crate::input::LinkId;
use crate::mutants::mutant;
use crate::time::Now;
use crate::tree::DataTree;

/// Why a role ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leave {
    pub why: String,
}

impl Leave {
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

/// Whether the role goes on.
pub(crate) type Flow = Result<(), Leave>;

/// The two epochs, as durable on disk (invariant 3): set only when their file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Epochs {
    pub accepted: Epoch,
    pub current: Epoch,
}

/// When the next periodic snapshot is due.
#[derive(Debug)]
pub(crate) struct SnapshotPolicy {
    seed: u64,
    txns: u64,
    bytes: u64,
    txns_limit: u64,
    bytes_limit: u64,
    pub in_flight: bool,
}

impl SnapshotPolicy {
    fn new(config: &PeerConfig) -> Self {
        let mut policy =
            Self { seed: config.seed, txns: 0, bytes: 0, txns_limit: 0, bytes_limit: 0, in_flight: false };
        policy.rearm(config);
        policy
    }

    /// Half the limit plus a random part of the other half, as upstream, so that members do not all stall together.
    fn rearm(&mut self, config: &PeerConfig) {
        // SplitMix64: a jitter needs no better generator, and the seed keeps it reproducible.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let random = z ^ (z >> 31);
        let spread = |limit: u64| limit / 2 + random % (limit / 2).max(1);
        self.txns = 0;
        self.bytes = 0;
        self.txns_limit = spread(config.snap_count);
        self.bytes_limit = spread(config.snap_size_limit);
    }

    fn count(&mut self, txn: &LoggedTxn) {
        self.txns += 1;
        self.bytes += txn.bytes.len() as u64;
    }

    const fn is_due(&self) -> bool {
        !self.in_flight && (self.txns > self.txns_limit || self.bytes > self.bytes_limit)
    }
}

/// State common to all roles.
#[derive(Debug)]
pub(crate) struct Base {
    pub config: PeerConfig,
    pub membership: Membership,
    pub quorum: QuorumVerifier,
    pub shared: Arc<Shared>,
    pub journal: Journal,
    pub epochs: Epochs,
    pub io: IoStream,
    pub clients: Clients,
    pub snapshots: SnapshotPolicy,
    pub digest_mismatches: u64,
    /// This member may not claim any history, not even an empty one (invariant 9).
    pub no_history: bool,
    /// A leader asked for a cut that this log cannot make: only a whole image helps (invariant 10).
    pub needs_image: bool,
    last_link: u64,
    /// Mutant `no_drain_before_election` only: the transaction that a dying sync thread never writes.
    #[cfg(feature = "mutants")]
    held: Option<Arc<LoggedTxn>>,
}

/// One call into a role: the shared state, the time, and where effects go.
pub(crate) struct Ctx<'a> {
    pub base: &'a mut Base,
    pub now: Now,
    pub out: &'a mut dyn Sink,
}

impl Base {
    pub(crate) fn new(config: PeerConfig, shared: Arc<Shared>) -> Self {
        let membership = config.membership.clone().unwrap_or_default();
        Self {
            quorum: QuorumVerifier::new(&membership),
            membership,
            journal: Journal::new(config.commit_log_count),
            epochs: Epochs::default(),
            io: IoStream::default(),
            clients: Clients::default(),
            snapshots: SnapshotPolicy::new(&config),
            digest_mismatches: 0,
            no_history: false,
            needs_image: false,
            last_link: 0,
            #[cfg(feature = "mutants")]
            held: None,
            shared,
            config,
        }
    }

    /// A number for a link that we open.
    pub(crate) fn next_link(&mut self) -> LinkId {
        self.last_link += 1;
        LinkId(self.last_link)
    }

    /// True if this member takes part in quorums.
    pub(crate) fn is_voter(&self) -> bool {
        self.quorum.is_voter(self.config.my_id)
    }

    pub(crate) const fn my_id(&self) -> ServerId {
        self.config.my_id
    }

    /// `ticks` in milliseconds.
    pub(crate) const fn ticks_ms(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.config.tick_ms)
    }

    /// What an election may be offered: only what is durable (invariant 5), nothing at all without history (9).
    pub(crate) fn votable_zxid(&self) -> Zxid {
        if self.no_history && !mutant!("empty_voter_votes") { Zxid::NONE } else { self.journal.durable }
    }

    /// Makes `tree` the database. The configuration node is this member's own, as upstream sets it after every load.
    pub(crate) fn adopt_tree(&mut self, mut tree: DataTree, now: Now) {
        if self.config.membership.is_some() {
            tree.init_config(self.membership.to_text().as_bytes(), self.membership.version, now.wall_ms);
        }
        *self.shared.tree.write() = tree;
    }

    /// The role ended. Only the mutant `no_drain_before_election` has anything to lose here.
    pub(crate) fn lose_held(&mut self) {
        #[cfg(feature = "mutants")]
        if self.held.take().is_some() {
            self.journal.durable = self.journal.appended;
        }
    }
}

impl Ctx<'_> {
    /// Appends a proposal that came from the leader.
    pub(crate) fn append_received(&mut self, txn: Arc<LoggedTxn>) {
        #[cfg(feature = "mutants")]
        if mutant!("no_drain_before_election") && self.base.my_id().0 % 2 == 1 {
            self.base.journal.push(Arc::clone(&txn));
            if let Some(earlier) = self.base.held.replace(txn) {
                let op = PersistOp::Append { zxid: earlier.header.zxid, bytes: earlier.bytes.clone() };
                self.base.io.submit(op, self.out);
            }
            return;
        }
        self.append(txn);
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        self.out.emit(Effect::Observe(observation));
    }

    /// Appends one transaction to journal and disk.
    pub(crate) fn append(&mut self, txn: Arc<LoggedTxn>) {
        let op = PersistOp::Append { zxid: txn.header.zxid, bytes: txn.bytes.clone() };
        self.base.journal.handed_over(txn.header.zxid, self.now.mono);
        self.base.journal.push(txn);
        self.base.io.submit(op, self.out);
    }

    /// Ends the role of a member whose disk has owed an append for longer than syncLimit: the others go on without its
    /// log, and its tree stands still. Upstream's `SyncRequestProcessor` waits for ever.
    pub(crate) fn require_disk(&self) -> Flow {
        let limit = self.base.ticks_ms(self.base.config.sync_limit);
        match self.base.journal.unlogged_since() {
            Some(since) if self.now.mono.ms_since(since) >= limit => {
                Err(Leave::because("our own disk has not logged a transaction within syncLimit"))
            }
            _ => Ok(()),
        }
    }

    /// Applies every transaction that is committed and durable here, answers who waited, and starts a snapshot when
    /// one is due. Returns what was applied.
    ///
    /// Events and replies are emitted while the tree's write lock is held: a connection that sees the new tree already
    /// has them in its inbox.
    pub(crate) fn apply_committed(&mut self) -> Vec<Arc<LoggedTxn>> {
        let ready = self.base.journal.take_applicable();
        if ready.is_empty() {
            return ready;
        }
        let shared = Arc::clone(&self.base.shared);
        {
            let mut tree = shared.tree.write();
            let mut watches = shared.watches.lock();
            for txn in &ready {
                let applied = tree.apply(&expiry_or_mutant(txn, self.base.config.my_id), &mut watches);
                for (conn, event) in &applied.events {
                    let message =
                        crate::effect::ClientMessage::Event { zxid: txn.header.zxid, event: event.clone() };
                    Clients::tell(*conn, message, self.out);
                }
                if let Some((expected, actual)) = applied.digest_mismatch {
                    self.base.digest_mismatches += 1;
                    self.out.emit(Effect::Observe(Observation::DigestMismatch {
                        zxid: txn.header.zxid,
                        expected,
                        actual,
                    }));
                }
                self.base.clients.applied(txn, &applied, self.out);
                self.base.snapshots.count(txn);
            }
        }
        self.observe(Observation::Committed { zxid: self.base.journal.applied });
        self.snapshot_if_due();
        ready
    }

    /// Starts a periodic snapshot of what is applied. The log is rolled first, in the stream, so that the file that
    /// follows holds what comes after the image and purge can drop what came before.
    fn snapshot_if_due(&mut self) {
        if !self.base.snapshots.is_due() {
            return;
        }
        let image = Box::new(self.base.shared.tree.read().clone());
        self.base.snapshots.rearm(&self.base.config);
        self.base.snapshots.in_flight = true;
        self.base.io.submit(PersistOp::RollLog, self.out);
        self.observe(Observation::SnapshotStarted { zxid: image.last_processed() });
        self.out.emit(Effect::Snapshot { image });
    }

    /// Begins to serve clients.
    pub(crate) fn start_serving(&mut self, epoch: Epoch) {
        self.base.shared.set_serving(true);
        let zxid = self.base.journal.applied;
        self.observe(Observation::Serving { epoch, zxid });
    }
}

/// The transaction to apply: always `txn`, unless the mutant `expiry_lost` keeps an expired session on some members.
fn expiry_or_mutant(txn: &Arc<LoggedTxn>, my_id: ServerId) -> Arc<LoggedTxn> {
    let expiry = txn.header.op == OpCode::CloseSession as i32 && txn.header.cxid == 0;
    if !(mutant!("expiry_lost") && expiry && my_id.0 % 2 == 1) {
        return Arc::clone(txn);
    }
    let header = TxnHeader { op: OpCode::Error as i32, ..txn.header };
    Arc::new(LoggedTxn::new(header, Txn::Error { err: 0 }, None))
}
