//! A connection with the real tree and watches behind it; the core is played by [`Rig::apply`] and pushed messages.

mod bounds;
mod handshake;
mod order;
mod requests;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use zk_jute::records::Acl;
use zk_jute::request::{ConnectRequest, ReplyHeader, Request, RequestHeader, Response, WatcherEvent};
use zk_jute::txn::{LoggedTxn, Txn, TxnHeader};
use zk_jute::{OpCode, Reader, SessionId, Writer, Zxid};

use super::{ClientConfig, ClientConn};
use crate::Shared;
use crate::config::Rules;
use crate::effect::ClientMessage;
use crate::input::{ClientCommand, ClientRequest, ConnId};
use crate::time::{Instant, Now};

const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);
const CONN: ConnId = ConnId(7);

struct Rig {
    shared: Arc<Shared>,
    conn: ClientConn,
    input: BytesMut,
    now: Now,
    next: i64,
}

/// A packet to the client.
#[derive(Debug, PartialEq)]
enum Packet {
    Reply { xid: i32, zxid: i64, err: i32, body: Bytes },
    Event { zxid: i64, event: WatcherEvent },
}

impl Rig {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// Before the handshake.
    fn with(change: impl FnOnce(&mut ClientConfig)) -> Self {
        let shared = Shared::new();
        shared.set_serving(true);
        let mut config = ClientConfig::new(2000, Rules::default());
        change(&mut config);
        let now = Now { mono: Instant(5_000_000_000), wall_ms: 1_700_000_000_000 };
        let peer = "10.0.0.1".parse().expect("an address");
        let conn = ClientConn::new(CONN, peer, Arc::new(config), shared.clone(), now);
        Self { shared, conn, input: BytesMut::new(), now, next: 1 }
    }

    /// After the handshake, its response read.
    fn connected() -> Self {
        Self::connected_with(|_| {})
    }

    fn connected_with(change: impl FnOnce(&mut ClientConfig)) -> Self {
        let mut rig = Self::with(change);
        rig.connect(&connect_request());
        rig.commands();
        rig.push(ClientMessage::Established { session: SESSION, timeout_ms: 10_000 });
        rig.output();
        rig
    }

    fn connect(&mut self, request: &ConnectRequest) {
        self.feed(&Writer::build(|w| request.encode(w)));
    }

    /// One packet from the client.
    fn feed(&mut self, payload: &[u8]) {
        self.input.extend_from_slice(&i32::try_from(payload.len()).expect("small").to_be_bytes());
        self.input.extend_from_slice(payload);
        self.drive();
    }

    fn drive(&mut self) {
        self.conn.drive(self.now, &mut self.input);
    }

    fn send(&mut self, xid: i32, request: &Request) {
        self.send_raw(xid, request.op() as i32, &Writer::build(|w| request.encode(w)));
    }

    fn send_raw(&mut self, xid: i32, op: i32, body: &[u8]) {
        let payload = Writer::build(|w| {
            RequestHeader { xid, op }.encode(w);
            w.raw(body);
        });
        self.feed(&payload);
    }

    fn push(&mut self, message: ClientMessage) {
        self.conn.inbox().push(message);
        self.drive();
    }

    fn reply(&mut self, xid: i32, err: i32, response: Response) {
        let zxid = self.shared.tree.read().last_processed();
        self.push(ClientMessage::Reply { xid, zxid, err, response });
    }

    /// Commits a transaction; its events are in the inbox when this returns, as they are when the core releases the tree.
    fn apply(&mut self, op: OpCode, txn: Txn) -> Zxid {
        let zxid = Zxid(self.next);
        self.next += 1;
        apply(&self.shared, &self.conn.inbox(), zxid, op, txn);
        zxid
    }

    fn create(&mut self, path: &str) -> Zxid {
        self.apply(OpCode::Create, create_txn(path))
    }

    fn set(&mut self, path: &str) -> Zxid {
        self.apply(OpCode::SetData, Txn::SetData { path: path.into(), data: None, version: 1 })
    }

    fn commands(&mut self) -> Vec<ClientCommand> {
        self.conn.drain_commands().collect()
    }

    /// xids of the requests that went to the core since the last call.
    fn sent(&mut self) -> Vec<i32> {
        let request = |command| match command {
            ClientCommand::Request(ClientRequest { xid, .. }) => Some(xid),
            _ => None,
        };
        self.commands().into_iter().filter_map(request).collect()
    }

    /// Takes what is to be sent.
    fn output(&mut self) -> Bytes {
        let output = Bytes::copy_from_slice(self.conn.output());
        self.conn.consume_output(output.len());
        output
    }

    fn packets(&mut self) -> Vec<Packet> {
        parse_packets(&self.output())
    }

    /// xids of the packets since the last call; -1 is an event.
    fn xids(&mut self) -> Vec<i32> {
        let xid = |packet: &Packet| match packet {
            Packet::Reply { xid, .. } => *xid,
            Packet::Event { .. } => -1,
        };
        self.packets().iter().map(xid).collect()
    }

    fn only_reply(&mut self) -> (i32, i64, i32, Bytes) {
        let packets = self.packets();
        let [Packet::Reply { xid, zxid, err, body }] = &packets[..] else { panic!("one reply: {packets:?}") };
        (*xid, *zxid, *err, body.clone())
    }

    fn why_closed(&self) -> String {
        self.conn.closing().map(ToString::to_string).unwrap_or_default()
    }
}

fn apply(shared: &Shared, inbox: &super::Inbox, zxid: Zxid, op: OpCode, txn: Txn) {
    let header = TxnHeader { client_id: SESSION.0, cxid: 0, zxid, time: 0, op: op as i32 };
    let mut tree = shared.tree.write();
    let applied = tree.apply(&LoggedTxn::new(header, txn, None), &mut shared.watches.lock());
    assert_eq!(applied.err, 0);
    for (conn, event) in applied.events {
        assert_eq!(conn, CONN);
        inbox.push(ClientMessage::Event { zxid, event });
    }
}

fn create_txn(path: &str) -> Txn {
    let acl = vec![Acl::open()];
    Txn::Create { path: path.into(), data: None, acl, ephemeral: false, parent_cversion: -1 }
}

fn parse_packets(mut output: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some((length, rest)) = output.split_first_chunk::<4>() {
        let (packet, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        output = rest;
        let mut r = Reader::new(Bytes::copy_from_slice(packet));
        let ReplyHeader { xid, zxid, err } = ReplyHeader::decode(&mut r).expect("a header");
        packets.push(if xid == -1 {
            Packet::Event { zxid, event: WatcherEvent::decode(&mut r).expect("an event") }
        } else {
            Packet::Reply { xid, zxid, err, body: r.rest() }
        });
    }
    packets
}

fn connect_request() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 10_000,
        session_id: 0,
        password: Bytes::from_static(&[0; 16]),
        read_only: Some(false),
    }
}

fn get(path: &str, watch: bool) -> Request {
    Request::GetData { path: path.into(), watch }
}

fn set(path: &str) -> Request {
    Request::SetData { path: path.into(), data: None, version: -1 }
}
