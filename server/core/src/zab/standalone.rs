//! A server of its own: what is durable here is committed (upstream `ZooKeeperServer` without a quorum).

use super::base::{Ctx, Flow};
use super::primary::Primary;
use crate::input::{ClientCommand, ConnId};
use crate::time::Instant;

/// The standalone role. The epoch files never change; zxids go on where the log ends, into the next epoch when the counter
/// runs out.
#[derive(Debug)]
pub(crate) struct Standalone {
    primary: Primary,
}

impl Standalone {
    /// Everything logged is committed: nobody else was ever asked.
    pub(crate) fn start(ctx: &mut Ctx<'_>) -> Self {
        ctx.base.journal.committed = ctx.base.journal.durable;
        ctx.apply_committed();
        let last = ctx.base.journal.appended;
        let primary = Primary::new(ctx, last);
        ctx.start_serving(last.epoch());
        Self { primary }
    }

    pub(crate) fn client(&mut self, ctx: &mut Ctx<'_>, conn: ConnId, command: ClientCommand) -> Flow {
        self.primary.client(ctx, conn, command)?;
        Ok(())
    }

    /// The disk advanced.
    pub(crate) fn durable(&mut self, ctx: &mut Ctx<'_>) {
        ctx.base.journal.committed = ctx.base.journal.durable;
        let applied = ctx.apply_committed();
        self.primary.applied(&applied);
    }

    pub(crate) fn tick(&mut self, ctx: &mut Ctx<'_>) -> Flow {
        for request in self.primary.due(ctx) {
            self.primary.submit(ctx, &request)?;
        }
        Ok(())
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.primary.next_deadline()
    }

    pub(crate) fn session_count(&self) -> u64 {
        self.primary.session_count()
    }
}
