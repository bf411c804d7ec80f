//! A leader without a quorum: requests are prepared at once and committed when a test says so.
#![allow(dead_code, unreachable_pub)]

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use zk_core::config::Rules;
use zk_core::pipeline::{Prep, ProposedRequest};
use zk_core::session::SessionTracker;
use zk_core::time::{Instant, Now};
use zk_core::tree::{Applied, DataTree};
use zk_core::watch::WatchManager;
use zk_jute::records::{Acl, Id};
use zk_jute::request::{CreateRequest, Request};
use zk_jute::txn::{LoggedTxn, Txn};
use zk_jute::{ErrorCode, OpCode, ServerId, SessionId, Writer, Zxid};

pub const ME: ServerId = ServerId(1);
pub const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);
pub const OTHER: SessionId = SessionId(0x0100_0000_0000_0002);
pub const STRANGER: SessionId = SessionId(0x0100_0000_0000_0009);

pub struct Leader {
    pub tree: DataTree,
    pub watches: WatchManager,
    pub sessions: SessionTracker,
    pub prep: Prep,
    pub auth: Vec<Id>,
    pub session: SessionId,
    pub next: Zxid,
    pub now: Now,
    pub outstanding: VecDeque<LoggedTxn>,
}

impl Leader {
    pub fn new() -> Self {
        Self::with_rules(Rules { extended_types: true, ..Rules::default() })
    }

    /// Two sessions are open, neither has nodes.
    pub fn with_rules(rules: Rules) -> Self {
        let now = Now { mono: Instant(1_000_000_000), wall_ms: 1_700_000_000_000 };
        let mut leader = Self {
            tree: DataTree::new(),
            watches: WatchManager::default(),
            sessions: SessionTracker::new(ME, 2000, now),
            prep: Prep::new(rules),
            auth: Vec::new(),
            session: SESSION,
            next: Zxid(0x1_0000_0001),
            now,
            outstanding: VecDeque::new(),
        };
        for session in [SESSION, OTHER] {
            leader.session = session;
            leader.ask(&Request::CreateSession { timeout_ms: 10_000 });
        }
        leader.session = SESSION;
        leader.commit_all();
        leader
    }

    /// Prepares a request and leaves it outstanding.
    pub fn ask(&mut self, request: &Request) -> LoggedTxn {
        let mut txns = self.ask_many(request);
        assert_eq!(txns.len(), 1, "one transaction was expected");
        txns.remove(0)
    }

    pub fn ask_many(&mut self, request: &Request) -> Vec<LoggedTxn> {
        self.ask_raw(request.op() as i32, Writer::build(|w| request.encode(w)))
    }

    pub fn ask_raw(&mut self, op: i32, body: Bytes) -> Vec<LoggedTxn> {
        let request =
            ProposedRequest { session: self.session, cxid: 7, op, body, auth: self.auth.clone(), owner: ME };
        let txns = self.prep.prepare(&self.tree, &mut self.sessions, self.now, self.next, &request);
        for txn in &txns {
            assert_eq!(txn.header.zxid, self.next, "zxids must be consecutive");
            assert_eq!(
                LoggedTxn::decode(txn.bytes.clone()).as_ref(),
                Ok(txn),
                "what is logged must read back"
            );
            self.next = self.next.next_in_epoch().expect("tests stay in one epoch");
        }
        self.outstanding.extend(txns.iter().cloned());
        txns
    }

    /// Prepares and commits.
    pub fn done(&mut self, request: &Request) -> Applied {
        self.ask(request);
        self.commit_all().pop().expect("one transaction was outstanding")
    }

    /// Prepares, commits and expects success.
    pub fn ok(&mut self, request: &Request) {
        let txn = self.ask(request);
        assert!(!matches!(txn.txn, Txn::Error { .. }), "{request:?} failed: {:?}", txn.txn);
        self.commit_all();
    }

    /// The code that a request fails with; 0 if it does not.
    pub fn code(&mut self, request: &Request) -> i32 {
        match self.ask(request).txn {
            Txn::Error { err } => err,
            _ => 0,
        }
    }

    /// Commits the oldest outstanding transaction; the tree must agree with the leader's digest.
    pub fn commit_one(&mut self) -> Option<Applied> {
        let txn = self.outstanding.pop_front()?;
        let applied = self.tree.apply(&txn, &mut self.watches);
        assert_eq!(applied.digest_mismatch, None, "digest predicted for {:?}", txn);
        self.prep.committed(txn.header.zxid);
        Some(applied)
    }

    pub fn commit_all(&mut self) -> Vec<Applied> {
        std::iter::from_fn(|| self.commit_one()).collect()
    }
}

pub fn id(scheme: &str, id: &str) -> Id {
    Id { scheme: scheme.into(), id: id.into() }
}

pub fn acl(perms: i32, scheme: &str, value: &str) -> Acl {
    Acl { perms, id: id(scheme, value) }
}

pub fn create(path: &str) -> Request {
    create_as(OpCode::Create, path, 0, Some(vec![Acl::open()]))
}

pub fn create_flags(path: &str, flags: i32) -> Request {
    create_as(OpCode::Create, path, flags, Some(vec![Acl::open()]))
}

pub fn create_as(op: OpCode, path: &str, flags: i32, acl: Option<Vec<Acl>>) -> Request {
    let data = Some(Bytes::from_static(b"data"));
    Request::Create(CreateRequest { op, path: path.into(), data, acl, flags, ttl: 0 })
}

pub fn create_ttl(path: &str, flags: i32, ttl: i64) -> Request {
    let Request::Create(create) = create_as(OpCode::CreateTtl, path, flags, Some(vec![Acl::open()])) else {
        unreachable!()
    };
    Request::Create(CreateRequest { ttl, ..create })
}

pub fn delete(path: &str, version: i32) -> Request {
    Request::Delete { path: path.into(), version }
}

pub fn set_data(path: &str, data: &'static [u8], version: i32) -> Request {
    Request::SetData { path: path.into(), data: Some(Bytes::from_static(data)), version }
}

pub fn set_acl(path: &str, acl: Vec<Acl>, version: i32) -> Request {
    Request::SetAcl { path: path.into(), acl: Some(acl), version }
}

pub fn check(path: &str, version: i32) -> Request {
    Request::Check { path: path.into(), version }
}

pub fn path_of(txn: &LoggedTxn) -> Arc<str> {
    match &txn.txn {
        Txn::Create { path, .. } | Txn::CreateTtl { path, .. } | Txn::CreateContainer { path, .. } => {
            path.clone()
        }
        other => panic!("no create: {other:?}"),
    }
}

/// The codes of a multi's entries; `None` if it did not fail.
pub fn multi_codes(txn: &LoggedTxn) -> Option<Vec<i32>> {
    assert_eq!(txn.header.op, OpCode::Multi as i32);
    txn.txn.failed_multi()
}

pub const fn n(code: ErrorCode) -> i32 {
    code as i32
}
