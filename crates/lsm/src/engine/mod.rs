//! The database as the laboratory and the differential tests know it.

use crate::batch::WriteBatch;
use crate::db::{Db, Iter};
use crate::event::StallCause;
use crate::file_names::FileName;
use crate::metrics::{Counter, Property};
use crate::options::{ColumnFamilyOptions, DbOptions, FlushOptions, ReadOptions, WriteOptions};
use siltstone_base::engine::{Admin, Capabilities, EngineStats, Kv, KvBatch, KvCursor, KvOp, StallMicros};
use siltstone_base::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::path::Path;

#[cfg(test)]
mod tests;

/// The default family of a database behind the engine traits: every write is made with the same options.
#[derive(Debug, Clone)]
pub struct KvDb {
    db: Db,
    write_options: WriteOptions,
    read_options: ReadOptions,
}

thread_local! {
    /// The batch of one write, kept for its memory.
    static BATCH: RefCell<WriteBatch> = const { RefCell::new(WriteBatch::new()) };
}

/// Bytes above which the memory of a batch is given back.
const KEPT_BATCH_BYTES: usize = 1 << 20;

impl KvDb {
    /// Opens the database in `dir` with these options for its default family, and writes with `write_options`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::open_families`].
    pub fn open(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        family: &ColumnFamilyOptions,
        write_options: WriteOptions,
    ) -> Result<Self> {
        let db = Db::open_families(dir, options, &[("default", family.clone())])?;
        Ok(Self { db, write_options, read_options: ReadOptions::default() })
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Merges `operand` into the value of `key`: [`Db::merge`] with this handle's options of writes.
    ///
    /// # Errors
    ///
    /// Those of [`Db::merge`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.write_one(|batch| batch.merge(key, operand))
    }

    /// Deletes `key`, which was put once since it was last single-deleted: [`Db::single_delete`] with this handle's options of writes.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write`].
    pub fn single_delete(&self, key: &[u8]) -> Result<()> {
        self.write_one(|batch| batch.single_delete(key))
    }

    #[inline]
    fn write_one(&self, fill: impl FnOnce(&mut WriteBatch)) -> Result<()> {
        let mut batch = BATCH.with(|kept| std::mem::take(&mut *kept.borrow_mut()));
        batch.clear();
        fill(&mut batch);
        let outcome = self.db.write(&mut batch, &self.write_options);
        if batch.size_bytes() <= KEPT_BATCH_BYTES {
            BATCH.with(|kept| *kept.borrow_mut() = batch);
        }
        outcome
    }
}

/// The name of a cause of write stalls in results.
fn stall_name(cause: StallCause) -> &'static str {
    match cause {
        StallCause::MemtableLimit => "memtable_limit",
        StallCause::L0FileCount => "l0_file_count",
        StallCause::PendingCompactionBytes => "pending_compaction_bytes",
        StallCause::UnsyncedWal => "unsynced_wal",
    }
}

/// The nearest limit of any family.
fn next_limit_bytes(db: &Db) -> Option<u64> {
    let families = db.families();
    families.iter().filter_map(|family| db.metrics_table(family).next_limit).map(|limit| limit.bytes).min()
}

/// Bytes that the file system has allocated for write-ahead logs, the space that the next one has reserved included. What vanishes meanwhile counts nothing.
fn log_bytes(db: &Db) -> u64 {
    let entries = db.env().list_dir(db.dir()).unwrap_or_default();
    let is_log = |name: &str| matches!(FileName::parse(name), Some(FileName::Wal(_) | FileName::Temporary(_)));
    let logs = entries.iter().filter(|entry| is_log(&entry.name));
    logs.map(|entry| db.env().allocated_bytes(&db.dir().join(&entry.name)).unwrap_or(0)).sum()
}

/// The sum of a number property over all families.
fn sum_of(db: &Db, property: Property) -> Result<u64> {
    let name = property.name();
    db.families().iter().try_fold(0_u64, |sum, family| {
        let value = db.property_cf(family, &name)?;
        let number: u64 =
            value.parse().map_err(|_| Error::new(ErrorKind::InvalidArgument, format!("{name} is not a number")))?;
        Ok(sum.saturating_add(number))
    })
}

impl Admin for Db {
    fn name(&self) -> String {
        "lsm-leveled".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { concurrent_writers: true, background_work: true, persistent: true, ..Capabilities::default() }
    }

    fn flush(&self) -> Result<()> {
        let families = self.families();
        self.flush_families(&families.iter().collect::<Vec<_>>(), &FlushOptions::default())
    }

    fn settle(&self) -> Result<()> {
        self.wait_for_background_work()
    }

    fn drain(&self) -> Result<()> {
        Self::drain(self)
    }

    fn stats(&self) -> Result<EngineStats> {
        let counters = self.metrics().counters();
        let stalls = StallCause::ALL.map(|cause| (stall_name(cause), counters.get(Counter::stall_micros(cause))));
        let stalls = stalls.into_iter().filter(|(_, micros)| *micros > 0);
        let log_bytes = log_bytes(self);
        Ok(EngineStats {
            bytes_written: Some(counters.disk_bytes_written()),
            // Blocks that gets read are counted by the environment.
            bytes_read: None,
            bytes_grain: 0,
            reads: None,
            space_bytes: Some(sum_of(self, Property::TotalSstFilesSize)?.saturating_add(log_bytes)),
            log_bytes: Some(log_bytes),
            debt_bytes: Some(sum_of(self, Property::EstimatePendingCompactionBytes)?),
            next_limit_bytes: next_limit_bytes(self),
            counters: counters
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(counter, count)| (counter.name().to_owned(), count))
                .collect(),
            stall_micros: Some(stalls.map(|(name, micros)| (name.to_owned(), micros)).collect::<StallMicros>()),
        })
    }

    fn close(&self) -> Result<()> {
        Self::close(self.clone())
    }
}

impl Admin for KvDb {
    fn name(&self) -> String {
        Admin::name(&self.db)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { kv: true, ..Admin::capabilities(&self.db) }
    }

    fn flush(&self) -> Result<()> {
        Admin::flush(&self.db)
    }

    fn settle(&self) -> Result<()> {
        Admin::settle(&self.db)
    }

    fn drain(&self) -> Result<()> {
        Admin::drain(&self.db)
    }

    fn stats(&self) -> Result<EngineStats> {
        Admin::stats(&self.db)
    }

    fn close(&self) -> Result<()> {
        Admin::close(&self.db)
    }
}

impl Kv for KvDb {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write_one(|batch| batch.put(key, value))
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write_one(|batch| batch.delete(key))
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        self.write_one(|own| {
            for op in batch {
                match op {
                    KvOp::Put { key, value } => own.put(key, value),
                    KvOp::Delete { key } => own.delete(key),
                    KvOp::DeleteOnce { key } => own.single_delete(key),
                }
            }
        })
    }

    #[inline]
    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let values = self.db.multi_get_cf(&self.db.default_family(), keys, &self.read_options);
        for (position, value) in values.into_iter().enumerate() {
            found(position, value?.as_deref());
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(self.db.iter(&self.read_options)?))
    }
}

impl Iter {
    /// Whether the iterator stands on an entry; where it does not, the end is told from an error.
    #[inline]
    fn outcome(&self) -> Result<bool> {
        if self.valid() { Ok(true) } else { self.status().map(|()| false) }
    }
}

impl KvCursor for Iter {
    fn seek_to_first(&mut self) -> Result<bool> {
        Self::seek_to_first(self);
        self.outcome()
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        Self::seek_to_last(self);
        self.outcome()
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        Self::seek(self, key);
        self.outcome()
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        Self::next(self);
        self.outcome()
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        Self::prev(self);
        self.outcome()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        Self::key(self)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        Self::value(self)
    }
}
