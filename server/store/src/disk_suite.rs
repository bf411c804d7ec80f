//! Checks that an implementation of [`Disk`] keeps the words of the trait. Run it against every implementation: the
//! formats above are only as good as the disk below.

use std::io::ErrorKind;
use std::path::Path;

use crate::disk::{Disk, DiskFile};

/// Exercises everything but power cuts, which only a simulated disk can show.
///
/// # Panics
/// At the first promise that is not kept. `dir` must not exist yet.
pub fn disk_suite<D: Disk>(disk: &D, dir: &Path) {
    directories(disk, dir);
    names(disk, dir);
    bytes(disk, dir);
    preallocation(disk, dir);
}

fn directories<D: Disk>(disk: &D, dir: &Path) {
    assert!(!disk.exists(dir).expect("exists of a missing directory"), "nothing was created yet");
    assert_eq!(disk.list(dir).map_err(|e| e.kind()), Err(ErrorKind::NotFound), "list without the directory");
    let nested = dir.join("nested");
    disk.create_dir_all(&nested).expect("create with parents");
    disk.create_dir_all(&nested).expect("create again");
    assert!(disk.exists(&nested).expect("exists"), "a created directory exists");
    disk.sync_dir(&nested).expect("sync a directory");
    let usage = disk.usage(&nested).expect("usage");
    assert!(usage.free > 0 && usage.free <= usage.total && usage.inodes_free > 0, "{usage:?}");
}

fn names<D: Disk>(disk: &D, dir: &Path) {
    let dir = dir.join("nested");
    let (a, b) = (dir.join("a"), dir.join("b"));
    assert_eq!(disk.open(&a, true).map(drop).map_err(|e| e.kind()), Err(ErrorKind::NotFound), "open");
    assert_eq!(disk.remove(&a).map_err(|e| e.kind()), Err(ErrorKind::NotFound), "remove");
    write_file(disk, &b, b"old");
    write_file(disk, &a, b"new");
    assert_eq!(disk.list(&dir).expect("list"), ["a", "b"], "sorted names");
    let mut open = disk.open(&a, false).expect("open for reading");
    disk.rename(&a, &b).expect("rename over an existing file");
    disk.sync_dir(&dir).expect("sync after a rename");
    assert_eq!(disk.list(&dir).expect("list"), ["b"], "renamed");
    assert_eq!(read_file(disk, &b), b"new", "replaced");
    disk.remove(&b).expect("remove");
    assert!(!disk.exists(&b).expect("exists"), "removed");
    let mut buf = [0; 8];
    assert_eq!(open.read_at(0, &mut buf).expect("read a removed file"), 3, "an open file outlives its name");
    assert!(open.write_at(0, b"x").is_err(), "a file opened for reading cannot be written");
}

fn bytes<D: Disk>(disk: &D, dir: &Path) {
    let path = dir.join("bytes");
    let mut file = disk.create(&path).expect("create");
    assert_eq!(file.size().expect("size"), 0, "created empty");
    file.write_at(4, b"data").expect("write behind a hole");
    file.write_at(6, b"TAil").expect("overwrite and extend");
    assert_eq!(file.size().expect("size"), 10, "extended");
    file.sync().expect("sync");
    assert_eq!(read_file(disk, &path), b"\0\0\0\0daTAil", "visible through another handle");
    let mut buf = [7; 4];
    assert_eq!(file.read_at(8, &mut buf).expect("short read"), 2, "short only at the end");
    assert_eq!(&buf, b"il\x07\x07", "no byte beyond the end is touched");
    assert_eq!(file.read_at(100, &mut buf).expect("read beyond the end"), 0, "nothing there");
    file.set_len(6).expect("cut");
    file.set_len(8).expect("extend");
    assert_eq!(read_file(disk, &path), b"\0\0\0\0da\0\0", "what was cut does not come back");
    drop(disk.create(&path).expect("create over a file"));
    assert_eq!(read_file(disk, &path), b"", "emptied");
    disk.remove(&path).expect("clean up");
}

fn preallocation<D: Disk>(disk: &D, dir: &Path) {
    let path = dir.join("allocated");
    let mut file = disk.create(&path).expect("create");
    file.write_at(0, b"head").expect("write");
    file.allocate(0, 4096).expect("allocate");
    let mut expected = b"head".to_vec();
    expected.resize(4096, 0);
    assert_eq!(read_file(disk, &path), expected, "allocation keeps what is there and adds zeros");
    file.allocate(1024, 1024).expect("allocate inside");
    assert_eq!(file.size().expect("size"), 4096, "allocation never shortens");
    file.allocate(4096, 100).expect("allocate at the end");
    assert_eq!(file.size().expect("size"), 4196, "allocation extends");
    disk.remove(&path).expect("clean up");
}

fn write_file<D: Disk>(disk: &D, path: &Path, data: &[u8]) {
    let mut file = disk.create(path).expect("create");
    file.write_at(0, data).expect("write");
    file.sync().expect("sync");
}

fn read_file<D: Disk>(disk: &D, path: &Path) -> Vec<u8> {
    let mut file = disk.open(path, false).expect("open");
    let mut data = vec![0; file.size().expect("size") as usize];
    let n = file.read_at(0, &mut data).expect("read");
    assert_eq!(n, data.len(), "a read inside the file is complete");
    data
}
