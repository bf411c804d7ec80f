//! Transactions and snapshots against the bytes that upstream's own classes wrote (`tests/golden/Golden.java`).

use crate::support::*;
use bytes::Bytes;
use zk_jute::codec::{DecodeErrorKind, Reader, Writer};
use zk_jute::records::{Acl, StatPersisted};
use zk_jute::snapshot::*;
use zk_jute::txn::{LoggedTxn, Txn, TxnDigest, TxnHeader};
use zk_jute::{SessionId, Zxid};

fn header(op: i32) -> TxnHeader {
    TxnHeader { client_id: SESSION, cxid: 7, zxid: Zxid(0x1_0000_0003), time: 1_700_000_000_003, op }
}

const DIGEST: TxnDigest = TxnDigest { version: 2, tree_digest: 0x12_3456_7890 };

/// Checks one entry with and without a digest.
fn check_txn(name: &str, op: i32, txn: &Txn) {
    for digest in [None, Some(DIGEST)] {
        let suffix = if digest.is_some() { "-digest" } else { "" };
        let bytes = golden(&format!("txn-{name}{suffix}"));
        let expected = LoggedTxn { header: header(op), txn: txn.clone(), digest, bytes: bytes.clone() };
        assert_eq!(LoggedTxn::decode(bytes), Ok(expected.clone()), "{name}{suffix}");
        assert_eq!(LoggedTxn::new(header(op), txn.clone(), digest), expected, "{name}{suffix}");
    }
}

fn create(path: &str, ephemeral: bool, parent_cversion: i32) -> Txn {
    Txn::Create { path: text(path), data: data(), acl: acls(), ephemeral, parent_cversion }
}

fn create_ttl() -> Txn {
    Txn::CreateTtl { path: text("/t"), data: data(), acl: acls(), parent_cversion: 6, ttl: 60000 }
}

fn create_container() -> Txn {
    Txn::CreateContainer { path: text("/c"), data: data(), acl: acls(), parent_cversion: 6 }
}

#[test]
fn every_transaction_has_upstream_bytes() {
    check_txn("1", 1, &create("/a", true, 6));
    check_txn("15", 15, &create("/a", false, 6));
    check_txn("21", 21, &create_ttl());
    check_txn("19", 19, &create_container());
    check_txn("2", 2, &Txn::Delete { path: text("/a") });
    check_txn("20", 20, &Txn::Delete { path: text("/c") });
    check_txn("5", 5, &Txn::SetData { path: text("/a"), data: data(), version: 8 });
    check_txn("16", 16, &Txn::SetData { path: text("/zookeeper/config"), data: data(), version: -1 });
    check_txn("7", 7, &Txn::SetAcl { path: text("/a"), acl: acls(), version: 3 });
    check_txn("-10", -10, &Txn::CreateSession { timeout_ms: 30000 });
    check_txn("-1", -1, &Txn::Error { err: -101 });
}

#[test]
fn a_closed_session_is_read_with_and_without_its_ephemerals() {
    let close = |paths: &[&str]| Txn::CloseSession { paths: Some(texts(paths)) };
    check_txn("-11", -11, &close(&["/a", "/b"]));
    check_txn("-11-empty", -11, &close(&[]));
    // As long as a digest, but a list.
    check_txn("-11-short", -11, &close(&["/abc"]));
    // With `closeSessionTxn.enabled=false` a digest may follow the header at once.
    check_txn("-11-absent", -11, &Txn::CloseSession { paths: None });
    for tree_digest in [0, 5, -5, i64::MIN, i64::MAX] {
        let digest = Some(TxnDigest { version: 2, tree_digest });
        let entry = LoggedTxn::new(header(-11), Txn::CloseSession { paths: None }, digest);
        assert_eq!(LoggedTxn::decode(entry.bytes.clone()), Ok(entry), "digest {tree_digest}");
    }
}

#[test]
fn multi_transactions_have_upstream_bytes() {
    let entries = vec![
        (1, create("/a", true, 6)),
        (15, create("/b", false, 7)),
        (21, create_ttl()),
        (19, create_container()),
        (2, Txn::Delete { path: text("/d") }),
        (5, Txn::SetData { path: text("/s"), data: data(), version: 8 }),
        (13, Txn::Check { path: text("/k"), version: 5 }),
    ];
    check_txn("14", 14, &Txn::Multi(entries));
    let failed = [0, -101, -2].map(|err| (-1, Txn::Error { err })).to_vec();
    check_txn("14-failed", 14, &Txn::Multi(failed));
}

#[test]
fn one_error_fails_every_operation_of_a_multi() {
    let delete = || (2, Txn::Delete { path: text("/d") });
    assert_eq!(Txn::Multi(vec![delete(), delete()]).failed_multi(), None);
    let failed = Txn::Multi(vec![delete(), (-1, Txn::Error { err: -101 }), delete()]);
    assert_eq!(failed.failed_multi(), Some(vec![0, -101, -2]));
}

#[test]
fn a_create_from_before_3_4_has_no_parent_cversion() {
    let entry = LoggedTxn::decode(golden("txn-1-v0")).expect("an entry");
    assert_eq!(entry.txn, create("/a", true, -1));
    assert_eq!(entry.digest, None);
}

#[test]
fn a_create_without_acl_is_open() {
    let entry = LoggedTxn::decode(golden("txn-1-nulls")).expect("an entry");
    let Txn::Create { data, acl, .. } = entry.txn else { panic!("not a create: {:?}", entry.txn) };
    assert_eq!((data, acl), (None, vec![Acl::open()]));
}

#[test]
fn the_leader_applies_what_followers_read_back() {
    let acl = vec![Acl { perms: 1, id: id("digest", "😀:x") }];
    let txn = Txn::Create { path: text("/a"), data: data(), acl, ephemeral: false, parent_cversion: 1 };
    let made = LoggedTxn::new(header(1), txn, None);
    assert_eq!(made.bytes, golden("txn-1-supplementary"));
    assert_eq!(Ok(made.clone()), LoggedTxn::decode(made.bytes));
}

#[test]
fn an_operation_that_is_never_logged_is_refused_by_number() {
    let error = LoggedTxn::decode(golden("txn-setMaxChildren")).expect_err("not a transaction");
    assert_eq!(error.kind, DecodeErrorKind::BadValue { what: "transaction type", value: 1000 });
    assert_eq!(error.to_string(), "at byte 32: transaction type 1000 is not valid");
    for op in [0, 3, 13, 22, 100] {
        let error = Txn::decode(op, &mut Reader::new(Bytes::new())).expect_err("not a transaction");
        assert_eq!(error.kind, DecodeErrorKind::BadValue { what: "transaction type", value: i64::from(op) });
    }
}

#[test]
fn a_multi_in_a_multi_is_refused() {
    let inner = Writer::build(|w| Txn::Multi(vec![]).encode(w));
    let outer = Writer::build(|w| {
        w.vector_len(Some(1));
        w.i32(14);
        w.buffer(Some(&inner));
    });
    let error = Txn::decode(14, &mut Reader::new(outer)).expect_err("nested");
    assert_eq!(
        (error.offset, error.kind),
        (12, DecodeErrorKind::BadValue { what: "transaction type", value: 14 })
    );
}

/// Decodes `bytes` in chunks of `chunk` bytes.
fn pieces(bytes: &[u8], chunk: usize) -> (Vec<SnapshotPiece>, Vec<u8>) {
    let mut decoder = SnapshotDecoder::new();
    let mut pieces = Vec::new();
    for part in bytes.chunks(chunk) {
        decoder.push(part);
        while let Some(piece) = decoder.next().expect("a snapshot") {
            pieces.push(piece);
        }
    }
    (pieces, decoder.take_rest())
}

#[test]
fn an_upstream_snapshot_is_read_in_chunks_of_any_size_and_written_back_alike() {
    let bytes = golden("snapshot");
    let mut followed = bytes.to_vec();
    followed.extend_from_slice(b"\0\0\0\x0aBenWasHere");
    let (whole, rest) = pieces(&followed, usize::MAX);
    assert_eq!(rest, b"\0\0\0\x0aBenWasHere");
    for chunk in 1..100 {
        assert_eq!(pieces(&bytes, chunk), (whole.clone(), vec![]), "chunks of {chunk}");
    }
    let mut out = Vec::new();
    for piece in &whole {
        match piece {
            SnapshotPiece::Head(head) => encode_head(head, &mut out),
            SnapshotPiece::Node(node) => encode_node(node, &mut out),
            SnapshotPiece::End => encode_end(&mut out),
        }
    }
    assert_eq!(out, bytes);
}

#[test]
fn an_upstream_snapshot_has_the_sessions_acls_and_nodes_that_were_put_in() {
    let (whole, _) = pieces(&golden("snapshot"), usize::MAX);
    let Some(SnapshotPiece::Head(head)) = whole.first() else { panic!("no head") };
    assert_eq!(head.sessions, vec![(SessionId(0x42), 30000)]);
    let key = head.acls.iter().find(|(_, list)| *list == acls()).map(|(key, _)| *key).expect("the ACL");
    let nodes = whole.iter().filter_map(|piece| match piece {
        SnapshotPiece::Node(node) => Some(node),
        SnapshotPiece::Head(_) | SnapshotPiece::End => None,
    });
    let nodes: Vec<&SnapshotNode> = nodes.collect();
    assert_eq!(nodes.first().map(|node| &*node.path), Some(""));
    let node = |path: &str| nodes.iter().find(|node| &*node.path == path).copied().expect("the node");
    let expected = SnapshotNode {
        path: text("/a"),
        data: data(),
        acl: key,
        stat: StatPersisted {
            czxid: 0x1_0000_0001,
            mzxid: 0x1_0000_0001,
            ctime: 1_700_000_000_001,
            mtime: 1_700_000_000_001,
            ephemeral_owner: 0x42,
            pzxid: 0x1_0000_0001,
            ..StatPersisted::default()
        },
    };
    assert_eq!(node("/a"), &expected);
    assert_eq!(node("/b").data, None);
    assert_eq!(node("/b").stat.cversion, 1);
    assert_eq!(node("/b/ż").data, Some(Bytes::from_static(b"x")));
    assert_eq!(whole.last(), Some(&SnapshotPiece::End));
}

#[test]
fn a_snapshot_digest_has_upstream_bytes_and_old_ones_are_text() {
    check("snapshot-digest", &(Zxid(0), 2, 0), SnapshotTail::decode_digest, |tail, w| {
        SnapshotTail::encode_digest(*tail, w);
    });
    let old = Writer::build(|w| {
        w.i64(5);
        w.i32(1);
        w.string("1f");
    });
    assert_eq!(SnapshotTail::decode_digest(&mut Reader::new(old)), Ok((Zxid(5), 1, 0x1f)));
}
