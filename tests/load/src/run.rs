//! `run`: a closed loop. Every session keeps `depth` requests in flight; a reply is followed by the next request.
//!
//! One thread and one poll over all sessions, so that the tool takes little of the machine it measures on.
//! Latency is from the moment a request is queued to the moment its reply has been read.

use crate::histogram::Histogram;
use crate::process;
use crate::rng::Rng;
use crate::session::Session;
use crate::wire;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes taken from a socket at once.
const CHUNK_LEN: usize = 64 << 10;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    Get,
    Set,
    Create,
    /// Reads and writes by `--read-percent`.
    Mixed,
}

#[derive(Args)]
pub(crate) struct Options {
    /// Servers, as ip:port, by comma; sessions are spread over them.
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) servers: Vec<SocketAddr>,
    #[arg(long, value_enum, default_value = "set")]
    op: Operation,
    #[arg(long, default_value_t = 16)]
    sessions: usize,
    /// Requests in flight on each session.
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Bytes of data of a node.
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// Nodes that reads and writes are spread over.
    #[arg(long, default_value_t = 1000)]
    keys: u64,
    /// Seconds measured.
    #[arg(long, default_value_t = 5.0)]
    secs: f64,
    /// Seconds of load before measuring.
    #[arg(long, default_value_t = 1.0)]
    warm: f64,
    /// Stop after so many operations instead of by time; 0 means by time.
    #[arg(long, default_value_t = 0)]
    count: u64,
    #[arg(long, default_value_t = 90)]
    read_percent: u64,
    /// The servers' process ids, by comma, for CPU and memory.
    #[arg(long, value_delimiter = ',')]
    pids: Vec<u32>,
}

/// The result, printed as JSON.
#[derive(Serialize)]
pub(crate) struct Report {
    op: Operation,
    size: usize,
    sessions: usize,
    depth: usize,
    secs: f64,
    ops: u64,
    errors: u64,
    lost_sessions: usize,
    ops_per_sec: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    server_cpu_secs_per_kop: f64,
    own_cpu_secs_per_kop: f64,
    /// Cores that neither the servers nor this tool used: how quiet the machine was.
    other_cores: f64,
    rss_kib: Vec<u64>,
}

/// Runs the load.
///
/// # Errors
/// When a server cannot be reached at the start, or all sessions are lost.
pub(crate) fn run(options: &Options) -> Result<Report> {
    ensure!(
        options.sessions > 0 && options.depth > 0 && options.keys > 0,
        "sessions, depth and keys are at least 1"
    );
    let data: Vec<u8> = {
        let mut rng = Rng::new(88_172_645_463_325_252);
        (0..options.size).map(|_| b'a' + rng.below(26) as u8).collect()
    };
    prepare(options, &data)?;
    Load::open(options, data)?.drive()
}

/// Makes the nodes that the load reads and writes.
fn prepare(options: &Options, data: &[u8]) -> Result<()> {
    let mut session = Session::open(options.servers[0])?;
    for parent in ["/zkload", "/zkload/c"] {
        session.call(|out, xid| wire::create(out, xid, parent, b""))?;
    }
    if options.op == Operation::Create {
        for i in 0..options.sessions {
            let parent = create_parent(i);
            session.call(|out, xid| wire::create(out, xid, &parent, b""))?;
        }
    } else {
        let keys: Vec<u64> = (0..options.keys).collect();
        for batch in keys.chunks(100) {
            session
                .call_many(batch.len(), |out, xid, i| wire::create(out, xid, &key_path(batch[i]), data))?;
            session
                .call_many(batch.len(), |out, xid, i| wire::set_data(out, xid, &key_path(batch[i]), data))?;
        }
    }
    session.close();
    Ok(())
}

fn key_path(key: u64) -> String {
    format!("/zkload/k{key}")
}

/// Each run creates below its own parents, so runs do not collide.
fn create_parent(session: usize) -> String {
    format!("/zkload/c/{}-{session}", std::process::id())
}

/// One session of the load.
struct Lane {
    stream: TcpStream,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// When each request in flight was queued and whether it is a read, oldest first: at most `depth`.
    flight: VecDeque<(Instant, bool)>,
    xid: i32,
    created: u64,
    wants_write: bool,
    open: bool,
}

struct Load<'a> {
    options: &'a Options,
    data: Vec<u8>,
    poll: Poll,
    lanes: Vec<Lane>,
    /// Where sockets are read into.
    chunk: Vec<u8>,
    rng: Rng,
    issued: u64,
    tally: Tally,
}

/// What is counted between the start of measuring and its end.
struct Tally {
    latency: Histogram,
    errors: u64,
    since: Instant,
    server_cpu: f64,
    own_cpu: f64,
    busy: f64,
}

impl Tally {
    fn start(pids: &[u32]) -> Result<Self> {
        Ok(Self {
            latency: Histogram::new(),
            errors: 0,
            since: Instant::now(),
            server_cpu: process::cpu_seconds(pids)?,
            own_cpu: process::cpu_seconds(&[std::process::id()])?,
            busy: process::machine_busy_seconds()?,
        })
    }
}

impl<'a> Load<'a> {
    fn open(options: &'a Options, data: Vec<u8>) -> Result<Self> {
        let poll = Poll::new()?;
        let mut lanes = Vec::with_capacity(options.sessions);
        for i in 0..options.sessions {
            let session = Session::open(options.servers[i % options.servers.len()])?;
            let socket = session.into_stream();
            socket.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(socket);
            poll.registry().register(&mut stream, Token(i), Interest::READABLE | Interest::WRITABLE)?;
            lanes.push(Lane {
                stream,
                out: Vec::new(),
                sent: 0,
                input: Vec::new(),
                flight: VecDeque::with_capacity(options.depth),
                xid: 0,
                created: 0,
                wants_write: false,
                open: true,
            });
        }
        let tally = Tally::start(&options.pids)?;
        Ok(Self {
            options,
            data,
            poll,
            lanes,
            chunk: vec![0; CHUNK_LEN],
            rng: Rng::new(0x9E37_79B9_7F4A_7C15),
            issued: 0,
            tally,
        })
    }

    fn drive(mut self) -> Result<Report> {
        let warm_until = Instant::now() + Duration::from_secs_f64(self.options.warm);
        let end = warm_until + Duration::from_secs_f64(self.options.secs);
        let mut measuring = self.options.count > 0;
        for i in 0..self.lanes.len() {
            self.issue(i)?;
        }
        let mut events = Events::with_capacity(1024);
        loop {
            match self.poll.poll(&mut events, Some(Duration::from_millis(50))) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            let now = Instant::now();
            if !measuring && now >= warm_until {
                measuring = true;
                self.tally = Tally::start(&self.options.pids)?;
            }
            for event in &events {
                self.serve(event.token().0)?;
            }
            if self.is_over(now, end) {
                return self.report();
            }
            ensure!(self.lanes.iter().any(|lane| lane.open), "the servers closed all sessions");
        }
    }

    fn is_over(&self, now: Instant, end: Instant) -> bool {
        if self.options.count == 0 {
            return now >= end;
        }
        self.issued >= self.options.count
            && self.lanes.iter().all(|lane| !lane.open || lane.flight.is_empty())
    }

    /// Fills session `i` up to its depth and sends.
    fn issue(&mut self, i: usize) -> Result<()> {
        let now = Instant::now();
        while self.lanes[i].flight.len() < self.options.depth {
            if self.options.count > 0 && self.issued >= self.options.count {
                break;
            }
            self.issued += 1;
            let read = self.queue_request(i);
            self.lanes[i].flight.push_back((now, read));
        }
        self.lanes[i].flush()
    }

    /// Queues the next request of session `i`; returns whether it is a read.
    fn queue_request(&mut self, i: usize) -> bool {
        let key = self.rng.below(self.options.keys);
        let read = match self.options.op {
            Operation::Get => true,
            Operation::Set | Operation::Create => false,
            Operation::Mixed => self.rng.below(100) < self.options.read_percent,
        };
        let lane = &mut self.lanes[i];
        lane.xid = lane.xid.checked_add(1).unwrap_or(1);
        if read {
            wire::get_data(&mut lane.out, lane.xid, &key_path(key));
        } else if self.options.op == Operation::Create {
            lane.created += 1;
            let path = format!("{}/n{}", create_parent(i), lane.created);
            wire::create(&mut lane.out, lane.xid, &path, &self.data);
        } else {
            wire::set_data(&mut lane.out, lane.xid, &key_path(key), &self.data);
        }
        read
    }

    /// Reads all that session `i` has, files the replies, and sends what follows.
    fn serve(&mut self, i: usize) -> Result<()> {
        let lane = &mut self.lanes[i];
        if !lane.open {
            return Ok(());
        }
        lane.fill(&mut self.chunk)?;
        let now = Instant::now();
        let mut at = 0;
        while let Some(length) = wire::whole_frame(&lane.input[at..]) {
            let body = &lane.input[at + 4..at + 4 + length];
            at += 4 + length;
            let reply = wire::reply(body).context("a reply without its header")?;
            if reply.xid < 0 {
                continue;
            }
            let (queued, read) = lane.flight.pop_front().context("a reply to no request")?;
            // A server that answers without the data would look fast.
            let short = read && length != wire::get_data_reply_len(self.options.size);
            self.tally.latency.add(now.duration_since(queued).as_micros() as u64);
            self.tally.errors += u64::from(reply.error != 0 || short);
        }
        lane.input.drain(..at);
        if self.lanes[i].open { self.issue(i) } else { Ok(()) }
    }

    fn report(&self) -> Result<Report> {
        let (tally, options) = (&self.tally, self.options);
        let secs = tally.since.elapsed().as_secs_f64();
        let ops = tally.latency.count();
        let server_cpu = process::cpu_seconds(&options.pids)? - tally.server_cpu;
        let own_cpu = process::cpu_seconds(&[std::process::id()])? - tally.own_cpu;
        let busy = process::machine_busy_seconds()? - tally.busy;
        let per_kop = 1000.0 / ops.max(1) as f64;
        Ok(Report {
            op: options.op,
            size: options.size,
            sessions: options.sessions,
            depth: options.depth,
            secs,
            ops,
            errors: tally.errors,
            lost_sessions: self.lanes.iter().filter(|lane| !lane.open).count(),
            ops_per_sec: ops as f64 / secs,
            p50_ms: tally.latency.quantile_ms(0.5),
            p99_ms: tally.latency.quantile_ms(0.99),
            p999_ms: tally.latency.quantile_ms(0.999),
            max_ms: tally.latency.max_ms(),
            server_cpu_secs_per_kop: server_cpu * per_kop,
            own_cpu_secs_per_kop: own_cpu * per_kop,
            other_cores: ((busy - server_cpu - own_cpu) / secs).max(0.0),
            rss_kib: process::resident_kib(&options.pids)?,
        })
    }
}

impl Lane {
    /// Reads until the socket is empty: the poll is edge-triggered.
    fn fill(&mut self, chunk: &mut [u8]) -> Result<()> {
        if self.wants_write {
            self.flush()?;
        }
        loop {
            match self.stream.read(chunk) {
                Ok(0) => {
                    self.open = false;
                    return Ok(());
                }
                Ok(n) => {
                    self.input.extend_from_slice(&chunk[..n]);
                    if n < chunk.len() {
                        return Ok(()); // a short read emptied the socket, and what comes later is a new edge
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.open = false;
                    return Ok(());
                }
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.wants_write = true;
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.open = false;
                    return Ok(());
                }
            }
        }
        self.out.clear();
        self.sent = 0;
        self.wants_write = false;
        Ok(())
    }
}
