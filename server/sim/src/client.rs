//! A simulated client: real frames out, real frames in, one session that it carries from member to member.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes, BytesMut};
use zk_jute::request::{ConnectRequest, ReplyHeader, Request, RequestHeader};
use zk_jute::{Epoch, SessionId, Writer, Zxid};

use crate::clock::Nanos;

/// Where the connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    Down,
    /// The connect request is on its way.
    Connecting,
    Up,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Pending {
    pub xid: i32,
    pub request: Request,
    /// Its record in the history; none for what the client library sends by itself.
    pub number: Option<usize>,
    /// End of the committed history when it was made.
    pub floor: Zxid,
    /// The latest epoch with an established leader at that time.
    pub epoch: Option<Epoch>,
    pub since: Nanos,
}

/// One client.
#[derive(Debug)]
pub struct SimClient {
    pub id: usize,
    /// 0 without a session.
    pub session: SessionId,
    pub password: Bytes,
    pub timeout_ms: i32,
    pub link: Link,
    /// The member it is, or was last, connected to.
    pub node: i64,
    /// Number of the current connection; what belongs to an older one is ignored.
    pub connection: u64,
    pub next_xid: i32,
    /// Bound: [`SimClient::PIPELINE`] requests and one SetWatches.
    pub pending: VecDeque<Pending>,
    /// Highest zxid seen in this session.
    pub last_zxid: i64,
    pub input: BytesMut,
    /// Latest arrival given out in each direction: a connection keeps its order.
    pub to_server: Nanos,
    pub to_client: Nanos,
    pub last_sent: Nanos,
    /// It does nothing until then, not even ping.
    pub stalled_until: Nanos,
    /// A scenario decides what it does.
    pub scripted: bool,
}

impl SimClient {
    /// Requests sent without waiting for an answer.
    pub const PIPELINE: usize = 3;

    /// A client without a session.
    pub fn new(id: usize, timeout_ms: i32) -> Self {
        Self {
            id,
            session: SessionId(0),
            password: Bytes::from_static(&[0; 16]),
            timeout_ms,
            link: Link::Down,
            node: 1,
            connection: 0,
            next_xid: 1,
            pending: VecDeque::new(),
            last_zxid: 0,
            input: BytesMut::new(),
            to_server: 0,
            to_client: 0,
            last_sent: 0,
            stalled_until: 0,
            scripted: false,
        }
    }

    /// Begins a connection to `node`; the bytes to send first.
    pub fn connect(&mut self, node: i64) -> Bytes {
        self.node = node;
        self.connection += 1;
        self.link = Link::Connecting;
        self.input.clear();
        frame(|w| {
            ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: self.last_zxid,
                timeout_ms: self.timeout_ms,
                session_id: self.session.0,
                password: self.password.clone(),
                read_only: Some(false),
            }
            .encode(w);
        })
    }

    /// The bytes of a request, with the next xid.
    pub fn request(&mut self, request: &Request) -> (i32, Bytes) {
        let xid = self.next_xid;
        self.next_xid += 1;
        (xid, request_frame(xid, request))
    }

    /// The next whole frame received.
    pub fn next_frame(&mut self) -> Option<Bytes> {
        let len = i32::from_be_bytes(*self.input.first_chunk::<4>()?);
        let len = usize::try_from(len).ok()?;
        if self.input.len() < 4 + len {
            return None;
        }
        self.input.advance(4);
        Some(self.input.split_to(len).freeze())
    }

    /// The session is gone: the next connection asks for a new one.
    pub fn forget_session(&mut self) {
        self.session = SessionId(0);
        self.password = Bytes::from_static(&[0; 16]);
        self.last_zxid = 0;
        self.next_xid = 1;
    }
}

/// The bytes of a request with a reserved or given xid.
pub fn request_frame(xid: i32, request: &Request) -> Bytes {
    frame(|w| {
        RequestHeader { xid, op: request.op() as i32 }.encode(w);
        request.encode(w);
    })
}

/// Splits a reply into its header and the body's reader.
pub fn reply_header(frame: Bytes) -> Result<(ReplyHeader, zk_jute::Reader), String> {
    let mut reader = zk_jute::Reader::new(frame);
    let header = ReplyHeader::decode(&mut reader).map_err(|error| format!("a reply's header: {error}"))?;
    Ok((header, reader))
}

fn frame(encode: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let body = Writer::build(encode);
    let len = i32::try_from(body.len()).expect("a client's frames are small");
    let mut framed = Vec::with_capacity(4 + body.len());
    framed.extend_from_slice(&len.to_be_bytes());
    framed.extend_from_slice(&body);
    Bytes::from(framed)
}
