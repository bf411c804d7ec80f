//! One znode, laid out for millions of them (upstream `DataNode`): 112 bytes, fields packed beside each other instead
//! of nested records, children only where there are any.

use std::sync::Arc;

use bytes::Bytes;
use imbl::GenericOrdSet;
use imbl::shared_ptr::DefaultSharedPtr;
use zk_jute::records::{Stat, StatPersisted};

use super::acl_table::AclId;
use super::digest::node_digest;
use super::ephemeral::EphemeralType;
use super::path;

/// Persistent ordered set of paths: cloned in O(1).
pub(super) type PathSet = GenericOrdSet<Arc<str>, DefaultSharedPtr>;

/// A node of the tree. Its path is the key it is found by.
#[derive(Clone, Debug)]
pub struct Node {
    data: Option<Bytes>,
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    ctime: i64,
    mtime: i64,
    ephemeral_owner: i64,
    version: i32,
    cversion: i32,
    aversion: i32,
    pub(super) acl: AclId,
    /// What this node adds to the tree digest, always up to date: a change needs the old value too.
    digest: u32,
    children: Option<Box<Children>>,
}

/// Full paths of the children, in order. They share the allocation of the map's key: a name costs 16 bytes.
#[derive(Clone, Debug)]
enum Children {
    /// Sorted. Bound: [`FEW`].
    Few(Vec<Arc<str>>),
    /// Persistent, so that a change beside a snapshot does not copy a million names.
    Many(PathSet),
}

/// Up to here a sorted vector is smaller and faster than a tree.
const FEW: usize = 32;

impl Node {
    /// A node of `path`; `data` is kept in an allocation of its own, never as a slice of a larger buffer.
    pub(super) fn new(path: &str, data: Option<&[u8]>, acl: AclId, stat: &StatPersisted) -> Self {
        let mut node = Self {
            data: None,
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            pzxid: stat.pzxid,
            ctime: stat.ctime,
            mtime: stat.mtime,
            ephemeral_owner: stat.ephemeral_owner,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            acl,
            digest: 0,
            children: None,
        };
        node.put_data(data);
        node.refresh_digest(path);
        node
    }

    /// Metadata as it is stored.
    pub const fn stat(&self) -> StatPersisted {
        StatPersisted {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion,
            aversion: self.aversion,
            ephemeral_owner: self.ephemeral_owner,
            pzxid: self.pzxid,
        }
    }

    /// Metadata as clients see it: `cversion` counts deletions of children too, only sessions are owners.
    pub fn client_stat(&self) -> Stat {
        let children = self.num_children() as i32;
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.cversion.wrapping_mul(2).wrapping_sub(children),
            aversion: self.aversion,
            ephemeral_owner: EphemeralType::client_owner(self.ephemeral_owner),
            data_length: self.data_len() as i32,
            num_children: children,
            pzxid: self.pzxid,
        }
    }

    /// The data; `None` is jute's null, which is not the same as empty.
    pub const fn data(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }

    /// Bytes of data, 0 for null.
    pub fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }

    /// What `ephemeralOwner` says about this node.
    pub const fn ephemeral_type(&self) -> EphemeralType {
        EphemeralType::of(self.ephemeral_owner)
    }

    /// The stored count of child creations; the next sequential child gets it as its suffix.
    pub const fn cversion(&self) -> i32 {
        self.cversion
    }

    /// zxid of the last change of the data.
    pub const fn mzxid(&self) -> i64 {
        self.mzxid
    }

    /// zxid of the last creation or deletion of a child.
    pub const fn pzxid(&self) -> i64 {
        self.pzxid
    }

    /// Number of children.
    pub fn num_children(&self) -> usize {
        match self.children.as_deref() {
            None => 0,
            Some(Children::Few(few)) => few.len(),
            Some(Children::Many(many)) => many.len(),
        }
    }

    /// Full paths of the children in order.
    pub fn child_paths(&self) -> ChildPaths<'_> {
        match self.children.as_deref() {
            None => ChildPaths::Few([].iter()),
            Some(Children::Few(few)) => ChildPaths::Few(few.iter()),
            Some(Children::Many(many)) => ChildPaths::Many(many.iter()),
        }
    }

    /// Names (last segments) of the children in order.
    pub fn child_names(&self) -> impl Iterator<Item = &str> {
        self.child_paths().map(|child| path::name(child))
    }

    pub(super) const fn digest(&self) -> u64 {
        self.digest as u64
    }

    pub(super) fn refresh_digest(&mut self, path: &str) {
        self.digest = node_digest(path, self.data.as_deref(), &self.stat()) as u32;
    }

    pub(super) fn put_data(&mut self, data: Option<&[u8]>) {
        self.data =
            data.map(|data| if data.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(data) });
    }

    pub(super) fn set_data(&mut self, data: Option<&[u8]>, version: i32, zxid: i64, time: i64) {
        self.put_data(data);
        self.version = version;
        self.mzxid = zxid;
        self.mtime = time;
    }

    pub(super) const fn set_acl(&mut self, acl: AclId, aversion: i32) {
        self.acl = acl;
        self.aversion = aversion;
    }

    /// Lifts `cversion` to `cversion` (-1: by one) and `pzxid` with it, and never takes either back: a replay over a
    /// fuzzy image can meet a node that has already seen later children.
    pub(super) const fn lift_cversion(&mut self, cversion: i32, zxid: i64) {
        let cversion = if cversion == -1 { self.cversion.wrapping_add(1) } else { cversion };
        if cversion > self.cversion {
            self.cversion = cversion;
            self.pzxid = zxid;
        }
    }

    /// Lifts `pzxid`; never takes it back.
    pub(super) const fn lift_pzxid(&mut self, zxid: i64) {
        if zxid > self.pzxid {
            self.pzxid = zxid;
        }
    }

    pub(super) fn add_child(&mut self, child: &Arc<str>) {
        let children = self.children.get_or_insert_with(|| Box::new(Children::Few(Vec::with_capacity(2))));
        children.insert(child);
    }

    pub(super) fn remove_child(&mut self, child: &str) {
        if let Some(children) = self.children.as_deref_mut() {
            children.remove(child);
        }
        if self.num_children() == 0 {
            self.children = None;
        }
    }
}

impl Children {
    fn insert(&mut self, child: &Arc<str>) {
        match self {
            Self::Few(few) => {
                let Err(at) = few.binary_search(child) else { return };
                if few.len() < FEW {
                    few.insert(at, child.clone());
                } else {
                    let mut many: PathSet = few.drain(..).collect();
                    many.insert(child.clone());
                    *self = Self::Many(many);
                }
            }
            Self::Many(many) => {
                many.insert(child.clone());
            }
        }
    }

    fn remove(&mut self, child: &str) {
        match self {
            Self::Few(few) => {
                if let Ok(at) = few.binary_search_by(|probe| (**probe).cmp(child)) {
                    few.remove(at);
                }
            }
            Self::Many(many) => {
                many.remove(child);
                // Half, so that a node at the limit does not change its form with each child.
                if many.len() <= FEW / 2 {
                    *self = Self::Few(many.iter().cloned().collect());
                }
            }
        }
    }
}

/// Iterator of [`Node::child_paths`].
#[derive(Clone)]
pub enum ChildPaths<'a> {
    #[doc(hidden)]
    Few(std::slice::Iter<'a, Arc<str>>),
    #[doc(hidden)]
    Many(imbl::ordset::Iter<'a, Arc<str>, DefaultSharedPtr>),
}

impl<'a> Iterator for ChildPaths<'a> {
    type Item = &'a Arc<str>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Few(few) => few.next(),
            Self::Many(many) => many.next(),
        }
    }
}
