//! The primitive changes of a tree and everything that hangs on them: parent counters, digest, sizes, ephemerals,
//! quota statistics, watches (upstream `DataTree.createNode`, `deleteNode`, `setData`, `setACL`).

use std::sync::Arc;

use zk_jute::ErrorCode;
use zk_jute::records::{Acl, Stat, StatPersisted};
use zk_jute::request::WatcherEvent;

use super::acl_table::AclId;
use super::ephemeral::EphemeralType;
use super::node::Node;
use super::{DataTree, ROOT, key, path};
use crate::input::ConnId;
use crate::watch::WatchManager;

/// What a change needs from its transaction, and where the watches it fires go.
pub(super) struct Outcome<'a> {
    pub(super) zxid: i64,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) watches: &'a mut WatchManager,
    pub(super) events: &'a mut Vec<(ConnId, WatcherEvent)>,
}

impl DataTree {
    /// Creates `path`. The parent's `cversion` and `pzxid` are lifted together, and only forward.
    pub(super) fn create(
        &mut self,
        path: &Arc<str>,
        data: Option<&[u8]>,
        acl: &[Acl],
        owner: i64,
        parent_cversion: i32,
        outcome: &mut Outcome<'_>,
    ) -> Result<Stat, ErrorCode> {
        let parent = path::parent(path).or((**path == *ROOT).then_some(ROOT)).ok_or(ErrorCode::NoNode)?;
        if self.node(parent).is_none() {
            return Err(ErrorCode::NoNode);
        }
        let acl_id = Arc::make_mut(&mut self.acls).acquire(acl);
        if let Some(existing) = self.nodes.get_mut(&**path) {
            let old = std::mem::replace(&mut Arc::make_mut(existing).acl, acl_id);
            Arc::make_mut(&mut self.acls).release(old);
            return Err(ErrorCode::NodeExists);
        }
        self.change(parent, |parent| {
            parent.lift_cversion(parent_cversion, outcome.zxid);
            parent.add_child(path);
        });
        let stat = StatPersisted {
            czxid: outcome.zxid,
            mzxid: outcome.zxid,
            pzxid: outcome.zxid,
            ctime: outcome.time,
            mtime: outcome.time,
            ephemeral_owner: owner,
            ..StatPersisted::default()
        };
        let node = Node::new(path, data, acl_id, &stat);
        let stat = node.client_stat();
        self.insert(path.clone(), node);
        self.quota_after_create(path, parent, data.map_or(0, <[u8]>::len));
        if !outcome.watches.is_empty() {
            let parent_acl = self.node(parent).map(|parent| self.acls.get(parent.acl));
            outcome.watches.created(path, acl, parent, parent_acl.map_or(&[], |acl| acl), outcome.events);
        }
        Ok(stat)
    }

    /// Deletes `path`. The parent's `pzxid` is lifted even when the node is already gone.
    ///
    /// Only a fuzzy image has something below a node that its log deletes. It was made after the deletion, below a
    /// later node of that path, and would be in the way of the transactions that make both again. (Upstream leaves it in
    /// its map, out of reach, and replaces it then.)
    pub(super) fn delete(&mut self, path: &Arc<str>, outcome: &mut Outcome<'_>) -> Result<(), ErrorCode> {
        let mut below = Vec::new();
        if path::parent(path).is_some() && self.node(path).is_some_and(|node| node.num_children() > 0) {
            self.walk(path, &mut |below_or_self, _| {
                below.push(below_or_self.clone());
                true
            });
        }
        for path in below.iter().skip(1).rev() {
            self.delete_childless(path, outcome)?;
        }
        self.delete_childless(path, outcome)
    }

    fn delete_childless(&mut self, path: &Arc<str>, outcome: &mut Outcome<'_>) -> Result<(), ErrorCode> {
        let parent = path::parent(path).ok_or(ErrorCode::NoNode)?;
        let parent_found = self.change(parent, |parent| {
            parent.remove_child(path);
            parent.lift_pzxid(outcome.zxid);
        });
        if !parent_found {
            return Err(ErrorCode::NoNode);
        }
        let node = self.nodes.remove(&**path).ok_or(ErrorCode::NoNode)?;
        self.digest = self.digest.wrapping_sub(node.digest());
        self.data_size -= (java_len(path) + node.data_len()) as u64;
        self.forget_owner(path, node.ephemeral_type());
        self.quota_after_delete(path, parent, node.data_len());
        if !outcome.watches.is_empty() {
            let parent_acl = self.node(parent).map(|parent| self.acls.get(parent.acl));
            let acl = self.acls.get(node.acl);
            outcome.watches.deleted(path, acl, parent, parent_acl.map_or(&[], |acl| acl), outcome.events);
        }
        Arc::make_mut(&mut self.acls).release(node.acl);
        Ok(())
    }

    /// Replaces the data of `path`; `version` is the new one.
    pub(super) fn set_data(
        &mut self,
        path: &Arc<str>,
        data: Option<&[u8]>,
        version: i32,
        outcome: &mut Outcome<'_>,
    ) -> Result<Stat, ErrorCode> {
        let (mut before, mut stat, mut acl) = (0, Stat::default(), AclId::OPEN);
        let found = self.change(path, |node| {
            before = node.data_len();
            node.set_data(data, version, outcome.zxid, outcome.time);
            (stat, acl) = (node.client_stat(), node.acl);
        });
        if !found {
            return Err(ErrorCode::NoNode);
        }
        self.quota_after_set(path, data.map_or(0, <[u8]>::len) as i64 - before as i64);
        if !outcome.watches.is_empty() {
            outcome.watches.data_changed(path, self.acls.get(acl), outcome.events);
        }
        Ok(stat)
    }

    /// Replaces the ACL of `path`; `version` is the new ACL version.
    pub(super) fn set_acl(&mut self, path: &str, acl: &[Acl], version: i32) -> Result<Stat, ErrorCode> {
        let old = self.node(path).ok_or(ErrorCode::NoNode)?.acl;
        let new = Arc::make_mut(&mut self.acls).acquire(acl);
        let mut stat = Stat::default();
        self.change(path, |node| {
            node.set_acl(new, version);
            stat = node.client_stat();
        });
        Arc::make_mut(&mut self.acls).release(old);
        Ok(stat)
    }

    /// Changes one node, keeping the tree digest and size right. False if there is no such node.
    pub(super) fn change(&mut self, path: &str, edit: impl FnOnce(&mut Node)) -> bool {
        let path = key(path);
        let Some(node) = self.nodes.get_mut(path) else { return false };
        let node = Arc::make_mut(node);
        let (digest, size) = (node.digest(), node.data_len() as u64);
        edit(node);
        node.refresh_digest(path);
        self.digest = self.digest.wrapping_sub(digest).wrapping_add(node.digest());
        self.data_size = self.data_size - size + node.data_len() as u64;
        true
    }

    /// Puts a node in that is not there yet, without touching its parent.
    pub(super) fn insert(&mut self, path: Arc<str>, node: Node) {
        self.digest = self.digest.wrapping_add(node.digest());
        self.data_size += (java_len(&path) + node.data_len()) as u64;
        match node.ephemeral_type() {
            EphemeralType::Void => {}
            EphemeralType::Container => _ = self.containers.insert(path.clone()),
            EphemeralType::Ttl(_) => _ = self.ttls.insert(path.clone()),
            EphemeralType::Session(session) => {
                _ = self.ephemerals.entry(session).or_default().insert(path.clone());
            }
        }
        let replaced = self.nodes.insert(path, Arc::new(node));
        assert!(replaced.is_none(), "a node was inserted over another");
    }

    fn forget_owner(&mut self, path: &str, kind: EphemeralType) {
        match kind {
            EphemeralType::Void => {}
            EphemeralType::Container => _ = self.containers.remove(path),
            EphemeralType::Ttl(_) => _ = self.ttls.remove(path),
            EphemeralType::Session(session) => {
                let Some(paths) = self.ephemerals.get_mut(&session) else { return };
                paths.remove(path);
                if paths.is_empty() {
                    self.ephemerals.remove(&session);
                }
            }
        }
    }
}

/// Characters as Java counts them, which is how upstream sizes paths.
fn java_len(path: &str) -> usize {
    if path.is_ascii() { path.len() } else { path.encode_utf16().count() }
}
