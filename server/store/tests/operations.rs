//! Append, truncate, install, snapshot, purge and the epoch files, without crashes.

mod common;

use common::*;
use zk_jute::{Epoch, Zxid};
use zk_store::check::{Severity, check_dir};
use zk_store::dump::for_each_txn;
use zk_store::{Disk, MAX_UNSYNCED, MemDisk, Store, StoreConfig, StoreError};

fn history() -> (MemDisk, Store<MemDisk>) {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    snapshot(&mut store, Zxid::ZERO);
    for (first, last) in [(1, 4), (5, 8), (9, 12)] {
        log(&mut store, 1, first..=last);
        snapshot(&mut store, zxid(1, last));
        store.roll().expect("roll");
    }
    log(&mut store, 1, 13..=14);
    (disk, store)
}

#[test]
fn an_append_that_leaves_a_gap_is_refused_and_changes_nothing() {
    let (disk, mut store) = history();
    let gap = store.append(zxid(1, 16), &txn("own", zxid(1, 16)).bytes);
    assert!(matches!(gap, Err(StoreError::Gap { .. })));
    append(&mut store, zxid(1, 15));
    store.sync().expect("sync");
    assert_eq!(recovered(&disk).1.last_logged, zxid(1, 15));
}

#[test]
#[should_panic(expected = "append of 0x10000000e after 0x10000000e")]
fn an_append_that_does_not_increase_the_zxid_panics() {
    let (_, mut store) = history();
    append(&mut store, zxid(1, 14));
}

#[test]
#[should_panic(expected = "accepted epoch 1")]
fn an_append_of_an_epoch_that_was_never_accepted_panics() {
    let (_, mut store) = history();
    append(&mut store, zxid(2, 1));
}

#[test]
fn more_than_the_unsynced_limit_is_synced_without_being_asked() {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    accept(&mut store, 1);
    let record = 1 << 20;
    let count = (MAX_UNSYNCED / record + 2) as u32;
    for counter in 1..=count {
        let data = bytes::Bytes::from(vec![1; record as usize]);
        store.append(zxid(1, counter), &txn_of(zxid(1, counter), data).bytes).expect("append");
    }
    disk.power_cut(zk_store::mem_disk::Survival::Nothing);
    assert!(recovered(&disk).1.last_logged >= zxid(1, count - 3));
}

#[test]
fn a_store_is_out_of_use_until_recovered_after_a_failed_append_and_keeps_what_was_synced() {
    let (disk, mut store) = history();
    disk.set_capacity(Some(disk.used()));
    let mut failed = None;
    for counter in 15..200 {
        let at = zxid(1, counter);
        let result = store.append(at, &txn("own", at).bytes).and_then(|()| store.sync());
        if let Err(error) = result {
            failed = Some((error, zxid(1, counter - 1)));
            break;
        }
    }
    let (error, durable) = failed.expect("the disk is full");
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
    assert!(matches!(store.sync(), Err(StoreError::OutOfUse { .. })));
    let found = store.recover(Image::default).expect("reload on a full disk");
    assert_eq!(found.last_logged, durable);
    assert_eq!(store.last_durable(), durable);
}

#[test]
fn a_failed_fsync_is_never_retried() {
    let (disk, mut store) = history();
    append(&mut store, zxid(1, 15));
    disk.fail_after(1);
    assert!(matches!(store.sync(), Err(StoreError::SyncFailed { .. })));
    disk.power_cut(zk_store::mem_disk::Survival::Everything);
    let again = store.recover(Image::default);
    assert!(matches!(again, Err(StoreError::Dead { .. })));
}

#[test]
fn truncation_removes_logs_and_snapshots_after_the_target_and_nothing_else() {
    for last in 1..=14 {
        let (disk, mut store) = history();
        let before: Vec<Zxid> = (1..=last).map(|counter| zxid(1, counter)).collect();
        store.truncate(zxid(1, last)).expect("truncate");
        let found = store.recover(Image::default).expect("recover");
        assert_eq!(found.last_logged, zxid(1, last));
        assert_eq!(found.repairs, []);
        assert!(found.snapshot_zxid <= Some(zxid(1, last)));
        let mut left = Vec::new();
        for_each_txn(&disk, &config(), Zxid::ZERO, &mut |txn| {
            left.push(txn.zxid());
            Ok(())
        })
        .expect("read all logs");
        assert_eq!(left, before);
        append(&mut store, zxid(1, last + 1));
        store.sync().expect("sync");
        assert_eq!(recovered(&disk).1.last_logged, zxid(1, last + 1));
    }
}

#[test]
fn truncation_to_what_cannot_be_built_is_impossible_and_changes_nothing() {
    let (disk, mut store) = history();
    accept(&mut store, 2);
    store.install_snapshot(&image("leader", zxid(2, 5)), zxid(2, 5), &[]).expect("install");
    log(&mut store, 2, 6..=8);
    let before = names(&disk);
    for target in [zxid(1, 13), zxid(2, 4), zxid(2, 9)] {
        let error = store.truncate(target).expect_err("no such state here");
        assert!(matches!(error, StoreError::TruncateImpossible { zxid } if zxid == target), "{error}");
        assert_eq!(names(&disk), before);
    }
    store.truncate(zxid(2, 7)).expect("this one is here");
    assert_eq!(store.recover(Image::default).expect("recover").last_logged, zxid(2, 7));
}

#[test]
fn truncation_reaches_repeated_records_in_older_logs() {
    let (disk, mut store) = history();
    let (older, newer) = (read(&disk, "log.100000005"), read(&disk, "log.100000009"));
    let (older_len, newer_len) = (log_len(&disk, "log.100000005"), log_len(&disk, "log.100000009"));
    write(&disk, "log.100000005", &[&older[..older_len], &newer[16..newer_len]].concat());
    store.truncate(zxid(1, 10)).expect("truncate");
    remove(&disk, "snapshot.100000008");
    remove(&disk, "log.100000009");
    let found = store.recover(Image::default).expect("recover");
    assert_eq!(found.last_logged, zxid(1, 10), "the copy in the older log was cut as well");
}

#[test]
fn an_installation_replaces_all_history_and_the_log_starts_anew() {
    let (disk, mut store) = history();
    accept(&mut store, 2);
    store.install_snapshot(&image("leader", zxid(1, 10)), zxid(1, 10), &[]).expect("install");
    let found = store.recover(Image::default).expect("recover");
    assert_eq!(found.image.label(), label("leader", zxid(1, 10)));
    assert_eq!((found.last_logged, found.tail.len()), (zxid(1, 10), 0));
    assert!(names(&disk).iter().all(|name| !name.starts_with("log.")), "{:?}", names(&disk));
    log(&mut store, 2, 1..=2);
    assert_eq!(recovered(&disk).1.last_logged, zxid(2, 2));
}

/// The fault: snapshots before the leader's stayed, and with it damaged they and the new log passed for a whole history.
#[test]
fn an_installation_leaves_no_other_snapshot_and_without_its_own_the_start_is_refused() {
    let (disk, mut store) = history();
    accept(&mut store, 3);
    store.install_snapshot(&image("leader", zxid(2, 7)), zxid(2, 7), &[]).expect("install");
    log(&mut store, 3, 1..=2);
    let left: Vec<String> = names(&disk).into_iter().filter(|name| name.starts_with("snapshot.")).collect();
    assert_eq!(left, ["snapshot.200000007"]);
    flip(&disk, "snapshot.200000007", 40);
    let error = Store::open(disk, config()).recover(Image::default).expect_err("2:1 to 2:7 are in no log");
    assert!(error.to_string().contains("snapshot.200000007"), "{error}");
}

#[test]
fn an_installation_replaces_a_snapshot_of_the_same_zxid() {
    let (_, mut store) = history();
    store.install_snapshot(&image("leader", zxid(1, 12)), zxid(1, 12), &[]).expect("install");
    let found = store.recover(Image::default).expect("recover");
    assert_eq!(found.image.label(), label("leader", zxid(1, 12)));
}

#[test]
fn a_snapshot_begun_before_a_truncation_never_gets_its_name() {
    let (disk, mut store) = history();
    let writer = store.begin_snapshot().expect("begin");
    let pending = writer.write(&image("own", zxid(1, 14)), zxid(1, 14)).expect("write");
    store.truncate(zxid(1, 10)).expect("truncate");
    assert!(!store.publish_snapshot(pending).expect("publish"));
    let left = names(&disk);
    assert!(left.iter().all(|name| !name.contains("10000000e")), "{left:?}");
}

#[test]
fn a_purge_keeps_three_good_snapshots_and_every_log_they_need() {
    let (disk, mut store) = history();
    snapshot(&mut store, zxid(1, 14));
    let removed = store.purge(1).expect("purge");
    let expected = ["snapshot.0", "snapshot.100000004", "log.100000001"].map(path);
    assert_eq!(removed, expected, "never fewer than three are kept");
    assert_eq!(store.recover(Image::default).expect("recover").last_logged, zxid(1, 14));
    for damaged in ["snapshot.10000000e", "snapshot.10000000c"] {
        flip(&disk, damaged, 40);
    }
    let (mut store, found) = recovered(&disk);
    assert_eq!(found.snapshot_zxid, Some(zxid(1, 8)));
    assert_eq!(found.last_logged, zxid(1, 14), "what was kept covers everything");
    assert_eq!(
        store.purge(3).expect("purge"),
        Vec::<std::path::PathBuf>::new(),
        "one good snapshot is too few"
    );
}

/// The fault: whole snapshots were read between two writes.
#[test]
fn a_purge_is_verified_beside_the_store_and_removes_only_if_what_was_verified_is_still_there() {
    let begun = || {
        let (disk, mut store) = history();
        snapshot(&mut store, zxid(1, 14));
        let check = store.begin_purge(3).expect("begin");
        append(&mut store, zxid(1, 15));
        store.sync().expect("sync");
        let plan = std::thread::spawn(|| check.verify().expect("verify")).join().expect("the thread");
        (disk, store, plan)
    };
    let nothing = Vec::<std::path::PathBuf>::new();
    let (disk, mut store, plan) = begun();
    snapshot(&mut store, zxid(1, 15));
    let removed = store.finish_purge(plan).expect("finish");
    assert_eq!(removed, ["snapshot.0", "snapshot.100000004", "log.100000001"].map(path));
    assert_eq!(recovered(&disk).1.snapshot_zxid, Some(zxid(1, 15)), "one that came meanwhile stays");

    let (_, mut store, plan) = begun();
    store.truncate(zxid(1, 13)).expect("truncate");
    assert_eq!(store.finish_purge(plan).expect("finish"), nothing, "history was cut");
    let (disk, mut store, plan) = begun();
    remove(&disk, "snapshot.100000008");
    assert_eq!(store.finish_purge(plan).expect("finish"), nothing, "one is gone");
    let (disk, mut store, plan) = begun();
    write(&disk, "snapshot.100000008", b"another");
    assert_eq!(store.finish_purge(plan).expect("finish"), nothing, "one is another");
}

#[test]
fn a_purge_counts_only_snapshots_whose_checksums_fit() {
    let (disk, mut store) = history();
    flip(&disk, "snapshot.100000008", 40);
    let (mut fresh, _) = recovered(&disk);
    assert_eq!(fresh.purge(3).expect("purge"), [path("snapshot.100000008")]);
    let found = store.recover(Image::default).expect("recover");
    assert_eq!(found.last_logged, zxid(1, 14));
    assert!(names(&disk).contains(&"snapshot.0".to_owned()), "the third good one");
}

/// The fault: limits were constants of the code, whatever `jute.maxbuffer` allowed to be written.
#[test]
fn the_limit_for_records_is_the_configurations_for_logs_and_for_snapshots() {
    let with = |max_record| StoreConfig { max_record, ..config() };
    let long = |at: Zxid| txn_of(at, bytes::Bytes::from(vec![7; 3000]));
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    snapshot(&mut store, Zxid::ZERO);
    log(&mut store, 1, 1..=1);
    store.append(zxid(1, 2), &long(zxid(1, 2)).bytes).expect("append");
    store.roll().expect("roll");
    let mut big = image("own", zxid(1, 2));
    big.nodes[1].data = Some(bytes::Bytes::from(vec![7; 3000]));
    store.write_snapshot(&big, zxid(1, 2)).expect("snapshot");
    log(&mut store, 1, 3..=3);
    let (_, found) = recovered_with(&disk, with(4000));
    assert_eq!((found.snapshot_zxid, found.last_logged), (Some(zxid(1, 2)), zxid(1, 3)));
    let error =
        Store::open(disk.clone(), with(2000)).recover(Image::default).expect_err("neither can be read");
    assert!(error.to_string().contains("snapshot.100000002"), "{error}");
    remove(&disk, "snapshot.100000002");
    let error = Store::open(disk, with(2000)).recover(Image::default).expect_err("the log cannot be read");
    assert!(error.to_string().contains("longer than the 2000 that jute.maxbuffer allows"), "{error}");
}

#[test]
fn epochs_are_durable_when_the_call_returns_and_are_decimal_text() {
    let (disk, mut store) = history();
    store.write_accepted_epoch(Epoch(12)).expect("accept");
    store.write_current_epoch(Epoch(10)).expect("current");
    disk.power_cut(zk_store::mem_disk::Survival::Nothing);
    assert_eq!((read(&disk, "acceptedEpoch"), read(&disk, "currentEpoch")), (b"12".to_vec(), b"10".to_vec()));
}

#[test]
#[should_panic(expected = "current epoch 2")]
fn a_current_epoch_above_the_accepted_one_panics() {
    let (_, mut store) = history();
    drop(store.write_current_epoch(Epoch(2)));
}

#[test]
fn the_reserve_lets_epochs_and_markers_be_written_on_a_full_disk() {
    let (disk, mut store) = history();
    assert!(names(&disk).contains(&".reserve".to_owned()));
    disk.set_capacity(Some(disk.used()));
    store.write_accepted_epoch(Epoch(1_000_000)).expect("from the reserve");
    store.write_current_epoch(Epoch(1_000_000)).expect("from what the reserve left");
    store.write_clean_marker(zxid(1, 14)).expect("from what the reserve left");
    let (_, found) = recovered(&disk);
    assert_eq!((found.current, found.clean), (Epoch(1_000_000), Some(zxid(1, 14))));
    assert!(!store.ensure_reserve(), "the disk is still full");
    disk.set_capacity(None);
    assert!(store.ensure_reserve());
    assert!(names(&disk).contains(&".reserve".to_owned()));
}

#[test]
fn a_full_disk_without_a_reserve_leaves_epochs_as_they_were() {
    let (disk, mut store) = history();
    remove(&disk, ".reserve");
    disk.set_capacity(Some(disk.used()));
    let error = store.write_accepted_epoch(Epoch(7)).expect_err("no space");
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
    assert_eq!(store.accepted_epoch(), Epoch(1));
    append_fails_or_works(&mut store);
    assert_eq!(recovered(&disk).1.accepted, Epoch(1));
}

fn append_fails_or_works(store: &mut Store<MemDisk>) {
    let at = zxid(1, 15);
    match store.append(at, &txn("own", at).bytes).and_then(|()| store.sync()) {
        Ok(()) | Err(StoreError::NoSpace { .. }) => {}
        Err(other) => panic!("the store must still be in use: {other}"),
    }
}

#[test]
fn the_offline_check_names_damage_gaps_and_bad_epochs() {
    let (disk, _) = history();
    flip(&disk, "snapshot.100000004", 40);
    flip(&disk, "log.100000005", 40);
    write(&disk, "currentEpoch", b"9");
    let changes = disk.changes();
    let report = check_dir(&disk, &config()).expect("check");
    assert_eq!(disk.changes(), changes, "the check never writes");
    assert!(!report.is_usable());
    let errors: Vec<String> = report
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .map(ToString::to_string)
        .collect();
    assert!(errors.iter().any(|text| text.contains("snapshot.100000004")), "{errors:?}");
    assert!(errors.iter().any(|text| text.contains("log.100000005")), "{errors:?}");
    assert!(report.problems.iter().any(|problem| problem.what.contains("lower than currentEpoch 9")));
}

/// The fault: only holes between two logs were found.
#[test]
fn the_offline_check_finds_a_hole_between_the_newest_snapshot_and_the_first_log() {
    let (disk, mut store) = history();
    store.roll().expect("roll");
    log(&mut store, 1, 15..=16);
    for name in ["log.100000001", "log.100000005", "log.100000009", "log.10000000d"] {
        let usable = check_dir(&disk, &config()).expect("check").is_usable();
        assert!(usable, "{name} and the later ones are there");
        remove(&disk, name);
    }
    let report = check_dir(&disk, &config()).expect("check");
    let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert!(!report.is_usable(), "{found:?}");
    assert!(found.iter().any(|text| text.contains("0x10000000f does not follow 0x10000000c")), "{found:?}");
    assert!(Store::open(disk, config()).recover(Image::default).is_err(), "a start finds it too");
}

#[test]
fn a_leader_reads_the_range_after_any_logged_zxid_and_no_other() {
    let (disk, _) = history();
    let range = |after: Zxid| {
        let mut seen = Vec::new();
        let end = for_each_txn(&disk, &config(), after, &mut |txn| {
            seen.push(txn.zxid());
            Ok(())
        });
        end.map(|end| (end, seen))
    };
    for after in 0..=14 {
        let (end, seen) = range(zxid(1, after)).expect("covered");
        assert_eq!((end, seen.len()), (zxid(1, 14), 14 - after as usize));
    }
    remove(&disk, "log.100000001");
    assert!(matches!(range(zxid(1, 2)), Err(StoreError::Gap { .. })));
    assert!(disk.exists(&path("log.100000005")).expect("exists"));
}
