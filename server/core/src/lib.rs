//! The ZooKeeper server without its surroundings: election, ZAB, request pipeline, data tree, sessions, watches.
//!
//! Nothing here blocks, fails, reads a clock or touches a file or socket. [`Peer::handle`] takes one [`Input`] and emits
//! [`Effect`]s; the server process and the simulator run the very same code.

pub mod client;
pub mod config;
pub mod effect;
pub mod election;
pub mod facts;
pub mod input;
pub mod mutants;
pub mod peer;
pub mod pipeline;
pub mod session;
pub mod shared;
pub mod time;
pub mod tree;
pub mod watch;
pub mod zab;

pub use effect::{Effect, Sink};
pub use input::Input;
pub use peer::Peer;
pub use shared::Shared;
