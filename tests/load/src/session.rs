//! One session over a blocking connection: used to prepare nodes, to hand a connected socket to the event loop, and by the probe.

use crate::wire;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply larger than this is a broken frame: load reads nothing above a node's 1 MiB.
const FRAME_MAX: usize = 16 << 20;
/// A server that neither answers nor closes within this long is taken for gone.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What a session needs to be taken up again at another server.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) id: i64,
    pub(crate) password: Vec<u8>,
    pub(crate) last_zxid: i64,
}

impl Identity {
    /// A session that does not exist yet.
    pub(crate) fn new() -> Self {
        Self { id: 0, password: vec![0; wire::PASSWORD_LEN], last_zxid: 0 }
    }
}

/// How connecting ended.
pub(crate) enum Connected {
    Session(Session),
    /// The server answered that the session is gone.
    Expired,
}

/// A connected session.
pub(crate) struct Session {
    stream: TcpStream,
    pub(crate) identity: Identity,
    xid: i32,
}

impl Session {
    /// Connects to `server` and opens or takes up a session. `timeout_ms` is the session timeout to propose.
    ///
    /// # Errors
    /// When the server cannot be reached, closes, or answers with less than a `ConnectResponse`.
    pub(crate) fn connect(server: SocketAddr, timeout_ms: i32, from: &Identity) -> Result<Connected> {
        let mut stream =
            TcpStream::connect_timeout(&server, CONNECT_TIMEOUT).with_context(|| server.to_string())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut out = Vec::new();
        wire::connect(&mut out, timeout_ms, from.id, &from.password, from.last_zxid);
        stream.write_all(&out)?;
        let body = read_frame(&mut stream)?;
        let (Some(id), Some(password)) = (body.get(8..16), body.get(20..20 + wire::PASSWORD_LEN)) else {
            bail!("{server}: a connect response of {} bytes", body.len());
        };
        let id = i64::from_be_bytes(id.try_into().expect("eight bytes"));
        if id == 0 {
            return Ok(Connected::Expired);
        }
        let identity = Identity { id, password: password.to_vec(), last_zxid: from.last_zxid };
        Ok(Connected::Session(Self { stream, identity, xid: 0 }))
    }

    /// A new session, of 30 s.
    pub(crate) fn open(server: SocketAddr) -> Result<Self> {
        match Self::connect(server, 30_000, &Identity::new())? {
            Connected::Session(session) => Ok(session),
            Connected::Expired => bail!("{server} refused a new session"),
        }
    }

    /// Sends one request and waits for its reply; returns the error code of the reply.
    pub(crate) fn call(&mut self, mut build: impl FnMut(&mut Vec<u8>, i32)) -> Result<i32> {
        self.call_many(1, |out, xid, _| build(out, xid)).map(|errors| errors[0])
    }

    /// Sends `count` requests at once and waits for all replies; returns their error codes in order.
    pub(crate) fn call_many(
        &mut self,
        count: usize,
        mut build: impl FnMut(&mut Vec<u8>, i32, usize),
    ) -> Result<Vec<i32>> {
        let mut out = Vec::new();
        for i in 0..count {
            self.xid += 1;
            build(&mut out, self.xid, i);
        }
        self.stream.write_all(&out)?;
        let mut errors = Vec::with_capacity(count);
        while errors.len() < count {
            let body = read_frame(&mut self.stream)?;
            let reply = wire::reply(&body).context("a reply without its header")?;
            if reply.xid < 0 {
                continue; // an event or the answer to a ping
            }
            self.identity.last_zxid = self.identity.last_zxid.max(reply.zxid);
            errors.push(reply.error);
        }
        Ok(errors)
    }

    /// Ends the session at the server; how that goes is of no interest, since a session left over expires.
    pub(crate) fn close(mut self) {
        let _ignored = self.call(wire::close_session);
    }

    /// The connected socket, for an event loop; the next xid is free to choose, since servers do not check it.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

fn read_frame(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length = u32::from_be_bytes(header) as usize;
    if length > FRAME_MAX {
        bail!("a frame of {length} bytes, at most {FRAME_MAX} are believed");
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}
