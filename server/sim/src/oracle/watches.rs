//! Watches: each fires once, only for a change that happened, and before the session sees any state that includes the change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zk_jute::request::{Request, WatcherEvent};
use zk_jute::{ErrorCode, SessionId, Zxid};

use super::Violation;
use super::model::Model;
use super::replies::Answer;

/// What is watched: the node itself or its children.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    Data,
    Child,
}

const DELETED: i32 = 2;
const CHILDREN_CHANGED: i32 = 4;

/// A watch that has not fired.
#[derive(Clone, Copy, Debug)]
struct Armed {
    /// The state that the reader saw.
    since: Zxid,
    /// The node existed then.
    existed: bool,
}

/// Watches that have not fired, by session.
#[derive(Debug, Default)]
pub struct Watches {
    armed: BTreeMap<SessionId, BTreeMap<(Table, Arc<str>), Armed>>,
    /// Sessions whose SetWatches is not answered: its replay tells of a deleted node once for each table.
    replaying: BTreeSet<SessionId>,
    /// Events checked, for the run's summary.
    pub fired: u64,
}

impl Watches {
    /// An answer came: if its request left a watch, it is armed now. One that is armed already stays as it is.
    pub fn read(&mut self, answer: &Answer<'_>, zxid: Zxid) {
        let existed = answer.header.err == 0;
        let (table, path) = match answer.request {
            Request::GetData { path, watch: true } if existed => (Table::Data, path),
            Request::Exists { path, watch: true }
                if existed || answer.header.err == ErrorCode::NoNode as i32 =>
            {
                (Table::Data, path)
            }
            Request::GetChildren { path, watch: true } | Request::GetChildren2 { path, watch: true }
                if existed =>
            {
                (Table::Child, path)
            }
            _ => return,
        };
        let watches = self.armed.entry(answer.session).or_default();
        watches.entry((table, path.clone())).or_insert(Armed { since: zxid, existed });
    }

    /// The watches of a session, for SetWatches, and whether the node existed when each was set.
    pub fn of(&self, session: SessionId) -> impl Iterator<Item = (Table, &Arc<str>, bool)> {
        let watches = self.armed.get(&session).into_iter().flatten();
        watches.map(|((table, path), armed)| (*table, path, armed.existed))
    }

    /// An event reached the session's client.
    pub fn fired(
        &mut self,
        session: SessionId,
        event: &WatcherEvent,
        model: &Model,
    ) -> Result<(), Violation> {
        self.fired += 1;
        let watches = self.armed.entry(session).or_default();
        let tables: &[Table] = match event.kind {
            CHILDREN_CHANGED => &[Table::Child],
            DELETED => &[Table::Data, Table::Child],
            _ => &[Table::Data],
        };
        let mut found = false;
        for table in tables {
            let Some(armed) = watches.remove(&(*table, event.path.clone())) else { continue };
            let since = armed.since;
            found = true;
            if change(model, *table, &event.path, since).is_none() {
                let text = format!("session {session} got {event:?}, but nothing changed since {since}");
                return Err(Violation::new("WatchesAreTrue", text));
            }
        }
        if found || (event.kind == DELETED && self.replaying.contains(&session)) {
            return Ok(());
        }
        Err(Violation::new("WatchesOnce", format!("session {session} got {event:?} without a watch")))
    }

    /// The session's client sends SetWatches.
    pub fn replay_begins(&mut self, session: SessionId) {
        self.replaying.insert(session);
    }

    /// SetWatches was answered at `zxid`. Its replay compares states: a node that came and went while the client was away
    /// leaves no trace, and the watch for its creation is simply armed again.
    pub fn set_again(&mut self, session: SessionId, zxid: Zxid, model: &Model) {
        self.replaying.remove(&session);
        for ((table, path), armed) in self.armed.get_mut(&session).into_iter().flatten() {
            if *table == Table::Data && !armed.existed && model.at(path, zxid).is_none() {
                armed.since = zxid;
            }
        }
    }

    /// The session sees the state at `zxid`: every watch whose change is part of it must have fired.
    pub fn saw(&self, session: SessionId, zxid: Zxid, model: &Model) -> Result<(), Violation> {
        for ((table, path), Armed { since, .. }) in self.armed.get(&session).into_iter().flatten() {
            if let Some(changed) = change(model, *table, path, *since).filter(|changed| *changed <= zxid) {
                let text = format!(
                    "session {session} saw {zxid} before the event of its {table:?} watch on {path}, set at {since}, changed at {changed}"
                );
                return Err(Violation::new("WatchesFirst", text));
            }
        }
        Ok(())
    }

    /// The session is over, or its client forgets its watches.
    pub fn forget(&mut self, session: SessionId) {
        self.armed.remove(&session);
    }
}

fn change(model: &Model, table: Table, path: &str, since: Zxid) -> Option<Zxid> {
    match table {
        Table::Data => model.next_change(path, since),
        Table::Child => model.next_child_change(path, since),
    }
}
