//! Operands of one key and one stripe that wait for what comes behind them, and what they become.

use crate::batch::MAX_VALUE_LEN;
use crate::key::{SeqNo, ValueType, pack_trailer};
use crate::merge::{MergeOperator, Operands, full_merge};
use siltstone_base::Result;

/// Bytes of operands at which no more are waited for: those there are stay as they are.
pub(super) const MAX_RUN_BYTES: usize = 16 << 20;

/// What lies behind a run of operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base<'a> {
    /// Nothing that anyone can read: the key had no value.
    Nothing,
    /// This value.
    Value(&'a [u8]),
    /// Something that is not known here, or that a snapshot tells apart.
    Unknown,
}

/// Neighbouring operands of one key, newest first. After [`settle`](Self::settle): what is written for them.
#[derive(Debug, Default)]
pub(super) struct Run {
    operands: Operands,
    /// Of each operand.
    trailers: Vec<u64>,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// One value.
    Value,
    /// Operands, fewer than before or as many.
    Operands,
    /// Operands, because the operator failed.
    Failed,
}

impl Run {
    pub(super) fn is_empty(&self) -> bool {
        self.trailers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.trailers.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.operands.bytes() >= MAX_RUN_BYTES
    }

    pub(super) fn clear(&mut self) {
        self.operands.clear();
        self.trailers.clear();
    }

    /// Adds the next older operand.
    pub(super) fn push(&mut self, trailer: u64, operand: &[u8]) {
        self.operands.push(operand);
        self.trailers.push(trailer);
    }

    /// Merges what can be merged. The newest operand gives its sequence number to the result: whoever sees one operand of the run sees all.
    pub(super) fn settle(&mut self, operator: &dyn MergeOperator, key: &[u8], base: Base<'_>) -> Settled {
        let seqno = self.newest_seqno();
        let existing = match base {
            Base::Nothing => None,
            Base::Value(value) => Some(value),
            Base::Unknown => {
                if self.len() > 1
                    && let Some(joined) = operator.partial_merge(key, &self.operands.reversed())
                    // What no table takes stays as it is.
                    && joined.len() <= MAX_VALUE_LEN
                {
                    self.replace(pack_trailer(seqno, ValueType::Merge as u8), &joined);
                }
                return Settled::Operands;
            }
        };
        // The family's name is for errors, and this one is only counted.
        let merged: Result<Vec<u8>> = full_merge(operator, "", key, existing, &self.operands.reversed());
        let Ok(value) = merged else { return Settled::Failed };
        self.replace(pack_trailer(seqno, ValueType::Put as u8), &value);
        Settled::Value
    }

    /// The sequence number of the newest entry.
    pub(super) fn newest_seqno(&self) -> SeqNo {
        self.trailers.first().map_or(0, |trailer| trailer >> 8)
    }

    /// Gives the one entry of a settled run another sequence number.
    pub(super) fn set_trailer(&mut self, trailer: u64) {
        self.trailers.clear();
        self.trailers.push(trailer);
    }

    /// Trailers and values, newest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.trailers.iter().copied().zip(self.operands.iter())
    }

    fn replace(&mut self, trailer: u64, value: &[u8]) {
        self.clear();
        self.push(trailer, value);
    }
}
