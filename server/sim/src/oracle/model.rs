//! A second, slow and simple database: what every path held at every zxid, from the committed history alone.
//!
//! Replies, watches and final trees are compared with it. It knows nothing of digests, ACLs or cversions; those are the business
//! of tree equality and of the differential tests against the Java server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{SessionId, Zxid};

use super::Violation;
use super::ledger::Entry;

/// A node at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeState {
    pub data: Option<Bytes>,
    pub version: i32,
    pub czxid: Zxid,
    pub mzxid: Zxid,
    /// 0 unless ephemeral.
    pub owner: i64,
}

/// A decoded transaction of the history, as far as replies need it.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    pub header: TxnHeader,
    /// The error of a failed write, 0 of one that changed something.
    pub err: i32,
}

/// Every path through time.
#[derive(Debug, Default)]
pub struct Model {
    applied: usize,
    paths: BTreeMap<Arc<str>, Vec<(Zxid, Option<NodeState>)>>,
    /// When the set of children of a path changed.
    child_changes: BTreeMap<Arc<str>, Vec<Zxid>>,
    ephemerals: BTreeMap<i64, BTreeSet<Arc<str>>>,
    sessions: BTreeSet<SessionId>,
    summaries: BTreeMap<Zxid, Summary>,
    /// Which session's request made which transaction: a duplicate is a write carried out twice.
    requests: BTreeMap<(i64, i32), Zxid>,
}

impl Model {
    /// Applies what the history has grown by.
    pub fn catch_up(&mut self, history: &[Entry]) -> Result<(), Violation> {
        while let Some(entry) = history.get(self.applied) {
            self.applied += 1;
            let logged = LoggedTxn::decode(entry.bytes.clone()).map_err(|error| {
                Violation::new("Readable", format!("{} cannot be decoded: {error}", entry.zxid))
            })?;
            self.apply(&logged)?;
        }
        Ok(())
    }

    /// The node at `path` after everything up to `zxid`.
    pub fn at(&self, path: &str, zxid: Zxid) -> Option<&NodeState> {
        let versions = self.paths.get(path)?;
        let end = versions.partition_point(|(changed, _)| *changed <= zxid);
        versions[..end].last()?.1.as_ref()
    }

    /// Names of the children of `path` after everything up to `zxid`, in order.
    pub fn children(&self, path: &str, zxid: Zxid) -> Vec<&str> {
        let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        self.paths
            .range::<str, _>((std::ops::Bound::Included(&*prefix), std::ops::Bound::Unbounded))
            .take_while(|(child, _)| child.starts_with(&prefix))
            .filter_map(|(child, _)| child.strip_prefix(&prefix))
            .filter(|name| !name.is_empty() && !name.contains('/'))
            .filter(|name| self.at(&format!("{prefix}{name}"), zxid).is_some())
            .collect()
    }

    /// The first change of the node at `path` after `after`.
    pub fn next_change(&self, path: &str, after: Zxid) -> Option<Zxid> {
        let versions = self.paths.get(path)?;
        let at = versions.partition_point(|(changed, _)| *changed <= after);
        versions.get(at).map(|(changed, _)| *changed)
    }

    /// The first change of the children of `path`, or of whether it exists, after `after`.
    pub fn next_child_change(&self, path: &str, after: Zxid) -> Option<Zxid> {
        let changes = self.child_changes.get(path)?;
        changes.get(changes.partition_point(|changed| *changed <= after)).copied()
    }

    /// Header and outcome of a committed transaction.
    pub fn summary(&self, zxid: Zxid) -> Option<Summary> {
        self.summaries.get(&zxid).copied()
    }

    /// Sessions open at the end of the history.
    pub const fn sessions(&self) -> &BTreeSet<SessionId> {
        &self.sessions
    }

    /// Every path that exists at the end of the history, with its node.
    pub fn live(&self) -> impl Iterator<Item = (&Arc<str>, &NodeState)> {
        self.paths.iter().filter_map(|(path, versions)| Some((path, versions.last()?.1.as_ref()?)))
    }

    fn apply(&mut self, logged: &LoggedTxn) -> Result<(), Violation> {
        let header = logged.header;
        let failed_multi = logged.txn.failed_multi().is_some();
        let err = match &logged.txn {
            Txn::Error { err } => *err,
            Txn::Multi(_) if failed_multi => -1,
            _ => 0,
        };
        self.summaries.insert(header.zxid, Summary { header, err });
        if header.cxid > 0
            && let Some(first) = self.requests.insert((header.client_id, header.cxid), header.zxid)
        {
            let text = format!(
                "request {} of session 0x{:x} became {first} and {}",
                header.cxid, header.client_id, header.zxid
            );
            return Err(Violation::new("OnceOnly", text));
        }
        if !failed_multi {
            self.change(&logged.txn, header);
        }
        Ok(())
    }

    fn change(&mut self, txn: &Txn, header: TxnHeader) {
        match txn {
            Txn::Create { path, data, ephemeral, .. } => self.create(path, data, header, *ephemeral),
            Txn::CreateTtl { path, data, .. } | Txn::CreateContainer { path, data, .. } => {
                self.create(path, data, header, false);
            }
            Txn::Delete { path } => self.delete(path, header.zxid),
            Txn::SetData { path, data, version } => self.set(path, data, *version, header.zxid),
            Txn::CreateSession { .. } => {
                self.sessions.insert(SessionId(header.client_id));
            }
            Txn::CloseSession { .. } => {
                self.sessions.remove(&SessionId(header.client_id));
                for path in self.ephemerals.remove(&header.client_id).unwrap_or_default() {
                    self.delete(&path, header.zxid);
                }
            }
            Txn::Multi(parts) => {
                for (_, part) in parts {
                    self.change(part, header);
                }
            }
            Txn::Check { .. } | Txn::SetAcl { .. } | Txn::Error { .. } => {}
        }
    }

    fn create(&mut self, path: &Arc<str>, data: &Option<Bytes>, header: TxnHeader, ephemeral: bool) {
        let owner = if ephemeral { header.client_id } else { 0 };
        if ephemeral {
            self.ephemerals.entry(owner).or_default().insert(path.clone());
        }
        let zxid = header.zxid;
        let node = NodeState { data: data.clone(), version: 0, czxid: zxid, mzxid: zxid, owner };
        self.put(path, zxid, Some(node));
        self.children_changed(parent(path), zxid);
    }

    fn delete(&mut self, path: &Arc<str>, zxid: Zxid) {
        let Some(node) = self.at(path, zxid).cloned() else { return };
        if let Some(paths) = self.ephemerals.get_mut(&node.owner) {
            paths.remove(path);
        }
        self.put(path, zxid, None);
        self.children_changed(parent(path), zxid);
        self.children_changed(path, zxid);
    }

    fn set(&mut self, path: &Arc<str>, data: &Option<Bytes>, version: i32, zxid: Zxid) {
        let Some(node) = self.at(path, zxid).cloned() else { return };
        self.put(path, zxid, Some(NodeState { data: data.clone(), version, mzxid: zxid, ..node }));
    }

    fn put(&mut self, path: &Arc<str>, zxid: Zxid, node: Option<NodeState>) {
        let versions = self.paths.entry(path.clone()).or_default();
        // A multi may change one path several times; only the last counts.
        if versions.last().is_some_and(|(changed, _)| *changed == zxid) {
            versions.pop();
        }
        versions.push((zxid, node));
    }

    fn children_changed(&mut self, path: &str, zxid: Zxid) {
        match self.child_changes.get_mut(path) {
            Some(changes) if changes.last() == Some(&zxid) => {}
            Some(changes) => changes.push(zxid),
            None => {
                self.child_changes.insert(path.into(), vec![zxid]);
            }
        }
    }
}

/// Path of the parent; "/" for a top-level node.
pub fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}
