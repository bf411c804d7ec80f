//! Sockets: the client port, the quorum and election ports, and what they share.

pub mod client_port;
pub mod connections;
pub mod dial;
pub mod election_port;
pub mod link;
pub mod quorum_port;
#[cfg(test)]
mod tests;
