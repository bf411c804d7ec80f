//! The digest that the leader predicts is the one that every member then has, whatever is outstanding.

mod prep_support;

use prep_support::*;
use zk_jute::OpCode;
use zk_jute::consts::perms;
use zk_jute::records::Acl;
use zk_jute::request::Request;
use zk_jute::txn::Txn;

/// splitmix64: enough to choose operations, the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// One of few paths, so that operations meet.
    fn path(&mut self) -> String {
        let depth = self.below(3) + 1;
        (0..depth).map(|_| format!("/{}", ["a", "b", "c"][self.below(3) as usize])).collect()
    }

    fn version(&mut self) -> i32 {
        [-1, -1, -1, 0, 1, 2][self.below(6) as usize]
    }

    fn simple(&mut self) -> Request {
        let path = self.path();
        match self.below(10) {
            0..=2 => create_flags(&path, [0, 0, 1, 1, 2, 3, 4][self.below(7) as usize]),
            3 => create_as(OpCode::CreateContainer, &path, 4, Some(vec![Acl::open()])),
            4 => create_ttl(&path, 5 + self.below(2) as i32, 100),
            5 | 6 => delete(&path, self.version()),
            7 | 8 => set_data(
                if self.below(9) == 0 { "/" } else { &path },
                [b"x", b"yy".as_slice()][self.below(2) as usize],
                self.version(),
            ),
            _ => check(&path, self.version()),
        }
    }

    fn request(&mut self) -> Request {
        match self.below(20) {
            0..=12 => loop {
                let request = self.simple();
                if !matches!(request, Request::Check { .. }) {
                    return request;
                }
            },
            13 => {
                set_acl(&self.path(), vec![acl(perms::ALL, "ip", "0.0.0.0/0"), Acl::open()], self.version())
            }
            14..=17 => Request::Multi((0..self.below(6)).map(|_| self.simple()).collect()),
            18 => Request::DeleteContainer { path: self.path().into() },
            _ => Request::CloseSession,
        }
    }
}

fn run(seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let mut leader = Leader::new();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..400 {
        let request = random.request();
        leader.session = match request {
            Request::DeleteContainer { .. } => zk_jute::SessionId(0),
            _ if random.below(2) == 0 => SESSION,
            _ => OTHER,
        };
        leader.now.wall_ms += random.below(60) as i64;
        let closing = matches!(request, Request::CloseSession);
        for txn in leader.ask_many(&request) {
            let failed = matches!(txn.txn, Txn::Error { .. }) || txn.txn.failed_multi().is_some();
            if failed { bad += 1 } else { good += 1 }
        }
        if closing {
            // The session is needed again: as if its client came back with a new one of the same number.
            leader.sessions.remove(leader.session);
            leader.ask(&Request::CreateSession { timeout_ms: 1000 });
        }
        // A commit lags behind, sometimes far.
        if random.below(3) > 0 {
            for _ in 0..random.below(8) {
                leader.commit_one();
            }
        }
    }
    leader.commit_all();
    assert_eq!(leader.prep.outstanding_changes(), 0);
    (good, bad)
}

/// Every commit in [`Leader::commit_one`] compares the digests.
#[test]
fn predicted_digests_hold_for_random_histories() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..100 {
        let (more_good, more_bad) = run(seed);
        good += more_good;
        bad += more_bad;
    }
    // Otherwise the histories would prove nothing.
    assert!(good > 10_000 && bad > 10_000, "{good} transactions succeeded, {bad} failed");
}

#[test]
fn what_the_leader_accepts_never_fails_when_applied() {
    for seed in 1000..1050 {
        let mut random = Random(seed);
        let mut leader = Leader::new();
        for _ in 0..300 {
            let request = random.simple();
            if matches!(request, Request::Check { .. }) {
                continue;
            }
            let expected = match leader.ask(&request).txn {
                Txn::Error { err } => err,
                _ => 0,
            };
            assert_eq!(leader.commit_all()[0].err, expected, "{request:?}");
        }
    }
}

#[test]
fn the_first_digest_follows_a_tree_that_was_not_empty() {
    let mut leader = Leader::new();
    leader.ok(&create("/a"));
    leader.prep.reset(&leader.tree);
    leader.ok(&create("/a/b"));
    leader.ok(&delete("/a/b", -1));
}
