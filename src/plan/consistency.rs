//! Do members that applied the same transaction hold the same data (invariant 13)?

use std::collections::{BTreeMap, BTreeSet};

use super::ensemble::MemberId;
use super::view::{Seat, View};

/// The outcome of comparing members' digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consistency {
    /// Members whose data differs from the majority's, or that saw a digest mismatch themselves.
    pub divergent: BTreeSet<MemberId>,
    /// A zxid at which members differ and no majority of the voters agrees: nobody can say who is right.
    pub undecided: Option<String>,
}

impl Consistency {
    /// Compares digests of equal version at equal zxid, and takes in what members found themselves.
    #[must_use]
    pub fn of(view: &View<'_>) -> Self {
        let mut found = Self::default();
        let mut groups: BTreeMap<_, BTreeMap<&str, BTreeSet<MemberId>>> = BTreeMap::new();
        for (seat, facts) in view.seats.iter().filter_map(|seat| Some((seat, Seat::facts(seat)?))) {
            if facts.digest_mismatches > 0 {
                found.divergent.insert(seat.id);
            }
            for digest in &facts.digests {
                let at = groups.entry((digest.zxid, digest.version)).or_default();
                at.entry(&digest.digest).or_default().insert(seat.id);
            }
        }
        for ((zxid, _), by_digest) in groups.iter().filter(|(_, by_digest)| by_digest.len() > 1) {
            let votes = |ids: &BTreeSet<MemberId>| ids.intersection(&view.membership.voters).count();
            match by_digest.iter().find(|(_, ids)| votes(ids) >= view.membership.quorum()) {
                Some((right, _)) => {
                    let wrong = by_digest.iter().filter(|(digest, _)| *digest != right);
                    found.divergent.extend(wrong.flat_map(|(_, ids)| ids));
                }
                None => found.undecided = Some(zxid.to_string()),
            }
        }
        found
    }

    /// Whether nothing differs, as far as anyone can tell.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.divergent.is_empty() && self.undecided.is_none()
    }
}
