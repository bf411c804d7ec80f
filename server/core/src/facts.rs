//! What one member says about itself: the source of `/commands/member`, four-letter words and the oracles.

use zk_jute::{Epoch, ServerId, Zxid};

/// The part a member plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// Reading its disk.
    #[default]
    Loading,
    Looking,
    Following,
    Observing,
    Leading,
    Standalone,
    /// Stopping gracefully.
    Draining,
    Halted,
}

/// A learner as its leader or observer master sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LearnerFacts {
    pub sid: ServerId,
    pub voter: bool,
    /// Has acknowledged NEWLEADER and was sent UPTODATE.
    pub synced: bool,
    /// Last proposal it acknowledged (voters) or was sent (observers).
    pub last_zxid: Zxid,
}

/// A consistent picture of one peer at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    pub role: Role,
    /// True once the role serves clients (broadcast phase).
    pub serving: bool,
    pub leader: Option<ServerId>,
    /// As in memory, which is as made durable (invariant 3).
    pub accepted_epoch: Epoch,
    pub current_epoch: Epoch,
    /// Durable in our log.
    pub zxid_logged: Zxid,
    /// Known committed.
    pub zxid_committed: Zxid,
    /// Applied to the tree.
    pub zxid_applied: Zxid,
    /// Disk operations emitted and not yet reported back.
    pub sync_queue_depth: u64,
    /// With the leader (itself included) or an observer master; empty elsewhere.
    pub learners: Vec<LearnerFacts>,
    pub config_version: i64,
    pub draining: bool,
    pub digest_mismatches: u64,
    /// Requests taken in and not yet answered.
    pub outstanding: u64,
    /// Sessions known to be alive (leader, standalone) or open in the tree (learners).
    pub sessions: u64,
}
