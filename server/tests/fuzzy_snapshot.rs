//! Data directories that a killed Java server leaves: snapshots written while transactions were applied, which hold more
//! than the digest in their footer says.

mod common;
mod offline_support;

use std::path::Path;

use common::process::Member;
use offline_support::*;
use zk_core::tree::DataTree;
use zk_jute::txn::LoggedTxn;
use zk_jute::{OpCode, Zxid};

/// Snapshots at 0 and 4, a log from 1 on, and a snapshot at 7 that was written while 8 was being applied: it holds the change
/// of 8, and the digest that was noted last, that of 7.
struct Killed {
    history: History,
    /// Transaction 8, not logged yet.
    next: LoggedTxn,
    /// The tree before it.
    noted: DataTree,
}

impl Killed {
    fn new() -> Self {
        let mut history = History::usual();
        let noted = history.tree.clone();
        let next = history.prepare(SESSION, OpCode::Create, create_txn("/late", Vec::new(), false));
        let mut forged = Forged::of(&history.tree);
        forged.tail = Forged::of(&noted).tail;
        history.store.roll().expect("roll");
        history.store.write_snapshot(&forged, noted.last_processed()).expect("snapshot");
        Self { history, next, noted }
    }

    fn name(&self) -> String {
        format!("snapshot.{:x}", self.noted.last_processed().0)
    }

    /// A server over a copy of the directory.
    fn member(&self, extra: &str) -> (tempfile::TempDir, Member) {
        let dir = tempfile::tempdir().expect("directory");
        let member = Member::new(dir.path(), extra);
        copy(&self.history.dir().join("version-2"), &member.data().join("version-2"));
        (dir, member)
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("create");
    for entry in std::fs::read_dir(from).expect("list") {
        let entry = entry.expect("entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copy");
    }
}

/// The fault: such a directory ended the start with "is corrupt at byte 0: the image at ... has digest ...".
#[test]
fn a_snapshot_with_a_change_that_its_digest_lacks_is_loaded_if_the_log_goes_on() {
    let mut killed = Killed::new();
    let next = killed.next.clone();
    killed.history.log(&next);
    let at = killed.history.set("/a", "after");
    let (text, _) = check(killed.history.dir());
    text.expect(0, &[&format!("{} and 2 transactions up to {at}", killed.name()), "no problem"]);

    let (_dir, mut member) = killed.member("");
    let mut client = member.start();
    assert_eq!(client.get("/late").expect("get"), b"data of /late");
    assert_eq!(client.get("/a").expect("get"), b"after");
    let log = member.log();
    assert!(!log.contains("skipped snapshot") && !log.contains("digest mismatch"), "{log}");
}

/// The fault: as above, although the older snapshot and the log have everything.
#[test]
fn a_snapshot_with_a_change_that_is_not_in_the_log_is_replaced_by_an_older_one() {
    let killed = Killed::new();
    let (text, _) = check(killed.history.dir());
    text.expect(
        1,
        &[&killed.name(), "the image should have digest", "snapshot.100000004 and 3 transactions"],
    );
    let (_dir, mut member) = killed.member("");
    let mut client = member.start();
    assert_eq!(client.get("/a").expect("get"), b"four");
    assert!(client.get("/late").is_err(), "what is not in the log did not happen here");
    assert!(member.log().contains("skipped snapshot"), "{}", member.log());
}

#[test]
fn without_an_older_snapshot_the_start_is_refused_and_names_what_helps() {
    let killed = Killed::new();
    for name in ["snapshot.0", "snapshot.100000004", "log.100000001"] {
        std::fs::remove_file(killed.history.file(name)).expect("remove");
    }
    let (_dir, mut member) = killed.member("");
    member.spawn(&[]);
    assert_ne!(member.wait().code(), Some(0));
    let digests = [&killed.noted, &killed.history.tree].map(|tree| format!("{:#x}", tree.digest()));
    let texts = [&killed.name(), "0x100000007", &digests[0], &digests[1], "digest.enabled=false"];
    common::process::eventually("the log says why", || texts.iter().all(|text| member.log().contains(text)));

    let (_dir, mut member) = killed.member("digest.enabled=false");
    let mut client = member.start();
    assert_eq!(client.get("/late").expect("get"), b"data of /late", "taken as it is");
}

#[test]
fn the_directory_is_as_described() {
    let killed = Killed::new();
    assert_eq!(killed.noted.last_processed(), Zxid(0x1_0000_0007));
    assert_eq!(killed.next.zxid(), Zxid(0x1_0000_0008));
    assert_ne!(killed.noted.digest(), killed.history.tree.digest());
}
