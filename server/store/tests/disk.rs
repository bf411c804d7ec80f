//! Both disks of this crate keep the words of the trait, and the in-memory one forgets what a power cut takes.

use std::path::Path;

use zk_store::disk_suite::disk_suite;
use zk_store::mem_disk::Survival;
use zk_store::{Disk, DiskFile, FileDisk, MemDisk, is_no_space};

#[test]
fn the_file_system_keeps_the_words_of_the_trait() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    disk_suite(&FileDisk, &dir.path().join("suite"));
}

#[test]
fn the_memory_disk_keeps_the_words_of_the_trait() {
    disk_suite(&MemDisk::new(), Path::new("/suite"));
}

#[test]
fn a_power_cut_takes_unsynced_bytes_and_names() {
    let disk = MemDisk::new();
    let (dir, synced, unnamed) = (Path::new("/d"), Path::new("/d/synced"), Path::new("/d/unnamed"));
    disk.create_dir_all(dir).expect("create the directory");
    let mut file = disk.create(synced).expect("create");
    file.write_at(0, b"kept").expect("write");
    file.sync().expect("sync");
    disk.sync_dir(dir).expect("sync the directory");
    file.write_at(4, b"lost").expect("write");
    let mut other = disk.create(unnamed).expect("create");
    other.write_at(0, b"x").expect("write");
    other.sync().expect("sync");
    disk.power_cut(Survival::Nothing);
    assert_eq!(disk.list(dir).expect("list"), ["synced"]);
    assert_eq!(file.size().expect("size"), 4);
}

#[test]
fn a_full_memory_disk_writes_what_fits_and_says_so() {
    let disk = MemDisk::new();
    disk.create_dir_all(Path::new("/d")).expect("create the directory");
    disk.set_capacity(Some(6));
    let mut file = disk.create(Path::new("/d/f")).expect("create");
    file.write_at(0, b"1234").expect("room for four");
    let error = file.write_at(4, b"5678").expect_err("no room for eight");
    assert!(is_no_space(&error), "{error}");
    assert_eq!(file.size().expect("size"), 6);
}
