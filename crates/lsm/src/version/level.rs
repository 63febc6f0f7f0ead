//! One level of a version: its tables, in the order in which they are searched.

use crate::file_meta::FileMeta;
use crate::key::{InternalKeyComparator, TRAILER_LEN, head_of, user_key};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering as AtomicOrdering};
use std::cmp::Ordering;
use std::ops::Range;

/// The tables of one level. Level 0: newest first, ranges may overlap. Below: ascending and disjoint.
///
/// Invariant: what this type is built from was checked by the version builder.
#[derive(Debug)]
pub(crate) struct Level {
    files: Arc<[Arc<FileMeta>]>,
    /// Bytes of the tables up to each, itself included.
    bytes_up_to: Vec<u64>,
    /// Present for orders of plain bytes only.
    fences: Option<Fences>,
    /// So many of the first tables are known to have no range tombstones.
    without_ranges: AtomicUsize,
}

/// Heads of the boundary keys, one array a side, so that most searches stay within a few cache lines.
///
/// All user keys between the smallest and the largest boundary of the level begin with `shared`; a head is the eight bytes
/// behind it, as a number that orders as the bytes do, padded with zeros. Equal heads say nothing: the keys decide.
#[derive(Debug)]
struct Fences {
    shared: Vec<u8>,
    smallest: Vec<u64>,
    largest: Vec<u64>,
}

/// Where a key lies relative to what all boundary keys share.
enum Head {
    Below,
    Within(u64),
    Above,
}

impl Fences {
    fn new(files: &[Arc<FileMeta>]) -> Option<Self> {
        let mut bounds = files.iter().flat_map(|file| [file.smallest.user_key(), file.largest.user_key()]);
        let first = bounds.next()?;
        let shared = bounds.fold(first, |shared, key| {
            let len = shared.iter().zip(key).take_while(|(a, b)| a == b).count();
            &shared[..len]
        });
        let head = |key: &[u8]| head_of(&key[shared.len()..]);
        let smallest = files.iter().map(|file| head(file.smallest.user_key())).collect();
        let largest = files.iter().map(|file| head(file.largest.user_key())).collect();
        Some(Self { shared: shared.to_vec(), smallest, largest })
    }

    #[inline]
    fn head_of(&self, key: &[u8]) -> Head {
        match key.split_at_checked(self.shared.len()) {
            Some((front, rest)) => match front.cmp(&self.shared) {
                Ordering::Less => Head::Below,
                Ordering::Equal => Head::Within(head_of(rest)),
                Ordering::Greater => Head::Above,
            },
            None if *key < *self.shared => Head::Below,
            None => Head::Above,
        }
    }
}

impl Default for Level {
    fn default() -> Self {
        Self { files: Arc::from([]), bytes_up_to: Vec::new(), fences: None, without_ranges: AtomicUsize::new(0) }
    }
}

impl Level {
    /// A level of `files`, which are in its order.
    pub(crate) fn new(files: Vec<Arc<FileMeta>>, comparator: &InternalKeyComparator) -> Self {
        let mut total_bytes = 0_u64;
        let bytes_up_to = files.iter().map(|file| {
            total_bytes = total_bytes.saturating_add(file.file_size);
            total_bytes
        });
        let bytes_up_to = bytes_up_to.collect();
        let fences = if comparator.user().is_bytewise() { Fences::new(&files) } else { None };
        Self { files: files.into(), bytes_up_to, fences, without_ranges: AtomicUsize::new(0) }
    }

    /// The tables, in the order of the level.
    pub(crate) fn files(&self) -> &[Arc<FileMeta>] {
        &self.files
    }

    /// The same, to share: a walk over a level costs no more than one reference.
    pub(crate) fn shared_files(&self) -> Arc<[Arc<FileMeta>]> {
        Arc::clone(&self.files)
    }

    /// Bytes of all tables.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.bytes_up_to.last().copied().unwrap_or(0)
    }

    /// Bytes of the tables with these indexes.
    pub(crate) fn bytes_of(&self, range: Range<usize>) -> u64 {
        let up_to = |index: usize| index.checked_sub(1).and_then(|last| self.bytes_up_to.get(last)).copied();
        match range.is_empty() {
            true => 0,
            false => up_to(range.end).unwrap_or(self.total_bytes()) - up_to(range.start).unwrap_or(0),
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether some table may have range tombstones: false only if that is known of all. What is known already is not asked again.
    #[inline]
    pub(crate) fn may_have_ranges(&self) -> bool {
        let known = self.without_ranges.load(AtomicOrdering::Relaxed);
        known < self.files.len() && self.count_without_ranges(known) < self.files.len()
    }

    #[cold]
    fn count_without_ranges(&self, known: usize) -> usize {
        let more = self.files[known..].iter().take_while(|file| !file.may_have_ranges()).count();
        self.without_ranges.store(known + more, AtomicOrdering::Relaxed);
        known + more
    }

    /// Whether the range of user keys of table `index` includes `key`. For tables that overlap.
    #[inline]
    pub(crate) fn covers(&self, comparator: &InternalKeyComparator, index: usize, key: &[u8]) -> bool {
        if let Some(fences) = &self.fences {
            match fences.head_of(key) {
                Head::Within(head) => {
                    let (smallest, largest) = (fences.smallest[index], fences.largest[index]);
                    if head < smallest || head > largest {
                        return false;
                    }
                    if head > smallest && head < largest {
                        return true;
                    }
                }
                Head::Below | Head::Above => return false,
            }
        }
        let file = &self.files[index];
        comparator.compare_user(key, file.smallest.user_key()).is_ge()
            && comparator.compare_user(key, file.largest.user_key()).is_le()
    }

    /// The one table that may hold the newest entry at or after `internal_key` of the same user key. For disjoint tables.
    #[inline]
    pub(crate) fn find(&self, comparator: &InternalKeyComparator, internal_key: &[u8]) -> Option<&Arc<FileMeta>> {
        let index = self.first_ending_at_or_after(comparator, internal_key);
        let file = self.files.get(index)?;
        let key = user_key(internal_key);
        if let Some(fences) = &self.fences
            && let Head::Within(head) = fences.head_of(key)
            && head != fences.smallest[index]
        {
            return (head > fences.smallest[index]).then_some(file);
        }
        comparator.compare_user(file.smallest.user_key(), key).is_le().then_some(file)
    }

    /// Index of the first table whose largest internal key is at or after `internal_key`; the number of tables if there is
    /// none. For disjoint tables.
    #[inline]
    pub(crate) fn first_ending_at_or_after(&self, comparator: &InternalKeyComparator, internal_key: &[u8]) -> usize {
        debug_assert!(internal_key.len() >= TRAILER_LEN, "an internal key");
        let among = match &self.fences {
            None => 0..self.files.len(),
            Some(fences) => match fences.head_of(user_key(internal_key)) {
                Head::Below => return 0,
                Head::Above => return self.files.len(),
                Head::Within(head) => {
                    let start = fences.largest.partition_point(|largest| *largest < head);
                    // Tables whose head ties, and the first one beyond them, are told apart by their keys.
                    let ties = fences.largest[start..].iter().take_while(|largest| **largest == head).count();
                    start..start + ties
                }
            },
        };
        let ends_before = |file: &Arc<FileMeta>| comparator.compare(file.largest.as_bytes(), internal_key).is_lt();
        among.start + self.files[among].partition_point(ends_before)
    }

    /// The indexes of the tables whose range of user keys meets `smallest..=largest`; `None` is no bound. For disjoint
    /// tables, where they are neighbours.
    pub(crate) fn overlapping_range(
        &self,
        comparator: &InternalKeyComparator,
        smallest: Option<&[u8]>,
        largest: Option<&[u8]>,
    ) -> Range<usize> {
        let start =
            smallest.map_or(0, |smallest| self.files.partition_point(|file| file.ends_before(comparator, smallest)));
        let end = largest.map_or(self.files.len(), |largest| {
            self.files.partition_point(|file| comparator.compare_user(file.smallest.user_key(), largest).is_le())
        });
        start..end.max(start)
    }
}
