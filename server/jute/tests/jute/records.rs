//! Every record against the bytes that upstream's own classes wrote (`tests/golden/Golden.java`).

use crate::support::*;
use bytes::Bytes;
use zk_jute::codec::{Reader, Writer};
use zk_jute::election::{InitialMessage, Notification, PeerState};
use zk_jute::quorum::{LEARNER_PROTOCOL_VERSION, LearnerInfo, PacketType, QuorumPacket};
use zk_jute::records::{Acl, Id, Stat, StatPersisted};
use zk_jute::request::*;
use zk_jute::{OpCode, ServerId, SessionId, Zxid, session_password};

const PASSWORD: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

#[test]
fn plain_records_have_upstream_bytes() {
    check("id", &id("digest", "żuk:xyz"), Id::decode, Id::encode);
    check("acl", &acls()[1], Acl::decode, Acl::encode);
    check("stat", &STAT, Stat::decode, Stat::encode);
    let stat = StatPersisted {
        czxid: 1,
        mzxid: 2,
        ctime: 3,
        mtime: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: -8,
        pzxid: 9,
    };
    check("stat-persisted", &stat, StatPersisted::decode, StatPersisted::encode);
    assert_eq!(golden("stat-persisted").len(), StatPersisted::ENCODED_LEN);
}

#[test]
fn connect_records_have_upstream_bytes_with_and_without_read_only() {
    let mut request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0x1_0000_0001,
        timeout_ms: 30000,
        session_id: SESSION,
        password: Bytes::from_static(PASSWORD),
        read_only: Some(true),
    };
    check("connect-request", &request, ConnectRequest::decode, ConnectRequest::encode);
    request.read_only = None;
    check("connect-request-old", &request, ConnectRequest::decode, ConnectRequest::encode);
    assert_eq!((golden("connect-request").len(), golden("connect-request-old").len()), (45, 44));

    let mut response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 30000,
        session_id: SESSION,
        password: Bytes::from_static(PASSWORD),
        read_only: Some(false),
    };
    check("connect-response", &response, ConnectResponse::decode, ConnectResponse::encode);
    response.read_only = None;
    check("connect-response-old", &response, ConnectResponse::decode, ConnectResponse::encode);
    assert_eq!((golden("connect-response").len(), golden("connect-response-old").len()), (37, 36));
}

#[test]
fn headers_and_events_have_upstream_bytes() {
    let header = RequestHeader { xid: xid::SET_WATCHES, op: 101 };
    check("request-header", &header, RequestHeader::decode, RequestHeader::encode);
    let header = ReplyHeader { xid: 7, zxid: 0x1_0000_0001, err: -101 };
    check("reply-header", &header, ReplyHeader::decode, ReplyHeader::encode);
    let header = MultiHeader { op: 13, done: false, err: -1 };
    check("multi-header", &header, MultiHeader::decode, MultiHeader::encode);
    let event = WatcherEvent { kind: 3, state: 3, path: text("/a/b") };
    check("watcher-event", &event, WatcherEvent::decode, WatcherEvent::encode);
    let info = ClientInfo { scheme: text("digest"), user: text("bob") };
    check("client-info", &info, ClientInfo::decode, ClientInfo::encode);
}

fn check_request(name: &str, request: &Request) {
    check(name, request, |r| Request::decode(request.op(), r), Request::encode);
}

fn create(op: OpCode, path: &str, flags: i32, ttl: i64) -> Request {
    Request::Create(CreateRequest { op, path: text(path), data: data(), acl: Some(acls()), flags, ttl })
}

/// Every request but multis; the golden record's name is `request-` and its code.
fn requests() -> Vec<Request> {
    let path = || text("/a");
    vec![
        create(OpCode::Create, "/a/b-", 3, 0),
        create(OpCode::Create2, "/a", 1, 0),
        create(OpCode::CreateContainer, "/c", 4, 0),
        create(OpCode::CreateTtl, "/t", 5, 60000),
        Request::Delete { path: path(), version: -1 },
        Request::Exists { path: path(), watch: true },
        Request::GetData { path: path(), watch: false },
        Request::SetData { path: path(), data: data(), version: 9 },
        Request::GetAcl { path: path() },
        Request::SetAcl { path: path(), acl: Some(acls()), version: 2 },
        Request::GetChildren { path: path(), watch: true },
        Request::GetChildren2 { path: path(), watch: false },
        Request::Sync { path: path() },
        Request::Check { path: path(), version: 4 },
        Request::Reconfig {
            joining: Some(text("server.4=h:1:2;3")),
            leaving: None,
            new_members: Some(text("")),
            config_id: -1,
        },
        Request::CheckWatches { path: path(), kind: 3 },
        Request::RemoveWatches { path: path(), kind: 2 },
        Request::DeleteContainer { path: text("/c/ż") },
        Request::Auth { kind: 0, scheme: text("digest"), auth: Bytes::from_static(b"bob:pw") },
        Request::SetWatches {
            relative_zxid: 5,
            data: texts(&["/a", "/b"]),
            exist: vec![],
            child: texts(&["/c"]),
        },
        Request::SetWatches2 {
            relative_zxid: 5,
            data: texts(&["/a", "/b"]),
            exist: vec![],
            child: texts(&["/c"]),
            persistent: texts(&["/d"]),
            persistent_recursive: texts(&["/e"]),
        },
        Request::Sasl { token: Bytes::from_static(DATA) },
        Request::GetEphemerals { prefix: path() },
        Request::GetAllChildrenNumber { path: path() },
        Request::AddWatch { path: path(), mode: 1 },
        Request::CreateSession { timeout_ms: 30000 },
    ]
}

#[test]
fn every_request_has_upstream_bytes() {
    for request in requests() {
        check_request(&format!("request-{}", request.op() as i32), &request);
    }
    for request in [Request::Ping, Request::WhoAmI, Request::CloseSession] {
        assert_eq!(Request::decode(request.op(), &mut Reader::new(Bytes::new())), Ok(request.clone()));
        assert!(Writer::build(|w| request.encode(w)).is_empty());
    }
    let nulls =
        CreateRequest { op: OpCode::Create, path: text("/a/b-"), data: None, acl: None, flags: 0, ttl: 0 };
    check_request("request-1-nulls", &Request::Create(nulls));
}

#[test]
fn every_multi_request_has_upstream_bytes() {
    let writes = vec![
        create(OpCode::Create, "/p", 0, 0),
        create(OpCode::Create, "/e-", 3, 0),
        create(OpCode::CreateContainer, "/c", 4, 0),
        Request::Delete { path: text("/d"), version: 3 },
        Request::SetData { path: text("/s"), data: data(), version: 4 },
        Request::Check { path: text("/k"), version: 5 },
    ];
    check_request("request-14", &Request::Multi(writes));
    check_request("request-14-create2", &Request::Multi(vec![create(OpCode::Create2, "/p", 0, 0)]));
    check_request("request-14-ttl", &Request::Multi(vec![create(OpCode::CreateTtl, "/t", 5, 60000)]));
    check_request("request-14-empty", &Request::Multi(vec![]));
    let reads = vec![
        Request::GetData { path: text("/a"), watch: false },
        Request::GetChildren { path: text("/b"), watch: false },
    ];
    check_request("request-22", &Request::MultiRead(reads));
}

fn check_response(op: i32, suffix: &str, response: &Response) {
    let code = OpCode::from_i32(op).expect("a code");
    check(&format!("response-{op}{suffix}"), response, |r| Response::decode(code, r), Response::encode);
}

#[test]
fn every_response_has_upstream_bytes() {
    check_response(1, "", &Response::Path(text("/a")));
    check_response(15, "", &Response::PathStat(text("/a"), STAT));
    for op in [3, 5, 7] {
        check_response(op, "", &Response::Stat(STAT));
    }
    check_response(4, "", &Response::Data(data(), STAT));
    check_response(4, "-null", &Response::Data(None, STAT));
    check_response(6, "", &Response::Acl(acls(), STAT));
    check_response(8, "", &Response::Children(texts(&["x", "y"])));
    check_response(12, "", &Response::ChildrenStat(texts(&["x", "y"]), STAT));
    check_response(9, "", &Response::Path(text("/a")));
    check_response(103, "", &Response::Ephemerals(texts(&["/x", "/y"])));
    check_response(104, "", &Response::Number(77));
    check_response(106, "", &Response::Error(0));
    let infos = vec![
        ClientInfo { scheme: text("ip"), user: text("::1") },
        ClientInfo { scheme: text("digest"), user: text("bob") },
    ];
    check_response(107, "", &Response::WhoAmI(infos));
}

#[test]
fn every_multi_response_has_upstream_bytes() {
    let writes = vec![
        MultiResult::Ok(OpCode::Create, Response::Path(text("/p"))),
        MultiResult::Ok(OpCode::Create2, Response::PathStat(text("/p"), STAT)),
        MultiResult::Ok(OpCode::Delete, Response::Empty),
        MultiResult::Ok(OpCode::SetData, Response::Stat(STAT)),
        MultiResult::Ok(OpCode::Check, Response::Empty),
    ];
    check_response(14, "", &Response::Multi(writes));
    let failed = [0, -101, -2].map(MultiResult::Error).to_vec();
    check_response(14, "-failed", &Response::Multi(failed));
    let reads = vec![
        MultiResult::Ok(OpCode::GetData, Response::Data(data(), STAT)),
        MultiResult::Ok(OpCode::GetChildren, Response::Children(texts(&["x", "y"]))),
        MultiResult::Error(-101),
    ];
    check_response(22, "", &Response::Multi(reads));
}

#[test]
fn container_and_ttl_creates_answer_as_create2_in_a_multi() {
    let answer = |op| {
        let result = MultiResult::Ok(op, Response::PathStat(text("/p"), STAT));
        Writer::build(|w| Response::Multi(vec![result]).encode(w))
    };
    assert_eq!(answer(OpCode::CreateContainer), answer(OpCode::Create2));
    assert_eq!(answer(OpCode::CreateTtl), answer(OpCode::Create2));
}

#[test]
fn quorum_packets_have_upstream_bytes() {
    let ping =
        QuorumPacket { kind: PacketType::Ping, zxid: Zxid(0x1_0000_0001), data: None, auth_info: None };
    let request = QuorumPacket {
        kind: PacketType::Request,
        zxid: Zxid::NONE,
        data: data(),
        auth_info: Some(vec![id("ip", "127.0.0.1"), id("digest", "bob:h")]),
    };
    let proposal = QuorumPacket {
        kind: PacketType::Proposal,
        zxid: Zxid(0x1_0000_0003),
        data: Some(golden("packet-proposal").slice(16..16 + 50)),
        auth_info: None,
    };
    let packets = [("packet-ping", ping), ("packet-request", request), ("packet-proposal", proposal)];
    let mut stream = Vec::new();
    for (name, packet) in &packets {
        check(name, packet, QuorumPacket::decode, QuorumPacket::encode);
        packet.encode(&mut Writer::new(&mut stream));
    }
    let mut at = 0;
    for (_, packet) in &packets {
        let len = golden_len(packet);
        for cut in 0..len {
            assert_eq!(QuorumPacket::try_decode(&stream[at..at + cut]), Ok(None), "cut after {cut}");
        }
        assert_eq!(QuorumPacket::try_decode(&stream[at..]), Ok(Some((packet.clone(), len))));
        at += len;
    }
    let info = LearnerInfo {
        server_id: ServerId(3),
        protocol_version: LEARNER_PROTOCOL_VERSION,
        config_version: 0x1_0000_0000,
    };
    check("learner-info", &info, LearnerInfo::decode, LearnerInfo::encode);
}

fn golden_len(packet: &QuorumPacket) -> usize {
    Writer::build(|w| packet.encode(w)).len()
}

#[test]
fn notifications_have_upstream_bytes_in_every_form() {
    let config = Bytes::from_static(b"server.1=a:2888:3888:participant;2181\nversion=100000000");
    let vote = Notification {
        state: PeerState::Leading,
        leader: ServerId(3),
        zxid: Zxid(0x5_0000_0001),
        election_epoch: 9,
        peer_epoch: 5,
        version: 2,
        config: Some(config.clone()),
    };
    let decode = |r: &mut Reader| {
        let body = r.buffer_of_all();
        Notification::decode(body)
    };
    check("notification", &vote, decode, Notification::encode);
    let min = i64::MIN;
    let observer = Notification {
        state: PeerState::Looking,
        leader: ServerId(min),
        zxid: Zxid(min),
        peer_epoch: min,
        ..vote.clone()
    };
    check("notification-observer", &observer, decode, Notification::encode);
    let old = Notification { state: PeerState::Following, version: 0, config: None, ..vote.clone() };
    check("notification-28", &old, decode, Notification::encode);
    // The version inside the 40-byte form is not looked at, so it does not come back.
    let sent = Notification { state: PeerState::Looking, version: 1, config: None, ..vote };
    assert_eq!(Writer::build(|w| sent.encode(w)), golden("notification-40"));
    assert_eq!(Notification::decode(golden("notification-40")), Ok(Notification { version: 0, ..sent }));
}

/// Lets the shared check run decoders that take a whole body.
trait WholeBody {
    fn buffer_of_all(&mut self) -> Bytes;
}

impl WholeBody for Reader {
    fn buffer_of_all(&mut self) -> Bytes {
        let body = self.rest();
        while self.remaining() > 0 {
            self.bool().expect("a byte is left");
        }
        body
    }
}

#[test]
fn initial_messages_have_upstream_bytes_in_every_form() {
    let cases = [
        ("initial-v1", -65536, vec!["zk-0.example:3888"]),
        ("initial-v2", -65535, vec!["10.0.0.1:3888", "[fd00::1]:3889"]),
        ("initial-ancient", 0, vec![]),
    ];
    for (name, protocol_version, addresses) in cases {
        let addresses = addresses.into_iter().map(str::to_owned).collect();
        let message = InitialMessage { protocol_version, sid: ServerId(3), addresses };
        let mut bytes = golden(name).to_vec();
        assert_eq!(Writer::build(|w| message.encode(w)), bytes, "{name}");
        let len = bytes.len();
        for cut in 0..len {
            assert_eq!(InitialMessage::try_decode(&bytes[..cut]), Ok(None), "{name} cut after {cut}");
        }
        bytes.extend_from_slice(b"next");
        assert_eq!(InitialMessage::try_decode(&bytes), Ok(Some((message, len))), "{name}");
    }
}

#[test]
fn session_passwords_are_what_upstream_generates() {
    let lines = golden_lines("password ");
    assert_eq!(lines.len(), 6);
    for (session, password) in lines {
        let session = SessionId(session.parse().expect("a session"));
        assert_eq!(session_password(session).as_slice(), password, "session {session}");
    }
}

#[test]
fn malformed_text_reads_as_it_does_in_java() {
    let lines = golden_lines("text ");
    assert_eq!(lines.len(), 500);
    for (raw, expected) in lines {
        let field = Writer::build(|w| w.buffer(Some(&unhex(&raw))));
        let decoded = Reader::new(field).string().expect("a string").expect("not null");
        assert_eq!(decoded.as_bytes(), expected, "text {raw}");
    }
}

#[test]
fn supplementary_text_is_written_as_upstream_writes_it() {
    assert_eq!(Writer::build(|w| w.string("aé日😀z")), golden("string-supplementary"));
}
