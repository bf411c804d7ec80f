//! The one ordered stream of disk operations (invariant 1) and who may act on their completion (invariant 5).
//!
//! Every operation carries the incarnation of the role that asked for it. Leaving a role bumps the incarnation: what
//! completes later still moves durable state, but its completion is handed to nobody, so nothing can be sent for it.

use std::collections::VecDeque;

use zk_jute::{Epoch, Zxid};

use crate::effect::{Effect, IoId, PersistOp, Sink};
use crate::tree::DataTree;

/// What an operation was, as needed when it completes.
#[derive(Clone, Debug)]
pub(crate) enum IoKind {
    Load,
    Reload,
    Append(Zxid),
    AcceptedEpoch(Epoch),
    CurrentEpoch(Epoch),
    Truncate,
    /// The image that becomes the tree, and where the log that came with it ends.
    Install {
        image: Box<DataTree>,
        end: Zxid,
    },
    RollLog,
    CleanMarker(Zxid),
}

#[derive(Debug)]
struct Pending {
    io: IoId,
    kind: IoKind,
    incarnation: u64,
}

/// A completed operation.
#[derive(Debug)]
pub(crate) struct Completed {
    pub kind: IoKind,
    /// True if the role that asked for it still exists.
    pub current: bool,
}

/// Numbers operations and remembers them until they complete.
///
/// Bound: one entry per outstanding operation; appends are bounded by the proposals a leader lets be outstanding.
#[derive(Debug, Default)]
pub(crate) struct IoStream {
    last: u64,
    pending: VecDeque<Pending>,
    incarnation: u64,
}

impl IoStream {
    /// Emits `op` as the next of the stream.
    pub(crate) fn submit(&mut self, op: PersistOp, out: &mut dyn Sink) -> IoId {
        self.last += 1;
        let io = IoId(self.last);
        let kind = match &op {
            PersistOp::Load => IoKind::Load,
            PersistOp::Reload => IoKind::Reload,
            PersistOp::Append { zxid, .. } => IoKind::Append(*zxid),
            PersistOp::WriteAcceptedEpoch(epoch) => IoKind::AcceptedEpoch(*epoch),
            PersistOp::WriteCurrentEpoch(epoch) => IoKind::CurrentEpoch(*epoch),
            PersistOp::Truncate { .. } => IoKind::Truncate,
            PersistOp::InstallSnapshot { image, tail } => {
                let end = tail.last().map_or(image.last_processed(), |(zxid, _)| *zxid);
                IoKind::Install { image: image.clone(), end }
            }
            PersistOp::RollLog => IoKind::RollLog,
            PersistOp::WriteCleanMarker { zxid } => IoKind::CleanMarker(*zxid),
        };
        self.pending.push_back(Pending { io, kind, incarnation: self.incarnation });
        out.emit(Effect::Persist { io, op });
        io
    }

    /// Takes everything up to and including `io` off the stream.
    pub(crate) fn complete(&mut self, io: IoId) -> Vec<Completed> {
        let mut done = Vec::new();
        while self.pending.front().is_some_and(|pending| pending.io <= io) {
            let Some(pending) = self.pending.pop_front() else { break };
            done.push(Completed { kind: pending.kind, current: pending.incarnation == self.incarnation });
        }
        done
    }

    /// Drops everything outstanding: the adapter carries out nothing from the failed `io` on. `None` if `io` is not
    /// outstanding (a second report of the same failure); otherwise whether it was a truncation.
    pub(crate) fn fail(&mut self, io: IoId) -> Option<bool> {
        let failed = self.pending.iter().find(|pending| pending.io == io)?;
        let truncation = matches!(failed.kind, IoKind::Truncate);
        self.pending.clear();
        Some(truncation)
    }

    /// The role ended: completions of what it asked for must not send anything any more.
    pub(crate) fn fence(&mut self) {
        self.incarnation += 1;
    }

    /// True if nothing is outstanding.
    pub(crate) fn is_drained(&self) -> bool {
        self.pending.is_empty()
    }

    /// Number of outstanding operations.
    pub(crate) fn depth(&self) -> u64 {
        self.pending.len() as u64
    }
}
