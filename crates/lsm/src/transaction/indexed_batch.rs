//! A write batch that can be read.
//!
//! Beside the batch there are memtables for each family that it has entries of, in [layers](super::layers), with numbers larger than any of the database. A read asks them
//! first; an iterator has them as sources more. So merges, deletes and what is put over them come out as they will once the batch is written.
//!
//! A transaction that becomes too large lets what it has go to disk ([`spill`](super::spill)): the batch and its memtables begin anew then, and reads ask them first.

use super::layers::{Layers, own_seqno};
use super::spill::{Size, Spilled};
use crate::batch::{BatchEntry, BatchMark, WriteBatch};
use crate::db::{ChangedTables, ColumnFamily, Db, Iter, OWN_SEQNOS, OwnEntries, PinnedValue};
use crate::key::{LookupKey, MAX_SEQNO, ValueType};
use crate::memtable::Memtable;
use crate::options::{ReadOptions, WriteOptions};
use siltstone_base::engine::Savepoint;
use siltstone_base::{Error, ErrorKind, Result};

/// Changes that are not written yet, and that reads see over the database.
///
/// A later change of a key hides an earlier one; the batch keeps both. It takes about twice the memory of a [`WriteBatch`]. Ranges cannot be deleted by it
/// (`NotSupported`).
///
/// ```
/// use siltstone_lsm::{Db, DbOptions, ReadOptions, WriteBatchWithIndex, WriteOptions};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true))?;
/// db.put("basalt", "black")?;
/// let mut changes = WriteBatchWithIndex::new(&db);
/// changes.put("chalk", "white")?;
/// changes.delete("basalt")?;
///
/// let mut seen = changes.iter(&ReadOptions::default())?;
/// seen.seek_to_first();
/// assert_eq!(seen.key(), b"chalk");
/// seen.next();
/// assert!(!seen.valid());
/// assert!(db.get("chalk")?.is_none());
///
/// changes.write(&WriteOptions::default())?;
/// assert_eq!(db.get("chalk")?.as_deref(), Some(&b"white"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct WriteBatchWithIndex {
    db: Db,
    batch: WriteBatch,
    /// The same entries by family and key.
    own: Layers,
    /// What came before them, on disk.
    spilled: Spilled,
    /// Where it can be rolled back to, in order; each with a number and an index that no other one has.
    savepoints: Vec<Place>,
    /// The number of the next savepoint. None ever comes back: one that is gone stays gone.
    next_savepoint: u64,
}

/// A place to which a batch can be rolled back.
#[derive(Debug, Clone, Copy)]
struct Place {
    number: u64,
    /// The index of the next entry at that time.
    index: u64,
    /// Where the batch ended; means nothing once that is on disk.
    mark: BatchMark,
    /// How much there was, with what is on disk.
    size: Size,
}

impl WriteBatchWithIndex {
    /// No changes, to be seen over `db`.
    pub fn new(db: &Db) -> Self {
        Self {
            db: db.clone(),
            batch: WriteBatch::new(),
            own: Layers::default(),
            spilled: Spilled::default(),
            savepoints: Vec::new(),
            next_savepoint: 0,
        }
    }

    /// Sets `key` to `value` in the default family.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(&self.db.default_family(), key, value)
    }

    /// Sets `key` to `value` in `family`.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for a key or a value that is too long, `NotFound` if the family was dropped, `InvalidArgument` if it is another database's. The
    /// batch is then as it was.
    pub fn put_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(family, ValueType::Put, key.as_ref(), value.as_ref())
    }

    /// Deletes `key` from the default family.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf(&self.db.default_family(), key)
    }

    /// Deletes `key` from `family`.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(family, ValueType::Delete, key.as_ref(), &[])
    }

    /// Deletes `key` from `family`; [`WriteBatch::single_delete`] says what must hold.
    ///
    /// # Errors
    ///
    /// Those of [`put_cf`](Self::put_cf).
    pub fn single_delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(family, ValueType::SingleDelete, key.as_ref(), &[])
    }

    /// Merges `operand` into the value of `key` in `family`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the family has no merge operator, and those of [`put_cf`](Self::put_cf).
    pub fn merge_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        if !family.0.resolver.has_operator() {
            let message = format!("merge_operator: column family {} has none", family.name());
            return Err(Error::invalid_argument(message));
        }
        self.add(family, ValueType::Merge, key.as_ref(), operand.as_ref())
    }

    /// Ranges cannot be deleted here.
    ///
    /// # Errors
    ///
    /// `NotSupported`, always.
    pub fn delete_range_cf(&mut self, _: &ColumnFamily, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<()> {
        Err(Error::not_supported("deleting a range in a batch that is read"))
    }

    /// Makes room for `additional` bytes more, of `most` in all.
    pub(super) fn reserve_within(&mut self, additional: usize, most: usize) {
        self.batch.reserve_within(additional, most);
    }

    fn add(&mut self, family: &ColumnFamily, kind: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.check_family(family)?;
        let mark = self.batch.mark();
        if self.spilled.next_index() + u64::from(mark.count) >= OWN_SEQNOS - 1 {
            return Err(Error::new(ErrorKind::LimitExceeded, "more than 2^33 changes in one batch that is read"));
        }
        if self.savepoints.last().is_some_and(|last| last.index == self.index()) {
            self.own.seal(&self.batch)?;
        }
        match kind {
            ValueType::Delete => self.batch.delete_cf(family, key),
            ValueType::SingleDelete => self.batch.single_delete_cf(family, key),
            ValueType::Merge => self.batch.merge_cf(family, key, value),
            _ => self.batch.put_cf(family, key, value),
        }
        let entry = BatchEntry { column_family: family.id(), kind, key, value };
        let added = self.batch.check().and_then(|()| self.own.add(mark, &family.0.comparator, &entry));
        if added.is_err() {
            self.batch.cut(&mark);
        }
        added
    }

    /// The value of `key` in the default family, with the changes.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`].
    pub fn get(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<PinnedValue>> {
        self.get_cf(&self.db.default_family(), key, options)
    }

    /// The value of `key` in `family`, with the changes.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get_cf`].
    pub fn get_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let key = key.as_ref();
        if self.own.of(family.0.id).next().is_none() && self.spilled.is_empty() {
            return self.db.get_cf(family, key, options);
        }
        self.db.check_family(family)?;
        match self.own_entry(family, key, options)? {
            None => self.db.get_cf(family, key, options),
            Some((ValueType::Put, found)) => Ok(self.db.shown(family, key, found, options)),
            Some((ValueType::Delete | ValueType::SingleDelete, _)) => Ok(None),
            Some(_) => self.get_merged(family, key, options),
        }
    }

    /// The newest entry of a key in the batch: its type, and what it holds.
    fn own_entry(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<(ValueType, PinnedValue)>> {
        let lookup = LookupKey::new(key, MAX_SEQNO);
        let in_memory = self.own.of(family.0.id).find_map(|memtable| memtable.get_pinned(&lookup));
        match in_memory {
            Some(entry) => Ok(Some((entry.value_type, PinnedValue::in_memtable(entry.value)))),
            None => self.spilled.get(family.0.id, key, options),
        }
    }

    /// The value of a key whose newest change is an operand.
    fn get_merged(&self, family: &ColumnFamily, key: &[u8], options: &ReadOptions) -> Result<Option<PinnedValue>> {
        let unbounded = ReadOptions { iterate_lower_bound: None, iterate_upper_bound: None, ..options.clone() };
        let mut iter = self.iter_cf(family, &unbounded.total_order_seek(true).prefix_same_as_start(false))?;
        iter.seek(key);
        iter.status()?;
        let is_found = iter.valid() && family.0.comparator.compare_user(iter.key(), key).is_eq();
        Ok(is_found.then(|| PinnedValue::owned(iter.value().to_vec())))
    }

    /// An iterator over the default family that shows the changes that were made up to now.
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_cf`].
    pub fn iter(&self, options: &ReadOptions) -> Result<Iter> {
        self.iter_cf(&self.db.default_family(), options)
    }

    /// An iterator over `family` that shows the changes that were made up to now. It cannot be [refreshed](Iter::refresh).
    ///
    /// # Errors
    ///
    /// Those of [`Db::iter_cf`].
    pub fn iter_cf(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<Iter> {
        let (memtables, tables) = (self.memtables(family.0.id), self.spilled.tables(family.0.id));
        if memtables.is_empty() && tables.is_empty() {
            return self.db.iter_cf(family, options);
        }
        let newest = own_seqno(self.spilled.next_index() + u64::from(self.batch.count())).saturating_sub(1);
        let hidden = self.spilled.hidden();
        let own = OwnEntries { memtables: &memtables, tables: &tables, newest, hidden: &hidden };
        self.db.iter_over(family, &own, options)
    }

    /// The entries of a family that are in memory, newest first.
    fn memtables(&self, family: u32) -> Vec<&Memtable> {
        self.own.of(family).map(|memtable| &**memtable).collect()
    }

    /// The index of the next entry among all; of several that it could have, behind what was taken back, the smallest.
    fn index(&self) -> u64 {
        match self.batch.count() {
            0 => self.spilled.end(),
            count => self.spilled.next_index() + u64::from(count),
        }
    }

    /// A place to which the batch can be rolled back.
    pub fn savepoint(&mut self) -> Savepoint {
        let (index, mark, number) = (self.index(), self.batch.mark(), self.next_savepoint);
        if let Some(last) = self.savepoints.last().filter(|last| last.index == index) {
            return Savepoint(last.number);
        }
        self.next_savepoint += 1;
        self.savepoints.push(Place { number, index, mark, size: self.size() });
        Savepoint(number)
    }

    /// Undoes the changes since a savepoint, which stays; later ones are gone. Costs as much as those changes, or as about as many before them, cost to make. Iterators that
    /// were made before show what they showed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a savepoint that is none of this batch, or is gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let Ok(position) = self.savepoints.binary_search_by_key(&savepoint.0, |place| place.number) else {
            return Err(Error::invalid_argument("the savepoint is none of this batch, or is gone"));
        };
        let Some(place) = self.savepoints.get(position).copied() else { return Ok(()) };
        self.savepoints.truncate(position + 1);
        if place.index == self.index() {
            return Ok(());
        }
        if place.index > self.spilled.next_index() {
            self.batch.cut(&place.mark);
            return self.own.cut(&place.mark, &self.batch);
        }
        self.batch.clear();
        self.spilled.cut(place.index, place.size);
        self.own.clear(self.spilled.next_index());
        Ok(())
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.size().count
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the changes in the form in which the WAL has them.
    pub fn size_bytes(&self) -> usize {
        self.size().bytes
    }

    /// How much there is, in memory and on disk.
    fn size(&self) -> Size {
        let in_memory = Size { count: self.batch.len(), bytes: self.batch.size_bytes() };
        self.spilled.size().plus(in_memory)
    }

    /// The changes, in the order in which they were made.
    pub fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Forgets all changes and all savepoints.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.spilled = Spilled::default();
        self.own.clear(0);
        self.savepoints.clear();
    }

    /// Writes the changes to the database: all of them or, after an error, none. They are gone from here then.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write`]. The changes stay then.
    pub fn write(&mut self, options: &WriteOptions) -> Result<()> {
        if self.has_spilled() {
            // Only a transaction spills, and that ends with its commit.
            return self.take_tables(options)?.take_in(None, options);
        }
        if !self.is_empty() {
            self.db.write(&mut self.batch, options)?;
        }
        self.clear();
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn layers_for_test(&self) -> usize {
        self.own.len()
    }

    #[cfg(test)]
    pub(super) fn parts_for_test(&self) -> usize {
        self.spilled.parts_for_test()
    }

    /// Bytes of what is in memory, in the form in which the WAL has it.
    pub(super) fn in_memory_bytes(&self) -> usize {
        self.batch.size_bytes()
    }

    /// Bytes of memory that all of it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.batch.memory_bytes() + self.own.memory_bytes() + self.spilled.memory_bytes()
    }

    /// Whether there is anything on disk.
    pub(super) fn has_spilled(&self) -> bool {
        !self.spilled.is_empty()
    }

    /// Whether somebody follows what is written by its WALs, or may later.
    pub(super) fn is_followed(&self) -> bool {
        self.db.is_followed()
    }

    /// Lets what is in memory go to disk. Savepoints stay.
    ///
    /// # Errors
    ///
    /// Errors of I/O. The changes are then what they were.
    pub(super) fn spill(&mut self) -> Result<()> {
        if !self.batch.is_empty() {
            let end = self.spilled.next_index() + u64::from(self.batch.count());
            let size = Size { count: self.batch.len(), bytes: self.batch.size_bytes() };
            let families = self.own.families().into_iter().map(|family| {
                let memtables = self.own.of(family).map(|memtable| &**memtable).collect();
                (family, memtables)
            });
            self.spilled.take_in(&self.db, families, end, size)?;
            self.batch.clear();
            self.own.clear(end);
        }
        self.spilled.merge(&self.db)
    }

    /// Writes what all changes amount to into tables that the database takes in, and forgets the changes.
    ///
    /// # Errors
    ///
    /// Errors of I/O and of merging, and `NotFound` if a family was dropped; `Incomplete` if the tables would have to wait, and `options` say that nobody does. The changes stay then.
    pub(super) fn take_tables(&mut self, options: &WriteOptions) -> Result<ChangedTables> {
        let mut tables = self.db.changed_tables();
        tables.wait_for_room(options)?;
        let families = self.db.families();
        for id in self.own.families().union(&self.spilled.families()) {
            let Some(family) = families.iter().find(|family| family.0.id == *id) else {
                return Err(Error::new(ErrorKind::NotFound, format!("column family {id} was dropped")));
            };
            let read = |key: &[u8]| {
                let found = self.get_cf(family, key, &ReadOptions::default())?;
                Ok(found.map(|value| value.to_vec()))
            };
            self.spilled.write(family, &self.memtables(*id), &mut tables, &read)?;
        }
        self.clear();
        // Not only cleared: its memory is free while others wait for the tables.
        self.batch = WriteBatch::new();
        Ok(tables)
    }

    /// Takes the batch out, and forgets how to read it: what is written is not held twice meanwhile.
    pub(super) fn take_batch(&mut self) -> WriteBatch {
        self.own.clear(0);
        self.savepoints.clear();
        std::mem::take(&mut self.batch)
    }
}
