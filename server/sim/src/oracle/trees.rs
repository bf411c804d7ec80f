//! Tree equality: members at the same zxid have the same digest.

use std::collections::BTreeMap;

use zk_jute::Zxid;

use super::Violation;

/// The digest at each zxid, as its first member had it.
#[derive(Debug, Default)]
pub struct Trees {
    digests: BTreeMap<Zxid, (i64, i64)>,
}

impl Trees {
    /// `node`'s tree is at `zxid` with this digest.
    pub fn at(&mut self, node: i64, zxid: Zxid, digest: i64) -> Result<(), Violation> {
        let (known, first) = *self.digests.entry(zxid).or_insert((digest, node));
        if known == digest {
            return Ok(());
        }
        let text =
            format!("at {zxid} the tree of {node} has digest {digest:x}, that of {first} had {known:x}");
        Err(Violation::new("TreeEquality", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_digests_at_one_zxid_are_caught() {
        let mut trees = Trees::default();
        trees.at(1, Zxid(5), 7).expect("first");
        trees.at(2, Zxid(6), 8).expect("another zxid");
        trees.at(2, Zxid(5), 8).expect_err("differs");
    }
}
