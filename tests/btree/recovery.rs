//! What recovery does with pages: which copies it puts back, and how it stores what it writes.

#![expect(clippy::unwrap_used, reason = "a test")]

use crate::support::{Draw, Life, State, key, new_disk, options, read_all};
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::plant::{PlantedBug, with_planted};
use siltstone_btree::{Counter, DbOptions, Durability, ErrorKind, PageCompression};
use std::path::Path;

/// A database of which every page was written several times, and copies of many rounds are in the doublewrite file.
fn many_rounds(is_closed: bool) -> (SimDisk, State, DbOptions) {
    // Two files would hold the newest copies of nearly all pages, and no older ones alone.
    let options = options(Durability::Os).redo_capacity_bytes(1 << 20).page_cleaners(1);
    let disk = new_disk();
    let life = Life::new(&disk, &options);
    let db = life.open().unwrap();
    let mut draw = Draw(7);
    for round in 0..30_u8 {
        for _ in 0..3 + draw.below(12) {
            db.put(key(draw.below(60)), [round; 60]).unwrap();
        }
        db.flush().unwrap();
    }
    let rows = read_all(&db).unwrap();
    if is_closed {
        db.close().unwrap();
    }
    let left = disk.after_process_death();
    disk.power_off();
    drop(db);
    life.executor.abandon_all();
    (left, rows, options)
}

/// One bit of each page in turn rots. Returns how many of them show, and how often other rows were read than were written.
fn rot(is_closed: bool) -> (usize, usize) {
    let (disk, rows, options) = many_rounds(is_closed);
    let path = Path::new("/db/000001.pages");
    let pages = disk.env().file_len(path).unwrap() / 512;
    let (mut seen, mut wrong) = (0, 0);
    for page in 0..pages {
        let damaged = disk.after_process_death();
        damaged.flip(path, page * 512 + 200, 4).unwrap();
        match Life::new(&damaged, &options).open().and_then(|db| read_all(&db)) {
            Ok(found) if found == rows => {}
            Ok(_) => wrong += 1,
            Err(error) => {
                assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(path)), "page {page}: {error}");
                seen += 1;
            }
        }
    }
    (seen, wrong)
}

#[test]
fn a_page_that_rots_is_reported_and_not_replaced_by_what_it_once_was() {
    for is_closed in [false, true] {
        let (seen, wrong) = rot(is_closed);
        assert_eq!(wrong, 0, "closed: {is_closed}");
        assert!(seen > 10, "closed: {is_closed}: {seen}");
    }
    let (_, wrong) = with_planted(PlantedBug::OldCopyIsPutBack, || rot(false));
    assert!(wrong > 0, "old copies were there to be put back");
}

fn compressed() -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .page_size(8 << 10)
        .buffer_pool_bytes(64 * (8 << 10))
        .redo_capacity_bytes(16 << 20)
        .durability(Durability::Os)
        .page_compression(PageCompression::Lz4)
}

#[test]
fn recovery_of_a_compressed_tree_needs_no_more_room_than_the_tree() {
    let disk = new_disk();
    let options = compressed();
    let life = Life::new(&disk, &options);
    let db = life.open().unwrap();
    let other = db.create_tree("other").unwrap();
    for number in 0..9_000 {
        let (tree, row) = if number % 3 == 0 { (&other, number) } else { (&db.default_tree(), number * 7 % 9_000) };
        db.put_in(tree, key(row), vec![row as u8; 150]).unwrap();
    }
    let rows = read_all(&db).unwrap();
    assert_eq!(db.metrics().get(Counter::Checkpoints), 1, "all is in the log");
    let left = disk.after_process_death();
    disk.power_off();
    drop(db);
    life.executor.abandon_all();
    let trees = ["/db/000001.pages", "/db/000004.pages"].map(Path::new);
    let allocated = || trees.map(|path| left.env().allocated_bytes(path).unwrap());
    let before = allocated();
    let db = Life::new(&left, &options).open().unwrap();
    let (written, compressed) = (db.metrics().get(Counter::PagesWritten), db.metrics().get(Counter::PagesCompressed));
    assert!(written > 100, "recovery had to write pages: {written}");
    assert!(compressed * 10 >= written * 9, "{compressed} of {written} pages were compressed");
    let after = allocated();
    for (before, after) in before.into_iter().zip(after) {
        assert!(after <= before + before / 8 + (64 << 10), "{before} bytes became {after}");
    }
    assert_eq!(read_all(&db).unwrap(), rows);
    db.check().unwrap();
}

#[test]
fn blocks_that_the_file_system_keeps_cost_space_and_nothing_else() {
    let disk = new_disk();
    let options = compressed();
    let life = Life::new(&disk, &options);
    let db = life.open().unwrap();
    for number in 0..500 {
        db.put(key(number), vec![number as u8; 150]).unwrap();
    }
    disk.start_recording();
    let filter = OpFilter { class: Some(OpClass::Resize), ..OpFilter::default() };
    disk.set_fault(FaultPlan { times: u64::MAX, filter, ..FaultPlan::once(FaultKind::Io, 0) });
    db.flush().unwrap();
    let kept = db.metrics().get(Counter::BlocksKept);
    assert!(kept >= 8 && kept == db.metrics().get(Counter::PagesCompressed), "{kept}");
    disk.clear_fault();
    let rows = read_all(&db).unwrap();
    db.close().unwrap();
    let db = Life::new(&disk, &options).open().unwrap();
    assert_eq!(read_all(&db).unwrap(), rows);
    db.check().unwrap();
}
