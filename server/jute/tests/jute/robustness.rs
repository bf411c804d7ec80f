//! Bytes that are not records: every decoder answers with an error, and never panics or reserves memory on their word.

use crate::support::*;
use bytes::Bytes;
use proptest::prelude::*;
use zk_jute::codec::{DecodeError, DecodeErrorKind, Reader, Writer};
use zk_jute::election::{InitialMessage, Notification, frame, try_unframe};
use zk_jute::quorum::{LearnerInfo, QuorumPacket};
use zk_jute::records::Acl;
use zk_jute::request::*;
use zk_jute::snapshot::{SnapshotDecoder, SnapshotTail};
use zk_jute::txn::{LoggedTxn, Txn};
use zk_jute::{OpCode, Zxid};

const CODES: std::ops::Range<i32> = -12..110;

/// Runs everything that reads bytes.
fn decode_all(bytes: &[u8]) {
    let shared = Bytes::copy_from_slice(bytes);
    let reader = || Reader::new(shared.clone());
    for code in CODES {
        let _ = Txn::decode(code, &mut reader());
        if let Some(op) = OpCode::from_i32(code) {
            let _ = Request::decode(op, &mut reader());
            let _ = Response::decode(op, &mut reader());
        }
    }
    let _ = LoggedTxn::decode(shared.clone());
    let _ = ConnectRequest::decode(&mut reader());
    let _ = ConnectResponse::decode(&mut reader());
    let _ = WatcherEvent::decode(&mut reader());
    let _ = LearnerInfo::decode(&mut reader());
    let _ = QuorumPacket::decode(&mut reader());
    let _ = QuorumPacket::try_decode(bytes);
    let _ = Notification::decode(shared.clone());
    let _ = InitialMessage::try_decode(bytes);
    let _ = try_unframe(bytes);
    let _ = SnapshotTail::decode_digest(&mut reader());
    let mut decoder = SnapshotDecoder::new();
    decoder.push(bytes);
    while let Ok(Some(_)) = decoder.next() {}
}

proptest! {
    #[test]
    fn random_bytes_never_panic_a_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        decode_all(&bytes);
    }

    /// Small numbers make lengths and codes plausible, so this gets deeper than plain noise.
    #[test]
    fn random_small_numbers_never_panic_a_decoder(words in prop::collection::vec(-2..24_i32, 0..60)) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        decode_all(&bytes);
    }

    #[test]
    fn any_text_that_is_written_reads_back_if_it_is_of_the_basic_plane(value in "[\u{0}-\u{d7ff}\u{e000}-\u{ffff}]{0,40}") {
        let bytes = Writer::build(|w| w.string(&value));
        prop_assert_eq!(Reader::new(bytes).string(), Ok(Some(text(&value))));
    }
}

#[test]
fn damaged_upstream_records_never_panic_a_decoder() {
    for bytes in golden_records().into_values().filter(|bytes| bytes.len() < 400) {
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[at] = value;
                if damaged != bytes {
                    decode_all(&damaged);
                }
            }
        }
    }
}

#[test]
fn a_request_cut_short_is_an_eof_that_says_where() {
    let mut cut = 0;
    for (name, bytes) in golden_records() {
        let Some(op) =
            name.strip_prefix("request-").and_then(|op| op.parse().ok()).and_then(OpCode::from_i32)
        else {
            continue;
        };
        for len in 0..bytes.len() {
            let error = Request::decode(op, &mut Reader::new(bytes.slice(..len))).expect_err("cut short");
            assert!(error.is_eof() && error.offset <= len, "{name} cut to {len}: {error}");
            cut += 1;
        }
    }
    assert!(cut > 1000, "only {cut} cuts");
}

fn kind<T: std::fmt::Debug>(result: Result<T, DecodeError>) -> DecodeErrorKind {
    result.expect_err("must not decode").kind
}

#[test]
fn a_count_that_the_input_cannot_hold_is_refused_before_anything_is_reserved() {
    let bytes = Writer::build(|w| w.i32(i32::MAX));
    let needed = 4 * i32::MAX as usize;
    assert_eq!(kind(Reader::new(bytes).vector_len()), DecodeErrorKind::Eof { needed });
}

#[test]
fn lengths_below_null_and_above_the_limit_are_refused() {
    let field = |len: i32| Writer::build(|w| w.i32(len));
    assert_eq!(Reader::new(field(-1)).buffer(), Ok(None));
    assert_eq!(Reader::new(field(-1)).string(), Ok(None));
    assert_eq!(Reader::new(field(-1)).vector_len(), Ok(None));
    assert_eq!(kind(Reader::new(field(-2)).buffer()), DecodeErrorKind::NegativeLength { len: -2 });
    assert_eq!(kind(Reader::new(field(-2)).vector_len()), DecodeErrorKind::NegativeLength { len: -2 });
    let limited = Reader::with_limit(field(11), 10).buffer();
    assert_eq!(kind(limited), DecodeErrorKind::TooLong { len: 11, limit: 10 });
    assert_eq!(kind(Reader::with_limit(field(10), 10).buffer()), DecodeErrorKind::Eof { needed: 10 });
}

#[test]
fn a_buffer_shares_the_bytes_it_was_read_from() {
    let bytes = Writer::build(|w| w.buffer(Some(DATA)));
    let data = Reader::new(bytes.clone()).buffer().expect("a buffer").expect("not null");
    assert_eq!(data.as_ptr(), bytes[4..].as_ptr());
}

/// A multi of the given operations, written without regard to what may be in one.
fn multi(ops: &[Request]) -> Bytes {
    Writer::build(|w| Request::Multi(ops.to_vec()).encode(w))
}

#[test]
fn a_multi_refuses_the_other_kind_foreign_operations_and_multis() {
    let read = Request::GetData { path: text("/a"), watch: false };
    let write = Request::Delete { path: text("/a"), version: -1 };
    let bad = |value| DecodeErrorKind::BadValue { what: "type of operation in multi", value };
    let decode = |op, ops: &[Request]| kind(Request::decode(op, &mut Reader::new(multi(ops))));
    assert_eq!(decode(OpCode::Multi, &[write.clone(), read.clone()]), bad(4));
    assert_eq!(decode(OpCode::MultiRead, &[read, write]), bad(2));
    assert_eq!(decode(OpCode::Multi, &[Request::Sync { path: text("/a") }]), bad(9));
    assert_eq!(decode(OpCode::Multi, &[Request::Multi(vec![])]), bad(14));
}

/// What a multi of one create holds once it is read: its kind and its time to live.
fn settle(op: OpCode, flags: i32, ttl: i64, acl: Option<Vec<Acl>>) -> Result<(OpCode, i64), DecodeError> {
    let create = CreateRequest { op, path: text("/a"), data: None, acl, flags, ttl };
    let decoded = Request::decode(OpCode::Multi, &mut Reader::new(multi(&[Request::Create(create)])))?;
    let Request::Multi(ops) = decoded else { panic!("not a multi: {decoded:?}") };
    let [Request::Create(create)] = ops.as_slice() else { panic!("not one create: {ops:?}") };
    Ok((create.op, create.ttl))
}

#[test]
fn in_a_multi_the_mode_decides_what_a_create_is() {
    let settle = |op, flags, ttl| settle(op, flags, ttl, Some(vec![]));
    assert_eq!(settle(OpCode::Create2, 0, 0), Ok((OpCode::Create2, 0)));
    assert_eq!(settle(OpCode::Create, 4, 0), Ok((OpCode::CreateContainer, 0)));
    assert_eq!(settle(OpCode::CreateTtl, 4, 9), Ok((OpCode::CreateContainer, 0)));
    assert_eq!(settle(OpCode::CreateTtl, 6, 9), Ok((OpCode::CreateTtl, 9)));
    assert_eq!(settle(OpCode::CreateTtl, 1, 9), Ok((OpCode::Create, 0)));
    assert_eq!(settle(OpCode::CreateTtl, 7, 9), Ok((OpCode::Create, 0)));
}

#[test]
fn in_a_multi_an_undefined_mode_and_a_ttl_mode_without_a_ttl_spoil_the_request() {
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
        for flags in [5, 6, 7, -1] {
            let wrong = DecodeErrorKind::BadValue { what: "create mode", value: flags.into() };
            assert_eq!(kind(settle(op, flags, 0, Some(vec![]))), wrong, "{op:?} {flags}");
        }
    }
}

#[test]
fn in_a_multi_a_null_acl_spoils_the_request_unless_the_create_has_a_ttl() {
    let null = DecodeErrorKind::Null { what: "acl of a create in a multi" };
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
        for flags in [0, 3, 4] {
            assert_eq!(kind(settle(op, flags, 0, None)), null, "{op:?} {flags}");
        }
    }
    assert_eq!(settle(OpCode::CreateTtl, 5, 9, None), Ok((OpCode::CreateTtl, 9)));
    assert_eq!(settle(OpCode::CreateTtl, 0, 9, None), Ok((OpCode::Create, 0)));
}

#[test]
fn a_packet_of_unknown_type_or_above_the_limit_is_refused_before_it_is_all_there() {
    let unknown = DecodeErrorKind::BadValue { what: "packet type", value: 20 };
    assert_eq!(kind(QuorumPacket::try_decode(&20_i32.to_be_bytes())), unknown);
    let mut head = Vec::new();
    let mut w = Writer::new(&mut head);
    w.i32(2);
    w.i64(1);
    w.i32(1000);
    assert_eq!(QuorumPacket::try_decode_limited(&head, 1016), Ok(None));
    let long = DecodeErrorKind::TooLong { len: 1016, limit: 1015 };
    assert_eq!(kind(QuorumPacket::try_decode_limited(&head, 1015)), long);
}

#[test]
fn a_snapshot_record_above_the_limit_is_refused_with_its_place_in_the_stream() {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.i32(0);
    w.i32(0);
    w.string("/a");
    w.i32(1000);
    let mut decoder = SnapshotDecoder::with_limit(500);
    decoder.push(&bytes);
    assert!(decoder.next().is_ok_and(|piece| piece.is_some()));
    let error = decoder.next().expect_err("too long");
    assert_eq!((error.offset, error.kind), (18, DecodeErrorKind::TooLong { len: 1010, limit: 500 }));
}

#[test]
fn election_frames_are_bounded_and_whole() {
    let mut framed = Vec::new();
    frame(b"vote", &mut framed);
    assert_eq!(framed, b"\0\0\0\x04vote");
    assert_eq!(try_unframe(&framed[..7]), Ok(None));
    framed.push(9);
    assert_eq!(try_unframe(&framed), Ok(Some((Bytes::from_static(b"vote"), 8))));
    let too_long = DecodeErrorKind::TooLong { len: 524_289, limit: 524_288 };
    assert_eq!(kind(try_unframe(&524_289_i32.to_be_bytes())), too_long);
    assert_eq!(try_unframe(&524_288_i32.to_be_bytes()), Ok(None));
    assert!(try_unframe(&[0; 4]).is_err() && try_unframe(&[0xff; 4]).is_err());
}

#[test]
fn a_notification_must_have_all_that_its_form_promises() {
    let whole = golden("notification");
    for len in (0..whole.len()).filter(|len| ![28, 40].contains(len)) {
        assert!(Notification::decode(whole.slice(..len)).is_err(), "{len} bytes");
    }
    // Upstream shifts a signed zxid, so "no history" stays -1 in the form without peer epoch.
    let mut old = golden("notification-28").to_vec();
    old[12..20].copy_from_slice(&(-1_i64).to_be_bytes());
    let vote = Notification::decode(Bytes::from(old)).expect("a vote");
    assert_eq!((vote.zxid, vote.peer_epoch), (Zxid::NONE, -1));
}

#[test]
fn an_initial_message_with_bad_addresses_is_refused() {
    let message = |version: i64, addresses: &str| {
        let bytes = Writer::build(|w| {
            w.i64(version);
            w.i64(3);
            w.buffer(Some(addresses.as_bytes()));
        });
        InitialMessage::try_decode(&bytes).map(|found| found.map(|(message, _)| message.addresses.len()))
    };
    assert_eq!(message(-65535, "a:1|b:2|"), Ok(Some(2)));
    for bad in ["a", ":1", "a:", "a:70000", "a:b", "fd00::1:3888", "[]:1", "a:1||b:2", "|"] {
        assert!(message(-65535, bad).is_err(), "{bad}");
    }
    assert!(message(-65534, "a:1").is_err());
    assert!(message(-65536, "").is_err());
    assert!(message(-65536, &"a".repeat(2049)).is_err());
}
