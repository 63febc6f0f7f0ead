//! Tables whose rows expire: stamps before the values of rows and entries, and what their policy is told.
//!
//! Values of rows and entries are what is stored as long as they are within the tables: an [`Index`] takes the stamp of a row off before it asks its extractor, and puts it before the value
//! of the entry. So whoever makes an entry of a stored row, be it a writer, a build, a sweep or a check, makes one that expires with the row. Callers see no stamps.
//!
//! A row's entries must not expire before it. So whatever writes a row puts all of its entries again, also where they stay the same. An entry is put many times then: it
//! is deleted by a tombstone, never by a single delete.

use super::dictionary::TableDefinition;
use super::index::{Index, Table};
use super::insert::Scratch;
use super::layout::IndexId;
use super::{AnyTableId, Dictionary, TableDb};
use crate::db::TableExpiryReport;
use siltstone_base::coding::put_varint32;
use siltstone_base::engine::{LazyTableId, LazyTableSpec, Row, TableId, TableSpec};
use siltstone_base::expiry::{ExpiringTable, ROW_STAMP_LEN, RowExpiry, TablePolicy, TtlDuration};
use siltstone_base::{Error, Result};

/// The stamp of a row as it is stored; `None` where rows do not expire.
pub(super) type RowStamp = Option<[u8; ROW_STAMP_LEN]>;

/// The stamp of a stored value, which is empty where rows do not expire, and the rest.
#[inline]
pub(super) fn split_stamp(expires: bool, stored: &[u8]) -> Option<(&[u8], &[u8])> {
    stored.split_at_checked(if expires { ROW_STAMP_LEN } else { 0 })
}

/// A stored row's value without its stamp.
///
/// # Errors
///
/// `Corruption` for one that is too short.
#[inline]
pub(super) fn without_stamp(expires: bool, stored: &[u8]) -> Result<&[u8]> {
    split_stamp(expires, stored).map(|(_, value)| value).ok_or_else(no_stamp)
}

#[cold]
pub(super) fn no_stamp() -> Error {
    Error::corrupt("a row of a table is too short for its stamp")
}

/// A key of a unique index that a row gives up. Another row may hold it by now: if the row expired between the caller's look at it and the change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release {
    /// As it is stored.
    pub(super) key: Vec<u8>,
    /// How the entry's value goes on behind its stamp.
    holder: Vec<u8>,
}

impl Release {
    /// Whether a stored entry is that of the row that gives the key up.
    pub(super) fn is_holder(&self, stored: &[u8]) -> bool {
        split_stamp(true, stored).is_some_and(|(_, value)| value.starts_with(&self.holder))
    }
}

impl Table {
    /// Whether rows expire.
    #[inline]
    pub(super) fn expires(&self) -> bool {
        self.definition.expiry.is_some()
    }

    /// The stamp of a row that is written at `now`.
    #[inline]
    pub(super) fn stamp(&self, value: &[u8], now: u64) -> Result<RowStamp> {
        self.definition.expiry.as_ref().map(|expiry| expiry.stamp(value, now)).transpose()
    }
}

impl Scratch {
    /// Deletes the entries of a row whose keys `new` does not yield. Those that it does are put again.
    pub(super) fn remove_expiring(&mut self, table: &Table, row: &Row<'_>, new: Option<&Row<'_>>) -> Result<()> {
        for index in &table.indexes {
            if !self.entry_of(index, row, &[])? {
                continue;
            }
            if index.spec.unique {
                let mut holder = Vec::with_capacity(row.primary_key.len() + 5);
                put_varint32(&mut holder, u32::try_from(row.primary_key.len()).unwrap_or(u32::MAX));
                holder.extend_from_slice(row.primary_key);
                self.releases.push(Release { key: self.key.clone(), holder });
                continue;
            }
            let stays = match new {
                Some(new) => {
                    index.entry_of(new, &[], &mut self.other_key, &mut self.other_value)? && self.other_key == self.key
                }
                None => false,
            };
            if !stays {
                self.batch.delete(&*self.key);
            }
        }
        Ok(())
    }
}

impl Index {
    /// What follows the id in a key, and a stored value, as an entry. `None` if they are none.
    #[inline]
    pub(super) fn decode<'a>(&self, key: &'a [u8], stored: &'a [u8]) -> Option<super::IndexEntry<'a>> {
        let (_, value) = split_stamp(self.expires, stored)?;
        self.form.decode(key, value)
    }
}

/// The table as the policy knows it; `None` if it does not expire.
fn expiring(definition: &TableDefinition) -> Option<ExpiringTable> {
    let duration = definition.expiry?.duration();
    let indexes = definition.ids().map(|IndexId(id)| id).collect();
    Some(ExpiringTable { indexes, duration, expired_until: definition.expired_until })
}

impl TableDb {
    /// Creates a table whose rows expire, and their index entries with them, and opens it. The table is durable when this returns. The family of the rows must have a policy of
    /// tables (`TableTtl` of `siltstone-ttl`).
    ///
    /// # Errors
    ///
    /// Those of [`create_table`](Self::create_table); `InvalidArgument` if the family has no such policy.
    pub fn create_expiring_table(&self, spec: &TableSpec, expiry: &RowExpiry) -> Result<TableId> {
        self.create(spec, false, Some(*expiry)).map(TableId)
    }

    /// Creates a lazy table whose rows expire; see [`create_expiring_table`](Self::create_expiring_table).
    ///
    /// # Errors
    ///
    /// Those of [`create_expiring_table`](Self::create_expiring_table).
    pub fn create_expiring_lazy_table(&self, spec: &LazyTableSpec, expiry: &RowExpiry) -> Result<LazyTableId> {
        self.create(&super::index::eager_specs(spec), true, Some(*expiry)).map(LazyTableId)
    }

    /// Opens a table that exists and whose rows expire. If the duration is another one than the table had, it has the new one from the next second on; no row comes back by that.
    ///
    /// # Errors
    ///
    /// Those of [`open_table`](Self::open_table); `InvalidArgument` if its rows do not expire, or have the stamps of another column; those of [`set_row_duration`](Self::set_row_duration).
    pub fn open_expiring_table(&self, spec: &TableSpec, expiry: &RowExpiry) -> Result<TableId> {
        self.open_existing(spec, false, Some(*expiry)).map(TableId)
    }

    /// Opens a lazy table that exists and whose rows expire; see [`open_expiring_table`](Self::open_expiring_table).
    ///
    /// # Errors
    ///
    /// Those of [`open_expiring_table`](Self::open_expiring_table).
    pub fn open_expiring_lazy_table(&self, spec: &LazyTableSpec, expiry: &RowExpiry) -> Result<LazyTableId> {
        self.open_existing(&super::index::eager_specs(spec), true, Some(*expiry)).map(LazyTableId)
    }

    /// When the rows of a table expire; `None` if they do not.
    ///
    /// # Errors
    ///
    /// `NotFound` if no table has this id.
    pub fn row_expiry(&self, table: impl Into<AnyTableId>) -> Result<Option<RowExpiry>> {
        Ok(self.dictionary.lock().table(table.into())?.expiry)
    }

    /// What there is to tell about the rows of a table that expire, and about their index entries; `None` if they do not expire. What keeps space is told of the family:
    /// [`Db::expiry_report`](crate::Db::expiry_report).
    ///
    /// # Errors
    ///
    /// `NotFound` if no table has this id.
    pub fn expiry_report(&self, table: impl Into<AnyTableId>) -> Result<Option<TableExpiryReport>> {
        let table = expiring(self.dictionary.lock().table(table.into())?);
        let Some(table) = table else { return Ok(None) };
        self.ground.db.expiry_of_groups(&table.indexes)
    }

    /// Gives the rows of a table another duration, from the next second on, for readers that begin then. Nothing is rewritten; a longer one brings no row back. It is durable when
    /// this returns.
    ///
    /// # Errors
    ///
    /// `NotFound` if no table has this id, `InvalidArgument` if its rows do not expire, `LimitExceeded` for the 256th change since the database was opened, `Busy` while the clock is
    /// not trusted, and those of a write.
    pub fn set_row_duration(&self, table: impl Into<AnyTableId>, duration: TtlDuration) -> Result<()> {
        let mut dictionary = self.dictionary.lock();
        let mut definition = dictionary.table(table.into())?.clone();
        let Some(expiry) = definition.expiry else {
            return Err(Error::invalid_argument(format!("ttl: rows of table {} do not expire", definition.name)));
        };
        definition.expiry = Some(expiry.with_duration(duration));
        self.change_expiry(&mut dictionary, definition, expiry).map(drop)
    }

    /// Lets rows expire as a changed definition says. The dictionary comes first: what a crash leaves in it alone is in force from the next opening on, while a duration that the policy alone knew would have had rows
    /// removed that the dictionary says live.
    fn change_expiry(
        &self,
        dictionary: &mut Dictionary,
        mut definition: TableDefinition,
        before: RowExpiry,
    ) -> Result<TableDefinition> {
        self.note_expired(&mut definition);
        self.store_definition(dictionary, definition.clone(), None, &[])?;
        if let Err(error) = self.adopt(&definition) {
            // Where that fails, too, it is in force from the next opening on.
            let before = TableDefinition { expiry: Some(before), ..definition };
            let _ = self.store_definition(dictionary, before, None, &[]);
            return Err(error);
        }
        self.keep_expired(dictionary, &mut definition)?;
        Ok(definition)
    }

    /// Lets the dictionary, which is all that a backup has, say which rows durations made expire that are in force no more. Time went on while a duration was written down, and a crash may have come before it
    /// was in force: rows expired by the one before until then.
    fn keep_expired(&self, dictionary: &mut Dictionary, definition: &mut TableDefinition) -> Result<()> {
        match self.note_expired(definition) {
            true => self.store_definition(dictionary, definition.clone(), None, &[]),
            false => Ok(()),
        }
    }

    /// Notes which rows are expired whatever their duration is from now on. Returns whether they are more than the definition said.
    fn note_expired(&self, definition: &mut TableDefinition) -> bool {
        let expired = expiring(definition).zip(self.table_policy().ok());
        let until = expired.and_then(|(table, policy)| policy.expired_until(&table));
        let is_later = until > definition.expired_until;
        definition.expired_until = definition.expired_until.max(until);
        is_later
    }

    /// The side of the family's policy that is told about tables.
    fn table_policy(&self) -> Result<&dyn TablePolicy> {
        let policy = self.ground.expiry.as_ref().and_then(|policy| policy.tables());
        policy.ok_or_else(|| {
            Error::invalid_argument("expiry: rows of a table expire by a policy of tables, and their family has none")
        })
    }

    /// Fails if a table cannot expire as it is to.
    pub(super) fn check_expiry(&self, expiry: Option<&RowExpiry>) -> Result<()> {
        match expiry {
            Some(_) => self.table_policy().map(drop),
            None => Ok(()),
        }
    }

    /// Tells the policy about a table, before anything of it is written that has a stamp.
    pub(super) fn adopt(&self, definition: &TableDefinition) -> Result<()> {
        match expiring(definition) {
            Some(table) => self.table_policy()?.adopt(&table),
            None => Ok(()),
        }
    }

    /// Gives the table that is opened the duration that the caller says.
    pub(super) fn renew_expiry(
        &self,
        dictionary: &mut Dictionary,
        mut definition: TableDefinition,
        expiry: Option<RowExpiry>,
    ) -> Result<TableDefinition> {
        match (std::mem::replace(&mut definition.expiry, expiry), expiry) {
            (Some(before), Some(now)) if before != now => {
                definition = self.change_expiry(dictionary, definition, before)?;
            }
            (_, Some(_)) => self.adopt(&definition)?,
            (before, None) => definition.expiry = before,
        }
        Ok(definition)
    }

    /// Tells the policy about all tables, before anything of them is read.
    pub(super) fn resume_expiry(&self) -> Result<()> {
        let mut dictionary = self.dictionary.lock();
        let tables: Vec<ExpiringTable> = dictionary.tables.values().filter_map(expiring).collect();
        match self.table_policy() {
            Ok(policy) => policy.resume(&tables)?,
            Err(error) if !tables.is_empty() => return Err(error),
            Err(_) => return Ok(()),
        }
        let expire = |table: &&TableDefinition| table.expiry.is_some();
        let definitions: Vec<TableDefinition> = dictionary.tables.values().filter(expire).cloned().collect();
        definitions.into_iter().try_for_each(|mut table| self.keep_expired(&mut dictionary, &mut table))
    }
}
