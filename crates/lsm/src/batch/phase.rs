//! Two-phase commit: what a batch is in the WAL when it is one step of it.
//!
//! ```text
//! prepare:  BeginPrepare | entries | EndPrepare(name)     logged, not applied
//! commit:   Commit(name)                                  the entries are applied, and not logged again
//! rollback: Rollback(name)
//! ```

use super::record::tag;
use siltstone_base::coding::put_length_prefixed;

/// A step of a two-phase commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The entries become safe under the name.
    Prepare,
    /// The entries, which were prepared before, are applied.
    Commit,
    /// The entries are forgotten.
    Rollback,
    /// Markers are among the bytes that a caller gave: such a batch is not written.
    Foreign,
}

/// The step that a batch is, and the transaction's name.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    step: Step,
    name: Vec<u8>,
    /// The records before and behind the entries in the WAL.
    front: Vec<u8>,
    back: Vec<u8>,
}

impl Phase {
    /// A step of the transaction of this name.
    pub(crate) fn new(step: Step, name: &[u8]) -> Self {
        let marker = |tag: u8| {
            let mut record = vec![tag];
            put_length_prefixed(&mut record, name);
            record
        };
        let (front, back) = match step {
            Step::Prepare => (vec![tag::BEGIN_PREPARE], marker(tag::END_PREPARE)),
            Step::Commit => (marker(tag::COMMIT), Vec::new()),
            Step::Rollback => (marker(tag::ROLLBACK), Vec::new()),
            Step::Foreign => (Vec::new(), Vec::new()),
        };
        Self { step, name: name.to_vec(), front, back }
    }

    /// What a caller's batch with markers is.
    pub(super) fn foreign() -> Self {
        Self::new(Step::Foreign, b"")
    }

    /// Which step it is.
    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// The name of the transaction.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether the entries go into memtables.
    pub(super) fn is_applied(&self) -> bool {
        self.step == Step::Commit
    }

    /// The parts of a batch of `count` entries, whose records are `body`, in the WAL, and the entries in them.
    pub(super) fn logged<'a>(&'a self, body: &'a [u8], count: u32) -> ([&'a [u8]; 3], u32) {
        match self.step {
            Step::Prepare | Step::Foreign => ([&self.front, body, &self.back], count),
            Step::Commit | Step::Rollback => ([&self.front, &[], &self.back], 0),
        }
    }
}
