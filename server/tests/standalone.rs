//! One real server process: data, stopping, failing to start, odd clients.

mod common;

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use common::client::{Client, admin, create_request, http_get, raw_exchange, set_request, word};
use common::process::{LIMIT, Member, eventually, free_port, server};
use zk_jute::request::{Request, xid};
use zk_jute::{ErrorCode, OpCode};

fn member(extra: &str) -> (tempfile::TempDir, Member) {
    let dir = tempfile::tempdir().expect("directory");
    let member = Member::new(dir.path(), extra);
    (dir, member)
}

/// Runs a server that is expected to end by itself; exit code and log.
fn start_to_end(member: &mut Member) -> (Option<i32>, String) {
    member.spawn(&[]);
    let code = member.wait().code();
    (code, member.log())
}

#[test]
fn data_survives_a_clean_stop_and_a_kill() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/a", b"one").expect("create");
    client.set("/a", b"two").expect("set");
    assert_eq!(member.terminate(), Some(0), "{}", member.log());
    assert!(member.data().join("version-2/clean").exists(), "a clean stop leaves its marker");
    assert!(!member.data().join("zk-server.sock").exists(), "the socket goes with the server");

    let mut client = member.start();
    assert_eq!(client.get("/a").expect("get"), b"two");
    client.create("/b", b"three").expect("create");
    assert!(!member.data().join("version-2/clean").exists(), "a change removes the marker");
    member.kill();

    let mut client = member.start();
    assert_eq!(client.children("/").expect("children"), ["a", "b", "zookeeper"]);
    assert_eq!(client.get("/b").expect("get"), b"three");
}

#[test]
fn a_session_is_resumed_over_a_restart_and_its_ephemerals_stay() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create_ephemeral("/e").expect("create");
    let (session, password) = (client.session, client.password.clone());
    member.terminate();
    member.start();
    let wrong = vec![7; 16].into();
    assert!(Client::resume(member.client_port, session, wrong, 0).is_err(), "a wrong password is refused");
    let mut client = Client::resume(member.client_port, session, password, 0).expect("resume");
    assert_eq!(client.session, session);
    assert!(client.children("/").expect("children").contains(&"e".to_owned()));
    client.close().expect("close");
    let mut other = member.client();
    assert!(!other.children("/").expect("children").contains(&"e".to_owned()), "closing removes ephemerals");
}

#[test]
fn pipelined_requests_are_answered_in_order_and_reads_see_the_writes_before_them() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/n", b"").expect("create");
    let mut sent = Vec::new();
    for round in 0..200_u32 {
        sent.push((
            client.send(OpCode::SetData, &set_request("/n", &round.to_be_bytes())).expect("send"),
            None,
        ));
        let read = Request::GetData { path: "/n".into(), watch: false };
        sent.push((client.send(OpCode::GetData, &read).expect("send"), Some(round)));
    }
    for (expected, value) in sent {
        let reply = client.receive().expect("reply");
        assert_eq!((reply.header.xid, reply.header.err), (expected, 0));
        if let Some(round) = value {
            assert_eq!(&reply.body[4..8], &round.to_be_bytes(), "a read sees the write before it");
        }
    }
}

#[test]
fn a_watch_fires_before_the_reply_of_the_write_that_caused_it() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/w", b"").expect("create");
    let watch = Request::GetData { path: "/w".into(), watch: true };
    client.call(OpCode::GetData, &watch).expect("watch");
    let sent = client.send(OpCode::SetData, &set_request("/w", b"x")).expect("send");
    assert_eq!(client.receive().expect("event").header.xid, xid::NOTIFICATION);
    assert_eq!(client.receive().expect("reply").header.xid, sent);
    client.ping().expect("ping");
}

#[test]
fn malformed_and_oversized_frames_close_only_their_connection() {
    let (_dir, mut member) = member("jute.maxbuffer=100000");
    let mut bystander = member.start();
    let frames: [&[u8]; 5] = [
        &[0xff, 0xff, 0xff, 0xff],
        &[0x7f, 0xff, 0xff, 0xff, 0, 0],
        &[0, 0, 0, 2, 1, 2],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0, 1, 0x86, 0xa1],
    ];
    for frame in frames {
        assert_eq!(raw_exchange(member.client_port, frame).expect("closed"), b"", "{frame:?} gets no answer");
    }
    let mut rude = member.client();
    rude.write_raw(&[0x80, 0, 0, 0, 1]).expect("write");
    assert!(rude.read_frame().is_err(), "a negative length ends an established connection");
    bystander.create("/still", b"here").expect("others go on");
    assert!(member.is_running());
    eventually("each is in the log", || member.log().matches("exceeds jute.maxbuffer").count() >= 4);
}

#[test]
fn a_malformed_request_is_answered_and_an_unknown_one_ends_the_connection() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    let xid_and_create = [0, 0, 0, 9, 0, 0, 0, 1, 0, 0];
    client.write_raw(&[0, 0, 0, 10]).expect("write");
    client.write_raw(&xid_and_create).expect("write");
    let reply = client.receive().expect("reply");
    assert_eq!((reply.header.xid, reply.header.err), (9, ErrorCode::MarshallingError as i32));
    client.write_raw(&[0, 0, 0, 8, 0, 0, 0, 10, 0, 0, 3, 232]).expect("write");
    let reply = client.receive().expect("reply");
    assert_eq!((reply.header.xid, reply.header.err), (10, ErrorCode::Unimplemented as i32));
    assert!(client.read_frame().is_err(), "then the connection ends");
}

#[test]
fn four_letter_words_have_the_forms_that_tools_parse() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/x", b"data").expect("create");
    client.call(OpCode::GetData, &Request::GetData { path: "/x".into(), watch: true }).expect("watch");
    let port = member.client_port;
    assert_eq!(word(port, "ruok"), "imok");
    assert_eq!(word(port, "isro"), "rw");
    let srvr = word(port, "srvr");
    assert!(srvr.starts_with("Zookeeper version: 3.9.5-"), "{srvr}");
    for line in [
        "Latency min/avg/max: ",
        "Received: ",
        "Sent: ",
        "Connections: 2",
        "Outstanding: 0",
        "Zxid: 0x",
        "Mode: standalone",
        "Node count: 6",
    ] {
        assert!(srvr.lines().any(|found| found.starts_with(line)), "{line:?} is missing in {srvr}");
    }
    assert!(word(port, "stat").contains("Clients:\n /127.0.0.1:"));
    assert!(word(port, "cons").contains(&format!("sid=0x{:x},lop=GETD", client.session)));
    assert!(word(port, "mntr").contains("zk_server_state\tstandalone\n"));
    assert!(word(port, "mntr").contains("zk_znode_count\t6\n"));
    assert!(word(port, "conf").contains("tickTime=500\n"));
    assert_eq!(word(port, "wchs"), "1 connections watching 1 paths\nTotal watches:1\n");
    assert_eq!(word(port, "wchc"), format!("0x{:x}\n\t/x\n\n", client.session));
    assert_eq!(word(port, "wchp"), format!("/x\n\t0x{:x}\n\n", client.session));
    assert!(word(port, "envi").starts_with("Environment:\nzookeeper.version=3.9.5-"));
    assert!(word(port, "dump").contains("Sessions with Ephemerals (0):"));
    assert!(word(port, "dirs").starts_with("datadir_size: "));
    assert_eq!(word(port, "crst"), "Connection stats reset.\n");
    assert_eq!(word(port, "srst"), "Server stats reset.\n");
    assert_eq!(word(port, "stmk\0\0\0\0\0\0\u{1}\0"), "256");
}

#[test]
fn words_outside_the_whitelist_are_refused_with_upstreams_sentence() {
    let (dir, _) = member("");
    let mut quiet = Member::new(&dir.path().join("quiet"), "");
    let text = std::fs::read_to_string(&quiet.config).expect("configuration");
    std::fs::write(&quiet.config, text.replace("4lw.commands.whitelist=*", "")).expect("configuration");
    quiet.start();
    assert_eq!(word(quiet.client_port, "ruok"), "ruok is not executed because it is not in the whitelist.\n");
    assert!(word(quiet.client_port, "srvr").starts_with("Zookeeper version"));
}

#[test]
fn the_admin_port_answers_as_upstreams_and_tells_all_about_the_member() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/x", b"data").expect("create");
    let get = |path: &str| admin(member.admin_port, path).expect(path);
    let stats = get("/commands/srvr");
    assert_eq!((stats["command"].as_str(), stats["error"].is_null()), (Some("server_stats"), true));
    assert_eq!(
        (stats["server_stats"]["server_state"].as_str(), stats["node_count"].as_u64()),
        (Some("standalone"), Some(6))
    );
    assert_eq!(get("/commands/nonsense")["error"], "Unknown command: nonsense");
    assert_eq!(get("/commands/mntr")["znode_count"], 6);
    assert_eq!(get("/commands/isro")["read_only"], false);
    assert_eq!(get("/commands/cons")["connections"][0]["session_id"], client.session);
    assert_eq!(get("/commands/stmk?traceMask=7")["tracemask"], 7);
    assert!(
        get("/commands/environment")["zookeeper.version"].as_str().is_some_and(|v| v.starts_with("3.9.5"))
    );
    let facts = member.facts().expect("facts");
    assert_eq!(facts["role"], "standalone");
    assert_eq!((facts["synced"].as_bool(), facts["draining"].as_bool()), (Some(true), Some(false)));
    assert_eq!(
        (&facts["zxid_logged"], &facts["zxid_applied"]),
        (&facts["zxid_committed"], &facts["zxid_committed"])
    );
    assert_eq!(
        facts["digests"].as_array().and_then(|all| all.last()).map(|last| &last["zxid"]),
        Some(&facts["zxid_applied"])
    );
    assert!(facts["disk_free_bytes"].as_u64().is_some_and(|free| free > 0));
    let metrics = http_get(member.admin_port, "/metrics").expect("metrics");
    assert!(metrics.contains("# TYPE znode_count gauge\nznode_count 6\n"), "{metrics}");
    assert!(metrics.contains("# TYPE fsynctime summary\n") && metrics.contains("fsynctime_count "));
}

#[test]
fn metrics_have_a_port_of_their_own_when_the_provider_is_configured() {
    let port = free_port();
    let provider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let (_dir, mut member) = member(&format!(
        "metricsProvider.className={provider}\nmetricsProvider.httpPort={port}\nmetricsProvider.httpHost=127.0.0.1"
    ));
    member.start();
    assert!(http_get(port, "/metrics").expect("metrics").contains("num_alive_connections "));
}

#[test]
fn a_bad_configuration_exits_with_2_and_names_file_and_line() {
    let (_dir, mut member) = member("snapCount=many\nnoSuchKey=1");
    let (code, log) = start_to_end(&mut member);
    assert_eq!(code, Some(2));
    assert!(log.contains("zoo.cfg:9: snapCount: \"many\" is not allowed: a whole number from 1 to"), "{log}");
    assert_eq!(
        server(&["start", "--no-such-flag"]).stderr(Stdio::null()).status().expect("run").code(),
        Some(2)
    );
    assert_eq!(server(&["--help"]).stdout(Stdio::null()).status().expect("run").code(), Some(0));
}

#[test]
fn a_port_in_use_exits_with_5_and_a_directory_in_use_with_1() {
    let (dir, mut first) = member("");
    let taken = TcpListener::bind(("127.0.0.1", first.client_port)).expect("bind");
    let (code, log) = start_to_end(&mut first);
    assert_eq!(code, Some(5), "{log}");
    assert!(log.contains(&format!("client port 127.0.0.1:{}", first.client_port)), "{log}");
    drop(taken);
    first.start();
    let mut second = Member::new(dir.path(), "");
    let (code, log) = start_to_end(&mut second);
    assert_eq!(code, Some(1));
    assert!(log.contains("is used by another server"), "{log}");
}

#[test]
fn corrupt_data_exits_with_3_and_check_says_where() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    for index in 0..50 {
        client.create(&format!("/n{index}"), &[b'x'; 500]).expect("create");
    }
    member.terminate();
    let check = |json: bool| {
        let dir = member.data();
        let mut arguments = vec!["check", dir.to_str().expect("path")];
        arguments.extend(json.then_some("--json"));
        let output = server(&arguments).output().expect("check");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(check(false).0, Some(0), "{}", check(false).1);
    let version = member.data().join("version-2");
    for entry in std::fs::read_dir(&version).expect("directory") {
        let path = entry.expect("entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("snapshot.")) {
            std::fs::write(&path, b"no snapshot").expect("write");
        }
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log.")) {
            let mut bytes = std::fs::read(&path).expect("log");
            bytes[2000] ^= 0xff;
            std::fs::write(&path, bytes).expect("write");
        }
    }
    let (code, text) = check(true);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        !serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["problems"]
            .as_array()
            .expect("list")
            .is_empty()
    );
    let (code, log) = start_to_end(&mut member);
    assert_eq!(code, Some(3), "{log}");
}

#[test]
fn dump_prints_logs_and_snapshots() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/dumped", b"text").expect("create");
    member.terminate();
    let version = member.data().join("version-2");
    let file = |prefix: &str| {
        let names = std::fs::read_dir(&version).expect("directory").map(|entry| entry.expect("entry").path());
        names
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
            .max()
            .expect("file")
    };
    let dump = |path: &std::path::Path, json: &str| {
        let mut arguments = vec!["dump", path.to_str().expect("path")];
        arguments.extend((!json.is_empty()).then_some(json));
        let output = server(&arguments).output().expect("dump");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = dump(&file("log."), "--json");
    assert_eq!(code, Some(0));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(
        lines.iter().any(|line| line["txn"]["path"] == "/dumped" && line["txn"]["data"] == "text"),
        "{text}"
    );
    assert!(dump(&file("log."), "").1.contains("end of log at byte"));
    assert!(dump(&file("snapshot."), "").1.contains("last processed zxid 0x0"));
    assert!(dump(&file("snapshot."), "--json").1.contains("\"path\":\"/zookeeper\""));
}

#[test]
fn drain_stops_the_server_and_reports_what_it_did() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/d", b"").expect("create");
    let drain =
        server(&["drain", "--config", member.config.to_str().expect("path")]).output().expect("drain");
    assert_eq!(drain.status.code(), Some(0), "{}", String::from_utf8_lossy(&drain.stderr));
    let report: serde_json::Value = serde_json::from_slice(&drain.stdout).expect("JSON");
    assert_eq!((report["drained"].as_bool(), report["resigned"].as_bool()), (Some(true), Some(false)));
    assert_eq!(report["zxid"], "0x2");
    assert_eq!(member.wait().code(), Some(0));
    let marker = std::fs::read_to_string(member.data().join("version-2/clean")).expect("marker");
    assert_eq!(marker.trim(), "2");
    let again =
        server(&["drain", "--config", member.config.to_str().expect("path")]).output().expect("drain");
    assert_eq!(again.status.code(), Some(1), "there is nobody to drain");
}

#[test]
fn a_server_whose_parent_is_gone_drains_and_ends() {
    let (_dir, member) = member("");
    let binary = env!("CARGO_BIN_EXE_zk-server");
    let script = format!("{binary} start --exit-with-parent --config {} & sleep 2", member.config.display());
    let mut shell =
        std::process::Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).spawn().expect("sh");
    member.client();
    shell.kill().expect("kill");
    shell.wait().expect("wait");
    eventually("the server ends", || TcpStream::connect(("127.0.0.1", member.client_port)).is_err());
    eventually("it ends cleanly", || member.data().join("version-2/clean").exists());
}

#[test]
fn connections_beyond_the_limit_of_an_address_are_closed() {
    let (_dir, mut member) = member("maxClientCnxns=2");
    let first = member.start();
    let _second = member.client();
    let mut third = TcpStream::connect(("127.0.0.1", member.client_port)).expect("connect");
    third.set_read_timeout(Some(LIMIT)).expect("timeout");
    assert!(matches!(third.read(&mut [0; 1]), Ok(0) | Err(_)), "closed at once");
    eventually("the log says which limit", || member.log().contains("maxClientCnxns=2"));
    first.close().expect("close");
    member.client();
}

#[test]
fn large_pipelines_of_large_nodes_do_not_stall() {
    let (_dir, mut member) = member("");
    let mut client = member.start();
    client.create("/big", &vec![b'y'; 500_000]).expect("create");
    let read = Request::GetData { path: "/big".into(), watch: false };
    // 100 MB of answers to a client that does not read until all is sent.
    for _ in 0..200 {
        client.send(OpCode::GetData, &read).expect("send");
    }
    client.send(OpCode::Create, &create_request("/after", b"", 0)).expect("send");
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..200 {
        assert!(client.receive().expect("reply").body.len() > 500_000);
    }
    assert_eq!(client.receive().expect("reply").header.err, 0);
}

#[test]
fn snapshots_are_taken_while_serving_and_purged_at_a_start() {
    let (_dir, mut member) = member("snapCount=40\nautopurge.purgeInterval=1");
    let mut client = member.start();
    for index in 0..400 {
        client.create(&format!("/s{index}"), b"").expect("create");
    }
    let version = member.data().join("version-2");
    let count = |prefix: &str| {
        let names =
            std::fs::read_dir(&version).expect("directory").map(|entry| entry.expect("entry").file_name());
        names.filter(|name| name.to_string_lossy().starts_with(prefix)).count()
    };
    eventually("there are many snapshots", || count("snapshot.") > 5);
    assert_eq!(member.terminate(), Some(0));
    let mut client = member.start();
    // Three are kept, and one may have been taken since.
    eventually("old snapshots are gone", || (3..=4).contains(&count("snapshot.")));
    assert_eq!(client.children("/").expect("children").len(), 401);
    assert_eq!(member.terminate(), Some(0));
    assert_eq!(member.start().children("/").expect("children").len(), 401);
}
