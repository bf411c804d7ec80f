//! The session password (upstream `ZooKeeperServer.generatePasswd`).
//!
//! It is never stored: every member derives it from the session's id, so a client may resume its session on any
//! member, whichever implementation that member runs. It protects against mistakes, not against attackers.

use crate::ids::SessionId;

const SEED_MASK: i64 = 0xB341_5C00;

/// `java.util.Random`'s 48-bit linear congruential generator.
struct JavaRandom(u64);

impl JavaRandom {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    const fn new(seed: i64) -> Self {
        Self((seed as u64 ^ Self::MULTIPLIER) & Self::MASK)
    }

    const fn next_u32(&mut self) -> u32 {
        self.0 = (self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(0xb)) & Self::MASK;
        (self.0 >> 16) as u32
    }
}

/// The password of `session`: what `new java.util.Random(session ^ 0xB3415C00).nextBytes` fills 16 bytes with.
pub fn session_password(session: SessionId) -> [u8; 16] {
    let mut random = JavaRandom::new(session.0 ^ SEED_MASK);
    let mut password = [0; 16];
    for chunk in password.chunks_exact_mut(4) {
        chunk.copy_from_slice(&random.next_u32().to_le_bytes());
    }
    password
}
