//! ZAB 1.0: discovery, synchronization and broadcast, for every role.
//!
//! The invariants of the design live in the shape of this module: acknowledgements are emitted only by code that is
//! reached from a completed disk operation ([`io_stream`]); a learner's packets leave through one function
//! ([`learner_handler`]); the tree changes only in [`base::Base::apply_committed`].

pub(crate) mod base;
pub(crate) mod clients;
pub(crate) mod io_stream;
pub(crate) mod journal;
pub(crate) mod leader;
pub(crate) mod leader_requests;
#[cfg(test)]
mod leader_tests;
pub(crate) mod learner;
pub(crate) mod learner_handler;
pub(crate) mod learner_requests;
pub(crate) mod learner_sync;
pub(crate) mod observer_master;
pub(crate) mod primary;
mod quorum_verifier;
pub(crate) mod standalone;
pub(crate) mod sync_plan;

pub use quorum_verifier::QuorumVerifier;
