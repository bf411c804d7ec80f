use zk_jute::request::{ConnectRequest, ConnectResponse};
use zk_jute::{Reader, session_password};

use super::*;
use crate::client::{CloseReason, is_four_letter_word};

fn response(rig: &mut Rig) -> (usize, ConnectResponse) {
    let output = rig.output();
    let response = ConnectResponse::decode(&mut Reader::new(output.slice(4..))).expect("a connect response");
    (output.len() - 4, response)
}

#[test]
fn a_new_client_gets_a_session_and_its_password() {
    let mut rig = Rig::new();
    rig.connect(&connect_request());
    assert!(matches!(rig.commands()[..], [ClientCommand::CreateSession { timeout_ms: 10_000 }]));
    assert!(!rig.conn.wants_input(), "nothing is read before the session is there");
    assert_eq!(rig.conn.session(), None);
    rig.push(ClientMessage::Established { session: SESSION, timeout_ms: 10_000 });
    let (len, response) = response(&mut rig);
    assert_eq!(len, 37);
    assert_eq!((response.timeout_ms, response.session_id), (10_000, SESSION.0));
    assert_eq!(response.password[..], session_password(SESSION));
    assert_eq!(response.read_only, Some(false));
    assert_eq!(rig.conn.session(), Some(SESSION));
}

#[test]
fn an_old_client_sends_no_read_only_byte_and_gets_none() {
    let mut rig = Rig::new();
    rig.connect(&ConnectRequest { read_only: None, ..connect_request() });
    rig.push(ClientMessage::Established { session: SESSION, timeout_ms: 10_000 });
    assert_eq!(response(&mut rig).0, 36);
}

#[test]
fn bytes_may_come_one_at_a_time() {
    let mut rig = Rig::new();
    let mut bytes = BytesMut::from(&45_i32.to_be_bytes()[..]);
    bytes.extend_from_slice(&Writer::build(|w| connect_request().encode(w)));
    for byte in bytes {
        assert!(rig.commands().is_empty());
        rig.input.extend_from_slice(&[byte]);
        rig.drive();
    }
    assert_eq!(rig.commands().len(), 1);
}

#[test]
fn timeouts_are_brought_into_range() {
    for (asked, granted) in [(0, 4000), (-5, 4000), (5000, 5000), (1_000_000, 40_000)] {
        let mut rig = Rig::new();
        rig.connect(&ConnectRequest { timeout_ms: asked, ..connect_request() });
        assert!(
            matches!(rig.commands()[..], [ClientCommand::CreateSession { timeout_ms }] if timeout_ms == granted)
        );
    }
}

#[test]
fn a_client_that_has_seen_more_must_go_elsewhere() {
    let mut rig = Rig::new();
    rig.create("/a");
    rig.connect(&ConnectRequest { last_zxid_seen: 2, ..connect_request() });
    assert!(matches!(rig.conn.closing(), Some(CloseReason::ZxidAhead { .. })));
    assert!(rig.output().is_empty() && rig.commands().is_empty());
    let mut rig = Rig::new();
    rig.create("/a");
    rig.connect(&ConnectRequest { last_zxid_seen: 1, ..connect_request() });
    assert_eq!(rig.conn.closing(), None);
}

#[test]
fn a_server_that_does_not_serve_closes_without_a_word() {
    let mut rig = Rig::new();
    rig.shared.set_serving(false);
    rig.connect(&connect_request());
    assert_eq!(rig.conn.closing(), Some(&CloseReason::NotServing));
    assert!(rig.output().is_empty() && rig.commands().is_empty());
}

#[test]
fn a_session_is_resumed_with_its_password_only() {
    let password = Bytes::copy_from_slice(&session_password(SESSION));
    let resume = ConnectRequest { session_id: SESSION.0, password, ..connect_request() };
    let mut rig = Rig::new();
    rig.connect(&resume);
    assert!(matches!(rig.commands()[..], [ClientCommand::Reattach { session: SESSION, timeout_ms: 10_000 }]));
    rig.push(ClientMessage::Established { session: SESSION, timeout_ms: 10_000 });
    assert_eq!(response(&mut rig).1.session_id, SESSION.0);

    let mut rig = Rig::new();
    rig.connect(&ConnectRequest { password: Bytes::from_static(&[1; 16]), ..resume });
    let (_, response) = response(&mut rig);
    assert_eq!((response.timeout_ms, response.session_id, &response.password[..]), (0, 0, &[0; 16][..]));
    assert_eq!(rig.conn.closing(), Some(&CloseReason::WrongPassword(SESSION)));
    assert!(rig.commands().is_empty(), "the core is not bothered");
}

#[test]
fn a_session_that_is_gone_is_answered_with_zeros() {
    let password = Bytes::copy_from_slice(&session_password(SESSION));
    let mut rig = Rig::new();
    rig.connect(&ConnectRequest { session_id: SESSION.0, password, ..connect_request() });
    rig.commands();
    rig.push(ClientMessage::SessionInvalid);
    assert_eq!(response(&mut rig).1.timeout_ms, 0);
    assert_eq!(rig.conn.closing(), Some(&CloseReason::SessionInvalid(SESSION)));
    assert!(matches!(rig.commands()[..], [ClientCommand::Disconnected]));
}

#[test]
fn a_read_only_server_takes_only_clients_that_want_one() {
    for (read_only, accepted) in [(None, false), (Some(false), false), (Some(true), true)] {
        let mut rig = Rig::with(|config| config.read_only = true);
        rig.connect(&ConnectRequest { read_only, ..connect_request() });
        assert_eq!(rig.conn.closing().is_none(), accepted);
    }
}

#[test]
fn nonsense_instead_of_a_handshake_closes() {
    for payload in [&[][..], &[0; 20]] {
        let mut rig = Rig::new();
        rig.feed(payload);
        assert!(matches!(rig.conn.closing(), Some(CloseReason::BadConnectRequest(_))));
    }
}

#[test]
fn four_letter_words_are_told_from_lengths() {
    assert_eq!(is_four_letter_word(b"ruok"), Some("ruok"));
    assert_eq!(is_four_letter_word(b"mntr"), Some("mntr"));
    assert_eq!(is_four_letter_word(&45_i32.to_be_bytes()), None);
    assert_eq!(is_four_letter_word(b"RUOK"), None);
}
