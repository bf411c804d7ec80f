//! A blocking client that speaks the wire protocol through the same codec as the server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use zk_jute::records::Acl;
use zk_jute::request::{
    ConnectRequest, ConnectResponse, CreateRequest, ReplyHeader, Request, RequestHeader, Response, xid,
};
use zk_jute::{OpCode, Reader, Writer};

/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// One answer.
#[derive(Debug)]
pub struct Reply {
    pub header: ReplyHeader,
    pub body: Bytes,
}

/// One session.
pub struct Client {
    stream: TcpStream,
    next_xid: i32,
    pub session: i64,
    pub password: Bytes,
}

impl Client {
    /// Connects and opens a session.
    pub fn connect(port: u16) -> io::Result<Self> {
        Self::resume(port, 0, Bytes::from(vec![0; 16]), 0)
    }

    /// Connects as soon as the server serves.
    pub fn connect_within(port: u16, limit: Duration) -> Self {
        let began = Instant::now();
        loop {
            match Self::connect(port) {
                Ok(client) => return client,
                Err(error) if began.elapsed() > limit => {
                    panic!("no session on port {port} in {limit:?}: {error}")
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Resumes a session.
    pub fn resume(port: u16, session: i64, password: Bytes, last_zxid_seen: i64) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let mut client = Self { stream, next_xid: 1, session, password };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen,
            timeout_ms: 30_000,
            session_id: session,
            password: client.password.clone(),
            read_only: Some(false),
        };
        client.send_frame(&Writer::build(|w| request.encode(w)))?;
        let response =
            ConnectResponse::decode(&mut Reader::new(client.read_frame()?)).map_err(io::Error::other)?;
        if response.timeout_ms == 0 {
            return Err(io::Error::other("the session is not known"));
        }
        client.session = response.session_id;
        client.password = response.password;
        Ok(client)
    }

    /// Sends without waiting; the xid.
    pub fn send(&mut self, op: OpCode, request: &Request) -> io::Result<i32> {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.send_with_xid(xid, op, request)?;
        Ok(xid)
    }

    fn send_with_xid(&mut self, xid: i32, op: OpCode, request: &Request) -> io::Result<()> {
        let header = RequestHeader { xid, op: op as i32 };
        self.send_frame(&Writer::build(|w| {
            header.encode(w);
            request.encode(w);
        }))
    }

    fn send_frame(&mut self, body: &[u8]) -> io::Result<()> {
        let mut frame = u32::try_from(body.len()).expect("small").to_be_bytes().to_vec();
        frame.extend_from_slice(body);
        self.stream.write_all(&frame)
    }

    /// The next frame, whatever it is.
    pub fn read_frame(&mut self) -> io::Result<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body)?;
        Ok(body.into())
    }

    /// The next reply or event.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut reader = Reader::new(self.read_frame()?);
        let header = ReplyHeader::decode(&mut reader).map_err(io::Error::other)?;
        Ok(Reply { header, body: reader.rest() })
    }

    /// Sends and waits; an error code is an error.
    pub fn call(&mut self, op: OpCode, request: &Request) -> io::Result<Response> {
        let xid = self.send(op, request)?;
        let reply = self.receive()?;
        assert_eq!(reply.header.xid, xid, "replies come in order");
        if reply.header.err != 0 {
            return Err(io::Error::other(format!("error {}", reply.header.err)));
        }
        Response::decode(op, &mut Reader::new(reply.body)).map_err(io::Error::other)
    }

    pub fn ping(&mut self) -> io::Result<()> {
        self.send_with_xid(xid::PING, OpCode::Ping, &Request::Ping)?;
        let reply = self.receive()?;
        assert_eq!(reply.header.xid, xid::PING);
        Ok(())
    }

    pub fn create(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        self.call(OpCode::Create, &create_request(path, data, 0)).map(|_| ())
    }

    pub fn create_ephemeral(&mut self, path: &str) -> io::Result<()> {
        self.call(OpCode::Create, &create_request(path, b"", 1)).map(|_| ())
    }

    pub fn set(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        self.call(OpCode::SetData, &set_request(path, data)).map(|_| ())
    }

    pub fn get(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let request = Request::GetData { path: path.into(), watch: false };
        match self.call(OpCode::GetData, &request)? {
            Response::Data(data, _) => Ok(data.unwrap_or_default().to_vec()),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    pub fn children(&mut self, path: &str) -> io::Result<Vec<String>> {
        let request = Request::GetChildren { path: path.into(), watch: false };
        match self.call(OpCode::GetChildren, &request)? {
            Response::Children(names) => Ok(names.iter().map(ToString::to_string).collect()),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    pub fn sync(&mut self, path: &str) -> io::Result<()> {
        self.call(OpCode::Sync, &Request::Sync { path: path.into() }).map(|_| ())
    }

    /// Ends the session; the server then closes the connection.
    pub fn close(mut self) -> io::Result<()> {
        self.call(OpCode::CloseSession, &Request::CloseSession)?;
        match self.stream.read(&mut [0; 1])? {
            0 => Ok(()),
            _ => Err(io::Error::other("data after the end of the session")),
        }
    }

    /// Raw bytes, for what no client should send.
    pub fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }
}

pub fn create_request(path: &str, data: &[u8], flags: i32) -> Request {
    Request::Create(CreateRequest {
        op: OpCode::Create,
        path: path.into(),
        data: Some(Bytes::copy_from_slice(data)),
        acl: Some(vec![Acl::open()]),
        flags,
        ttl: 0,
    })
}

pub fn set_request(path: &str, data: &[u8]) -> Request {
    Request::SetData { path: path.into(), data: Some(Bytes::copy_from_slice(data)), version: -1 }
}

/// What a server answers to raw bytes before it closes the connection.
pub fn raw_exchange(port: u16, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => Ok(answer),
        // A reset is an end too.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(answer),
        Err(error) => Err(error),
    }
}

/// A four-letter word's answer.
pub fn word(port: u16, word: &str) -> String {
    String::from_utf8(raw_exchange(port, word.as_bytes()).expect(word)).expect("text")
}

/// `GET path` on the admin port, as JSON.
pub fn admin(port: u16, path: &str) -> io::Result<serde_json::Value> {
    let text = http_get(port, path)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// Body of `GET path`.
pub fn http_get(port: u16, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let answer = String::from_utf8(raw_exchange(port, request.as_bytes())?).map_err(io::Error::other)?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("no HTTP answer"))?;
    Ok(body.to_owned())
}
