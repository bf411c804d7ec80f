//! What the tests of this crate share: a small database image, transactions, and stores on a [`MemDisk`].

#![allow(dead_code, reason = "each test binary uses its part")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use zk_jute::image::{SnapshotSink, SnapshotSource};
use zk_jute::records::StatPersisted;
use zk_jute::snapshot::{SnapshotHead, SnapshotNode, SnapshotTail};
use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{Epoch, OpCode, SessionId, Zxid};
use zk_store::{Disk, DiskFile, MemDisk, Recovered, Store, StoreConfig, StoreError};

/// A database image: nothing but what a snapshot holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Image {
    pub(crate) head: SnapshotHead,
    pub(crate) nodes: Vec<SnapshotNode>,
    pub(crate) tail: SnapshotTail,
}

impl SnapshotSink for Image {
    fn head(&mut self, head: SnapshotHead) {
        self.head = head;
    }

    fn node(&mut self, node: SnapshotNode) -> Result<(), String> {
        self.nodes.push(node);
        Ok(())
    }
}

impl SnapshotSource for Image {
    fn head(&self) -> SnapshotHead {
        self.head.clone()
    }

    fn visit_nodes(&self, visit: &mut dyn FnMut(&SnapshotNode) -> ControlFlow<()>) -> bool {
        self.nodes.iter().all(|node| visit(node).is_continue())
    }

    fn tail(&self) -> SnapshotTail {
        self.tail
    }
}

impl Image {
    /// The text in its second node, by which tests tell images apart.
    pub(crate) fn label(&self) -> String {
        let data = self.nodes.get(1).and_then(|node| node.data.clone()).unwrap_or_default();
        String::from_utf8_lossy(&data).into_owned()
    }
}

/// A whole image whose label says whose it is and of which zxid.
pub(crate) fn image(owner: &str, at: Zxid) -> Image {
    let node = |path: &str, data: &str| SnapshotNode {
        path: Arc::from(path),
        data: Some(Bytes::from(data.to_owned())),
        acl: -1,
        stat: StatPersisted { mzxid: at.0, ..StatPersisted::default() },
    };
    Image {
        head: SnapshotHead { sessions: vec![(SessionId(7), 4000)], acls: Vec::new() },
        nodes: vec![node("", ""), node("/label", &label(owner, at))],
        tail: SnapshotTail { digest: Some((at, 2, 0x1234)), last_processed: Some(at) },
    }
}

pub(crate) fn label(owner: &str, at: Zxid) -> String {
    format!("{owner} {at}")
}

pub(crate) fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

/// A transaction whose data says whose it is.
pub(crate) fn txn(owner: &str, at: Zxid) -> LoggedTxn {
    txn_of(at, Bytes::from(label(owner, at)))
}

pub(crate) fn txn_of(at: Zxid, data: Bytes) -> LoggedTxn {
    let header = TxnHeader { client_id: 7, cxid: 1, zxid: at, time: 1, op: OpCode::SetData as i32 };
    LoggedTxn::new(header, Txn::SetData { path: Arc::from("/label"), data: Some(data), version: 1 }, None)
}

/// Small sizes, so that padding and the reserve are exercised by a handful of records.
pub(crate) fn config() -> StoreConfig {
    StoreConfig { prealloc_bytes: 256, reserve_bytes: 64, ..StoreConfig::new("/data") }
}

pub(crate) fn recovered(disk: &MemDisk) -> (Store<MemDisk>, Recovered<Image>) {
    recovered_with(disk, config())
}

pub(crate) fn recovered_with(disk: &MemDisk, cfg: StoreConfig) -> (Store<MemDisk>, Recovered<Image>) {
    let mut store = Store::open(disk.clone(), cfg);
    let found = store.recover(Image::default).expect("the directory is usable");
    (store, found)
}

/// Appends `counters` of `epoch` (accepting it first) and syncs.
pub(crate) fn log(store: &mut Store<MemDisk>, epoch: u32, counters: std::ops::RangeInclusive<u32>) {
    accept(store, epoch);
    for counter in counters {
        append(store, zxid(epoch, counter));
    }
    store.sync().expect("sync");
}

pub(crate) fn accept(store: &mut Store<MemDisk>, epoch: u32) {
    if store.accepted_epoch() < Epoch(epoch) {
        store.write_accepted_epoch(Epoch(epoch)).expect("accept the epoch");
    }
}

pub(crate) fn append(store: &mut Store<MemDisk>, at: Zxid) {
    store.append(at, &txn("own", at).bytes).expect("append");
}

pub(crate) fn snapshot(store: &mut Store<MemDisk>, at: Zxid) {
    store.write_snapshot(&image("own", at), at).expect("write a snapshot");
}

pub(crate) fn zxids(found: &Recovered<Image>) -> Vec<Zxid> {
    found.tail.iter().map(LoggedTxn::zxid).collect()
}

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from("/data/version-2").join(name)
}

pub(crate) fn names(disk: &MemDisk) -> Vec<String> {
    disk.list(&path("")).expect("list the directory")
}

pub(crate) fn read(disk: &MemDisk, name: &str) -> Vec<u8> {
    let mut file = disk.open(&path(name), false).expect("open");
    let mut data = vec![0; file.size().expect("size") as usize];
    file.read_at(0, &mut data).expect("read");
    data
}

/// Replaces a file behind the store's back, durably.
pub(crate) fn write(disk: &MemDisk, name: &str, data: &[u8]) {
    let mut file = disk.create(&path(name)).expect("create");
    file.write_at(0, data).expect("write");
    file.sync().expect("sync");
    disk.sync_dir(&path("")).expect("sync the directory");
}

pub(crate) fn remove(disk: &MemDisk, name: &str) {
    disk.remove(&path(name)).expect("remove");
    disk.sync_dir(&path("")).expect("sync the directory");
}

/// Flips one bit of a file.
pub(crate) fn flip(disk: &MemDisk, name: &str, offset: usize) {
    let mut data = read(disk, name);
    data[offset] ^= 1;
    write(disk, name, &data);
}

/// Length of a log without its zero fill.
pub(crate) fn log_len(disk: &MemDisk, name: &str) -> usize {
    let data = read(disk, name);
    data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

pub(crate) fn refused(disk: &MemDisk) -> StoreError {
    refused_with(disk, config())
}

/// The error, after checking that the refusal removed or changed nothing.
pub(crate) fn refused_with(disk: &MemDisk, cfg: StoreConfig) -> StoreError {
    let before: Vec<_> = names(disk).into_iter().map(|name| (read(disk, &name), name)).collect();
    let error = Store::open(disk.clone(), cfg).recover(Image::default).expect_err("must be refused");
    let after: Vec<_> = names(disk).into_iter().map(|name| (read(disk, &name), name)).collect();
    assert!(before == after, "a refusal must change nothing: {error}");
    error
}

/// Epoch 1, counters 1 to 6 in two logs, and a snapshot at 3.
pub(crate) fn two_logs() -> MemDisk {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    snapshot(&mut store, Zxid::ZERO);
    log(&mut store, 1, 1..=3);
    snapshot(&mut store, zxid(1, 3));
    store.roll().expect("roll");
    log(&mut store, 1, 4..=6);
    disk
}

/// Bytes of one record of these logs.
pub(crate) fn record_len() -> usize {
    12 + txn("own", zxid(1, 6)).bytes.len() + 1
}
