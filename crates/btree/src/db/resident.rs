//! The resident set: which pages were in the pool, kept in a file, so that the next life of the database begins with them. `docs/src/formats/resident.md` has the bytes.
//!
//! It is a hint. A file that is missing, damaged, old or of another database costs nothing but the reads that it would have saved.

use super::state::State;
use super::steps::WeakState;
use crate::metrics::Counter;
use crate::page::{PageId, PageMut, PageRead, u32_at};
use siltstone_base::checksum::xxh3_64;
use siltstone_base::env::{FileKind, read_file, write_file_atomically};
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, Result};
use std::time::Duration;

const NAME: &str = "RESIDENT";
const TEMPORARY: &str = "RESIDENT.tmp";
const MAGIC: u64 = u64::from_le_bytes(*b"SiltPool");
const VERSION: u64 = 1;

/// Bytes before the names of pages, and of each.
const HEADER_LEN: usize = 32;
const ENTRY_LEN: usize = 8;

/// The longest file that is read: the pages of a pool of 256 GiB.
const LONGEST: u64 = 128 << 20;

/// Pages that one step asks for.
const STEP_PAGES: u32 = 16;

/// The file of these pages.
pub(super) fn encode(database: u64, pages: &[PageId]) -> Vec<u8> {
    let mut file = vec![0; HEADER_LEN + pages.len() * ENTRY_LEN + 8];
    let bytes = file.as_mut_slice();
    for (index, word) in [MAGIC, VERSION, database, pages.len() as u64].into_iter().enumerate() {
        bytes.set_word(8 * index, word);
    }
    for (index, id) in pages.iter().enumerate() {
        bytes.set_word(HEADER_LEN + ENTRY_LEN * index, u64::from(id.space) | u64::from(id.number) << 32);
    }
    let end = bytes.len() - 8;
    let sum = xxh3_64(&bytes[..end]);
    bytes.set_word(end, sum);
    file
}

/// The pages of a file, if it is whole and of this database. The most useful ones come first.
pub(super) fn decode(database: u64, file: &[u8]) -> Option<impl Iterator<Item = PageId> + '_> {
    let end = file.len().checked_sub(8).filter(|end| *end >= HEADER_LEN && end % 8 == 0)?;
    if file.word(end) != xxh3_64(&file[..end]) {
        return None;
    }
    let count = ((end - HEADER_LEN) / ENTRY_LEN) as u64;
    if [0, 8, 16, 24].map(|at| file.word(at)) != [MAGIC, VERSION, database, count] {
        return None;
    }
    let entries = file[HEADER_LEN..end].chunks_exact(ENTRY_LEN);
    Some(entries.map(|entry| PageId::new(u32_at(entry, 0), u32_at(entry, 4))))
}

/// Reads pages back, as fast as `io_capacity` says.
#[derive(Debug)]
struct Restore {
    state: WeakState,
    /// In the order of their places.
    pages: Vec<PageId>,
    next: usize,
}

impl State {
    /// Writes the names of the pages that were used last to a file. Returns how many.
    pub(super) fn dump_pool(&self) -> Result<u64> {
        let pages = self.pool.youngest(self.dump_percent);
        let (path, temporary) = (self.dir.join(NAME), self.dir.join(TEMPORARY));
        let file = encode(self.database, &pages);
        let written = write_file_atomically(&*self.env, &path, &temporary, &file, FileKind::Other);
        written.map_err(|error| Error::io("write", &path, error))?;
        Ok(pages.len() as u64)
    }

    /// Begins to read the pages back that the file names, as many as there are frames without pages. Returns how many are wanted.
    pub(super) fn load_pool(self: &Arc<Self>) -> u64 {
        let file = read_file(&*self.env, &self.dir.join(NAME), FileKind::Other, LONGEST).unwrap_or_default();
        let room = self.pool.frames();
        let wanted = |id: &PageId| self.spaces.is_open(id.space);
        let mut pages: Vec<PageId> =
            decode(self.database, &file).into_iter().flatten().filter(wanted).take(room).collect();
        if pages.is_empty() || self.is_restoring.swap(true, Ordering::AcqRel) {
            return 0;
        }
        pages.sort_unstable();
        let count = pages.len() as u64;
        let job = Restore { state: self.weak(), pages, next: 0 };
        self.executor.submit(Priority::Low, Box::new(job));
        count
    }
}

impl Restore {
    /// The next pages that lie side by side.
    fn next_run(&mut self) -> Option<(PageId, u32)> {
        let first = *self.pages.get(self.next)?;
        let rest = &self.pages[self.next..];
        let follows = |(index, id): &(usize, &PageId)| {
            id.space == first.space && u64::from(id.number) == u64::from(first.number) + *index as u64
        };
        let count = rest.iter().take(STEP_PAGES as usize).enumerate().take_while(follows).count();
        self.next += count.max(1);
        Some((first, count.max(1) as u32))
    }
}

impl Job for Restore {
    fn name(&self) -> &'static str {
        "restore of the pool"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(state) = self.state.begin_step() else { return Progress::Done };
        let is_over = state.check_open().is_err() || state.health.error().is_some() || !state.pool.has_free();
        let Some((first, count)) = self.next_run().filter(|_| !is_over) else {
            state.is_restoring.store(false, Ordering::Release);
            state.startup.note_restored(&**state.executor.clock());
            state.room.notify_all();
            return Progress::Done;
        };
        let read = state.pool.read_run(first, count, true);
        state.metrics.add(Counter::PagesRestored, read as u64);
        Progress::After(Duration::from_micros(u64::from(count) * 1_000_000 / state.options.io_capacity.max(1) as u64))
    }

    fn poisoned(&mut self, _: &str) {
        // Nobody needs it.
        if let Some(state) = self.state.begin_step() {
            state.is_restoring.store(false, Ordering::Release);
            state.room.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_whole_names_no_pages() {
        let pages: Vec<PageId> = (0..9).map(|number| PageId::new(number % 3, 100 - number)).collect();
        let file = encode(77, &pages);
        assert_eq!(decode(77, &file).unwrap().collect::<Vec<_>>(), pages);
        assert!(decode(78, &file).is_none(), "of another database");
        assert_eq!(decode(77, &encode(77, &[])).unwrap().count(), 0);
        for len in 0..file.len() {
            assert!(decode(77, &file[..len]).is_none(), "{len}");
        }
        for bit in 0..file.len() * 8 {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(77, &file).is_none(), "bit {bit}");
        }
        // One that sums itself up and counts more than it has.
        let mut forged = file;
        forged.as_mut_slice().set_word(24, u64::MAX);
        let end = forged.len() - 8;
        let sum = xxh3_64(&forged[..end]);
        forged.as_mut_slice().set_word(end, sum);
        assert!(decode(77, &forged).is_none());
    }
}
