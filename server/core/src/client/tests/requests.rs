use zk_jute::ErrorCode;
use zk_jute::records::Id;
use zk_jute::request::MultiResult;

use super::*;
use crate::client::CloseReason;

fn auth(scheme: &str, auth: &'static [u8]) -> Request {
    Request::Auth { kind: 0, scheme: scheme.into(), auth: Bytes::from_static(auth) }
}

fn written_ids(rig: &mut Rig) -> Vec<Id> {
    rig.send(99, &set("/a"));
    match rig.commands().pop() {
        Some(ClientCommand::Request(request)) => request.auth,
        other => panic!("a write was expected: {other:?}"),
    }
}

#[test]
fn a_write_goes_to_the_core_unchanged_and_with_the_callers_identities() {
    let mut rig = Rig::connected();
    rig.send(1, &set("/a"));
    let commands = rig.commands();
    let [ClientCommand::Request(request)] = &commands[..] else { panic!("one request: {commands:?}") };
    assert_eq!((request.session, request.xid, request.op), (SESSION, 1, OpCode::SetData as i32));
    assert_eq!(request.body, Writer::build(|w| set("/a").encode(w)));
    assert_eq!(request.auth, [Id { scheme: "ip".into(), id: "10.0.0.1".into() }]);
}

#[test]
fn identities_proved_by_an_auth_packet_count_from_then_on() {
    let mut rig = Rig::connected();
    rig.send(-4, &auth("digest", b"u:p"));
    assert_eq!(rig.only_reply(), (-4, 0, 0, Bytes::new()));
    rig.send(-4, &auth("digest", b"u:p"));
    let ids = written_ids(&mut rig);
    assert_eq!(ids.len(), 2, "the same identity twice is one: {ids:?}");
    assert_eq!(&*ids[1].scheme, "digest");
}

#[test]
fn failed_authentication_is_answered_and_ends_the_connection() {
    let mut rig = Rig::connected();
    rig.send(-4, &auth("kerberos", b"x"));
    assert_eq!(rig.only_reply(), (-4, 0, ErrorCode::AuthFailed as i32, Bytes::new()));
    assert_eq!(rig.conn.closing(), Some(&CloseReason::AuthFailed("kerberos".into())));
}

/// Fault: identities were counted, not weighed. They travel with every write, and 65 of a megabyte made a packet that no
/// leader reads: the follower that forwarded it lost its link, and all its clients.
#[test]
fn the_bytes_of_identities_are_bounded() {
    let mut rig = Rig::connected();
    for n in 0..70 {
        let auth = Bytes::from(format!("{n:0>1000}:x"));
        rig.send(-4, &Request::Auth { kind: 0, scheme: "digest".into(), auth });
    }
    assert!(matches!(rig.conn.closing(), Some(CloseReason::AuthFailed(_))));
    let answers = rig.packets().len();
    assert!((60..=64).contains(&answers), "{answers} of a kilobyte, the refused one among them");
}

#[test]
fn the_number_of_identities_is_bounded() {
    let mut rig = Rig::connected();
    for n in 0..300 {
        let auth = Bytes::from(format!("user{n}:x"));
        rig.send(-4, &Request::Auth { kind: 0, scheme: "digest".into(), auth });
    }
    assert!(matches!(rig.conn.closing(), Some(CloseReason::AuthFailed(_))));
    assert_eq!(rig.packets().len(), 256);
}

#[test]
fn operations_that_clients_may_not_send_are_unimplemented_and_the_last_ones() {
    for op in [13, 20, 0, -1, -10, 108, 12345] {
        let mut rig = Rig::connected();
        rig.send_raw(5, op, b"");
        assert_eq!(rig.only_reply(), (5, -1, ErrorCode::Unimplemented as i32, Bytes::new()), "{op}");
        assert_eq!(rig.conn.closing(), Some(&CloseReason::Unimplemented(op)));
        assert!(rig.sent().is_empty());
    }
}

#[test]
fn a_body_that_makes_no_sense_is_an_error_and_the_connection_goes_on() {
    let mut rig = Rig::connected();
    for op in [OpCode::GetData, OpCode::SetWatches, OpCode::MultiRead, OpCode::Sync] {
        rig.send_raw(5, op as i32, b"\x00\x00");
        let (xid, _, err, body) = rig.only_reply();
        assert_eq!((xid, err, body.len()), (5, ErrorCode::MarshallingError as i32, 0), "{op:?}");
    }
    assert_eq!(rig.conn.closing(), None);
    rig.feed(b"\0\0\0");
    assert!(matches!(rig.conn.closing(), Some(CloseReason::BadHeader(_))));
}

#[test]
fn a_write_refused_at_the_door_shows_the_zxid_that_the_server_is_at() {
    for read_only in [false, true] {
        let mut rig = Rig::with(|config| config.read_only = read_only);
        rig.connect(&ConnectRequest { read_only: Some(true), ..connect_request() });
        rig.push(ClientMessage::Established { session: SESSION, timeout_ms: 10_000 });
        rig.output();
        rig.create("/by-someone-else");
        rig.create("/and-again");
        rig.send_raw(5, OpCode::Sync as i32, b"\x00\x00");
        let (xid, zxid, err, _) = rig.only_reply();
        assert_eq!((xid, zxid, err), (5, 2, ErrorCode::MarshallingError as i32));
    }
}

#[test]
fn sasl_without_configuration_is_answered_with_no_token() {
    let mut rig = Rig::connected();
    rig.send(3, &Request::Sasl { token: Bytes::from_static(b"hello") });
    assert_eq!(rig.only_reply(), (3, 0, 0, Bytes::from_static(&[0xff; 4])));
}

#[test]
fn failed_reads_have_a_header_only() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &get("/missing", false));
    assert_eq!(rig.only_reply(), (1, 1, ErrorCode::NoNode as i32, Bytes::new()));
}

#[test]
fn closing_the_session_is_answered_then_everything_ends() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &get("/a", true));
    rig.output();
    rig.send(2, &Request::CloseSession);
    rig.send(3, &get("/a", true));
    assert_eq!(rig.sent(), [2]);
    rig.reply(2, 0, Response::Empty);
    assert_eq!(rig.xids(), [2], "what follows closeSession is not read");
    assert_eq!(rig.conn.closing(), Some(&CloseReason::SessionClosed));
    assert!(matches!(rig.commands()[..], [ClientCommand::Disconnected]));
    assert!(rig.shared.watches.lock().is_empty());
}

#[test]
fn a_moved_session_is_not_answered() {
    let code = ErrorCode::SessionMoved as i32;
    for (err, response) in [(code, Response::Empty), (0, Response::Multi(vec![MultiResult::Error(code)]))] {
        let mut rig = Rig::connected();
        rig.send(1, &set("/a"));
        rig.reply(1, err, response);
        assert!(rig.output().is_empty());
        assert_eq!(rig.conn.closing(), Some(&CloseReason::SessionMoved));
    }
}

#[test]
fn the_end_of_the_connection_is_reported_once_and_takes_the_watches() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &get("/a", true));
    rig.push(ClientMessage::Close);
    rig.conn.close(CloseReason::PeerClosed("reset".into()));
    assert!(matches!(rig.commands()[..], [ClientCommand::Disconnected]));
    assert_eq!(rig.why_closed(), "closed by the server");
    assert!(rig.shared.watches.lock().is_empty());
    assert_eq!(rig.xids(), [1], "what was answered is still sent");
    assert!(!rig.conn.inbox().push(ClientMessage::Close));
}

#[test]
fn a_reply_out_of_turn_ends_the_connection() {
    let mut rig = Rig::connected();
    rig.send(1, &set("/a"));
    rig.send(2, &set("/a"));
    rig.reply(2, 0, Response::Empty);
    assert!(matches!(rig.conn.closing(), Some(CloseReason::Internal(_))));
}

#[test]
fn a_read_only_server_refuses_writes() {
    let mut rig = Rig::with(|config| config.read_only = true);
    rig.connect(&ConnectRequest { read_only: Some(true), ..connect_request() });
    rig.push(ClientMessage::Established { session: SESSION, timeout_ms: 10_000 });
    rig.output();
    rig.create("/by-someone-else");
    rig.send(1, &set("/a"));
    assert_eq!(rig.only_reply(), (1, 1, ErrorCode::NotReadOnly as i32, Bytes::new()));
    assert!(rig.sent().is_empty());
}

#[test]
fn requests_and_latencies_are_counted() {
    let mut rig = Rig::connected();
    rig.create("/a");
    rig.send(1, &get("/a", false));
    rig.send(2, &set("/a"));
    assert_eq!(rig.conn.info().queued, 1);
    rig.now.mono = rig.now.mono.plus_ms(30);
    rig.reply(2, 0, Response::Empty);
    rig.send(-2, &Request::Ping);
    let info = rig.conn.info();
    assert_eq!((info.packets_received, info.packets_sent, info.replies), (4, 4, 3));
    assert_eq!((info.min_latency_ms, info.avg_latency_ms, info.max_latency_ms), (0, 10, 30));
    assert_eq!((info.last_op, info.last_cxid, info.last_zxid), ("PING", 2, 1));
    assert_eq!((info.session, info.queued), (SESSION, 0));
    rig.conn.reset_stats(rig.now);
    assert_eq!(rig.conn.info().packets_received, 0);
}
