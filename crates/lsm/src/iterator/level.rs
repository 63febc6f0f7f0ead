//! Walking a sorted run: tables with disjoint ranges, one behind the other.

use super::{InternalIterator, LevelShares, SeekStage};
use crate::file_meta::FileMeta;
use crate::key::InternalKey;
use crate::sst::{CacheWatch, TableIter, TableReadOptions, WalkBounds};
use crate::table_cache::TableCache;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::cmp::Ordering;

/// What a [`LevelIter`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IterPurpose {
    /// A user's walk. Bytes that are read ahead; 0: grows by itself.
    User {
        /// Bytes.
        read_ahead_size: usize,
    },
    /// A compaction, which reads past the block cache.
    Compaction {
        /// Bytes that are read at a time.
        read_ahead_size: usize,
    },
}

/// An iterator over the tables of a sorted run. A table is opened when the walk reaches it.
#[derive(Debug)]
pub(crate) struct LevelIter {
    /// Sorted by key range.
    files: Arc<[Arc<FileMeta>]>,
    table_cache: Arc<TableCache>,
    options: TableReadOptions,
    purpose: IterPurpose,
    /// The table under `table`; anything while that is `None`.
    index: usize,
    table: Option<TableIter>,
    /// The table in which the seek that comes next begins, if it was prepared.
    prepared: Option<usize>,
    /// XXPH3 hash of the prefix whose keys alone are sought.
    prefix: Option<u64>,
    /// No block is passed by that may have a key outside of them.
    bounds: Option<Arc<WalkBounds>>,
    /// Who knows which part of the walk's entries each table has.
    shares: Option<LevelShares>,
    /// Is told which blocks are cached that are read past the cache.
    cache_watch: Option<Arc<CacheWatch>>,
    /// An error of opening a table.
    error: Option<Error>,
}

impl LevelIter {
    /// Walks `files`, which are sorted by key range and disjoint.
    pub(crate) fn new(
        files: Arc<[Arc<FileMeta>]>,
        table_cache: Arc<TableCache>,
        options: TableReadOptions,
        purpose: IterPurpose,
    ) -> Self {
        Self {
            files,
            table_cache,
            options,
            purpose,
            index: 0,
            table: None,
            prepared: None,
            prefix: None,
            bounds: None,
            shares: None,
            cache_watch: None,
            error: None,
        }
    }

    /// The same, which tells `watch` which of the blocks are cached that it reads past the cache.
    #[must_use]
    pub(crate) fn watching_cache(mut self, watch: Option<Arc<CacheWatch>>) -> Self {
        self.cache_watch = watch;
        self
    }

    /// The same for a walk that shows nothing outside of `bounds`.
    #[must_use]
    pub(crate) fn within(mut self, bounds: Option<Arc<WalkBounds>>) -> Self {
        self.bounds = bounds;
        self
    }

    /// The same for a walk of whose entries `shares` knows which part each table has; `None`: each has all of them.
    #[must_use]
    pub(crate) fn sharing(mut self, shares: Option<LevelShares>) -> Self {
        self.shares = shares;
        self
    }

    /// Bytes of the blocks that it stands on.
    pub(crate) fn block_bytes(&self) -> usize {
        self.table.as_ref().map_or(0, TableIter::block_bytes)
    }

    /// Lets seeks ask the filters for the prefix whose XXPH3 hash is `prefix`, and find nothing but its keys and some others.
    pub(crate) fn set_prefix(&mut self, prefix: Option<u64>) {
        self.prefix = prefix;
        if let Some(table) = &mut self.table {
            table.set_prefix(prefix);
        }
    }

    /// Whether `key`, which lies on the walk before every key of the table at hand, shows that neither this table nor one behind it can have keys
    /// of the prefix that is sought: the keys of a prefix are neighbours.
    fn leaves_prefix(&self, key: Option<&InternalKey>) -> bool {
        let Some(prefix) = self.prefix else { return false };
        key.is_some_and(|key| !self.table_cache.is_of_prefix(key.user_key(), prefix))
    }

    /// Makes table `index` the current one; false if there is none or it cannot be opened.
    fn open(&mut self, index: usize) -> bool {
        if self.table.is_some() && self.index == index {
            return true;
        }
        self.table = None;
        let Some(file) = self.files.get(index) else { return false };
        self.index = index;
        let opened = match self.purpose {
            IterPurpose::User { read_ahead_size } => self
                .table_cache
                .reader_within(file, self.options.read_tier)
                .map(|reader| TableIter::new(Arc::clone(reader), self.read_options(index), read_ahead_size)),
            IterPurpose::Compaction { read_ahead_size } => {
                self.table_cache.compaction_iter(file, self.options, read_ahead_size)
            }
        };
        match opened {
            Ok(mut table) => {
                table.set_prefix(self.prefix);
                table.set_bounds(self.bounds_of(index));
                table.set_share(self.shares.as_ref().map(|shares| shares.of(file)));
                table.set_cache_watch(self.cache_watch.clone());
                self.table = Some(table);
                true
            }
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    /// How table `index` is read. No block is passed by in one whose last key goes on in the next table: what it hides may be there.
    fn read_options(&self, index: usize) -> TableReadOptions {
        let order = self.table_cache.comparator();
        let goes_on =
            |(file, next): (&Arc<FileMeta>, &Arc<FileMeta>)| !file.ends_before(order, next.smallest.user_key());
        let expired_at = self
            .options
            .expired_at
            .filter(|_| !self.files.get(index).zip(self.files.get(index + 1)).is_some_and(goes_on));
        TableReadOptions { expired_at, ..self.options }
    }

    /// The bounds of the walk in table `index`: where the table begins above the lower one, all of it is above.
    fn bounds_of(&self, index: usize) -> Option<Arc<WalkBounds>> {
        let bounds = self.bounds.as_ref()?;
        let (Some(lower), Some(file)) = (&bounds.lower, self.files.get(index)) else { return Some(Arc::clone(bounds)) };
        match self.table_cache.comparator().compare_user(file.smallest.user_key(), lower) {
            Ordering::Less => Some(Arc::clone(bounds)),
            _ => Some(Arc::new(WalkBounds { lower: None, upper: bounds.upper.clone() })),
        }
    }

    /// Opens table `index` and makes a movement in it, if it opens.
    fn move_in(&mut self, index: usize, movement: impl FnOnce(&mut TableIter)) {
        self.error = None;
        if self.open(index)
            && let Some(table) = &mut self.table
        {
            movement(table);
        }
    }

    /// Whether the current table ended without an error, so that a neighbour is next.
    #[inline]
    fn ended(&self) -> bool {
        self.error.is_none() && self.table.as_ref().is_some_and(|table| !table.valid() && table.status().is_ok())
    }

    #[inline(never)]
    fn skip_forward(&mut self) {
        while self.ended() && !self.leaves_prefix(self.files.get(self.index + 1).map(|file| &file.smallest)) {
            self.move_in(self.index + 1, TableIter::seek_to_first);
        }
    }

    #[inline(never)]
    fn skip_backward(&mut self) {
        while self.ended() {
            if self.index == 0 {
                self.table = None;
                return;
            }
            if self.leaves_prefix(self.files.get(self.index - 1).map(|file| &file.largest)) {
                return;
            }
            self.move_in(self.index - 1, TableIter::seek_to_last);
        }
    }

    /// The first table that ends at or after `target`; the number of tables if none.
    fn find(&self, target: &[u8]) -> usize {
        let comparator = self.table_cache.comparator();
        self.files.partition_point(|file| comparator.compare(file.largest.as_bytes(), target) == Ordering::Less)
    }
}

impl InternalIterator for LevelIter {
    #[inline]
    fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(TableIter::valid)
    }

    fn seek_to_first(&mut self) {
        self.move_in(0, TableIter::seek_to_first);
        self.skip_forward();
    }

    fn seek_to_last(&mut self) {
        self.move_in(self.files.len().wrapping_sub(1), TableIter::seek_to_last);
        self.skip_backward();
    }

    fn seek(&mut self, target: &[u8]) {
        let index = self.prepared.take().unwrap_or_else(|| self.find(target));
        self.move_in(index, |table| table.seek(target));
        self.skip_forward();
    }

    fn prepare_seek(&mut self, target: &[u8], stage: SeekStage) {
        if stage == SeekStage::Locate {
            let index = self.find(target);
            self.open(index);
            self.prepared = Some(index);
        }
        if let Some(table) = &mut self.table {
            table.prepare_seek(target, stage);
        }
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        let found = self.prepared.take().unwrap_or_else(|| self.find(target));
        let index = found.min(self.files.len().wrapping_sub(1));
        self.move_in(index, |table| table.seek_for_prev(target));
        self.skip_backward();
    }

    #[inline]
    fn next(&mut self) {
        if let Some(table) = &mut self.table {
            table.next();
            if !table.valid() {
                self.skip_forward();
            }
        }
    }

    #[inline]
    fn prev(&mut self) {
        if let Some(table) = &mut self.table {
            table.prev();
            if !table.valid() {
                self.skip_backward();
            }
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], TableIter::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], TableIter::value)
    }

    fn status(&self) -> Result<()> {
        match (&self.error, &self.table) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(table)) => table.status(),
            (None, None) => Ok(()),
        }
    }
}
