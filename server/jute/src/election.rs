//! Messages of the election port (upstream `QuorumCnxManager.InitialMessage`, `FastLeaderElection.Notification`).
//!
//! These are plain big-endian fields, not jute records; a frame is a length and a body. Everything here is bounded by
//! [`MAX_FRAME_LEN`] or [`MAX_ADDRESSES_LEN`].

mod initial;
mod notification;

use bytes::Bytes;

pub use initial::{MAX_ADDRESSES_LEN, PROTOCOL_VERSION_V1, PROTOCOL_VERSION_V2};
pub use notification::{CURRENT_VERSION, MAX_FRAME_LEN, frame, try_unframe};

use crate::ids::{Epoch, ServerId, Zxid};

/// A member's state as the election protocol numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i32)]
pub enum PeerState {
    Looking = 0,
    Following = 1,
    Leading = 2,
    Observing = 3,
}

impl PeerState {
    /// The state numbered `raw`, or `None` for a number upstream does not define.
    pub const fn from_i32(raw: i32) -> Option<Self> {
        Some(match raw {
            0 => Self::Looking,
            1 => Self::Following,
            2 => Self::Leading,
            3 => Self::Observing,
            _ => return None,
        })
    }
}

/// What the connecting side sends first, in one segment (Java reads the address with a single `read`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitialMessage {
    /// -65536 (one address) or -65535 (`|`-joined addresses); 0 for the ancient form, which is `sid` alone.
    pub protocol_version: i64,
    pub sid: ServerId,
    /// `host:port` of the sender's election address; several with version -65535, none in the ancient form.
    pub addresses: Vec<String>,
}

/// A vote on the wire. `peer_epoch` is the current epoch of the proposed leader; -1 or `Epoch`-less old forms are
/// represented as raw values because observers send `i64::MIN`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    pub state: PeerState,
    pub leader: ServerId,
    pub zxid: Zxid,
    pub election_epoch: i64,
    /// In the 28-byte form, which lacks it: the epoch of `zxid`.
    pub peer_epoch: i64,
    /// What upstream takes the version to be, which decides how votes compare. Received 28- and 40-byte forms are 0
    /// (the version in the latter is not looked at). Encoded, 0 is the 28-byte form, 1 the 40-byte form, and 2 carries
    /// the configuration.
    pub version: i32,
    /// Text of the sender's configuration (`server.N=...` lines and `version=`), with version 2.
    pub config: Option<Bytes>,
}

/// An epoch as [`Notification::peer_epoch`] has it.
pub fn vote_epoch(epoch: Epoch) -> i64 {
    i64::from(epoch.0)
}
