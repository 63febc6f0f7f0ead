//! Sets of pages of one mapping.

use std::ops::Range;

/// A set of pages, by number.
pub(super) struct PageSet {
    words: Box<[u64]>,
    pages: usize,
    len: usize,
}

impl PageSet {
    /// None of so many pages.
    pub(super) fn none_of(pages: usize) -> Self {
        Self { words: vec![0; pages.div_ceil(64)].into_boxed_slice(), pages, len: 0 }
    }

    /// How many it has.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether it has all.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == self.pages
    }

    pub(super) fn contains(&self, page: usize) -> bool {
        self.words.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Adds pages; there are none beyond its own.
    #[inline]
    pub(super) fn insert(&mut self, pages: Range<usize>) {
        for page in pages.start..pages.end.min(self.pages) {
            if let Some(word) = self.words.get_mut(page / 64) {
                let bit = 1 << (page % 64);
                self.len += usize::from(*word & bit == 0);
                *word |= bit;
            }
        }
    }

    pub(super) fn remove(&mut self, pages: Range<usize>) {
        for page in pages {
            if let Some(word) = self.words.get_mut(page / 64) {
                let bit = 1 << (page % 64);
                self.len -= usize::from(*word & bit != 0);
                *word &= !bit;
            }
        }
    }

    /// The runs of its pages that `others` does not have, from page `from` on: the first one.
    pub(super) fn next_run_beside(&self, others: &Self, from: usize) -> Option<Range<usize>> {
        let is_of_run = |page: &usize| self.contains(*page) && !others.contains(*page);
        let start = (from..self.pages).find(is_of_run)?;
        let end = (start..self.pages).find(|page| !is_of_run(page)).unwrap_or(self.pages);
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_one_set_has_and_the_other_has_not() {
        let (mut resident, mut needed) = (PageSet::none_of(130), PageSet::none_of(130));
        resident.insert(2..70);
        resident.insert(60..130);
        needed.insert(0..3);
        needed.insert(63..65);
        needed.insert(129..200);
        assert_eq!((resident.len(), needed.len(), needed.is_full()), (128, 6, false));
        let mut runs = Vec::new();
        let mut from = 0;
        while let Some(run) = resident.next_run_beside(&needed, from) {
            from = run.end;
            runs.push(run);
        }
        assert_eq!(runs, [3..63, 65..129]);
        for run in runs {
            resident.remove(run.clone());
            resident.remove(run);
        }
        assert_eq!(resident.len(), 4);
        resident.insert(0..130);
        assert!(resident.is_full() && resident.contains(129) && !resident.contains(130));
    }
}
