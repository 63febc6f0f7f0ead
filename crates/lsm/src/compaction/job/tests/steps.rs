//! How much a step does whose slice is over: no more than lies between two looks at the clock, whatever the inputs are.

use super::*;
use crate::options::FilterPolicy;

/// Units of work between two looks at the clock: an entry is one, and one more for each KiB.
const LEAST_UNITS: u64 = 64;

/// More than any of these compactions takes: one whose steps do nothing would go on for ever.
const MOST_STEPS: u64 = 10_000;

/// What one compaction was like.
#[derive(Debug, PartialEq, Eq)]
struct Steps {
    /// Steps that read entries.
    reading: u64,
    /// Steps that read none: they ended tables.
    others: u64,
    /// Entries that the outputs have.
    entries: u64,
}

/// Runs the compaction that is due in steps whose slice is over from the start. `entry_bytes` are those of each entry, about.
fn steps(world: &World, version: &Arc<Version>, snapshots: Vec<SeqNo>, entry_bytes: u64) -> Steps {
    let compaction = pick(version, &world.options, 0, &Running::default()).expect("something to do");
    assert!(!compaction.trivial_move);
    let mut job = world.job(compaction, snapshots);
    let clock = Arc::new(ManualClock::new(0));
    let (mut reading, mut others, mut before) = (0, 0, 0);
    loop {
        let mut budget = Budget::new(&*clock);
        clock.advance(Budget::SLICE);
        let is_done = job.step(&mut budget).unwrap();
        let (entries, _) = job.progress();
        let units = (entries - before) * (1 + entry_bytes / 1024);
        assert!(
            units < LEAST_UNITS + 1 + entry_bytes / 1024,
            "{} entries of {entry_bytes} in a step",
            entries - before
        );
        if entries > before {
            reading += 1;
        } else {
            others += 1;
        }
        before = entries;
        if is_done {
            break;
        }
        assert!(reading + others < MOST_STEPS, "{entries} entries, and no end");
    }
    let output = CompactionJob::finish_all(&mut vec![job]).unwrap();
    Steps { reading, others, entries: world.entries(&output) }
}

/// Four tables of level 0 and one of the last level, each with `rows` of its number: 0 is the oldest.
fn tables(world: &World, rows: impl Fn(u64) -> Vec<Row>) -> Arc<Version> {
    let files = (0..5).map(|table| (if table == 0 { 6 } else { 0 }, world.table(&rows(table))));
    world.version(files.collect::<Vec<_>>())
}

#[test]
fn a_step_that_is_over_reads_a_few_entries_of_ordinary_rows() {
    let (world, version) = world_of_rows();
    let steps = steps(&world, &version, Vec::new(), 40);
    assert!(steps.reading >= (4 * 240 + 300) / LEAST_UNITS, "{steps:?}");
    assert!(steps.entries > 0, "{steps:?}");
}

#[test]
fn a_step_that_is_over_ends_among_rows_that_are_all_deleted() {
    let world = World::small();
    let version = tables(&world, |table| {
        (0..1000).map(|index| (format!("k{index:04}"), 1 + table, (table == 0).then(|| "v".to_owned()))).collect()
    });
    let steps = steps(&world, &version, Vec::new(), 8);
    assert!(steps.reading >= 5000 / LEAST_UNITS, "{steps:?}");
    assert_eq!(steps.entries, 0);
}

#[test]
fn a_step_that_is_over_ends_among_the_versions_of_one_key() {
    let world = World::small();
    let version = tables(&world, |table| {
        (0..1000).map(|index| ("same".to_owned(), 1 + 1000 * table + index, Some("v".to_owned()))).collect()
    });
    for (snapshots, kept) in [(Vec::new(), 1), ((1..=5000).collect(), 5000)] {
        let steps = steps(&world, &version, snapshots, 8);
        assert!(steps.reading >= 5000 / LEAST_UNITS, "{steps:?}");
        assert_eq!(steps.entries, kept);
    }
}

#[test]
fn a_step_that_is_over_ends_among_rows_that_a_range_tombstone_hides() {
    let world = World::small();
    let row = |index: u64, seqno| (format!("k{index:04}"), seqno, Some("v".to_owned()));
    let range = RangeTombstone { start: Box::from(*b"k"), end: Box::from(*b"l"), seqno: 2000 };
    let mut files: Vec<_> = (0..4u64)
        .map(|table| {
            let rows: Vec<_> = (0..1000).map(|index| row(index, 1 + table)).collect();
            (if table == 0 { 6 } else { 0 }, world.table(&rows))
        })
        .collect();
    files.push((0, world.table_with_ranges(&[row(0, 1999)], &[range])));
    let steps = steps(&world, &world.version(files), Vec::new(), 8);
    assert!(steps.reading >= 4000 / LEAST_UNITS, "{steps:?}");
    assert_eq!(steps.entries, 0);
}

#[test]
fn a_step_that_is_over_writes_one_of_many_tables_of_range_tombstones_alone() {
    let world = World::small();
    let version = range_deletes_over_settled_rows(&world);
    let steps = steps(&world, &version, vec![5], 40);
    assert_eq!(steps.reading, 0, "level 0 has nothing else: {steps:?}");
    // One at least for each table.
    assert!(steps.others > 4, "{steps:?}");
}

#[test]
fn a_step_that_is_over_reads_one_or_two_large_values() {
    const BYTES: usize = 40 << 10;
    let world = World::small();
    let version = tables(&world, |table| {
        (0..10).map(|index| (format!("k{index}"), 1 + table, Some("v".repeat(BYTES)))).collect()
    });
    let steps = steps(&world, &version, Vec::new(), BYTES as u64);
    assert!(steps.reading >= 25, "{steps:?}");
    assert_eq!(steps.entries, 10);
}

#[test]
fn the_filter_of_a_large_table_is_built_in_steps_too() {
    for filter_policy in [
        FilterPolicy::Bloom { bits_per_key: 10.0 },
        FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: 10.0, bloom_before_level: -1 },
    ] {
        let mut options = ColumnFamilyOptions::default();
        options.table = options.table.filter_policy(filter_policy);
        let world = World::new(options);
        let version = tables(&world, |table| {
            let keys = (0..4000).map(|index| format!("k{:05}", 5 * index + table));
            keys.map(|key| (key, 1 + table, Some("v".to_owned()))).collect()
        });
        let steps = steps(&world, &version, Vec::new(), 8);
        assert_eq!(steps.entries, 20_000);
        assert!(steps.others >= 3, "{filter_policy:?}: {steps:?}");
    }
}
