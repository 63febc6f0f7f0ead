//! What one key may be made of, where a compaction filter and a merge operator act on it in an order that only the engine knows.
//!
//! The filter is shown a value when a compaction rewrites it, an operand too, and what operands were merged to by an earlier compaction. So from
//! a value under operands it may be shown:
//!
//! 1. the value that the first so many operands make with what is beneath them, also none of them;
//! 2. an operand, or the one that neighbours were joined to.
//!
//! What it keeps as it is changes nothing that anyone can see. So the closure has a state only for what it changes or removes.

use crate::merge::MergeOperator;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use std::collections::HashSet;

/// Levels that a compaction filter may be told.
const LEVELS: usize = 7;

/// States of one key before nobody follows any more.
const MAX_STATES: usize = 2_000;

/// A value, if there is one, and the operands over it, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct History {
    pub(super) value: Option<Vec<u8>>,
    pub(super) operands: Vec<Vec<u8>>,
}

impl History {
    /// A key that was put.
    pub(super) fn of(value: Option<Vec<u8>>) -> Self {
        Self { value, operands: Vec::new() }
    }

    /// What it shows as; an error is the operator's.
    pub(super) fn shown(&self, key: &[u8], operator: Option<&dyn MergeOperator>) -> Result<Option<Vec<u8>>, String> {
        self.merged(key, operator, self.operands.len())
    }

    /// The value with the first `count` operands.
    fn merged(
        &self,
        key: &[u8],
        operator: Option<&dyn MergeOperator>,
        count: usize,
    ) -> Result<Option<Vec<u8>>, String> {
        let operands: Vec<&[u8]> = self.operands.iter().take(count).map(Vec::as_slice).collect();
        match operator {
            _ if operands.is_empty() => Ok(self.value.clone()),
            Some(operator) => {
                let merged = operator.full_merge(key, self.value.as_deref(), &operands);
                merged.map(Some).map_err(|failure| failure.to_string())
            }
            None => Err("there is none".to_owned()),
        }
    }

    /// What the filter may make of it in one step.
    fn successors(&self, key: &[u8], filter: &dyn EntryFilter, operator: Option<&dyn MergeOperator>) -> Vec<Self> {
        let mut successors = Vec::new();
        for count in 0..=self.operands.len() {
            let Ok(Some(value)) = self.merged(key, operator, count) else { continue };
            let rest = &self.operands[count..];
            for level in 0..LEVELS {
                let value = match filter.filter(level, key, &value) {
                    Decision::Keep => continue,
                    Decision::Remove => None,
                    Decision::Change(value) => Some(value),
                };
                successors.push(Self { value, operands: rest.to_vec() });
            }
        }
        for first in 0..self.operands.len() {
            for end in first + 1..=self.operands.len() {
                let Some(operand) = join(key, operator, &self.operands[first..end]) else { continue };
                for level in 0..LEVELS {
                    let operand = match filter.filter_operand(level, key, &operand) {
                        Decision::Keep => continue,
                        Decision::Remove => None,
                        Decision::Change(operand) => Some(operand),
                    };
                    let mut operands = self.operands.clone();
                    operands.splice(first..end, operand);
                    successors.push(Self { value: self.value.clone(), operands });
                }
            }
        }
        successors
    }
}

/// One operand, or what several are joined to if the operator can.
fn join(key: &[u8], operator: Option<&dyn MergeOperator>, operands: &[Vec<u8>]) -> Option<Vec<u8>> {
    match operands {
        [operand] => Some(operand.clone()),
        several => {
            let several: Vec<&[u8]> = several.iter().map(Vec::as_slice).collect();
            operator?.partial_merge(key, &several)
        }
    }
}

/// All that the filter may have made of one of `histories`, those themselves first; and whether that is all.
pub(super) fn closure(
    key: &[u8],
    histories: &[History],
    filter: Option<&dyn EntryFilter>,
    operator: Option<&dyn MergeOperator>,
) -> (Vec<History>, bool) {
    let mut all = histories.to_vec();
    let Some(filter) = filter else { return (all, true) };
    let mut known: HashSet<History> = all.iter().cloned().collect();
    let mut next = 0;
    while let Some(history) = all.get(next).cloned() {
        for successor in history.successors(key, filter, operator) {
            if known.insert(successor.clone()) {
                all.push(successor);
            }
        }
        if all.len() > MAX_STATES {
            return (all, false);
        }
        next += 1;
    }
    (all, true)
}
