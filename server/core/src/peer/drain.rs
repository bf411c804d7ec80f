//! Stopping in good order (upstream has no counterpart; its faults at shutdown are ZOOKEEPER-4541 and 4712).
//!
//! Resign if leading, take nothing new in, drain the log, record how far it goes, halt. An operation that fails on the
//! way ends in another exit, never in a clean marker.

use zk_jute::Zxid;

use super::{CtxParts, Peer, RoleState};
use crate::effect::{HaltReason, PersistOp};
use crate::zab::leader::Phase;

/// A stop under way.
#[derive(Debug)]
pub(super) struct Drain {
    /// An established leader handed over.
    resigned: bool,
}

impl Peer {
    pub(super) fn begin_drain(&mut self, parts: &mut CtxParts<'_>) {
        if self.drain.is_some() {
            return;
        }
        let resigned = matches!(&self.role, RoleState::Leading(leader) if leader.phase == Phase::Broadcast);
        self.drain = Some(Drain { resigned });
        match &mut self.role {
            RoleState::Leading(leader) => {
                let mut ctx = parts.ctx(&mut self.base);
                let flow = leader.resign(&mut ctx);
                self.conclude(parts, flow);
            }
            RoleState::Learning(_) | RoleState::Looking(_) | RoleState::Standalone(_) => {
                self.leave(parts, "draining");
            }
            RoleState::Resting(_) => self.load(parts),
            RoleState::Pausing(_) => self.write_clean_marker(parts),
            // Each of these comes by the marker on its own way.
            RoleState::Loading | RoleState::Settling | RoleState::Stopping | RoleState::Halted => {}
        }
    }

    /// Everything is in the log: say so.
    pub(super) fn write_clean_marker(&mut self, parts: &mut CtxParts<'_>) {
        self.role = RoleState::Stopping;
        let zxid = self.base.journal.durable;
        self.base.io.submit(PersistOp::WriteCleanMarker { zxid }, parts.out);
    }

    pub(super) fn drained(&mut self, parts: &mut CtxParts<'_>, zxid: Zxid) {
        let resigned = self.drain.as_ref().is_some_and(|drain| drain.resigned);
        self.halt(parts, HaltReason::Drained { zxid, resigned });
    }
}
