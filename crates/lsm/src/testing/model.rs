//! What a database must show.

use super::Failure;
use crate::merge::MergeOperator;
use siltstone_base::comparator::Comparator;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use std::sync::Arc;

/// Levels that a compaction filter may be told.
const LEVELS: usize = 7;

/// How often a filter may change a value before nobody follows any more.
const MAX_CHANGES: usize = 64;

/// A sorted list of rows.
///
/// A compaction filter acts when a compaction comes by, so a row may show as any of what its value leads to; what was seen once never goes back.
#[derive(Debug, Clone)]
pub struct Model {
    order: Arc<dyn Comparator>,
    filter: Option<Arc<dyn EntryFilter>>,
    operator: Option<Arc<dyn MergeOperator>>,
    /// Ascending.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    /// No rows, in this order.
    pub fn new(order: Arc<dyn Comparator>, filter: Option<Arc<dyn EntryFilter>>) -> Self {
        Self { order, filter, operator: None, rows: Vec::new() }
    }

    /// The same with a merge operator.
    #[must_use]
    pub fn merging(self, operator: Option<Arc<dyn MergeOperator>>) -> Self {
        Self { operator, ..self }
    }

    fn position(&self, key: &[u8]) -> Result<usize, usize> {
        self.rows.binary_search_by(|(other, _)| self.order.compare(other, key))
    }

    /// Puts a row.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.position(key) {
            Ok(at) => self.rows[at].1 = value.to_vec(),
            Err(at) => self.rows.insert(at, (key.to_vec(), value.to_vec())),
        }
    }

    /// Merges an operand into a row.
    ///
    /// # Errors
    ///
    /// There is no operator, or it fails; or there is a filter too: which of the two comes first is the engine's affair, and the model does not
    /// follow it.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<(), Failure> {
        let Some(operator) = self.operator.clone() else { return Err(Failure::new("there is no merge operator")) };
        if self.filter.is_some() {
            return Err(Failure::new("merges and a compaction filter together are not modelled"));
        }
        let existing = self.position(key).ok().map(|at| self.rows[at].1.clone());
        let merged = operator.full_merge(key, existing.as_deref(), &[operand]);
        self.put(key, &merged.map_err(|failure| Failure::new(format!("the merge operator: {failure}")))?);
        Ok(())
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) {
        if let Ok(at) = self.position(key) {
            self.rows.remove(at);
        }
    }

    /// The rows, ascending.
    pub fn rows(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.rows
    }

    /// What `key` may show as: its value, and what the filter makes of it.
    pub fn legal(&self, key: &[u8]) -> Vec<Option<Vec<u8>>> {
        let Ok(at) = self.position(key) else { return vec![None] };
        let (key, value) = &self.rows[at];
        let mut legal = vec![Some(value.clone())];
        let Some(filter) = &self.filter else { return legal };
        let mut next = 0;
        while let Some(Some(value)) = legal.get(next).cloned() {
            for level in 0..LEVELS {
                let outcome = match filter.filter(level, key, &value) {
                    Decision::Keep => continue,
                    Decision::Change(value) => Some(value),
                    _ => None,
                };
                if legal.len() < MAX_CHANGES && !legal.contains(&outcome) {
                    legal.push(outcome);
                }
            }
            next += 1;
            // What was removed has no successor: look behind it.
            while legal.get(next).is_some_and(Option::is_none) {
                next += 1;
            }
        }
        legal
    }

    /// Notes what `key` shows as. Returns whether that is legal.
    pub fn see(&mut self, key: &[u8], seen: Option<&[u8]>) -> bool {
        if !self.legal(key).iter().any(|legal| legal.as_deref() == seen) {
            return false;
        }
        match seen {
            Some(value) => self.put(key, value),
            None => self.delete(key),
        }
        true
    }
}
