//! The checker of the whole tree.

use super::column_family::Family;
use super::state::DbInner;
use crate::file_meta::FileMeta;
use crate::file_names::FileName;
use crate::iterator::InternalIterator;
use crate::key::{ParsedKey, SeqNo};
use crate::sst::{TableIter, TableReadOptions};
use crate::version::Version;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::cmp::Ordering;

/// Bytes that the check reads at a time.
const READ_AHEAD: usize = 256 << 10;

/// What a check of the whole tree looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeReport {
    /// Column families.
    pub families: u64,
    /// Tables, every entry of which was read.
    pub tables: u64,
    /// Entries read.
    pub entries: u64,
}

impl DbInner {
    /// Checks every family: each level's order, each table's entries against what the MANIFEST says of the table.
    pub(crate) fn check(&self) -> Result<TreeReport> {
        let mut report = TreeReport::default();
        for family in self.families.load().values() {
            // The version first: nothing in it is newer than what is visible afterwards.
            let version = Arc::clone(&family.super_version.load().version);
            let visible = self.visible();
            report.families += 1;
            for level in 0..version.num_levels() {
                let files = version.files(level);
                check_level_order(&version, family, level)?;
                for file in files {
                    report.entries += self.check_table(family, file, visible)?;
                    report.tables += 1;
                }
            }
        }
        Ok(report)
    }

    fn check_table(&self, family: &Family, file: &FileMeta, visible: SeqNo) -> Result<u64> {
        let path = FileName::Table(file.number).path(&self.dir);
        let wrong = |what: &'static str| Error::corruption(&path, 0, what);
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let reader = Arc::clone(family.table_cache.reader(file)?);
        let mut iter = TableIter::for_compaction(Arc::clone(&reader), options, READ_AHEAD);
        iter.seek_to_first();
        let mut last: Vec<u8> = Vec::new();
        let (mut smallest_seqno, mut largest_seqno, mut entries) = (SeqNo::MAX, 0, 0);
        let order = &family.comparator;
        let ranges = reader.range_fragments();
        // Range tombstones may reach beyond the table: its bounds cut them.
        let is_bound = |key: &[u8], bound: &[u8], outwards: Ordering| match order.compare(bound, key) {
            Ordering::Equal => true,
            other => ranges.is_some() && other == outwards,
        };
        while iter.valid() {
            let key = iter.key();
            let parsed = ParsedKey::parse(key)?;
            if entries == 0 && !is_bound(key, file.smallest.as_bytes(), Ordering::Less) {
                return Err(wrong("the first entry is not the smallest key that the MANIFEST states"));
            }
            if entries > 0 && order.compare(&last, key) != Ordering::Less {
                return Err(wrong("entries out of order"));
            }
            smallest_seqno = smallest_seqno.min(parsed.seqno);
            largest_seqno = largest_seqno.max(parsed.seqno);
            entries += 1;
            last.clear();
            last.extend_from_slice(key);
            iter.next();
        }
        iter.status()?;
        if let Some(ranges) = ranges {
            let (smallest, largest) = ranges.seqnos();
            smallest_seqno = smallest_seqno.min(smallest);
            largest_seqno = largest_seqno.max(largest);
        }
        let has_last = entries > 0 || ranges.is_none();
        if has_last && !is_bound(&last, file.largest.as_bytes(), Ordering::Greater) {
            return Err(wrong("the last entry is not the largest key that the MANIFEST states"));
        }
        // With timestamps, the range may say nothing.
        let is_unstated = family.timestamps.is_some() && file.largest_seqno == 0;
        if is_unstated {
            (smallest_seqno, largest_seqno) = (0, 0);
        }
        if smallest_seqno != file.smallest_seqno || largest_seqno != file.largest_seqno {
            return Err(wrong("sequence numbers differ from the range that the MANIFEST states"));
        }
        if largest_seqno > visible {
            return Err(wrong("an entry is newer than anything that was written"));
        }
        let length = self.env.file_len(&path).map_err(|error| Error::io("stat", &path, error))?;
        if length != file.file_size {
            return Err(wrong("the length is not what the MANIFEST states"));
        }
        self.verify_file_checksum(file)?;
        Ok(entries + ranges.map_or(0, |ranges| ranges.num_tombstones() as u64))
    }
}

/// Level 0: newest first, and sequence ranges that do not nest. Other levels: ascending and disjoint in user keys.
fn check_level_order(version: &Version, family: &Family, level: usize) -> Result<()> {
    for pair in version.files(level).windows(2) {
        let [first, second] = pair else { continue };
        let ordered = if level == 0 {
            family.timestamps.is_some() || first.smallest_seqno > second.largest_seqno
        } else {
            first.ends_before(&family.comparator, second.smallest.user_key())
        };
        if !ordered {
            let (first, second) = (first.number, second.number);
            return Err(Error::corrupt(format!("tables {first} and {second} of level {level} overlap")));
        }
    }
    Ok(())
}
