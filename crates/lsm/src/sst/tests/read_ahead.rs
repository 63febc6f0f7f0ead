//! What a walk asks of a file: each byte once, and of a direct file the next window while it decodes the one before.

use super::super::test_util::{MemoryFile, build, builder_options, reader_options};
use crate::iterator::InternalIterator;
use crate::key::{InternalKey, ValueType};
use crate::options::{CompressionType, ReadOptions, TableOptions};
use crate::sst::{TableIter, TableReadOptions, TableReader, WalkBounds, WalkShare};
use siltstone_base::env::{IoContext, RandomFile};
use siltstone_base::sync::{Arc, Mutex, Rank};

/// What was asked of a file: where, and how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Read(u64, u64),
    WillNeed(u64, u64),
    Forget(u64),
}

#[derive(Debug)]
struct Asked {
    file: MemoryFile,
    is_direct: bool,
    calls: Mutex<Vec<Call>>,
}

impl RandomFile for Asked {
    fn read_at(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> std::io::Result<usize> {
        self.calls.lock().push(Call::Read(offset, buffer.len() as u64));
        self.file.read_at(offset, buffer, context)
    }

    fn len(&self) -> std::io::Result<u64> {
        RandomFile::len(&self.file)
    }

    fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.calls.lock().push(Call::WillNeed(offset, len));
    }

    fn forget(&self, offset: u64) {
        self.calls.lock().push(Call::Forget(offset));
    }
}

const ROWS: u64 = 4000;

/// A table of some hundred kilobytes, in blocks of odd lengths.
fn table(is_direct: bool) -> (Arc<Asked>, Arc<TableReader>) {
    table_of_blocks(is_direct, 3000)
}

fn table_of_blocks(is_direct: bool, block_size: usize) -> (Arc<Asked>, Arc<TableReader>) {
    let rows = (0..ROWS).map(|number| {
        let key = InternalKey::new(format!("key{number:05}").as_bytes(), 1 + number, ValueType::Put);
        (key.as_bytes().to_vec(), vec![number as u8; 60 + number as usize % 90])
    });
    let options = builder_options(TableOptions::default().block_size(block_size), CompressionType::None);
    let (bytes, _) = build(options, rows).unwrap();
    let len = bytes.len() as u64;
    let calls = Mutex::new(Rank(u16::MAX), Vec::new());
    let file = Arc::new(Asked { file: MemoryFile::new(bytes), is_direct, calls });
    let opened = Arc::<Asked>::clone(&file);
    let reader = TableReader::open(opened, "000009.sst".into(), len, &reader_options()).map(Arc::new).unwrap();
    file.calls.lock().clear();
    (file, reader)
}

fn walk(mut iter: TableIter, rows: u64) {
    iter.seek_to_first();
    for number in 0..rows {
        assert_eq!(iter.value(), vec![number as u8; 60 + number as usize % 90]);
        iter.next();
    }
    iter.status().unwrap();
}

#[test]
fn a_compaction_reads_each_byte_once() {
    for (is_direct, size) in [(false, 20_000), (true, 20_000), (true, 32_768), (true, 4096), (false, 4096)] {
        let (file, reader) = table(is_direct);
        walk(TableIter::for_compaction(reader, TableReadOptions::default(), size), ROWS);
        let calls = file.calls.lock().clone();
        let reads = calls.iter().filter_map(|call| match call {
            Call::Read(offset, len) => Some((*offset, *len)),
            _ => None,
        });
        let mut end = 0;
        for (offset, len) in reads {
            assert_eq!(offset, end, "windows of {size}: {calls:?}");
            end = offset + len;
        }
        assert!(end > ROWS * 60, "{end} bytes in windows of {size}");
    }
}

#[test]
fn what_is_asked_for_in_advance_is_what_is_read_next() {
    for size in [20_000, 32_768, 4096] {
        let (file, reader) = table(true);
        let iter = TableIter::for_compaction(reader, TableReadOptions::default(), size);
        walk(iter, ROWS);
        let calls = file.calls.lock().clone();
        let len = RandomFile::len(&*file).unwrap();
        assert!(!calls.iter().any(|call| matches!(call, Call::Forget(_))), "asked for in vain: {calls:?}");
        assert!(matches!(calls.last(), Some(Call::Read(..))), "what lies behind the data is not asked for: {calls:?}");
        let asked = calls.windows(2).filter_map(|pair| match *pair {
            [Call::WillNeed(from, wanted), Call::Read(offset, read)] => Some(((from, wanted), (offset, read))),
            _ => None,
        });
        let asked: Vec<_> = asked.collect();
        assert!(asked.len() > 3, "{calls:?}");
        for ((from, wanted), (offset, read)) in asked {
            assert_eq!((from, wanted.min(len - from)), (offset, read), "windows of {size}");
        }
    }
}

#[test]
fn a_walk_that_ends_early_takes_back_what_it_asked_for() {
    let (file, reader) = table(true);
    walk(TableIter::for_compaction(Arc::clone(&reader), TableReadOptions::default(), 20_000), 500);
    let calls = file.calls.lock().clone();
    let asked = calls.iter().rev().find_map(|call| match call {
        Call::WillNeed(from, _) => Some(*from),
        _ => None,
    });
    assert_eq!(calls.last().copied(), asked.map(Call::Forget), "{calls:?}");
}

/// Nobody knows how far a user goes: what is read of a direct file in vain takes the device's time from others.
#[test]
fn a_short_walk_of_a_user_asks_for_nothing_in_advance_of_a_direct_file() {
    let will_need = |is_direct, rows| {
        let (file, reader) = table(is_direct);
        walk(TableIter::new(reader, TableReadOptions::default(), 0), rows);
        let calls = file.calls.lock();
        calls.iter().filter(|call| matches!(call, Call::WillNeed(..))).count()
    };
    assert_eq!(will_need(true, 1000), 0);
    assert!(will_need(false, 1000) > 0);
}

#[test]
fn large_blocks_are_asked_for_once_or_not_at_all() {
    for size in [200_000, 120_000, 50_000] {
        let (file, reader) = table_of_blocks(true, 100_000);
        walk(TableIter::for_compaction(reader, TableReadOptions::default(), size), ROWS);
        let calls = file.calls.lock().clone();
        assert!(!calls.iter().any(|call| matches!(call, Call::Forget(_))), "windows of {size}: {calls:?}");
    }
}

/// Each seek would read a window in vain.
#[test]
fn seeks_and_walks_backward_ask_for_nothing_in_advance_of_a_direct_file() {
    let (file, reader) = table(true);
    let mut iter = TableIter::new(reader, TableReadOptions::default(), 20_000);
    for number in [3000, 10, 2500, 700, 3900, 1] {
        let key = InternalKey::new(format!("key{number:05}").as_bytes(), u64::MAX >> 8, ValueType::Put);
        iter.seek(key.as_bytes());
        assert_eq!(iter.value(), vec![number as u8; 60 + number as usize % 90]);
    }
    iter.seek_to_last();
    while iter.valid() {
        iter.prev();
    }
    let calls = file.calls.lock().clone();
    assert!(!calls.iter().any(|call| matches!(call, Call::WillNeed(..))), "{calls:?}");
}

/// Blocks of 3,000 bytes, from one key to another; where the walk ends is told by its bound, or not.
fn reads_of(iter: &mut TableIter, file: &Asked, (from, to): (u64, u64), bound: Option<u64>) -> Vec<(u64, u64)> {
    let key = |number: u64| format!("key{number:05}").into_bytes();
    let upper = bound.map(key);
    iter.set_bounds(WalkBounds::of(&ReadOptions::default().iterate_upper_bound(upper)));
    file.calls.lock().clear();
    iter.seek(InternalKey::new(&key(from), u64::MAX >> 8, ValueType::Put).as_bytes());
    for number in from..to {
        assert_eq!(iter.value(), vec![number as u8; 60 + number as usize % 90]);
        iter.next();
    }
    let calls = file.calls.lock();
    calls
        .iter()
        .filter_map(|call| if let Call::Read(offset, len) = call { Some((*offset, *len)) } else { None })
        .collect()
}

#[test]
fn a_walk_whose_end_is_near_reads_all_of_it_at_once() {
    for is_direct in [false, true] {
        let reads = |bound| {
            let (file, reader) = table(is_direct);
            reads_of(&mut TableIter::new(reader, TableReadOptions::default(), 0), &file, (1000, 1150), bound)
        };
        let (bounded, unbounded) = (reads(Some(1150)), reads(None));
        assert_eq!(bounded.len(), 1, "{bounded:?}");
        assert!(unbounded.len() > 2 && unbounded[0].1 < 10_000, "{unbounded:?}");
        // Its rows, what else is in their first and last blocks, and what is in front of and behind these in pages of the device.
        assert!((150 * 110..150 * 110 + 2 * 3_500 + 2 * 4_096).contains(&bounded[0].1), "{bounded:?}");
        // Far away: nobody knows that the walk goes so far.
        assert_eq!(reads(Some(3900)), unbounded);
    }
}

#[test]
fn a_walk_that_needs_so_many_entries_reads_about_as_many_at_once() {
    for is_direct in [false, true] {
        let reads = |expected_entries, bound| {
            let (file, reader) = table(is_direct);
            let read = TableReadOptions { expected_entries, ..TableReadOptions::default() };
            reads_of(&mut TableIter::new(reader, read, 0), &file, (1000, 1150), bound)
        };
        let expected = reads(150, None);
        assert!(expected.len() <= 2, "{expected:?}");
        assert!((120 * 110..150 * 110 + 2 * 3_500 + 2 * 4_096).contains(&expected[0].1), "{expected:?}");
        // More than one read is to take at once.
        let many = reads(3_000, None);
        assert!(many.len() == 1 && (50_000..=(64 << 10) + 2 * 4_096).contains(&many[0].1), "{many:?}");
        // The walk ends before.
        assert_eq!(reads(3_000, Some(1150)), reads(0, Some(1150)));
        // A few, and it goes further: its block alone, and then as much again as it needed.
        let (few, unknown) = (reads(1, None), reads(0, None));
        assert!(few.len() <= unknown.len() && few[0] == unknown[0], "{few:?} {unknown:?}");
        let bytes = |reads: &[(u64, u64)]| reads.iter().map(|(_, len)| len).sum::<u64>();
        assert!(bytes(&few) < 2 * 150 * 110, "{few:?}");
    }
}

/// A quarter of the entries.
#[derive(Debug)]
struct Quarter;

impl WalkShare for Quarter {
    fn get(&self) -> f64 {
        0.25
    }
}

#[test]
fn a_walk_whose_entries_are_in_several_tables_reads_its_part_of_each() {
    let reads = |expected_entries, share: Option<Box<dyn WalkShare>>| {
        let (file, reader) = table(true);
        let read = TableReadOptions { expected_entries, ..TableReadOptions::default() };
        let mut iter = TableIter::new(reader, read, 0);
        iter.set_share(share);
        reads_of(&mut iter, &file, (1000, 1150), None)
    };
    assert_eq!(reads(600, Some(Box::new(Quarter))), reads(150, None));
}

/// It is read as one of which nothing is known, from the first block on.
#[test]
fn a_long_walk_whose_length_is_known_reads_no_less_at_a_time() {
    let reads = |expected_entries| {
        let (file, reader) = table(true);
        let read = TableReadOptions { expected_entries, ..TableReadOptions::default() };
        walk(TableIter::new(reader, read, 0), ROWS);
        let calls = file.calls.lock();
        calls
            .iter()
            .filter_map(|call| if let Call::Read(_, len) = call { Some(*len) } else { None })
            .collect::<Vec<_>>()
    };
    for expected in [ROWS as usize, usize::MAX] {
        let (known, unknown) = (reads(expected), reads(0));
        assert!(known.len() + 2 < unknown.len(), "{known:?} {unknown:?}");
        assert!(known[0] >= 64 << 10 && known.iter().max() >= unknown.iter().max(), "{known:?} {unknown:?}");
    }
}

#[test]
fn what_is_cached_at_the_end_of_a_bounded_walk_is_not_read_again() {
    let (file, reader) = table(true);
    let mut iter = TableIter::new(reader, TableReadOptions::default(), 0);
    assert_eq!(reads_of(&mut iter, &file, (1100, 1150), Some(1150)).len(), 1);
    let all = reads_of(&mut iter, &file, (1000, 1150), Some(1150));
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].1 < 100 * 110 + 2 * 3_500 + 2 * 4_096, "{all:?}");
    assert_eq!(reads_of(&mut iter, &file, (1000, 1150), Some(1150)), []);
}

#[test]
fn a_walk_backward_reads_nothing_behind_it() {
    let (file, reader) = table(true);
    let mut iter = TableIter::new(reader, TableReadOptions::default(), 0);
    iter.set_bounds(WalkBounds::of(&ReadOptions::default().iterate_upper_bound(Some(b"key01150".to_vec()))));
    iter.seek_for_prev(InternalKey::new(b"key01000", 0, ValueType::Put).as_bytes());
    for number in (900..=1000_u64).rev() {
        assert_eq!(iter.value(), vec![number as u8; 60 + number as usize % 90]);
        iter.prev();
    }
    let calls = file.calls.lock().clone();
    assert!(calls.iter().all(|call| matches!(call, Call::Read(_, len) if *len <= 4_096)), "{calls:?}");
}
