//! Tables of the small rules: paths, kinds of owners, ACLs, addresses, quota texts.

use std::sync::Arc;

use zk_core::config::Rules;
use zk_core::tree::path::{is_under, name, parent, sequential, validate_create_path, validate_path};
use zk_core::tree::{
    CONTAINER_OWNER, EphemeralType, MAX_TTL_MS, StatsTrack, check_acl, ip_matches, is_valid_ip, masked_acl,
};
use zk_jute::consts::perms;
use zk_jute::records::{Acl, Id};
use zk_jute::{ErrorCode, SessionId};

#[test]
fn paths_are_refused_with_the_reason_and_the_place_that_java_names() {
    let cases = [
        ("", "Path length must be > 0"),
        ("a", "Path must start with / character"),
        ("/a/", "Path must not end with / character"),
        ("//", "Path must not end with / character"),
        ("/a//b", "empty node name specified @3"),
        ("/./a", "relative paths not allowed @1"),
        ("/a/.", "relative paths not allowed @3"),
        ("/../a", "relative paths not allowed @2"),
        ("/a/..", "relative paths not allowed @4"),
        ("/a\0b", "null character not allowed @2"),
        ("/a\u{1}", "invalid character @2"),
        ("/a\u{1f}", "invalid character @2"),
        ("/a\u{7f}", "invalid character @2"),
        ("/a\u{9f}", "invalid character @2"),
        ("/\u{e000}", "invalid character @1"),
        ("/\u{fff0}", "invalid character @1"),
        ("/ab\u{1f600}", "invalid character @3"),
    ];
    for (path, reason) in cases {
        let error = validate_path(path).expect_err(path).to_string();
        assert!(error.contains(reason), "{path:?}: {error}");
    }
    for path in [
        "/",
        "/a",
        "/a/b",
        "/.a",
        "/a.",
        "/...",
        "/a..",
        "/..a",
        "/a/.../b",
        "/a b",
        "/\u{a0}",
        "/\u{d7ff}",
        "/\u{f900}",
    ] {
        assert_eq!(validate_path(path), Ok(()), "{path:?}");
    }
}

#[test]
fn a_sequential_path_is_checked_with_a_digit_at_its_end() {
    for path in ["/a/", "/", "/a", "/a/.", "/a/.."] {
        assert_eq!(validate_create_path(path, true), Ok(()), "{path:?}");
    }
    for path in ["/a//", "a", "/./"] {
        assert!(validate_create_path(path, true).is_err(), "{path:?}");
    }
    assert!(validate_create_path("/a/", false).is_err());
}

#[test]
fn parents_names_and_suffixes() {
    assert_eq!(parent("/a/b"), Some("/a"));
    assert_eq!(parent("/a"), Some("/"));
    assert_eq!(parent("/"), None);
    assert_eq!(parent("a"), None);
    assert_eq!(name("/a/b"), "b");
    assert!(is_under("/a/b", "/a") && is_under("/a", "/"));
    assert!(!is_under("/ab", "/a") && !is_under("/a", "/a"));
    assert_eq!(sequential("/q-", 7), Arc::from("/q-0000000007"));
    assert_eq!(sequential("/q-", -1), Arc::from("/q--000000001"));
    assert_eq!(sequential("/q-", i32::MIN), Arc::from("/q--2147483648"));
}

#[test]
fn owners_tell_sessions_containers_and_times_to_live_apart() {
    assert_eq!(EphemeralType::of(0), EphemeralType::Void);
    assert_eq!(EphemeralType::of(CONTAINER_OWNER), EphemeralType::Container);
    assert_eq!(
        EphemeralType::of(0x0100_0000_0000_0001),
        EphemeralType::Session(SessionId(0x0100_0000_0000_0001))
    );
    for ttl in [1, 5000, MAX_TTL_MS] {
        assert_eq!(EphemeralType::of(EphemeralType::ttl_owner(ttl).unwrap()), EphemeralType::Ttl(ttl));
    }
    assert_eq!([0, -1, MAX_TTL_MS + 1].map(EphemeralType::ttl_owner), [None; 3]);
    // A session of server 255 is not a TTL node.
    let session = (0xff << 56) | (0x0123_4567_89ab << 16);
    assert_eq!(EphemeralType::of(session), EphemeralType::Session(SessionId(session)));
}

#[test]
fn an_acl_permits_by_scheme_and_any_one_of_the_bits() {
    let digest = [entry(perms::READ, "digest", "u:h")];
    let ip = [entry(perms::ALL, "ip", "10.0.0.0/8")];
    let nobody: [Acl; 1] = [entry(0, "world", "anyone")];
    let cases: [(&[Acl], i32, &[Id], bool); 14] = [
        (&[], perms::ADMIN, &[], true),
        (&[entry(perms::READ, "world", "anyone")], perms::READ, &[], true),
        (&[entry(perms::READ, "world", "anyone")], perms::WRITE, &[], false),
        (&[entry(perms::READ, "world", "someone")], perms::READ, &[id("world", "someone")], false),
        (&digest, perms::READ, &[id("digest", "u:h")], true),
        (&digest, perms::READ | perms::ADMIN, &[id("digest", "u:h")], true),
        (&digest, perms::WRITE, &[id("digest", "u:h")], false),
        (&digest, perms::READ, &[id("digest", "u:x")], false),
        (&digest, perms::READ, &[id("x509", "u:h")], false),
        (&digest, perms::WRITE, &[id("super", "")], true),
        (&ip, perms::READ, &[id("ip", "10.9.8.7")], true),
        (&ip, perms::READ, &[id("ip", "11.9.8.7")], false),
        (&[entry(perms::READ, "sasl", "bob")], perms::READ, &[id("sasl", "super")], true),
        (&nobody, perms::READ, &[id("digest", "u:h")], false),
    ];
    for (at, (acl, perm, ids, wanted)) in cases.into_iter().enumerate() {
        let got = check_acl(acl, perm, ids, &Rules::default());
        assert_eq!(got, if wanted { Ok(()) } else { Err(ErrorCode::NoAuth) }, "case {at}");
        assert_eq!(check_acl(acl, perm, ids, &Rules { skip_acl: true, ..Rules::default() }), Ok(()));
    }
}

#[test]
fn password_hashes_are_shown_to_administrators_only() {
    let acl = [
        entry(perms::READ, "world", "anyone"),
        entry(perms::ADMIN, "digest", "u:h:z"),
        entry(1, "ip", "::1"),
    ];
    let rules = Rules::default();
    assert_eq!(masked_acl(&acl, &[id("digest", "u:h:z")], &rules), acl);
    let seen = masked_acl(&acl, &[], &rules);
    assert_eq!(seen[1], entry(perms::ADMIN, "digest", "u:x"));
    assert_eq!((&seen[0], &seen[2]), (&acl[0], &acl[2]));
}

#[test]
fn addresses_match_by_their_leading_bits() {
    let matching = [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.0/31"),
        ("1.2.3.4", "0.0.0.0/0"),
        ("255.128.0.1", "255.129.0.0/15"),
        ("2001:db8::1", "2001:db8::/32"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1", "::/0"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8/128"),
    ];
    for (address, expression) in matching {
        assert!(ip_matches(address, expression), "{address} {expression}");
    }
    let differing = [
        ("10.0.0.2", "10.0.0.1"),
        ("10.0.0.2", "10.0.0.0/31"),
        ("10.0.0.1", "::/0"),
        ("::1", "0.0.0.0/0"),
        ("2001:db9::1", "2001:db8::/32"),
        ("10.0.0.1", "10.0.0.1/33"),
        ("nonsense", "0.0.0.0/0"),
    ];
    for (address, expression) in differing {
        assert!(!ip_matches(address, expression), "{address} {expression}");
    }
}

#[test]
fn addresses_that_java_refuses_are_no_acl_ids() {
    for good in ["1.2.3.4", "1.2.3.4/0", "::", "::/128", "a:b:c:d:e:f:0:1", "1::8", "1:2:3:4:5:6:7::"] {
        assert!(is_valid_ip(good), "{good}");
    }
    let bad =
        ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.x", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/", "1::2::3"];
    let bad6 = [
        ":::",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "12345::",
        "1:2:3:4::5:6:7:8",
        "g::",
        "::/129",
        ":1:2:3:4:5:6:7",
    ];
    for bad in bad.iter().chain(&bad6) {
        assert!(!is_valid_ip(bad), "{bad}");
    }
}

#[test]
fn quota_texts_of_old_and_new_clients_are_read_and_written() {
    let cases = [
        ("", (-1, -1, -1, -1), "count=-1,bytes=-1"),
        ("count=5,bytes=10", (5, 10, -1, -1), "count=5,bytes=10"),
        (
            "count=5,bytes=10=;byteHardLimit=7;countHardLimit=8",
            (5, 10, 8, 7),
            "count=5,bytes=10=;byteHardLimit=7;countHardLimit=8",
        ),
        ("bytes=3;count=4", (4, 3, -1, -1), "count=4,bytes=3"),
        ("count=5,,bytes=6,", (5, 6, -1, -1), "count=5,bytes=6"),
    ];
    for (text, numbers, written) in cases {
        let track = StatsTrack::parse(Some(text.as_bytes())).expect(text);
        let got = (track.count(), track.bytes(), track.count_hard_limit(), track.byte_hard_limit());
        assert_eq!(got, numbers, "{text}");
        assert_eq!(track.to_string(), written);
    }
    for bad in ["count", "count=", "count=x", ",count=1", "=1x"] {
        assert!(StatsTrack::parse(Some(bad.as_bytes())).is_err(), "{bad}");
    }
}

fn id(scheme: &str, id: &str) -> Id {
    Id { scheme: scheme.into(), id: id.into() }
}

fn entry(perms: i32, scheme: &str, id: &str) -> Acl {
    Acl { perms, id: Id { scheme: scheme.into(), id: id.into() } }
}
