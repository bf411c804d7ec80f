//! Data directories for the offline tools: made by the store itself in a temporary directory, from transactions whose
//! digests a tree predicts, then damaged byte by byte; and the real binary run over them.

#![allow(dead_code, unreachable_pub, reason = "compiled into each test file, and no file uses all of it")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use bytes::Bytes;
use serde_json::Value;
use zk_core::tree::{DIGEST_VERSION, DataTree, TreeBuilder};
use zk_core::watch::WatchManager;
use zk_jute::image::SnapshotSource;
use zk_jute::records::{Acl, Id};
use zk_jute::snapshot::{SnapshotHead, SnapshotNode, SnapshotTail};
use zk_jute::txn::{LoggedTxn, Txn, TxnDigest, TxnHeader};
use zk_jute::{Epoch, OpCode, Zxid};
use zk_store::{FileDisk, Store, StoreConfig};

/// The session of every transaction that does not say otherwise.
pub const SESSION: i64 = 0x1_0000;
/// Wall clock of the first transaction: 2026-01-31T12:00:00Z.
const TIME: i64 = 1_769_860_800_000;
/// Bytes of a log's header.
pub const HEADER: usize = 16;

/// What one run of the binary did.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Standard output as JSON lines.
    pub fn lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(parse).collect()
    }

    /// Fails unless the run ended with `code` and printed every one of `texts`.
    #[track_caller]
    pub fn expect(&self, code: i32, texts: &[&str]) {
        for text in texts {
            assert!(self.out.contains(text), "no {text:?} in:\n{}{}", self.out, self.err);
        }
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
    }
}

/// Runs the binary.
pub fn run(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-server"));
    let output = command.args(arguments).env_remove("RUST_LOG").output().expect("run the binary");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("it must not be killed");
    Ran { code, out: text(&output.stdout), err: text(&output.stderr) }
}

type Files = BTreeMap<PathBuf, (SystemTime, Option<Vec<u8>>)>;

/// Name, time of change and every byte of everything below `dir`.
pub fn files(dir: &Path) -> Files {
    let mut found = Files::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let meta = std::fs::metadata(&path).expect("metadata");
        let data = meta.is_file().then(|| std::fs::read(&path).expect("read"));
        if meta.is_dir() {
            left.extend(std::fs::read_dir(&path).expect("list").map(|entry| entry.expect("entry").path()));
        }
        found.insert(path, (meta.modified().expect("time"), data));
    }
    found
}

/// Checks `dir` as text and as JSON, and that neither changed anything in it.
#[track_caller]
pub fn check(dir: &Path) -> (Ran, Value) {
    check_with(dir, &[])
}

/// As [`check`], with more arguments.
#[track_caller]
pub fn check_with(dir: &Path, more: &[&str]) -> (Ran, Value) {
    let before = files(dir);
    let mut arguments = vec!["check", dir.to_str().expect("path")];
    arguments.extend(more);
    let text = run(&arguments);
    arguments.push("--json");
    let json = run(&arguments);
    assert!(files(dir) == before, "a check must not write");
    assert_eq!(text.code, json.code, "both forms judge alike");
    let value = json.json();
    assert_eq!(value["usable"], text.code == 0, "{value:#}");
    (text, value)
}

/// A member that logs what its tree says.
pub struct History {
    dir: tempfile::TempDir,
    pub store: Store<FileDisk>,
    pub tree: DataTree,
    next: Zxid,
}

impl History {
    /// An empty database of epoch 1, with a snapshot of it and an open session.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let config = StoreConfig::new(dir.path());
        Self::with(dir, config)
    }

    /// As [`History::new`], with the logs in `logs` below the directory.
    pub fn split(logs: &str) -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let config = StoreConfig { log_dir: dir.path().join(logs), ..StoreConfig::new(dir.path()) };
        Self::with(dir, config)
    }

    fn with(dir: tempfile::TempDir, config: StoreConfig) -> Self {
        let config = StoreConfig { prealloc_bytes: 4096, reserve_bytes: 64, ..config };
        let mut store = Store::open(FileDisk, config);
        store.recover(TreeBuilder::new).expect("recover");
        store.write_accepted_epoch(Epoch(1)).expect("accept");
        store.write_current_epoch(Epoch(1)).expect("current");
        let tree = DataTree::new();
        store.write_snapshot(&tree, Zxid::ZERO).expect("snapshot");
        let mut history = Self { dir, store, tree, next: Zxid::new(Epoch(1), 1) };
        history.add(SESSION, OpCode::CreateSession, Txn::CreateSession { timeout_ms: 4000 });
        history
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file of `version-2`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir().join("version-2").join(name)
    }

    /// The next transaction, with the digest of the tree after it, which is applied here but not logged.
    pub fn prepare(&mut self, session: i64, op: OpCode, mut txn: Txn) -> LoggedTxn {
        let zxid = self.next;
        if let Txn::Create { path, parent_cversion, .. } = &mut txn {
            let parent = path.rsplit_once('/').expect("an absolute path").0;
            *parent_cversion = self.tree.node(parent).expect("parent").stat().cversion + 1;
        }
        let time = TIME + i64::from(zxid.counter()) - 1;
        let header = TxnHeader { client_id: session, cxid: zxid.counter() as i32, zxid, time, op: op as i32 };
        let bare = LoggedTxn::new(header, txn.clone(), None);
        self.tree.apply(&bare, &mut WatchManager::default());
        let digest = TxnDigest { version: DIGEST_VERSION, tree_digest: self.tree.digest() };
        self.next = zxid.next_in_epoch().expect("short history");
        LoggedTxn::new(header, txn, Some(digest))
    }

    /// Applies and logs the next transaction.
    pub fn add(&mut self, session: i64, op: OpCode, txn: Txn) -> Zxid {
        let logged = self.prepare(session, op, txn);
        self.log(&logged);
        logged.zxid()
    }

    /// Logs a transaction, durably.
    pub fn log(&mut self, txn: &LoggedTxn) {
        self.store.append(txn.zxid(), &txn.bytes).expect("append");
        self.store.sync().expect("sync");
    }

    pub fn create(&mut self, path: &str) -> Zxid {
        self.add(SESSION, OpCode::Create, create_txn(path, vec![Acl::open()], false))
    }

    pub fn set(&mut self, path: &str, data: &str) -> Zxid {
        let version = self.tree.node(path).expect("node").stat().version + 1;
        let data = Some(Bytes::copy_from_slice(data.as_bytes()));
        self.add(SESSION, OpCode::SetData, Txn::SetData { path: path.into(), data, version })
    }

    /// Writes a snapshot of the tree as it is, and goes on in a new log.
    pub fn snapshot(&mut self) {
        let tree = self.tree.clone();
        self.snapshot_of(&tree);
    }

    /// As [`History::snapshot`], of anything that claims to be the tree.
    pub fn snapshot_of(&mut self, source: &dyn SnapshotSource) {
        self.store.roll().expect("roll");
        self.store.write_snapshot(source, self.tree.last_processed()).expect("snapshot");
    }

    /// The usual: nodes and sets in two logs with a snapshot between.
    pub fn usual() -> Self {
        let mut history = Self::new();
        for path in ["/a", "/b"] {
            history.create(path);
        }
        history.set("/a", "one");
        history.snapshot();
        for data in ["two", "three", "four"] {
            history.set("/a", data);
        }
        history
    }
}

pub fn create_txn(path: &str, acl: Vec<Acl>, ephemeral: bool) -> Txn {
    let data = Some(Bytes::from(format!("data of {path}")));
    Txn::Create { path: path.into(), data, acl, ephemeral, parent_cversion: -1 }
}

pub fn digest_acl(user: &str) -> Vec<Acl> {
    vec![Acl { perms: 31, id: Id { scheme: "digest".into(), id: format!("{user}:hash").into() } }]
}

/// An image with another head or tail than its tree has.
pub struct Forged {
    pub tree: DataTree,
    pub head: SnapshotHead,
    pub tail: SnapshotTail,
}

impl Forged {
    pub fn of(tree: &DataTree) -> Self {
        Self { tree: tree.clone(), head: tree.head(), tail: tree.tail() }
    }
}

impl SnapshotSource for Forged {
    fn head(&self) -> SnapshotHead {
        self.head.clone()
    }

    fn visit_nodes(&self, visit: &mut dyn FnMut(&SnapshotNode) -> ControlFlow<()>) -> bool {
        self.tree.visit_nodes(visit)
    }

    fn tail(&self) -> SnapshotTail {
        self.tail
    }
}

/// The records of a log, each with everything around it, and where they end.
pub fn records(log: &[u8]) -> (Vec<std::ops::Range<usize>>, usize) {
    let (mut found, mut at) = (Vec::new(), HEADER);
    while let Some(length) = log.get(at + 8..at + 12) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if length == 0 {
            break;
        }
        let end = at + 8 + 4 + length + 1;
        found.push(at..end);
        at = end;
    }
    (found, at)
}

/// A transaction as a log holds it: checksum, length, body, end of record.
pub fn framed(txn: &LoggedTxn) -> Vec<u8> {
    let (mut low, mut high) = (1_u64, 0_u64);
    for byte in &txn.bytes[..] {
        low = (low + u64::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    let mut out = (high << 16 | low).to_be_bytes().to_vec();
    out.extend((txn.bytes.len() as u32).to_be_bytes());
    out.extend(&txn.bytes[..]);
    out.push(b'B');
    out
}

/// Replaces a file by what `change` makes of it.
pub fn edit(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut data = std::fs::read(file).expect("read");
    change(&mut data);
    std::fs::write(file, data).expect("write");
}

/// A copy of a data directory that the Java server wrote.
pub fn java_directory() -> tempfile::TempDir {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("store/tests/golden/java-3.9.5/version-2");
    let dir = tempfile::tempdir().expect("directory");
    let version = dir.path().join("version-2");
    std::fs::create_dir(&version).expect("create");
    for entry in std::fs::read_dir(golden).expect("golden directory") {
        let entry = entry.expect("entry");
        std::fs::copy(entry.path(), version.join(entry.file_name())).expect("copy");
    }
    dir
}
