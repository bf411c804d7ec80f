//! Images: a clone never changes, what was read out can be read in, and what does not add up is refused or reported.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use zk_core::tree::{DataTree, SessionChange, TreeBuilder};
use zk_core::watch::WatchManager;
use zk_jute::image::{SnapshotSink, SnapshotSource};
use zk_jute::records::{Acl, Id};
use zk_jute::request::Response;
use zk_jute::snapshot::{SnapshotHead, SnapshotNode, SnapshotTail};
use zk_jute::txn::{LoggedTxn, Txn, TxnDigest, TxnHeader};
use zk_jute::{OpCode, SessionId, Zxid};

fn logged(zxid: i64, op: OpCode, txn: Txn) -> LoggedTxn {
    let header = TxnHeader { client_id: 7, cxid: 1, zxid: Zxid(zxid), time: 1000 + zxid, op: op as i32 };
    LoggedTxn { header, txn, digest: None, bytes: Bytes::new() }
}

fn create(zxid: i64, path: &str, acl: Vec<Acl>, ephemeral: bool) -> LoggedTxn {
    let data = Some(Bytes::from(format!("data of {path}")));
    logged(
        zxid,
        OpCode::Create2,
        Txn::Create { path: path.into(), data, acl, ephemeral, parent_cversion: -1 },
    )
}

fn set(zxid: i64, path: &str, data: &str) -> LoggedTxn {
    let data = Some(Bytes::copy_from_slice(data.as_bytes()));
    logged(zxid, OpCode::SetData, Txn::SetData { path: path.into(), data, version: zxid as i32 })
}

fn delete(zxid: i64, path: &str) -> LoggedTxn {
    logged(zxid, OpCode::Delete, Txn::Delete { path: path.into() })
}

fn acl(user: i64) -> Vec<Acl> {
    vec![Acl { perms: 31, id: Id { scheme: "digest".into(), id: format!("user{user}:hash").into() } }]
}

fn apply(tree: &mut DataTree, txn: &LoggedTxn) -> i32 {
    tree.apply(txn, &mut WatchManager::default()).err
}

/// 300 children of one node, some with children, owners and their own ACLs; then some go again.
fn grown() -> DataTree {
    let mut tree = DataTree::new();
    apply(&mut tree, &logged(1, OpCode::CreateSession, Txn::CreateSession { timeout_ms: 4000 }));
    apply(&mut tree, &create(2, "/p", Vec::new(), false));
    for n in 3..300 {
        let path = if n % 10 == 0 { format!("/p/{}/kid", n - 1) } else { format!("/p/{n}") };
        assert_eq!(apply(&mut tree, &create(n, &path, acl(n % 5), n % 10 == 5)), 0, "{path}");
    }
    for n in (300..400).filter(|n| n % 10 > 1 && n % 10 < 9) {
        assert_eq!(apply(&mut tree, &delete(n, &format!("/p/{}", n - 200))), 0);
    }
    let ttl = Txn::CreateTtl { path: "/ttl".into(), data: None, acl: acl(1), parent_cversion: -1, ttl: 9 };
    apply(&mut tree, &logged(400, OpCode::CreateTtl, ttl));
    let container =
        Txn::CreateContainer { path: "/cont".into(), data: None, acl: acl(1), parent_cversion: -1 };
    apply(&mut tree, &logged(401, OpCode::CreateContainer, container));
    tree
}

struct Image {
    head: SnapshotHead,
    nodes: Vec<SnapshotNode>,
    tail: SnapshotTail,
}

fn read_out(tree: &DataTree) -> Image {
    let mut nodes = Vec::new();
    let complete = tree.visit_nodes(&mut |node| {
        nodes.push(node.clone());
        ControlFlow::Continue(())
    });
    assert!(complete);
    Image { head: tree.head(), nodes, tail: tree.tail() }
}

fn read_in(image: &Image, zxid: i64) -> Result<DataTree, String> {
    let mut builder = TreeBuilder::new();
    builder.head(image.head.clone());
    for node in &image.nodes {
        builder.node(node.clone())?;
    }
    builder.finish(image.tail, Zxid(zxid))
}

#[test]
fn a_tree_read_out_and_in_is_the_same_tree() {
    let tree = grown();
    let image = read_out(&tree);
    assert_eq!(&*image.nodes[0].path, "", "the root has the empty path in files");
    let copy = read_in(&image, 401).unwrap();
    assert_eq!(tree.first_difference(&copy), None);
    assert_eq!(copy.digest(), tree.digest());
    assert_eq!(copy.last_processed(), tree.last_processed());
    assert_eq!(copy.approximate_data_size(), tree.approximate_data_size());
    assert_eq!(copy.node_count(), tree.node_count());
    assert_eq!(copy.acl_count(), tree.acl_count());
    assert_eq!(copy.ephemerals_count(), tree.ephemerals_count());
    assert!(copy.ephemerals_of(SessionId(7)).eq(tree.ephemerals_of(SessionId(7))));
    assert!(copy.ttls().eq(tree.ttls()) && copy.containers().eq(tree.containers()));
    assert_eq!(copy.session_timeout(SessionId(7)), Some(4000));
    assert_eq!(copy.repaired_acls(), 0);
}

#[test]
fn visiting_stops_when_the_visitor_breaks() {
    let mut seen = 0;
    let complete = grown().visit_nodes(&mut |_| {
        seen += 1;
        if seen == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(!complete);
    assert_eq!(seen, 5);
}

#[test]
fn an_image_keeps_its_moment_while_the_tree_goes_on() {
    let mut tree = grown();
    let image = tree.clone();
    let before = read_out(&image);
    let mut zxid = 402;
    for path in image.node("/p").unwrap().child_paths().cloned().collect::<Vec<_>>() {
        apply(&mut tree, &set(zxid, &path, "changed"));
        if tree.node(&path).unwrap().num_children() == 0 {
            apply(&mut tree, &delete(zxid + 1, &path));
        }
        apply(&mut tree, &create(zxid + 2, &format!("/p/new{zxid}"), acl(zxid), false));
        zxid += 3;
    }
    let after = read_out(&image);
    assert_eq!(before.nodes, after.nodes);
    assert_eq!(before.head, after.head);
    assert_eq!(before.tail, after.tail);
    assert!(tree.first_difference(&image).is_some());
    assert_ne!(tree.digest(), image.digest());
}

#[test]
fn the_running_digest_is_the_digest_of_what_is_there() {
    let tree = grown();
    let counted = read_in(&Image { tail: SnapshotTail::default(), ..read_out(&tree) }, 401).unwrap();
    assert_eq!(counted.digest(), tree.digest());
}

#[test]
fn an_image_with_another_digest_than_its_nodes_is_refused() {
    let mut image = read_out(&grown());
    image.nodes[9].data = Some(Bytes::from_static(b"rotten"));
    let error = read_in(&image, 401).unwrap().confirm(&[]).unwrap_err();
    let (_, _, digest) = image.tail.digest.unwrap();
    assert!(error.contains(&format!("{digest:#x}")) && error.contains("0x191"), "{error}");
}

#[test]
fn an_image_without_root_or_with_orphans_or_twins_is_refused() {
    let image = read_out(&grown());
    let empty = Image { nodes: Vec::new(), head: SnapshotHead::default(), tail: SnapshotTail::default() };
    assert!(read_in(&empty, 1).unwrap_err().contains("root"));
    let orphan = Image { nodes: vec![image.nodes[0].clone(), image.nodes[5].clone()], ..read_out(&grown()) };
    assert!(read_in(&orphan, 1).unwrap_err().contains("parent"));
    let mut twins = read_out(&grown());
    twins.nodes.insert(4, twins.nodes[3].clone());
    assert!(read_in(&twins, 401).unwrap_err().contains("twice"));
}

#[test]
fn a_node_with_an_acl_that_the_image_lacks_is_closed_and_counted_until_it_is_named_again() {
    let mut image = read_out(&grown());
    let dangling = image.head.acls.pop().unwrap();
    let mut copy = read_in(&image, 401).unwrap();
    let affected: Vec<_> = image.nodes.iter().filter(|node| node.acl == dangling.0).collect();
    assert!(!affected.is_empty());
    assert_eq!(copy.repaired_acls(), affected.len() as u64);
    let node = copy.node(&affected[0].path).unwrap();
    assert!(!zk_core::tree::permits(copy.acl(node), 31, &[dangling.1[0].id.clone()]));
    // A new list never takes the number that the image named.
    let path = affected[0].path.clone();
    let again = Txn::SetAcl { path: path.clone(), acl: dangling.1.clone(), version: 1 };
    assert_eq!(apply(&mut copy, &logged(402, OpCode::SetAcl, again)), 0);
    assert_eq!(**copy.acl(copy.node(&path).unwrap()), *dangling.1);
    assert!(!zk_core::tree::permits(
        copy.acl(copy.node(&affected[1].path).unwrap()),
        31,
        &[dangling.1[0].id.clone()]
    ));
}

#[test]
fn a_mismatching_digest_is_reported_with_both_values_and_other_versions_are_not_compared() {
    let mut tree = grown();
    let mut twin = tree.clone();
    let mut txn = set(402, "/p", "x");
    twin.apply(&txn, &mut WatchManager::default());
    txn.digest = Some(TxnDigest { version: 2, tree_digest: 12345 });
    let applied = tree.clone().apply(&txn, &mut WatchManager::default());
    assert_eq!(applied.digest_mismatch, Some((12345, twin.digest())));
    txn.digest = Some(TxnDigest { version: 2, tree_digest: twin.digest() });
    assert_eq!(tree.clone().apply(&txn, &mut WatchManager::default()).digest_mismatch, None);
    txn.digest = Some(TxnDigest { version: 1, tree_digest: 12345 });
    assert_eq!(tree.apply(&txn, &mut WatchManager::default()).digest_mismatch, None);
}

/// What an upstream server writes under load: named 401, but holding the effects of 402 and 403 and the digest of 403.
fn fuzzy() -> (Image, DataTree, [LoggedTxn; 3]) {
    let mut tree = grown();
    let txns = [create(402, "/late", acl(9), false), set(403, "/p", "late"), set(404, "/p", "later")];
    apply(&mut tree, &txns[0]);
    apply(&mut tree, &txns[1]);
    (read_out(&tree), tree, txns)
}

#[test]
fn a_fuzzy_image_becomes_exact_by_replay_and_is_compared_then() {
    let (image, mut exact, [first, second, mut third]) = fuzzy();
    let mut tree = read_in(&image, 401).unwrap();
    assert_eq!(tree.fuzzy_until(), Some(Zxid(403)));
    let mut first = first;
    first.digest = Some(TxnDigest { version: 2, tree_digest: 1 });
    let replayed = tree.apply(&first, &mut WatchManager::default());
    assert_eq!((replayed.err, replayed.digest_mismatch), (-110, None), "not comparable yet");
    assert_eq!(tree.apply(&second, &mut WatchManager::default()).digest_mismatch, None);
    assert_eq!(tree.fuzzy_until(), None);
    assert_eq!(tree.first_difference(&exact), None);
    apply(&mut exact, &third);
    third.digest = Some(TxnDigest { version: 2, tree_digest: exact.digest() });
    assert_eq!(tree.apply(&third, &mut WatchManager::default()).digest_mismatch, None);
}

#[test]
fn a_fuzzy_image_whose_digest_never_comes_true_is_reported_by_the_next_transaction() {
    let (mut image, mut exact, [first, second, mut third]) = fuzzy();
    image.tail.digest = Some((Zxid(403), 2, 777));
    let mut tree = read_in(&image, 401).unwrap();
    apply(&mut tree, &first);
    assert_eq!(tree.apply(&second, &mut WatchManager::default()).digest_mismatch, None, "only suspected");
    apply(&mut exact, &third);
    third.digest = Some(TxnDigest { version: 2, tree_digest: exact.digest() });
    assert_eq!(tree.clone().apply(&third, &mut WatchManager::default()).digest_mismatch, None, "settled");
    third.digest = Some(TxnDigest { version: 2, tree_digest: 778 });
    assert_eq!(tree.apply(&third, &mut WatchManager::default()).digest_mismatch, Some((778, exact.digest())));
}

#[test]
fn ephemerals_of_no_session_are_kept_and_named() {
    let mut image = read_out(&grown());
    image.head.sessions.clear();
    let copy = read_in(&image, 401).unwrap();
    assert!(copy.ephemerals_count() > 0);
    assert_eq!(copy.orphan_ephemerals().count(), copy.ephemerals_count());
    assert_eq!(grown().orphan_ephemerals().count(), 0);
}

#[test]
fn sessions_come_and_go_and_say_so() {
    let mut tree = DataTree::new();
    let open = logged(1, OpCode::CreateSession, Txn::CreateSession { timeout_ms: 4000 });
    let applied = tree.apply(&open, &mut WatchManager::default());
    assert_eq!(applied.session, Some(SessionChange::Created { session: SessionId(7), timeout_ms: 4000 }));
    assert_eq!(applied.response, Response::Empty);
    apply(&mut tree, &create(2, "/e", Vec::new(), true));
    let close = logged(3, OpCode::CloseSession, Txn::CloseSession { paths: Some(vec!["/e".into()]) });
    let applied = tree.apply(&close, &mut WatchManager::default());
    assert_eq!(applied.session, Some(SessionChange::Closed { session: SessionId(7) }));
    assert!(tree.node("/e").is_none() && tree.sessions().len() == 0 && tree.ephemerals_count() == 0);
}

#[test]
#[should_panic(expected = "offered to a tree")]
fn a_transaction_is_never_applied_twice() {
    let mut tree = grown();
    apply(&mut tree, &set(401, "/p", "again"));
}

#[test]
#[should_panic(expected = "cannot go back")]
fn the_last_processed_zxid_never_goes_back() {
    grown().advance_to(Zxid(400));
}

#[test]
fn what_is_no_absolute_path_is_never_created() {
    let mut tree = grown();
    let digest = tree.digest();
    assert_eq!(apply(&mut tree, &create(402, "relative", Vec::new(), false)), -101);
    assert_eq!(apply(&mut tree, &create(403, "/", Vec::new(), false)), -110);
    assert_eq!(apply(&mut tree, &delete(404, "/")), -101);
    assert_eq!(tree.node_count(), grown().node_count());
    assert_eq!(tree.digest(), digest);
}

#[test]
fn digests_are_remembered_at_round_zxids_and_only_so_many() {
    let mut tree = grown();
    assert_eq!(tree.digest_log().iter().map(|(zxid, _)| zxid.0).collect::<Vec<_>>(), [128, 256, 384]);
    for n in 0..1030 {
        apply(&mut tree, &set(512 + n * 128, "/p", "x"));
    }
    assert_eq!(tree.digest_log().iter().len(), 1024);
    assert_eq!(tree.digest_log().iter().last().unwrap(), (Zxid(512 + 1029 * 128), tree.digest()));
}

#[test]
fn data_is_kept_in_an_allocation_of_its_own() {
    let mut tree = grown();
    let packet = Bytes::from(vec![7; 4096]);
    let part = packet.slice(10..20);
    let txn = Txn::SetData { path: "/p".into(), data: Some(part.clone()), version: 9 };
    apply(&mut tree, &logged(402, OpCode::SetData, txn));
    let kept = tree.node("/p").unwrap().data().unwrap();
    assert_eq!(*kept, part);
    assert!(!packet.as_ptr_range().contains(&kept.as_ptr()));
}

#[test]
fn the_configuration_is_published_outside_the_digest_even_where_its_node_is_missing() {
    let mut tree = grown();
    apply(&mut tree, &delete(402, "/zookeeper/config"));
    let digest = tree.digest();
    tree.init_config(b"server.1=a", 0x1_0000_0000, 5);
    let node = tree.node("/zookeeper/config").unwrap();
    assert_eq!(&**node.data().unwrap(), b"server.1=a");
    assert_eq!((node.stat().version, node.mzxid()), (-1, 0x1_0000_0000));
    assert_eq!(tree.digest(), digest);
    assert!(tree.node("/zookeeper").unwrap().child_names().any(|name| name == "config"));
}

#[test]
fn the_depth_of_a_tree_costs_no_stack() {
    let deep = || {
        let mut tree = DataTree::new();
        let mut path = String::new();
        for n in 1..=3000 {
            path.push_str("/d");
            apply(&mut tree, &logged(n, OpCode::Create, bare(path.as_str().into())));
        }
        assert_eq!(tree.descendants("/d"), 2999);
        assert_eq!(read_in(&read_out(&tree), 3000).unwrap().first_difference(&tree), None);
    };
    let small = std::thread::Builder::new().stack_size(128 << 10).spawn(deep).unwrap();
    small.join().unwrap();
}

fn bare(path: Arc<str>) -> Txn {
    Txn::Create { path, data: None, acl: Vec::new(), ephemeral: false, parent_cversion: -1 }
}
