//! Writes that take place only if keys did not change: what optimistic transactions stand on.

use super::column_family::{ColumnFamily, Family};
use super::newest::Lookup;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::batch::WriteBatch;
use crate::key::SeqNo;
use crate::options::WriteOptions;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// A key, and the state since which it must not have changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched<'a> {
    pub(crate) family: &'a ColumnFamily,
    pub(crate) key: &'a [u8],
    /// A snapshot of this number, or of an older one, is held.
    pub(crate) seqno: SeqNo,
}

impl DbInner {
    /// Writes `batch`, which may be empty, unless a watched key has changed: then fails with `Busy`.
    ///
    /// 1. Everything is looked at while others write: that may read tables.
    /// 2. As the leader, while nobody else writes, the memtables are looked at again, and the tables too if the family has other ones by now. What was written
    ///    since the first look is in a memtable, or in one of those.
    /// 3. The batch is the first of the leader's group.
    pub(crate) fn write_if_unchanged(
        self: &Arc<Self>,
        watched: &[Watched<'_>],
        batch: &mut WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        let is_empty = batch.is_empty();
        if !is_empty {
            self.check_batch(batch)?;
        }
        let mut before: BTreeMap<u32, Arc<SuperVersion>> = BTreeMap::new();
        for watch in watched {
            let family: &Family = &watch.family.0;
            self.check_readable(family)?;
            let pinned = before.entry(family.id).or_insert_with(|| family.super_version.load_full());
            self.check_unchanged(watch, pinned, Lookup::Everywhere)?;
        }
        let leader = self.lock_write_side();
        for watch in watched {
            let family: &Family = &watch.family.0;
            self.check_readable(family)?;
            let now = family.super_version.load();
            let has_same_tables =
                before.get(&family.id).is_some_and(|before| Arc::ptr_eq(&before.version, &now.version));
            let place = if has_same_tables { Lookup::Memtables } else { Lookup::Everywhere };
            self.check_unchanged(watch, &now, place)?;
        }
        if is_empty { Ok(()) } else { self.lead(leader, Some((batch, options)), None) }
    }

    fn check_unchanged(&self, watch: &Watched<'_>, pinned: &SuperVersion, place: Lookup) -> Result<()> {
        let is_changed = self.is_changed_since(&watch.family.0, pinned, watch.key, watch.seqno, place)?;
        if is_changed && !is_planted(PlantedBug::ConflictIsNotChecked) {
            return Err(Error::new(ErrorKind::Busy, "a row changed since the transaction read or wrote it first"));
        }
        Ok(())
    }
}
