//! What flushes and compactions find: rows of lazy tables whose older versions they drop, and the entries that those yield and the newest do not.
//!
//! That is evidence, not proof: a newer version may be in a place that the job did not read, and may yield such an entry again. So before anything is removed,
//!
//! 1. a snapshot is taken;
//! 2. memory and filters are asked whether what the job met is still the newest there is of the row, without reading anything; if they cannot say so, the row is read at the snapshot;
//! 3. the entry is removed if the row did not change since the snapshot.
//!
//! What is found is kept in memory alone and may be lost: going through the index finds it, too.

use super::super::fetch::Yields;
use super::super::ground::Ground;
use super::super::index::Table;
use super::super::layout::{ID_LEN, IndexId, without_id};
use super::super::open_tables::OpenTables;
use super::removal::{Removal, StaleOfRow};
use super::sweeper::Sweeper;
use crate::compaction::{HiddenRow, HiddenRows, JobFiles};
use crate::key::SeqNo;
use crate::options::ReadOptions;
use siltstone_base::engine::Row;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::collections::VecDeque;

/// Taken alone, by jobs.
const RANK: Rank = Rank(323);

/// Memory of a row that was found, beside its bytes.
const ROW_BYTES: usize = 128;

/// So often is a row looked at whose look was overtaken by a change of it.
const MOST_TRIES: u32 = 4;

/// Entries of one row that are kept together. Of a row with more of them there are several: what is new of it is compared with so many, while others wait.
const MOST_ENTRIES: usize = 64;

/// A row, and entries that it may not yield any more.
#[derive(Debug)]
pub(super) struct Suspect {
    row: Vec<u8>,
    entries: Vec<Vec<u8>>,
    /// Memory for all of it.
    bytes: usize,
    /// The number of the newest version that the job met, and the files of the job; `None`: the row is read.
    met: Option<(SeqNo, Arc<JobFiles>)>,
    tries: u32,
}

fn bytes_of(entries: &[Vec<u8>]) -> usize {
    entries.iter().map(|entry| entry.len() + size_of::<Vec<u8>>()).sum()
}

impl Suspect {
    fn new(row: Vec<u8>, entries: Vec<Vec<u8>>, met: Option<(SeqNo, Arc<JobFiles>)>, tries: u32) -> Self {
        let bytes = ROW_BYTES + row.len() + bytes_of(&entries);
        Self { row, entries, bytes, met, tries }
    }

    /// Whether what the flush met is not yet where readers look for it.
    fn is_early(&self) -> bool {
        self.met.as_ref().is_some_and(|(_, files)| !files.is_seen())
    }

    /// Whether it is the same row, met by the same job, with room for more.
    fn takes_in(&self, other: &Self) -> bool {
        let is_of_one_job = |(one, other): (&(_, Arc<_>), &(_, Arc<_>))| Arc::ptr_eq(&one.1, &other.1);
        self.row == other.row
            && self.entries.len() + other.entries.len() <= MOST_ENTRIES
            && self.met.as_ref().zip(other.met.as_ref()).is_some_and(is_of_one_job)
    }
}

#[derive(Debug, Default)]
struct Queue {
    suspects: VecDeque<Suspect>,
    /// Those of flushes that have not ended, in the order in which those began.
    early: VecDeque<Suspect>,
    bytes: usize,
}

/// Rows that wait to be looked at, oldest first.
#[derive(Debug)]
pub(super) struct Found {
    queue: Mutex<Queue>,
    most_bytes: usize,
    /// What the queue has: for those who only ask.
    bytes: AtomicUsize,
}

impl Found {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { queue: Mutex::new(RANK, Queue::default()), most_bytes, bytes: AtomicUsize::new(0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        let queue = self.queue.lock();
        queue.suspects.is_empty() && queue.early.is_empty()
    }

    /// Adds a row, or what is new of it to the last one, which is the same. Returns how many entries are new, and whether there is room for them.
    fn add(&self, mut suspect: Suspect) -> (u64, bool) {
        let mut queue = self.queue.lock();
        let Queue { suspects, early, bytes: all_bytes } = &mut *queue;
        if let Some(last) = if suspect.is_early() { early } else { suspects }.back_mut()
            && last.takes_in(&suspect)
        {
            suspect.entries.retain(|entry| !last.entries.contains(entry));
            let (count, added) = (suspect.entries.len() as u64, bytes_of(&suspect.entries));
            if all_bytes.saturating_add(added) > self.most_bytes {
                return (count, false);
            }
            last.entries.append(&mut suspect.entries);
            last.bytes += added;
            *all_bytes += added;
            self.bytes.store(*all_bytes, Ordering::Relaxed);
            return (count, true);
        }
        let count = suspect.entries.len() as u64;
        (count, self.push_to(&mut queue, suspect))
    }

    fn push(&self, suspect: Suspect) -> bool {
        self.push_to(&mut self.queue.lock(), suspect)
    }

    fn push_to(&self, queue: &mut Queue, suspect: Suspect) -> bool {
        let bytes = suspect.bytes;
        if queue.bytes.saturating_add(bytes) > self.most_bytes {
            return false;
        }
        queue.bytes += bytes;
        self.bytes.store(queue.bytes, Ordering::Relaxed);
        let suspects = if suspect.is_early() { &mut queue.early } else { &mut queue.suspects };
        suspects.push_back(suspect);
        true
    }

    /// Takes the oldest ones out, but for those of flushes that have not ended.
    pub(super) fn take(&self, most: usize) -> Vec<Suspect> {
        let mut queue = self.queue.lock();
        while let Some(suspect) = queue.early.pop_front_if(|suspect| !suspect.is_early()) {
            queue.suspects.push_back(suspect);
        }
        let count = most.min(queue.suspects.len());
        let taken: Vec<Suspect> = queue.suspects.drain(..count).collect();
        queue.bytes -= taken.iter().map(|suspect| suspect.bytes).sum::<usize>();
        self.bytes.store(queue.bytes, Ordering::Relaxed);
        taken
    }

    /// Whether nothing can be taken out before a flush ends.
    pub(super) fn is_all_early(&self) -> bool {
        let queue = self.queue.lock();
        queue.suspects.is_empty() && queue.early.front().is_some_and(Suspect::is_early)
    }

    /// How many thousandths of the memory are full; one load.
    #[inline]
    pub(super) fn fill_per_mille(&self) -> u64 {
        let bytes = self.bytes.load(Ordering::Relaxed) as u64;
        if bytes == 0 { 0 } else { bytes.saturating_mul(1000) / (self.most_bytes as u64).max(1) }
    }

    /// Takes in again what was taken out. Returns how many entries there is no room for.
    pub(super) fn put_back(&self, suspects: Vec<Suspect>) -> u64 {
        let count = |suspect: Suspect| {
            let entries = suspect.entries.len() as u64;
            if self.push(suspect) { 0 } else { entries }
        };
        suspects.into_iter().map(count).sum()
    }

    /// Takes rows in that are to be read before anything is removed. Those that were looked at too often are left to a pass: they have changed since the last one. Returns how many entries those had.
    pub(super) fn give_back(&self, rows: impl Iterator<Item = StaleOfRow>, tries: u32) -> u64 {
        let mut missed = 0;
        for (row, entries) in rows {
            let count = entries.len() as u64;
            if tries >= MOST_TRIES || !self.push(Suspect::new(row, entries, None, tries + 1)) {
                missed += count;
            }
        }
        missed
    }
}

/// Sees the rows that flushes and compactions drop.
#[derive(Debug)]
pub(super) struct Finder {
    pub(super) open_tables: Arc<OpenTables>,
    pub(super) sweeper: Arc<Sweeper>,
}

/// The lazy table of the row with this key.
fn lazy_table<'a>(tables: &'a [Arc<Table>], key: &[u8]) -> Option<&'a Arc<Table>> {
    let id = IndexId::of_key(key)?;
    let at = tables.binary_search_by_key(&id.0, |table| table.number()).ok()?;
    tables.get(at).filter(|table| table.definition.lazy && !table.indexes.is_empty())
}

impl HiddenRows for Finder {
    #[inline]
    fn watches(&self, key: &[u8]) -> bool {
        self.open_tables.has_had_lazy() && lazy_table(&self.open_tables.load(), key).is_some()
    }

    fn went(&self, row: &HiddenRow<'_>) {
        let tables = self.open_tables.load();
        let Some(table) = lazy_table(&tables, row.key) else { return };
        // A walk has met both.
        if row.newest_seqno <= table.walked.load(Ordering::Relaxed) {
            return;
        }
        let version = |value| Row { primary_key: without_id(row.key), value };
        let (mut old, mut new, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let mut entries = Vec::new();
        for index in &table.indexes {
            let has_old = index.entry(&version(row.older), &mut old, &mut value);
            let has_new = match row.newest.map(version) {
                Some(newest) => index.entry(&newest, &mut new, &mut value),
                None => Ok(false),
            };
            // Whose extractor fails is found out by who writes, or by a pass: nobody knows then what the row yields.
            if let (Ok(true), Ok(has_new)) = (has_old, has_new)
                && !(has_new && old == new)
            {
                index.counts.note_found(1);
                entries.push(old.clone());
            }
        }
        if entries.is_empty() {
            return;
        }
        let met = Some((row.newest_seqno, Arc::clone(row.files)));
        let (count, is_kept) = self.sweeper.found.add(Suspect::new(row.key.to_vec(), entries, met, 0));
        self.sweeper.note_found(count, is_kept);
    }

    fn is_full(&self) -> bool {
        let found = &self.sweeper.found;
        found.bytes.load(Ordering::Relaxed) > found.most_bytes / 4 * 3 && self.sweeper.may_run()
    }
}

/// What comes of looking at rows.
#[derive(Debug)]
pub(super) struct Looked {
    /// Entries that are stale.
    pub(super) removal: Removal,
    /// Rows that could not be read.
    pub(super) unread: Vec<StaleOfRow>,
    /// How often these rows were looked at before.
    pub(super) tries: u32,
    /// Rows that had to be read, and their bytes.
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Ground {
    /// Those of these rows of which memory and filters say that what their jobs met is still the newest; and the others.
    pub(super) fn sort_out(&self, suspects: Vec<Suspect>) -> (Removal, Vec<Suspect>) {
        let snapshot = self.db.snapshot();
        let (mut rows, mut unsure) = (Vec::with_capacity(suspects.len()), Vec::new());
        for suspect in suspects {
            let is_sure = match &suspect.met {
                // A table that cannot be asked is met again by who reads the row.
                Some((seqno, files)) => {
                    self.db.is_still_newest(&self.rows, &suspect.row, *seqno, files).unwrap_or(false)
                }
                None => false,
            };
            match is_sure {
                true => rows.push((suspect.row, suspect.entries)),
                false => unsure.push(suspect),
            }
        }
        (Removal { snapshot, rows }, unsure)
    }

    /// Looks which entries of these rows are stale now. Rows that were looked at before are in the company of their like.
    pub(super) fn look_at(&self, suspects: Vec<Suspect>) -> Looked {
        let tries = suspects.iter().map(|suspect| suspect.tries).max().unwrap_or(0);
        let (removal, unsure) = self.sort_out(suspects);
        let mut looked = Looked { removal, unread: Vec::new(), tries, rows: unsure.len() as u64, bytes: 0 };
        if !unsure.is_empty() {
            self.read_unsure(unsure, &mut looked);
        }
        looked
    }

    fn read_unsure(&self, mut unsure: Vec<Suspect>, looked: &mut Looked) {
        unsure.sort_by(|one, other| one.row.cmp(&other.row));
        let keys: Vec<&[u8]> = unsure.iter().map(|suspect| &suspect.row[..]).collect();
        let options = ReadOptions::default().snapshot(Some(looked.removal.snapshot.clone())).fill_cache(false);
        let found = self.db.multi_get_cf(&self.rows, &keys, &options);
        let is_hidden_for_good = self.db.hides_for_good(looked.removal.snapshot.unix_seconds());
        let tables = self.open_tables.load();
        let mut yields = Yields::default();
        for (suspect, value) in unsure.into_iter().zip(found) {
            let Ok(value) = value else {
                looked.unread.push((suspect.row, suspect.entries));
                continue;
            };
            looked.bytes += value.as_ref().map_or(0, |value| value.len() as u64);
            let Some(table) = lazy_table(&tables, &suspect.row) else { continue };
            let primary_key = without_id(&suspect.row);
            let mut stale = Vec::new();
            for entry in suspect.entries {
                let id = IndexId::of_key(&entry);
                let Some(index) = table.indexes.iter().find(|index| Some(index.id) == id) else { continue };
                let index_key = entry.len().checked_sub(primary_key.len()).and_then(|end| entry.get(ID_LEN..end));
                let Some(index_key) = index_key else { continue };
                let is_yielded = match &value {
                    Some(value) => yields.yields(index, &Row { primary_key, value }, index_key),
                    // Where the clock is not trusted, the row may be there and be seen again.
                    None => Ok(table.expires() && !is_hidden_for_good),
                };
                // A row that its extractor cannot read is shown by who reads it.
                if matches!(is_yielded, Ok(false)) {
                    stale.push(entry);
                }
            }
            if !stale.is_empty() {
                looked.removal.rows.push((suspect.row, stale));
            }
        }
    }
}
