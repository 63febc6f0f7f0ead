//! The entries of a batch by their keys: in layers, so that the newest ones can be taken back without touching the others.
//!
//! ```text
//!   batch     1 2 3 4 5 6 7 8 | 9 10 11 | 12     savepoints were taken at |
//!   layers    ---------------   -------   --     each a memtable per family
//! ```
//!
//! A layer ends at a savepoint. Rolling back drops whole layers. Where a layer was not even twice as large as the next newer one, both become one, made anew from the batch: so n
//! entries are in at most log2(n) layers, whatever savepoints there are, and each entry is put into so many memtables at most. A savepoint may then lie within a
//! layer, of which what comes before it is made anew when it is rolled back to. What is made anew is let go first: besides the batch there is one copy.

use crate::batch::{BatchEntry, BatchMark, WriteBatch};
use crate::db::FIRST_OWN_SEQNO;
use crate::key::{InternalKeyComparator, SeqNo};
use crate::memtable::{Memtable, MemtableOptions};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// What [`WriteBatchWithIndex`](super::WriteBatchWithIndex) reads.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// Oldest first. None is empty.
    layers: Vec<Layer>,
    /// The next entry starts a layer.
    is_sealed: bool,
    /// How many entries come before those of the batch.
    before: u64,
}

#[derive(Debug)]
struct Layer {
    /// Where its first entry begins.
    start: BatchMark,
    /// How many entries it has.
    count: u32,
    /// By family. The i-th of all entries has the number `FIRST_OWN_SEQNO + i`.
    memtables: BTreeMap<u32, Arc<Memtable>>,
}

impl Layer {
    fn new(start: BatchMark) -> Self {
        Self { start, count: 0, memtables: BTreeMap::new() }
    }

    fn end(&self) -> u32 {
        self.start.count + self.count
    }

    /// Adds an entry; so many are before the batch.
    fn add(&mut self, before: u64, order: &InternalKeyComparator, entry: &BatchEntry<'_>) -> Result<()> {
        let memtable = self.memtables.entry(entry.column_family.0).or_insert_with(|| own_memtable(order));
        let Some(mut writer) = memtable.writer() else {
            return Err(Error::new(ErrorKind::Poisoned, "two writers met in one memtable"));
        };
        writer.add(own_seqno(before + u64::from(self.start.count + self.count)), entry.kind, entry.key, entry.value);
        self.count += 1;
        Ok(())
    }
}

impl Layers {
    /// Adds the entry that the batch got behind `mark`, of a family with this order.
    pub(super) fn add(&mut self, mark: BatchMark, order: &InternalKeyComparator, entry: &BatchEntry<'_>) -> Result<()> {
        if self.is_sealed || self.layers.is_empty() {
            self.layers.push(Layer::new(mark));
            self.is_sealed = false;
        }
        match self.layers.last_mut() {
            Some(newest) => newest.add(self.before, order, entry),
            None => Ok(()),
        }
    }

    /// Lets a layer end here, behind all entries of `batch`.
    pub(super) fn seal(&mut self, batch: &WriteBatch) -> Result<()> {
        self.is_sealed = true;
        while let [.., older, newest] = &self.layers[..]
            && older.count / 2 < newest.count
        {
            self.make_anew(self.layers.len() - 2, batch)?;
        }
        Ok(())
    }

    /// Forgets what `batch` does not have any more, which was cut to `mark`.
    pub(super) fn cut(&mut self, mark: &BatchMark, batch: &WriteBatch) -> Result<()> {
        self.is_sealed = true;
        while self.layers.pop_if(|newest| newest.start.count >= mark.count).is_some() {}
        match self.layers.last() {
            Some(newest) if newest.end() > mark.count => self.make_anew(self.layers.len() - 1, batch),
            _ => Ok(()),
        }
    }

    /// Makes one layer of all from the one at `first` on, with what the batch has of them.
    fn make_anew(&mut self, first: usize, batch: &WriteBatch) -> Result<()> {
        let Some(start) = self.layers.get(first).map(|layer| layer.start) else { return Ok(()) };
        let mut orders: BTreeMap<u32, InternalKeyComparator> = BTreeMap::new();
        for (id, memtable) in self.layers.drain(first..).flat_map(|layer| layer.memtables) {
            orders.entry(id).or_insert_with(|| memtable.comparator().clone());
        }
        let mut layer = Layer::new(start);
        for entry in batch.iter_since(&start) {
            if let Some(order) = orders.get(&entry.column_family.0) {
                layer.add(self.before, order, &entry)?;
            }
        }
        self.layers.push(layer);
        Ok(())
    }

    /// The memtables of a family, newest first.
    pub(super) fn of(&self, family: u32) -> impl Iterator<Item = &Arc<Memtable>> {
        self.layers.iter().rev().filter_map(move |layer| layer.memtables.get(&family))
    }

    /// The families that have entries.
    pub(super) fn families(&self) -> BTreeSet<u32> {
        self.layers.iter().flat_map(|layer| layer.memtables.keys().copied()).collect()
    }

    /// Bytes of memory that they take.
    pub(super) fn memory_bytes(&self) -> usize {
        let memtables = self.layers.iter().flat_map(|layer| layer.memtables.values());
        memtables.map(|memtable| memtable.approximate_memory_usage()).sum()
    }

    /// Forgets everything. So many entries come before those that follow.
    pub(super) fn clear(&mut self, before: u64) {
        self.layers.clear();
        self.is_sealed = false;
        self.before = before;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.layers.len()
    }
}

/// The number of the entry at `index` among all.
pub(super) fn own_seqno(index: u64) -> SeqNo {
    FIRST_OWN_SEQNO + index
}

fn own_memtable(order: &InternalKeyComparator) -> Arc<Memtable> {
    let options =
        MemtableOptions { write_buffer_size: 0, bloom_bits_per_key: 0, prefix_extractor: None, protection_bytes: 0 };
    Memtable::new(0, order.clone(), &options)
}
