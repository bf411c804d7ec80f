//! What clients asked and what they were told: one record an operation, open until it is answered or given up.

use zk_jute::request::Request;
use zk_jute::{SessionId, Zxid};

use crate::clock::Nanos;

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Not answered yet.
    Open,
    /// Answered.
    Answered { at: Nanos, zxid: Zxid, err: i32 },
    /// The connection or the client's patience ended first: it may have happened or not.
    Unknown { at: Nanos },
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    pub client: usize,
    pub session: SessionId,
    pub xid: i32,
    pub request: Request,
    pub invoked: Nanos,
    pub outcome: Outcome,
}

/// All operations of a run, in the order they were made. Bound: the run's steps.
#[derive(Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    /// A new operation; its number closes it later.
    pub fn invoked(&mut self, operation: Operation) -> usize {
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// The operation is over.
    pub fn closed(&mut self, number: usize, outcome: Outcome) {
        if let Some(operation) = self.operations.get_mut(number) {
            assert_eq!(operation.outcome, Outcome::Open, "operation {number} ends twice");
            operation.outcome = outcome;
        }
    }

    /// All of them.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Counts of answered and unknown operations.
    pub fn counts(&self) -> (usize, usize) {
        let answered =
            self.operations.iter().filter(|op| matches!(op.outcome, Outcome::Answered { .. })).count();
        let unknown =
            self.operations.iter().filter(|op| matches!(op.outcome, Outcome::Unknown { .. })).count();
        (answered, unknown)
    }
}
