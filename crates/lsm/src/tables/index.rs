//! Open tables and their indexes, and the entries that rows have in them.

use super::dictionary::{IndexDefinition, TableDefinition};
use super::expiring::{no_stamp, split_stamp};
use super::figures::{LazyCounts, Rests};
use super::last_key::LastKey;
use super::layout::{EntryForm, IndexId};
use crate::key::SeqNo;
use crate::snapshot::Snapshot;
use siltstone_base::engine::{LazyTableSpec, Row, TableSpec};
use siltstone_base::index_spec::{IndexSpec, LazyIndexSpec};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::AtomicU64;
use siltstone_base::{Error, ErrorKind, Result};

/// An open table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) definition: TableDefinition,
    pub(super) indexes: Vec<Index>,
    /// Of a lazy table: what rows were at this number, or before, was compared with what they had become by then.
    pub(super) walked: Arc<AtomicU64>,
    /// What came of walking over it.
    pub(super) walk_rests: Arc<Rests>,
    /// Of a lazy table.
    pub(super) last_key: Arc<LastKey>,
}

/// A secondary index of an open table.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) id: IndexId,
    pub(super) spec: IndexSpec,
    pub(super) form: EntryForm,
    /// Rows and entries have stamps.
    pub(super) expires: bool,
    /// Entries of rows from before it are still being made: nobody reads it.
    pub(super) is_building: bool,
    /// Snapshots from before this number do not have all of its entries.
    pub(super) since: SeqNo,
    /// What is known of the entries of an index of a lazy table.
    pub(super) counts: Arc<LazyCounts>,
}

/// The same as [`IndexSpec`]s, for what both kinds of tables share.
pub(super) fn eager_specs(spec: &LazyTableSpec) -> TableSpec {
    TableSpec { name: spec.name.clone(), indexes: spec.indexes.iter().map(eager_spec).collect() }
}

/// An index of a lazy table as one that reads its rows.
pub(super) fn eager_spec(spec: &LazyIndexSpec) -> IndexSpec {
    IndexSpec::new(spec.name.clone(), Arc::clone(&spec.extractor)).covering(false)
}

impl Index {
    pub(super) fn new(own: &IndexDefinition, spec: &IndexSpec, expires: bool) -> Self {
        let form = match spec.extractor.fixed_len() {
            _ if own.unique => EntryForm::Unique,
            Some(len) => EntryForm::Fixed(len),
            None => EntryForm::Sized,
        };
        let counts = Arc::default();
        Self { id: own.id, spec: spec.clone(), form, expires, is_building: own.building, since: 0, counts }
    }

    /// Makes key and value of a stored row's entry. Returns whether there is one.
    ///
    /// # Errors
    ///
    /// Those of [`IndexSpec::try_key`]; `Corruption` for a row that is too short for its stamp.
    #[inline]
    pub(super) fn entry(&self, row: &Row<'_>, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        let (stamp, columns) = split_stamp(self.expires, row.value).ok_or_else(no_stamp)?;
        self.entry_of(&Row { value: columns, ..*row }, stamp, key, value)
    }

    /// The same of a row as callers know it, and its stamp.
    #[inline]
    pub(super) fn entry_of(&self, row: &Row<'_>, stamp: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        self.id.begin(key);
        let start = key.len();
        value.clear();
        value.extend_from_slice(stamp);
        if !self.spec.try_key(row.primary_key, row.value, key)? {
            return Ok(false);
        }
        self.form.finish(key.len() - start, row.primary_key, key, value);
        if self.spec.covered.is_some() {
            self.spec.try_covered(row.primary_key, row.value, value)?;
        }
        Ok(true)
    }

    /// Fails if the index was added after the snapshot.
    pub(super) fn check_since(&self, snapshot: Option<&Snapshot>) -> Result<()> {
        if snapshot.is_some_and(|snapshot| snapshot.seqno() < self.since) {
            let message = format!("index {} was added after the snapshot was taken", self.spec.name);
            return Err(Error::invalid_argument(message));
        }
        Ok(())
    }

    #[cold]
    pub(super) fn damaged(&self, position: u64) -> Error {
        Error::corrupt(format!("index {}: entry {position} of a scan, from 0, is damaged", self.spec.name))
    }
}

impl Table {
    /// The same table with other indexes.
    pub(super) fn with_indexes(&self, definition: TableDefinition, indexes: Vec<Index>) -> Arc<Self> {
        let (walked, walk_rests) = (Arc::clone(&self.walked), Arc::clone(&self.walk_rests));
        Arc::new(Self { definition, indexes, walked, walk_rests, last_key: Arc::clone(&self.last_key) })
    }

    pub(super) fn new(definition: TableDefinition, spec: &TableSpec) -> Arc<Self> {
        let expires = definition.expiry.is_some();
        let own = definition.indexes.iter().zip(&spec.indexes);
        let indexes = own.map(|(own, spec)| Index::new(own, spec, expires)).collect();
        let (walked, walk_rests, last_key) = Default::default();
        Arc::new(Self { definition, indexes, walked, walk_rests, last_key })
    }

    /// The same table with what another one knows of its indexes.
    pub(super) fn with_counts_of(mut self: Arc<Self>, other: Option<&Self>) -> Arc<Self> {
        if let (Some(table), Some(other)) = (Arc::get_mut(&mut self), other) {
            table.walked = Arc::clone(&other.walked);
            table.walk_rests = Arc::clone(&other.walk_rests);
            table.last_key = Arc::clone(&other.last_key);
            for index in &mut table.indexes {
                if let Some(known) = other.indexes.iter().find(|known| known.id == index.id) {
                    index.counts = Arc::clone(&known.counts);
                    index.since = index.since.max(known.since);
                }
            }
        }
        self
    }

    /// The number by which callers know it.
    pub(super) fn number(&self) -> u32 {
        self.definition.primary.0
    }

    /// Fails while a unique index is being built: a row without an entry would not hold its key against others.
    #[inline]
    pub(super) fn check_writable(&self) -> Result<()> {
        match self.indexes.last() {
            Some(index) if index.is_building && index.spec.unique => {
                Err(Error::new(ErrorKind::Busy, format!("unique index {} is being built", index.spec.name)))
            }
            _ => Ok(()),
        }
    }

    /// The index at a position.
    pub(super) fn index(&self, position: usize) -> Result<&Index> {
        match self.indexes.get(position) {
            Some(index) if index.is_building => {
                Err(Error::new(ErrorKind::Busy, format!("index {} is being built", index.spec.name)))
            }
            Some(index) => Ok(index),
            None => Err(Error::new(ErrorKind::NotFound, "the table has no index at this position")),
        }
    }
}
