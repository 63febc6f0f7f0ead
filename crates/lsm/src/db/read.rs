//! The read path: pin the super version, choose the sequence number, then memtable, sealed memtables, tables.
//!
//! Path: get 2/7. Before: db/mod.rs. After: memtable/mod.rs.

use super::column_family::Family;
use super::expiry::FamilyExpiry;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::key::{LookupKey, SeqNo, ValueType};
use crate::memtable::MemtableValue;
use crate::metrics::{Counter, HistogramKind, PerfTime, times};
use crate::options::{ReadOptions, ReadTier};
use crate::snapshot::Snapshot;
use crate::sst::{GetCounts, PinnedBytes, TableEntry, TableReadOptions};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A value, pinned where it lies: in a memtable or in a block. Holding it keeps that memory. One that was made when it was read, of operands, is
/// held by itself.
pub struct PinnedValue(Place);

enum Place {
    Memtable(MemtableValue),
    Table(PinnedBytes),
    Owned(Vec<u8>),
}

impl Deref for PinnedValue {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Memtable(value) => value,
            Place::Table(value) => value,
            Place::Owned(value) => value,
        }
    }
}

impl PinnedValue {
    /// A value in a memtable.
    pub(crate) fn in_memtable(value: MemtableValue) -> Self {
        Self(Place::Memtable(value))
    }

    /// A value in a table.
    pub(crate) fn in_table(value: PinnedBytes) -> Self {
        Self(Place::Table(value))
    }

    /// A value that was made when it was read.
    pub(crate) fn owned(value: Vec<u8>) -> Self {
        Self(Place::Owned(value))
    }
}

impl AsRef<[u8]> for PinnedValue {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for PinnedValue {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PinnedValue {}

impl fmt::Debug for PinnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedValue({} bytes)", self.len())
    }
}

impl DbInner {
    /// The value of `key`, or `None` if it has none.
    #[inline]
    pub(crate) fn get(&self, family: &Family, key: &[u8], options: &ReadOptions) -> Result<Option<PinnedValue>> {
        if !self.metrics.times_operations() {
            return self.get_now(family, key, options);
        }
        let found = self.timed(HistogramKind::DbGet, || self.get_now(family, key, options));
        if let Ok(Some(value)) = &found {
            self.metrics.record(HistogramKind::BytesPerRead, value.len() as u64);
        }
        found
    }

    fn get_now(&self, family: &Family, key: &[u8], options: &ReadOptions) -> Result<Option<PinnedValue>> {
        // The order matters: see `SuperVersion`.
        let pinned = family.super_version.load();
        self.check_readable(family)?;
        let seqno = self.read_seqno(options)?;
        if has_timestamps(family, options) {
            return self.get_timestamped(family, &pinned, key, seqno, options);
        }
        let time = family.expiry.is_some().then(|| self.read_time(options));
        let found = self.get_pinned(family, &pinned, key, seqno, &options.into(), time)?;
        match (&family.expiry, time) {
            (Some(expiry), Some(time)) => Ok(self.unexpired(expiry, key, found, time)),
            _ => Ok(found),
        }
    }

    /// The time as of which a read sees rows that expire. After the super version was pinned: what a compaction removed from it was expired then.
    pub(crate) fn read_time(&self, options: &ReadOptions) -> u64 {
        options.snapshot.as_ref().map_or_else(|| self.expiry.now(), Snapshot::unix_seconds)
    }

    /// What was found, unless it is expired at `time`.
    #[inline(never)]
    pub(crate) fn unexpired<V: AsRef<[u8]>>(
        &self,
        expiry: &FamilyExpiry,
        key: &[u8],
        found: Option<V>,
        time: u64,
    ) -> Option<V> {
        let found = found?;
        if expiry.policy.is_row_expired(key, found.as_ref(), time) {
            self.metrics.add(Counter::ExpiredRowsHidden, 1);
            return None;
        }
        Some(found)
    }

    /// Whether `key` may have a value, as far as memory says.
    pub(crate) fn key_may_exist(&self, family: &Family, key: &[u8], options: &ReadOptions) -> Result<bool> {
        let options = options.clone().read_tier(ReadTier::BlockCache);
        match self.get(family, key, &options) {
            Ok(found) => Ok(found.is_some()),
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The value of `key`; one that is expired at `expired_at`, in Unix seconds, need not be found.
    #[inline]
    pub(super) fn get_pinned(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        key: &[u8],
        seqno: SeqNo,
        options: &TableReadOptions,
        expired_at: Option<u64>,
    ) -> Result<Option<PinnedValue>> {
        let lookup = LookupKey::new(key, seqno);
        let began = times::begin();
        let in_memory = match pinned.memtable.get_pinned(&lookup) {
            None if !pinned.immutables.is_empty() => pinned.immutables.get_pinned(&lookup),
            found => found,
        };
        times::end(PerfTime::GetFromMemtable, began);
        if let Some(entry) = in_memory {
            let bytes = if entry.value_type == ValueType::Put { entry.value.len() as u64 } else { 0 };
            self.metrics.add_all([(Counter::KeysRead, 1), (Counter::MemtableHit, 1), (Counter::BytesRead, bytes)]);
            if entry.value_type == ValueType::Put {
                return Ok(Some(PinnedValue(Place::Memtable(entry.value))));
            }
            return self.get_special(family, pinned, &lookup, entry.value_type, &entry.value, options);
        }
        let mut counts = GetCounts::default();
        let began = times::begin();
        let found = pinned.version.get(&family.table_cache, options, &lookup, expired_at, &mut counts);
        times::end(PerfTime::GetFromOutputFiles, began);
        self.finish_get(family, pinned, &lookup, found?, counts, options)
    }

    /// Counts a search in the tables that ended with `found`, at its level, and makes a value of it.
    #[inline(always)]
    pub(super) fn finish_get(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        lookup: &LookupKey,
        found: Option<(usize, TableEntry)>,
        counts: GetCounts,
        options: &TableReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let place = found.as_ref().map_or(Counter::GetMiss, |(level, _)| Counter::get_hit(*level));
        let bytes = match &found {
            Some((_, entry)) if entry.value_type == ValueType::Put => entry.value.len() as u64,
            _ => 0,
        };
        self.metrics.add_all([
            (Counter::KeysRead, 1),
            (place, 1),
            (Counter::BytesRead, bytes),
            (Counter::TablesProbed, counts.tables),
            (Counter::FilterUseful, counts.denied),
            (Counter::FilterFullPositive, counts.allowed),
            (Counter::FilterFullTruePositive, counts.found),
        ]);
        if counts.tables > counts.denied + 1 && pinned.options.read_triggered_bytes > 0 {
            let end = found.as_ref().map(|(level, _)| *level);
            pinned.version.charge_read(lookup.user_key(), end, pinned.options.read_triggered_bytes, |file| {
                file.reader.get().is_none_or(|reader| reader.may_have(options, lookup, None))
            });
        }
        match found {
            Some((_, entry)) if entry.value_type == ValueType::Put => Ok(Some(PinnedValue(Place::Table(entry.value)))),
            Some((_, entry)) => self.get_special(family, pinned, lookup, entry.value_type, &entry.value, options),
            None => Ok(None),
        }
    }

    /// The value of a key whose newest visible entry is no put: of type `kind`, holding `stored`.
    pub(super) fn get_special(
        &self,
        family: &Family,
        pinned: &SuperVersion,
        lookup: &LookupKey,
        kind: ValueType,
        stored: &[u8],
        options: &TableReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let value = match kind {
            ValueType::Delete | ValueType::SingleDelete | ValueType::DeleteWithTimestamp => None,
            ValueType::Merge => Some(self.get_merged(family, pinned, lookup, options)?),
            other => {
                let value = family.resolver.value(lookup.user_key(), other, stored, options.read_tier)?;
                value.map(Cow::into_owned)
            }
        };
        if let Some(value) = &value {
            self.metrics.add(Counter::BytesRead, value.len() as u64);
        }
        Ok(value.map(|value| PinnedValue(Place::Owned(value))))
    }

    /// The number that a read sees: that of its snapshot, or the newest.
    pub(crate) fn read_seqno(&self, options: &ReadOptions) -> Result<SeqNo> {
        match &options.snapshot {
            None => Ok(self.visible()),
            Some(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.seqno()),
            Some(_) => Err(Error::invalid_argument("snapshot: taken from another database")),
        }
    }

    /// Fails if the family was dropped.
    pub(crate) fn check_readable(&self, family: &Family) -> Result<()> {
        self.check_handle(family)?;
        if family.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, format!("column family {} was dropped", family.id)));
        }
        Ok(())
    }

    /// Fails if `family` belongs to another database.
    #[inline]
    pub(crate) fn check_handle(&self, family: &Family) -> Result<()> {
        if family.instance == self.surroundings.instance { Ok(()) } else { Err(foreign_handle()) }
    }

    /// Pins the state of several families at one moment: the number is one that every pin admits.
    ///
    /// A family that is switched between its pin and the reading of the number would miss entries that the other
    /// families show, so the pins are taken again until no family changed meanwhile.
    pub(crate) fn pin_families(
        &self,
        families: &[&Family],
        options: &ReadOptions,
    ) -> Result<(Vec<Arc<SuperVersion>>, SeqNo)> {
        loop {
            let pins: Vec<Arc<SuperVersion>> = families.iter().map(|family| family.super_version.load_full()).collect();
            let seqno = self.read_seqno(options)?;
            let unchanged = |(family, pin): (&&Family, &Arc<SuperVersion>)| {
                Arc::ptr_eq(&family.super_version.load().memtable, &pin.memtable)
            };
            if families.iter().zip(&pins).all(unchanged) {
                return Ok((pins, seqno));
            }
        }
    }
}

/// Whether a read has to do with timestamps.
#[inline]
pub(super) fn has_timestamps(family: &Family, options: &ReadOptions) -> bool {
    family.timestamps.is_some() || options.timestamp.is_some()
}

/// The refusal of an entry whose type this engine does not read yet.
#[cold]
pub(crate) fn unsupported_entry(kind: ValueType) -> Error {
    Error::not_supported(format!("entries of type {kind:?}"))
}

#[cold]
fn foreign_handle() -> Error {
    Error::invalid_argument("a handle on a column family of another database, or of an earlier opening of this one")
}
