//! `auth` packets and containers.

mod prep_support;

use std::net::IpAddr;

use prep_support::*;
use zk_core::config::Rules;
use zk_core::pipeline::auth::{authenticate, digest_id, host_address, ip_id};
use zk_core::pipeline::containers::{ContainerManager, delete_request};
use zk_jute::records::Acl;
use zk_jute::{ErrorCode, OpCode};

const SUPER: &str = "super:UdxDQl4f9v5oITwcAsO9bmWgHSI=";

fn peer() -> IpAddr {
    "10.1.2.3".parse().expect("an address")
}

#[test]
fn a_digest_is_user_and_hash_as_upstream_computes_it() {
    // SHA-1 and base64 by other tools.
    assert_eq!(digest_id("super:super"), "super:gG7s8t3oDEtIqF6DM9LlI/R+9Ss=");
    let ids = authenticate("digest", b"super:super", peer(), None);
    assert_eq!(ids, Ok(vec![id("digest", "super:gG7s8t3oDEtIqF6DM9LlI/R+9Ss=")]));
}

#[test]
fn the_super_digest_grants_super_beside_the_digest_itself() {
    let digest = digest_id("super:secret");
    let ids = authenticate("digest", b"super:secret", peer(), Some(&digest));
    assert_eq!(ids, Ok(vec![id("super", ""), id("digest", &digest)]));
    let ids = authenticate("digest", b"super:secret", peer(), Some(SUPER)).expect("digest always succeeds");
    assert_eq!(ids.len(), 1);
}

#[test]
fn an_unknown_scheme_fails() {
    for scheme in ["world", "auth", "super", "sasl", "x509", "", "Digest"] {
        assert_eq!(authenticate(scheme, b"x", peer(), None), Err(ErrorCode::AuthFailed), "{scheme}");
    }
    assert_eq!(authenticate("ip", b"", peer(), None), Ok(vec![id("ip", "10.1.2.3")]));
}

#[test]
fn addresses_are_written_as_java_writes_them() {
    let cases =
        [("::1", "0:0:0:0:0:0:0:1"), ("2001:db8::a", "2001:db8:0:0:0:0:0:a"), ("::ffff:1.2.3.4", "1.2.3.4")];
    for (address, text) in cases {
        assert_eq!(host_address(address.parse().expect("an address")), text);
    }
    assert_eq!(ip_id(peer()), id("ip", "10.1.2.3"));
}

#[test]
fn containers_and_ttl_nodes_become_due_in_batches() {
    let mut leader = Leader::new();
    let container = |path: &str| create_as(OpCode::CreateContainer, path, 4, Some(vec![Acl::open()]));
    leader.ok(&container("/unused"));
    leader.ok(&container("/busy"));
    leader.ok(&create("/busy/child"));
    for n in 0..20 {
        leader.ok(&container(&format!("/c{n:02}")));
        leader.ok(&create(&format!("/c{n:02}/x")));
        leader.ok(&delete(&format!("/c{n:02}/x"), -1));
    }
    leader.ok(&create_ttl("/ttl", 5, 30_000));
    leader.ok(&create_ttl("/ttl-later", 5, 120_000));
    let mut manager = ContainerManager::new(&Rules::default(), leader.now);
    assert_eq!(manager.due(&leader.tree, leader.now), Vec::<std::sync::Arc<str>>::new());
    leader.now.mono = manager.next_deadline();
    leader.now.wall_ms += 60_000;
    // 10000 a minute are 16 in 100 ms.
    let first = manager.due(&leader.tree, leader.now);
    assert_eq!(first.len(), 16);
    assert_eq!(manager.due(&leader.tree, leader.now).len(), 0);
    leader.now.mono = manager.next_deadline();
    let rest = manager.due(&leader.tree, leader.now);
    assert_eq!(rest.last().map(|path| &**path), Some("/ttl"));
    for path in first.iter().chain(&rest) {
        let request = delete_request(path, ME);
        leader.session = request.session;
        leader.ask_raw(request.op, request.body);
    }
    assert!(leader.commit_all().iter().all(|applied| applied.err == 0));
    for kept in ["/unused", "/busy/child", "/ttl-later"] {
        assert!(leader.tree.node(kept).is_some(), "{kept}");
    }
    assert_eq!(leader.tree.containers().count(), 2);
}

#[test]
fn a_container_that_was_never_used_goes_only_if_a_time_is_set() {
    let mut leader = Leader::new();
    leader.ok(&create_as(OpCode::CreateContainer, "/unused", 4, Some(vec![Acl::open()])));
    for (limit, expected) in [(0, 0), (50_000, 1), (70_000, 0)] {
        let rules = Rules { container_max_never_used_ms: limit, ..Rules::default() };
        let mut manager = ContainerManager::new(&rules, leader.now);
        let mut later = leader.now;
        later.mono = manager.next_deadline();
        later.wall_ms += 60_000;
        assert_eq!(manager.due(&leader.tree, later).len(), expected, "{limit}");
    }
}
