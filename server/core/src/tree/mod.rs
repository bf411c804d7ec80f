//! The database (upstream `DataTree`, `ZKDatabase`): every znode, the sessions, and the digest that proves them equal
//! across members.
//!
//! All of it lives in persistent maps, so a clone takes constant time and *is* a point-in-time image: a snapshot is
//! written from it while writes go on, and pays only for what changes meanwhile. Without an image outstanding nothing
//! is copied. Only committed transactions ever reach this type (invariant 6), and each one is checked against the
//! digest its leader predicted (invariant 13).

mod acl;
mod acl_table;
mod apply;
mod change;
mod digest;
mod ephemeral;
mod image;
mod ip;
mod node;
pub mod path;
mod quota;
mod read;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::FixedState;
use imbl::shared_ptr::DefaultSharedPtr;
use imbl::{GenericHashMap, GenericOrdMap};
use zk_jute::consts::perms;
use zk_jute::records::{Acl, Stat, StatPersisted};
use zk_jute::{SessionId, Zxid};

use acl_table::{AclId, AclTable};
use digest::AwaitedDigest;
use node::PathSet;

pub use acl::{check_acl, masked_acl, permits};
pub use apply::{Applied, SessionChange};
pub use digest::{DIGEST_LOG_INTERVAL, DIGEST_LOG_LIMIT, DIGEST_VERSION, DigestLog, node_digest};
pub use ephemeral::{CONTAINER_OWNER, EphemeralType, MAX_EXTENDED_SERVER_ID, MAX_TTL_MS};
pub use image::TreeBuilder;
pub use ip::{ip_matches, is_valid_ip};
pub use node::{ChildPaths, Node};
pub use quota::{QuotaError, StatsTrack};
pub use read::{ReadContext, ReadReply, process_read};

/// Where the configuration is published (upstream `ZooDefs.CONFIG_NODE`).
pub const CONFIG_NODE: &str = "/zookeeper/config";
/// Root of quota limits and statistics (upstream `Quotas.quotaZookeeper`).
pub const QUOTA_NODE: &str = "/zookeeper/quota";
const ZOOKEEPER_NODE: &str = "/zookeeper";
const ROOT: &str = "/";

type OrdMap<K, V> = GenericOrdMap<K, V, DefaultSharedPtr>;

/// The database of one member. `clone` is O(1) and gives an image that never changes.
#[derive(Clone)]
pub struct DataTree {
    /// By full path; the root is "/". Hashed with a fixed state: the same history gives the same memory everywhere.
    nodes: GenericHashMap<Arc<str>, Arc<Node>, FixedState, DefaultSharedPtr>,
    /// Shared so that a tree is small to move; cloning the table itself is O(1) too.
    acls: Arc<AclTable>,
    /// Open sessions and their timeouts, milliseconds.
    sessions: OrdMap<SessionId, i32>,
    /// Ephemeral nodes by owner; no empty sets.
    ephemerals: OrdMap<SessionId, PathSet>,
    containers: PathSet,
    ttls: PathSet,
    /// Paths that have a limit node under [`QUOTA_NODE`].
    quotas: Arc<BTreeSet<Arc<str>>>,
    /// Wrapping sum of every node's digest.
    digest: u64,
    digest_log: Arc<DigestLog>,
    /// Bytes of paths and data.
    data_size: u64,
    last_processed: Zxid,
    /// Set while the tree was loaded from a fuzzy image (written by an upstream server under writes) that the log has
    /// not proven yet.
    awaited_digest: Option<AwaitedDigest>,
    /// Nodes whose ACL the image did not contain; closed to all until a replayed transaction names it again.
    repaired_acls: u64,
}

impl Default for DataTree {
    /// Upstream's initial tree: the same four nodes, so that an empty database has the same digest.
    fn default() -> Self {
        let mut tree = Self::bare();
        let stat = StatPersisted::default();
        for path in [ROOT, ZOOKEEPER_NODE, QUOTA_NODE] {
            tree.insert_initial(path, AclId::OPEN, &stat);
        }
        tree.add_config_node();
        tree
    }
}

impl fmt::Debug for DataTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataTree")
            .field("last_processed", &self.last_processed)
            .field("digest", &self.digest())
            .field("nodes", &self.nodes.len())
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

impl DataTree {
    /// Upstream's initial tree; nothing processed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// zxid of the last transaction applied (or of the epoch that began since, see [`Self::advance_to`]).
    pub const fn last_processed(&self) -> Zxid {
        self.last_processed
    }

    /// Raises [`Self::last_processed`] without a transaction: a new leader starts its epoch at counter 0, and its
    /// learners follow.
    ///
    /// # Panics
    /// If `zxid` lies behind: the tree never goes back.
    pub fn advance_to(&mut self, zxid: Zxid) {
        assert!(zxid >= self.last_processed, "tree at {} cannot go back to {zxid}", self.last_processed);
        self.last_processed = zxid;
    }

    /// The tree digest, version [`DIGEST_VERSION`]. Equal trees have equal digests on every member, upstream's included.
    pub const fn digest(&self) -> i64 {
        self.digest as i64
    }

    /// Digests at the last round zxids.
    pub fn digest_log(&self) -> &DigestLog {
        &self.digest_log
    }

    /// The zxid at which an image written by an upstream server under writes becomes consistent; `None` almost always.
    pub fn fuzzy_until(&self) -> Option<Zxid> {
        self.awaited_digest.map(|awaited| awaited.at)
    }

    /// What is still unproven of the image that this tree was loaded from; `None` almost always.
    pub fn unproven(&self) -> Option<String> {
        let awaited = self.awaited_digest?;
        Some(format!("{awaited}, and the log ends at {} without settling it", self.last_processed))
    }

    /// Number of nodes as upstream reports it (`zk_znode_count`): the root counts twice.
    pub fn node_count(&self) -> usize {
        self.nodes.len() + 1
    }

    /// Bytes of paths and data as upstream reports it (`zk_approximate_data_size`).
    pub fn approximate_data_size(&self) -> u64 {
        self.data_size + self.node(ROOT).map_or(0, |root| root.data_len() as u64)
    }

    /// Number of different ACL lists in use (upstream `aclCacheSize`); the open ACL is not counted.
    pub fn acl_count(&self) -> usize {
        self.acls.len()
    }

    /// The node at `path`; "" is the root, as upstream has it.
    pub fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(key(path)).map(|node| &**node)
    }

    /// Metadata of `path` as clients see it.
    pub fn client_stat(&self, path: &str) -> Option<Stat> {
        self.node(path).map(Node::client_stat)
    }

    /// The ACL of `node`, which must be of this very tree or of the tree that this one is a clone of.
    pub fn acl(&self, node: &Node) -> &Arc<[Acl]> {
        self.acls.get(node.acl)
    }

    /// Open sessions with their timeouts in milliseconds, by id.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = (SessionId, i32)> + '_ {
        self.sessions.iter().map(|(session, timeout)| (*session, *timeout))
    }

    /// Timeout of an open session in milliseconds.
    pub fn session_timeout(&self, session: SessionId) -> Option<i32> {
        self.sessions.get(&session).copied()
    }

    /// Paths of the ephemeral nodes of `session`, in order.
    pub fn ephemerals_of(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.ephemerals.get(&session).into_iter().flat_map(PathSet::iter)
    }

    /// Number of ephemeral nodes.
    pub fn ephemerals_count(&self) -> usize {
        self.ephemerals.values().map(PathSet::len).sum()
    }

    /// Sessions that own ephemeral nodes, with the paths, in order.
    pub fn ephemerals(&self) -> impl Iterator<Item = (SessionId, impl Iterator<Item = &Arc<str>> + '_)> + '_ {
        self.ephemerals.iter().map(|(session, paths)| (*session, paths.iter()))
    }

    /// Ephemeral nodes whose session is not open: what ZOOKEEPER-5010 and ZOOKEEPER-4837 leave behind. Empty in a
    /// healthy tree.
    pub fn orphan_ephemerals(&self) -> impl Iterator<Item = (SessionId, &Arc<str>)> + '_ {
        let orphans = self.ephemerals.iter().filter(|(session, _)| !self.sessions.contains_key(*session));
        orphans.flat_map(|(session, paths)| paths.iter().map(|path| (*session, path)))
    }

    /// Paths of the container nodes, in order.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.containers.iter()
    }

    /// Paths of the nodes with a time to live, in order.
    pub fn ttls(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.ttls.iter()
    }

    /// How many nodes were loaded with an ACL that their image did not contain (ZOOKEEPER-4689). They are closed to
    /// everyone but the superuser.
    pub const fn repaired_acls(&self) -> u64 {
        self.repaired_acls
    }

    /// Number of nodes under `path`, itself excluded. Below "", upstream's other name for the root, "/" counts too, as
    /// upstream has it (`getAllChildrenNumber`).
    pub fn descendants(&self, path: &str) -> usize {
        if key(path) == ROOT {
            return self.nodes.len() - usize::from(path == ROOT);
        }
        let mut count = 0;
        self.walk(path, &mut |_, _| {
            count += 1;
            true
        });
        count - usize::from(self.node(path).is_some())
    }

    /// Names the first difference to `other` in anything a client can see, or `None`.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        if !self.sessions().eq(other.sessions()) {
            return Some("the sessions differ".into());
        }
        let (mut seen, mut found) = (0, None);
        self.walk(ROOT, &mut |path, node| {
            seen += 1;
            let same = other.node(path).is_some_and(|twin| {
                node.stat() == twin.stat()
                    && node.data() == twin.data()
                    && self.acl(node) == other.acl(twin)
                    && node.child_paths().eq(twin.child_paths())
            });
            found = (!same).then(|| format!("{path} differs or is missing in one tree"));
            same
        });
        found.or_else(|| (other.nodes.len() != seen).then(|| "one tree has nodes out of reach".into()))
    }

    /// An empty map with nothing in it, not even a root.
    fn bare() -> Self {
        Self {
            nodes: GenericHashMap::default(),
            acls: Arc::default(),
            sessions: OrdMap::default(),
            ephemerals: OrdMap::default(),
            containers: PathSet::default(),
            ttls: PathSet::default(),
            quotas: Arc::default(),
            digest: 0,
            digest_log: Arc::default(),
            data_size: 0,
            last_processed: Zxid::ZERO,
            awaited_digest: None,
            repaired_acls: 0,
        }
    }

    /// Publishes the configuration as upstream does at start (`ZKDatabase.initConfigInZKDatabase`): not a
    /// transaction, and outside the digest. `version` is the configuration's.
    pub fn init_config(&mut self, text: &[u8], version: i64, wall_ms: i64) {
        if self.node(CONFIG_NODE).is_none() && self.node(ZOOKEEPER_NODE).is_some() {
            self.add_config_node();
        }
        self.change(CONFIG_NODE, |node| node.set_data(Some(text), -1, version, wall_ms));
    }

    /// Readable by all, writable by the superuser only (ZOOKEEPER-2014).
    fn add_config_node(&mut self) {
        let acl = Arc::make_mut(&mut self.acls).acquire(&acl_table::world(perms::READ));
        let stat = StatPersisted { aversion: -1, ..StatPersisted::default() };
        self.insert_initial(CONFIG_NODE, acl, &stat);
    }

    /// A node of the initial tree: the parent's counters stay at 0.
    fn insert_initial(&mut self, path: &str, acl: AclId, stat: &StatPersisted) {
        let path: Arc<str> = path.into();
        if let Some(parent) = path::parent(&path) {
            self.change(parent, |parent| parent.add_child(&path));
        }
        let node = Node::new(&path, Some(&[]), acl, stat);
        self.insert(path, node);
    }
}

/// The root's other name is the empty path.
const fn key(path: &str) -> &str {
    if path.is_empty() { ROOT } else { path }
}
