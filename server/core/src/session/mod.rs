//! Sessions: who is alive, until when, and through which member it talks.
//!
//! The leader (or a standalone server) owns the clock of every session in [`SessionTracker`]; a learner only notes in
//! [`LearnerSessions`] which sessions it heard from and hands that to its leader with every PING. Both are values: what
//! they decide takes effect only as transactions (`createSession`, `closeSession`).

mod ids;
mod learner;
mod tracker;

pub use ids::SessionIds;
pub use learner::{
    LearnerSessions, decode_ping, decode_revalidate, decode_revalidate_reply, encode_ping, encode_revalidate,
    encode_revalidate_reply,
};
pub use tracker::{SessionInfo, SessionTracker};
