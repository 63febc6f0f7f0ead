//! Walks over all versions of a table's rows.
//!
//! Between two compactions that let a row's versions meet, what its older ones yield is stale and found by nobody. Where that is too much, the rows of the table are walked over
//! in the order of their keys, with every version that is stored: one read in the order of the disk for all indexes, in place of one read of a row for each entry. For each stretch of rows
//!
//! 1. a snapshot is taken, and the versions that it sees, or that are older, are walked over;
//! 2. what older ones yield and the newest does not is stale at the snapshot;
//! 3. it is removed if the row did not change since.
//!
//! A row that has no version from after the last walk began was dealt with by that. Nor need what compactions drop be looked at once more then.
//!
//! The job walks, and so do writers, the more the nearer the stale share comes to its bound ([`rows_to_walk`]). One at a time has the walk in hand.

use super::super::AnyTableId;
use super::super::ground::Ground;
use super::super::index::{Index, Table};
use super::super::layout::without_id;
use super::removal::Removal;
use crate::key::{SeqNo, ValueType};
use siltstone_base::Result;
use siltstone_base::engine::Row;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::sync::{Arc, Mutex, Rank};
use std::collections::BTreeSet;

/// Taken alone.
const RANK: Rank = Rank(324);

/// Entries after which a stretch ends: so many are removed together.
const STRETCH_ENTRIES: u64 = 512;

/// Bytes of rows after which it ends.
const STRETCH_BYTES: u64 = 1 << 20;

/// Entries of one row that are found; more of them are left to a pass.
const ROW_ENTRIES: usize = 4_096;

/// Versions of one row that are looked at, and their bytes: what older ones yield is left to a pass, too.
const ROW_VERSIONS: u64 = 4_096;
const ROW_BYTES: u64 = 1 << 20;

/// Rows that a writer walks over for each one that it changes, at most, between the share at which sweeps begin and the bound, and beyond that.
const MOST_WITHIN: u64 = 64;
const MOST_BEYOND: u64 = 256;

/// A walk is worth while once a table has got so many new versions: one for each so many rows.
const ROWS_OF_A_VERSION: u64 = 16;

/// How many rows a writer walks over for each one that it changes: none while the share of stale entries is at most the one at which sweeps begin, and more and more up to the bound, which is half as much again. All in
/// thousandths.
pub(super) fn rows_to_walk(stale: u64, begin: u64) -> u64 {
    let bound = begin + begin / 2;
    match stale {
        _ if stale <= begin => 0,
        _ if stale >= bound => MOST_BEYOND,
        _ => (MOST_WITHIN * (stale - begin)).div_ceil(bound - begin),
    }
}

/// For how many rows a writer removes what was found, for each hundred that it changes: none while a quarter of the memory is full at most, and eight times as many where all of it is. In thousandths.
pub(super) fn rows_to_remove(fill: u64) -> u64 {
    match fill {
        0..=250 => 0,
        251..1000 => 100 + (fill - 250) * 700 / 750,
        _ => 800,
    }
}

/// Whether so much was written since the last walk over a table that another one finds something: `written` are numbers that were given out since, of which each change of a row takes one for
/// itself and one for each index.
pub(super) fn is_worth_walking(written: u64, indexes: u64, rows: u64) -> bool {
    written / (1 + indexes) > rows / ROWS_OF_A_VERSION
}

/// How far a walk is.
#[derive(Debug)]
pub(super) struct VersionWalk {
    pub(super) table: AnyTableId,
    /// The primary key to go on with.
    next: Vec<u8>,
    /// Rows without a newer version were dealt with.
    since: SeqNo,
    began: SeqNo,
}

/// The walk that is under way, if there is one. Any thread may take it in hand.
#[derive(Debug)]
pub(super) struct VersionWalks {
    /// The table; 0: none.
    table: AtomicU32,
    /// `None` while somebody has it in hand.
    walk: Mutex<Option<VersionWalk>>,
}

/// What comes of a stretch.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) removal: Removal,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// Where the next one begins; `None` at the end.
    pub(super) next: Option<Vec<u8>>,
}

impl VersionWalks {
    pub(super) fn new() -> Self {
        Self { table: AtomicU32::new(0), walk: Mutex::new(RANK, None) }
    }

    /// Whether a walk is under way.
    #[inline]
    pub(super) fn is_under_way(&self) -> bool {
        self.table.load(Ordering::Relaxed) != 0
    }

    /// Begins a walk, unless one is under way.
    pub(super) fn begin(&self, table: &Table, began: SeqNo) {
        let mut walk = self.walk.lock();
        if !self.is_under_way() {
            let since = table.walked.load(Ordering::Relaxed);
            *walk = Some(VersionWalk { table: AnyTableId(table.number()), next: Vec::new(), since, began });
            self.table.store(table.number(), Ordering::Relaxed);
        }
    }

    /// Takes the walk in hand, if there is one that nobody has. It is given back, or ended.
    pub(super) fn take(&self) -> Option<VersionWalk> {
        self.walk.lock().take()
    }

    /// Gives it back for the next stretch.
    pub(super) fn put(&self, walk: VersionWalk) {
        *self.walk.lock() = Some(walk);
    }

    /// Ends it.
    pub(super) fn end(&self, walk: VersionWalk) {
        drop(walk);
        self.table.store(0, Ordering::Relaxed);
    }
}

/// The versions of a row.
struct Versions<'a> {
    table: &'a Table,
    key: Vec<u8>,
    newest: Option<Vec<u8>>,
    /// What the newest yields in each index; `None` where its extractor fails. Made when there is an older one.
    yielded: Vec<Option<Vec<u8>>>,
    stale: BTreeSet<Vec<u8>>,
    entry: Vec<u8>,
    value: Vec<u8>,
}

impl Versions<'_> {
    fn entry(&mut self, index: &Index, value: &[u8]) -> Result<bool> {
        let row = Row { primary_key: without_id(&self.key), value };
        index.entry(&row, &mut self.entry, &mut self.value)
    }

    fn older(&mut self, older: &[u8]) {
        let table = self.table;
        if self.yielded.is_empty() {
            let newest = self.newest.take();
            for index in &table.indexes {
                let has_entry = newest.as_deref().map_or(Ok(false), |newest| self.entry(index, newest));
                let yielded = has_entry.ok().map(|has| if has { self.entry.clone() } else { Vec::new() });
                self.yielded.push(yielded);
            }
        }
        for (at, index) in table.indexes.iter().enumerate() {
            // Whose extractor fails is found out by who writes, or by a pass: nobody knows then what the row yields.
            let Some(Some(newest)) = self.yielded.get(at).cloned() else { continue };
            if self.stale.len() < ROW_ENTRIES && matches!(self.entry(index, older), Ok(true)) && self.entry != newest {
                self.stale.insert(self.entry.clone());
            }
        }
    }
}

impl Ground {
    /// Walks over at most `most` rows.
    pub(super) fn walk_stretch(&self, table: &Table, walk: &VersionWalk, most: u64) -> Result<Stretch> {
        let primary = table.definition.primary;
        let snapshot = self.db.snapshot();
        let mut versions = self.db.key_versions(&self.rows, &primary.key(&walk.next), &primary.end(), &snapshot)?;
        // A drop beside removes rows whatever snapshots there are.
        self.check_not_dropped(primary)?;
        let mut stretch = Stretch { removal: Removal { snapshot, rows: Vec::new() }, rows: 0, bytes: 0, next: None };
        let mut row = Versions {
            table,
            key: Vec::new(),
            newest: None,
            yielded: Vec::new(),
            stale: BTreeSet::new(),
            entry: Vec::new(),
            value: Vec::new(),
        };
        let (mut is_over, mut found) = (false, 0);
        let (mut of_row, mut bytes_before) = (0, 0);
        while let Some(version) = versions.current()? {
            let is_value = version.value_type == ValueType::Put;
            if version.key != row.key {
                found += row.stale.len() as u64;
                if !row.stale.is_empty() {
                    let stale = std::mem::take(&mut row.stale).into_iter().collect();
                    stretch.removal.rows.push((row.key.clone(), stale));
                }
                if stretch.rows >= most || found >= STRETCH_ENTRIES || stretch.bytes >= STRETCH_BYTES {
                    stretch.next = Some(without_id(version.key).to_vec());
                    break;
                }
                stretch.rows += 1;
                (of_row, bytes_before) = (0, stretch.bytes);
                row.key.clear();
                row.key.extend_from_slice(version.key);
                row.yielded.clear();
                let is_known = matches!(version.value_type, ValueType::Put | ValueType::Delete);
                is_over = version.seqno <= walk.since || !is_known;
                row.newest = None;
                if !is_over && is_value {
                    row.newest = Some(version.value.to_vec());
                }
            } else if !is_over {
                if is_value {
                    row.older(version.value);
                }
                is_over = version.seqno <= walk.since;
            }
            stretch.bytes += (version.key.len() + version.value.len()) as u64;
            of_row += 1;
            match of_row < ROW_VERSIONS && stretch.bytes - bytes_before < ROW_BYTES {
                true => versions.advance(),
                false => versions.skip_key(),
            }
        }
        if !row.stale.is_empty() {
            stretch.removal.rows.push((row.key, row.stale.into_iter().collect()));
        }
        Ok(stretch)
    }

    /// Takes note of a stretch. Returns the walk unless it is through: then what it walked over is known.
    pub(super) fn walked(
        table: &Table,
        mut walk: VersionWalk,
        next: Option<Vec<u8>>,
    ) -> Result<VersionWalk, VersionWalk> {
        match next {
            Some(next) => {
                walk.next = next;
                Ok(walk)
            }
            None => {
                table.walked.store(walk.began, Ordering::Relaxed);
                Err(walk)
            }
        }
    }

    /// The largest share of stale entries among the indexes of which it is known, in thousandths; those with fewer than `least_stale` of them count for none.
    pub(super) fn stale_per_mille(table: &Table, least_stale: u64) -> u64 {
        let figures = table.indexes.iter().map(|index| index.counts.figures());
        let counts = figures.filter(|figures| figures.is_known && figures.stale >= least_stale);
        counts.map(|figures| (figures.stale_share() * 1000.0) as u64).max().unwrap_or(0)
    }

    /// Begins a walk over a table if one is worth while. Returns whether one is under way.
    pub(super) fn begin_walk(&self, walks: &VersionWalks, table: &Arc<Table>) -> bool {
        let entries = table.indexes.iter().map(|index| index.counts.figures().entries).max().unwrap_or(0);
        let latest = self.db.latest_seqno();
        let written = latest.saturating_sub(table.walked.load(Ordering::Relaxed));
        let is_blocked = table.walk_rests.is_blocked(|| self.now_micros());
        if !walks.is_under_way() && !is_blocked && is_worth_walking(written, table.indexes.len() as u64, entries) {
            walks.begin(table, latest);
        }
        walks.is_under_way()
    }
}

#[cfg(test)]
impl Ground {
    /// Walks over all rows of a table without removing anything: rows, bytes that were looked at, and stale entries.
    pub(in super::super) fn walk_for_test(&self, table: &Table) -> (u64, u64, u64) {
        let began = self.db.latest_seqno();
        let mut walk = VersionWalk { table: AnyTableId(table.number()), next: Vec::new(), since: 0, began };
        let (mut rows, mut bytes, mut stale) = (0, 0, 0);
        loop {
            let stretch = self.walk_stretch(table, &walk, u64::MAX).unwrap();
            rows += stretch.rows;
            bytes += stretch.bytes;
            stale += stretch.removal.entries();
            match stretch.next {
                Some(next) => walk.next = next,
                None => return (rows, bytes, stale),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stale thousandths, and how many rows a writer walks over for each of his own, where sweeps begin at a fifth.
    #[test]
    fn writers_walk_the_more_the_nearer_the_bound_is() {
        let script = [(0, 0), (199, 0), (200, 0), (201, 1), (225, 16), (250, 32), (275, 48), (299, 64), (300, 256)];
        for (stale, rows) in script {
            assert_eq!(rows_to_walk(stale, 200), rows, "{stale} of 1000");
        }
        assert_eq!((rows_to_walk(0, 0), rows_to_walk(1, 0), rows_to_walk(1000, 1000)), (0, 256, 0));
    }

    /// Thousandths of the memory that are full, and how many rows are dealt with for a hundred.
    #[test]
    fn writers_remove_the_more_the_fuller_the_memory_is() {
        let script = [(0, 0), (250, 0), (251, 100), (400, 240), (625, 450), (999, 799), (1000, 800), (2000, 800)];
        for (fill, rows) in script {
            assert_eq!(rows_to_remove(fill), rows, "{fill} of 1000");
        }
    }

    /// A walk takes less than the share by which stale entries may yet grow, however far it has to go.
    #[test]
    fn a_walk_ends_before_the_bound_is_reached() {
        for rows in [10_000_u64, 1_000_000] {
            // Every change makes an entry stale.
            let (mut stale, mut walked) = (rows / 4 + 1, 0);
            while walked < rows {
                let share = stale * 1000 / (rows + stale);
                assert!(share < 300, "{walked} of {rows} rows");
                walked += rows_to_walk(share, 200) * (rows / 10_000);
                stale += rows / 10_000;
            }
        }
    }

    #[test]
    fn walks_are_begun_when_there_are_new_versions() {
        let script = [((0, 3, 1000), false), ((250, 3, 1000), false), ((260, 3, 1000), true), ((4, 3, 0), true)];
        for ((written, indexes, rows), is_worth) in script {
            assert_eq!(is_worth_walking(written, indexes, rows), is_worth, "{written} of {rows}");
        }
    }
}
