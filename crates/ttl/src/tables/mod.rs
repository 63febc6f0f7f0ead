//! The expiry policy of the family that tables share: each table has a duration of its own.
//!
//! A key begins with the id of an index, 4 bytes big-endian, and a value with its stamp, if the index is one of a table whose rows expire. All indexes of a table share its
//! durations over time, so that a row and its entries, which have one stamp, expire in the same second. A group of stamps is an index.

use crate::history::History;
use siltstone_base::coding::{
    get_length_prefixed, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64,
};
use siltstone_base::expiry::{ExpiringTable, ExpiryHome, ExpiryPolicy, Stamp, TablePolicy};
use siltstone_base::sync::{Arc, ArcSwap, Mutex, Rank, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Rank of the lock of changes: held while one is saved. The lock of a dictionary of tables may be held.
const RANK: Rank = Rank(6);

/// The form of what is saved.
const FORM: u64 = 1;

/// Lets rows of tables expire, and their index entries with them: each table's after its own duration.
///
/// It is given to the tables of one database by the option `expiry` of their family; which of them expire, and when, is said where a table is created. Tables beside them live for ever.
///
/// Thread safety: every method may be called from any thread; reads take no lock.
///
/// ```
/// use siltstone_base::clock::ManualClock;
/// use siltstone_base::engine::{Row, TableSpec};
/// use siltstone_base::executor::StepExecutor;
/// use siltstone_base::index_spec::IndexSpec;
/// use siltstone_lsm::{ColumnFamilyOptions, DbOptions, TableDb, WriteOptions};
/// use siltstone_ttl::{RowExpiry, TableTtl, TtlDuration};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// # fn main() -> siltstone_base::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let clock = Arc::new(ManualClock::new(1_700_000_000));
/// let options = DbOptions::default().create_if_missing(true).executor(Some(Arc::new(StepExecutor::new(clock.clone()))));
/// let rows = ColumnFamilyOptions::default().expiry(Some(Arc::new(TableTtl::default())));
/// let db = TableDb::open(dir.path(), &options, &rows, &WriteOptions::default())?;
///
/// let by_kind = IndexSpec::over_columns("by_kind", Some(0..1));
/// let spec = TableSpec { name: "stones".to_owned(), indexes: vec![by_kind] };
/// let stones = db.create_expiring_table(&spec, &RowExpiry::after(TtlDuration::from_seconds(3600)?))?;
/// db.insert(stones, &[Row { primary_key: b"1", value: b"slate" }])?;
/// assert_eq!(db.scan_index(stones, 0, b"", 10, &mut |_| {})?, 1);
///
/// clock.advance(Duration::from_secs(3600));
/// assert!(!db.get_row(stones, b"1", &mut |_| {})?);
/// assert_eq!(db.scan_index(stones, 0, b"", 10, &mut |_| {})?, 0);
/// db.close()
/// # }
/// ```
#[derive(Debug, Default)]
pub struct TableTtl {
    tables: ArcSwap<Tables>,
    /// Where the family is, while its database is open.
    home: Home,
}

#[derive(Debug)]
struct Home(Mutex<Option<Weak<dyn ExpiryHome>>>);

impl Default for Home {
    fn default() -> Self {
        Self(Mutex::new(RANK, None))
    }
}

/// What is known of tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tables {
    /// By the first of its indexes.
    tables: BTreeMap<u32, Table>,
    /// The durations of each index.
    indexes: BTreeMap<u32, Arc<History>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    indexes: Vec<u32>,
    history: Arc<History>,
}

impl Tables {
    fn insert(&mut self, indexes: &[u32], history: History) {
        let Some(first) = indexes.first() else { return };
        let history = Arc::new(history);
        self.indexes.extend(indexes.iter().map(|index| (*index, Arc::clone(&history))));
        self.tables.insert(*first, Table { indexes: indexes.to_vec(), history });
    }

    fn history(&self, table: &ExpiringTable) -> Option<&History> {
        Some(&*self.tables.get(table.indexes.first()?)?.history)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint64(&mut out, FORM);
        put_varint64(&mut out, self.tables.len() as u64);
        for table in self.tables.values() {
            put_varint64(&mut out, table.indexes.len() as u64);
            table.indexes.iter().for_each(|index| put_varint32(&mut out, *index));
            put_length_prefixed(&mut out, &table.history.encode());
        }
        out
    }

    /// Those that were saved, if any were.
    fn saved(saved: &[u8]) -> Result<Self> {
        if saved.is_empty() { Ok(Self::default()) } else { Self::decode(saved) }
    }

    fn decode(mut input: &[u8]) -> Result<Self> {
        let wrong = || Error::corrupt("the saved durations of tables are damaged");
        match get_varint64(&mut input).ok_or_else(wrong)? {
            FORM => {}
            form => return Err(Error::not_supported(format!("saved durations of tables, of form {form}"))),
        }
        let mut tables = Self::default();
        for _ in 0..get_varint64(&mut input).ok_or_else(wrong)? {
            let mut indexes = Vec::new();
            for _ in 0..get_varint64(&mut input).ok_or_else(wrong)? {
                indexes.push(get_varint32(&mut input).ok_or_else(wrong)?);
            }
            let history = History::decode(get_length_prefixed(&mut input).ok_or_else(wrong)?)?;
            if indexes.is_empty() || indexes.iter().any(|index| tables.indexes.contains_key(index)) {
                return Err(wrong());
            }
            tables.insert(&indexes, history);
        }
        if input.is_empty() { Ok(tables) } else { Err(wrong()) }
    }
}

impl TableTtl {
    fn home(home: &Option<Weak<dyn ExpiryHome>>) -> Result<Arc<dyn ExpiryHome>> {
        let home = home.as_ref().and_then(Weak::upgrade);
        home.ok_or_else(|| Error::new(ErrorKind::Aborted, "expiry: the family of the policy is gone"))
    }

    /// Saves what is to be known, and then knows it.
    fn store(&self, home: &dyn ExpiryHome, tables: Tables) -> Result<()> {
        if tables != **self.tables.load() {
            home.save(&tables.encode())?;
            self.tables.store(Arc::new(tables));
        }
        Ok(())
    }
}

impl TablePolicy for TableTtl {
    fn resume(&self, tables: &[ExpiringTable]) -> Result<()> {
        let home = self.home.0.lock();
        let home = Self::home(&home)?;
        let (known, now) = (self.tables.load_full(), home.trusted_now());
        let mut resumed = Tables::default();
        for table in tables {
            let history = match known.history(table) {
                Some(history) => history.resumed(table.duration, now),
                // What is saved was lost, as in a backup.
                None => History::new(table.duration),
            };
            resumed.insert(&table.indexes, history.expired_until(table.expired_until));
        }
        self.store(&*home, resumed)
    }

    fn adopt(&self, table: &ExpiringTable) -> Result<()> {
        let home = self.home.0.lock();
        let home = Self::home(&home)?;
        let mut tables = Tables::clone(&self.tables.load());
        let known = tables.history(table).cloned();
        match known {
            Some(history) if history.current() != table.duration => home.while_time_stands(&mut |now| {
                tables.insert(&table.indexes, history.changed(table.duration, now)?);
                self.store(&*home, tables.clone())
            }),
            known => {
                let history = known.unwrap_or_else(|| History::new(table.duration).expired_until(table.expired_until));
                tables.insert(&table.indexes, history);
                self.store(&*home, tables)
            }
        }
    }

    fn expired_until(&self, table: &ExpiringTable) -> Option<u64> {
        let home = self.home.0.lock();
        let now = Self::home(&home).ok()?.trusted_now();
        self.tables.load().history(table)?.resumed(table.duration, now).horizon()
    }
}

impl ExpiryPolicy for TableTtl {
    fn name(&self) -> &str {
        "siltstone.ttl.tables"
    }

    #[inline]
    fn stamp(&self, key: &[u8], value: &[u8]) -> Option<Stamp> {
        let group = u32::from_be_bytes(*key.first_chunk()?);
        let tables = self.tables.load();
        if !tables.indexes.contains_key(&group) {
            return None;
        }
        Some(Stamp { group, seconds: u64::from_be_bytes(*value.first_chunk()?) })
    }

    /// Of group 0: of the table of whose rows the fewest are expired.
    #[inline]
    fn bound(&self, group: u32, now: u64) -> Option<u64> {
        let tables = self.tables.load();
        match group {
            0 => tables.tables.values().map(|table| table.history.bound(now)).min().flatten(),
            group => tables.indexes.get(&group)?.bound(now),
        }
    }

    /// Of group 0: of the table whose rows live the shortest time.
    fn expires_at(&self, stamp: Stamp) -> Option<u64> {
        let tables = self.tables.load();
        match stamp.group {
            0 => tables.tables.values().map(|table| table.history.expires_at(stamp.seconds)).min(),
            group => Some(tables.indexes.get(&group)?.expires_at(stamp.seconds)),
        }
    }

    fn attach(&self, home: Weak<dyn ExpiryHome>, saved: &[u8]) -> Result<()> {
        let mut attached = self.home.0.lock();
        if attached.as_ref().is_some_and(|other| other.strong_count() > 0) {
            return Err(Error::new(ErrorKind::Busy, "expiry: the policy is that of another open family"));
        }
        self.tables.store(Arc::new(Tables::saved(saved)?));
        *attached = Some(home);
        Ok(())
    }

    fn view(self: Arc<Self>, saved: &[u8]) -> Result<Arc<dyn ExpiryPolicy>> {
        let tables = ArcSwap::from_pointee(Tables::saved(saved)?);
        Ok(Arc::new(Self { tables, home: Home::default() }))
    }

    fn tables(&self) -> Option<&dyn TablePolicy> {
        Some(self)
    }
}

#[cfg(test)]
mod tests;
