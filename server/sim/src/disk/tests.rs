//! What the simulated disk promises and what it takes away.

use super::*;

fn disk() -> SimDisk {
    let disk = SimDisk::new(Prng::new(1, "disk test"));
    disk.create_dir_all(Path::new("/d")).expect("directory");
    disk
}

fn contents(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    let mut file = disk.open(Path::new(path), false).ok()?;
    let mut buf = vec![0; file.size().expect("size") as usize];
    file.read_at(0, &mut buf).expect("read");
    Some(buf)
}

#[test]
fn a_power_cut_keeps_a_file_only_if_its_bytes_and_its_name_were_synced() {
    let disk = disk();
    let mut both = disk.create(Path::new("/d/both")).expect("create");
    both.write_at(0, b"abc").expect("write");
    both.sync().expect("sync");
    disk.sync_dir(Path::new("/d")).expect("sync_dir");
    let mut name_only = disk.create(Path::new("/d/name")).expect("create");
    name_only.write_at(0, b"abc").expect("write");
    disk.sync_dir(Path::new("/d")).expect("sync_dir");
    let mut bytes_only = disk.create(Path::new("/d/bytes")).expect("create");
    bytes_only.write_at(0, b"abc").expect("write");
    bytes_only.sync().expect("sync");
    drop((both, name_only, bytes_only));
    disk.power_cut(Tear::Lose);
    assert_eq!(contents(&disk, "/d/both").as_deref(), Some(&b"abc"[..]));
    assert_eq!(contents(&disk, "/d/name").as_deref(), Some(&b""[..]));
    assert_eq!(contents(&disk, "/d/bytes"), None);
}

#[test]
fn a_rename_without_directory_sync_is_undone_by_a_power_cut() {
    let disk = disk();
    disk.place("/d/epoch", b"1");
    let mut next = disk.create(Path::new("/d/epoch.tmp")).expect("create");
    next.write_at(0, b"2").expect("write");
    next.sync().expect("sync");
    drop(next);
    disk.rename(Path::new("/d/epoch.tmp"), Path::new("/d/epoch")).expect("rename");
    assert_eq!(contents(&disk, "/d/epoch").as_deref(), Some(&b"2"[..]));
    assert_eq!(contents(&disk.durable_copy(), "/d/epoch").as_deref(), Some(&b"1"[..]));
    disk.power_cut(Tear::Lose);
    assert_eq!(contents(&disk, "/d/epoch").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_torn_write_keeps_a_prefix_that_ends_at_a_sector() {
    let mut cut = 0;
    for seed in 0..64 {
        let disk = SimDisk::new(Prng::new(seed, "tear"));
        disk.create_dir_all(Path::new("/d")).expect("directory");
        disk.place("/d/f", &[0; 64]);
        let mut file = disk.open(Path::new("/d/f"), true).expect("open");
        file.write_at(10, &[1; 40]).expect("write");
        drop(file);
        disk.power_cut(Tear::Sectors(16));
        let bytes = contents(&disk, "/d/f").expect("file");
        let ones = bytes.iter().filter(|byte| **byte == 1).count();
        assert!(bytes[10..10 + ones].iter().all(|byte| *byte == 1), "what is kept is a prefix");
        assert!(
            ones == 0 || ones == 40 || (10 + ones) % 16 == 0,
            "seed {seed}: cut inside a sector at {ones}"
        );
        cut += usize::from(ones != 0 && ones != 40);
    }
    assert!(cut > 0, "no seed tore the write");
}

#[test]
fn a_full_disk_takes_what_still_fits_and_no_more() {
    let disk = disk();
    disk.place("/d/f", b"0123");
    disk.limit(Some(10));
    let mut file = disk.open(Path::new("/d/f"), true).expect("open");
    file.write_at(0, b"4567").expect("overwriting takes no space");
    let error = file.write_at(4, b"abcdefgh").expect_err("full");
    assert!(zk_store::disk::is_no_space(&error));
    assert_eq!(contents(&disk, "/d/f").as_deref(), Some(&b"4567abcdef"[..]));
    assert!(disk.create(Path::new("/d/g")).is_err());
    drop(file);
    disk.remove(Path::new("/d/f")).expect("remove");
    assert_eq!(disk.used(), 0);
    disk.create(Path::new("/d/g")).expect("there is room again");
}

#[test]
fn reserved_space_can_be_written_on_a_full_disk() {
    let disk = disk();
    let mut file = disk.create(Path::new("/d/f")).expect("create");
    file.allocate(0, 100).expect("allocate");
    disk.limit(Some(100));
    file.write_at(50, &[1; 50]).expect("inside the reserve");
    assert!(file.write_at(100, &[1]).is_err());
    assert!(file.allocate(100, 1).is_err());
}

#[test]
fn a_failed_fsync_is_reported_once_and_loses_data_for_good() {
    let mut lost = 0;
    for seed in 0..16 {
        let disk = SimDisk::new(Prng::new(seed, "fsync"));
        disk.create_dir_all(Path::new("/d")).expect("directory");
        disk.place("/d/f", b"old");
        let mut file = disk.open(Path::new("/d/f"), true).expect("open");
        file.write_at(0, b"new").expect("write");
        disk.plan(Planned::Fail { what: "sync".into(), path: "/d/f".into(), after: 0 });
        file.sync().expect_err("planned");
        file.sync().expect("the second call lies");
        drop(file);
        disk.power_cut(Tear::Lose);
        lost += usize::from(contents(&disk, "/d/f").as_deref() == Some(b"old"));
    }
    assert!((1..16).contains(&lost), "lost in {lost} of 16");
}

#[test]
fn a_planned_fault_strikes_at_the_operation_it_names() {
    let disk = disk();
    disk.plan(Planned::PowerCut { what: "rename".into(), path: "tmp".into(), after: 1 });
    for name in ["/d/a.tmp", "/d/b.tmp"] {
        disk.create(Path::new(name)).expect("create");
    }
    disk.rename(Path::new("/d/a.tmp"), Path::new("/d/a")).expect("the first passes");
    assert!(!disk.is_dark());
    disk.rename(Path::new("/d/b.tmp"), Path::new("/d/b")).expect_err("the second is where the power goes");
    assert!(disk.is_dark());
    assert!(disk.open(Path::new("/d/a"), false).is_err());
    disk.power_cut(Tear::Lose);
    assert!(!disk.is_dark());
}

#[test]
fn a_file_without_a_name_lives_while_it_is_open() {
    let disk = disk();
    disk.place("/d/f", b"abc");
    let mut file = disk.open(Path::new("/d/f"), true).expect("open");
    disk.remove(Path::new("/d/f")).expect("remove");
    let mut buf = [0; 3];
    assert_eq!(file.read_at(0, &mut buf).expect("read"), 3);
    assert_eq!(disk.used(), 3);
    drop(file);
    assert_eq!(disk.used(), 0);
}
