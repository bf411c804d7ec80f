//! What `wchs`, `wchc`, `wchp` and the admin commands show. As upstream, reports cover data watches only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zk_jute::SessionId;

use super::WatchManager;
use crate::input::ConnId;

/// Counts for `wchs` (upstream `WatchesSummary`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchesSummary {
    /// Connections that watch anything.
    pub connections: usize,
    /// Paths that are watched.
    pub paths: usize,
    /// Pairs of connection and path.
    pub total: usize,
}

impl WatchManager {
    /// Number of watches in both tables (`zk_watch_count`).
    pub const fn count(&self) -> usize {
        self.data.len() + self.child.len()
    }

    /// Counts of the data watches.
    pub fn summary(&self) -> WatchesSummary {
        WatchesSummary {
            connections: self.data.by_conn().len(),
            paths: self.data.by_path().len(),
            total: self.data.len(),
        }
    }

    /// Watched paths of each session (`wchc`), in order.
    pub fn by_session(&self) -> BTreeMap<SessionId, BTreeSet<Arc<str>>> {
        let mut report: BTreeMap<SessionId, BTreeSet<Arc<str>>> = BTreeMap::new();
        for (conn, paths) in self.data.by_conn() {
            report.entry(self.session_of(*conn)).or_default().extend(paths.iter().cloned());
        }
        report
    }

    /// Watching sessions of each path (`wchp`), in order.
    pub fn by_path(&self) -> BTreeMap<Arc<str>, BTreeSet<SessionId>> {
        let sessions =
            |conns: &BTreeMap<ConnId, _>| conns.keys().map(|conn| self.session_of(*conn)).collect();
        self.data.by_path().iter().map(|(path, conns)| (path.clone(), sessions(conns))).collect()
    }

    fn session_of(&self, conn: ConnId) -> SessionId {
        self.readers.get(&conn).map_or(SessionId(0), |reader| reader.session)
    }
}
