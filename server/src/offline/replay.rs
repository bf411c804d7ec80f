//! The tree that a directory gives: the newest intact snapshot, and every logged transaction after it, each compared with
//! the digest that its leader predicted (invariant 13).
//!
//! The same reading as a start's, by the same code, except that a start commits nothing of the log by itself: here all
//! of it is applied.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zk_core::tree::{DIGEST_VERSION, DataTree, TreeBuilder};
use zk_core::watch::WatchManager;
use zk_jute::Zxid;
use zk_jute::image::SnapshotSink;
use zk_jute::snapshot::{SnapshotHead, SnapshotNode};
use zk_jute::txn::{LoggedTxn, TxnDigest};
use zk_store::dump::for_each_txn;
use zk_store::{FileDisk, StoreConfig, StoreError, load_snapshot};

use super::dump_log::summary;

/// Number of the open ACL, which is in no map.
const OPEN_ACL: i64 = -1;

/// Builds a tree and notes the nodes whose ACL the snapshot lacks (ZOOKEEPER-4689). They are nodes of the tree, so there
/// is no more of them than of those.
#[derive(Debug, Default)]
pub(super) struct Loader {
    builder: TreeBuilder,
    acls: BTreeSet<i64>,
    unknown_acls: Vec<Arc<str>>,
}

impl SnapshotSink for Loader {
    fn head(&mut self, head: SnapshotHead) {
        self.acls = head.acls.iter().map(|(number, _)| *number).collect();
        self.builder.head(head);
    }

    fn node(&mut self, node: SnapshotNode) -> Result<(), String> {
        if node.acl != OPEN_ACL && !self.acls.contains(&node.acl) {
            self.unknown_acls.push(node.path.clone());
        }
        self.builder.node(node)
    }
}

/// A transaction after which the tree is another one than its leader had.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) zxid: Zxid,
    /// Type and path.
    pub(super) txn: String,
    pub(super) expected: i64,
    pub(super) actual: i64,
}

/// A tree, and what became known while it grew.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) tree: DataTree,
    /// `None`: the initial tree.
    pub(super) snapshot: Option<PathBuf>,
    /// Where the replay began.
    pub(super) from: Zxid,
    /// Nodes whose ACL the snapshot lacks. A replayed transaction may have set it right.
    pub(super) unknown_acls: Vec<Arc<str>>,
    /// Transactions applied.
    pub(super) replayed: u64,
    /// Of these, those with a digest to compare.
    pub(super) compared: u64,
    /// The first mismatches; `mismatched` counts all.
    pub(super) mismatches: Vec<Mismatch>,
    pub(super) mismatched: u64,
    watches: WatchManager,
}

impl Replay {
    /// Starts from an empty database.
    pub(super) fn from_nothing() -> Self {
        Self::new(DataTree::new(), None, Vec::new())
    }

    /// Starts from a snapshot file, named after `zxid`. The inner error says why its tree is not what the footer says,
    /// judged with the log as a start does: a snapshot that a Java server wrote under writes is no error if the log goes on.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for bytes that are no tree; a file that cannot be read.
    pub(super) fn from_snapshot(
        config: &StoreConfig,
        file: &Path,
        zxid: Zxid,
    ) -> Result<Result<Self, String>, StoreError> {
        let mut loader = Loader::default();
        let tail = load_snapshot(&FileDisk, file, &mut loader)?;
        let tree = match loader.builder.finish(tail, zxid) {
            Ok(tree) => tree,
            Err(what) => return Ok(Err(what)),
        };
        if tree.fuzzy_until().is_some() {
            let mut log = Vec::new();
            let read = for_each_txn(&FileDisk, config, zxid, &mut |txn| {
                log.push(txn);
                Ok(())
            });
            match read {
                // What ends the log early is reported when it is replayed.
                Ok(_) | Err(StoreError::Corrupt { .. } | StoreError::Gap { .. }) => {}
                Err(error) => return Err(error),
            }
            if let Err(what) = tree.confirm(&log) {
                return Ok(Err(what));
            }
        }
        Ok(Ok(Self::new(tree, Some(file.to_owned()), loader.unknown_acls)))
    }

    fn new(tree: DataTree, snapshot: Option<PathBuf>, unknown_acls: Vec<Arc<str>>) -> Self {
        Self {
            from: tree.last_processed(),
            tree,
            snapshot,
            unknown_acls,
            replayed: 0,
            compared: 0,
            mismatches: Vec::new(),
            mismatched: 0,
            watches: WatchManager::default(),
        }
    }

    /// Applies the whole log after the snapshot. The first `limit` mismatches are kept.
    ///
    /// # Errors
    /// What ends the log early; the tree is then at the last transaction before it.
    pub(super) fn run(&mut self, config: &StoreConfig, limit: usize) -> Result<(), StoreError> {
        let from = self.from;
        let mut visit = |txn: LoggedTxn| {
            self.apply(&txn, limit);
            Ok(())
        };
        for_each_txn(&FileDisk, config, from, &mut visit).map(drop)
    }

    fn apply(&mut self, txn: &LoggedTxn, limit: usize) {
        // Over a fuzzy snapshot of upstream's nothing is comparable before the zxid of its digest.
        let comparable = self.tree.fuzzy_until().is_none_or(|until| until <= txn.zxid());
        let has_digest = matches!(txn.digest, Some(TxnDigest { version: DIGEST_VERSION, .. }));
        self.compared += u64::from(comparable && has_digest);
        self.replayed += 1;
        let Some((expected, actual)) = self.tree.apply(txn, &mut self.watches).digest_mismatch else {
            return;
        };
        self.mismatched += 1;
        if self.mismatches.len() < limit {
            self.mismatches.push(Mismatch { zxid: txn.zxid(), txn: summary(txn), expected, actual });
        }
    }
}
