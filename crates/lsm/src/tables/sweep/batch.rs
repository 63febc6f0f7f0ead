//! Some entries of an index, from reading them to what is stale among them.
//!
//! 1. A snapshot is taken, and entries are read in their order: those that follow on the last batch of a pass, or a few at each of many places, as a sample.
//! 2. They are sorted by primary key. Of a pass, those are passed over whose rows are known to be as they were when the pass before began: such an entry was looked at
//!    then. Memory and filters say that, see [`Moment`].
//! 3. The rows of the others are read at the snapshot, in the order of primary keys, and asked what they yield.
//! 4. What is stale is handed out, to be removed if its rows did not change since the snapshot. Whatever makes an entry count again writes its row too.

use super::super::fetch::{BatchLen, Yields, at_position};
use super::super::figures::Mark;
use super::super::ground::Ground;
use super::super::index::{Index, Table};
use super::super::layout::without_id;
use super::super::scan::{IndexScan, Walk};
use super::removal::{Removal, WRITE_ROWS};
use super::{Pass, Progress};
use crate::db::{Moment, Moved};
use crate::snapshot::Snapshot;
use siltstone_base::Result;
use siltstone_base::engine::Row;
use siltstone_base::index_scan::IndexEntries;

/// Most bytes of a batch.
const BATCH_BYTES: usize = 2 << 20;

/// Places of a sample, and entries that are read at each.
const PLACES: usize = 64;
const ENTRIES_OF_PLACE: usize = 8;

/// Places that are known of each table: it may have other indexes, too.
const PLACES_OF_TABLE: usize = 1_024;

/// What entries are read.
#[derive(Debug)]
enum Source {
    /// Those from a key on, so many at most.
    Range(Vec<u8>, usize),
    /// A few from each of these keys on; the last one is next.
    Places(Vec<Vec<u8>>),
}

/// Some entries of an index.
#[derive(Debug)]
pub(super) struct Batch {
    source: Source,
    snapshot: Snapshot,
    pass: Pass,
    validated: Option<Moment>,
    entries: IndexEntries,
    is_gathered: bool,
    /// Whether no entry of the index follows.
    is_last: bool,
    /// Positions by primary key that filters were not asked for yet; the last one is next.
    unasked: Vec<usize>,
    /// Those whose rows are to be read.
    suspects: Vec<usize>,
    read: usize,
    batch_len: BatchLen,
    yields: Yields,
    stale: Vec<usize>,
    given: usize,
    /// A row that its extractor cannot read is left alone, and keeps nothing else from being swept: who reads it is told.
    is_lenient: bool,
    pub(super) removed: u64,
    pub(super) moved: Moved,
    pub(super) seeks: u64,
}

/// What comes of going on with a batch.
#[derive(Debug)]
pub(super) enum Advance {
    /// It did about so much work, in entries.
    More(u32),
    /// These are to be removed.
    Remove(Removal),
    /// Everything was looked at and handed out.
    Done,
}

impl Batch {
    /// The next entries of a pass, or the first ones of a new pass that a caller begins, or the background.
    pub(super) fn next_of(ground: &Ground, index: &Index, progress: &Progress, most: usize, is_by_hand: bool) -> Self {
        let (began, snapshot) = ground.db.moment();
        let (mark, of) = (index.counts.mark(), index.counts.figures().entries);
        let new = Pass { is_by_hand, began, mark, of, entries: 0, removed: 0 };
        let source = Source::Range(progress.next.clone(), most.max(1));
        Self::new(source, snapshot, progress.pass.unwrap_or(new), progress.validated)
    }

    /// A sample of an index, at other places than the one before it; `None` where tables have so little of it that it may as well be gone through.
    pub(super) fn sample(ground: &Ground, index: &Index, number: u64) -> Result<Option<Self>> {
        let (begin, end) = (index.id.to_bytes(), index.id.end());
        let places = ground.db.places(&ground.rows, &begin, &end, PLACES_OF_TABLE)?;
        if places.len() < 2 * PLACES {
            return Ok(None);
        }
        let shift = usize::try_from(number % 61).unwrap_or(0) * places.len() / PLACES / 61;
        let chosen = (0..PLACES).rev().filter_map(|at| places.get(shift + at * places.len() / PLACES));
        let (began, snapshot) = ground.db.moment();
        let pass = Pass { is_by_hand: false, began, mark: index.counts.mark(), of: 0, entries: 0, removed: 0 };
        let source = Source::Places(chosen.map(|key| without_id(key).to_vec()).collect());
        Ok(Some(Self::new(source, snapshot, pass, None)))
    }

    fn new(source: Source, snapshot: Snapshot, pass: Pass, validated: Option<Moment>) -> Self {
        Self {
            source,
            snapshot,
            pass,
            validated,
            entries: IndexEntries::default(),
            is_gathered: false,
            is_last: false,
            unasked: Vec::new(),
            suspects: Vec::new(),
            read: 0,
            batch_len: BatchLen::default(),
            yields: Yields::default(),
            stale: Vec::new(),
            given: 0,
            is_lenient: false,
            removed: 0,
            moved: Moved::default(),
            seeks: 0,
        }
    }

    /// For the background, where nobody would hear of a row that cannot be read.
    pub(super) fn lenient(self) -> Self {
        Self { is_lenient: true, ..self }
    }

    /// Entries that were read, rows that were read for them, and how many entries are stale.
    pub(super) fn figures(&self) -> (u64, u64, u64) {
        (self.entries.len() as u64, self.read as u64, self.stale.len() as u64)
    }

    /// Whether it reads rows next.
    pub(super) fn is_reading_rows(&self) -> bool {
        self.is_gathered && self.unasked.is_empty()
    }

    pub(super) fn mark(&self) -> Mark {
        self.pass.mark
    }

    /// Goes on with at most about `units` entries at a time.
    pub(super) fn advance(&mut self, ground: &Ground, table: &Table, index: &Index, units: usize) -> Result<Advance> {
        if !self.is_gathered {
            let before = (self.entries.len(), self.entries.bytes());
            self.gather(ground, index, units)?;
            self.moved.read += (self.entries.bytes() - before.1) as u64;
            if self.is_gathered {
                self.unasked = self.entries.by_primary_key();
                self.unasked.reverse();
            }
            return Ok(Advance::More(units_of(self.entries.len() - before.0)));
        }
        if !self.unasked.is_empty() {
            return self.ask_filters(ground, table, units).map(Advance::More);
        }
        let is_read = self.read == self.suspects.len();
        // What a sample removed would not be there for the next one, which would take the rest for as good.
        let is_sample = matches!(self.source, Source::Places(_));
        let waiting = if is_sample { 0 } else { self.stale.len() - self.given };
        if waiting >= WRITE_ROWS || is_read && waiting > 0 {
            return Ok(Advance::Remove(self.hand_out(table, index)));
        }
        if is_read {
            return Ok(Advance::Done);
        }
        self.ask_rows(ground, table, index, units).map(Advance::More)
    }

    /// Reads entries.
    fn gather(&mut self, ground: &Ground, index: &Index, units: usize) -> Result<()> {
        let scan = IndexScan::all().at(&self.snapshot).fill_cache(false);
        match &mut self.source {
            Source::Range(from, most) => {
                let scan = scan.starting_at(&*from);
                let mut walk = Walk::new(ground, index, &scan)?;
                self.seeks += 1;
                let end = self.entries.len().saturating_add(units).min(*most);
                while let Some(entry) = walk.wanted()? {
                    self.is_gathered = self.entries.len() == *most || self.entries.bytes() > BATCH_BYTES;
                    if self.is_gathered || self.entries.len() == end {
                        *from = [entry.index_key, entry.primary_key].concat();
                        return Ok(());
                    }
                    self.entries.push(entry);
                    walk.advance();
                }
                (self.is_gathered, self.is_last) = (true, true);
            }
            Source::Places(places) => {
                let Some(place) = places.pop() else {
                    self.is_gathered = true;
                    return Ok(());
                };
                let mut scan = scan.starting_at(&place);
                if let Some(next) = places.last() {
                    scan = scan.ending_before(next);
                }
                let mut walk = Walk::new(ground, index, &scan)?;
                self.seeks += 1;
                for _ in 0..ENTRIES_OF_PLACE {
                    let Some(entry) = walk.wanted()? else { break };
                    self.entries.push(entry);
                    walk.advance();
                }
            }
        }
        Ok(())
    }

    /// Asks memory and filters whose rows are as they were.
    fn ask_filters(&mut self, ground: &Ground, table: &Table, units: usize) -> Result<u32> {
        let Some(validated) = self.validated else {
            self.suspects.extend(std::mem::take(&mut self.unasked).into_iter().rev());
            return Ok(1);
        };
        let asked = units.min(self.unasked.len());
        for at in self.unasked.drain(self.unasked.len() - asked..).rev() {
            let key = table.definition.primary.key(self.entries.get(at).primary_key);
            if !ground.db.is_known_unchanged(&ground.rows, &key, validated)? {
                self.suspects.push(at);
            }
        }
        Ok(units_of(asked))
    }

    /// Reads rows and asks them what they yield.
    fn ask_rows(&mut self, ground: &Ground, table: &Table, index: &Index, units: usize) -> Result<u32> {
        let unread = self.suspects.get(self.read..).unwrap_or_default();
        let now = unread.get(..self.batch_len.get().min(units.max(1))).unwrap_or(unread);
        let rows = ground.rows_at(table, &self.entries, now, &self.snapshot, false)?;
        for (&at, row) in now.iter().zip(&rows) {
            let entry = self.entries.get(at);
            let is_yielded = row.as_ref().map_or(Ok(false), |value| {
                let row = Row { primary_key: entry.primary_key, value };
                self.yields.yields(index, &row, entry.index_key)
            });
            match is_yielded {
                Ok(true) => {}
                Ok(false) => self.stale.push(at),
                Err(_) if self.is_lenient => {}
                Err(error) => return Err(at_position(error, self.pass.entries + at as u64)),
            }
        }
        let (count, bytes) = (now.len(), rows.iter().flatten().map(|row| row.len() as u64).sum::<u64>());
        self.moved.read += bytes;
        self.batch_len.note(&rows);
        self.read += count;
        Ok(units_of(count))
    }

    fn hand_out(&mut self, table: &Table, index: &Index) -> Removal {
        let end = self.stale.len().min(self.given + WRITE_ROWS);
        let stale_of_row = |at: &usize| {
            let entry = self.entries.get(*at);
            let key = index.id.key(&[entry.index_key, entry.primary_key].concat());
            (table.definition.primary.key(entry.primary_key), vec![key])
        };
        let rows: Vec<_> = self.stale[self.given..end].iter().map(stale_of_row).collect();
        self.given = end;
        self.moved.written += rows.iter().flat_map(|(_, entries)| entries).map(|key| key.len() as u64).sum::<u64>();
        Removal { snapshot: self.snapshot.clone(), rows }
    }

    /// Takes note of a batch of a pass that is left off: its entries come once more, but for those that were removed.
    pub(super) fn leave_off(self, progress: &mut Progress) {
        let mut pass = self.pass;
        pass.entries += self.removed;
        pass.removed += self.removed;
        progress.pass = Some(pass);
    }

    /// Takes note of the end of a batch of a pass. Returns whether the pass is through.
    pub(super) fn end(self, index: &Index, progress: &mut Progress) -> bool {
        let mut pass = self.pass;
        pass.entries += self.entries.len() as u64;
        pass.removed += self.removed;
        if let (false, Source::Range(next, _)) = (self.is_last, self.source) {
            progress.next = next;
            progress.pass = Some(pass);
            return false;
        }
        index.counts.note_swept(pass.mark, pass.entries.saturating_sub(pass.removed), pass.removed);
        progress.validated = Some(pass.began);
        progress.passes += 1;
        progress.pass = None;
        progress.next.clear();
        true
    }
}

fn units_of(entries: usize) -> u32 {
    u32::try_from(entries).unwrap_or(u32::MAX).max(1)
}
