//! `multi`: all or nothing, and nothing that cannot be read back.

mod prep_support;

use prep_support::*;
use zk_core::config::Rules;
use zk_core::pipeline::txn_limit;
use zk_jute::consts::perms;
use zk_jute::request::Request;
use zk_jute::txn::Txn;
use zk_jute::{ErrorCode, OpCode};

#[test]
fn operations_of_a_multi_see_those_before_them() {
    let mut leader = Leader::new();
    let txn = leader.ask(&Request::Multi(vec![
        create("/a"),
        create_flags("/a/n-", 2),
        create_flags("/a/n-", 3),
        set_data("/a", b"x", 0),
        check("/a", 1),
        delete("/a/n-0000000000", -1),
    ]));
    assert_eq!(multi_codes(&txn), None);
    leader.commit_all();
    let node = leader.tree.node("/a").expect("it was created");
    assert_eq!((node.num_children(), node.stat().version, node.stat().cversion), (1, 1, 2));
}

#[test]
fn an_empty_multi_succeeds() {
    let mut leader = Leader::new();
    assert_eq!(leader.ask(&Request::Multi(Vec::new())).txn, Txn::Multi(Vec::new()));
    leader.commit_all();
}

#[test]
fn a_failed_multi_leaves_nothing_behind_and_names_the_culprit() {
    let mut leader = Leader::new();
    leader.ok(&create("/a"));
    leader.ask(&create_flags("/a/n-", 2));
    let digest = leader.ask(&set_data("/a", b"1", -1)).digest;
    let changes = leader.prep.outstanding_changes();
    let txn = leader.ask(&Request::Multi(vec![
        create_flags("/a/n-", 3),
        set_data("/a", b"2", -1),
        delete("/a/n-0000000000", -1),
        check("/a", 7),
        create("/never"),
        create("/a"),
    ]));
    let after = n(ErrorCode::RuntimeInconsistency);
    assert_eq!(multi_codes(&txn), Some(vec![0, 0, 0, n(ErrorCode::BadVersion), after, after]));
    assert_eq!(leader.prep.outstanding_changes(), changes);
    assert_eq!(txn.digest, digest, "nothing changes, so neither does the digest");
    // The number that the failed create had is free again, and the version too.
    assert_eq!(&*path_of(&leader.ask(&create_flags("/a/n-", 2))), "/a/n-0000000001");
    assert_eq!(leader.code(&set_data("/a", b"3", 1)), 0);
    assert_eq!(leader.code(&delete("/a/n-0000000000", -1)), 0);
    leader.commit_all();
    assert!(leader.tree.node("/never").is_none());
    assert_eq!(leader.tree.ephemerals_of(SESSION).count(), 0);
}

#[test]
fn a_rollback_restores_what_was_outstanding_before() {
    let mut leader = Leader::new();
    leader.ok(&create_flags("/e", 1));
    leader.ask(&delete("/e", -1));
    leader.ask(&Request::Multi(vec![
        create_flags("/e", 1),
        delete("/e", -1),
        create_flags("/f", 1),
        check("/none", 0),
    ]));
    assert_eq!(leader.code(&delete("/e", -1)), n(ErrorCode::NoNode));
    let close = leader.ask(&Request::CloseSession);
    assert_eq!(close.txn, Txn::CloseSession { paths: Some(Vec::new()) });
    leader.commit_all();
}

#[test]
fn reads_do_not_belong_in_a_multi() {
    let mut leader = Leader::new();
    let reads = vec![Request::GetData { path: "/".into(), watch: false }];
    let body = zk_jute::Writer::build(|w| Request::MultiRead(reads).encode(w));
    let txns = leader.ask_raw(OpCode::Multi as i32, body);
    assert_eq!(txns[0].txn, Txn::Error { err: n(ErrorCode::MarshallingError) });
}

/// A few bytes of request may ask for a long ACL each; upstream proposes the result and then nobody can read its log.
#[test]
fn a_multi_that_could_not_be_read_back_is_refused() {
    let max_buffer = 4096;
    let mut leader = Leader::with_rules(Rules { max_buffer, ..Rules::default() });
    leader.auth = (0..50).map(|n| id("digest", &format!("user{n}:0123456789012345678901234567"))).collect();
    let own =
        |n: usize| create_as(OpCode::Create, &format!("/n{n}"), 0, Some(vec![acl(perms::ALL, "auth", "")]));
    let small = leader.ask(&Request::Multi(vec![own(0)]));
    assert!(matches!(small.txn, Txn::Multi(_)) && small.bytes.len() <= txn_limit(max_buffer));
    let txn = leader.ask(&Request::Multi((1..50).map(own).collect()));
    assert_eq!(txn.txn, Txn::Error { err: n(ErrorCode::MarshallingError) });
    assert_eq!(leader.code(&create("/n1")), 0, "nothing of the refused multi remains");
    leader.commit_all();
}
