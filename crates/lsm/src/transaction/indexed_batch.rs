//! A write batch that can be read.
//!
//! Beside the batch there are memtables for each family that it has entries of, in [layers](super::layers), with numbers larger than any of the database. A read asks them
//! first; an iterator has them as sources more. So merges, deletes and what is put over them come out as they will once the batch is written.

use super::layers::{Layers, own_seqno};
use crate::batch::{BatchEntry, BatchMark, WriteBatch};
use crate::db::{ColumnFamily, Db, Held, Holder, Iter, OwnEntries, PinnedValue};
use crate::key::{LookupKey, MAX_SEQNO, ValueType};
use crate::memtable::Memtable;
use crate::options::{ReadOptions, WriteOptions};
use siltstone_base::engine::Savepoint;
use siltstone_base::{Error, Result};

/// What an entry takes beside its bytes where it can be read, about.
const ENTRY_OVERHEAD: usize = 40;

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
    /// Where it can be rolled back to, in order; each with a number and a count that no other one has.
    savepoints: Vec<(u64, BatchMark)>,
    /// What all of it takes.
    held: Held,
    /// The number of the next savepoint. None ever comes back: one that is gone stays gone.
    next_savepoint: u64,
}

impl WriteBatchWithIndex {
    /// No changes, to be seen over `db`.
    pub fn new(db: &Db) -> Self {
        Self {
            db: db.clone(),
            batch: WriteBatch::new(),
            own: Layers::default(),
            savepoints: Vec::new(),
            held: db.holders().charge(Holder::Transactions),
            next_savepoint: 0,
        }
    }

    /// Tells the report of holders how much there is: the batch, and the entries once more where they can be read.
    fn note_memory(&mut self) {
        let entries = self.batch.len().saturating_mul(ENTRY_OVERHEAD);
        let bytes = if self.batch.is_empty() { 0 } else { 2 * self.batch.size_bytes() + entries };
        self.held.set(bytes as u64);
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

    fn add(&mut self, family: &ColumnFamily, kind: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.check_family(family)?;
        let mark = self.batch.mark();
        if self.savepoints.last().is_some_and(|(_, last)| last.count == mark.count) {
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
        self.note_memory();
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
        let mut own = self.own.of(family.0.id).peekable();
        if own.peek().is_none() {
            return self.db.get_cf(family, key, options);
        }
        self.db.check_family(family)?;
        let lookup = LookupKey::new(key, MAX_SEQNO);
        match own.find_map(|memtable| memtable.get_pinned(&lookup)) {
            None => self.db.get_cf(family, key, options),
            Some(entry) => match entry.value_type {
                ValueType::Put => {
                    let found = PinnedValue::in_memtable(entry.value);
                    Ok(self.db.shown(family, key, found, options))
                }
                ValueType::Delete | ValueType::SingleDelete => Ok(None),
                _ => self.get_merged(family, key, options),
            },
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
        let memtables: Vec<&Memtable> = self.own.of(family.0.id).map(|memtable| &**memtable).collect();
        if memtables.is_empty() {
            return self.db.iter_cf(family, options);
        }
        let newest = own_seqno(self.batch.count()).saturating_sub(1);
        self.db.iter_over(family, &OwnEntries { memtables: &memtables, newest }, options)
    }

    /// A place to which the batch can be rolled back.
    pub fn savepoint(&mut self) -> Savepoint {
        let mark = self.batch.mark();
        if let Some((number, _)) = self.savepoints.last().filter(|(_, last)| last.count == mark.count) {
            return Savepoint(*number);
        }
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push((number, mark));
        Savepoint(number)
    }

    /// Undoes the changes since a savepoint, which stays; later ones are gone. Costs as much as those changes, or as about as many before them, cost to make. Iterators that
    /// were made before show what they showed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a savepoint that is none of this batch, or is gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let Ok(index) = self.savepoints.binary_search_by_key(&savepoint.0, |(number, _)| *number) else {
            return Err(Error::invalid_argument("the savepoint is none of this batch, or is gone"));
        };
        let Some((_, mark)) = self.savepoints.get(index).copied() else { return Ok(()) };
        self.savepoints.truncate(index + 1);
        if mark.count == self.batch.count() {
            return Ok(());
        }
        self.batch.cut(&mark);
        self.note_memory();
        self.own.cut(&mark, &self.batch)
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Bytes of the changes in the form in which the WAL has them.
    pub fn size_bytes(&self) -> usize {
        self.batch.size_bytes()
    }

    /// The changes, in the order in which they were made.
    pub fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Forgets all changes and all savepoints.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.own.clear();
        self.savepoints.clear();
        self.note_memory();
    }

    /// Writes the changes to the database: all of them or, after an error, none. They are gone from here then.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write`]. The changes stay then.
    pub fn write(&mut self, options: &WriteOptions) -> Result<()> {
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

    /// Takes the batch out, and forgets how to read it: what is written is not held twice meanwhile.
    pub(super) fn take_batch(&mut self) -> WriteBatch {
        self.own.clear();
        self.savepoints.clear();
        let batch = std::mem::take(&mut self.batch);
        self.note_memory();
        batch
    }
}
