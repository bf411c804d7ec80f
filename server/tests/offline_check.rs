//! What `zk-server check` says of directories in every state, and that it never changes one: every check in here compares
//! the directory byte for byte before and after.

mod offline_support;

use offline_support::*;
use zk_core::watch::WatchManager;
use zk_jute::image::SnapshotSource;
use zk_jute::records::Acl;
use zk_jute::txn::{LoggedTxn, Txn};
use zk_jute::{OpCode, Zxid};

/// Texts of all problems with their severity.
fn problems(json: &serde_json::Value) -> Vec<String> {
    let list = json["problems"].as_array().expect("list");
    list.iter().map(|p| format!("{}: {}", p["severity"].as_str().expect("severity"), p["what"])).collect()
}

#[test]
fn a_healthy_directory_has_no_problem_and_the_digest_of_its_tree() {
    let history = History::usual();
    let (text, json) = check(history.dir());
    text.expect(0, &["no problem", "3 transactions up to 0x100000007", "digests: 3 compared, 0 differ"]);
    assert_eq!(problems(&json), [""; 0]);
    let tree = &json["tree"];
    assert_eq!(tree["digest"], format!("{:#x}", history.tree.digest()));
    assert_eq!(tree["snapshot"], history.file("snapshot.100000004").to_str().expect("path"));
    assert_eq!((&tree["compared"], &tree["sessions"], &tree["nodes"]), (&3.into(), &1.into(), &6.into()));
}

#[test]
fn a_directory_of_the_java_server_replays_to_every_digest_that_its_leader_logged() {
    let dir = java_directory();
    check(dir.path()).0.expect(0, &["12 compared, 0 differ", "no problem"]);
    for newer in ["snapshot.100000012", "snapshot.100000009"] {
        std::fs::remove_file(dir.path().join("version-2").join(newer)).expect("remove");
    }
    let (text, json) = check(dir.path());
    text.expect(0, &["snapshot.0 and 30 transactions up to 0x10000001e"]);
    assert_eq!(json["tree"]["digest_mismatches"], 0);
    assert!(json["tree"]["compared"].as_u64().expect("number") >= 28, "{json:#}");
}

#[test]
fn a_torn_tail_is_a_warning_with_its_offset_because_a_start_cuts_it() {
    let history = History::usual();
    let log = history.file("log.100000005");
    let data = std::fs::read(&log).expect("read");
    let (records, end) = records(&data);
    for cut in [records[2].start + 8, records[2].start + 12, end - 1] {
        std::fs::write(&log, &data[..cut]).expect("write");
        let (text, json) = check(history.dir());
        let place = format!("log.100000005 at byte {}: ", records[2].start);
        text.expect(0, &["warning: ", &place, "2 transactions up to 0x100000006", "0 errors, 1 warnings"]);
        assert_eq!(json["tree"]["digest_mismatches"], 0, "cut at {cut}");
    }
}

#[test]
fn a_missing_transaction_in_the_log_is_an_error_and_ends_the_replay() {
    let history = History::usual();
    edit(&history.file("log.100000005"), |data| {
        let (records, _) = records(data);
        data.drain(records[1].clone());
    });
    let (text, json) = check(history.dir());
    text.expect(
        1,
        &["0x100000007 does not follow 0x100000005", "what was between is missing; the replay stopped here"],
    );
    assert_eq!(json["tree"]["last_zxid"], "0x100000005");
}

#[test]
fn a_log_that_does_not_continue_the_snapshot_is_an_error() {
    let mut history = History::usual();
    history.snapshot();
    history.set("/a", "five");
    for middle in ["log.100000001", "log.100000005", "snapshot.100000007"] {
        std::fs::remove_file(history.file(middle)).expect("remove");
    }
    let (text, _) = check(history.dir());
    text.expect(1, &["log.100000008: 0x100000008 comes after 0x100000004, and what was between is missing"]);
}

#[test]
fn a_repeated_record_is_a_warning_if_it_is_the_same_and_an_error_if_it_is_not() {
    let mut history = History::usual();
    let log = history.file("log.100000005");
    let healthy = std::fs::read(&log).expect("read");
    let (records, end) = records(&healthy);
    let again = healthy[records[1].clone()].to_vec();
    edit(&log, |data| data[end..end + again.len()].copy_from_slice(&again));
    check(history.dir()).0.expect(0, &["warning: ", "1 records repeat earlier ones", "0 errors"]);

    let mut other = history.prepare(SESSION, OpCode::Delete, Txn::Delete { path: "/b".into() });
    other.header.zxid = Zxid(0x1_0000_0006);
    let other = LoggedTxn::new(other.header, other.txn, other.digest);
    let other = framed(&other);
    std::fs::write(&log, healthy).expect("write");
    edit(&log, |data| data[end..end + other.len()].copy_from_slice(&other));
    let place = format!("at byte {}", records[1].start);
    let (text, _) = check(history.dir());
    text.expect(1, &["error: ", "a second, different transaction 0x100000006; the first is in ", &place]);
}

#[test]
fn a_dropped_change_makes_every_later_digest_a_mismatch_of_which_only_the_first_are_listed() {
    let mut history = History::usual();
    let dropped = history.prepare(SESSION, OpCode::Create, create_txn("/lost", vec![Acl::open()], false));
    let mut header = dropped.header;
    header.op = OpCode::Error as i32;
    // The same zxid without the change: zxids are gapless and every checksum is right.
    history.log(&LoggedTxn::new(header, Txn::Error { err: -101 }, None));
    for n in 0..30 {
        history.set("/b", &n.to_string());
    }
    let (text, json) = check(history.dir());
    let tree = &json["tree"];
    assert_eq!(tree["digest_mismatches"], 30);
    let listed = tree["mismatches"].as_array().expect("list");
    assert_eq!(listed.len(), 20);
    let first = &listed[0];
    let data = std::fs::read(history.file("log.100000005")).expect("read");
    assert_eq!(first["file"], history.file("log.100000005").to_str().expect("path"));
    assert_eq!(first["offset"], records(&data).0[4].start);
    assert_eq!((&first["zxid"], &first["txn"]), (&"0x100000009".into(), &"setData /b".into()));
    assert_ne!(first["expected"], first["actual"]);
    let what = format!(
        "error: {} at byte {}: digest mismatch at zxid 0x100000009: expected {}, actual {} (setData /b)",
        history.file("log.100000005").display(),
        first["offset"],
        first["expected"].as_str().expect("digest"),
        first["actual"].as_str().expect("digest")
    );
    text.expect(1, &[&what, "10 more digest mismatches follow", "33 compared, 30 differ"]);
    assert_eq!(text.out.matches("digest mismatch at").count(), 20);
}

#[test]
fn an_accepted_epoch_below_the_current_one_is_a_warning_because_a_start_raises_it() {
    let history = History::usual();
    std::fs::write(history.file("currentEpoch"), "5").expect("write");
    check(history.dir()).0.expect(0, &["warning: ", "acceptedEpoch: 1 is lower than currentEpoch 5"]);
}

#[test]
fn an_epoch_file_without_the_other_is_an_error_where_a_start_cannot_derive_it() {
    let history = History::usual();
    std::fs::remove_file(history.file("currentEpoch")).expect("remove");
    check(history.dir()).0.expect(0, &["currentEpoch: the file is missing"]);
    std::fs::write(history.file("acceptedEpoch"), "2").expect("write");
    check(history.dir()).0.expect(1, &["currentEpoch: a start refuses: with accepted epoch 2"]);
    std::fs::write(history.file("currentEpoch"), "1").expect("write");
    std::fs::remove_file(history.file("acceptedEpoch")).expect("remove");
    check(history.dir()).0.expect(1, &["acceptedEpoch: a start refuses: without it a promise"]);
}

#[test]
fn what_check_calls_an_error_a_start_refuses_and_what_it_calls_a_warning_a_start_takes() {
    let start = |history: &History| {
        let mut config = zk_store::StoreConfig::new(history.dir());
        config.prealloc_bytes = 0;
        let mut store = zk_store::Store::open(zk_store::FileDisk, config);
        store.recover(zk_core::tree::TreeBuilder::new).is_ok()
    };
    type Damage = fn(&History);
    let damages: [(&str, Damage); 6] = [
        ("nothing", |_| {}),
        ("a torn tail", |history| {
            edit(&history.file("log.100000005"), |data| data.truncate(records(data).1 - 1));
        }),
        ("a gap", |history| {
            edit(&history.file("log.100000005"), |data| drop(data.drain(records(data).0[0].clone())));
        }),
        ("a lost acceptedEpoch", |history| {
            std::fs::remove_file(history.file("acceptedEpoch")).expect("remove");
        }),
        ("a lost currentEpoch", |history| {
            std::fs::remove_file(history.file("currentEpoch")).expect("remove");
        }),
        ("no snapshot and no origin", |history| {
            for name in ["snapshot.0", "snapshot.100000004", "origin"] {
                // What is not there need not go.
                let _ = std::fs::remove_file(history.file(name));
            }
        }),
    ];
    for (name, damage) in damages {
        let history = History::usual();
        damage(&history);
        let (text, _) = check(history.dir());
        assert_eq!(text.code == 0, start(&history), "{name}: {}", text.out);
    }
}

#[test]
fn an_ephemeral_node_of_a_session_that_is_not_open_is_an_error() {
    let mut history = History::usual();
    history.add(0x77, OpCode::Create, create_txn("/orphan", vec![Acl::open()], true));
    history.add(SESSION, OpCode::Create, create_txn("/owned", vec![Acl::open()], true));
    let (text, json) = check(history.dir());
    text.expect(1, &["ephemeral node /orphan belongs to session 0x77, which is not open", "1 errors"]);
    assert_eq!(json["tree"]["orphans"], serde_json::json!([{ "session": "0x77", "path": "/orphan" }]));
    assert_eq!((&json["tree"]["ephemerals"], &json["tree"]["orphan_ephemerals"]), (&2.into(), &1.into()));
    assert!(!text.out.contains("/owned"), "{}", text.out);
}

#[test]
fn orphans_beyond_the_listed_ones_are_counted() {
    let mut history = History::usual();
    for n in 0..25 {
        history.add(0x77, OpCode::Create, create_txn(&format!("/orphan{n}"), vec![Acl::open()], true));
    }
    let (text, json) = check(history.dir());
    text.expect(1, &["5 more ephemeral nodes belong to no open session"]);
    assert_eq!(text.out.matches("which is not open").count(), 20);
    assert_eq!(json["tree"]["orphan_ephemerals"], 25);
}

#[test]
fn a_corrupt_snapshot_is_an_error_with_its_offset_and_an_older_one_is_replayed_instead() {
    let history = History::usual();
    edit(&history.file("snapshot.100000004"), |data| data[200] ^= 1);
    let (text, json) = check(history.dir());
    text.expect(1, &["error: ", "snapshot.100000004 at byte ", "snapshot.100000004: INVALID"]);
    text.expect(1, &["snapshot.0 and 7 transactions up to 0x100000007", "7 compared, 0 differ"]);
    assert_eq!(json["tree"]["digest"], format!("{:#x}", history.tree.digest()));
}

#[test]
fn a_snapshot_whose_nodes_do_not_have_its_digest_is_an_error_although_every_checksum_fits() {
    let mut history = History::usual();
    let mut forged = Forged::of(&history.tree);
    forged.tail.digest = forged.tail.digest.map(|(zxid, version, digest)| (zxid, version, digest + 1));
    history.snapshot_of(&forged);
    let (text, _) = check(history.dir());
    text.expect(1, &["snapshot.100000007: valid", "error: ", "the image should have digest 0x"]);
    text.expect(1, &["snapshot.100000004 and 3 transactions"]);
}

#[test]
fn a_node_whose_acl_the_snapshot_lacks_is_an_error_until_the_log_brings_it_back() {
    let mut history = History::usual();
    history.add(SESSION, OpCode::Create, create_txn("/guarded", digest_acl("u"), false));
    let mut forged = Forged::of(&history.tree);
    forged.head.acls.retain(|(_, list)| *list != digest_acl("u"));
    assert!(forged.head.acls.len() < SnapshotSource::head(&history.tree).acls.len());
    history.snapshot_of(&forged);
    let (text, json) = check(history.dir());
    text.expect(1, &["node /guarded has an ACL that the snapshot lacks, and is closed to all"]);
    assert_eq!(json["tree"]["repaired_acls"], 1);

    let again = Txn::SetAcl { path: "/guarded".into(), acl: digest_acl("u"), version: 1 };
    history.add(SESSION, OpCode::SetAcl, again);
    check(history.dir()).0.expect(0, &["warning: ", "the snapshot lacks the ACL of 1 nodes"]);
}

#[test]
fn a_fuzzy_snapshot_is_compared_at_the_zxid_of_its_digest_and_is_an_error_without_the_log_up_to_there() {
    let mut history = History::usual();
    let named = history.tree.last_processed();
    let txns = ["/late", "/later"]
        .map(|path| history.prepare(SESSION, OpCode::Create, create_txn(path, vec![Acl::open()], false)));
    // As upstream writes it under load: named after what came before, with the effects and the digest of what follows.
    let mut forged = Forged::of(&history.tree);
    forged.tail.last_processed = Some(named);
    history.store.roll().expect("roll");
    history.store.write_snapshot(&forged, named).expect("snapshot");
    history.log(&txns[0]);
    let (text, _) = check(history.dir());
    text.expect(1, &["error: ", "written under writes up to 0x100000009, and the log ends at 0x100000008"]);
    history.log(&txns[1]);
    check(history.dir()).0.expect(0, &["1 compared, 0 differ", "no problem"]);
}

#[test]
fn a_log_that_is_not_the_beginning_needs_a_snapshot() {
    let history = History::usual();
    for name in ["snapshot.0", "snapshot.100000004", "log.100000001"] {
        std::fs::remove_file(history.file(name)).expect("remove");
    }
    let (text, json) = check(history.dir());
    text.expect(1, &["history begins with 0x100000005: there is no intact snapshot", "tree: none"]);
    assert_eq!(json["tree"], serde_json::Value::Null);
}

#[test]
fn the_tree_is_not_judged_in_the_middle_of_an_installation_that_replaces_it() {
    let history = History::usual();
    std::fs::write(history.file("installing"), "100000007").expect("write");
    edit(&history.file("log.100000005"), |data| drop(data.drain(records(data).0[1].clone())));
    check(history.dir()).0.expect(1, &["a start finishes the installation", "tree: none"]);
}

#[test]
fn an_empty_data_directory_has_nothing_to_object_to() {
    let dir = tempfile::tempdir().expect("directory");
    std::fs::create_dir(dir.path().join("version-2")).expect("create");
    check(dir.path()).0.expect(0, &["last zxid none", "tree: none", "no problem"]);
}

#[test]
fn split_directories_are_checked_together() {
    let mut history = History::split("logs");
    history.create("/a");
    let logs = history.dir().join("logs");
    let logs = logs.to_str().expect("path");
    check_with(history.dir(), &["--log-dir", logs]).0.expect(0, &["2 compared, 0 differ", "no problem"]);
    let alone = run(&["check", history.dir().to_str().expect("path")]);
    alone.expect(0, &["and 0 transactions up to 0x0"]);
}

#[test]
fn what_is_no_data_directory_is_a_usage_error_that_names_it() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().to_str().expect("path");
    let ran = run(&["check", path]);
    ran.expect(2, &[]);
    assert!(ran.err.contains(&format!("{path} is no data directory")), "{}", ran.err);
    run(&["check", "/no/such/directory"]).expect(2, &[]);
    run(&["check"]).expect(2, &[]);
    let history = History::usual();
    run(&["check", history.dir().to_str().expect("path"), "--log-dir", path]).expect(2, &[]);
}

#[test]
fn the_tests_predict_digests_as_the_tree_has_them() {
    let mut history = History::new();
    let before = history.tree.clone();
    let txn = history.prepare(SESSION, OpCode::Create, create_txn("/x", vec![Acl::open()], false));
    let mut replayed = before;
    assert_eq!(replayed.apply(&txn, &mut WatchManager::default()).digest_mismatch, None);
    assert_eq!(replayed.digest(), history.tree.digest());
}
