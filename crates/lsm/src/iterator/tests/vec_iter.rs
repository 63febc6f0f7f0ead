//! A source of entries in memory that can fail.

use crate::iterator::InternalIterator;
use crate::sst::test_util::comparator;
use siltstone_base::{Error, Result};

/// Walks sorted entries; standing on entry `fails_at` is an error.
#[derive(Debug)]
pub(super) struct VecIter {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    position: Option<usize>,
    pub(super) fails_at: Option<usize>,
    failed: bool,
}

impl VecIter {
    pub(super) fn new(entries: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        Self { entries, position: None, fails_at: None, failed: false }
    }

    fn go_to(&mut self, position: Option<usize>) {
        self.failed = position.is_some() && position == self.fails_at;
        self.position = position.filter(|position| *position < self.entries.len() && !self.failed);
    }
}

impl InternalIterator for VecIter {
    fn valid(&self) -> bool {
        self.position.is_some()
    }

    fn seek_to_first(&mut self) {
        self.go_to(Some(0));
    }

    fn seek_to_last(&mut self) {
        self.go_to(self.entries.len().checked_sub(1));
    }

    fn seek(&mut self, target: &[u8]) {
        let order = comparator();
        self.go_to(Some(self.entries.partition_point(|(key, _)| order.compare(key, target).is_lt())));
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        let order = comparator();
        self.go_to(self.entries.partition_point(|(key, _)| order.compare(key, target).is_le()).checked_sub(1));
    }

    fn next(&mut self) {
        self.go_to(self.position.map(|position| position + 1));
    }

    fn prev(&mut self) {
        self.go_to(self.position.and_then(|position| position.checked_sub(1)));
    }

    fn key(&self) -> &[u8] {
        &self.entries[self.position.unwrap()].0
    }

    fn value(&self) -> &[u8] {
        &self.entries[self.position.unwrap()].1
    }

    fn status(&self) -> Result<()> {
        if self.failed { Err(Error::corrupt("planned")) } else { Ok(()) }
    }
}
