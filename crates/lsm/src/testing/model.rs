//! What a database must show.

use super::Failure;
use super::history::{History, closure};
use crate::merge::MergeOperator;
use siltstone_base::comparator::Comparator;
use siltstone_base::entry_filter::EntryFilter;
use std::collections::HashMap;
use std::sync::Arc;

/// A sorted list of rows.
///
/// A compaction filter acts when a compaction comes by, before or after operands are merged; so a row may show as any of what its value and its operands
/// lead to. What was seen once never goes back. A key with operands of which too much may have become shows as anything.
#[derive(Debug, Clone)]
pub struct Model {
    order: Arc<dyn Comparator>,
    filter: Option<Arc<dyn EntryFilter>>,
    operator: Option<Arc<dyn MergeOperator>>,
    /// Ascending.
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// Of keys with operands that a filter may still be shown, beside a filter: all that they may be made of. The rows of others are all there is to know.
    histories: HashMap<Vec<u8>, Vec<History>>,
}

impl Model {
    /// No rows, in this order.
    pub fn new(order: Arc<dyn Comparator>, filter: Option<Arc<dyn EntryFilter>>) -> Self {
        Self { order, filter, operator: None, rows: Vec::new(), histories: HashMap::new() }
    }

    /// The same with a merge operator.
    #[must_use]
    pub fn merging(self, operator: Option<Arc<dyn MergeOperator>>) -> Self {
        Self { operator, ..self }
    }

    fn position(&self, key: &[u8]) -> Result<usize, usize> {
        self.rows.binary_search_by(|(other, _)| self.order.compare(other, key))
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match (self.position(key), value) {
            (Ok(at), Some(value)) => self.rows[at].1 = value.to_vec(),
            (Err(at), Some(value)) => self.rows.insert(at, (key.to_vec(), value.to_vec())),
            (Ok(at), None) => drop(self.rows.remove(at)),
            (Err(_), None) => {}
        }
    }

    /// Puts a row.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.histories.remove(key);
        self.set(key, Some(value));
    }

    /// Merges an operand into a row.
    ///
    /// # Errors
    ///
    /// There is no operator, or it fails.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<(), Failure> {
        let Some(operator) = self.operator.clone() else { return Err(Failure::new("there is no merge operator")) };
        let existing = self.position(key).ok().map(|at| self.rows[at].1.clone());
        let merged = operator.full_merge(key, existing.as_deref(), &[operand]);
        let merged = merged.map_err(|failure| Failure::new(format!("the merge operator: {failure}")))?;
        if self.filter.is_some() {
            let histories = self.histories.entry(key.to_vec()).or_insert_with(|| vec![History::of(existing)]);
            histories.iter_mut().for_each(|history| history.operands.push(operand.to_vec()));
        }
        self.set(key, Some(&merged));
        Ok(())
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.histories.remove(key);
        self.set(key, None);
    }

    /// Deletes the keys from `begin` to before `end`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        let is_within = |key: &[u8]| self.order.compare(key, begin).is_ge() && self.order.compare(key, end).is_lt();
        self.rows.retain(|(key, _)| !is_within(key));
        self.histories.retain(|key, _| !is_within(key));
    }

    /// The rows, ascending.
    pub fn rows(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.rows
    }

    /// What `key` may be made of, and whether that is all.
    fn histories(&self, key: &[u8]) -> (Vec<History>, bool) {
        let row = || self.position(key).ok().map(|at| self.rows[at].1.clone());
        let first = self.histories.get(key).cloned().unwrap_or_else(|| vec![History::of(row())]);
        closure(key, &first, self.filter.as_deref(), self.operator.as_deref())
    }

    /// What `key` may show as: what the engine can have made of its value and its operands.
    pub fn legal(&self, key: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut legal = Vec::new();
        for history in self.histories(key).0 {
            if let Ok(shown) = history.shown(key, self.operator.as_deref())
                && !legal.contains(&shown)
            {
                legal.push(shown);
            }
        }
        legal
    }

    /// Notes what `key` shows as. Returns whether that is legal.
    pub fn see(&mut self, key: &[u8], seen: Option<&[u8]>) -> bool {
        let (mut histories, is_complete) = self.histories(key);
        histories.retain(|history| {
            let shown = history.shown(key, self.operator.as_deref());
            shown.is_ok_and(|shown| shown.as_deref() == seen)
        });
        if histories.is_empty() {
            // A filter that goes on for ever without operands is no filter that anyone can rely on.
            if is_complete || !self.histories.contains_key(key) {
                return false;
            }
            histories = vec![History::of(seen.map(<[u8]>::to_vec))];
        }
        self.set(key, seen);
        if histories.iter().all(|history| history.operands.is_empty()) {
            self.histories.remove(key);
        } else {
            self.histories.insert(key.to_vec(), histories);
        }
        true
    }
}
