//! What the range tombstones of all sources hide from one reader.
//!
//! 1. Each source with range tombstones is asked for the stretch of keys around the key at hand over which its answer is the same; of all
//!    sources, the largest number and the narrowest stretch are kept. While a walk stays within that stretch, a key costs one comparison.
//! 2. Everything in sources behind one with a tombstone over a key is older than the tombstone. So a walk that comes to a covered stretch moves
//!    the children behind that source past it at once.
//!
//! A table of a level below 0 answers for its own range alone: tombstones that reach beyond it are in the neighbours too, and may be
//! obsolete where those have none.

use crate::file_meta::FileMeta;
use crate::key::{InternalKeyComparator, SeqNo};
use crate::memtable::RangeReader;
use crate::options::ReadTier;
use crate::range_tombstones::Stretch;
use crate::sst::TableReader;
use crate::table_cache::TableCache;
use siltstone_base::Result;
use siltstone_base::sync::Arc;

/// Most neighbours without range tombstones that a stretch of a level takes in.
const MAX_NEIGHBOURS: usize = 16;

/// Where range tombstones are.
#[derive(Debug)]
pub(crate) enum RangeSource {
    /// Those of one memtable.
    Memtable(RangeReader),
    /// Those of a table of level 0.
    Table(Arc<TableReader>),
    /// Those of the tables of a sorted run.
    Level {
        /// Sorted by key range.
        files: Arc<[Arc<FileMeta>]>,
        /// Opens them.
        table_cache: Arc<TableCache>,
        /// How far it may go for that.
        tier: ReadTier,
    },
}

/// What range tombstones hide from a reader at one sequence number.
#[derive(Debug)]
pub(crate) struct RangeView {
    order: InternalKeyComparator,
    seqno: SeqNo,
    /// Newest first, each with the index of the child that has the point entries of the same source.
    sources: Vec<(usize, RangeSource)>,
    /// The largest number over the stretch below.
    covering: SeqNo,
    /// The first key of the stretch; `None`: no bound.
    start: Option<Vec<u8>>,
    /// The first key behind the stretch; `None`: no bound.
    end: Option<Vec<u8>>,
    /// Whether there is a stretch.
    is_placed: bool,
}

/// A covered stretch, and the first child behind the source that covers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoveredRun<'a> {
    /// Children from this one on have nothing in the stretch that the reader sees.
    pub(crate) older_children: usize,
    /// The first key of the stretch; `None`: no bound.
    pub(crate) start: Option<&'a [u8]>,
    /// The first key behind the stretch; `None`: no bound.
    pub(crate) end: Option<&'a [u8]>,
}

impl RangeView {
    /// A view for a reader at `seqno`; `None` if there are no sources. `sources` come newest first, each with the index of its child.
    pub(crate) fn new(
        order: &InternalKeyComparator,
        seqno: SeqNo,
        sources: Vec<(usize, RangeSource)>,
    ) -> Option<Box<Self>> {
        let view = Self { order: order.clone(), seqno, sources, covering: 0, start: None, end: None, is_placed: false };
        (!view.sources.is_empty()).then(|| Box::new(view))
    }

    /// The largest visible number over `user_key`, 0 for none: entries of smaller ones are hidden.
    ///
    /// # Errors
    ///
    /// Of opening a table.
    #[inline]
    pub(crate) fn covering(&mut self, user_key: &[u8]) -> Result<SeqNo> {
        if !self.is_within(user_key) {
            self.place(user_key)?;
        }
        Ok(self.covering)
    }

    #[inline]
    fn is_within(&self, user_key: &[u8]) -> bool {
        self.is_placed
            && self.end.as_ref().is_none_or(|end| self.order.compare_user(user_key, end).is_lt())
            && self.start.as_ref().is_none_or(|start| self.order.compare_user(user_key, start).is_ge())
    }

    fn place(&mut self, user_key: &[u8]) -> Result<()> {
        self.is_placed = false;
        let mut common = Stretch { seqno: 0, start: None, end: None };
        for (_, source) in &mut self.sources {
            if let RangeSource::Memtable(reader) = source {
                reader.before_search();
            }
        }
        for (_, source) in &self.sources {
            source.narrow(&self.order, user_key, self.seqno, false, &mut common)?;
        }
        self.covering = common.seqno;
        replace(&mut self.start, common.start);
        replace(&mut self.end, common.end);
        self.is_placed = true;
        Ok(())
    }

    /// The covered stretch around `user_key` of the newest source that covers it; `None` if none does.
    pub(crate) fn covered_run<'a>(&'a self, user_key: &'a [u8]) -> Result<Option<CoveredRun<'a>>> {
        for (child, source) in &self.sources {
            let mut run = Stretch { seqno: 0, start: None, end: None };
            source.narrow(&self.order, user_key, self.seqno, true, &mut run)?;
            if run.seqno > 0 {
                return Ok(Some(CoveredRun { older_children: child + 1, start: run.start, end: run.end }));
            }
        }
        Ok(None)
    }

    /// Where each child has something that the reader may see at or behind `user_key`: pairs of a child and a user key, which holds for the
    /// children from that one on. Those before the first pair begin at `user_key`.
    pub(crate) fn uncovered_from(&self, user_key: &[u8]) -> Result<Vec<(usize, Vec<u8>)>> {
        let mut starts: Vec<(usize, Vec<u8>)> = Vec::new();
        for (child, source) in &self.sources {
            let at = starts.last().map_or(user_key, |(_, start)| start);
            let mut run = Stretch { seqno: 0, start: None, end: None };
            source.narrow(&self.order, at, self.seqno, true, &mut run)?;
            if let (1.., Some(end)) = (run.seqno, run.end) {
                let end = end.to_vec();
                starts.push((child + 1, end));
            }
        }
        Ok(starts)
    }
}

fn replace(slot: &mut Option<Vec<u8>>, key: Option<&[u8]>) {
    match (slot.as_mut(), key) {
        (Some(old), Some(key)) => {
            old.clear();
            old.extend_from_slice(key);
        }
        (_, key) => *slot = key.map(<[u8]>::to_vec),
    }
}

/// Lets `common` say what both it and `other` say.
fn intersect<'a>(order: &InternalKeyComparator, common: &mut Stretch<'a>, other: &Stretch<'a>) {
    common.seqno = common.seqno.max(other.seqno);
    if let Some(start) = other.start
        && common.start.is_none_or(|old| order.compare_user(old, start).is_lt())
    {
        common.start = Some(start);
    }
    if let Some(end) = other.end
        && common.end.is_none_or(|old| order.compare_user(end, old).is_lt())
    {
        common.end = Some(end);
    }
}

impl RangeSource {
    /// Adds to `common` what this source says of `user_key`. With `runs` it says how far it goes on covering: by whatever number.
    fn narrow<'a>(
        &'a self,
        order: &InternalKeyComparator,
        user_key: &'a [u8],
        seqno: SeqNo,
        runs: bool,
        common: &mut Stretch<'a>,
    ) -> Result<()> {
        match self {
            Self::Memtable(reader) => {
                for set in reader.sets() {
                    let stretch = if runs { set.run_at(user_key, seqno) } else { set.stretch_at(user_key, seqno) };
                    match runs {
                        // One set that covers is enough: what others say does not shorten its run.
                        true if stretch.seqno > 0 => {
                            *common = stretch;
                            return Ok(());
                        }
                        true => {}
                        false => intersect(order, common, &stretch),
                    }
                }
            }
            Self::Table(reader) => {
                if let Some(fragments) = reader.range_fragments() {
                    let at =
                        if runs { fragments.run_at(user_key, seqno) } else { fragments.stretch_at(user_key, seqno) };
                    intersect(order, common, &at);
                }
            }
            Self::Level { files, table_cache, tier } => {
                intersect(order, common, &level_stretch(files, (table_cache, *tier), order, user_key, seqno, runs)?);
            }
        }
        Ok(())
    }
}

/// What the tables of a sorted run say of `user_key`, each within its own range.
fn level_stretch<'a>(
    files: &'a [Arc<FileMeta>],
    (table_cache, tier): (&TableCache, ReadTier),
    order: &InternalKeyComparator,
    user_key: &'a [u8],
    seqno: SeqNo,
    runs: bool,
) -> Result<Stretch<'a>> {
    let index = files.partition_point(|file| file.ends_before(order, user_key));
    let mut stretch = Stretch { seqno: 0, start: None, end: None };
    let within = files.get(index).filter(|file| order.compare_user(file.smallest.user_key(), user_key).is_le());
    let mut own_start = None;
    let mut next = index;
    if let Some(file) = within {
        own_start = Some(file.smallest.user_key());
        next = index + 1;
        if let Some(fragments) = table_cache.reader_within(file, tier)?.range_fragments() {
            let at = if runs { fragments.run_at(user_key, seqno) } else { fragments.stretch_at(user_key, seqno) };
            let last = file.largest.user_key();
            let end = match file.largest.is_exclusive_end() {
                true => Some(last),
                false => files.get(next).map(|next| next.smallest.user_key()),
            };
            intersect(order, &mut stretch, &at);
            intersect(order, &mut stretch, &Stretch { seqno: 0, start: own_start, end });
            return Ok(stretch);
        }
    }
    // Nothing covers the key: the stretch goes on over neighbours of which the same is known.
    let is_free = |file: &&Arc<FileMeta>| !file.may_have_ranges();
    next += files[next.min(files.len())..].iter().take(MAX_NEIGHBOURS).take_while(is_free).count();
    stretch.end = files.get(next).map(|file| file.smallest.user_key());
    let free_before = files[..index].iter().rev().take(MAX_NEIGHBOURS).take_while(is_free).count();
    let first = index - free_before;
    stretch.start = match (first, free_before) {
        (0, _) => None,
        (first, 0) => {
            let before = &files[first - 1].largest;
            own_start.or_else(|| before.is_exclusive_end().then(|| before.user_key())).or(Some(user_key))
        }
        (first, _) => Some(files[first].smallest.user_key()),
    };
    Ok(stretch)
}
