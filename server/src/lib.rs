//! The `zk-server` process: adapters and wiring around the sans-io core of `zk-core`.
//!
//! Threads: one owns the core ([`driver`]), one the disk ([`disk`]), and a small pool moves bytes ([`net`], [`admin`]).
//! Nothing here decides anything about the protocol.

pub mod admin;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod disk;
pub mod driver;
pub mod lifecycle;
pub mod log;
pub mod metrics;
pub mod net;
pub mod offline;
pub mod server;
pub mod sink;
