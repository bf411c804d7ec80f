//! Closing a session (upstream `PrepRequestProcessor`, case `closeSession`), without the transaction that nobody can read
//! back (ZOOKEEPER-4306, ZOOKEEPER-2101).
//!
//! Upstream lists every ephemeral of the session in one `closeSession`; a list longer than what members accept stops the
//! whole ensemble, and again at each start. Here the ephemerals of a huge session go first, in multis that each fit, and
//! the `closeSession` lists the rest. A leader lost in between leaves a session with fewer ephemerals that expires again.

use std::collections::BTreeSet;
use std::sync::Arc;

use zk_jute::OpCode;
use zk_jute::txn::{LoggedTxn, Txn, TxnDigest};

use super::Step;

/// `cxid` of the multis that precede a `closeSession`: no client uses it, so nobody takes them for an answer.
pub const SPLIT_CXID: i32 = i32::MIN;

/// Bytes of a transaction around its list: header (8 + 4 + 8 + 8 + 4), count, digest.
const FRAME: usize = 32 + 4 + TxnDigest::ENCODED_LEN;
/// Bytes of one path in a `closeSession`, and of one delete in a multi (type, length, path), beside the path.
const LISTED: usize = 4;
const DELETED: usize = 4 + 4 + 4;

impl Step<'_> {
    /// The `closeSession`, after as many multis as its list needs to stay within `jute.maxbuffer` bytes in all.
    ///
    /// Bound: a transaction is at most `max_buffer` bytes, except that it always holds one path (at most `max_buffer`
    /// bytes itself, as a client sent it): below twice that, which every member reads.
    pub(super) fn close_session(&mut self) -> Vec<LoggedTxn> {
        self.overlay.checkpoint();
        let mut paths = self.overlay.ephemerals(self.tree, self.request.session);
        let mut txns = Vec::new();
        let mut listed: usize = FRAME + paths.iter().map(|path| LISTED + path.len()).sum::<usize>();
        while self.rules.close_session_txn && listed > self.rules.max_buffer && paths.len() > 1 {
            let chunk = take_chunk(&mut paths, self.rules.max_buffer);
            listed -= chunk.iter().map(|path| LISTED + path.len()).sum::<usize>();
            txns.push(self.delete_all(&chunk));
            self.zxid =
                self.zxid.next_in_epoch().expect("a leader must hand over before its zxids are exhausted");
        }
        let paths: Vec<Arc<str>> = paths.into_iter().collect();
        self.remove_all(&paths);
        self.sessions.set_closing(self.request.session);
        let listed = self.rules.close_session_txn.then_some(paths);
        txns.push(self.log(self.request.op, self.request.cxid, Txn::CloseSession { paths: listed }));
        txns
    }

    fn delete_all(&mut self, paths: &[Arc<str>]) -> LoggedTxn {
        self.remove_all(paths);
        let delete = |path: &Arc<str>| (OpCode::Delete as i32, Txn::Delete { path: path.clone() });
        let entries = paths.iter().map(delete).collect();
        self.log(OpCode::Multi as i32, SPLIT_CXID, Txn::Multi(entries))
    }

    fn remove_all(&mut self, paths: &[Arc<str>]) {
        for path in paths {
            let node = self.overlay.get(self.tree, path).expect("an ephemeral of the session must exist");
            self.remove(path, &node);
        }
    }
}

/// Takes paths out while a multi of their deletes fits; one at least.
fn take_chunk(paths: &mut BTreeSet<Arc<str>>, max_buffer: usize) -> Vec<Arc<str>> {
    let (mut chunk, mut size) = (Vec::new(), FRAME);
    while let Some(path) = paths.first() {
        size += DELETED + path.len();
        if size > max_buffer && !chunk.is_empty() {
            break;
        }
        chunk.extend(paths.pop_first());
    }
    chunk
}
