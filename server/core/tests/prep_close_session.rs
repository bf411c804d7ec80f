//! Closing sessions: whose nodes go, and in transactions of which size (ZOOKEEPER-4306).

mod prep_support;

use prep_support::*;
use zk_core::config::Rules;
use zk_core::pipeline::SPLIT_CXID;
use zk_jute::request::Request;
use zk_jute::txn::Txn;
use zk_jute::{ErrorCode, OpCode};

fn listed(txn: &Txn) -> Vec<String> {
    let Txn::CloseSession { paths: Some(paths) } = txn else { panic!("a list was expected: {txn:?}") };
    paths.iter().map(ToString::to_string).collect()
}

#[test]
fn a_closed_session_takes_its_ephemerals_along_outstanding_ones_included() {
    let mut leader = Leader::new();
    leader.ok(&create("/dir"));
    for path in ["/dir/a", "/dir/b", "/c"] {
        leader.ok(&create_flags(path, 1));
    }
    leader.session = OTHER;
    leader.ok(&create_flags("/other", 1));
    leader.session = SESSION;
    leader.ask(&delete("/c", -1));
    leader.ask(&create_flags("/d", 1));
    leader.ask(&create("/e"));
    let close = leader.ask(&Request::CloseSession);
    assert_eq!(listed(&close.txn), ["/d", "/dir/a", "/dir/b"]);
    // The nodes count as gone at once.
    leader.session = OTHER;
    assert_eq!(leader.code(&delete("/dir", -1)), 0);
    assert_eq!(leader.code(&delete("/d", -1)), n(ErrorCode::NoNode));
    leader.commit_all();
    assert_eq!(leader.tree.ephemerals_of(SESSION).count(), 0);
    assert_eq!(leader.tree.ephemerals_of(OTHER).count(), 1);
    assert_eq!(leader.tree.session_timeout(SESSION), None);
}

#[test]
fn a_path_that_changed_hands_stays_with_its_new_owner() {
    let mut leader = Leader::new();
    leader.ok(&create_flags("/x", 1));
    leader.ask(&delete("/x", -1));
    leader.session = OTHER;
    leader.ask(&create_flags("/x", 1));
    leader.session = SESSION;
    let close = leader.ask(&Request::CloseSession);
    assert_eq!(listed(&close.txn), Vec::<String>::new());
    leader.commit_all();
    assert_eq!(leader.tree.node("/x").expect("it stays").stat().ephemeral_owner, OTHER.0);
}

#[test]
fn without_the_list_the_digest_still_agrees() {
    let mut leader = Leader::with_rules(Rules { close_session_txn: false, ..Rules::default() });
    leader.ok(&create_flags("/x", 1));
    let close = leader.ask(&Request::CloseSession);
    assert_eq!(close.txn, Txn::CloseSession { paths: None });
    leader.commit_all();
    assert!(leader.tree.node("/x").is_none());
}

#[test]
fn closing_twice_is_harmless() {
    let mut leader = Leader::new();
    leader.ok(&create_flags("/x", 1));
    leader.ask(&Request::CloseSession);
    let again = leader.ask(&Request::CloseSession);
    assert_eq!(listed(&again.txn), Vec::<String>::new());
    leader.commit_all();
}

/// With upstream this one `closeSession` stops every member, and again at every start.
#[test]
fn the_ephemerals_of_a_huge_session_go_in_transactions_that_each_fit() {
    let max_buffer = 1024;
    let mut leader = Leader::with_rules(Rules { max_buffer, ..Rules::default() });
    leader.ok(&create("/dir"));
    let count = 500;
    for n in 0..count {
        leader.ok(&create_flags(&format!("/dir/ephemeral-node-{n:04}"), 1));
    }
    let txns = leader.ask_many(&Request::CloseSession);
    assert!(txns.len() > 10, "{} transactions", txns.len());
    for txn in &txns {
        assert!(txn.bytes.len() <= max_buffer, "{} bytes", txn.bytes.len());
        assert_eq!(txn.header.client_id, SESSION.0);
        assert!(txn.digest.is_some());
    }
    let (close, deletes) = txns.split_last().expect("there are many");
    assert_eq!((close.header.op, close.header.cxid), (OpCode::CloseSession as i32, 7));
    assert!(deletes.iter().all(|txn| (txn.header.op, txn.header.cxid) == (OpCode::Multi as i32, SPLIT_CXID)));
    // Every transaction but the last few uses the room it has.
    assert!(deletes.iter().all(|txn| txn.bytes.len() > max_buffer / 2));
    leader.commit_all();
    assert_eq!(leader.tree.node("/dir").expect("the parent stays").num_children(), 0);
    assert_eq!(leader.tree.ephemerals_count(), 0);
    assert_eq!(leader.tree.session_timeout(SESSION), None);
}

#[test]
fn a_path_longer_than_the_limit_still_goes() {
    let max_buffer = 256;
    let mut leader = Leader::with_rules(Rules { max_buffer, ..Rules::default() });
    for n in 0..3 {
        leader.ok(&create_flags(&format!("/{}{n}", "x".repeat(300)), 1));
    }
    let txns = leader.ask_many(&Request::CloseSession);
    assert_eq!(txns.len(), 3);
    leader.commit_all();
    assert_eq!(leader.tree.ephemerals_count(), 0);
}
