//! What only time tells: since when members have been back, and since when nobody leads.
//!
//! Every clock here starts again at the first sample that does not fit, so forgetting it is always safe.

use std::collections::BTreeMap;

use super::Timestamp;
use super::ensemble::MemberId;
use super::facts::Zxid;
use super::view::{Leadership, Standing, View};

/// Samples a member must be seen back in before it counts as settled.
const SAMPLES: u32 = 2;

/// What only time tells. At most one entry a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    joined: BTreeMap<MemberId, Joined>,
    /// What the leader had committed at the last pass that saw one.
    committed: Option<Zxid>,
    leaderless_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct Joined {
    boot_id: String,
    uid: String,
    since: Timestamp,
    samples: u32,
}

impl History {
    /// Takes in one pass's view of the ensemble.
    pub(super) fn note(&mut self, view: &View<'_>, now: Timestamp) {
        // A voter about to be started again deserves the same time to find the others.
        let returning = view.seats.iter().any(|seat| seat.voter && seat.left_to_keeper());
        self.leaderless_since = match view.leadership {
            Leadership::None if !returning && !view.someone_follows() => self.leaderless_since.or(Some(now)),
            Leadership::None | Leadership::One(_) | Leadership::Many(_) | Leadership::Foreign(_) => None,
        };
        self.committed = view.leader().map(|leader| leader.zxid_committed);
        self.joined.retain(|id, _| view.seats.iter().any(|seat| seat.id == *id));
        for seat in &view.seats {
            let sample = match (seat.standing, seat.observed, seat.facts()) {
                (Standing::Joined, Some(member), Some(facts)) => Some((&facts.boot_id, &member.uid)),
                _ => None,
            };
            let Some((boot_id, uid)) = sample else {
                self.joined.remove(&seat.id);
                continue;
            };
            match self.joined.get_mut(&seat.id) {
                Some(joined) if joined.boot_id == *boot_id && joined.uid == *uid => {
                    joined.samples = joined.samples.saturating_add(1);
                }
                _ => {
                    let fresh = Joined { boot_id: boot_id.clone(), uid: uid.clone(), since: now, samples: 1 };
                    self.joined.insert(seat.id, fresh);
                }
            }
        }
    }

    /// Whether this very run of this incarnation of `id` had joined at the last pass.
    pub(super) fn joined(&self, id: MemberId, boot_id: &str, uid: &str) -> bool {
        self.joined.get(&id).is_some_and(|joined| joined.boot_id == boot_id && joined.uid == uid)
    }

    /// What the leader had committed at the last pass, if there was one.
    pub(super) fn committed(&self) -> Option<Zxid> {
        self.committed
    }

    /// Whether `id` has been back for `settle_seconds`, in at least two samples.
    #[must_use]
    pub fn settled(&self, id: MemberId, settle_seconds: i64, now: Timestamp) -> bool {
        self.joined.get(&id).is_some_and(|joined| {
            joined.samples >= SAMPLES && now.duration_since(joined.since).as_secs() >= settle_seconds
        })
    }

    /// Seconds during which no member led, none followed, and no voter waited to be started again; none otherwise.
    #[must_use]
    pub fn leaderless_seconds(&self, now: Timestamp) -> Option<i64> {
        self.leaderless_since.map(|since| now.duration_since(since).as_secs())
    }
}
