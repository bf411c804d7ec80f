//! The tree against the reference implementation: the same transactions, the same answers, watches, sizes and digests
//! after each of them. `golden/TreeGolden.java` tells how the expected text was made.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use zk_core::input::ConnId;
use zk_core::tree::DataTree;
use zk_core::watch::{WatchManager, WatchMode, WatchSet};
use zk_jute::records::{Acl, Id, Stat};
use zk_jute::request::{MultiResult, Response};
use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{OpCode, SessionId, Zxid};

const GOLDEN: &str = include_str!("golden/tree.txt");

#[test]
fn every_transaction_leaves_the_tree_that_the_reference_implementation_leaves() {
    let mut run = Run::default();
    run.totals();
    for line in GOLDEN.lines().filter_map(|line| line.strip_prefix("> ")) {
        writeln!(run.out, "> {line}").unwrap();
        run.line(line);
    }
    run.dump("/");
    for (at, (ours, theirs)) in run.out.lines().zip(GOLDEN.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {} of golden/tree.txt", at + 1);
    }
    assert_eq!(run.out.lines().count(), GOLDEN.lines().count());
}

#[derive(Default)]
struct Run {
    tree: DataTree,
    watches: WatchManager,
    names: BTreeMap<ConnId, String>,
    out: String,
}

impl Run {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "watch" {
            return self.watch(words[1], words[2], words[3]);
        }
        let header = TxnHeader {
            client_id: words[2].parse().unwrap(),
            cxid: 1,
            zxid: Zxid(words[0].parse().unwrap()),
            time: words[1].parse().unwrap(),
            op: code(words[3]),
        };
        let txn = txn(&words[3..]);
        let kind = header.op;
        let logged = LoggedTxn { header, txn, digest: None, bytes: Bytes::new() };
        let applied = self.tree.apply(&logged, &mut self.watches);
        let multi: Vec<i32> = match &logged.txn {
            Txn::Multi(entries) => entries.iter().map(|(op, _)| *op).collect(),
            _ => Vec::new(),
        };
        writeln!(self.out, "< {}", answer(applied.err, kind, &applied.response, &multi)).unwrap();
        let named = |(conn, event): &(ConnId, zk_jute::request::WatcherEvent)| {
            format!("! {} {} {}", self.names[conn], event.kind, event.path)
        };
        let mut events: Vec<String> = applied.events.iter().map(named).collect();
        events.sort();
        events.iter().for_each(|event| writeln!(self.out, "{event}").unwrap());
        self.totals();
    }

    fn watch(&mut self, kind: &str, name: &str, path: &str) {
        let known = self.names.iter().find(|(_, known)| *known == name).map(|(conn, _)| *conn);
        let conn = known.unwrap_or(ConnId(self.names.len() as u64));
        self.names.insert(conn, name.to_owned());
        // The reference's watchers are not connections, so nothing is filtered there.
        self.watches.set_skip_acl(true);
        let path: Arc<str> = path.into();
        match kind {
            "data" | "exists" => self.watches.add(WatchSet::Data, &path, conn, WatchMode::Standard),
            "child" => self.watches.add(WatchSet::Child, &path, conn, WatchMode::Standard),
            "persistent" => self.watches.add_persistent(&path, conn, WatchMode::Persistent),
            "recursive" => self.watches.add_persistent(&path, conn, WatchMode::PersistentRecursive),
            other => panic!("{other}"),
        }
    }

    fn totals(&mut self) {
        let tree = &self.tree;
        writeln!(
            self.out,
            "= digest={} nodes={} ephemerals={} size={} containers={} ttls={} watches={}",
            tree.digest(),
            tree.node_count(),
            tree.ephemerals_count(),
            tree.approximate_data_size(),
            tree.containers().count(),
            tree.ttls().count(),
            self.watches.count(),
        )
        .unwrap();
    }

    fn dump(&mut self, path: &str) {
        let node = self.tree.node(path).unwrap();
        let text = match node.data() {
            None => "null".to_owned(),
            Some(data) if data.is_empty() => "empty".to_owned(),
            Some(data) => String::from_utf8(data.to_vec()).unwrap(),
        };
        let acl: String = self
            .tree
            .acl(node)
            .iter()
            .map(|acl| format!("{}:{}:{}", acl.perms, acl.id.scheme, acl.id.id))
            .collect();
        let below = self.tree.descendants(path);
        writeln!(self.out, "node {path} {text} [{acl}] {} below={below}", stat(&node.client_stat())).unwrap();
        let children: Vec<Arc<str>> = node.child_paths().cloned().collect();
        children.iter().for_each(|child| self.dump(child));
    }
}

fn answer(err: i32, kind: i32, response: &Response, multi: &[i32]) -> String {
    if let Response::Multi(results) = response {
        let failed = results.iter().all(|result| matches!(result, MultiResult::Error(_)))
            && multi.contains(&(OpCode::Error as i32));
        let entry = |(op, result): (&i32, &MultiResult)| match result {
            MultiResult::Ok(_, response) => format!(" [{op} {}]", answer(0, *op, response, &[])),
            MultiResult::Error(err) => format!(" [{} {err} - -]", if failed { -1 } else { *op }),
        };
        return format!("multi{}", multi.iter().zip(results).map(entry).collect::<String>());
    }
    match response {
        Response::Path(path) => format!("{err} {path} -"),
        Response::PathStat(path, of) => format!("{err} {path} {}", stat(of)),
        Response::Stat(of) | Response::Data(_, of) => format!("{err} - {}", stat(of)),
        Response::Empty => format!("{err} - -"),
        other => panic!("operation {kind} answered {other:?}"),
    }
}

fn stat(of: &Stat) -> String {
    format!(
        "{},{},{},{},{},{},{},{},{},{},{}",
        of.czxid,
        of.mzxid,
        of.ctime,
        of.mtime,
        of.version,
        of.cversion,
        of.aversion,
        of.ephemeral_owner,
        of.data_length,
        of.num_children,
        of.pzxid
    )
}

fn code(op: &str) -> i32 {
    let code = match op {
        "create" => OpCode::Create,
        "create2" => OpCode::Create2,
        "createTTL" => OpCode::CreateTtl,
        "createContainer" => OpCode::CreateContainer,
        "delete" => OpCode::Delete,
        "deleteContainer" => OpCode::DeleteContainer,
        "setData" => OpCode::SetData,
        "reconfig" => OpCode::Reconfig,
        "setACL" => OpCode::SetAcl,
        "createSession" => OpCode::CreateSession,
        "closeSession" => OpCode::CloseSession,
        "error" => OpCode::Error,
        "check" => OpCode::Check,
        "multi" => OpCode::Multi,
        other => panic!("{other}"),
    };
    code as i32
}

fn txn(words: &[&str]) -> Txn {
    let path = || Arc::from(words[1]);
    let number = |at: usize| words[at].parse::<i32>().unwrap();
    match words[0] {
        "create" | "create2" => Txn::Create {
            path: path(),
            data: data(words[2]),
            acl: acl(words[3]),
            ephemeral: words[4] == "1",
            parent_cversion: number(5),
        },
        "createTTL" => Txn::CreateTtl {
            path: path(),
            data: data(words[2]),
            acl: acl(words[3]),
            parent_cversion: number(4),
            ttl: words[5].parse().unwrap(),
        },
        "createContainer" => Txn::CreateContainer {
            path: path(),
            data: data(words[2]),
            acl: acl(words[3]),
            parent_cversion: number(4),
        },
        "delete" | "deleteContainer" => Txn::Delete { path: path() },
        "setData" | "reconfig" => Txn::SetData { path: path(), data: data(words[2]), version: number(3) },
        "setACL" => Txn::SetAcl { path: path(), acl: acl(words[2]), version: number(3) },
        "createSession" => Txn::CreateSession { timeout_ms: number(1) },
        "closeSession" if words[1] == "null" => Txn::CloseSession { paths: None },
        "closeSession" => Txn::CloseSession { paths: Some(words[1].split(',').map(Arc::from).collect()) },
        "error" => Txn::Error { err: number(1) },
        "check" => Txn::Check { path: path(), version: number(2) },
        "multi" => {
            let entries = words[1..].split(|word| *word == ";");
            Txn::Multi(entries.map(|entry| (code(entry[0]), txn(entry))).collect())
        }
        other => panic!("{other}"),
    }
}

fn data(text: &str) -> Option<Bytes> {
    match text {
        "null" => None,
        "empty" => Some(Bytes::new()),
        text => Some(Bytes::copy_from_slice(text.as_bytes())),
    }
}

fn acl(name: &str) -> Vec<Acl> {
    let one =
        |perms, scheme: &str, id: &str| vec![Acl { perms, id: Id { scheme: scheme.into(), id: id.into() } }];
    match name {
        "open" => one(31, "world", "anyone"),
        "read" => one(1, "world", "anyone"),
        "creator" => one(31, "digest", "user:hash"),
        "none" => Vec::new(),
        other => panic!("{other}"),
    }
}

#[test]
fn sessions_of_the_script_are_those_opened_and_not_closed() {
    let mut run = Run::default();
    GOLDEN.lines().filter_map(|line| line.strip_prefix("> ")).for_each(|line| run.line(line));
    assert_eq!(run.tree.sessions().collect::<Vec<_>>(), [(SessionId(0), 4000)]);
    assert_eq!(run.tree.orphan_ephemerals().count(), 0);
}
