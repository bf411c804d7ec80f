//! How a database image moves between the crate that holds it and the crates that store or send it.
//!
//! `core` implements both traits for its tree, `store` and the SNAP stream use them, and neither knows the other.

use std::ops::ControlFlow;

use crate::snapshot::{SnapshotHead, SnapshotNode, SnapshotTail};

/// A point-in-time database that can be serialized: it never changes while it is read.
pub trait SnapshotSource {
    /// Sessions and ACLs. They are of the same instant as the nodes, so no ACL id can dangle (ZOOKEEPER-4689).
    fn head(&self) -> SnapshotHead;
    /// Calls `visit` for every node, each parent before its children, the root first with path "".
    /// Stops early, and returns false, when `visit` breaks.
    fn visit_nodes(&self, visit: &mut dyn FnMut(&SnapshotNode) -> ControlFlow<()>) -> bool;
    /// Digest and last processed zxid.
    fn tail(&self) -> SnapshotTail;
}

/// A database under construction.
pub trait SnapshotSink {
    /// Called first, once.
    fn head(&mut self, head: SnapshotHead);
    /// Called for every node in file order. An error text says what is wrong with the node (no parent, unknown ACL).
    fn node(&mut self, node: SnapshotNode) -> Result<(), String>;
}
