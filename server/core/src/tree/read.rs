//! Reads (upstream `FinalRequestProcessor`): checked, answered and watched under one lock, so that no change can fall
//! between an answer and the watch it promises.

use std::sync::Arc;

use zk_jute::consts::perms;
use zk_jute::records::{Acl, Id};
use zk_jute::request::{ClientInfo, MultiResult, Request, Response, WatcherEvent};
use zk_jute::{ErrorCode, OpCode, SessionId, Zxid};

use super::{DataTree, Node, check_acl, masked_acl};
use crate::Shared;
use crate::config::Rules;
use crate::input::ConnId;
use crate::watch::{EventKind, WatchMode, WatchSet, WatcherType};

/// Who reads.
#[derive(Clone, Copy, Debug)]
pub struct ReadContext<'a> {
    pub conn: ConnId,
    pub session: SessionId,
    /// Identities of the connection at this moment. A read that sets a watch also makes them the ones that filter its
    /// events; tell [`crate::watch::WatchManager::set_auth`] when they change later.
    pub ids: &'a [Id],
    pub rules: &'a Rules,
}

/// The answer to a read.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadReply {
    /// For the reply's header: what the tree had processed at that moment.
    pub zxid: Zxid,
    pub result: Result<Response, ErrorCode>,
    /// `setWatches` only: events that the client missed. They go out before the reply, with zxid -1 in their header.
    pub events: Vec<WatcherEvent>,
}

/// Answers a read. Takes the tree's read lock and, where watches are concerned, the watches after it.
///
/// [`ErrorCode::Unimplemented`] if `request` is no read: those go to the core.
pub fn process_read(shared: &Shared, context: ReadContext<'_>, request: &Request) -> ReadReply {
    let tree = shared.tree.read();
    let mut events = Vec::new();
    let reader = Reader { tree: &tree, shared, context };
    let result = reader.answer(request, &mut events);
    ReadReply { zxid: tree.last_processed(), result, events }
}

struct Reader<'a> {
    tree: &'a DataTree,
    shared: &'a Shared,
    context: ReadContext<'a>,
}

impl Reader<'_> {
    fn answer(&self, request: &Request, events: &mut Vec<WatcherEvent>) -> Result<Response, ErrorCode> {
        match request {
            Request::Exists { path, watch } => self.exists(path, *watch),
            Request::GetData { path, watch } => self.get_data(path, *watch),
            Request::GetAcl { path } => self.get_acl(path),
            Request::GetChildren { path, watch } => Ok(Response::Children(self.children(path, *watch)?.0)),
            Request::GetChildren2 { path, watch } => {
                let (names, node) = self.children(path, *watch)?;
                Ok(Response::ChildrenStat(names, node.client_stat()))
            }
            Request::GetAllChildrenNumber { path } => {
                self.readable(path, perms::READ)?;
                Ok(Response::Number(i32::try_from(self.tree.descendants(path)).unwrap_or(i32::MAX)))
            }
            Request::GetEphemerals { prefix } => Ok(Response::Ephemerals(self.ephemerals(prefix))),
            Request::MultiRead(entries) => self.multi_read(entries),
            Request::SetWatches { relative_zxid, data, exist, child } => {
                self.set_watches(*relative_zxid, data, exist, child, (&[], &[]), events);
                Ok(Response::Empty)
            }
            Request::SetWatches2 { relative_zxid, data, exist, child, persistent, persistent_recursive } => {
                let modes = (persistent.as_slice(), persistent_recursive.as_slice());
                self.set_watches(*relative_zxid, data, exist, child, modes, events);
                Ok(Response::Empty)
            }
            Request::AddWatch { path, mode } => self.add_watch(path, *mode),
            Request::CheckWatches { path, kind } => self.check_watches(path, *kind),
            Request::RemoveWatches { path, kind } => self.remove_watches(path, *kind),
            Request::WhoAmI => Ok(Response::WhoAmI(self.context.ids.iter().map(client_info).collect())),
            Request::Ping => Ok(Response::Empty),
            Request::Create(_)
            | Request::Delete { .. }
            | Request::SetData { .. }
            | Request::SetAcl { .. }
            | Request::Sync { .. }
            | Request::Check { .. }
            | Request::Multi(_)
            | Request::Reconfig { .. }
            | Request::DeleteContainer { .. }
            | Request::Auth { .. }
            | Request::Sasl { .. }
            | Request::CreateSession { .. }
            | Request::CloseSession => Err(ErrorCode::Unimplemented),
        }
    }

    /// The node, if the caller has one of the bits of `perm` on it.
    fn readable(&self, path: &str, perm: i32) -> Result<&Node, ErrorCode> {
        let node = self.tree.node(path).ok_or(ErrorCode::NoNode)?;
        check_acl(self.tree.acl(node), perm, self.context.ids, self.context.rules)?;
        Ok(node)
    }

    /// A watch on a node that does not exist (yet) is left all the same.
    fn exists(&self, path: &Arc<str>, watch: bool) -> Result<Response, ErrorCode> {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let found = match self.readable(path, perms::READ) {
            Err(ErrorCode::NoNode) => None,
            other => Some(other?),
        };
        self.watch_if(watch, WatchSet::Data, path);
        found.map(|node| Response::Stat(node.client_stat())).ok_or(ErrorCode::NoNode)
    }

    fn get_data(&self, path: &Arc<str>, watch: bool) -> Result<Response, ErrorCode> {
        let node = self.readable(path, perms::READ)?;
        self.watch_if(watch, WatchSet::Data, path);
        Ok(Response::Data(node.data().cloned(), node.client_stat()))
    }

    fn children(&self, path: &Arc<str>, watch: bool) -> Result<(Vec<Arc<str>>, &Node), ErrorCode> {
        let node = self.readable(path, perms::READ)?;
        self.watch_if(watch, WatchSet::Child, path);
        Ok((node.child_names().map(Arc::from).collect(), node))
    }

    fn get_acl(&self, path: &str) -> Result<Response, ErrorCode> {
        let node = self.readable(path, perms::READ | perms::ADMIN)?;
        let acl: Vec<Acl> = masked_acl(self.tree.acl(node), self.context.ids, self.context.rules);
        Ok(Response::Acl(acl, node.client_stat()))
    }

    /// Own ephemeral nodes whose path starts with `prefix`, as text: "/a" finds "/ab" too.
    fn ephemerals(&self, prefix: &str) -> Vec<Arc<str>> {
        let all = matches!(prefix.trim(), "" | "/");
        let own = self.tree.ephemerals_of(self.context.session);
        own.filter(|path| all || path.starts_with(prefix)).cloned().collect()
    }

    /// Each entry is answered for itself; watch flags in it are ignored, as upstream does.
    fn multi_read(&self, entries: &[Request]) -> Result<Response, ErrorCode> {
        let answer = |entry: &Request| {
            let (op, result) = match entry {
                Request::GetData { path, .. } => (OpCode::GetData, self.get_data(path, false)),
                Request::GetChildren { path, .. } => (
                    OpCode::GetChildren,
                    self.children(path, false).map(|(names, _)| Response::Children(names)),
                ),
                _ => return Err(ErrorCode::MarshallingError),
            };
            Ok(result.map_or_else(
                |code| MultiResult::Error(code as i32),
                |response| MultiResult::Ok(op, response),
            ))
        };
        Ok(Response::Multi(entries.iter().map(answer).collect::<Result<_, _>>()?))
    }

    fn watch_if(&self, watch: bool, set: WatchSet, path: &Arc<str>) {
        if watch {
            let ReadContext { conn, session, ids, .. } = self.context;
            let mut watches = self.shared.watches.lock();
            watches.note_reader(conn, session, ids);
            watches.add(set, path, conn, WatchMode::Standard);
        }
    }

    /// A client that reconnected tells what it watches and what it saw last: what changed since is an event at once,
    /// everything else is watched again.
    fn set_watches(
        &self,
        since: i64,
        data: &[Arc<str>],
        exist: &[Arc<str>],
        child: &[Arc<str>],
        (persistent, recursive): (&[Arc<str>], &[Arc<str>]),
        events: &mut Vec<WatcherEvent>,
    ) {
        let ReadContext { conn, session, ids, .. } = self.context;
        let mut watches = self.shared.watches.lock();
        watches.note_reader(conn, session, ids);
        let mut settle = |missed: Option<EventKind>, set: WatchSet, path: &Arc<str>| match missed {
            Some(kind) => events.push(kind.event(path)),
            None => watches.add(set, path, conn, WatchMode::Standard),
        };
        for path in data {
            let missed = match self.tree.node(path) {
                None => Some(EventKind::Deleted),
                Some(node) => (node.mzxid() > since).then_some(EventKind::DataChanged),
            };
            settle(missed, WatchSet::Data, path);
        }
        for path in exist {
            settle(self.tree.node(path).map(|_| EventKind::Created), WatchSet::Data, path);
        }
        for path in child {
            let missed = match self.tree.node(path) {
                None => Some(EventKind::Deleted),
                Some(node) => (node.pzxid() > since).then_some(EventKind::ChildrenChanged),
            };
            settle(missed, WatchSet::Child, path);
        }
        for path in persistent {
            watches.add_persistent(path, conn, WatchMode::Persistent);
        }
        for path in recursive {
            watches.add_persistent(path, conn, WatchMode::PersistentRecursive);
        }
    }

    fn add_watch(&self, path: &Arc<str>, mode: i32) -> Result<Response, ErrorCode> {
        let mode = match mode {
            0 => WatchMode::Persistent,
            1 => WatchMode::PersistentRecursive,
            _ => return Err(ErrorCode::MarshallingError),
        };
        let ReadContext { conn, session, ids, .. } = self.context;
        let mut watches = self.shared.watches.lock();
        watches.note_reader(conn, session, ids);
        watches.add_persistent(path, conn, mode);
        Ok(Response::Error(0))
    }

    fn check_watches(&self, path: &str, kind: i32) -> Result<Response, ErrorCode> {
        let kind = WatcherType::from_i32(kind).ok_or(ErrorCode::MarshallingError)?;
        let found = self.shared.watches.lock().contains(path, self.context.conn, kind);
        if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
    }

    /// The client makes its own "watch removed" event: nothing but the reply is sent.
    fn remove_watches(&self, path: &str, kind: i32) -> Result<Response, ErrorCode> {
        let kind = WatcherType::from_i32(kind).ok_or(ErrorCode::MarshallingError)?;
        let found = self.shared.watches.lock().remove(path, self.context.conn, kind);
        if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
    }
}

/// The user of an identity: without the password hash of `digest`.
fn client_info(id: &Id) -> ClientInfo {
    let user = match &*id.scheme {
        "digest" => id.id.split(':').next().unwrap_or_default().into(),
        _ => id.id.clone(),
    };
    ClientInfo { scheme: id.scheme.clone(), user }
}
