//! Which code a write fails with, in upstream's order of checks.

mod prep_support;

use bytes::Bytes;
use prep_support::*;
use zk_core::config::Rules;
use zk_jute::consts::perms;
use zk_jute::records::Acl;
use zk_jute::request::Request;
use zk_jute::txn::Txn;
use zk_jute::{ErrorCode, OpCode, SessionId};

/// "/a" has a child, "/locked" is closed to everybody, "/e" is ephemeral.
fn leader() -> Leader {
    let mut leader = Leader::new();
    leader.ok(&create("/a"));
    leader.ok(&create("/a/b"));
    leader.ok(&create_flags("/e", 1));
    leader.ok(&create_as(OpCode::Create, "/locked", 0, Some(vec![acl(perms::ADMIN, "ip", "1.2.3.4")])));
    leader
}

#[test]
fn a_failed_write_becomes_an_error_transaction_that_takes_a_zxid() {
    let mut leader = leader();
    let zxid = leader.next;
    let txn = leader.ask(&delete("/missing", -1));
    assert_eq!(txn.header.zxid, zxid);
    assert_eq!((txn.header.op, txn.header.cxid), (OpCode::Error as i32, 7));
    assert_eq!(txn.txn, Txn::Error { err: ErrorCode::NoNode as i32 });
    assert_eq!(txn.digest, None);
    assert_eq!(leader.commit_all()[0].err, n(ErrorCode::NoNode));
}

#[test]
fn creates_fail_with_upstreams_codes() {
    let bad_acl = || Some(vec![acl(perms::ALL, "nonsense", "x")]);
    let cases: Vec<(Request, ErrorCode)> = vec![
        (create_flags("/x", 7), ErrorCode::BadArguments),
        (create_flags("/x", -1), ErrorCode::BadArguments),
        (create_ttl("/x", 5, 0), ErrorCode::BadArguments),
        (create_ttl("/x", 5, 1 << 40), ErrorCode::BadArguments),
        (create_ttl("/x", 0, 5), ErrorCode::BadArguments),
        (create_ttl("/x", 0, -1), ErrorCode::BadArguments),
        (create_flags("/x", 5), ErrorCode::BadArguments),
        (create("x"), ErrorCode::BadArguments),
        (create("/x\0y"), ErrorCode::BadArguments),
        (create("/a/"), ErrorCode::BadArguments),
        (create("/a//x"), ErrorCode::NoNode),
        (create("/a/."), ErrorCode::BadArguments),
        (create("/a/.."), ErrorCode::BadArguments),
        (create("/a/\u{1}"), ErrorCode::BadArguments),
        (create("/a/\u{1f600}"), ErrorCode::BadArguments),
        (create("/missing/x"), ErrorCode::NoNode),
        (create("/a"), ErrorCode::NodeExists),
        (create("/"), ErrorCode::NodeExists),
        (create("/e/x"), ErrorCode::NoChildrenForEphemerals),
        (create("/locked/x"), ErrorCode::NoAuth),
        (create_as(OpCode::Create, "/x", 0, None), ErrorCode::InvalidAcl),
        (create_as(OpCode::Create, "/x", 0, Some(vec![])), ErrorCode::InvalidAcl),
        (create_as(OpCode::Create2, "/x", 0, bad_acl()), ErrorCode::InvalidAcl),
        // What is checked first decides.
        (create_as(OpCode::Create, "x", 0, bad_acl()), ErrorCode::BadArguments),
        (create_as(OpCode::Create, "/missing/x", 0, bad_acl()), ErrorCode::InvalidAcl),
        (create_as(OpCode::Create, "/locked/..", 0, bad_acl()), ErrorCode::InvalidAcl),
        (create("/locked/.."), ErrorCode::NoAuth),
        (create("/e/.."), ErrorCode::BadArguments),
    ];
    for (request, code) in cases {
        let mut leader = leader();
        assert_eq!(leader.code(&request), n(code), "{request:?}");
        assert_eq!(leader.prep.outstanding_changes(), 0, "a failed write must leave nothing behind");
    }
}

#[test]
fn a_ttl_is_unimplemented_unless_extended_types_are_enabled() {
    let mut leader = Leader::with_rules(Rules::default());
    assert_eq!(leader.code(&create_ttl("/x", 5, 1000)), n(ErrorCode::Unimplemented));
    // Even before the session is looked at.
    leader.session = STRANGER;
    assert_eq!(leader.code(&create_ttl("/x", 6, 1000)), n(ErrorCode::Unimplemented));
    assert_eq!(leader.code(&create("/x")), n(ErrorCode::SessionExpired));
}

#[test]
fn other_writes_fail_with_upstreams_codes() {
    let cases: Vec<(Request, ErrorCode)> = vec![
        (delete("/a", -1), ErrorCode::NotEmpty),
        (delete("/a", 5), ErrorCode::BadVersion),
        (delete("/missing", -1), ErrorCode::NoNode),
        (delete("/missing/x", -1), ErrorCode::NoNode),
        (delete("/locked/x", -1), ErrorCode::NoAuth),
        (delete("x", -1), ErrorCode::BadArguments),
        (delete("/", -1), ErrorCode::BadArguments),
        (delete("/zookeeper", -1), ErrorCode::BadArguments),
        (delete("/zookeeper/quota", -1), ErrorCode::BadArguments),
        (delete("/zookeeper/config", -1), ErrorCode::BadArguments),
        (set_data("/a", b"x", 3), ErrorCode::BadVersion),
        (set_data("/missing", b"x", -1), ErrorCode::NoNode),
        (set_data("/locked", b"x", 3), ErrorCode::NoAuth),
        (set_data("a", b"x", -1), ErrorCode::BadArguments),
        (set_data("/a/", b"x", -1), ErrorCode::BadArguments),
        (set_data("/zookeeper/config", b"x", -1), ErrorCode::NoAuth),
        (set_acl("/a", vec![], -1), ErrorCode::InvalidAcl),
        (set_acl("/missing", vec![], -1), ErrorCode::InvalidAcl),
        (set_acl("/missing", vec![Acl::open()], -1), ErrorCode::NoNode),
        (set_acl("/locked", vec![Acl::open()], 9), ErrorCode::NoAuth),
        (set_acl("/a", vec![Acl::open()], 9), ErrorCode::BadVersion),
        (set_acl("a", vec![], -1), ErrorCode::BadArguments),
        (check("/a", 0), ErrorCode::Unimplemented),
        (Request::GetData { path: "/a".into(), watch: false }, ErrorCode::Unimplemented),
        (Request::DeleteContainer { path: "/a/b".into() }, ErrorCode::Unimplemented),
        (
            Request::Reconfig { joining: None, leaving: None, new_members: None, config_id: -1 },
            ErrorCode::ReconfigDisabled,
        ),
    ];
    for (request, code) in cases {
        assert_eq!(leader().code(&request), n(code), "{request:?}");
    }
}

#[test]
fn the_session_is_checked_before_the_path() {
    for request in [create("x"), delete("x", -1), set_data("x", b"", -1), set_acl("x", vec![], -1)] {
        let mut leader = leader();
        leader.session = STRANGER;
        assert_eq!(leader.code(&request), n(ErrorCode::SessionExpired), "{request:?}");
    }
    // But not before the flags of a create.
    let mut leader = leader();
    leader.session = STRANGER;
    assert_eq!(leader.code(&create_flags("/x", 9)), n(ErrorCode::BadArguments));
}

#[test]
fn a_session_that_moved_may_not_write_here() {
    let mut leader = leader();
    leader.sessions.set_owner(SESSION, zk_jute::ServerId(2)).expect("the session is open");
    assert_eq!(leader.code(&create("/x")), n(ErrorCode::SessionMoved));
    let multi = leader.ask(&Request::Multi(vec![check("/a", 0), create("/x")]));
    assert_eq!(
        multi_codes(&multi),
        Some(vec![n(ErrorCode::SessionMoved), n(ErrorCode::RuntimeInconsistency)])
    );
}

#[test]
fn a_session_that_is_closing_may_not_write() {
    let mut leader = leader();
    leader.ask(&Request::CloseSession);
    assert_eq!(leader.code(&create("/x")), n(ErrorCode::SessionExpired));
}

#[test]
fn bodies_that_make_no_sense_and_unknown_operations_are_errors_too() {
    let mut leader = leader();
    let marshalling = Txn::Error { err: n(ErrorCode::MarshallingError) };
    for op in [OpCode::Create, OpCode::Delete, OpCode::Multi, OpCode::SetData, OpCode::CreateSession] {
        let txns = leader.ask_raw(op as i32, Bytes::from_static(b"\x00\x00"));
        assert_eq!(txns.len(), 1);
        assert_eq!(txns[0].txn, marshalling, "{op:?}");
    }
    for op in [12345, 0, -1, OpCode::Exists as i32] {
        let txns = leader.ask_raw(op, Bytes::from_static(b"\0\0\0\x02/a\0"));
        assert!(matches!(txns[0].txn, Txn::Error { .. }), "{op}");
    }
}

#[test]
fn requests_are_checked_against_what_is_outstanding() {
    let mut leader = leader();
    leader.ask(&create("/x"));
    assert_eq!(leader.code(&create("/x/y")), 0);
    assert_eq!(leader.code(&create("/x")), n(ErrorCode::NodeExists));
    assert_eq!(leader.code(&delete("/x", -1)), n(ErrorCode::NotEmpty));
    assert_eq!(leader.code(&set_data("/x", b"1", 0)), 0);
    assert_eq!(leader.code(&set_data("/x", b"2", 0)), n(ErrorCode::BadVersion));
    assert_eq!(leader.code(&delete("/x/y", -1)), 0);
    assert_eq!(leader.code(&delete("/x/y", -1)), n(ErrorCode::NoNode));
    assert_eq!(leader.code(&set_acl("/x", vec![acl(perms::READ, "world", "anyone")], 0)), 0);
    assert_eq!(leader.code(&set_data("/x", b"3", -1)), n(ErrorCode::NoAuth));
    assert_eq!(leader.code(&delete("/x", 1)), 0);
    assert_eq!(leader.code(&create("/x")), 0);
    let applied = leader.commit_all();
    let failed = applied.iter().filter(|applied| applied.err != 0).count();
    assert_eq!(failed, 5);
    assert_eq!(leader.tree.node("/x").expect("it was created again").stat().version, 0);
    assert_eq!(leader.prep.outstanding_changes(), 0);
}

#[test]
fn sequential_names_count_the_children_ever_created() {
    let mut leader = leader();
    let mut names = Vec::new();
    for flags in [2, 3, 2] {
        names.push(path_of(&leader.ask(&create_flags("/a/n-", flags))).to_string());
    }
    leader.ask(&delete("/a/n-0000000001", -1));
    // A path that ends in a slash is fine: the number becomes the name.
    names.push(path_of(&leader.ask(&create_flags("/a/", 2))).to_string());
    assert_eq!(names, ["/a/n-0000000001", "/a/n-0000000002", "/a/n-0000000003", "/a/0000000004"]);
    leader.commit_all();
}

#[test]
fn the_kind_of_request_and_its_flags_decide_the_kind_of_node() {
    let mut leader = Leader::new();
    leader.ok(&create_as(OpCode::CreateContainer, "/container", 4, Some(vec![Acl::open()])));
    leader.ok(&create_ttl("/ttl", 5, 60_000));
    leader.ok(&create_flags("/flag", 4));
    leader.ok(&create_flags("/ephemeral", 1));
    let owner = |path: &str| leader.tree.node(path).expect("it exists").stat().ephemeral_owner;
    assert_eq!(owner("/container"), i64::MIN);
    assert_eq!(owner("/ttl"), 0xff00_0000_0000_ea60_u64 as i64);
    assert_eq!(owner("/flag"), 0);
    assert_eq!(owner("/ephemeral"), SESSION.0);
}

#[test]
fn auth_in_an_acl_becomes_the_callers_identities() {
    let mut leader = Leader::new();
    let auth = || {
        Some(vec![
            acl(perms::ALL, "auth", ""),
            acl(perms::ALL, "auth", ""),
            acl(perms::READ, "world", "anyone"),
        ])
    };
    leader.auth = vec![id("ip", "10.0.0.1")];
    assert_eq!(leader.code(&create_as(OpCode::Create, "/x", 0, auth())), n(ErrorCode::InvalidAcl));
    leader.auth = vec![id("ip", "10.0.0.1"), id("super", ""), id("digest", "u:x"), id("digest", "v:y")];
    let Txn::Create { acl: fixed, .. } = leader.ask(&create_as(OpCode::Create, "/x", 0, auth())).txn else {
        panic!("a create was expected")
    };
    let expected = [
        acl(perms::ALL, "digest", "u:x"),
        acl(perms::ALL, "digest", "v:y"),
        acl(perms::READ, "world", "anyone"),
    ];
    assert_eq!(fixed, expected);
}

#[test]
fn only_valid_identities_may_stand_in_an_acl() {
    let cases = [
        ("world", "anyone", true),
        ("world", "me", false),
        ("digest", "user:hash", true),
        ("digest", "user", false),
        ("digest", "user:", false),
        ("digest", "a:b:c", false),
        ("ip", "10.0.0.0/8", true),
        ("ip", "10.0.0", false),
        ("ip", "10.0.0.0/33", false),
        ("ip", "2001:db8::/32", true),
        ("ip", "2001:db8::/129", false),
        ("super", "", false),
        ("sasl", "me", false),
        ("", "", false),
    ];
    for (scheme, value, valid) in cases {
        let request = create_as(OpCode::Create, "/x", 0, Some(vec![acl(perms::ALL, scheme, value)]));
        let expected = if valid { 0 } else { n(ErrorCode::InvalidAcl) };
        assert_eq!(Leader::new().code(&request), expected, "{scheme}:{value}");
    }
}

#[test]
fn super_and_skip_acl_pass_every_acl() {
    let mut leader = leader();
    leader.auth = vec![id("super", "")];
    assert_eq!(leader.code(&set_data("/locked", b"x", 0)), 0);
    let mut open = Leader::with_rules(Rules { skip_acl: true, ..Rules::default() });
    open.ok(&create_as(OpCode::Create, "/locked", 0, Some(vec![acl(perms::ADMIN, "ip", "1.2.3.4")])));
    assert_eq!(open.code(&create("/locked/x")), 0);
}

#[test]
fn a_hard_quota_refuses_only_when_quotas_are_enforced() {
    for (enforce_quota, code) in [(true, n(ErrorCode::QuotaExceeded)), (false, 0)] {
        let mut leader = Leader::with_rules(Rules { enforce_quota, ..Rules::default() });
        leader.ok(&create("/q"));
        leader.ok(&create("/zookeeper/quota/q"));
        leader.ok(&create("/zookeeper/quota/q/zookeeper_limits"));
        leader.ok(&set_data(
            "/zookeeper/quota/q/zookeeper_limits",
            b"count=-1,bytes=-1=;countHardLimit=2;byteHardLimit=10",
            -1,
        ));
        leader.ok(&create("/zookeeper/quota/q/zookeeper_stats"));
        leader.ok(&create("/q/one"));
        assert_eq!(leader.code(&create("/q/two")), code);
        assert_eq!(leader.code(&set_data("/q", b"0123456789a", -1)), code);
        assert_eq!(leader.code(&set_data("/q", b"012345", -1)), 0);
    }
}

#[test]
fn only_the_server_deletes_containers_and_only_those_that_are_due() {
    let mut leader = Leader::new();
    leader.ok(&create_as(OpCode::CreateContainer, "/c", 4, Some(vec![Acl::open()])));
    leader.ok(&create("/c/child"));
    leader.ok(&create_ttl("/t", 5, 1000));
    leader.ok(&create("/p"));
    leader.ok(&create_flags("/e", 1));
    leader.session = SessionId(0);
    let mut code = |path: &str| leader.code(&Request::DeleteContainer { path: path.into() });
    assert_eq!(code("/c"), n(ErrorCode::NotEmpty));
    assert_eq!(code("/missing"), n(ErrorCode::NoNode));
    assert_eq!(code("/zookeeper"), n(ErrorCode::BadArguments));
    for kept in ["/t", "/p", "/e"] {
        assert_eq!(code(kept), n(ErrorCode::BadVersion), "{kept}");
    }
    leader.now.wall_ms += 1001;
    assert_eq!(leader.code(&Request::DeleteContainer { path: "/t".into() }), 0);
    leader.commit_all();
    assert!(leader.tree.node("/t").is_none());
}
