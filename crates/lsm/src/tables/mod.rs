//! Tables: rows with a primary key and secondary indexes, over one database.
//!
//! Rows and index entries of all tables lie in the default column family, each behind the id of its index ([`layout`]);
//! the family `__system__` says which tables exist ([`dictionary`]). There are two kinds of tables.
//!
//! * Of an *eager* one the caller says what a row was when it changes: an insert is one write batch of blind puts, a change single-deletes the entries that
//!   go ([`insert`]), and nothing is read but for unique indexes ([`unique`]). A scan of an index reads its entries alone ([`scan`]).
//! * Of a *lazy* one nobody says what a row was, and nobody reads it ([`lazy`]). Entries that their rows no longer yield are stale: scans hide them, by a look at the
//!   row at the same snapshot ([`fetch`]), and sweeps remove them ([`sweep`]): mostly those that flushes and compactions find.
//!
//! Rows of a table may expire, and their entries with them ([`expiring`]).
//!
//! An index may be added while rows change ([`build`]).
//!
//! A drop replaces the table's definition by marks on its index ids, in one synced batch. From then on the table is gone.
//! Its entries are removed by deleting the files that hold nothing else, and by a filter in compactions ([`drop_filter`]);
//! a mark goes at the first open that finds nothing behind it. Ids are never given out again, so that neither an insert that ran beside the
//! drop nor a snapshot from before it can bring anything back.

mod build;
mod call_rows;
mod check;
mod dictionary;
mod drop_filter;
mod drops;
mod engine;
mod expiring;
mod fetch;
mod figures;
mod ground;
mod index;
mod insert;
mod last_key;
mod layout;
mod lazy;
mod load;
mod open_tables;
mod read;
mod scan;
mod sweep;
#[cfg(test)]
mod tests;
mod unique;
mod writers;

pub use check::{IndexCheck, IndexDifference};
pub use figures::LazyFigures;
pub use scan::IndexScan;
pub use siltstone_base::index_scan::IndexEntry;
pub use sweep::{SweepFigures, SweepOptions, Swept};

use crate::batch::WriteBatch;
use crate::db::{ColumnFamily, Db};
use crate::options::{ColumnFamilyOptions, DbOptions, FlushOptions, ReadOptions, WriteOptions};
use crate::snapshot::Snapshot;
use dictionary::{DictionaryRow, TableDefinition, decode_row, dropped_key, next_id_row};
use drop_filter::{DropFilter, DroppedIndexes};
use ground::Ground;
use index::{Table, eager_specs};
use layout::{FIRST_ID, IndexId};
use siltstone_base::engine::{LazyTableId, LazyTableSpec, TableId, TableSpec};
use siltstone_base::expiry::RowExpiry;
use siltstone_base::row_locks::RowLocks;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::Path;
use sweep::{Sweeper, Sweeps};
use writers::Writers;

/// Memory for the locks of keys of unique indexes.
const MAX_LOCK_BYTES: usize = 256 << 20;

/// The name of `TtlFilter` of `siltstone-ttl`, which would take for a stamp whatever a row begins or ends with.
const BLIND_FILTER: &str = "siltstone.TtlFilter";

/// Rank of the dictionary: taken before every lock of the database, held while its rows are written.
const RANK: Rank = Rank(5);

/// A database of tables.
///
/// Thread safety: every method may be called from any thread. Inserts and reads take no lock of the tables' own, but for changes of keys of unique indexes.
///
/// ```
/// use siltstone_base::engine::{Row, TableSpec};
/// use siltstone_base::index_spec::{IndexExtractor, IndexSpec};
/// use siltstone_lsm::{ColumnFamilyOptions, DbOptions, IndexScan, TableDb, WriteOptions};
/// use std::sync::Arc;
///
/// /// Sorts rows by the first byte of their value.
/// #[derive(Debug)]
/// struct ByFirstByte;
///
/// impl IndexExtractor for ByFirstByte {
///     fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
///         index_key.extend(value.first());
///         !value.is_empty()
///     }
/// }
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// let dir = tempfile::tempdir().expect("a directory");
/// let options = DbOptions::default().create_if_missing(true);
/// let db = TableDb::open(dir.path(), &options, &ColumnFamilyOptions::default(), &WriteOptions::default())?;
/// let by_first_byte = IndexSpec::new("by_first_byte", Arc::new(ByFirstByte));
/// let stones = db.create_table(&TableSpec { name: "stones".to_owned(), indexes: vec![by_first_byte] })?;
/// db.insert(stones, &[Row { primary_key: b"1", value: b"slate" }, Row { primary_key: b"2", value: b"chalk" }])?;
///
/// let mut entries = Vec::new();
/// db.scan_index(stones, 0, b"", 10, &mut |entry| entries.push(entry.to_vec()))?;
/// assert_eq!(entries, [b"c2", b"s1"]);
///
/// // A change says what the row was; nothing is read.
/// let before = Row { primary_key: b"1", value: b"slate" };
/// db.update(stones, &[(before, Row { primary_key: b"1", value: b"granite" })])?;
/// let from_d = IndexScan::all().starting_at(b"d");
/// let mut names = Vec::new();
/// db.scan_rows_by(stones, 0, &from_d, &mut |entry, value| {
///     names.push((entry.primary_key.to_vec(), value.to_vec()));
/// })?;
/// assert_eq!(names, [(b"1".to_vec(), b"granite".to_vec())]);
/// db.close()
/// # }
/// ```
#[derive(Debug)]
pub struct TableDb {
    ground: Arc<Ground>,
    system: ColumnFamily,
    dictionary: Mutex<Dictionary>,
    /// Whether the dictionary has an index that is left to be taken away.
    has_left_index: AtomicBool,
    writers: Writers,
    /// Who changes keys of unique indexes: locks that last as long as one call. Each call is an owner of its own.
    unique_keys: RowLocks,
    next_owner: AtomicU64,
    /// Sweeps in the background.
    sweeper: Arc<Sweeper>,
}

impl Drop for TableDb {
    fn drop(&mut self) {
        // A job of the executor must not be the last to hold the database: it would have to close it.
        self.sweeper.stop();
    }
}

/// A table of either kind, for what both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnyTableId(u32);

impl From<TableId> for AnyTableId {
    fn from(table: TableId) -> Self {
        Self(table.0)
    }
}

impl From<LazyTableId> for AnyTableId {
    fn from(table: LazyTableId) -> Self {
        Self(table.0)
    }
}

/// The table of this id among those that are open.
#[inline]
fn find(tables: &[Arc<Table>], id: AnyTableId) -> Result<&Arc<Table>> {
    match tables.binary_search_by_key(&id.0, |table| table.number()) {
        Ok(position) => Ok(&tables[position]),
        Err(_) => Err(Error::new(ErrorKind::NotFound, "no open table has this id")),
    }
}

/// What the lock of the dictionary guards: a copy of the stored rows.
#[derive(Debug, Default)]
struct Dictionary {
    next_id: u32,
    tables: BTreeMap<String, TableDefinition>,
    /// The table that an index is being added to.
    building: Option<IndexId>,
    /// Its number and the index, if adding it has failed and it could not be written down that it is gone.
    left: Option<(AnyTableId, IndexId)>,
}

impl Dictionary {
    /// The definition of the table of this number.
    fn table(&self, id: AnyTableId) -> Result<&TableDefinition> {
        let found = self.tables.values().find(|definition| definition.primary.0 == id.0);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "no table has this id"))
    }

    /// Fails unless every id was given out, and is that of one index, or of one that is dropped: entries of the others would be removed, or mixed.
    fn check_ids(&self, dropped: Vec<IndexId>) -> Result<()> {
        let mut ids: Vec<IndexId> = self.tables.values().flat_map(TableDefinition::ids).chain(dropped).collect();
        ids.sort_unstable();
        let what = match () {
            () if ids.last().is_some_and(|last| last.0 >= self.next_id) => "an index has an id that was not given out",
            () if ids.windows(2).any(|pair| pair[0] == pair[1]) => "two indexes have one id, or one that is dropped",
            () => return Ok(()),
        };
        Err(Error::corrupt(format!("dictionary of tables: {what}")))
    }

    /// Fails while an index is being added to the table.
    fn check_not_building(&self, definition: &TableDefinition) -> Result<()> {
        if self.building == Some(definition.primary) {
            return Err(Error::new(ErrorKind::Busy, format!("an index is being added to table {}", definition.name)));
        }
        Ok(())
    }
}

impl TableDb {
    /// Opens the database of tables in `dir`. `rows` are the options of the family that the tables share; every insert is written
    /// with `writes`. A compaction filter of `rows` sees rows and index entries as they are stored, and must keep them all: what it removes or changes of the one does not go, or change, in the other.
    ///
    /// # Errors
    ///
    /// Those of [`Db::open`]; `InvalidArgument` if the comparator of `rows` is not bytewise, its compaction style is FIFO, which would delete rows without their entries and entries without their rows, its expiry policy is none of tables, its compaction filter is `TtlFilter` of `siltstone-ttl`, or the directory holds keys
    /// that belong to no table; `Corruption` or `NotSupported` for a damaged or newer dictionary.
    pub fn open(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        rows: &ColumnFamilyOptions,
        writes: &WriteOptions,
    ) -> Result<Self> {
        Self::open_swept(dir, options, rows, writes, &SweepOptions::default())
    }

    /// The same, with options for the sweeps that remove stale entries of lazy tables in the background.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open); `InvalidArgument` for a share above 100 %.
    pub fn open_swept(
        dir: impl AsRef<Path>,
        options: &DbOptions,
        rows: &ColumnFamilyOptions,
        writes: &WriteOptions,
        sweeps: &SweepOptions,
    ) -> Result<Self> {
        sweeps.check()?;
        if !rows.comparator.is_bytewise() {
            return Err(Error::invalid_argument("comparator: tables need the bytewise order"));
        }
        rows.check_keeps_all()?;
        if rows.expiry.as_ref().is_some_and(|policy| policy.tables().is_none()) {
            // It would take for a stamp whatever a row begins or ends with, and leave the entries of what it removes.
            return Err(Error::invalid_argument("expiry: rows of tables expire by a policy of tables"));
        }
        if rows.compaction_filter.as_ref().is_some_and(|filter| filter.name() == BLIND_FILTER) {
            return Err(Error::invalid_argument("compaction_filter: rows of tables expire by a policy of tables"));
        }
        let dropped = Arc::new(DroppedIndexes::default());
        let filter = DropFilter { dropped: Arc::clone(&dropped), user: rows.compaction_filter.clone() };
        let rows = rows.clone().compaction_filter(Some(Arc::new(filter)));
        let expiry = rows.expiry.clone();
        // Whoever can read the rows' tables can read the dictionary's.
        let system = ColumnFamilyOptions::default()
            .write_buffer_size(1 << 20)
            .compression(rows.compression)
            .table(rows.table.clone());
        let options = options.clone().create_missing_column_families(true);
        let db = Db::open_families(dir, &options, &[("default", rows), (dictionary::FAMILY, system)])?;
        let system = db
            .family(dictionary::FAMILY)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "the column family of the dictionary"))?;
        let ground = Arc::new(Ground {
            rows: db.default_family(),
            db,
            write_options: writes.clone(),
            open_tables: Arc::default(),
            dropped,
            expiry,
            sweeps: Sweeps::new(),
        });
        let tables = Self {
            sweeper: Sweeper::attach(&ground, sweeps),
            ground,
            system,
            dictionary: Mutex::new(RANK, Dictionary::default()),
            has_left_index: AtomicBool::new(false),
            writers: Writers::default(),
            unique_keys: RowLocks::new(MAX_LOCK_BYTES),
            next_owner: AtomicU64::new(1),
        };
        [&tables.ground.rows, &tables.system].into_iter().for_each(ColumnFamily::keep_all);
        tables.load_dictionary()?;
        tables.resume_expiry()?;
        tables.forget_unfinished()?;
        tables.forget_removed()?;
        // What was asked for when they were dropped is forgotten with the process.
        tables.give_space_back(tables.ground.dropped.all());
        Ok(tables)
    }

    /// The database under the tables. Its keys are the tables' own: read them, do not write them.
    pub fn db(&self) -> &Db {
        &self.ground.db
    }

    /// The names of all tables, sorted.
    pub fn table_names(&self) -> Vec<String> {
        self.dictionary.lock().tables.keys().cloned().collect()
    }

    /// The state of all tables at this moment, for scans.
    pub fn snapshot(&self) -> Snapshot {
        self.ground.db.snapshot()
    }

    /// Creates a table and opens it. The table is durable when this returns.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `InvalidArgument` for a bad name; `LimitExceeded` for more than 64 indexes; and those of a write.
    pub fn create_table(&self, spec: &TableSpec) -> Result<TableId> {
        self.create(spec, false, None).map(TableId)
    }

    /// Creates a lazy table and opens it. The table is durable when this returns. It stays lazy for as long as it exists.
    ///
    /// # Errors
    ///
    /// Those of [`create_table`](Self::create_table).
    pub fn create_lazy_table(&self, spec: &LazyTableSpec) -> Result<LazyTableId> {
        self.create(&eager_specs(spec), true, None).map(LazyTableId)
    }

    fn create(&self, spec: &TableSpec, lazy: bool, expiry: Option<RowExpiry>) -> Result<u32> {
        self.check_expiry(expiry.as_ref())?;
        let mut dictionary = self.dictionary.lock();
        if dictionary.tables.contains_key(&spec.name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("table {} exists", spec.name)));
        }
        let mut definition = TableDefinition::new(spec, dictionary.next_id, lazy)?;
        definition.expiry = expiry;
        // At most 64 indexes, below the largest id: checked by `new`.
        let next_id = dictionary.next_id + 1 + definition.indexes.len() as u32;
        self.store_definition(&mut dictionary, definition.clone(), Some(next_id), &[])?;
        if let Err(error) = self.adopt(&definition) {
            // Nothing has its ids. Where that fails, too, there is an empty table, which can be opened.
            let _ = self.remove_definition(&mut dictionary, &definition);
            return Err(error);
        }
        let table = Table::new(definition, spec);
        table.last_key.set(Vec::new());
        Ok(self.publish(table))
    }

    /// Opens a table that exists and gives it its extractors.
    ///
    /// # Errors
    ///
    /// `NotFound`; `InvalidArgument` if it was created with indexes of other names, flags, lengths of keys or extractors, as far as those say who they are, or is lazy; `Busy` while an index is added to it.
    pub fn open_table(&self, spec: &TableSpec) -> Result<TableId> {
        self.open_existing(spec, false, None).map(TableId)
    }

    /// Opens a lazy table that exists and gives it its extractors.
    ///
    /// # Errors
    ///
    /// Those of [`open_table`](Self::open_table); `InvalidArgument` if the table is not lazy.
    pub fn open_lazy_table(&self, spec: &LazyTableSpec) -> Result<LazyTableId> {
        self.open_existing(&eager_specs(spec), true, None).map(LazyTableId)
    }

    fn open_existing(&self, spec: &TableSpec, lazy: bool, expiry: Option<RowExpiry>) -> Result<u32> {
        self.remove_left_index();
        let mut dictionary = self.dictionary.lock();
        let definition = dictionary
            .tables
            .get(&spec.name)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("table {}", spec.name)))?;
        definition.check_spec(spec, lazy)?;
        definition.check_expiry(expiry.as_ref())?;
        dictionary.check_not_building(definition)?;
        let definition = definition.clone();
        let definition = self.renew_expiry(&mut dictionary, definition, expiry)?;
        let table = Table::new(definition, spec);
        if lazy {
            // Where it cannot be read, rows are met by who reads them.
            self.ground.last_row(table.definition.primary).into_iter().for_each(|key| table.last_key.set(key));
        }
        Ok(self.publish(table))
    }

    /// Makes a definition durable, and then known, with marks on indexes that it does not have any more.
    fn store_definition(
        &self,
        dictionary: &mut Dictionary,
        definition: TableDefinition,
        next_id: Option<u32>,
        dropped: &[IndexId],
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in next_id.map(next_id_row).into_iter().chain([definition.encode()]) {
            batch.put_cf(&self.system, key, value);
        }
        for id in dropped {
            batch.put_cf(&self.system, dropped_key(*id), []);
        }
        self.write_dictionary(&mut batch)?;
        dictionary.next_id = next_id.unwrap_or(dictionary.next_id);
        dictionary.tables.insert(definition.name.clone(), definition);
        Ok(())
    }

    /// Closes the database; see [`Db::close`].
    pub fn close(self) -> Result<()> {
        self.sweeper.stop();
        self.ground.db.clone().close()
    }

    /// Makes an open table known to readers and writers. REQUIRES: the caller holds the lock of the dictionary.
    fn publish(&self, table: Arc<Table>) -> u32 {
        let number = table.number();
        let mut tables = Vec::clone(&self.ground.open_tables.load());
        let before = tables.iter().position(|other| other.number() == number).map(|at| tables.swap_remove(at));
        tables.push(table.with_counts_of(before.as_deref()));
        tables.sort_by_key(|table| table.number());
        self.ground.open_tables.store(tables);
        number
    }

    /// The open table of this id.
    #[inline]
    fn with_table<T>(&self, id: impl Into<AnyTableId>, work: impl FnOnce(&Arc<Table>) -> Result<T>) -> Result<T> {
        find(&self.ground.open_tables.load(), id.into()).and_then(work)
    }

    /// The open table of this id, to keep.
    fn table(&self, id: impl Into<AnyTableId>) -> Result<Arc<Table>> {
        self.with_table(id, |table| Ok(Arc::clone(table)))
    }

    /// Makes a change of the dictionary durable. Its family is flushed soon afterwards: it changes so rarely that it would
    /// keep the WALs of all inserts since.
    fn write_dictionary(&self, batch: &mut WriteBatch) -> Result<()> {
        self.ground.db.write(batch, &WriteOptions::default().sync(true))?;
        // The change is durable whatever comes of this.
        let _ = self.ground.db.flush_families(&[&self.system], &FlushOptions::default().wait(false));
        Ok(())
    }

    /// Reads all rows of the dictionary; begins one in a directory that is empty.
    fn load_dictionary(&self) -> Result<()> {
        let mut dictionary = self.dictionary.lock();
        let mut rows = self.ground.db.iter_cf(&self.system, &ReadOptions::default())?;
        rows.seek_to_first();
        while rows.valid() {
            match decode_row(rows.key(), rows.value())? {
                DictionaryRow::NextId(next_id) => dictionary.next_id = next_id,
                DictionaryRow::Table(table) => {
                    dictionary.tables.insert(table.name.clone(), table);
                }
                DictionaryRow::Dropped(id) => self.ground.dropped.add([id]),
            }
            rows.next();
        }
        rows.status()?;
        if dictionary.next_id != 0 {
            return dictionary.check_ids(self.ground.dropped.all());
        }
        if !dictionary.tables.is_empty() || !self.ground.dropped.all().is_empty() {
            return Err(Error::corrupt("dictionary of tables: the next index id is missing"));
        }
        let mut keys = self.ground.db.iter_cf(&self.ground.rows, &ReadOptions::default())?;
        keys.seek_to_first();
        keys.status()?;
        if keys.valid() {
            return Err(Error::invalid_argument("the directory holds keys that belong to no table"));
        }
        let (key, value) = next_id_row(FIRST_ID.0);
        let mut batch = WriteBatch::new();
        batch.put_cf(&self.system, key, value);
        self.write_dictionary(&mut batch)?;
        dictionary.next_id = FIRST_ID.0;
        Ok(())
    }
}
