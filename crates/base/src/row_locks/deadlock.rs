//! Who waits for whom.

use super::queue::Waiter;
use super::shard::RowKey;
use crate::sync::Arc;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The source of an error of kind [`Deadlock`](crate::ErrorKind::Deadlock): owners of which each waits for the next, and the last for the first. The
/// first is the one that got the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// The owners.
    pub cycle: Vec<u64>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for owner in &self.cycle {
            write!(f, "{owner} -> ")?;
        }
        write!(f, "{}", self.cycle.first().copied().unwrap_or_default())
    }
}

impl std::error::Error for Deadlock {}

/// The requests that wait, by owner.
#[derive(Debug, Default)]
pub(super) struct Waits(HashMap<u64, (Arc<RowKey>, Arc<Waiter>)>);

impl Waits {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_waiting(&self, owner: u64) -> bool {
        self.0.contains_key(&owner)
    }

    pub(super) fn begin(&mut self, row: Arc<RowKey>, waiter: Arc<Waiter>) {
        self.0.insert(waiter.owner, (row, waiter));
    }

    pub(super) fn end(&mut self, owner: u64) {
        self.0.remove(&owner);
    }

    /// A circle of waits through `first`, if there is one: a search in depth that visits each owner once.
    pub(super) fn circle_of(&self, first: u64, blockers: &dyn Fn(&RowKey, &Waiter) -> Vec<u64>) -> Option<Vec<u64>> {
        let next = |owner: u64| self.0.get(&owner).map_or_else(Vec::new, |(row, waiter)| blockers(row, waiter));
        let mut seen = HashSet::from([first]);
        let mut path = vec![(first, next(first))];
        while let Some((_, ahead)) = path.last_mut() {
            match ahead.pop() {
                None => drop(path.pop()),
                Some(owner) if owner == first => return Some(path.into_iter().map(|(owner, _)| owner).collect()),
                Some(owner) if seen.insert(owner) => path.push((owner, next(owner))),
                Some(_) => {}
            }
        }
        None
    }
}
