//! A data directory written by the Java server 3.9.5 (one member, digests on, padding trimmed) loads, and what this crate
//! writes for the same content is equal to the byte. `golden/README.md` says how the directory was made.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Image, names, read, recovered, write};
use zk_jute::txn::{LoggedTxn, Txn};
use zk_jute::{Epoch, Zxid};
use zk_store::check::check_dir;
use zk_store::dump::{LogFileEnd, dump_log};
use zk_store::{FileDisk, MemDisk, StoreConfig, load_snapshot};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/java-3.9.5")
}

fn golden_file(name: &str) -> Vec<u8> {
    fs::read(golden().join("version-2").join(name)).expect("the golden directory is complete")
}

/// The golden directory on a disk that tests may change.
fn golden_disk() -> MemDisk {
    let disk = MemDisk::new();
    let (_, _) = recovered(&disk);
    for entry in fs::read_dir(golden().join("version-2")).expect("list") {
        let name = entry.expect("entry").file_name().into_string().expect("a plain name");
        write(&disk, &name, &golden_file(&name));
    }
    disk
}

const LOGS: [&str; 3] = ["log.100000001", "log.10000000b", "log.100000014"];
const SNAPSHOTS: [&str; 3] = ["snapshot.0", "snapshot.100000009", "snapshot.100000012"];

#[test]
fn a_java_directory_is_recovered_completely_and_without_repairs() {
    let (_, found) = recovered(&golden_disk());
    assert_eq!(found.snapshot_zxid, Some(Zxid(0x1_0000_0012)));
    assert_eq!((found.accepted, found.current), (Epoch(1), Epoch(1)));
    assert_eq!(found.repairs, []);
    let tail: Vec<u32> = found.tail.iter().map(|txn| txn.zxid().counter()).collect();
    let expected: Vec<u32> = (0x13..=found.last_logged.counter()).collect();
    assert_eq!(tail, expected);
    assert!(tail.len() > 5, "the golden directory has a tail");
    assert!(found.tail.iter().all(|txn| txn.digest.is_some()), "Java logs a digest with every transaction");
    assert!(found.image.nodes.iter().any(|node| &*node.path == "/a/żółć"), "{:?}", found.image.nodes);
    let digest = found.snapshot_tail.digest.expect("a digest in the footer");
    assert_eq!(digest.1, 2);
}

#[test]
fn every_java_snapshot_is_rewritten_to_the_same_bytes() {
    for name in SNAPSHOTS {
        let mut image = Image::default();
        let file = golden().join("version-2").join(name);
        image.tail = load_snapshot(&FileDisk, &file, &mut image).expect("load");
        let at = image.tail.last_processed.expect("3.9 writes the last processed zxid");
        let disk = MemDisk::new();
        let (mut store, _) = recovered(&disk);
        store.write_snapshot(&image, at).expect("write");
        let ours = names(&disk).into_iter().find(|name| name.starts_with("snapshot.")).expect("written");
        assert!(read(&disk, &ours) == golden_file(name), "{name} differs");
    }
}

#[test]
fn every_java_log_is_rewritten_to_the_same_bytes() {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    store.write_accepted_epoch(Epoch(1)).expect("accept");
    for name in LOGS {
        let mut txns = Vec::new();
        let file = golden().join("version-2").join(name);
        let end = dump_log(&FileDisk, &file, &mut |_, txn| txns.push(txn.clone())).expect("read");
        assert!(matches!(end, LogFileEnd::Clean { .. }), "{end:?}");
        for txn in &txns {
            store.append(txn.zxid(), &txn.bytes).expect("append");
        }
        store.roll().expect("roll");
        let (ours, java) = (read(&disk, name), golden_file(name));
        let len = ours.len().min(java.len());
        assert!(ours[..len] == java[..len], "{name} differs");
        assert!(
            ours[len..].iter().chain(&java[len..]).all(|byte| *byte == 0),
            "{name} differs in more than padding"
        );
    }
}

#[test]
fn java_transactions_are_what_the_client_did() {
    let mut txns = Vec::new();
    for name in LOGS {
        let file = golden().join("version-2").join(name);
        dump_log(&FileDisk, &file, &mut |_, txn: &LoggedTxn| txns.push(txn.clone())).expect("read");
    }
    let has = |what: &dyn Fn(&Txn) -> bool| txns.iter().any(|txn| what(&txn.txn));
    assert!(has(&|txn| matches!(txn, Txn::CreateSession { timeout_ms: 4000 })));
    assert!(has(&|txn| matches!(txn, Txn::Create { path, ephemeral: true, .. } if &**path == "/a/eph")));
    assert!(has(&|txn| matches!(txn, Txn::CreateContainer { path, .. } if &**path == "/c")));
    assert!(has(&|txn| matches!(txn, Txn::CreateTtl { ttl: 3_600_000, .. })));
    assert!(has(&|txn| matches!(txn, Txn::CloseSession { paths: Some(paths) } if paths.len() == 1)));
    assert!(has(&|txn| matches!(txn, Txn::Multi(parts) if parts.len() == 3)));
    assert!(has(&|txn| matches!(txn, Txn::Error { err: -101 })));
}

#[test]
fn the_offline_check_finds_nothing_wrong_and_changes_nothing() {
    let cfg = StoreConfig::new("/data");
    let disk = golden_disk();
    let changes = disk.changes();
    let report = check_dir(&disk, &cfg).expect("check");
    assert_eq!(disk.changes(), changes);
    assert_eq!(report.problems, []);
    assert_eq!(report.snapshots.len(), 3);
    assert!(report.snapshots.iter().all(|snapshot| snapshot.valid && snapshot.nodes >= 4));
    assert_eq!(report.logs.len(), 3);
    assert_eq!(report.to_json()["accepted_epoch"], 1);
    assert!(report.to_string().contains("acceptedEpoch 1, currentEpoch 1"), "{report}");
}

#[test]
fn a_java_directory_can_be_continued() {
    let disk = golden_disk();
    let (mut store, found) = recovered(&disk);
    let next = found.last_logged.next_in_epoch().expect("room in the epoch");
    store.append(next, &common::txn("own", next).bytes).expect("append");
    store.sync().expect("sync");
    let (_, again) = recovered(&disk);
    assert_eq!(again.last_logged, next);
    assert!(disk_has(&disk, &format!("log.{:x}", next.0)), "a start begins a new file, as upstream does");
}

fn disk_has(disk: &MemDisk, name: &str) -> bool {
    names(disk).iter().any(|other| other == name)
}
