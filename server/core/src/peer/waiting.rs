//! Links of learners that decided for us before we knew it ourselves: kept until we lead, dropped otherwise.

use std::collections::BTreeMap;

use crate::effect::{Effect, Sink};
use crate::input::{LinkEvent, LinkId};
use crate::time::Instant;

/// Links kept at once; more are refused and come back. An ensemble has a handful of members.
const LINKS_MAX: usize = 64;
/// Events kept a link: it connects and introduces itself, then it waits for an answer.
const EVENTS_MAX: usize = 4;

/// Events of links that nobody handles yet. Bound: 64 links of 4 events.
#[derive(Debug, Default)]
pub(super) struct WaitingLinks {
    links: BTreeMap<LinkId, Held>,
}

/// One link, since when it waits, and what it said.
#[derive(Debug)]
struct Held {
    since: Instant,
    events: Vec<LinkEvent>,
}

impl WaitingLinks {
    pub(super) fn hold(&mut self, now: Instant, link: LinkId, event: LinkEvent, out: &mut dyn Sink) {
        let full = self.links.len() >= LINKS_MAX;
        match (&event, self.links.get_mut(&link)) {
            (LinkEvent::Closed { .. }, _) => {
                self.links.remove(&link);
            }
            (LinkEvent::Accepted, None) if !full => {
                self.links.insert(link, Held { since: now, events: vec![event] });
            }
            (_, Some(held)) if held.events.len() < EVENTS_MAX => held.events.push(event),
            _ => {
                self.links.remove(&link);
                out.emit(Effect::Close { link, reason: "not leading".into() });
            }
        }
    }

    /// Hands everything over to the leading role.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (LinkId, LinkEvent)> + use<> {
        let links = std::mem::take(&mut self.links);
        links.into_iter().flat_map(|(link, held)| held.events.into_iter().map(move |event| (link, event)))
    }

    /// Whoever has waited too long is sent back to the election, where its vote may be needed.
    pub(super) fn refuse_older(&mut self, than: Instant, out: &mut dyn Sink) {
        self.links.retain(|link, held| {
            let keep = held.since > than;
            if !keep {
                out.emit(Effect::Close { link: *link, reason: "not leading".into() });
            }
            keep
        });
    }

    /// Somebody else leads.
    pub(super) fn refuse_all(&mut self, out: &mut dyn Sink) {
        for link in std::mem::take(&mut self.links).into_keys() {
            out.emit(Effect::Close { link, reason: "not leading".into() });
        }
    }
}
