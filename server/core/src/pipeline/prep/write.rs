//! One write operation: upstream's checks in upstream's order, because the first that fails decides the error code.

use std::sync::Arc;

use bytes::Bytes;
use zk_jute::consts::perms;
use zk_jute::records::{Acl, StatPersisted};
use zk_jute::request::CreateRequest;
use zk_jute::txn::Txn;
use zk_jute::{ErrorCode, OpCode, SessionId};

use super::Step;
use super::overlay::NodeRecord;
use crate::pipeline::auth::fixup_acl;
use crate::pipeline::path::{parent_for_create, parent_for_delete, validate};
use crate::tree::{CONTAINER_OWNER, EphemeralType, check_acl, path};

/// Upstream's `CreateMode` as far as the checks look at it.
#[derive(Clone, Copy)]
struct CreateMode {
    ephemeral: bool,
    sequential: bool,
    ttl: bool,
}

impl CreateMode {
    fn from_flags(flags: i32) -> Result<Self, ErrorCode> {
        if !(0..=6).contains(&flags) {
            return Err(ErrorCode::BadArguments);
        }
        Ok(Self {
            ephemeral: matches!(flags, 1 | 3),
            sequential: matches!(flags, 2 | 3 | 6),
            ttl: matches!(flags, 5 | 6),
        })
    }
}

impl Step<'_> {
    pub(super) fn create(&mut self, create: &CreateRequest) -> Result<Txn, ErrorCode> {
        let mode = CreateMode::from_flags(create.flags)?;
        self.check_ttl(create, mode)?;
        self.check_session()?;
        let parent_path = parent_for_create(&create.path)?;
        let acl = fixup_acl(&self.request.auth, create.acl.as_deref())?;
        let parent = self.node(parent_path)?;
        self.check_acl(&parent, perms::CREATE)?;
        let cversion = parent.stat.cversion;
        let path =
            if mode.sequential { path::sequential(&create.path, cversion) } else { create.path.clone() };
        validate(&path)?;
        if self.overlay.get(self.tree, &path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.ephemeral_type(), EphemeralType::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        self.check_quota(&path, create.data.as_ref(), None, 1)?;
        let owner = self.owner_of(create, mode);
        self.put_child(parent_path, &parent);
        let zxid = self.zxid.0;
        let stat = StatPersisted {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: self.now.wall_ms,
            mtime: self.now.wall_ms,
            ephemeral_owner: owner,
            ..StatPersisted::default()
        };
        let record = NodeRecord::new(stat, acl.as_slice().into(), create.data.clone());
        self.overlay.put(path.clone(), self.zxid, None, record);
        Ok(create_txn(create, mode, path, acl, cversion.wrapping_add(1)))
    }

    /// A time to live stands with TTL modes, and only there. Upstream lets `createTTL` with another mode and a negative
    /// time pass, and then fails to apply the transaction on every member.
    fn check_ttl(&self, create: &CreateRequest, mode: CreateMode) -> Result<(), ErrorCode> {
        if mode.ttl && !self.rules.extended_types {
            return Err(ErrorCode::Unimplemented);
        }
        let is_ttl_request = create.op == OpCode::CreateTtl;
        let in_range = EphemeralType::ttl_owner(create.ttl).is_some();
        if is_ttl_request == mode.ttl && (in_range || !mode.ttl) {
            Ok(())
        } else {
            Err(ErrorCode::BadArguments)
        }
    }

    /// What applying the transaction will store as `ephemeralOwner`: the kind of request decides, as there.
    fn owner_of(&self, create: &CreateRequest, mode: CreateMode) -> i64 {
        match create.op {
            OpCode::CreateContainer => CONTAINER_OWNER,
            OpCode::CreateTtl => EphemeralType::ttl_owner(create.ttl).expect("check_ttl has seen the range"),
            _ if mode.ephemeral => self.request.session.0,
            _ => 0,
        }
    }

    /// The parent gains a child. Its counters move as applying moves them: never back, even when the 32-bit count of
    /// children ever created has run over.
    fn put_child(&mut self, parent_path: &str, parent: &NodeRecord) {
        let mut after = parent.clone();
        after.children += 1;
        let cversion = parent.stat.cversion.wrapping_add(1);
        if cversion > parent.stat.cversion {
            after.stat.cversion = cversion;
            after.stat.pzxid = self.zxid.0;
        }
        self.overlay.put(root_or(parent_path), self.zxid, Some(parent), after);
    }

    pub(super) fn delete(&mut self, path: &Arc<str>, version: i32) -> Result<Txn, ErrorCode> {
        self.check_session()?;
        let parent_path = parent_for_delete(path)?;
        let parent = self.node(parent_path)?;
        self.check_acl(&parent, perms::DELETE)?;
        let node = self.node(path)?;
        next_version(node.stat.version, version)?;
        if node.children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        self.remove(path, &node);
        Ok(Txn::Delete { path: path.clone() })
    }

    /// Upstream lets any client send this and delete any empty node that is not ephemeral, whatever its ACL says. Here
    /// it is the server's own request, and a TTL node must still be due.
    pub(super) fn delete_container(&mut self, path: &Arc<str>) -> Result<Txn, ErrorCode> {
        if self.request.session != SessionId(0) {
            return Err(ErrorCode::Unimplemented);
        }
        parent_for_delete(path)?;
        let node = self.node(path)?;
        if node.children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        let due = match node.ephemeral_type() {
            EphemeralType::Container => true,
            EphemeralType::Ttl(ttl_ms) => self.now.wall_ms.saturating_sub(node.stat.mtime) > ttl_ms,
            EphemeralType::Void | EphemeralType::Session(_) => false,
        };
        if !due {
            return Err(ErrorCode::BadVersion);
        }
        self.remove(path, &node);
        Ok(Txn::Delete { path: path.clone() })
    }

    /// Takes a node without children out, as applying a delete does. Its parent exists, because it does.
    pub(super) fn remove(&mut self, path: &Arc<str>, node: &NodeRecord) {
        let parent_path = root_or(path::parent(path).expect("the root must not be deleted"));
        let parent = self.overlay.get(self.tree, &parent_path).expect("the parent of a node must exist");
        let mut after = NodeRecord::clone(&parent);
        after.children = after.children.checked_sub(1).expect("a parent must count its children");
        after.stat.pzxid = after.stat.pzxid.max(self.zxid.0);
        self.overlay.put(parent_path, self.zxid, Some(&parent), after);
        self.overlay.delete(path.clone(), self.zxid, node);
    }

    pub(super) fn set_data(
        &mut self,
        path: &Arc<str>,
        data: Option<&Bytes>,
        version: i32,
    ) -> Result<Txn, ErrorCode> {
        self.check_session()?;
        validate(path)?;
        let node = self.node(path)?;
        self.check_acl(&node, perms::WRITE)?;
        self.check_quota(path, data, node.data.as_ref(), 0)?;
        let version = next_version(node.stat.version, version)?;
        let mut after = NodeRecord::clone(&node);
        after.stat.version = version;
        after.stat.mtime = self.now.wall_ms;
        after.stat.mzxid = self.zxid.0;
        after.data = data.cloned();
        self.overlay.put(path.clone(), self.zxid, Some(&node), after);
        Ok(Txn::SetData { path: path.clone(), data: data.cloned(), version })
    }

    pub(super) fn set_acl(
        &mut self,
        path: &Arc<str>,
        acl: Option<&[Acl]>,
        version: i32,
    ) -> Result<Txn, ErrorCode> {
        self.check_session()?;
        validate(path)?;
        let acl = fixup_acl(&self.request.auth, acl)?;
        let node = self.node(path)?;
        self.check_acl(&node, perms::ADMIN)?;
        let version = next_version(node.stat.aversion, version)?;
        let mut after = NodeRecord::clone(&node);
        after.stat.aversion = version;
        after.acl = acl.as_slice().into();
        self.overlay.put(path.clone(), self.zxid, Some(&node), after);
        Ok(Txn::SetAcl { path: path.clone(), acl, version })
    }

    pub(super) fn check(&mut self, path: &Arc<str>, version: i32) -> Result<Txn, ErrorCode> {
        self.check_session()?;
        validate(path)?;
        let node = self.node(path)?;
        self.check_acl(&node, perms::READ)?;
        let version = next_version(node.stat.version, version)?;
        Ok(Txn::Check { path: path.clone(), version })
    }

    /// The session exists from now on, although the tree learns of it later: its own requests follow this one.
    pub(super) fn create_session(&mut self, timeout_ms: i32) -> Txn {
        self.sessions.add(self.request.session, timeout_ms, self.now);
        // A session that is already closing keeps its old owner; its requests are refused anyway.
        let _ = self.sessions.set_owner(self.request.session, self.request.owner);
        Txn::CreateSession { timeout_ms }
    }

    /// Dynamic reconfiguration. Nothing is proposed yet that would change the members.
    pub(super) fn reconfig(&mut self) -> Result<Txn, ErrorCode> {
        if !self.rules.reconfig_enabled {
            return Err(ErrorCode::ReconfigDisabled);
        }
        self.check_session()?;
        Err(ErrorCode::Unimplemented)
    }

    fn node(&self, path: &str) -> Result<Arc<NodeRecord>, ErrorCode> {
        self.overlay.get(self.tree, path).ok_or(ErrorCode::NoNode)
    }

    /// Looks at the committed tree only, as upstream does: outstanding changes may overshoot a quota.
    fn check_quota(
        &self,
        path: &str,
        data: Option<&Bytes>,
        before: Option<&Bytes>,
        nodes: i64,
    ) -> Result<(), ErrorCode> {
        if !self.rules.enforce_quota {
            return Ok(());
        }
        let bytes = data.map_or(0, Bytes::len) as i64 - before.map_or(0, Bytes::len) as i64;
        self.tree.check_quota(path, bytes, nodes)
    }

    fn check_acl(&self, node: &NodeRecord, perm: i32) -> Result<(), ErrorCode> {
        check_acl(&node.acl, perm, &self.request.auth, self.rules)
    }
}

fn create_txn(
    create: &CreateRequest,
    mode: CreateMode,
    path: Arc<str>,
    acl: Vec<Acl>,
    parent_cversion: i32,
) -> Txn {
    let data = create.data.clone();
    match create.op {
        OpCode::CreateContainer => Txn::CreateContainer { path, data, acl, parent_cversion },
        OpCode::CreateTtl => Txn::CreateTtl { path, data, acl, parent_cversion, ttl: create.ttl },
        _ => Txn::Create { path, data, acl, ephemeral: mode.ephemeral, parent_cversion },
    }
}

/// The version after a change, if the one that the client expects (-1: any) is the current one.
const fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == current {
        Ok(current.wrapping_add(1))
    } else {
        Err(ErrorCode::BadVersion)
    }
}

/// The root's key.
fn root_or(path: &str) -> Arc<str> {
    if path.is_empty() { Arc::from("/") } else { Arc::from(path) }
}
