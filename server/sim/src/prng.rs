//! Seeded randomness, one generator a purpose.
//!
//! Each purpose (network, disks, clients, faults) draws from its own stream, so that a change in how one of them uses its
//! numbers does not reshuffle the others: a seed stays close to the schedule it was kept for.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of numbers that depends on the seed and the purpose alone.
#[derive(Clone, Debug)]
pub struct Prng(ChaCha8Rng);

impl Prng {
    /// The stream of `seed` for `purpose`; two purposes never share one.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let salt = crate::trace::fnv(purpose.as_bytes());
        Self(ChaCha8Rng::seed_from_u64(seed ^ salt))
    }

    /// Any 64-bit number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`; 0 for a bound of 0. The bias of the modulo is of no interest here.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.next_u64() % bound }
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of `items`, `None` if there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.below(items.len() as u64) as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_purpose_give_the_same_stream() {
        let draw = |seed, purpose| -> Vec<u64> {
            let mut prng = Prng::new(seed, purpose);
            (0..8).map(|_| prng.any()).collect()
        };
        assert_eq!(draw(7, "net"), draw(7, "net"));
        assert_ne!(draw(7, "net"), draw(7, "disk"));
        assert_ne!(draw(7, "net"), draw(8, "net"));
    }

    #[test]
    fn bounds_are_kept() {
        let mut prng = Prng::new(1, "bounds");
        for _ in 0..1000 {
            assert!(prng.below(3) < 3);
            assert!((5..=6).contains(&prng.between(5, 6)));
        }
        assert_eq!(prng.below(0), 0);
        assert!(prng.pick::<u8>(&[]).is_none());
    }
}
