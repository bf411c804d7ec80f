//! What `zk-server dump` prints of logs and snapshots, whole and damaged.

mod offline_support;

use std::process::{Command, Stdio};

use offline_support::*;
use zk_jute::records::Acl;
use zk_jute::txn::Txn;
use zk_jute::{ErrorCode, OpCode};

fn dump(file: &std::path::Path, json: bool) -> Ran {
    let mut arguments = vec!["dump", file.to_str().expect("path")];
    arguments.extend(json.then_some("--json"));
    let before = std::fs::read(file).expect("read");
    let ran = run(&arguments);
    assert!(std::fs::read(file).expect("read") == before, "a dump must not write");
    ran
}

/// One transaction of nearly every kind.
fn varied() -> History {
    let mut history = History::new();
    history.create("/a");
    history.set("/a", "twelve bytes");
    let acl = Txn::SetAcl { path: "/a".into(), acl: digest_acl("u"), version: 1 };
    history.add(SESSION, OpCode::SetAcl, acl);
    history.add(SESSION, OpCode::Create2, create_txn("/e", vec![Acl::open()], true));
    let error = Txn::Error { err: ErrorCode::NoNode as i32 };
    history.add(SESSION, OpCode::Error, error);
    let entries = vec![
        (OpCode::Create as i32, create_txn("/m", vec![Acl::open()], false)),
        (OpCode::Check as i32, Txn::Check { path: "/a".into(), version: 1 }),
        (OpCode::Delete as i32, Txn::Delete { path: "/m".into() }),
    ];
    history.add(SESSION, OpCode::Multi, Txn::Multi(entries));
    let paths = Some(vec!["/e".into()]);
    history.add(SESSION, OpCode::CloseSession, Txn::CloseSession { paths });
    history
}

#[test]
fn a_log_is_one_line_a_transaction_with_everything_that_identifies_it() {
    let history = varied();
    let ran = dump(&history.file("log.100000001"), false);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 8 + 1, "{}", ran.out);
    let head = "2026-01-31T12:00:00.00";
    for (index, rest) in [
        "0Z session 0x10000 cxid 0x1 zxid 0x100000001 createSession timeout 4000 digest 0x",
        "1Z session 0x10000 cxid 0x2 zxid 0x100000002 create /a dataLength 10 acl world:anyone:cdrwa ephemeral false parentCVersion 1 digest 0x",
        "2Z session 0x10000 cxid 0x3 zxid 0x100000003 setData /a dataLength 12 version 1 digest 0x",
        "3Z session 0x10000 cxid 0x4 zxid 0x100000004 setACL /a acl digest:u:hash:cdrwa version 1 digest 0x",
        "4Z session 0x10000 cxid 0x5 zxid 0x100000005 create2 /e dataLength 10 acl world:anyone:cdrwa ephemeral true",
        "5Z session 0x10000 cxid 0x6 zxid 0x100000006 error -101 digest 0x",
        "6Z session 0x10000 cxid 0x7 zxid 0x100000007 multi create /m dataLength 10 acl world:anyone:cdrwa ephemeral false parentCVersion -1; check /a version 1; delete /m digest 0x",
        "7Z session 0x10000 cxid 0x8 zxid 0x100000008 closeSession /e digest 0x",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(lines[index].starts_with(&format!("{head}{rest}")), "{}\n{rest}", lines[index]);
    }
    let last = format!("digest {:#x} at byte ", history.tree.digest());
    assert!(lines[7].contains(&last), "{}", lines[7]);
    assert!(lines[8].contains("log.100000001: end of log at byte"), "{}", lines[8]);
    ran.expect(0, &["after 8 transactions"]);
}

#[test]
fn a_log_as_json_has_one_object_a_line_with_data_and_length() {
    let history = varied();
    let ran = dump(&history.file("log.100000001"), true);
    ran.expect(0, &[]);
    let lines = ran.lines();
    let set = &lines[2];
    assert_eq!(
        (&set["zxid"], &set["type"], &set["op"]),
        (&"0x100000003".into(), &"setData".into(), &5.into())
    );
    assert_eq!(
        set["txn"],
        serde_json::json!({ "path": "/a", "data": "twelve bytes", "dataLength": 12, "version": 1 })
    );
    assert_eq!((&set["session"], &set["cxid"]), (&"0x10000".into(), &3.into()));
    assert_eq!(lines[6]["txn"][1]["type"], "check");
    assert_eq!(lines[7]["txn"]["paths"], serde_json::json!(["/e"]));
    assert_eq!(lines[7]["digest"], format!("{:#x}", history.tree.digest()));
    assert_eq!((&lines[8]["transactions"], &lines[8]["damage"]), (&8.into(), &serde_json::Value::Null));
}

#[test]
fn a_damaged_log_is_printed_up_to_the_damage_which_is_named_with_file_and_offset() {
    let history = varied();
    let log = history.file("log.100000001");
    let healthy = std::fs::read(&log).expect("read");
    let (records, end) = records(&healthy);
    edit(&log, |data| data[records[3].start + 40] ^= 1);
    let ran = dump(&log, false);
    let place = format!("log.100000001: damaged at byte {} after 3 transactions: ", records[3].start);
    ran.expect(1, &["zxid 0x100000003", &place, "checksum"]);
    assert!(!ran.out.contains("zxid 0x100000004"), "{}", ran.out);
    let json = dump(&log, true);
    assert_eq!(json.code, 1);
    let last = json.lines().pop().expect("lines");
    assert_eq!(last["offset"], records[3].start);
    assert!(last["damage"].as_str().expect("text").contains("checksum"), "{last}");

    std::fs::write(&log, &healthy[..end - 5]).expect("write");
    dump(&log, false).expect(1, &[&format!("damaged at byte {} after 7", records[7].start)]);
    std::fs::write(&log, &healthy[..10]).expect("write");
    dump(&log, false).expect(1, &["damaged at byte 0 after 0 transactions"]);
    std::fs::write(&log, b"something else than a log").expect("write");
    dump(&log, true).expect(1, &["\"offset\":0", "not that of a log"]);
}

#[test]
fn a_snapshot_lists_nodes_with_stat_sessions_with_what_they_own_and_the_digest() {
    let mut history = History::usual();
    history.add(SESSION, OpCode::Create, create_txn("/e", digest_acl("u"), true));
    history.add(0x77, OpCode::Create, create_txn("/orphan", vec![Acl::open()], true));
    history.snapshot();
    let file = history.file("snapshot.100000009");
    let ran = dump(&file, false);
    ran.expect(
        0,
        &[
            "----\n/\n  cZxid = 0x0\n",
            "----\n/a\n  cZxid = 0x100000002\n  ctime = 2026-01-31T12:00:00.001Z\n  mZxid = 0x100000007\n",
            "  dataVersion = 4\n",
            "  ephemeralOwner = 0x10000\n  acl = digest:u:hash:cdrwa\n  dataLength = 10\n",
            "session 0x10000 timeout 4000 ephemerals 1\n",
            "session 0x77 is not open, but owns 1 ephemerals\n",
            "8 nodes with digest 0x",
            &format!("digest {:#x} of version 2 at zxid 0x100000009", history.tree.digest()),
            "last processed zxid 0x100000009",
        ],
    );
    let json = dump(&file, true);
    json.expect(0, &[]);
    let lines = json.lines();
    let node = lines.iter().find(|line| line["path"] == "/a").expect("node");
    assert_eq!(
        (&node["data"], &node["dataLength"], &node["version"]),
        (&"four".into(), &4.into(), &4.into())
    );
    let tail = lines.last().expect("lines");
    assert_eq!(tail["computedDigest"], format!("{:#x}", history.tree.digest()));
    assert_eq!(tail["computedDigest"], tail["digest"]["digest"]);
    assert_eq!(tail["nodes"], 8);
}

#[test]
fn a_corrupt_snapshot_is_named_with_its_offset() {
    let history = History::usual();
    let file = history.file("snapshot.100000004");
    edit(&file, |data| data[200] ^= 1);
    let name = file.to_str().expect("path").to_owned();
    dump(&file, false).expect(1, &[&format!("{name} is corrupt at byte ")]);
    let json = dump(&file, true);
    assert_eq!(json.code, 1);
    assert!(json.lines().pop().expect("lines")["error"].as_str().expect("text").contains("at byte"));
    std::fs::write(&file, b"").expect("write");
    dump(&file, false).expect(1, &[&format!("{name} is corrupt at byte 0")]);
}

#[test]
fn a_snapshot_with_a_digest_that_its_nodes_do_not_have_is_not_intact() {
    let mut history = History::usual();
    let mut forged = Forged::of(&history.tree);
    forged.tail.digest = forged.tail.digest.map(|(zxid, version, digest)| (zxid, version, digest + 1));
    history.snapshot_of(&forged);
    dump(&history.file("snapshot.100000007"), false)
        .expect(1, &["the digest in the file is not that of its nodes"]);
}

#[test]
fn files_of_the_java_server_are_printed_under_any_name() {
    let dir = java_directory();
    let version = dir.path().join("version-2");
    let file = |name: &str| version.join(name);
    dump(&file("log.10000000b"), false).expect(0, &["multi create /m", "after 9 transactions"]);
    std::fs::rename(file("snapshot.100000012"), file("copy")).expect("rename");
    dump(&file("copy"), false)
        .expect(0, &["14 nodes with digest 0x7dd0bfd4a", "digest 0x7dd0bfd4a of version 2"]);
    std::fs::rename(file("log.10000000b"), file("snapshot.copy")).expect("rename");
    dump(&file("snapshot.copy"), false).expect(0, &["after 9 transactions"]);
}

#[test]
fn what_cannot_be_dumped_is_a_usage_error_that_names_it() {
    for path in ["/no/such/log.1", "/"] {
        let ran = run(&["dump", path]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains(&format!("cannot dump {path}")), "{}", ran.err);
    }
    assert_eq!(run(&["dump"]).code, 2);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut history = History::new();
    history.create("/a");
    for n in 0..60 {
        history.set("/a", &format!("{n:04000}"));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_zk-server"));
    let log = history.file("log.100000001");
    let mut child = command
        .args(["dump", "--json", log.to_str().expect("path")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawn");
    // More than a pipe holds is left unread.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("wait");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}
