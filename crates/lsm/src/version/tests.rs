//! Tests of levels and of the builder.

use super::builder::VersionBuilder;
use super::*;
use crate::file_meta::{FileMetaData, ObsoleteTables};
use crate::file_names::FileName;
use crate::key::{InternalKey, LookupKey, MAX_SEQNO, SEEK_TYPE, ValueType};
use proptest::prelude::*;
use siltstone_base::comparator::{Bytewise, ReverseBytewise};
use siltstone_base::{ErrorKind, Result};

const LEVELS: usize = 4;

/// `[smallest, largest]` of user keys at one sequence number; the epoch is the number.
fn file(number: u64, smallest: &str, largest: &str) -> FileMetaData {
    FileMetaData {
        number,
        file_size: 100,
        smallest: InternalKey::new(smallest.as_bytes(), number, ValueType::Put),
        largest: InternalKey::new(largest.as_bytes(), number, ValueType::Put),
        smallest_seqno: number,
        largest_seqno: number,
        epoch_number: number,
        ..FileMetaData::default()
    }
}

fn bytewise() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(Bytewise))
}

/// What `edits`, each a list of deletions and a list of additions, lead to on top of `base`.
fn build(
    base: Option<&Arc<Version>>,
    deleted: &[(usize, u64)],
    added: &[(usize, FileMetaData)],
) -> Result<builder::BuiltVersion> {
    let mut builder = base.map_or_else(VersionBuilder::new, |base| VersionBuilder::on(Arc::clone(base)));
    builder.apply(deleted, added.iter().cloned())?;
    builder.finish(ColumnFamilyId(0), &bytewise(), LEVELS, &Arc::new(ObsoleteTables::new()))
}

fn numbers(version: &Version, level: usize) -> Vec<u64> {
    version.files(level).iter().map(|file| file.number).collect()
}

fn message(result: Result<builder::BuiltVersion>) -> (ErrorKind, String) {
    let error = result.unwrap_err();
    (error.kind(), error.message().to_owned())
}

fn corrupt(text: &str) -> (ErrorKind, String) {
    (ErrorKind::Corruption, text.to_owned())
}

#[test]
fn files_are_put_in_order() {
    let added = [
        (0, file(4, "a", "z")),
        (0, file(6, "b", "c")),
        (0, file(5, "a", "b")),
        (2, file(2, "m", "p")),
        (2, file(3, "c", "f")),
    ];
    let version = build(None, &[], &added).unwrap().version;
    assert_eq!(numbers(&version, 0), [6, 5, 4]);
    assert_eq!(numbers(&version, 2), [3, 2]);
    assert_eq!((version.all_files().count(), version.total_bytes(), version.level_bytes(2)), (5, 500, 200));
    assert_eq!(version.last_level_with_data(), Some(2));
    assert_eq!(
        version.all_files().map(|(level, file)| (level, file.number)).collect::<Vec<_>>(),
        [(0, 6), (0, 5), (0, 4), (2, 3), (2, 2)]
    );
}

#[test]
fn files_that_stay_are_shared_and_those_that_leave_are_told() {
    let base = build(None, &[], &[(0, file(4, "a", "z")), (1, file(2, "a", "c")), (2, file(3, "a", "f"))]).unwrap();
    let base = Arc::new(base.version);
    let built = build(Some(&base), &[(0, 4), (1, 2)], &[(1, file(9, "a", "z")), (3, file(2, "a", "c"))]).unwrap();
    let version = &built.version;
    assert_eq!((numbers(version, 0), numbers(version, 1)), (vec![], vec![9]));
    assert!(Arc::ptr_eq(&version.levels[2], &base.levels[2]), "an untouched level");
    assert!(Arc::ptr_eq(&version.files(3)[0], &base.files(1)[0]), "a file that moved");
    assert_eq!(built.left.iter().map(|file| file.number).collect::<Vec<_>>(), [4]);
}

#[test]
fn obsolete_files_are_reported_when_the_last_version_is_gone() {
    let queue = Arc::new(ObsoleteTables::new());
    let mut builder = VersionBuilder::new();
    builder.apply(&[], [(1, file(2, "a", "c")), (1, file(3, "d", "f"))]).unwrap();
    let base = Arc::new(builder.finish(ColumnFamilyId(0), &bytewise(), LEVELS, &queue).unwrap().version);
    let built = build(Some(&base), &[(1, 2)], &[]).unwrap();
    for file in &built.left {
        file.mark_obsolete();
    }
    drop(built.left);
    assert_eq!(queue.pop(), None);
    drop(base);
    assert_eq!((queue.pop(), queue.pop()), (Some(FileName::Table(2)), None));
    drop(built.version);
    assert_eq!(queue.pop(), None);
}

#[test]
fn impossible_edits_are_refused() {
    let base = Arc::new(build(None, &[], &[(1, file(2, "a", "c")), (1, file(3, "e", "g"))]).unwrap().version);
    let on_base =
        |deleted: &[(usize, u64)], added: &[(usize, FileMetaData)]| message(build(Some(&base), deleted, added));
    assert_eq!(on_base(&[(2, 2)], &[]), corrupt("file 2 is deleted from level 2, where it is not"));
    assert_eq!(on_base(&[(1, 2), (1, 2)], &[]), corrupt("file 2 is deleted from level 1, where it is not"));
    assert_eq!(on_base(&[], &[(1, file(9, "c", "d"))]).1, "files 2 and 9 on level 1 overlap");
    assert_eq!(on_base(&[], &[(1, file(9, "d", "z"))]).1, "files 9 and 3 on level 1 overlap");
    assert_eq!(on_base(&[], &[(1, file(2, "x", "z"))]), corrupt("file 2 is added to level 1 twice"));
    assert_eq!(on_base(&[], &[(0, file(9, "z", "x"))]), corrupt("file 9 on level 0 ends before it begins"));
    assert_eq!(
        on_base(&[], &[(0, file(9, "a", "b")), (2, file(9, "a", "b"))]),
        corrupt("file 9 is added to level 2 and is on level 0")
    );
    assert_eq!(
        on_base(&[], &[(4, file(9, "a", "b"))]),
        (ErrorKind::InvalidArgument, "num_levels: 4, but the database has files on level 4".to_owned())
    );
    assert_eq!(message(build(None, &[(0, 1)], &[])), corrupt("file 1 is deleted from level 0, where it is not"));
    let same_age = |smallest: &str| FileMetaData { epoch_number: 7, ..file(8, smallest, "z") };
    let older = FileMetaData { epoch_number: 7, ..file(7, "a", "m") };
    assert_eq!(
        on_base(&[], &[(0, older.clone()), (0, same_age("k"))]),
        corrupt("files 8 and 7 on level 0 overlap and are of one age")
    );
    assert!(build(Some(&base), &[], &[(0, older), (0, same_age("n"))]).is_ok());
}

#[test]
fn one_user_key_may_be_in_two_neighbours() {
    let first = FileMetaData { largest: InternalKey::new(b"k", 9, ValueType::Put), ..file(2, "a", "k") };
    let second = FileMetaData { smallest: InternalKey::new(b"k", 5, ValueType::Put), ..file(3, "k", "m") };
    let version = build(None, &[], &[(1, first), (1, second)]).unwrap().version;
    let find = |seqno| {
        let key = LookupKey::new(b"k", seqno);
        version.levels[1].find(version.comparator(), key.internal_key()).map(|file| file.number)
    };
    assert_eq!((find(MAX_SEQNO), find(9), find(8), find(5)), (Some(2), Some(2), Some(3), Some(3)));
}

/// A newer version of the key would be missed where somebody looks whether it changed.
#[test]
fn a_table_that_ends_before_a_key_is_not_the_one_that_has_it() {
    let end = InternalKey::new(b"k", MAX_SEQNO, ValueType::RangeDelete);
    let first = FileMetaData { largest: end, ..file(2, "a", "k") };
    let second = FileMetaData { smallest: InternalKey::new(b"k", 9, ValueType::Put), ..file(3, "k", "m") };
    let version = build(None, &[], &[(1, first), (1, second)]).unwrap().version;
    for seqno in [MAX_SEQNO, MAX_SEQNO - 1, 9] {
        let key = LookupKey::new(b"k", seqno);
        let found = version.levels[1].find(version.comparator(), key.internal_key()).map(|file| file.number);
        assert_eq!(found, Some(3), "{seqno}");
    }
}

#[test]
fn epochs_that_are_missing_follow_the_order_of_sequence_numbers() {
    let without = |number, level: usize, seqnos: (u64, u64)| {
        let (smallest_seqno, largest_seqno) = seqnos;
        (level, FileMetaData { epoch_number: 0, smallest_seqno, largest_seqno, ..file(number, "a", "z") })
    };
    let version = build(None, &[], &[without(9, 0, (10, 19)), without(7, 0, (20, 29)), without(3, 1, (1, 9))]);
    let version = version.unwrap().version;
    let epochs: Vec<_> = version.all_files().map(|(_, file)| (file.number, file.epoch_number)).collect();
    assert_eq!(epochs, [(7, 3), (9, 2), (3, 1)]);
    let nested = build(None, &[], &[without(9, 0, (10, 19)), without(7, 0, (5, 29))]);
    assert_eq!(message(nested), corrupt("sequence numbers of files 7 and 9 on level 0 nest"));
}

#[test]
fn overlapping_files_are_found() {
    let added = [
        (0, file(8, "a", "f")),
        (0, file(9, "e", "k")),
        (1, file(1, "a", "c")),
        (1, file(2, "e", "g")),
        (1, file(3, "h", "m")),
    ];
    let version = build(None, &[], &added).unwrap().version;
    let overlap = |level, smallest: Option<&str>, largest: Option<&str>| {
        let files = version.overlapping_files(level, smallest.map(str::as_bytes), largest.map(str::as_bytes));
        files.iter().map(|file| file.number).collect::<Vec<_>>()
    };
    assert_eq!(overlap(0, Some("f"), Some("f")), [9, 8]);
    assert_eq!(overlap(0, Some("g"), None), [9]);
    assert_eq!(overlap(1, Some("c"), Some("e")), [1, 2]);
    assert_eq!(overlap(1, Some("d"), Some("d")), [0; 0]);
    assert_eq!(overlap(1, None, None), [1, 2, 3]);
    assert_eq!(overlap(1, Some("n"), None), [0; 0]);
    assert_eq!(overlap(3, None, None), [0; 0]);
    assert_eq!(overlap(99, None, None), [0; 0]);
}

/// Keys that tie in their first eight bytes, that are prefixes of each other, and that share much.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(255)], 0..12),
        (0u32..50).prop_map(|number| format!("user{number:08}").into_bytes()),
        proptest::collection::vec(prop_oneof![Just(b'x'), Just(b'y')], 7..11),
    ]
}

proptest! {
    /// The search by heads finds what a search by whole keys finds.
    #[test]
    fn levels_search_as_their_order_says(
        mut bounds in proptest::collection::btree_set(key(), 2..40),
        probes in proptest::collection::vec((key(), 0u64..8), 1..60),
        reverse in any::<bool>(),
    ) {
        if bounds.len() % 2 == 1 {
            bounds.pop_first();
        }
        let mut bounds: Vec<Vec<u8>> = bounds.into_iter().collect();
        let order = match reverse {
            true => InternalKeyComparator::new(Arc::new(ReverseBytewise)),
            false => bytewise(),
        };
        if reverse {
            bounds.reverse();
        }
        let files: Vec<_> = bounds.chunks(2).enumerate().map(|(index, pair)| {
            FileMeta::new(FileMetaData {
                number: index as u64,
                smallest: InternalKey::new(&pair[0], 4, ValueType::Put),
                largest: InternalKey::new(&pair[1], 4, ValueType::Put),
                ..FileMetaData::default()
            }, None)
        }).collect();
        let level = Level::new(files.clone(), &order);
        for (key, seqno) in &probes {
            let lookup = LookupKey::new(key, *seqno);
            let target = lookup.internal_key();
            let expected = files.iter().position(|file| order.compare(file.largest.as_bytes(), target).is_ge());
            prop_assert_eq!(level.first_ending_at_or_after(&order, target), expected.unwrap_or(files.len()));
            let holder = expected.filter(|index| order.compare_user(files[*index].smallest.user_key(), key).is_le());
            prop_assert_eq!(level.find(&order, target).map(|file| file.number as usize), holder);
            for (index, file) in files.iter().enumerate() {
                let covers = order.compare_user(file.smallest.user_key(), key).is_le()
                    && order.compare_user(file.largest.user_key(), key).is_ge();
                prop_assert_eq!(level.covers(&order, index, key), covers);
            }
            let any = (0..files.len()).any(|index| level.covers(&order, index, key));
            prop_assert_eq!(!level.overlapping_range(&order, Some(key), Some(key)).is_empty(), any);
        }
    }
}

#[test]
fn seek_keys_sort_before_all_entries() {
    // What `find` relies on: the lookup key of a sequence number comes before every entry of it.
    let order = bytewise();
    let lookup = LookupKey::new(b"k", 5);
    let entry = InternalKey::new(b"k", 5, ValueType::WideColumnEntity);
    assert!(order.compare(lookup.internal_key(), entry.as_bytes()).is_lt());
    assert_eq!(lookup.internal_key()[1], SEEK_TYPE);
}

fn added(number: u64, count: u64) -> BlobChange {
    BlobChange::Added { number, count, bytes: 100 * count, rest: vec![0, 0, 0] }
}

fn garbage(number: u64, count: u64) -> BlobChange {
    BlobChange::Garbage { number, count, bytes: 100 * count, rest: vec![0] }
}

fn referring(number: u64, blob_file: u64) -> FileMetaData {
    let name = format!("k{number}");
    let mut file = file(number, &name, &name);
    file.set_oldest_blob_file(blob_file);
    file
}

/// Files 1 to 5 of blobs; tables name 2 and 4. Those below 2 are gone, and above it what is nothing but garbage.
#[test]
fn blob_files_stay_while_tables_may_need_them() {
    let queue = Arc::new(ObsoleteTables::new());
    let build = |mut builder: VersionBuilder,
                 blob_files: Vec<BlobChange>,
                 tables: &[(usize, FileMetaData)],
                 gone: &[(usize, u64)]| {
        builder.apply(gone, tables.iter().cloned())?;
        builder.apply_blob_files(blob_files);
        builder.finish(ColumnFamilyId(0), &bytewise(), LEVELS, &queue)
    };
    let blob_files = vec![
        added(1, 5),
        added(2, 5),
        added(3, 5),
        added(4, 5),
        added(5, 5),
        garbage(3, 2),
        garbage(5, 3),
        garbage(5, 2),
    ];
    let tables = [(1, referring(12, 2)), (1, referring(14, 4))];
    let first = build(VersionBuilder::new(), blob_files, &tables, &[]).unwrap();
    let first = Arc::new(first.version);
    assert_eq!(first.blob_files().numbers().collect::<Vec<_>>(), [2, 3, 4]);
    let snapshot: Vec<BlobChange> = first.blob_files().snapshot().collect();
    assert_eq!(snapshot, [added(2, 5), added(3, 5), garbage(3, 2), added(4, 5)]);

    // The table that named file 2 goes: so do 2 and 3, which are older than all that is named.
    let second = build(VersionBuilder::on(Arc::clone(&first)), vec![garbage(2, 5)], &[], &[(1, 12)]).unwrap();
    assert_eq!(second.version.blob_files().numbers().collect::<Vec<_>>(), [4]);
    assert_eq!(second.left_blob_files.len(), 2);
    second.left_blob_files.iter().for_each(|file| file.mark_obsolete());
    drop(second);
    assert_eq!(queue.pop(), None, "the first version still lists them");
    drop(first);
    let mut deleted = [queue.pop(), queue.pop()];
    deleted.sort_by_key(|name| name.and_then(FileName::number));
    assert_eq!(deleted, [Some(FileName::Blob(2)), Some(FileName::Blob(3))]);

    let refused = |blob_files, tables: &[_]| message(build(VersionBuilder::new(), blob_files, tables, &[]));
    assert_eq!(refused(vec![added(1, 5), added(1, 5)], &[]), corrupt("blob file 1 is added twice"));
    assert_eq!(refused(vec![garbage(1, 1)], &[]), corrupt("garbage in blob file 1, which is not there"));
    assert_eq!(refused(vec![added(1, 5), garbage(1, 6)], &[]), corrupt("blob file 1 has more garbage than values"));
    let missing = corrupt("table 12 refers to blob file 2, which is not there");
    assert_eq!(refused(vec![added(1, 5)], &[(1, referring(12, 2))]), missing);
}

/// The parts of a walk's entries that the tables of `files` are expected to have, in percent, by number.
fn shares(files: &[(usize, FileMetaData)]) -> Vec<(u64, u64)> {
    let version = build(None, &[], files).unwrap().version;
    let shares = version.shares();
    let share =
        |(level, file): (usize, &Arc<FileMeta>)| (file.number, (shares.share_of(level, file) * 100.0).round() as u64);
    let mut found: Vec<_> = version.all_files().map(share).collect();
    // What was found out is remembered.
    assert_eq!(version.all_files().map(share).collect::<Vec<_>>(), found);
    found.sort();
    found
}

#[test]
fn a_walk_needs_of_a_table_what_it_has_of_the_bytes_around_it() {
    let last = [(3, file(1, "a", "d")), (3, file(2, "e", "h")), (3, file(3, "i", "l")), (3, file(4, "m", "p"))];
    let with = |more: &[(usize, FileMetaData)]| shares(&[&last, more].concat());
    let alone = [(1, 100), (2, 100), (3, 100), (4, 100)];
    assert_eq!(with(&[]), alone);
    // Keys that came in order: the newest are in a level of their own, which has a fifth of all bytes.
    assert_eq!(with(&[(2, file(5, "q", "z"))]), [&alone[..], &[(5, 100)]].concat());
    // Over all of the last level, and over a half of it.
    assert_eq!(with(&[(2, file(5, "a", "z"))]), [(1, 80), (2, 80), (3, 80), (4, 80), (5, 20)]);
    assert_eq!(with(&[(2, file(5, "a", "h"))]), [(1, 67), (2, 67), (3, 100), (4, 100), (5, 33)]);
    // Whole tables within, and parts of those at the edges.
    assert_eq!(with(&[(1, file(5, "c", "j"))]), [(1, 75), (2, 75), (3, 75), (4, 100), (5, 25)]);
    // Each table of level 0 is a run by itself.
    let level0 = [(0, file(5, "a", "p")), (0, file(6, "a", "p"))];
    assert_eq!(with(&level0), [(1, 67), (2, 67), (3, 67), (4, 67), (5, 17), (6, 17)]);
}
