//! Watches (upstream `WatchManager`): which connection wants to hear of which path, and who hears of a change.
//!
//! Two tables as upstream: data watches (exists, getData) and child watches (getChildren). Persistent watches stand in
//! both, persistent recursive ones in the data table only, where they are found by walking up from the changed path.
//! Standard watches fire once. An event is delivered only to a connection that may read the node at that moment; for a
//! deleted node its last ACL decides, for a child event the parent's.
//!
//! The manager knows each connection's identities for that reason: [`WatchManager::set_auth`] after every successful
//! `addAuth`, and each read that sets a watch brings them along. Lock order: tree, then watches.

mod report;
mod table;

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use zk_jute::SessionId;
use zk_jute::consts::perms;
use zk_jute::records::{Acl, Id};
use zk_jute::request::WatcherEvent;

use crate::input::ConnId;
use crate::tree::permits;
use table::{Modes, WatchTable};

pub use report::WatchesSummary;

/// How long a watch lasts and what it covers (upstream `WatcherMode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchMode {
    /// Fires once.
    Standard,
    /// Stays.
    Persistent,
    /// Stays, and covers everything below the path; gets no child events.
    PersistentRecursive,
}

/// One of the two tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchSet {
    Data,
    Child,
}

/// What `checkWatches` and `removeWatches` can name (upstream `Watcher.WatcherType`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatcherType {
    Children,
    Data,
    Any,
    Persistent,
    PersistentRecursive,
}

impl WatcherType {
    /// `None` for a number that upstream does not know.
    pub const fn from_i32(raw: i32) -> Option<Self> {
        Some(match raw {
            1 => Self::Children,
            2 => Self::Data,
            3 => Self::Any,
            4 => Self::Persistent,
            5 => Self::PersistentRecursive,
            _ => return None,
        })
    }
}

/// What happened to a node (upstream `EventType`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
}

/// `KeeperState.SyncConnected`.
const SYNC_CONNECTED: i32 = 3;

impl EventKind {
    /// The record that clients get.
    pub fn event(self, path: &Arc<str>) -> WatcherEvent {
        WatcherEvent { kind: self as i32, state: SYNC_CONNECTED, path: path.clone() }
    }
}

/// Who a connection is.
#[derive(Clone, Debug)]
struct Reader {
    session: SessionId,
    ids: Vec<Id>,
}

/// All watches of one server. Bound: clients' memory, as upstream; every watch goes with its connection.
#[derive(Debug, Default)]
pub struct WatchManager {
    data: WatchTable,
    child: WatchTable,
    readers: HashMap<ConnId, Reader, FixedState>,
    skip_acl: bool,
}

/// Where events are collected.
pub type Events = Vec<(ConnId, WatcherEvent)>;

impl WatchManager {
    /// `skipACL`: deliver every event.
    pub const fn set_skip_acl(&mut self, skip_acl: bool) {
        self.skip_acl = skip_acl;
    }

    /// Who `conn` is from now on. Call it after a successful `auth` packet, with all identities.
    pub fn set_auth(&mut self, conn: ConnId, session: SessionId, ids: &[Id]) {
        self.readers.insert(conn, Reader { session, ids: ids.to_vec() });
    }

    /// As [`Self::set_auth`], for a connection that is about to watch; costs nothing if it is known.
    pub(crate) fn note_reader(&mut self, conn: ConnId, session: SessionId, ids: &[Id]) {
        let known =
            self.readers.get(&conn).is_some_and(|reader| reader.session == session && reader.ids == ids);
        if !known {
            self.set_auth(conn, session, ids);
        }
    }

    /// Adds one watch to one table.
    pub fn add(&mut self, set: WatchSet, path: &Arc<str>, conn: ConnId, mode: WatchMode) {
        match set {
            WatchSet::Data => self.data.add(path, conn, mode),
            WatchSet::Child => self.child.add(path, conn, mode),
        }
    }

    /// `addWatch`: a persistent watch is for data and children, a recursive one is found through the data table.
    pub fn add_persistent(&mut self, path: &Arc<str>, conn: ConnId, mode: WatchMode) {
        self.data.add(path, conn, mode);
        if mode != WatchMode::PersistentRecursive {
            self.child.add(path, conn, mode);
        }
    }

    /// True if `conn` has a watch of that type on exactly `path`.
    pub fn contains(&self, path: &str, conn: ConnId, kind: WatcherType) -> bool {
        let (data, child) = (self.data.modes(path, conn), self.child.modes(path, conn));
        match kind {
            WatcherType::Children => child.has(WatchMode::Standard),
            WatcherType::Data => data.has(WatchMode::Standard),
            WatcherType::Any => data != Modes::NONE || child != Modes::NONE,
            WatcherType::Persistent => data.has(WatchMode::Persistent),
            WatcherType::PersistentRecursive => data.has(WatchMode::PersistentRecursive),
        }
    }

    /// Removes the watches of that type that `conn` has on exactly `path`; false if there were none.
    pub fn remove(&mut self, path: &str, conn: ConnId, kind: WatcherType) -> bool {
        let one = |mode| Modes::NONE.with(mode);
        match kind {
            WatcherType::Children => self.child.remove(path, conn, one(WatchMode::Standard)),
            WatcherType::Data => self.data.remove(path, conn, one(WatchMode::Standard)),
            WatcherType::Any => {
                self.child.remove(path, conn, Modes::ALL) | self.data.remove(path, conn, Modes::ALL)
            }
            WatcherType::Persistent => {
                let persistent = one(WatchMode::Persistent);
                self.child.remove(path, conn, persistent) | self.data.remove(path, conn, persistent)
            }
            WatcherType::PersistentRecursive => {
                self.data.remove(path, conn, one(WatchMode::PersistentRecursive))
            }
        }
    }

    /// Forgets a connection and everything it watched.
    pub fn remove_conn(&mut self, conn: ConnId) {
        self.data.remove_conn(conn);
        self.child.remove_conn(conn);
        self.readers.remove(&conn);
    }

    /// Forgets everything: the role ended and every connection is being closed.
    pub fn clear(&mut self) {
        *self = Self { skip_acl: self.skip_acl, ..Self::default() };
    }

    /// True if nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty() && self.child.is_empty()
    }

    /// `path` was created under `parent`.
    pub fn created(
        &mut self,
        path: &Arc<str>,
        acl: &[Acl],
        parent: &str,
        parent_acl: &[Acl],
        events: &mut Events,
    ) {
        let heard = self.data.trigger(path);
        self.deliver(EventKind::Created, path, acl, &heard, &[], events);
        self.children_changed(parent, parent_acl, events);
    }

    /// `path` was deleted from under `parent`. A connection that watched its data and its children hears it once.
    pub fn deleted(
        &mut self,
        path: &Arc<str>,
        acl: &[Acl],
        parent: &str,
        parent_acl: &[Acl],
        events: &mut Events,
    ) {
        let heard = self.data.trigger(path);
        self.deliver(EventKind::Deleted, path, acl, &heard, &[], events);
        let children = self.child.trigger(path);
        self.deliver(EventKind::Deleted, path, acl, &children, &heard, events);
        self.children_changed(parent, parent_acl, events);
    }

    /// The data of `path` was set.
    pub fn data_changed(&mut self, path: &Arc<str>, acl: &[Acl], events: &mut Events) {
        let heard = self.data.trigger(path);
        self.deliver(EventKind::DataChanged, path, acl, &heard, &[], events);
    }

    fn children_changed(&mut self, parent: &str, acl: &[Acl], events: &mut Events) {
        let heard = self.child.trigger(parent);
        if !heard.is_empty() {
            self.deliver(EventKind::ChildrenChanged, &parent.into(), acl, &heard, &[], events);
        }
    }

    /// `heard` and `told` are in order of connections.
    fn deliver(
        &self,
        kind: EventKind,
        path: &Arc<str>,
        acl: &[Acl],
        heard: &[ConnId],
        told: &[ConnId],
        events: &mut Events,
    ) {
        let wanted =
            heard.iter().filter(|conn| told.binary_search(conn).is_err() && self.may_read(**conn, acl));
        events.extend(wanted.map(|conn| (*conn, kind.event(path))));
    }

    fn may_read(&self, conn: ConnId, acl: &[Acl]) -> bool {
        let ids = self.readers.get(&conn).map_or(&[][..], |reader| &reader.ids);
        self.skip_acl || permits(acl, perms::READ, ids)
    }
}
