//! The admin port and the metrics port of a real member, beyond the shapes that upstream has too.

mod common;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use common::client::{admin, http_get, raw_exchange, word};
use common::process::{LIMIT, Member, eventually, free_port};
use serde_json::Value;

fn member(extra: &str) -> (tempfile::TempDir, Member) {
    let dir = tempfile::tempdir().expect("directory");
    let member = Member::new(dir.path(), extra);
    (dir, member)
}

fn status_and_body(port: u16, method: &str, path: &str) -> (String, String) {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    let answer = String::from_utf8(raw_exchange(port, request.as_bytes()).expect("answer")).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[test]
fn member_tells_every_field_with_the_epochs_and_the_disk_read_anew() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/a", b"x").expect("create");
    let facts = member.facts().expect("facts");
    let fields = "accepted_epoch accepted_epoch_disk boot_id clean_marker client_port command config_version connections \
                  current_epoch current_epoch_disk digest_mismatches digests disk_free_bytes disk_full disk_total_bytes \
                  draining epoch_files_error error inodes_free leader_id my_id observers outstanding role sessions \
                  sync_queue_depth synced synced_observers synced_voters uptime_ms version voters zxid_applied \
                  zxid_committed zxid_logged";
    let found: Vec<&str> = facts.as_object().expect("object").keys().map(String::as_str).collect();
    assert_eq!(found, fields.split_whitespace().collect::<Vec<_>>());
    assert_eq!(
        (&facts["command"], &facts["error"], &facts["role"]),
        (&"member".into(), &Value::Null, &"standalone".into())
    );
    assert_eq!(facts["client_port"], member.client_port);
    assert_eq!((&facts["zxid_logged"], &facts["zxid_applied"]), (&"0x2".into(), &"0x2".into()));
    let newest = facts["digests"].as_array().and_then(|digests| digests.last()).expect("a digest");
    assert_eq!((&newest["zxid"], &newest["version"]), (&"0x2".into(), &2.into()));
    assert!(facts["disk_total_bytes"].as_u64() >= facts["disk_free_bytes"].as_u64());

    std::fs::write(member.data().join("version-2/currentEpoch"), "no number").expect("write");
    std::fs::write(member.data().join("version-2/acceptedEpoch"), "7").expect("write");
    let facts = member.facts().expect("facts");
    assert_eq!((&facts["accepted_epoch_disk"], &facts["current_epoch_disk"]), (&7.into(), &Value::Null));
    assert!(
        facts["epoch_files_error"].as_str().is_some_and(|error| error.contains("currentEpoch")),
        "{facts:#}"
    );
}

#[test]
fn commands_are_listed_and_what_cannot_be_done_is_refused_in_words() {
    let (_dir, mut member) = member("");
    let _client = member.start();
    let (status, page) = status_and_body(member.admin_port, "GET", "/commands");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for name in ["configuration", "member", "restore", "snapshot", "zabstate"] {
        assert!(
            page.contains(&format!("<a href=\"/commands/{name}\">{name}</a>\n<br/>\n")),
            "{name}: {page}"
        );
    }
    for (method, path) in [("GET", "/commands/snapshot?streaming=true"), ("POST", "/commands/restore")] {
        let (status, body) = status_and_body(member.admin_port, method, path);
        assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
        assert!(body.contains("not supported"), "{body}");
    }
    let unknown = admin(member.admin_port, "/commands/nosuch").expect("answer");
    assert_eq!(unknown, serde_json::json!({ "command": "nosuch", "error": "Unknown command: nosuch" }));
    let set = admin(member.admin_port, "/commands/stmk?traceMask=5").expect("answer");
    assert_eq!((&set["command"], &set["tracemask"]), (&"set_trace_mask".into(), &5.into()));
    assert_eq!(word(member.client_port, "gtmk"), "5");
}

#[test]
fn a_word_that_is_not_on_the_whitelist_is_refused_and_srvr_never_is() {
    let (_dir, mut member) = member("4lw.commands.whitelist=ruok");
    let _client = member.start();
    assert_eq!(word(member.client_port, "ruok"), "imok");
    assert_eq!(
        word(member.client_port, "mntr"),
        "mntr is not executed because it is not in the whitelist.\n"
    );
    assert!(word(member.client_port, "srvr").contains("\nMode: standalone\n"));
}

/// Samples by name with labels; every line must be well formed.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect(line);
        (name.to_owned(), value.parse::<f64>().expect(line))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

#[test]
fn metrics_count_under_exact_names_on_the_admin_port_and_on_the_port_of_the_provider() {
    let port = free_port();
    let provider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let extra = format!(
        "metricsProvider.className={provider}\nmetricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort={port}"
    );
    let (_dir, mut member) = member(&extra);
    let mut client = member.start();
    client.create("/a", b"x").expect("create");
    for _ in 0..10 {
        client.set("/a", b"y").expect("set");
        client.get("/a").expect("get");
    }
    client.sync("/a").expect("sync");
    member.client().close().expect("close");
    drop(member.client());
    // One that goes without a word is told apart from one that closes its session.
    let counted = || samples(&http_get(port, "/metrics").expect("metrics"))["connection_drop_count"];
    eventually("the connection is dropped", || counted() > 0.0);
    let found = samples(&http_get(port, "/metrics").expect("metrics"));
    let value = |name: &str| *found.get(name).unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!(
        (value("commit_count"), value("proposal_count"), value("learner_commit_received_count")),
        (0.0, 0.0, 0.0),
        "nobody leads here"
    );
    assert_eq!(
        (value("znode_count"), value("num_alive_connections"), value("global_sessions")),
        (6.0, 1.0, 2.0)
    );
    assert!(value("fsynctime_count") >= 1.0 && value("bytes_received_count") > 100.0);
    // Ten reads and the sync, which upstream counts there; ten changes, a node and the end of a session.
    assert_eq!(value("readlatency_count"), 11.0);
    assert_eq!(value("updatelatency_count"), 12.0);
    assert_eq!((value("connection_request_count"), value("connection_drop_count")), (3.0, 1.0));
    assert!(
        found.contains_key("updatelatency{quantile=\"0.99\"}")
            && !found.contains_key("fsynctime{quantile=\"0.99\"}")
    );
    assert!(value("process_resident_memory_bytes") > 1e6);
    let on_admin_port = samples(&http_get(member.admin_port, "/metrics").expect("metrics"));
    assert!(on_admin_port.keys().eq(found.keys()));
}

/// Fault: connections that ask nothing, or half a question, were kept for ever and without number.
#[test]
fn idle_connections_and_half_requests_make_room_for_others() {
    let (_dir, mut member) = member("admin.idleTimeout=200");
    let _client = member.start();
    let open = || TcpStream::connect(("127.0.0.1", member.admin_port)).expect("connect");
    let mut held: Vec<TcpStream> = (0..200).map(|_| open()).collect();
    for half in held.iter_mut().step_by(2) {
        half.write_all(b"GET /commands/ruok HTTP/1.1\r\nHost").expect("write");
    }
    assert!(admin(member.admin_port, "/commands/ruok").is_ok(), "one more is answered");
    for mut stream in held {
        stream.set_read_timeout(Some(LIMIT)).expect("limit");
        // An answer that says so, or nothing, and then the end.
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "it is closed"),
        }
    }
}
