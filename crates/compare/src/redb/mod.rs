//! redb: a copy-on-write B+tree in Rust.

use crate::PeerSettings;
use crate::error::{foreign, no_direct, no_durability};
use redb::{
    AccessGuard, Database, Range, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition, TableError,
    WriteTransaction,
};
use siltstone_base::Result;
use siltstone_base::engine::{Admin, Capabilities, Durability, EngineStats, Kv, KvBatch, KvCursor, KvOp};
use siltstone_base::env::{Env, PosixEnv};
use std::ops::Bound;
use std::path::Path;

const NAME: &str = "redb";
const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("default");

/// A redb database with one table. One writer at a time, one transaction a write.
pub struct RedbEngine {
    database: Database,
    /// What a commit of a write waits for.
    durability: redb::Durability,
}

impl RedbEngine {
    /// Opens the database in `dir`, creating it if there is none.
    pub fn open(dir: &Path, settings: &PeerSettings) -> Result<Self> {
        if settings.direct {
            return Err(no_direct(NAME));
        }
        let durability = match settings.durability {
            Durability::Commit => redb::Durability::Immediate,
            // Less than the mode promises of other engines: such commits are in the memory of the process alone.
            Durability::Os => redb::Durability::None,
            durability => return Err(no_durability(NAME, durability)),
        };
        PosixEnv::new().create_dir_all(dir).map_err(|error| foreign(NAME, "create directory", error))?;
        let database = Database::builder()
            .set_cache_size(settings.memory_bytes())
            .create(dir.join("data.redb"))
            .map_err(|error| foreign(NAME, "open", error))?;
        let engine = Self { database, durability };
        engine.sync()?;
        Ok(engine)
    }

    /// Makes every commit before this one safe.
    fn sync(&self) -> Result<()> {
        self.commit_as(redb::Durability::Immediate, |_| Ok(()))
    }

    fn commit(&self, change: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> redb::Result<()>) -> Result<()> {
        self.commit_as(self.durability, change)
    }

    fn commit_as(
        &self,
        durability: redb::Durability,
        change: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> redb::Result<()>,
    ) -> Result<()> {
        let mut transaction: WriteTransaction =
            self.database.begin_write().map_err(|error| foreign(NAME, "begin", error))?;
        transaction.set_durability(durability).map_err(|error| foreign(NAME, "set durability", error))?;
        {
            let mut table = transaction.open_table(TABLE).map_err(|error| foreign(NAME, "open table", error))?;
            change(&mut table).map_err(|error| foreign(NAME, "write", error))?;
        }
        transaction.commit().map_err(|error| foreign(NAME, "commit", error))
    }

    fn moment(&self) -> Result<Moment> {
        let transaction = self.database.begin_read().map_err(|error| foreign(NAME, "begin", error))?;
        let table = transaction.open_table(TABLE).map_err(|error: TableError| foreign(NAME, "open table", error))?;
        Ok(Moment { table, _transaction: transaction })
    }
}

/// The table at one moment. The transaction ends last: were it the table's to end, it would be over before the table gives back the page of its root, which redb's debug builds take for a mistake.
struct Moment {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    _transaction: ReadTransaction,
}

impl Admin for RedbEngine {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kv: true,
            concurrent_writers: false,
            background_work: false,
            persistent: true,
            ..Capabilities::default()
        }
    }

    fn flush(&self) -> Result<()> {
        match self.durability {
            redb::Durability::Immediate => Ok(()),
            _ => self.sync(),
        }
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// It counts what its cache does, and only where it was built to; that would slow every call down.
    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats { debt_bytes: Some(0), ..EngineStats::default() })
    }

    fn close(&self) -> Result<()> {
        self.flush()
    }
}

impl Kv for RedbEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit(|table| table.insert(key, value).map(drop))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.commit(|table| table.remove(key).map(drop))
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        self.commit(|table| {
            for op in batch {
                match op {
                    KvOp::Put { key, value } => drop(table.insert(key, value)?),
                    KvOp::Delete { key } | KvOp::DeleteOnce { key } => drop(table.remove(key)?),
                }
            }
            Ok(())
        })
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        use redb::ReadableTable;
        let moment = self.moment()?;
        let value = ReadableTable::get(&moment.table, key).map_err(|error| foreign(NAME, "get", error))?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        use redb::ReadableTable;
        let moment = self.moment()?;
        for (position, key) in keys.iter().enumerate() {
            let value = ReadableTable::get(&moment.table, *key).map_err(|error| foreign(NAME, "get", error))?;
            found(position, value.as_ref().map(|value| value.value()));
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(RedbCursor { current: None, entries: None, is_backward: false, moment: self.moment()? }))
    }
}

type Entry = (AccessGuard<'static, &'static [u8]>, AccessGuard<'static, &'static [u8]>);

/// redb has double-ended iterators and no cursors: turning around opens a new one.
struct RedbCursor {
    current: Option<Entry>,
    entries: Option<Range<'static, &'static [u8], &'static [u8]>>,
    is_backward: bool,
    moment: Moment,
}

impl RedbCursor {
    fn step(&mut self) -> Result<bool> {
        let entry = match &mut self.entries {
            None => None,
            Some(entries) if self.is_backward => entries.next_back(),
            Some(entries) => entries.next(),
        };
        self.current = entry.transpose().map_err(|error| foreign(NAME, "iterate", error))?;
        Ok(self.current.is_some())
    }

    fn start(&mut self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, is_backward: bool) -> Result<bool> {
        let entries =
            self.moment.table.range::<&[u8]>((lower, upper)).map_err(|error| foreign(NAME, "open range", error))?;
        self.entries = Some(entries);
        self.is_backward = is_backward;
        self.step()
    }
}

impl KvCursor for RedbCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.start(Bound::Unbounded, Bound::Unbounded, false)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.start(Bound::Unbounded, Bound::Unbounded, true)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.start(Bound::Included(key), Bound::Unbounded, false)
    }

    fn next(&mut self) -> Result<bool> {
        match self.current.take() {
            Some((key, _)) if self.is_backward => self.start(Bound::Excluded(key.value()), Bound::Unbounded, false),
            _ => self.step(),
        }
    }

    fn prev(&mut self) -> Result<bool> {
        match self.current.take() {
            Some((key, _)) if !self.is_backward => self.start(Bound::Unbounded, Bound::Excluded(key.value()), true),
            _ => self.step(),
        }
    }

    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(key, _)| key.value())
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(_, value)| value.value())
    }
}
