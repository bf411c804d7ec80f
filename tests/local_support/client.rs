//! A client that writes one node after another, and keeps what was acknowledged.
//!
//! Written out by hand, down to the bytes: what checks the server should not share its codec.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const CREATE: i32 = 1;
const GET_DATA: i32 = 4;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const NODE_EXISTS: i32 = -110;
const SESSION_TIMEOUT_MS: i32 = 10_000;
/// Longest wait for one answer; then the writer goes to another member.
const PATIENCE: Duration = Duration::from_secs(5);

/// One session on one member.
pub struct Client {
    stream: TcpStream,
    xid: i32,
}

/// A reply: the zxid and error of its header, and its body.
struct Reply {
    zxid: i64,
    error: i32,
    body: Vec<u8>,
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).expect("short").to_be_bytes());
    out.extend(bytes);
}

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn closed() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}

impl Client {
    /// Connects with a new session.
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut client = Self { stream, xid: 0 };
        let mut hello = [0u8; 12].to_vec();
        hello.extend(SESSION_TIMEOUT_MS.to_be_bytes());
        hello.extend([0u8; 8]);
        text(&mut hello, &[0u8; 16]);
        hello.push(0);
        client.send(&hello)?;
        let answer = client.receive()?;
        // A timeout of zero is a session that was refused.
        if answer.len() < 8 || int(&answer, 4) <= 0 { Err(closed()) } else { Ok(client) }
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        let mut framed = Vec::with_capacity(packet.len() + 4);
        text(&mut framed, packet);
        self.stream.write_all(&framed)
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0u8; 4];
        self.stream.read_exact(&mut length)?;
        let mut packet = vec![0u8; usize::try_from(u32::from_be_bytes(length)).expect("a length")];
        self.stream.read_exact(&mut packet)?;
        Ok(packet)
    }

    fn ask(&mut self, kind: i32, body: &[u8]) -> io::Result<Reply> {
        self.xid += 1;
        let mut packet = [self.xid.to_be_bytes(), kind.to_be_bytes()].concat();
        packet.extend(body);
        self.send(&packet)?;
        let answer = self.receive()?;
        if answer.len() < 16 || int(&answer, 0) != self.xid {
            return Err(closed());
        }
        Ok(Reply { zxid: long(&answer, 4), error: int(&answer, 12), body: answer[16..].to_vec() })
    }

    fn create(&mut self, path: &str, data: &str) -> io::Result<Reply> {
        let mut body = Vec::new();
        text(&mut body, path.as_bytes());
        text(&mut body, data.as_bytes());
        body.extend(1i32.to_be_bytes());
        body.extend(31i32.to_be_bytes());
        text(&mut body, b"world");
        text(&mut body, b"anyone");
        body.extend(0i32.to_be_bytes());
        self.ask(CREATE, &body)
    }

    /// Creates a node, and expects it to work.
    pub fn must_create(&mut self, path: &str, data: &str) {
        assert_eq!(self.create(path, data).expect("an answer").error, 0, "create {path}");
    }

    /// Has the member catch up with the leader.
    pub fn sync(&mut self) {
        let mut body = Vec::new();
        text(&mut body, b"/");
        assert_eq!(self.ask(SYNC, &body).expect("an answer").error, 0, "sync");
    }

    /// Data and czxid of a node.
    pub fn get(&mut self, path: &str) -> (String, i64) {
        let mut body = Vec::new();
        text(&mut body, path.as_bytes());
        body.push(0);
        let reply = self.ask(GET_DATA, &body).expect("an answer");
        assert_eq!(reply.error, 0, "get {path}");
        let end = 4 + usize::try_from(int(&reply.body, 0)).expect("a length");
        (String::from_utf8_lossy(&reply.body[4..end]).into_owned(), long(&reply.body, end))
    }

    /// Number of children of a node.
    pub fn children(&mut self, path: &str) -> usize {
        let mut body = Vec::new();
        text(&mut body, path.as_bytes());
        body.push(0);
        let reply = self.ask(GET_CHILDREN, &body).expect("an answer");
        assert_eq!(reply.error, 0, "children of {path}");
        usize::try_from(int(&reply.body, 0)).expect("a count")
    }
}

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// zxid of the acknowledgement; none when only a second try found that the first one had worked.
    zxid: Option<i64>,
}

/// Writes `/history/N` for N = 0, 1, ... from a thread of its own, each until it is acknowledged by some member.
pub struct Writer {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Written>>,
}

impl Writer {
    /// Starts to write to the members on `ports`.
    pub fn start(ports: Vec<u16>) -> Self {
        Client::connect(ports[0]).expect("a member serves").must_create("/history", "");
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            let mut written = Vec::new();
            let mut members = ports.iter().cycle();
            let mut client = None;
            while !stopped.load(Ordering::Relaxed) {
                match write(written.len(), &mut members, &mut client, &stopped) {
                    Some(one) => written.push(one),
                    None => break,
                }
                counted.store(written.len(), Ordering::Relaxed);
                // Work for the test, not load on the machine.
                std::thread::sleep(Duration::from_millis(2));
            }
            written
        });
        Self { stop, count, thread }
    }

    /// Writes acknowledged so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Stops writing; answers every acknowledged write, in order.
    pub fn stop(self) -> Vec<Written> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the writer found nothing wrong")
    }
}

/// Writes node `n`; none when told to stop meanwhile.
fn write<'a>(
    n: usize,
    members: &mut impl Iterator<Item = &'a u16>,
    client: &mut Option<Client>,
    stop: &AtomicBool,
) -> Option<Written> {
    let mut tried = false;
    loop {
        if client.is_none() {
            *client = members.next().and_then(|port| Client::connect(*port).ok());
        }
        if let Some(session) = client {
            match session.create(&path(n), &n.to_string()) {
                Ok(reply) if reply.error == 0 => return Some(Written { zxid: Some(reply.zxid) }),
                Ok(reply) if reply.error == NODE_EXISTS => {
                    assert!(tried, "node {n} exists and was never written");
                    return Some(Written { zxid: None });
                }
                Ok(_) | Err(_) => tried = true,
            }
        }
        *client = None;
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn path(n: usize) -> String {
    format!("/history/{n:06}")
}

/// Checks that the member on `port` has every acknowledged write, as it was written and in that order. At most one node
/// more may be there: the one that was under way.
pub fn check_history(port: u16, written: &[Written]) {
    let mut client = Client::connect(port).expect("the member serves");
    client.sync();
    let children = client.children("/history");
    assert!((written.len()..=written.len() + 1).contains(&children), "{children} of {}", written.len());
    let mut last = 0;
    for (n, one) in written.iter().enumerate() {
        let (data, czxid) = client.get(&path(n));
        assert_eq!(data, n.to_string(), "node {n} on port {port}");
        assert!(czxid > last, "node {n} on port {port}: {czxid:#x} is not after {last:#x}");
        assert!(
            one.zxid.is_none_or(|zxid| zxid == czxid),
            "node {n} on port {port}: {one:?} is at {czxid:#x}"
        );
        last = czxid;
    }
}
