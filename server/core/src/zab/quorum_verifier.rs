//! Which sets of members are quorums (upstream `QuorumMaj`, `QuorumHierarchical`).

use std::collections::BTreeMap;

use zk_jute::ServerId;

use crate::config::Membership;

/// Decides about quorums of one configuration.
#[derive(Clone, Debug)]
pub struct QuorumVerifier {
    /// Weight and group of every voter. Without groups all voters are of group 0.
    voters: BTreeMap<ServerId, (u32, u32)>,
    observers: Vec<ServerId>,
    hierarchical: bool,
}

impl QuorumVerifier {
    /// The verifier of `membership`: hierarchical if any member names a group, majority otherwise.
    pub fn new(membership: &Membership) -> Self {
        let hierarchical = membership.members.values().any(|member| member.group.is_some());
        let voters = membership
            .members
            .values()
            .filter(|member| member.voter)
            .map(|member| {
                let weight = if hierarchical { member.weight } else { 1 };
                (member.id, (weight, member.group.unwrap_or(0)))
            })
            .collect();
        let observers =
            membership.members.values().filter(|member| !member.voter).map(|member| member.id).collect();
        Self { voters, observers, hierarchical }
    }

    /// True if `sid` takes part in quorums.
    pub fn is_voter(&self, sid: ServerId) -> bool {
        self.voters.contains_key(&sid)
    }

    /// All voters, in the order of their ids.
    pub fn voters(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.voters.keys().copied()
    }

    /// Every member, voters first.
    pub fn members(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.voters().chain(self.observers.iter().copied())
    }

    /// Weight of a voter, 0 for anybody else.
    pub fn weight(&self, sid: ServerId) -> u32 {
        self.voters.get(&sid).map_or(0, |(weight, _)| *weight)
    }

    /// True if `members` holds more than half of the voters, or with groups: more than half of the weight in more than
    /// half of the groups that have any weight.
    pub fn is_quorum(&self, members: impl IntoIterator<Item = ServerId>) -> bool {
        let mut present: BTreeMap<ServerId, (u32, u32)> = BTreeMap::new();
        for sid in members {
            if let Some(voter) = self.voters.get(&sid) {
                present.insert(sid, *voter);
            }
        }
        if !self.hierarchical {
            return present.len() * 2 > self.voters.len();
        }
        let total = Self::weight_by_group(self.voters.values());
        let have = Self::weight_by_group(present.values());
        let groups = total.values().filter(|weight| **weight > 0).count();
        let won = have.iter().filter(|(group, weight)| **weight * 2 > total[*group]).count();
        won * 2 > groups
    }

    fn weight_by_group<'a>(voters: impl Iterator<Item = &'a (u32, u32)>) -> BTreeMap<u32, u64> {
        let mut groups = BTreeMap::new();
        for (weight, group) in voters {
            *groups.entry(*group).or_insert(0) += u64::from(*weight);
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Member;

    fn membership(members: &[(i64, bool, u32, Option<u32>)]) -> Membership {
        let members = members
            .iter()
            .map(|(id, voter, weight, group)| {
                let id = ServerId(*id);
                (id, Member { id, voter: *voter, weight: *weight, group: *group, text: "".into() })
            })
            .collect();
        Membership { version: 0, members }
    }

    fn ids(ids: &[i64]) -> Vec<ServerId> {
        ids.iter().map(|id| ServerId(*id)).collect()
    }

    #[test]
    fn a_majority_counts_voters_only() {
        let quorum = QuorumVerifier::new(&membership(&[
            (1, true, 1, None),
            (2, true, 1, None),
            (3, true, 1, None),
            (4, false, 1, None),
        ]));
        assert!(quorum.is_quorum(ids(&[1, 3])));
        assert!(!quorum.is_quorum(ids(&[1, 4])));
        assert!(!quorum.is_quorum(ids(&[1, 1])));
    }

    #[test]
    fn a_hierarchy_needs_most_weight_in_most_groups() {
        let quorum = QuorumVerifier::new(&membership(&[
            (1, true, 1, Some(1)),
            (2, true, 1, Some(1)),
            (3, true, 1, Some(1)),
            (4, true, 1, Some(2)),
            (5, true, 3, Some(2)),
            (6, true, 0, Some(3)),
        ]));
        assert!(quorum.is_quorum(ids(&[1, 2, 5])));
        assert!(!quorum.is_quorum(ids(&[1, 2, 4])), "4 has a quarter of group 2");
        assert!(!quorum.is_quorum(ids(&[1, 2, 3])), "one group of two");
    }
}
