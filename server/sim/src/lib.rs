//! Deterministic simulation of whole ensembles: the same core and store as in production, over a simulated network, disk and clock.
//!
//! A seed decides everything ([`options`]); [`run::run`] plays it and reports the first property that did not hold ([`oracle`]);
//! [`scenario`] plays stories written by hand. Within a run nothing reads a clock, opens a file
//! or starts a thread; [`sweep`] plays many runs side by side.

pub mod agenda;
pub mod client;
pub mod clock;
pub mod disk;
pub mod event;
pub mod history;
pub mod net;
pub mod node;
pub mod options;
pub mod oracle;
pub mod prng;
pub mod run;
pub mod scenario;
pub mod storage;
pub mod sweep;
pub mod trace;
pub mod wire;
pub mod workload;
pub mod world;
