//! The changes of outstanding transactions (upstream `outstandingChanges` and `ChangeRecord`).
//!
//! The tree never holds an uncommitted transaction (invariant 6), so what a request is checked against is this over that.
//! It is a cache of what applying will do: a record must say exactly what [`DataTree::apply`] will make of the node, or
//! the predicted digest would accuse every member of divergence.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::FixedState;
use zk_jute::records::{Acl, StatPersisted};
use zk_jute::{SessionId, Zxid};

use crate::tree::{DataTree, EphemeralType, node_digest};

/// Bytes that one outstanding change takes at most beside the node's path, data and ACL (record, slot, log entry).
pub const OUTSTANDING_RECORD_OVERHEAD: usize = 400;

/// A node as it will be.
#[derive(Clone, Debug)]
pub(super) struct NodeRecord {
    pub stat: StatPersisted,
    pub children: usize,
    pub acl: Arc<[Acl]>,
    pub data: Option<Bytes>,
    /// Part of the tree digest; 0 if digests are off.
    digest: i64,
}

impl NodeRecord {
    /// A node about to be created.
    pub(super) const fn new(stat: StatPersisted, acl: Arc<[Acl]>, data: Option<Bytes>) -> Self {
        Self { stat, children: 0, acl, data, digest: 0 }
    }

    pub(super) const fn ephemeral_type(&self) -> EphemeralType {
        EphemeralType::of(self.stat.ephemeral_owner)
    }

    fn session(&self) -> Option<SessionId> {
        match self.ephemeral_type() {
            EphemeralType::Session(session) => Some(session),
            EphemeralType::Void | EphemeralType::Container | EphemeralType::Ttl(_) => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Slot {
    /// Of the last change.
    zxid: Zxid,
    /// `None`: deleted.
    record: Option<Arc<NodeRecord>>,
}

/// What a session gains (true) or loses (false), and with which transaction.
type Owned = BTreeMap<Arc<str>, (Zxid, bool)>;

#[derive(Debug)]
struct Change {
    zxid: Zxid,
    path: Arc<str>,
    /// Session whose ephemerals changed with it.
    session: Option<SessionId>,
}

#[derive(Debug)]
struct Undo {
    path: Arc<str>,
    slot: Option<Slot>,
    owned: Option<(SessionId, Option<(Zxid, bool)>)>,
}

/// Outstanding changes by node and by session, in the order of their transactions.
#[derive(Debug)]
pub(super) struct Overlay {
    digest_enabled: bool,
    nodes: HashMap<Arc<str>, Slot, FixedState>,
    owned: HashMap<SessionId, Owned, FixedState>,
    /// Oldest first; exactly what `committed` has to drop.
    log: VecDeque<Change>,
    /// Tree digest after everything outstanding.
    digest: i64,
    /// What to restore if the current transaction fails, newest last.
    undo: Vec<Undo>,
    undo_digest: i64,
}

impl Overlay {
    pub(super) fn new(digest_enabled: bool) -> Self {
        Self {
            digest_enabled,
            nodes: HashMap::default(),
            owned: HashMap::default(),
            log: VecDeque::new(),
            digest: 0,
            undo: Vec::new(),
            undo_digest: 0,
        }
    }

    /// Before a request: drops what the tree has caught up with. With nothing outstanding the tree's own digest counts.
    pub(super) fn begin(&mut self, tree: &DataTree) {
        self.committed(tree.last_processed());
        if self.log.is_empty() {
            self.digest = tree.digest();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.log.len()
    }

    pub(super) const fn digest(&self) -> i64 {
        self.digest
    }

    pub(super) fn committed(&mut self, zxid: Zxid) {
        while let Some(change) = self.log.pop_front_if(|change| change.zxid <= zxid) {
            if let Entry::Occupied(slot) = self.nodes.entry(change.path.clone())
                && slot.get().zxid == change.zxid
            {
                slot.remove();
            }
            if let Some(session) = change.session {
                self.drop_owned(session, &change);
            }
        }
    }

    fn drop_owned(&mut self, session: SessionId, change: &Change) {
        let Some(owned) = self.owned.get_mut(&session) else { return };
        if owned.get(&change.path).is_some_and(|(zxid, _)| *zxid == change.zxid) {
            owned.remove(&change.path);
        }
        if owned.is_empty() {
            self.owned.remove(&session);
        }
    }

    /// From here on a failure takes everything back.
    pub(super) fn checkpoint(&mut self) {
        self.undo.clear();
        self.undo_digest = self.digest;
    }

    /// Back to the last checkpoint.
    pub(super) fn rollback(&mut self) {
        while let Some(undo) = self.undo.pop() {
            self.log.pop_back().expect("every change to undo must be in the log");
            if let Some((session, previous)) = undo.owned {
                let owned = self.owned.entry(session).or_default();
                match previous {
                    Some(previous) => owned.insert(undo.path.clone(), previous),
                    None => owned.remove(&undo.path),
                };
                if owned.is_empty() {
                    self.owned.remove(&session);
                }
            }
            match undo.slot {
                Some(slot) => self.nodes.insert(undo.path, slot),
                None => self.nodes.remove(&undo.path),
            };
        }
        self.digest = self.undo_digest;
    }

    /// The node at `path` after everything outstanding; "" is the root.
    pub(super) fn get(&self, tree: &DataTree, path: &str) -> Option<Arc<NodeRecord>> {
        let path = if path.is_empty() { "/" } else { path };
        if let Some(slot) = self.nodes.get(path) {
            return slot.record.clone();
        }
        let node = tree.node(path)?;
        let stat = node.stat();
        let data = node.data().cloned();
        Some(Arc::new(NodeRecord {
            stat,
            children: node.num_children(),
            acl: tree.acl(node).clone(),
            digest: self.node_digest(path, data.as_ref(), &stat),
            data,
        }))
    }

    /// Creates or changes a node. `before` is what [`Self::get`] returned for it.
    pub(super) fn put(
        &mut self,
        path: Arc<str>,
        zxid: Zxid,
        before: Option<&NodeRecord>,
        mut after: NodeRecord,
    ) {
        after.digest = self.node_digest(&path, after.data.as_ref(), &after.stat);
        let session = if before.is_none() { after.session() } else { None };
        self.move_digest(before.map_or(0, |record| record.digest), after.digest);
        self.record(path, zxid, Some(Arc::new(after)), session.map(|session| (session, true)));
    }

    /// Deletes a node. `before` is what [`Self::get`] returned for it.
    pub(super) fn delete(&mut self, path: Arc<str>, zxid: Zxid, before: &NodeRecord) {
        self.move_digest(before.digest, 0);
        self.record(path, zxid, None, before.session().map(|session| (session, false)));
    }

    /// Paths of the ephemerals of `session` after everything outstanding, in order.
    pub(super) fn ephemerals(&self, tree: &DataTree, session: SessionId) -> BTreeSet<Arc<str>> {
        let mut paths: BTreeSet<Arc<str>> = tree.ephemerals_of(session).cloned().collect();
        for (path, (_, gained)) in self.owned.get(&session).into_iter().flatten() {
            if *gained {
                paths.insert(path.clone());
            } else {
                paths.remove(path);
            }
        }
        paths
    }

    fn record(
        &mut self,
        path: Arc<str>,
        zxid: Zxid,
        record: Option<Arc<NodeRecord>>,
        owned: Option<(SessionId, bool)>,
    ) {
        let slot = self.nodes.insert(path.clone(), Slot { zxid, record });
        let owned = owned.map(|(session, gained)| {
            let changes = self.owned.entry(session).or_default();
            (session, changes.insert(path.clone(), (zxid, gained)))
        });
        let session = owned.map(|(session, _)| session);
        self.undo.push(Undo { path: path.clone(), slot, owned });
        self.log.push_back(Change { zxid, path, session });
    }

    const fn move_digest(&mut self, before: i64, after: i64) {
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
    }

    fn node_digest(&self, path: &str, data: Option<&Bytes>, stat: &StatPersisted) -> i64 {
        if self.digest_enabled { node_digest(path, data.map(|data| &**data), stat) } else { 0 }
    }
}
