//! Fast leader election: who should lead, decided by votes over the election port.

mod fast_leader_election;
mod vote;

pub use fast_leader_election::{Election, ElectionAction, Intervals, Outcome};
pub use vote::Vote;
