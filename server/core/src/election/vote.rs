//! A vote and its order (upstream `Vote`, `FastLeaderElection.totalOrderPredicate`).

use zk_jute::election::PeerState;
use zk_jute::{ServerId, Zxid};

/// Who should lead, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vote {
    pub leader: ServerId,
    pub zxid: Zxid,
    /// `currentEpoch` of the proposed leader.
    pub peer_epoch: i64,
    /// Round in which the vote was cast.
    pub round: i64,
    /// State of the member that cast it.
    pub state: PeerState,
    /// Notification version; 0 comes from members that did not send `peer_epoch`.
    pub version: i32,
}

impl Vote {
    /// True if this vote beats `other`: by epoch, then zxid, then id. That order makes the member with the most
    /// complete history win, whatever its id. `weight` is the proposed leader's; weight 0 never leads.
    pub fn beats(&self, other: &Self, weight: u32) -> bool {
        weight > 0 && (self.peer_epoch, self.zxid, self.leader) > (other.peer_epoch, other.zxid, other.leader)
    }

    /// True if both votes support the same outcome (upstream `Vote.equals`): everything has to agree between members
    /// that are looking; once settled only the leader and its epoch do, because a settled member may have joined in
    /// another round (ZOOKEEPER-1732, 1805).
    pub fn supports(&self, other: &Self) -> bool {
        if self.state == PeerState::Looking || other.state == PeerState::Looking {
            return self.leader == other.leader
                && self.zxid == other.zxid
                && self.round == other.round
                && self.peer_epoch == other.peer_epoch;
        }
        let epochs_comparable = (self.version > 0) == (other.version > 0);
        self.leader == other.leader && (!epochs_comparable || self.peer_epoch == other.peer_epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(peer_epoch: i64, zxid: i64, leader: i64) -> Vote {
        Vote {
            leader: ServerId(leader),
            zxid: Zxid(zxid),
            peer_epoch,
            round: 1,
            state: PeerState::Looking,
            version: 2,
        }
    }

    #[test]
    fn epoch_outranks_zxid_and_zxid_outranks_id() {
        assert!(vote(2, 1, 1).beats(&vote(1, 9, 9), 1));
        assert!(vote(1, 9, 1).beats(&vote(1, 8, 9), 1));
        assert!(vote(1, 9, 3).beats(&vote(1, 9, 2), 1));
        assert!(!vote(1, 9, 2).beats(&vote(1, 9, 2), 1));
        assert!(!vote(2, 9, 9).beats(&vote(1, 1, 1), 0), "weight 0 never leads");
    }

    #[test]
    fn settled_votes_agree_by_leader_and_epoch_only() {
        let settled = |zxid, round| Vote { state: PeerState::Following, round, ..vote(3, zxid, 2) };
        assert!(settled(5, 1).supports(&settled(9, 7)));
        assert!(!vote(3, 5, 2).supports(&settled(9, 1)));
    }
}
