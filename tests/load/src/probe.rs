//! `probe`: what a client sees while servers go away and come back.
//!
//! Each session does one operation at a time. When its server fails it moves to the next one with the same session, as client
//! libraries do. Counted are failed operations, expired sessions, and gaps: the time between two successes on a session.

use crate::session::{Connected, Identity, Session};
use crate::wire;
use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Pause before the next server is tried.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

#[derive(Args)]
pub(crate) struct Options {
    /// Servers, as ip:port, by comma.
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) servers: Vec<SocketAddr>,
    #[arg(long, default_value_t = 3)]
    sessions: usize,
    #[arg(long, default_value_t = 20.0)]
    secs: f64,
    /// Gaps of at least so many milliseconds are listed.
    #[arg(long, default_value_t = 100)]
    gap_ms: u64,
    /// Microseconds between operations of a session.
    #[arg(long, default_value_t = 2000)]
    pace_us: u64,
    /// Read instead of write.
    #[arg(long)]
    read: bool,
}

/// The result, printed as JSON.
#[derive(Serialize)]
pub(crate) struct Report {
    sessions: usize,
    secs: f64,
    ok: u64,
    failed: u64,
    connect_retries: u64,
    expired: u64,
    max_gap_ms: u64,
    /// Each gap: when it ended, since the start, and how long it was, in milliseconds.
    gaps: Vec<(u64, u64)>,
}

/// Runs the probe.
///
/// # Errors
/// When no server can be reached at the start.
pub(crate) fn probe(options: &Options) -> Result<Report> {
    let mut first = Session::open(options.servers[0])?;
    first.call(|out, xid| wire::create(out, xid, "/zkprobe", b""))?;
    for i in 0..options.sessions {
        first.call(|out, xid| wire::create(out, xid, &path(i), b""))?;
    }
    first.close();
    let start = Instant::now();
    let reports: Vec<Report> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..options.sessions)
            .map(|i| scope.spawn(move || Lane::new(options, i, start).drive()))
            .collect();
        lanes
            .into_iter()
            .map(|lane| lane.join().map_err(|_| anyhow!("a session's thread panicked")))
            .collect::<Result<_>>()
    })?;
    Ok(sum(options, start, reports))
}

fn path(session: usize) -> String {
    format!("/zkprobe/{session}")
}

fn sum(options: &Options, start: Instant, reports: Vec<Report>) -> Report {
    let mut total = Report::empty();
    total.sessions = options.sessions;
    total.secs = start.elapsed().as_secs_f64();
    for report in reports {
        total.ok += report.ok;
        total.failed += report.failed;
        total.connect_retries += report.connect_retries;
        total.expired += report.expired;
        total.max_gap_ms = total.max_gap_ms.max(report.max_gap_ms);
        total.gaps.extend(report.gaps);
    }
    total.gaps.sort_unstable();
    total
}

impl Report {
    fn empty() -> Self {
        Self {
            sessions: 1,
            secs: 0.0,
            ok: 0,
            failed: 0,
            connect_retries: 0,
            expired: 0,
            max_gap_ms: 0,
            gaps: Vec::new(),
        }
    }
}

/// One session of the probe.
struct Lane<'a> {
    options: &'a Options,
    index: usize,
    start: Instant,
    server: usize,
    identity: Identity,
    session: Option<Session>,
    last_ok: Instant,
    report: Report,
}

impl<'a> Lane<'a> {
    fn new(options: &'a Options, index: usize, start: Instant) -> Self {
        Self {
            options,
            index,
            start,
            server: index,
            identity: Identity::new(),
            session: None,
            last_ok: start,
            report: Report::empty(),
        }
    }

    fn drive(mut self) -> Report {
        let end = self.start + Duration::from_secs_f64(self.options.secs);
        while Instant::now() < end {
            match self.session.take() {
                None => self.connect(),
                Some(session) => self.operate(session),
            }
        }
        self.note_gap(); // one that lasts to the end counts too
        self.report
    }

    fn connect(&mut self) {
        let server = self.options.servers[self.server % self.options.servers.len()];
        match Session::connect(server, 10_000, &self.identity) {
            Ok(Connected::Session(session)) => {
                self.identity = session.identity.clone();
                self.session = Some(session);
            }
            Ok(Connected::Expired) => {
                // A server that cannot validate a new session answers alike: only a session that we had can expire.
                self.report.expired += u64::from(self.identity.id != 0);
                self.identity = Identity::new();
            }
            Err(_) => {
                self.report.connect_retries += 1;
                self.server += 1;
                thread::sleep(RETRY_PAUSE);
            }
        }
    }

    fn operate(&mut self, mut session: Session) {
        let (path, read) = (path(self.index), self.options.read);
        let outcome = session.call(|out, xid| {
            if read { wire::get_data(out, xid, &path) } else { wire::set_data(out, xid, &path, b"v") }
        });
        if matches!(outcome, Ok(0)) {
            self.report.ok += 1;
            self.note_gap();
            self.identity = session.identity.clone();
            self.session = Some(session);
            thread::sleep(Duration::from_micros(self.options.pace_us));
        } else {
            self.report.failed += 1;
            self.server += 1;
        }
    }

    fn note_gap(&mut self) {
        let now = Instant::now();
        let gap_ms = now.duration_since(self.last_ok).as_millis() as u64;
        if gap_ms >= self.options.gap_ms {
            self.report.gaps.push((now.duration_since(self.start).as_millis() as u64, gap_ms));
        }
        self.report.max_gap_ms = self.report.max_gap_ms.max(gap_ms);
        self.last_ok = now;
    }
}
