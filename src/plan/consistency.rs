//! Do members that applied the same transaction hold the same data (invariant 13)?
//!
//! Two findings, kept apart. A member that *saw a mismatch* computed another digest than its leader sent: one of the two
//! is wrong, and the count does not say which. A member that *differs* has another digest at the same zxid than a
//! majority of the voters: only such a one may ever be told to discard its data.

use std::collections::{BTreeMap, BTreeSet};

use super::ensemble::MemberId;
use super::facts::Zxid;
use super::view::{Seat, View};

/// The outcome of comparing members' digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consistency {
    /// Members whose data differs from that of a majority of the voters at the same zxid. Empty while anything is
    /// undecided.
    pub divergent: BTreeSet<MemberId>,
    /// Members that saw digests other than their own come from a leader since their process started.
    pub reporters: BTreeSet<MemberId>,
    /// The highest zxid at which members differ and no majority says who is right.
    pub undecided: Option<Zxid>,
}

/// The members that have each digest of one zxid.
type ByDigest<'a> = BTreeMap<&'a str, BTreeSet<MemberId>>;

impl Consistency {
    /// Compares digests of equal version at equal zxid, and takes in what members saw themselves.
    #[must_use]
    pub fn of(view: &View<'_>) -> Self {
        let mut found = Self::default();
        let mut groups: BTreeMap<_, ByDigest<'_>> = BTreeMap::new();
        for (seat, facts) in view.seats.iter().filter_map(|seat| Some((seat, Seat::facts(seat)?))) {
            if facts.digest_mismatches > 0 {
                found.reporters.insert(seat.id);
            }
            for digest in &facts.digests {
                let at = groups.entry((digest.zxid, digest.version)).or_default();
                at.entry(&digest.digest).or_default().insert(seat.id);
            }
        }
        groups.retain(|_, by_digest| by_digest.len() > 1);
        let voters = &view.membership.voters;
        let majority = |by_digest: &ByDigest<'_>| {
            let votes = |ids: &BTreeSet<MemberId>| ids.intersection(voters).count();
            by_digest.values().find(|ids| votes(ids) >= view.membership.quorum()).cloned()
        };
        for by_digest in groups.values() {
            if let Some(right) = majority(by_digest) {
                found.divergent.extend(by_digest.values().flatten().filter(|id| !right.contains(id)));
            }
        }
        // A difference that members already found wrong account for needs no majority of its own.
        let open = |by_digest: &ByDigest<'_>| {
            let others = by_digest.values().filter(|ids| !ids.is_subset(&found.divergent));
            majority(by_digest).is_none() && others.count() > 1
        };
        found.undecided = groups.iter().rfind(|(_, group)| open(group)).map(|((zxid, _), _)| *zxid);
        // Majorities at different zxids that contradict each other leave none that is right throughout.
        if voters.difference(&found.divergent).count() < view.membership.quorum() {
            found.undecided = found.undecided.or_else(|| groups.keys().next_back().map(|(zxid, _)| *zxid));
        }
        if found.undecided.is_some() {
            found.divergent.clear();
        }
        found
    }

    /// Whether nothing differs and nobody saw anything differ, as far as anyone can tell.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.divergent.is_empty() && self.reporters.is_empty() && self.undecided.is_none()
    }

    /// What was found and what ends it, in words; none when nothing was.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let ids = |ids: &BTreeSet<MemberId>| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        let mut parts = Vec::new();
        if let Some(zxid) = self.undecided {
            parts.push(format!(
                "members differ at {zxid} and no majority agrees: a person must decide whose data is right"
            ));
        }
        if !self.divergent.is_empty() {
            parts.push(format!(
                "members {:?} differ from the majority: stop each in turn, move its data directory aside and start it, so that it copies the leader's data; one that leads must resign first",
                ids(&self.divergent)
            ));
        }
        if !self.reporters.is_empty() {
            let reporters = ids(&self.reporters);
            parts.push(format!(
                "members {reporters:?} saw digests from their leader that are not their own, which says that one of the two is wrong but not which; once no members differ, end the process of each of {reporters:?} in turn to forget it"
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
