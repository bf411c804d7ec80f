//! The tree digest (upstream `DigestCalculator` version 2 and `AdHash`): a wrapping sum of one CRC-32 per node, so
//! that a change costs two checksums and every member can prove at every transaction that it holds the same tree
//! (invariant 13).

use std::collections::VecDeque;
use std::fmt;

use zk_jute::Zxid;
use zk_jute::records::StatPersisted;

/// Version that is logged and compared; other versions are not comparable.
pub const DIGEST_VERSION: i32 = 2;
/// A digest is remembered for each zxid that is a multiple of this (upstream `DIGEST_LOG_INTERVAL`).
pub const DIGEST_LOG_INTERVAL: i64 = 128;
/// How many digests are remembered (upstream `DIGEST_LOG_LIMIT`).
pub const DIGEST_LOG_LIMIT: usize = 1024;

/// Everything under here counts as 0: quota statistics are local to each member.
const EXCLUDED: &str = "/zookeeper/";

/// What one node adds to the tree digest, 0 to 2^32-1. "" and "/" both name the root.
pub fn node_digest(path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> i64 {
    if path.starts_with(EXCLUDED) {
        return 0;
    }
    let mut crc = crc32fast::Hasher::new();
    if path != "/" {
        crc.update(path.as_bytes());
    }
    crc.update(data.unwrap_or_default());
    crc.update(&stat_bytes(stat));
    i64::from(crc.finalize())
}

fn stat_bytes(stat: &StatPersisted) -> [u8; 60] {
    let mut bytes = [0; 60];
    let longs = [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime];
    for (place, value) in bytes[..40].chunks_exact_mut(8).zip(longs) {
        place.copy_from_slice(&value.to_be_bytes());
    }
    let ints = [stat.version, stat.cversion, stat.aversion];
    for (place, value) in bytes[40..52].chunks_exact_mut(4).zip(ints) {
        place.copy_from_slice(&value.to_be_bytes());
    }
    bytes[52..].copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
    bytes
}

/// What an image says about itself and its nodes do not show yet (upstream `DataTree.digestFromLoadedSnapshot`).
///
/// Upstream serializes nodes while transactions are applied and notes the last digest at the end, so an image of `at` may
/// already hold changes of the transaction after `at`: then the digest of `at` never comes true, and that of the next
/// transaction does. So a mismatch at `at` is a suspicion, which the next logged digest settles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AwaitedDigest {
    /// Nothing is comparable before this zxid.
    pub(super) at: Zxid,
    /// The digest noted for it.
    pub(super) digest: i64,
    /// The one that the nodes gave there, once that was another.
    pub(super) found: Option<i64>,
}

impl fmt::Display for AwaitedDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, digest, found } = self;
        match found {
            Some(found) => write!(f, "the image should have digest {digest:#x} at {at} and has {found:#x}"),
            None => write!(f, "the image was written under writes up to {at}"),
        }
    }
}

/// The digests of the last transactions at round zxids, oldest first, for comparing members by hand or by operator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DigestLog {
    /// Bound: [`DIGEST_LOG_LIMIT`] entries of 16 bytes.
    entries: VecDeque<(Zxid, i64)>,
}

impl DigestLog {
    /// True if the digest at `zxid` belongs into the log.
    pub const fn wants(zxid: Zxid) -> bool {
        zxid.0 % DIGEST_LOG_INTERVAL == 0
    }

    pub(super) fn push(&mut self, zxid: Zxid, digest: i64) {
        if self.entries.len() == DIGEST_LOG_LIMIT {
            self.entries.pop_front();
        }
        self.entries.push_back((zxid, digest));
    }

    /// The remembered pairs of zxid and tree digest.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Zxid, i64)> + '_ {
        self.entries.iter().copied()
    }
}
