//! Images: a clone of the tree read out as a snapshot, and a tree built from one (upstream `DataTree.serialize`,
//! `deserialize`).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use foldhash::fast::FixedState;
use zk_jute::Zxid;
use zk_jute::image::{SnapshotSink, SnapshotSource};
use zk_jute::snapshot::{SnapshotHead, SnapshotNode, SnapshotTail};
use zk_jute::txn::LoggedTxn;

use super::acl_table::{AclId, world};
use super::digest::{AwaitedDigest, DIGEST_VERSION};
use super::node::{ChildPaths, Node};
use super::{DataTree, ROOT, key, path};

impl DataTree {
    /// Visits `from` and everything below it, parents first, children in order; stops when `visit` says false.
    /// Depth is bounded by the length of a path, so the stack is ours and not the thread's.
    pub(super) fn walk<'a>(
        &'a self,
        from: &str,
        visit: &mut dyn FnMut(&'a Arc<str>, &'a Node) -> bool,
    ) -> bool {
        let Some((path, node)) = self.nodes.get_key_value(key(from)) else { return true };
        if !visit(path, node) {
            return false;
        }
        let mut stack: Vec<ChildPaths<'a>> = vec![node.child_paths()];
        while let Some(children) = stack.last_mut() {
            let Some(path) = children.next() else {
                stack.pop();
                continue;
            };
            let Some(node) = self.nodes.get(&**path) else { continue };
            if !visit(path, node) {
                return false;
            }
            if node.num_children() > 0 {
                stack.push(node.child_paths());
            }
        }
        true
    }
}

impl SnapshotSource for DataTree {
    fn head(&self) -> SnapshotHead {
        SnapshotHead { sessions: self.sessions().collect(), acls: self.acls.to_image() }
    }

    fn visit_nodes(&self, visit: &mut dyn FnMut(&SnapshotNode) -> ControlFlow<()>) -> bool {
        let root: Arc<str> = "".into();
        self.walk(ROOT, &mut |path, node| {
            let path = if &**path == ROOT { root.clone() } else { path.clone() };
            let entry = SnapshotNode {
                path,
                data: node.data().cloned(),
                acl: node.acl.to_image(),
                stat: node.stat(),
            };
            visit(&entry).is_continue()
        })
    }

    fn tail(&self) -> SnapshotTail {
        // A tree that is still fuzzy says so in its own images too.
        let awaited = self.awaited_digest.map(|awaited| (awaited.at, awaited.digest));
        let (zxid, digest) = awaited.unwrap_or((self.last_processed, self.digest()));
        SnapshotTail {
            digest: Some((zxid, DIGEST_VERSION, digest)),
            last_processed: Some(self.last_processed),
        }
    }
}

/// Builds a tree from an image, node by node.
#[derive(Debug)]
pub struct TreeBuilder {
    tree: DataTree,
    /// The image's ACL numbers in ours.
    acls: HashMap<i64, AclId, FixedState>,
    closed: AclId,
}

impl Default for TreeBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl TreeBuilder {
    /// Expects the image's head, its nodes, then [`Self::finish`].
    pub fn new() -> Self {
        let mut tree = DataTree::bare();
        let closed = Arc::make_mut(&mut tree.acls).acquire(&world(0));
        Self { tree, acls: HashMap::default(), closed }
    }

    /// The tree at `zxid`, which is the one of the image's name (an image that upstream wrote under writes holds later
    /// changes too, and its log must be replayed from here). Whether the nodes are what the digest in `tail` says may
    /// depend on that log: see [`DataTree::confirm`]. A digest from before `zxid` says nothing: upstream writes it when an
    /// epoch began since (`DataTree.deserializeZxidDigest`).
    ///
    /// # Errors
    /// No root.
    pub fn finish(mut self, tail: SnapshotTail, zxid: Zxid) -> Result<DataTree, String> {
        if self.tree.node(ROOT).is_none() {
            return Err("the image has no root node".into());
        }
        for id in self.acls.into_values().chain([self.closed]) {
            Arc::make_mut(&mut self.tree.acls).release(id);
        }
        self.tree.last_processed = zxid;
        self.tree.awaited_digest = match tail.digest {
            Some((at, DIGEST_VERSION, digest)) if at >= zxid && at > Zxid::ZERO => {
                let actual = self.tree.digest();
                match at == zxid {
                    true if actual == digest => None,
                    true => Some(AwaitedDigest { at, digest, found: Some(actual) }),
                    false => Some(AwaitedDigest { at, digest, found: None }),
                }
            }
            _ => None,
        };
        self.tree.load_quotas();
        Ok(self.tree)
    }

    /// What a recovery makes of the image that it read, which is that of `at` (`None`: there is none), with the log after it.
    ///
    /// # Errors
    /// As [`Self::finish`] and [`DataTree::confirm`]: an older image must do.
    pub fn restore(self, at: Option<(Zxid, SnapshotTail)>, log: &[LoggedTxn]) -> Result<DataTree, String> {
        let Some((zxid, tail)) = at else { return Ok(DataTree::new()) };
        let tree = self.finish(tail, zxid)?;
        tree.confirm(log)?;
        Ok(tree)
    }

    /// Our number for the image's, with a use of its own.
    fn acl(&mut self, number: i64) -> AclId {
        let id = match self.acls.get(&number) {
            _ if number == -1 => AclId::OPEN,
            Some(id) => *id,
            // A fuzzy image of upstream can name a list that is not in it (ZOOKEEPER-4689). The transaction that
            // brought it is replayed next and sets it right; until then nobody gets in.
            None => {
                self.tree.repaired_acls += 1;
                self.closed
            }
        };
        Arc::make_mut(&mut self.tree.acls).reuse(id);
        id
    }
}

impl SnapshotSink for TreeBuilder {
    fn head(&mut self, head: SnapshotHead) {
        self.tree.sessions = head.sessions.into_iter().collect();
        for (number, acl) in head.acls {
            // One use by this map until the end, so that a list is not dropped between two nodes that have it.
            let id = Arc::make_mut(&mut self.tree.acls).acquire(&acl);
            if let Some(older) = self.acls.insert(number, id) {
                Arc::make_mut(&mut self.tree.acls).release(older);
            }
        }
    }

    fn node(&mut self, node: SnapshotNode) -> Result<(), String> {
        let SnapshotNode { path, data, acl, stat } = node;
        let path: Arc<str> = if path.is_empty() { ROOT.into() } else { path };
        if self.tree.node(&path).is_some() {
            return Err(format!("node {path} is in the image twice"));
        }
        match path::parent(&path) {
            // Structure only: the parent's counters come from the image, and so does its digest.
            Some(parent) => {
                let Some(parent) = self.tree.nodes.get_mut(parent) else {
                    return Err(format!("node {path} comes before its parent"));
                };
                Arc::make_mut(parent).add_child(&path);
            }
            None if &*path == ROOT => {}
            None => return Err(format!("node {path:?} has no absolute path")),
        }
        let acl = self.acl(acl);
        let node = Node::new(&path, data.as_deref(), acl, &stat);
        self.tree.insert(path, node);
        Ok(())
    }
}
