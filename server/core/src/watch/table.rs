//! One table of watches, by path and by connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::WatchMode;
use crate::input::ConnId;
use crate::tree::path;

/// The modes in which one connection watches one path (upstream `WatchStats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Modes(u8);

impl Modes {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(7);

    const fn bit(mode: WatchMode) -> u8 {
        match mode {
            WatchMode::Standard => 1,
            WatchMode::Persistent => 2,
            WatchMode::PersistentRecursive => 4,
        }
    }

    pub(super) const fn with(self, mode: WatchMode) -> Self {
        Self(self.0 | Self::bit(mode))
    }

    pub(super) const fn has(self, mode: WatchMode) -> bool {
        self.0 & Self::bit(mode) != 0
    }

    const fn without(self, modes: Self) -> Self {
        Self(self.0 & !modes.0)
    }
}

/// Who watches what. Every entry stands in both maps, and empty entries in neither.
#[derive(Debug, Default)]
pub(super) struct WatchTable {
    by_path: HashMap<Arc<str>, BTreeMap<ConnId, Modes>, FixedState>,
    by_conn: HashMap<ConnId, BTreeSet<Arc<str>>, FixedState>,
    /// Pairs of path and connection.
    total: usize,
    /// Pairs with a recursive watch: while there is none, a change looks at its own path only.
    recursive: usize,
}

impl WatchTable {
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Pairs of path and connection.
    pub(super) const fn len(&self) -> usize {
        self.total
    }

    pub(super) fn add(&mut self, path: &Arc<str>, conn: ConnId, mode: WatchMode) {
        // The first watch of a path brings the allocation that all the others share.
        let path = self.by_path.get_key_value(&**path).map_or(path, |(shared, _)| shared).clone();
        let old = self.by_path.get(&path).and_then(|conns| conns.get(&conn)).copied().unwrap_or(Modes::NONE);
        let new = old.with(mode);
        if new == old {
            return;
        }
        self.by_path.entry(path.clone()).or_default().insert(conn, new);
        if old == Modes::NONE {
            self.by_conn.entry(conn).or_default().insert(path);
            self.total += 1;
        }
        self.recursive += usize::from(mode == WatchMode::PersistentRecursive);
    }

    pub(super) fn modes(&self, path: &str, conn: ConnId) -> Modes {
        self.by_path.get(path).and_then(|conns| conns.get(&conn)).copied().unwrap_or(Modes::NONE)
    }

    /// Takes `modes` away; false if the pair had none of them.
    pub(super) fn remove(&mut self, path: &str, conn: ConnId, modes: Modes) -> bool {
        let old = self.modes(path, conn);
        let new = old.without(modes);
        if new == old {
            return false;
        }
        self.set(path, conn, old, new);
        true
    }

    pub(super) fn remove_conn(&mut self, conn: ConnId) {
        for path in self.by_conn.remove(&conn).unwrap_or_default() {
            let old = self.modes(&path, conn);
            self.set(&path, conn, old, Modes::NONE);
        }
    }

    /// The connections that a change at `path` concerns, in order and each once; their standard watches on the path
    /// itself are used up.
    pub(super) fn trigger(&mut self, path: &str) -> Vec<ConnId> {
        if self.total == 0 {
            return Vec::new();
        }
        let mut heard: Vec<ConnId> =
            self.by_path.get(path).map(|conns| conns.keys().copied().collect()).unwrap_or_default();
        for conn in &heard {
            self.remove(path, *conn, Modes::NONE.with(WatchMode::Standard));
        }
        if self.recursive > 0 {
            self.add_recursive(path, &mut heard);
        }
        heard
    }

    fn add_recursive(&self, path: &str, heard: &mut Vec<ConnId>) {
        let direct = heard.len();
        let mut at = path;
        while let Some(parent) = path::parent(at) {
            let conns = self.by_path.get(parent).into_iter().flatten();
            heard.extend(
                conns.filter(|(_, modes)| modes.has(WatchMode::PersistentRecursive)).map(|(conn, _)| *conn),
            );
            at = parent;
        }
        if heard.len() > direct {
            heard.sort_unstable();
            heard.dedup();
        }
    }

    /// Replaces the modes of an existing pair.
    fn set(&mut self, path: &str, conn: ConnId, old: Modes, new: Modes) {
        let recursive = |modes: Modes| usize::from(modes.has(WatchMode::PersistentRecursive));
        self.recursive = self.recursive + recursive(new) - recursive(old);
        let Some(conns) = self.by_path.get_mut(path) else { return };
        if new != Modes::NONE {
            conns.insert(conn, new);
            return;
        }
        self.total -= usize::from(conns.remove(&conn).is_some());
        if conns.is_empty() {
            self.by_path.remove(path);
        }
        if let Some(paths) = self.by_conn.get_mut(&conn) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
    }

    pub(super) const fn by_path(&self) -> &HashMap<Arc<str>, BTreeMap<ConnId, Modes>, FixedState> {
        &self.by_path
    }

    pub(super) const fn by_conn(&self) -> &HashMap<ConnId, BTreeSet<Arc<str>>, FixedState> {
        &self.by_conn
    }
}
