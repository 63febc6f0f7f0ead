//! Reading a version: one key, or everything in order.
//!
//! Path: get 4/7. Before: memtable/mod.rs. After: table_cache.rs.

use super::Version;
use super::candidates::Candidates;
use crate::file_meta::FileMeta;
use crate::iterator::{ChildIter, IterPurpose, LevelIter, LevelShares, RangeSource};
use crate::key::{LookupKey, SeqNo};
use crate::options::{ReadOptions, ReadTier};
use crate::sst::{Asked, GetCounts, TableEntry, TableIter, TableReadOptions, WalkBounds};
use crate::table_cache::TableCache;
use siltstone_base::Result;
use siltstone_base::checksum::xxph3;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;

/// So many tables are asked one after the other, after the lines of their filters were asked for together: the waits for memory overlap. More would often be asked for in vain.
const TOGETHER: usize = 8;

impl Version {
    /// How tables of `level` are read where rows are not seen that are expired at `expired_at`.
    ///
    /// Of the last level with data, blocks of such rows are passed by. An entry hides nothing but older ones of its key. Those are in the same table or, if its last key goes on there,
    /// the next one of the level: nothing lies beneath. So a block without one of them hides nothing, and a read that passes by it sees what a read of it sees: none of its rows.
    /// Anywhere above an older row may have the later stamp, and would come back.
    fn passing(&self, level: usize, options: &TableReadOptions, expired_at: Option<u64>) -> TableReadOptions {
        let is_bottom = || level > 0 && self.last_level_with_data() == Some(level);
        let expired_at = expired_at.filter(|_| is_bottom() || is_planted(PlantedBug::ExpiredBlockOverOlder));
        TableReadOptions { expired_at, ..*options }
    }

    /// The newest entry of the key that is visible at the sequence number of `key`, whatever its type: level 0 from the newest
    /// table to the oldest, then level by level, at most one table each. Returns the level with the entry; `counts` takes
    /// in what was met on the way. One that is expired at `expired_at`, in Unix seconds, need not be found.
    pub(crate) fn get(
        &self,
        table_cache: &TableCache,
        options: &TableReadOptions,
        key: &LookupKey,
        expired_at: Option<u64>,
        counts: &mut GetCounts,
    ) -> Result<Option<(usize, TableEntry)>> {
        let mut candidates = Candidates::new(self, key);
        // One hash serves every filter on the way.
        let hash = xxph3(key.user_key());
        loop {
            let mut tables = [None; TOGETHER];
            for (table, candidate) in tables.iter_mut().zip(&mut candidates) {
                if let Some(reader) = candidate.1.reader.get() {
                    reader.prefetch_filter(hash);
                }
                *table = Some(candidate);
            }
            if tables[0].is_none() {
                return Ok(None);
            }
            for (level, file) in tables.into_iter().flatten() {
                let passing = expired_at.map(|_| self.passing(level, options, expired_at));
                let options = passing.as_ref().unwrap_or(options);
                let reader = table_cache.reader_within(file, options.read_tier)?;
                let found = reader.get_counted(options, key, Some(hash), counts)?;
                if let Some(entry) = found {
                    return Ok(Some((level, entry)));
                }
            }
        }
    }

    /// The same for several keys that ascend: level by level, and each table once for all keys that come to it. Sets the answers of those that have an entry, or that could not be
    /// read; the error of a table is that of the keys that need it.
    pub(crate) fn get_many(
        &self,
        table_cache: &TableCache,
        options: &TableReadOptions,
        expired_at: Option<u64>,
        asked: &mut [Asked],
    ) {
        let mut pending: Vec<usize> = (0..asked.len()).collect();
        let mut group = Vec::new();
        for (number, level) in self.levels.iter().enumerate() {
            if level.is_empty() || pending.is_empty() {
                continue;
            }
            let options = &self.passing(number, options, expired_at);
            if number == 0 {
                for (index, file) in level.files().iter().enumerate() {
                    let covers =
                        |place: &&usize| level.covers(&self.comparator, index, asked[**place].lookup.user_key());
                    group.extend(pending.iter().filter(covers));
                    ask(table_cache, options, (number, file), asked, &mut group);
                    pending.retain(|place| asked[*place].answer.is_none());
                }
                continue;
            }
            let mut current = None;
            for place in &pending {
                let Some(file) = level.find(&self.comparator, asked[*place].lookup.internal_key()) else { continue };
                if let Some(before) = current.replace(file)
                    && !Arc::ptr_eq(before, file)
                {
                    ask(table_cache, options, (number, before), asked, &mut group);
                }
                group.push(*place);
            }
            if let Some(last) = current {
                ask(table_cache, options, (number, last), asked, &mut group);
            }
            pending.retain(|place| asked[*place].answer.is_none());
        }
    }

    /// Charges `bytes` to every table that a read of `user_key` asks, but the last one of them: up to the level where the read ended, and of those that it `asks` at all.
    #[cold]
    pub(crate) fn charge_read(
        &self,
        user_key: &[u8],
        end: Option<usize>,
        bytes: u64,
        mut asks: impl FnMut(&FileMeta) -> bool,
    ) {
        let mut last: Option<Arc<FileMeta>> = None;
        for level in 0..=end.unwrap_or(self.levels.len()) {
            for file in self.overlapping_files(level, Some(user_key), Some(user_key)) {
                if asks(&file)
                    && let Some(before) = last.replace(file)
                {
                    before.read_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
    }

    /// Shows `visit` every source that may have versions of the key of `key`, newest first, until it says that older ones do not matter. Tables that have no
    /// entry newer than `since` are not asked.
    pub(crate) fn visit(
        &self,
        table_cache: &Arc<TableCache>,
        options: &TableReadOptions,
        key: &LookupKey,
        since: SeqNo,
        visit: &mut impl FnMut(&mut ChildIter) -> Result<bool>,
    ) -> Result<()> {
        let user_key = key.user_key();
        let hash = Some(xxph3(user_key));
        for (number, level) in self.levels.iter().enumerate() {
            if number > 0 {
                // Versions of one key may go on in the next table of the run; the filter of the first one knows the key.
                let Some(file) = level.find(&self.comparator, key.internal_key()) else { continue };
                if (since == 0 || file.largest_seqno > since)
                    && table_cache.reader_within(file, options.read_tier)?.may_have(options, key, hash)
                {
                    let purpose = IterPurpose::User { read_ahead_size: 0 };
                    let run = LevelIter::new(level.shared_files(), Arc::clone(table_cache), *options, purpose);
                    if !visit(&mut ChildIter::Level(run))? {
                        return Ok(());
                    }
                }
                continue;
            }
            for (index, file) in level.files().iter().enumerate() {
                if (since == 0 || file.largest_seqno > since) && level.covers(&self.comparator, index, user_key) {
                    let reader = table_cache.reader_within(file, options.read_tier)?;
                    if reader.may_have(options, key, hash) {
                        let table = TableIter::new(Arc::clone(reader), *options, 0);
                        if !visit(&mut ChildIter::Table(table))? {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the range tombstones of all tables that may hide something, newest first. Each source is numbered as the child that
    /// [`add_iterators`](Self::add_iterators) makes of it behind `first_child` others.
    pub(crate) fn add_range_sources(
        &self,
        table_cache: &Arc<TableCache>,
        tier: ReadTier,
        first_child: usize,
        sources: &mut Vec<(usize, RangeSource)>,
    ) -> Result<()> {
        let mut child = first_child;
        for (number, level) in self.levels.iter().enumerate() {
            if number == 0 {
                for file in level.files() {
                    if file.may_have_ranges() {
                        let reader = table_cache.reader_within(file, tier)?;
                        if reader.range_fragments().is_some() {
                            sources.push((child, RangeSource::Table(Arc::clone(reader))));
                        }
                    }
                    child += 1;
                }
            } else if !level.is_empty() {
                if level.may_have_ranges() {
                    let (files, table_cache) = (level.shared_files(), Arc::clone(table_cache));
                    sources.push((child, RangeSource::Level { files, table_cache, tier }));
                }
                child += 1;
            }
        }
        Ok(())
    }

    /// Adds the sources of a walk over all tables: each table of level 0, and each further level as one run. Of the last level with data those tables are left out
    /// that the walk need not see, and blocks passed by of which all rows are expired at `expired_at`, in Unix seconds.
    pub(crate) fn add_iterators(
        &self,
        table_cache: &Arc<TableCache>,
        options: &ReadOptions,
        left_out: Option<LeftOut<'_>>,
        expired_at: Option<u64>,
        children: &mut Vec<ChildIter>,
    ) -> Result<()> {
        let read = TableReadOptions::from(options);
        let bounds = WalkBounds::of(options);
        let runs = || self.levels.iter().skip(1).filter(|level| !level.is_empty()).count() + self.files(0).len();
        let shares = (read.expected_entries > 0 && runs() > 1).then(|| self.shares());
        for (number, level) in self.levels.iter().enumerate() {
            let read = self.passing(number, &read, expired_at);
            let shares = || shares.as_ref().map(|shares| LevelShares::new(shares, number));
            if number == 0 {
                for file in level.files() {
                    let reader = Arc::clone(table_cache.reader_within(file, read.read_tier)?);
                    let mut table = TableIter::new(reader, read, options.readahead_size);
                    table.set_bounds(bounds.clone());
                    table.set_share(shares().map(|shares| shares.of(file)));
                    children.push(ChildIter::Table(table));
                }
            } else if !level.is_empty() {
                let purpose = IterPurpose::User { read_ahead_size: options.readahead_size };
                let files = match left_out.filter(|_| self.last_level_with_data() == Some(number)) {
                    Some(left_out) => self.files_but(level.files(), left_out),
                    None => level.shared_files(),
                };
                let level = LevelIter::new(files, Arc::clone(table_cache), read, purpose);
                children.push(ChildIter::Level(level.within(bounds.clone()).sharing(shares())));
            }
        }
        Ok(())
    }

    /// `files` of the last level but those that are left out. One stays if older versions of its last key are in the next.
    fn files_but(&self, files: &[Arc<FileMeta>], left_out: LeftOut<'_>) -> Arc<[Arc<FileMeta>]> {
        let goes_on = |file: &FileMeta, next: Option<&Arc<FileMeta>>| {
            next.is_some_and(|next| !file.ends_before(&self.comparator, next.smallest.user_key()))
        };
        let nexts = files.iter().skip(1).map(Some).chain([None]);
        let kept = files.iter().zip(nexts).filter(|(file, next)| goes_on(file, *next) || !left_out(file));
        kept.map(|(file, _)| Arc::clone(file)).collect()
    }
}

/// Asks the table `file` of a level for the keys at the places `group`, and empties that.
fn ask(
    table_cache: &TableCache,
    options: &TableReadOptions,
    (level, file): (usize, &FileMeta),
    asked: &mut [Asked],
    group: &mut Vec<usize>,
) {
    if group.is_empty() {
        return;
    }
    match table_cache.reader_within(file, options.read_tier) {
        Ok(reader) => reader.get_many(options, level, asked, group),
        Err(error) => group.iter().for_each(|place| asked[*place].answer = Some((level, Err(error.clone())))),
    }
    group.clear();
}

/// Says of a table that a walk need not see it.
pub(crate) type LeftOut<'a> = &'a dyn Fn(&FileMeta) -> bool;
