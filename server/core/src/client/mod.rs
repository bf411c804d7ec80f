//! One client connection without its socket (upstream `NIOServerCnxn`, `ServerCnxn`, and the parts of
//! `ZooKeeperServer` and `FinalRequestProcessor` that serve one connection).
//!
//! The socket task and the simulator drive the same [`ClientConn`]: bytes and [`Inbox`] messages go in, bytes and
//! [`crate::input::ClientCommand`]s come out. It keeps two orders that clients rely on:
//! - replies come in the order of the requests, and a request is carried out after those before it;
//! - a watch event comes before any reply that saw its change and after any that did not.
//!
//! Reads never pass through the core: they run here, on the shared tree, as soon as this connection's earlier writes
//! are answered.

mod close;
mod config;
mod conn;
mod fifo;
mod frame;
mod handshake;
mod inbox;
mod replies;
mod requests;
mod stats;

pub use close::CloseReason;
pub use config::ClientConfig;
pub use conn::ClientConn;
pub use frame::{FOUR_LETTER_WORDS, is_four_letter_word};
pub use inbox::Inbox;
pub use stats::{ConnInfo, Latencies};

#[cfg(test)]
mod tests;
