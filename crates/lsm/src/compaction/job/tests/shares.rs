//! Tests of compactions that are shared out to subcompactions.

use super::*;
use crate::compaction::job::shares::{cuts, ranges};
use crate::iterator::IterPurpose;
use siltstone_base::script::{Command, run_file};

/// What a reader without a snapshot sees; no reader sees all that there may be.
const NEWEST: SeqNo = 1 << 40;

/// Each share with the bytes that lie in it.
fn run(command: &Command) -> String {
    assert_eq!(command.name, "share");
    let anchors: Vec<(Vec<u8>, u64)> = command
        .input
        .split_whitespace()
        .map(|word| word.split_once('@').unwrap())
        .map(|(key, bytes)| (key.as_bytes().to_vec(), bytes.parse().unwrap()))
        .collect();
    let ranges = ranges(cuts(&order(), anchors.clone(), command.get_or("parts", 2)));
    let line = |keys: &KeyRange| {
        // An anchor is where its bytes end.
        let is_behind = |key: &Vec<u8>| keys.start.as_ref().is_none_or(|start| key > start);
        let is_within = |key: &Vec<u8>| keys.end.as_ref().is_none_or(|end| key <= end);
        let anchors = anchors.iter().filter(|(key, _)| is_behind(key) && is_within(key));
        let bytes: u64 = anchors.map(|(_, bytes)| bytes).sum();
        let text =
            |bound: &Option<Vec<u8>>| bound.as_ref().map_or(".".to_owned(), |key| key.escape_ascii().to_string());
        format!("{} to {} ({bytes})\n", text(&keys.start), text(&keys.end))
    };
    ranges.iter().map(line).collect()
}

#[test]
fn keys_are_shared_out_as_the_script_says() {
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/shares"), run);
}

/// The rows of [`rows`], with range tombstones in three tables, one of which has nothing else. Each is newer than all that is in older tables.
fn world_of_ranges() -> (World, Arc<Version>) {
    let world = World::small();
    let (level0, last) = rows();
    let range = |start: usize, end: usize, seqno| {
        RangeTombstone::new(format!("key{start:04}").as_bytes(), format!("key{end:04}").as_bytes(), seqno)
    };
    let mut files: Vec<_> = last.iter().map(|rows| (6, world.table(rows))).collect();
    let ranges = [vec![range(20, 290, 900)], vec![range(10, 60, 1001), range(30, 200, 1001)], Vec::new(), Vec::new()];
    files.extend(level0.iter().zip(&ranges).map(|(rows, ranges)| (0, world.table_with_ranges(rows, ranges))));
    files.push((0, world.table_with_ranges(&[], &[range(40, 90, 1004), range(290, 400, 1005)])));
    let version = world.version(files);
    (world, version)
}

/// Every entry of the tables below level 0.
fn entries(world: &World, version: &Version) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    for level in 1..version.num_levels() {
        let files = Arc::from(version.files(level));
        let purpose = IterPurpose::Compaction { read_ahead_size: 0 };
        let mut iter = LevelIter::new(files, world.table_cache(), TableReadOptions::default(), purpose);
        iter.seek_to_first();
        while iter.valid() {
            entries.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
    }
    entries
}

#[test]
fn subcompactions_leave_what_one_job_leaves() {
    for snapshots in [Vec::new(), vec![3, 950, 1000, 1002, 1004]] {
        for most in [2, 3, 7] {
            let (world, version) = world_of_ranges();
            let compaction = pick(&version, &world.options, 0, &Running::default()).unwrap();
            assert!(compaction.may_share_out(world.options.compaction_style));
            let shares = shares(&compaction, &world.table_cache(), most).unwrap();
            assert!((2..=most).contains(&shares.len()), "{shares:?}");
            let (shared, output) = world.compact_shared(&version, snapshots.clone(), most).unwrap();
            let (one, expected) = world.compact(&version, snapshots.clone()).unwrap();
            assert_eq!(entries(&world, &shared), entries(&world, &one), "{most} at {snapshots:?}");
            assert_eq!((output.dropped, output.bytes_read), (expected.dropped, expected.bytes_read));
            assert_eq!(output.bytes_written, output.files.iter().map(|file| file.file_size).sum::<u64>());
            let order = order();
            for pair in output.files.windows(2) {
                assert!(pair[0].largest.ends_before(&order, pair[1].smallest.user_key()), "no key is in two tables");
            }
            for index in 0..300 {
                let key = format!("key{index:04}");
                for seqno in snapshots.iter().copied().chain([NEWEST]) {
                    let expected = world.read(&version, &key, seqno);
                    assert_eq!(world.read(&shared, &key, seqno), expected, "{key} at {seqno}");
                    assert_eq!(world.read(&one, &key, seqno), expected, "{key} at {seqno}");
                }
            }
        }
    }
}

#[test]
fn a_compaction_is_not_shared_out_to_more_than_it_has_tables_of_input() {
    let world = World::small();
    let row = |run: u64, index: usize| (format!("key{index:02}"), 10 + run, Some("value".to_owned()));
    let files = (0..5).map(|run| (if run == 0 { 6 } else { 0 }, world.table(&[row(run, 1), row(run, 2)])));
    let version = world.version(files.collect::<Vec<_>>());
    let mut compaction = pick(&version, &world.options, 0, &Running::default()).unwrap();
    compaction.target_file_size = 10 << 20;
    assert_eq!(shares(&compaction, &world.table_cache(), 8).unwrap(), [KeyRange::default()]);
}

#[test]
fn an_error_of_a_subcompaction_leaves_the_inputs_and_nothing_else() {
    let mut failures = 0;
    for kind in [FaultKind::Io, FaultKind::ShortWrite] {
        for after in (0..).step_by(2) {
            let (world, version) = world_of_ranges();
            let before = world.tables();
            let filter = OpFilter { mutating_only: true, ..OpFilter::default() };
            world.disk.set_fault(FaultPlan::once(kind, after).filter(filter));
            let outcome = world.compact_shared(&version, Vec::new(), 3);
            let hits = world.disk.fault_hits();
            world.disk.clear_fault();
            if hits.is_empty() {
                break;
            }
            if outcome.is_err() {
                failures += 1;
                assert_eq!(world.tables(), before, "{kind:?} after {after}: {hits:?}");
            }
        }
    }
    assert!(failures > 8, "{failures} failures");
}
