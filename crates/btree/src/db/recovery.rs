//! Recovery: torn pages are restored, then every closed group that the pages lack is applied.
//!
//! 1. Torn pages come back from the doublewrite file.
//! 2. The log is read once to find its end, which tablespaces went, and whether it needs a page that is torn and of which doublewrite kept its name only.
//! 3. The log is written once more, and made durable up to there: what is shown from now on stays.
//! 4. The log is read again; each change is made on its page, unless the page has it. The page is dirty either way.
//! 5. A new checkpoint, at the same place, tells the records of this life from those that the last one left.

use crate::buffer::{ExclusiveGuard, Pool};
use crate::page::{self, Change, Lsn, PageId};
use crate::redo::{Checkpoint, Entries, Entry, Group, GroupEnd, RedoFiles, RedoReader};
use crate::space::{SpaceHeader, Spaces};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::env::{DIRECT_ALIGNMENT, IoPriority};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};

/// What the first reading of the log finds.
#[derive(Debug)]
pub(super) struct Survey {
    /// Where the log ends.
    pub(super) end: GroupEnd,
    /// Tablespaces that went, and where the log says so last.
    pub(super) dropped: BTreeMap<u32, Lsn>,
    /// A page of those that may be torn which the log changes, and not first as a whole.
    pub(super) torn: Option<PageId>,
}

/// What page 0 of a tablespace says as it is stored, if it can be read.
pub(super) fn stored_front(spaces: &Spaces, space: u32) -> Result<Option<SpaceHeader>> {
    let id = PageId::new(space, 0);
    let mut page = BlockPool::new(0).alloc_aligned(spaces.page_len(), DIRECT_ALIGNMENT);
    spaces.read(id, &mut page, IoPriority::User)?;
    if page::verify(&page, id).is_err() {
        return Ok(None);
    }
    if !page::is_compressed(&page) {
        return Ok(SpaceHeader::read(&page[..]).ok());
    }
    let mut plain = vec![0; spaces.page_len()];
    let is_whole = page::decompress(&page, &mut plain).is_ok();
    Ok(SpaceHeader::read(plain.as_slice()).ok().filter(|_| is_whole))
}

fn damaged(files: &RedoFiles, lsn: Lsn, what: &'static str) -> Error {
    Error::corruption(files.path(), lsn, what)
}

/// Reads the log for the first time. `damaged_pages` are those that a crash may have torn: it did if it found them being written, and then the log changes them behind the checkpoint.
pub(super) fn survey(files: &RedoFiles, checkpoint: Checkpoint, damaged_pages: &BTreeSet<PageId>) -> Result<Survey> {
    let mut reader = RedoReader::new(files, checkpoint);
    let mut dropped = BTreeMap::new();
    let mut needed: BTreeMap<PageId, bool> = BTreeMap::new();
    while let Some(group) = reader.next_group()? {
        for (lsn, _, entries) in &group.records {
            for entry in Entries(entries) {
                match entry.map_err(|what| damaged(files, *lsn, what))? {
                    Entry::Drop(space) => {
                        dropped.insert(space, *lsn);
                        needed.retain(|id, _| id.space != space);
                    }
                    Entry::Change(id, change) if damaged_pages.contains(&id) => {
                        needed.entry(id).or_insert(!change.is_whole());
                    }
                    Entry::Change(..) => {}
                }
            }
        }
    }
    let torn = needed.into_iter().find_map(|(id, is_needed)| is_needed.then_some(id));
    Ok(Survey { end: reader.end(), dropped, torn })
}

/// Applies the log to the pages.
pub(super) fn apply(pool: &Pool, spaces: &Spaces, checkpoint: Checkpoint, survey: &Survey) -> Result<u64> {
    let mut reader = RedoReader::new(pool.redo.files(), checkpoint);
    let mut applied = 0;
    while let Some(group) = reader.next_group()? {
        applied += apply_group(pool, spaces, survey, &group)?;
    }
    Ok(applied)
}

fn apply_group(pool: &Pool, spaces: &Spaces, survey: &Survey, group: &Group) -> Result<u64> {
    let mut applied = 0;
    for (start, end, entries) in &group.records {
        // A page may change several times in one record: the first time decides whether it has the record.
        let mut touched = BTreeSet::new();
        for entry in Entries(entries) {
            let entry = entry.map_err(|what| damaged(pool.redo.files(), *start, what))?;
            let Entry::Change(id, change) = entry else { continue };
            // A crash may have let the number be given once more, to one that came later.
            if survey.dropped.get(&id.space).is_some_and(|dropped| start <= dropped) {
                continue;
            }
            if !spaces.is_open(id.space) {
                let message = format!("{id}: the redo log changes it, but the tablespace is missing");
                return Err(Error::new(ErrorKind::MissingFile, message).with_file(&spaces.path(id.space)));
            }
            let mut page = page_for(pool, id, &change, || pages_of(pool, id.space, entries))?;
            // Also a page that has the change: if a sync failed what it shows need not be durable, and no later sync makes it so.
            pool.mark_dirty(&page, *start);
            if page.lsn() >= *end && !touched.contains(&id) {
                continue;
            }
            touched.insert(id);
            if change.apply(&mut page).is_err() {
                return Err(spaces.corruption(id, "a change in the redo log does not fit the page"));
            }
            page.set_lsn(*end);
            if id.number == 0
                && let Ok(front) = SpaceHeader::read(&page)
            {
                spaces.set_compression(id.space, front.compression);
            }
            applied += 1;
        }
    }
    Ok(applied)
}

/// A page that a record changes. One that becomes something as a whole need not have been anything before, but its tablespace must have it: `pages` says how many there are.
fn page_for<'a>(
    pool: &'a Pool,
    id: PageId,
    change: &Change<'_>,
    pages: impl FnOnce() -> Result<u32>,
) -> Result<ExclusiveGuard<'a>> {
    match pool.exclusive(id) {
        Err(error) if change.is_whole() && error.kind() == ErrorKind::Corruption => {
            // A bitmap comes with the first of its pages, and is counted with the second.
            if id.number > pages()? {
                return Err(pool
                    .spaces
                    .corruption(id, "the redo log changes a page that the tablespace does not have"));
            }
            pool.create(id)
        }
        page => page,
    }
}

/// How many pages a tablespace has when a record counts: page 0 says so, unless the record changes that.
fn pages_of(pool: &Pool, space: u32, entries: &[u8]) -> Result<u32> {
    let front = PageId::new(space, 0);
    let said = Entries(entries).filter_map(|entry| match entry {
        Ok(Entry::Change(id, change)) if id == front => SpaceHeader::pages_in(&change),
        _ => None,
    });
    if let Some(pages) = said.last() {
        return Ok(pages);
    }
    let page = pool.shared(front)?;
    let header = SpaceHeader::read(page.bytes());
    header.map(|header| header.pages).map_err(|what| pool.spaces.corruption(front, what))
}
