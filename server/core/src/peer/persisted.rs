//! Completions of the disk stream: durable state first, then the role that still cares.

use zk_jute::Zxid;

use super::{CtxParts, Peer, RoleState};
use crate::effect::{Effect, HaltReason, IoId, Observation};
use crate::input::{DiskError, Persisted, Recovery};
use crate::mutants::mutant;
use crate::zab::base::Flow;
use crate::zab::io_stream::{Completed, IoKind};

impl Peer {
    pub(super) fn persisted(
        &mut self,
        parts: &mut CtxParts<'_>,
        io: IoId,
        result: Result<Persisted, DiskError>,
    ) {
        match result {
            Ok(outcome) => self.completed(parts, io, outcome),
            Err(error) => self.failed(parts, io, error),
        }
    }

    fn completed(&mut self, parts: &mut CtxParts<'_>, io: IoId, outcome: Persisted) {
        let mut recovery = match outcome {
            Persisted::Loaded(recovery) => Some(recovery),
            Persisted::Done => None,
        };
        let completed = self.base.io.complete(io);
        let last_append = completed.iter().rposition(|done| matches!(done.kind, IoKind::Append(_)));
        // Durable state of the whole batch first: a commit decision then sees all of it at once.
        for done in &completed {
            self.advance(parts, done, &mut recovery);
        }
        for (at, done) in completed.iter().enumerate() {
            // Leaders acknowledge to themselves cumulatively; one look at the last append is enough.
            let last = !matches!(done.kind, IoKind::Append(_)) || Some(at) == last_append;
            if done.current {
                self.role_completed(parts, &done.kind, last);
            }
        }
        if let Some(recovery) = recovery {
            self.loaded(parts, recovery);
        }
        self.settle(parts);
    }

    /// Memory follows disk (invariant 3), whichever role asked for it.
    fn advance(&mut self, parts: &mut CtxParts<'_>, done: &Completed, recovery: &mut Option<Box<Recovery>>) {
        let base = &mut self.base;
        match &done.kind {
            IoKind::Append(zxid) => {
                base.journal.logged(*zxid);
            }
            IoKind::AcceptedEpoch(epoch) => {
                base.epochs.accepted = *epoch;
                parts.out.emit(Effect::Observe(Observation::EpochAccepted(*epoch)));
            }
            IoKind::CurrentEpoch(epoch) => {
                base.epochs.current = *epoch;
                parts.out.emit(Effect::Observe(Observation::EpochCurrent(*epoch)));
            }
            IoKind::Install { image, end } if done.current => {
                let zxid = image.last_processed();
                let now = parts.now;
                base.adopt_tree((**image).clone(), now);
                base.journal.installed(zxid, *end);
                base.needs_image = false;
                base.no_history = false;
            }
            // Read again below what was applied, in the middle of a synchronization.
            IoKind::Reload if done.current && matches!(self.role, RoleState::Learning(_)) => {
                if let Some(mut recovery) = recovery.take() {
                    base.journal.rebase(&mut recovery);
                    base.adopt_tree(recovery.tree, parts.now);
                }
            }
            IoKind::Load
            | IoKind::Reload
            | IoKind::Install { .. }
            | IoKind::Truncate
            | IoKind::RollLog
            | IoKind::CleanMarker(_) => {}
        }
        let lax = mutant!("current_epoch_first") || mutant!("epoch_memory_first");
        assert!(
            self.base.epochs.accepted >= self.base.epochs.current || lax,
            "accepted epoch fell behind current"
        );
    }

    fn role_completed(&mut self, parts: &mut CtxParts<'_>, kind: &IoKind, last_append: bool) {
        let mut ctx = parts.ctx(&mut self.base);
        let flow: Flow = match &mut self.role {
            RoleState::Leading(leader) if last_append => leader.completed(&mut ctx, kind),
            RoleState::Learning(learner) => learner.completed(&mut ctx, kind),
            RoleState::Standalone(standalone) if last_append => {
                standalone.durable(&mut ctx);
                Ok(())
            }
            RoleState::Stopping => {
                if let IoKind::CleanMarker(zxid) = kind {
                    self.drained(parts, *zxid);
                }
                return;
            }
            RoleState::Leading(_)
            | RoleState::Standalone(_)
            | RoleState::Loading
            | RoleState::Resting(_)
            | RoleState::Settling
            | RoleState::Pausing(_)
            | RoleState::Looking(_)
            | RoleState::Halted => Ok(()),
        };
        let serving = self.base.shared.is_serving();
        if serving && flow.is_ok() {
            self.disk_failures = 0;
        }
        self.conclude(parts, flow);
    }

    /// The whole directory was read.
    fn loaded(&mut self, parts: &mut CtxParts<'_>, mut recovery: Box<Recovery>) {
        if !matches!(self.role, RoleState::Loading) {
            // Read for a role that has ended meanwhile: memory stays marked as different and is read again.
            self.base.journal.dirty = true;
            return;
        }
        self.base.epochs.accepted = recovery.accepted;
        self.base.epochs.current = recovery.current;
        self.base.no_history = recovery.no_history;
        self.base.journal.reset(&mut recovery);
        self.base.adopt_tree(recovery.tree, parts.now);
        if mutant!("apply_tail_at_load") && self.base.config.membership.is_some() {
            self.base.journal.committed = self.base.journal.durable;
            parts.ctx(&mut self.base).apply_committed();
        }
        self.begin(parts);
    }

    /// A periodic snapshot ended. A failed write costs nothing but a longer replay, for the log is intact; a failed
    /// fsync says nothing about what is durable any more, and ends the process like any other.
    pub(super) fn snapshot_done(
        &mut self,
        parts: &mut CtxParts<'_>,
        zxid: Zxid,
        result: Result<(), DiskError>,
    ) {
        self.base.snapshots.in_flight = false;
        let Err(error) = result else { return };
        let text = format!("snapshot {zxid} failed: {error}");
        parts.out.emit(Effect::Observe(Observation::DiskFault(text)));
        if let DiskError::SyncFailed(text) = error {
            self.halt(parts, HaltReason::DiskFailed(text));
        }
    }

    /// An operation failed and everything after it with it: withhold, then decide what can be saved.
    fn failed(&mut self, parts: &mut CtxParts<'_>, io: IoId, error: DiskError) {
        // Whatever it was for: after a failed fsync nothing that this process knows of its disk may be believed.
        if let DiskError::SyncFailed(text) = error {
            self.base.io.fail(io);
            return self.halt(parts, HaltReason::DiskFailed(text));
        }
        // Operations behind the failed one are refused by the adapter too; the first report was enough.
        let Some(cutting) = self.base.io.fail(io) else { return };
        parts.out.emit(Effect::Observe(Observation::DiskFault(error.to_string())));
        // While stopping there is nothing to come back for: a disk that fails now ends the process, without a marker.
        let reading = matches!(self.role, RoleState::Loading) && self.drain.is_some();
        let stopping = matches!(self.role, RoleState::Stopping) || reading;
        match error {
            DiskError::SyncFailed(text) => self.halt(parts, HaltReason::DiskFailed(text)),
            // The log cannot be cut there: the next synchronization must bring a whole image.
            DiskError::Corrupt(_) if cutting => {
                self.base.needs_image = true;
                self.give_up(parts, "the log cannot be cut where the leader asked");
            }
            DiskError::Corrupt(text) => self.halt(parts, HaltReason::CorruptData(text)),
            DiskError::NoSpace(text) if stopping => self.halt(parts, HaltReason::DiskFull(text)),
            DiskError::Io(text) if stopping => self.halt(parts, HaltReason::DiskFailed(text)),
            DiskError::NoSpace(text) | DiskError::Io(text) => self.give_up(parts, &text),
        }
    }

    /// Leaves the role because of the disk, and rests before the disk is read again.
    fn give_up(&mut self, parts: &mut CtxParts<'_>, why: &str) {
        self.end_role(parts, why);
        self.base.journal.dirty = true;
        if self.drain.is_some() {
            self.load(parts);
        } else {
            self.rest(parts);
        }
    }
}
