//! The request pipeline of a leader or standalone server (upstream `PrepRequestProcessor` and what it leans on): from a
//! client's request to the transaction that every member will apply.

pub mod auth;
pub mod containers;
mod path;
mod prep;

pub use prep::{OUTSTANDING_RECORD_OVERHEAD, Prep, ProposedRequest, SPLIT_CXID, txn_limit};
