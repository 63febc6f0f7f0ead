//! The user's iterator: what is visible at one sequence number, in both directions.

mod backward;
mod counts;
mod covered;
mod forward;

use super::column_family::Family;
use super::prefix_walk::PrefixWalk;
use super::ranges::range_view;
use super::resolve::Resolver;
use super::state::DbInner;
use super::super_version::SuperVersion;
use super::timestamps::{TimestampView, bare};
use crate::expiry::ReadExpiry;
use crate::file_meta::FileMeta;
use crate::iterator::{ChildIter, InternalIterator, MergingIter, RangeView};
use crate::key::{InternalKeyComparator, MAX_SEQNO, SeqNo};
use crate::memtable::Memtable;
use crate::merge::Operands;
use crate::metrics::{Counter, Metrics, PerfTime, times};
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use crate::sst::{TableIter, TableReadOptions, TableReader};
use crate::version::LeftOut;
use counts::IterCounts;
use siltstone_base::comparator::split_timestamp;
use siltstone_base::sync::{Arc, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::ops::Range;

/// So many numbers are left for the entries of a batch that is not written.
pub(crate) const OWN_SEQNOS: u64 = 1 << 33;

/// The entries of a batch that is not written, which an iterator shows over those of the database, have numbers from here on: more than any entry of the database.
pub(crate) const FIRST_OWN_SEQNO: SeqNo = MAX_SEQNO - OWN_SEQNOS;

/// What a batch that is not written has for one family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnEntries<'a> {
    /// Its entries, newest first, with numbers from [`FIRST_OWN_SEQNO`] on, and no range tombstones.
    pub(crate) memtables: &'a [&'a Memtable],
    /// Older ones, in tables, newest first.
    pub(crate) tables: &'a [Arc<TableReader>],
    /// Later numbers are hidden.
    pub(crate) newest: SeqNo,
    /// So are these: of what was taken back.
    pub(crate) hidden: &'a [Range<SeqNo>],
}

/// Walks the live keys of a column family in order, as of the moment it was made or of its snapshot.
///
/// A new iterator is not positioned. When a movement leaves it without an entry, [`status`](Self::status) tells the end of
/// the data from an error. It pins memtables and files until it is dropped.
///
/// Inside: `merged` yields internal entries of all sources, newest version first within a key. Going forward, `merged`
/// stands on the entry that is shown, if that is a put. What has to be made of entries is kept in `key` and `value`, and `merged` stands
/// somewhere among the key's versions or right behind them. Going backward, it stands before all versions of the key that is shown, which
/// is always kept.
pub struct Iter {
    pub(super) merged: MergingIter<ChildIter>,
    /// What range tombstones hide; `None` if there are none.
    ranges: Option<Box<RangeView>>,
    /// Covered entries that were passed one by one since the last seek.
    covered_steps: u32,
    /// The order of keys as they are shown: without timestamps.
    comparator: InternalKeyComparator,
    /// Set where keys end with timestamps.
    timestamps: Option<Box<TimestampView>>,
    /// Set where rows expire.
    expiry: Option<Box<ReadExpiry>>,
    /// The newest number of the database that is seen.
    pub(super) seqno: SeqNo,
    /// The newest number that is seen: the same, or that of a batch's own entries.
    pub(super) newest: SeqNo,
    /// How many of the first sources have a batch's own entries.
    pub(super) own_sources: usize,
    /// Numbers of own entries that are hidden: they were taken back.
    taken_back: Box<[Range<SeqNo>]>,
    lower_bound: Option<Vec<u8>>,
    pub(super) upper_bound: Option<Vec<u8>>,
    /// Set where prefixes play a part.
    pub(super) prefix_walk: Option<Box<PrefixWalk>>,
    direction: Direction,
    valid: bool,
    /// Whether `key` and `value` are shown, and not the entry that `merged` stands on.
    is_kept: bool,
    /// The key that is shown, if it is kept. Otherwise, forward: the user key whose remaining versions are skipped.
    key: Vec<u8>,
    /// The value that is shown, if it is kept.
    value: Vec<u8>,
    /// Operands of the key at hand, in the order in which `merged` yields them.
    operands: Operands,
    resolver: Arc<Resolver>,
    /// What it was made with, but for bounds and snapshot.
    options: ReadOptions,
    /// Where it comes from; nowhere for one that is not shown to users.
    db: Weak<DbInner>,
    family_id: u32,
    error: Option<Error>,
    /// Scratch for seeks.
    target: Vec<u8>,
    counts: IterCounts,
    /// What a seek costs for each table that it asks in vain; 0 if nobody wants to know.
    read_bytes: u64,
    metrics: Arc<Metrics>,
    /// Keeps memtables and files.
    pub(super) pinned: Arc<SuperVersion>,
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.counts.add_to(&self.metrics);
        if let Some(expiry) = self.expiry.as_ref().filter(|expiry| expiry.hidden > 0) {
            self.metrics.add(Counter::ExpiredRowsHidden, expiry.hidden);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl DbInner {
    /// An iterator over `family`.
    pub(crate) fn iter(self: &Arc<Self>, family: &Family, options: &ReadOptions) -> Result<Iter> {
        let pinned = family.super_version.load_full();
        self.check_readable(family)?;
        let seqno = self.read_seqno(options)?;
        self.iter_pinned(family, pinned, seqno, options, Arc::downgrade(self))
    }

    /// Iterators over several families that show the same moment.
    pub(crate) fn iters(self: &Arc<Self>, families: &[&Family], options: &ReadOptions) -> Result<Vec<Iter>> {
        let (pins, seqno) = self.pin_families(families, options)?;
        for family in families {
            self.check_readable(family)?;
        }
        let (pairs, time) = (families.iter().zip(pins), self.read_time(options));
        let iter = |(family, pinned): (&&Family, _)| {
            self.iter_pinned_over(family, pinned, (seqno, time), options, Arc::downgrade(self), None)
        };
        pairs.map(iter).collect()
    }

    /// An iterator over `family` that shows a batch's own entries over those of the database. It can't be refreshed.
    pub(crate) fn iter_over(&self, family: &Family, own: &OwnEntries<'_>, options: &ReadOptions) -> Result<Iter> {
        let pinned = family.super_version.load_full();
        self.check_readable(family)?;
        let seqno = self.read_seqno(options)?;
        if seqno >= FIRST_OWN_SEQNO {
            return Err(Error::new(ErrorKind::LimitExceeded, "no sequence numbers are left for batches that are read"));
        }
        self.iter_pinned_over(family, pinned, (seqno, self.read_time(options)), options, Weak::new(), Some(own))
    }

    pub(super) fn iter_pinned(
        &self,
        family: &Family,
        pinned: Arc<SuperVersion>,
        seqno: SeqNo,
        options: &ReadOptions,
        db: Weak<Self>,
    ) -> Result<Iter> {
        self.iter_pinned_over(family, pinned, (seqno, self.read_time(options)), options, db, None)
    }

    /// An iterator that shows what was written up to a sequence number and is not expired at a time.
    fn iter_pinned_over(
        &self,
        family: &Family,
        pinned: Arc<SuperVersion>,
        (seqno, time): (SeqNo, u64),
        options: &ReadOptions,
        db: Weak<Self>,
        own: Option<&OwnEntries<'_>>,
    ) -> Result<Iter> {
        let timestamps = TimestampView::new(family, options)?;
        let expiry = family.expiry.as_ref().map(|expiry| ReadExpiry::new(&expiry.policy, time));
        let order = family.timestamps.as_ref().map_or(&family.comparator, |timestamps| &timestamps.order);
        let mut children = Vec::new();
        let own_memtables = own.map_or(&[][..], |own| own.memtables);
        children.extend(own_memtables.iter().map(|memtable| ChildIter::Memtable(memtable.iter())));
        let own_tables = own.map_or(&[][..], |own| own.tables);
        children.extend(own_tables.iter().map(|table| {
            let read = TableReadOptions::from(options);
            ChildIter::Table(TableIter::new(Arc::clone(table), read, options.readahead_size))
        }));
        let first_child = children.len();
        children.push(ChildIter::Memtable(pinned.memtable.iter()));
        children.extend(pinned.immutables.newest_first().iter().map(|memtable| ChildIter::Memtable(memtable.iter())));
        let is_hidden = |file: &FileMeta| expiry.as_ref().is_some_and(|expiry| expiry.expiring().is_whole_table(file));
        let time = expiry.as_ref().map(|expiry| expiry.expiring().time);
        let hides_tables = family.expiry.as_ref().zip(time);
        let hides_tables = hides_tables.is_some_and(|(family, time)| family.has_expired_tables(&pinned.version, time));
        let left_out: Option<LeftOut<'_>> = if hides_tables { Some(&is_hidden) } else { None };
        pinned.version.add_iterators(&family.table_cache, options, left_out, time, &mut children)?;
        Ok(Iter {
            ranges: range_view(family, &pinned, seqno, first_child, options.read_tier)?,
            covered_steps: 0,
            merged: MergingIter::new(family.comparator.clone(), children),
            comparator: order.clone(),
            timestamps,
            expiry: expiry.map(Box::new),
            seqno,
            newest: own.map_or(seqno, |own| own.newest.max(seqno)),
            own_sources: first_child,
            taken_back: own.map_or(&[][..], |own| own.hidden).into(),
            lower_bound: options.iterate_lower_bound.clone(),
            upper_bound: options.iterate_upper_bound.clone(),
            prefix_walk: PrefixWalk::new(&pinned.options, options),
            direction: Direction::Forward,
            valid: false,
            is_kept: false,
            key: Vec::new(),
            value: Vec::new(),
            operands: Operands::default(),
            resolver: Arc::clone(&family.resolver),
            options: ReadOptions { snapshot: None, iterate_lower_bound: None, iterate_upper_bound: None, ..*options },
            db,
            family_id: family.id,
            error: None,
            target: Vec::new(),
            counts: IterCounts::begin(&self.metrics),
            read_bytes: if family.timestamps.is_none() { pinned.options.read_triggered_bytes } else { 0 },
            metrics: Arc::clone(&self.metrics),
            pinned,
        })
    }
}

impl Iter {
    /// Whether an entry came after what is seen.
    #[inline]
    fn is_too_new(&self, seqno: SeqNo) -> bool {
        seqno > self.seqno && (seqno > self.newest || seqno < FIRST_OWN_SEQNO || self.is_taken_back(seqno))
    }

    /// Whether an entry of a batch that is not written was taken back.
    fn is_taken_back(&self, seqno: SeqNo) -> bool {
        self.taken_back.iter().any(|range| range.contains(&seqno))
    }

    /// Whether the iterator stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The error that made the iterator stop, if one did.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The key. Empty unless [`valid`](Self::valid).
    #[inline]
    pub fn key(&self) -> &[u8] {
        match (self.valid, self.is_kept) {
            (false, _) => &[],
            (true, false) => self.merged_key(),
            (true, true) => &self.key,
        }
    }

    /// The timestamp of the entry that is shown; `None` where keys have none, and unless [`valid`](Self::valid).
    pub fn timestamp(&self) -> Option<u64> {
        let view = self.timestamps.as_ref().filter(|_| self.valid)?;
        match self.is_kept {
            true => Some(view.of_kept),
            false => split_timestamp(crate::key::user_key(self.merged.key())).map(|(_, timestamp)| timestamp),
        }
    }

    /// The key of the entry that `merged` stands on, as it is shown.
    #[inline]
    fn merged_key(&self) -> &[u8] {
        let key = crate::key::user_key(self.merged.key());
        match &self.timestamps {
            None => key,
            Some(_) => bare(key),
        }
    }

    /// The value. Empty unless [`valid`](Self::valid).
    #[inline]
    pub fn value(&self) -> &[u8] {
        match (self.valid, self.is_kept) {
            (false, _) => &[],
            (true, false) => self.merged.value(),
            (true, true) => &self.value,
        }
    }

    /// Shows the newest state of the family from now on, as if it were made anew with the options that it was made with, but for their snapshot. The iterator
    /// then is on no entry, and lets go of the memory and the files of the state before.
    ///
    /// # Errors
    ///
    /// `Aborted` if the database is gone or the iterator shows a batch that is not written, `NotFound` if the family was dropped, and those of making an iterator; it then is as it was.
    pub fn refresh(&mut self) -> Result<()> {
        self.refresh_to(None)
    }

    /// The same, to the state of `snapshot`.
    ///
    /// # Errors
    ///
    /// Those of [`refresh`](Self::refresh), and `InvalidArgument` for a snapshot of another database.
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.refresh_to(Some(snapshot.clone()))
    }

    fn refresh_to(&mut self, snapshot: Option<Snapshot>) -> Result<()> {
        let Some(db) = self.db.upgrade() else {
            return Err(Error::new(
                ErrorKind::Aborted,
                "the database of the iterator is closed, or it shows a batch that is not written",
            ));
        };
        let Some(family) = db.families.load().get(&self.family_id).cloned() else {
            return Err(Error::new(ErrorKind::NotFound, format!("column family {} was dropped", self.family_id)));
        };
        let (iterate_lower_bound, iterate_upper_bound) = (self.lower_bound.clone(), self.upper_bound.clone());
        let options = ReadOptions { snapshot, iterate_lower_bound, iterate_upper_bound, ..self.options };
        *self = db.iter(&family, &options)?;
        Ok(())
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        let began = self.begin_seek();
        self.start(Direction::Forward);
        self.begin_at_an_end();
        match self.lower_bound.take() {
            Some(bound) => {
                self.seek_merged(&bound);
                self.lower_bound = Some(bound);
            }
            None => {
                self.merged.seek_to_first();
                self.find_next_visible(false);
            }
        }
        self.limit_to_current();
        self.end_seek(began);
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        let began = self.begin_seek();
        self.start(Direction::Forward);
        if self.read_bytes > 0 {
            self.charge_seek(key);
        }
        if self.prefix_walk.is_some() {
            self.begin_prefix_walk(key, true);
        }
        match self.lower_bound.take_if(|bound| self.comparator.compare_user(key, bound) == Ordering::Less) {
            Some(bound) => {
                self.seek_merged(&bound);
                self.lower_bound = Some(bound);
            }
            None => self.seek_merged(key),
        }
        self.end_seek(began);
    }

    /// Lets the first seek and every sixteenth one pay, for those between as well.
    #[cold]
    fn charge_seek(&self, key: &[u8]) {
        let before = self.counts.seeks;
        let seeks = if before.is_multiple_of(16) { 16 } else { u64::from(before == 1) };
        if seeks > 0 {
            self.pinned.version.charge_read(key, None, self.read_bytes.saturating_mul(seeks), |_| true);
        }
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        let began = self.begin_seek();
        self.start(Direction::Backward);
        self.begin_at_an_end();
        self.move_to_end();
        self.find_previous_visible();
        self.limit_to_current();
        self.end_seek(began);
    }

    /// Puts `merged` on the last entry before the upper bound.
    fn move_to_end(&mut self) {
        match self.upper_bound.take() {
            Some(bound) => {
                self.seek_before(&bound);
                self.upper_bound = Some(bound);
            }
            None => self.merged.seek_to_last(),
        }
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        let began = self.begin_seek();
        self.start(Direction::Backward);
        if self.prefix_walk.is_some() {
            self.begin_prefix_walk(key, false);
        }
        let bound = self.upper_bound.as_ref();
        if bound.is_some_and(|bound| self.comparator.compare_user(key, bound) != Ordering::Less) {
            self.move_to_end();
        } else {
            // The last possible entry of the key: its oldest version.
            self.set_target(key, 0);
            self.merged.seek_for_prev(&self.target);
        }
        self.find_previous_visible();
        self.end_seek(began);
    }

    /// Moves to the next key. Does nothing unless [`valid`](Self::valid).
    #[inline]
    pub fn next(&mut self) {
        if !self.valid {
            return;
        }
        self.counts.nexts += 1;
        let began = times::begin();
        if self.is_kept {
            self.next_of_kept();
        } else {
            self.keep_merged_key();
            self.merged.next();
            self.find_next_visible(true);
        }
        times::end(PerfTime::FindNextUserEntry, began);
        self.count_next();
    }

    /// Moves to the previous key. Does nothing unless [`valid`](Self::valid).
    pub fn prev(&mut self) {
        if !self.valid {
            return;
        }
        self.counts.prevs += 1;
        if self.direction == Direction::Forward {
            if !self.is_kept {
                self.keep_merged_key();
            }
            self.direction = Direction::Backward;
            let key = std::mem::take(&mut self.key);
            self.turn_prefix_walk_back();
            self.seek_before(&key);
            self.key = key;
        }
        self.find_previous_visible();
        self.count_prev();
    }

    /// Copies the key of the entry that `merged` stands on.
    #[inline]
    fn keep_merged_key(&mut self) {
        let key = crate::key::user_key(self.merged.key());
        let key = if self.timestamps.is_none() { key } else { bare(key) };
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    fn start(&mut self, direction: Direction) {
        self.covered_steps = 0;
        self.direction = direction;
        self.valid = false;
        self.error = None;
        self.key.clear();
    }

    /// Sets `target` to the internal key of `key` with `trailer`. Where keys have timestamps: with the oldest one if `trailer` is 0, with the newest one
    /// of all if it is that of the newest number, else with the newest one that is seen.
    fn set_target(&mut self, key: &[u8], trailer: u64) {
        self.target.clear();
        self.target.extend_from_slice(key);
        if let Some(view) = &self.timestamps {
            let timestamp = match trailer >> 8 {
                _ if trailer == 0 => 0,
                MAX_SEQNO => u64::MAX,
                _ => view.newest,
            };
            self.target.extend_from_slice(&timestamp.to_le_bytes());
        }
        self.target.extend_from_slice(&trailer.to_le_bytes());
    }

    /// Whether the row that is kept is expired; then it is not shown.
    #[inline]
    fn hides_kept(&mut self) -> bool {
        let Some(expiry) = self.expiry.as_mut().filter(|_| self.valid) else { return false };
        let hides = expiry.hides(&self.key, &self.value);
        self.valid = !hides;
        hides
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.valid = false;
        self.error = Some(error);
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("seqno", &self.seqno).field("valid", &self.valid).finish_non_exhaustive()
    }
}
