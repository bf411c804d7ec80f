//! Damaged logs: what a power cut or a stopped server leaves is cut or looked past, and nothing else is.

mod common;

use common::*;
use zk_jute::Zxid;
use zk_store::check::check_dir;
use zk_store::{MemDisk, Repair, Store, StoreError};

#[test]
fn an_unsynced_batch_that_reached_the_disk_out_of_order_is_cut_at_its_first_hole() {
    let disk = two_logs();
    let mut data = read(&disk, "log.100000004");
    data[16..16 + record_len()].fill(0);
    write(&disk, "log.100000004", &data);
    let (_, found) = recovered(&disk);
    assert_eq!(found.last_logged, zxid(1, 3));
    assert!(matches!(&found.repairs[..], [Repair::TornTailCut { offset: 16, .. }]), "{:?}", found.repairs);
}

#[test]
fn damage_with_more_intact_data_behind_it_than_can_be_unsynced_is_no_torn_tail() {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    accept(&mut store, 1);
    for counter in 1..=20 {
        let data = bytes::Bytes::from(vec![counter as u8; 1 << 20]);
        store.append(zxid(1, counter), &txn_of(zxid(1, counter), data).bytes).expect("append");
    }
    store.sync().expect("sync");
    flip(&disk, "log.100000001", 100);
    let error = refused(&disk);
    assert!(
        matches!(&error, StoreError::Corrupt { offset: 16, what, .. } if what.contains("intact records follow")),
        "{error}"
    );
}

/// Epoch 1, counters 1 to 4 in one log, and epoch 2, counters 1 and 2 in another.
fn two_epochs() -> MemDisk {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    snapshot(&mut store, Zxid::ZERO);
    log(&mut store, 1, 1..=4);
    store.roll().expect("roll");
    log(&mut store, 2, 1..=2);
    disk
}

/// Whether a start takes the directory, which the offline check must know too.
fn is_usable(disk: &MemDisk) -> bool {
    let report = check_dir(disk, &config()).expect("check");
    let started = Store::open(disk.fork(), config()).recover(Image::default).is_ok();
    assert_eq!(report.is_usable(), started, "{report}");
    started
}

/// The fault: only the newest log was looked at behind the zeros that end it.
#[test]
fn a_hole_in_a_log_before_a_new_epoch_is_refused() {
    for lost in 0..3 {
        let disk = two_epochs();
        let mut data = read(&disk, "log.100000001");
        let start = 16 + lost * record_len();
        data[start..start + record_len()].fill(0);
        write(&disk, "log.100000001", &data);
        assert!(!is_usable(&disk));
        let error = refused(&disk);
        assert!(matches!(&error, StoreError::Corrupt { offset, .. } if *offset == start as u64), "{error}");
        assert!(error.to_string().contains("zeros, but data again at byte"), "{error}");
    }
}

/// The fault: whatever came behind one flipped bit, up to 16 MiB, was cut as if it had never been durable.
#[test]
fn damage_with_an_intact_record_behind_it_is_refused_wherever_it_is() {
    let end = log_len(&two_logs(), "log.100000004");
    for offset in 16..end - record_len() {
        let disk = two_logs();
        flip(&disk, "log.100000004", offset);
        assert!(!is_usable(&disk), "flipped at {offset}");
        let error = refused(&disk).to_string();
        assert!(error.contains("intact records follow") && error.contains("log.100000004"), "{error}");
    }
}

/// A write of several sectors of which some did not reach the disk, as a power cut leaves it.
#[test]
fn a_batch_that_lacks_whole_sectors_is_a_torn_tail() {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    accept(&mut store, 1);
    for counter in 1..=12 {
        let data = bytes::Bytes::from(vec![counter as u8; 300 * counter as usize]);
        store.append(zxid(1, counter), &txn_of(zxid(1, counter), data).bytes).expect("append");
    }
    store.sync().expect("sync");
    let whole = read(&disk, "log.100000001");
    let end = log_len(&disk, "log.100000001");
    for first in 0..end / 512 {
        for count in 1..3 {
            let mut data = whole.clone();
            // The sector of the header was written before.
            let lost = 512 * first.max(1)..(512 * (first + count)).min(data.len());
            if lost.is_empty() {
                continue;
            }
            data[lost.clone()].fill(0);
            let disk = disk.fork();
            write(&disk, "log.100000001", &data);
            assert!(is_usable(&disk), "without {lost:?}");
            let (_, found) = recovered(&disk);
            assert!(
                matches!(&found.repairs[..], [Repair::TornTailCut { .. }]),
                "{lost:?}: {:?}",
                found.repairs
            );
        }
    }
}

/// The fault: a directory of a Java server that was stopped within an append and then went on in a new epoch was refused.
#[test]
fn a_record_that_was_never_written_to_its_end_is_looked_past_before_a_new_epoch() {
    let whole = read(&two_epochs(), "log.100000001");
    let end = log_len(&two_epochs(), "log.100000001");
    for cut in end - record_len() + 5..end {
        for zeros in [0, 200] {
            let disk = two_epochs();
            let mut data = whole[..cut].to_vec();
            data.resize(cut + zeros, 0);
            write(&disk, "log.100000001", &data);
            assert!(is_usable(&disk), "cut at {cut}");
            let (_, found) = recovered(&disk);
            assert_eq!(zxids(&found), [zxid(1, 1), zxid(1, 2), zxid(1, 3), zxid(2, 1), zxid(2, 2)]);
            assert!(matches!(&found.repairs[..], [Repair::DamageTolerated { .. }]), "{:?}", found.repairs);
        }
    }
    // The same record with its end, or with something behind it, was whole once.
    for at in [end - 3, end + 9] {
        let disk = two_epochs();
        let mut data = whole.clone();
        data[end - record_len() + 11] ^= 1;
        data[at] ^= 7;
        write(&disk, "log.100000001", &data);
        assert!(!is_usable(&disk));
    }
    // And a wrong length that makes it run into the zeros does not make it one that was cut short.
    let disk = two_epochs();
    flip(&disk, "log.100000001", end - record_len() + 10);
    assert!(!is_usable(&disk));
}

#[test]
fn a_torn_log_before_the_newest_is_refused_unless_the_next_proves_that_nothing_is_lost() {
    let disk = two_logs();
    remove(&disk, "snapshot.100000003");
    let harmless = disk.fork();
    let torn = log_len(&disk, "log.100000001") - 3;
    let data = read(&disk, "log.100000001")[..torn].to_vec();
    write(&disk, "log.100000001", &data);
    let error = refused(&disk).to_string();
    for named in ["log.100000001", "0x100000002", "0x100000004", "byte"] {
        assert!(error.contains(named), "{error}");
    }

    let mut data = read(&harmless, "log.100000001");
    let end = log_len(&harmless, "log.100000001");
    data[end..end + 20].fill(0xee);
    write(&harmless, "log.100000001", &data);
    let (_, found) = recovered(&harmless);
    assert_eq!(found.last_logged, zxid(1, 6));
    assert!(matches!(&found.repairs[..], [Repair::DamageTolerated { .. }]), "{:?}", found.repairs);
}

#[test]
fn damage_before_a_new_epoch_is_refused_because_the_new_epoch_proves_nothing() {
    let disk = MemDisk::new();
    let (mut store, _) = recovered(&disk);
    snapshot(&mut store, Zxid::ZERO);
    log(&mut store, 1, 1..=3);
    store.roll().expect("roll");
    log(&mut store, 2, 1..=2);
    assert_eq!(recovered(&disk).1.last_logged, zxid(2, 2));
    let end = log_len(&disk, "log.100000001");
    flip(&disk, "log.100000001", end - 2);
    assert!(refused(&disk).to_string().contains("log.100000001"));
}
