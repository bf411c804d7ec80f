//! What a client asks for next: a random mix over few paths, so that clients collide.

use std::sync::Arc;

use bytes::Bytes;
use zk_jute::OpCode;
use zk_jute::records::Acl;
use zk_jute::request::{CreateRequest, Request};

use crate::prng::Prng;

const EPHEMERAL: i32 = 1;
const PERSISTENT_SEQUENTIAL: i32 = 2;
const EPHEMERAL_SEQUENTIAL: i32 = 3;

/// Draws requests.
#[derive(Debug)]
pub struct Workload {
    prng: Prng,
    keys: u64,
    values: u64,
}

impl Workload {
    /// A workload over `keys` shared paths.
    pub const fn new(prng: Prng, keys: u64) -> Self {
        Self { prng, keys, values: 0 }
    }

    /// The next request of `client`.
    pub fn next(&mut self, client: usize) -> Request {
        let path = self.path();
        let watch = self.prng.chance(300);
        match self.prng.below(100) {
            0..25 => self.create(path, 0),
            25..45 => self.set(path),
            45..53 => Request::Delete { path, version: self.version() },
            53..60 => {
                let number = self.prng.below(3);
                self.create(format!("/e{client}-{number}").into(), EPHEMERAL)
            }
            60..64 => self.create("/seq-".into(), PERSISTENT_SEQUENTIAL),
            64..67 => self.create("/es-".into(), EPHEMERAL_SEQUENTIAL),
            67..75 => self.multi(),
            75..83 => Request::GetData { path, watch },
            83..88 => Request::Exists { path, watch },
            88..93 => Request::GetChildren2 { path: self.parent(), watch },
            93..97 => Request::Sync { path },
            97..99 => {
                Request::Delete { path: format!("/seq-{:010}", self.prng.below(20)).into(), version: -1 }
            }
            _ => Request::CloseSession,
        }
    }

    /// A persistent create that cannot collide: the write that proves the ensemble serves again.
    pub fn probe(number: u64) -> Request {
        Request::Create(CreateRequest {
            op: OpCode::Create,
            path: format!("/probe-{number}").into(),
            data: Some(Bytes::from_static(b"served")),
            acl: Some(vec![Acl::open()]),
            flags: 0,
            ttl: 0,
        })
    }

    fn multi(&mut self) -> Request {
        let (one, two) = (self.path(), self.path());
        let version = self.version();
        let mut parts = vec![self.set(one.clone()), self.create(two.clone(), 0)];
        match self.prng.below(4) {
            0 => parts.insert(0, Request::Check { path: two, version }),
            1 => parts.push(Request::Delete { path: one, version: -1 }),
            2 => parts = vec![self.create(one.clone(), 0), self.set(one)],
            _ => parts = vec![self.set(one), self.set(two)],
        }
        Request::Multi(parts)
    }

    fn create(&mut self, path: Arc<str>, flags: i32) -> Request {
        let op = if self.prng.chance(300) { OpCode::Create2 } else { OpCode::Create };
        Request::Create(CreateRequest {
            op,
            path,
            data: self.value(),
            acl: Some(vec![Acl::open()]),
            flags,
            ttl: 0,
        })
    }

    fn set(&mut self, path: Arc<str>) -> Request {
        Request::SetData { path, data: self.value(), version: self.version() }
    }

    /// Two levels: `/k1` and, below it, `/k1/c`.
    fn path(&mut self) -> Arc<str> {
        let top = self.parent();
        if self.prng.chance(350) { format!("{top}/c{}", self.prng.below(2)).into() } else { top }
    }

    fn parent(&mut self) -> Arc<str> {
        format!("/k{}", self.prng.below(self.keys)).into()
    }

    fn version(&mut self) -> i32 {
        if self.prng.chance(700) { -1 } else { self.prng.below(3) as i32 }
    }

    /// Every value is written once, so that a read names its write.
    fn value(&mut self) -> Option<Bytes> {
        self.values += 1;
        Some(Bytes::from(format!("v{}", self.values)))
    }
}
