//! Deletes the tables that lie wholly within a range, by an edit of the MANIFEST alone.

use super::column_family::Family;
use super::state::DbInner;
use crate::file_meta::FileMeta;
use crate::key::ColumnFamilyId;
use crate::version::VersionEdit;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, ErrorKind, Result};

impl DbInner {
    /// Deletes the tables of `family` below level 0 whose keys all lie in `begin..end`, unless a compaction has them. Returns how
    /// many there were.
    pub(crate) fn delete_files_in_range(
        self: &Arc<Self>,
        family: &Arc<Family>,
        begin: &[u8],
        end: &[u8],
    ) -> Result<usize> {
        let _making = self.make_files()?;
        self.check_writable()?;
        self.check_readable(family)?;
        let reserved = self.reserve_files_in_range(family, begin, end);
        if reserved.is_empty() {
            return Ok(0);
        }
        let outcome = self.delete_reserved(family, &reserved);
        {
            let _state = self.state.lock();
            for (_, file) in &reserved {
                file.being_compacted.store(false, Ordering::Relaxed);
            }
        }
        let deleted = reserved.len();
        drop(reserved);
        // Also after an error: a compaction may have had to wait for the tables.
        self.update_pressure(family);
        self.delete_obsolete_files();
        self.schedule();
        self.changed.notify_all();
        outcome.map(|()| deleted)
    }

    /// See [`Db::suggest_compact_range`](crate::Db::suggest_compact_range). Of several ranges each table is taken once.
    pub(crate) fn suggest_compact_ranges<K: AsRef<[u8]>>(
        self: &Arc<Self>,
        family: &Arc<Family>,
        ranges: &[(K, K)],
    ) -> Result<()> {
        self.check_writable()?;
        self.check_readable(family)?;
        let order = &family.comparator;
        let is_within = |file: &FileMeta, (begin, end): &(K, K)| {
            let begins = order.compare_user(file.smallest.user_key(), end.as_ref()).is_le();
            begins && !file.ends_before(order, begin.as_ref())
        };
        let pinned = family.super_version.load();
        for (_, file) in pinned.version.all_files() {
            if ranges.iter().any(|range| is_within(file, range)) {
                file.suggest_compaction();
            }
        }
        self.schedule();
        Ok(())
    }

    /// Takes the tables away from compactions. Picks are made under the state lock, from the version that is published.
    fn reserve_files_in_range(&self, family: &Family, begin: &[u8], end: &[u8]) -> Vec<(usize, Arc<FileMeta>)> {
        let _state = self.state.lock();
        let version = Arc::clone(&family.super_version.load().version);
        let within = |file: &FileMeta| {
            family.comparator.compare_user(file.smallest.user_key(), begin).is_ge()
                && file.ends_before(&family.comparator, end)
        };
        let files: Vec<_> = version
            .all_files()
            .filter(|(level, file)| *level > 0 && !file.is_being_compacted() && within(file))
            .map(|(level, file)| (level, Arc::clone(file)))
            .collect();
        for (_, file) in &files {
            file.being_compacted.store(true, Ordering::Relaxed);
        }
        files
    }

    fn delete_reserved(&self, family: &Family, files: &[(usize, Arc<FileMeta>)]) -> Result<()> {
        let mut edit = VersionEdit::new(ColumnFamilyId(family.id));
        for (level, file) in files {
            edit.delete_file(*level, file.number);
        }
        let mut versions = self.versions.lock();
        self.check_writable()?;
        if family.is_dropped() {
            return Err(Error::new(ErrorKind::NotFound, "the column family was dropped"));
        }
        for (id, version) in versions.log_and_apply(&mut [edit])? {
            if id.0 == family.id {
                // The files themselves are held by the caller.
                drop(self.publish_version(family, version));
            }
        }
        Ok(())
    }
}
