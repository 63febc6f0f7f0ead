//! Tests of compaction jobs on a simulated disk.

mod shares;
mod steps;

use super::*;
use crate::compaction::{Running, pick};
use crate::file_meta::{FileMeta, ObsoleteTables};
use crate::file_names::FileName;
use crate::key::{ColumnFamilyId, InternalKey, InternalKeyComparator, LookupKey, MAX_SEQNO, ValueType};
use crate::range_tombstones::RangeTombstone;
use crate::sst::{BlockCache, TableBuilder, TableBuilderOptions};
use crate::table_cache::TableCacheOptions;
use crate::version::{Version, version_for_test};
use proptest::prelude::*;
use siltstone_base::block_pool::BlockPool;
use siltstone_base::clock::ManualClock;
use siltstone_base::comparator::Bytewise;
use siltstone_base::env::FileOptions;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::plant::with_planted;
use std::collections::BTreeMap;
use std::path::Path;

const DIR: &str = "/db";

fn order() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(Bytewise))
}

/// A key, its sequence number, and its value; without one, a tombstone.
type Row = (String, SeqNo, Option<String>);

/// A directory with tables, and what jobs need.
struct World {
    disk: SimDisk,
    numbers: Arc<FileNumbers>,
    options: Arc<ColumnFamilyOptions>,
}

impl World {
    fn new(options: ColumnFamilyOptions) -> Self {
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new(DIR)).unwrap();
        Self { disk, numbers: Arc::new(FileNumbers::new(1)), options: Arc::new(options) }
    }

    /// Small tables of small blocks.
    fn small() -> Self {
        let mut options = ColumnFamilyOptions::default().target_file_size_base(2000).max_bytes_for_level_base(10_000);
        options.table = options.table.block_size(256);
        Self::new(options)
    }

    /// A table of `rows`, in any order.
    fn table(&self, rows: &[Row]) -> FileMetaData {
        self.table_with_ranges(rows, &[])
    }

    /// The same with range tombstones, in the order of their starts.
    fn table_with_ranges(&self, rows: &[Row], ranges: &[RangeTombstone]) -> FileMetaData {
        let number = self.numbers.allocate();
        let path = FileName::Table(number).path(Path::new(DIR));
        let env = self.disk.env();
        let file = env.create_append(&path, &FileOptions::new(FileKind::Table)).unwrap();
        let builder_options = TableBuilderOptions {
            merge_operator: String::new(),
            comparator: order(),
            table: self.options.table.clone(),
            compression: self.options.compression,
            zstd_level: 3,
            dictionary: Default::default(),
            collectors: Vec::new(),
            expiry: None,
            file_checksum: false,
            level: 0,
            prefix_extractor: None,
            column_family_id: 0,
            column_family_name: "default".to_owned(),
            db_id: "db".to_owned(),
            session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
            file_number: number,
            creation_time: 1,
            oldest_key_time: 1,
            newest_key_time: 1,
            host_id: String::new(),
            file_creation_time: 1,
            priority: IoPriority::High,
            write_back: WriteBack::default(),
            metrics: None,
            sync_kind: crate::metrics::HistogramKind::TableSync,
        };
        let mut builder = TableBuilder::new(file, path, builder_options).unwrap();
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| (&a.0, u64::MAX - a.1).cmp(&(&b.0, u64::MAX - b.1)));
        for (key, seqno, value) in rows {
            let value_type = if value.is_some() { ValueType::Put } else { ValueType::Delete };
            let key = InternalKey::new(key.as_bytes(), seqno, value_type);
            builder.add(key.as_bytes(), value.unwrap_or_default().as_bytes()).unwrap();
        }
        ranges.iter().for_each(|range| builder.add_range_tombstone(range).unwrap());
        let summary = builder.finish().unwrap();
        env.sync_dir(Path::new(DIR)).unwrap();
        FileMetaData {
            number,
            file_size: summary.file_size,
            smallest: summary.smallest,
            largest: summary.largest,
            smallest_seqno: summary.smallest_seqno,
            largest_seqno: summary.largest_seqno,
            epoch_number: number,
            oldest_ancestor_time: 40 + number,
            has_ranges: Some(!ranges.is_empty()),
            ..FileMetaData::default()
        }
    }

    fn version(&self, files: impl IntoIterator<Item = (usize, FileMetaData)>) -> Arc<Version> {
        let queue = Arc::new(ObsoleteTables::new());
        version_for_test(ColumnFamilyId(0), &order(), self.options.num_levels, files, &queue)
    }

    fn table_cache(&self) -> Arc<TableCache> {
        let options = TableCacheOptions {
            comparator: order(),
            pin_filter_partitions: false,
            expiry: None,
            prefix_extractor: None,
            block_cache: Arc::new(BlockCache::new(1 << 20)),
            block_pool: BlockPool::new(1 << 20),
            use_direct_reads: false,
            use_direct_io_for_compaction: false,
            allow_mmap_reads: false,
            merge_operator: None,
            allow_other_merge_operator: false,
            metrics: Default::default(),
        };
        Arc::new(TableCache::new(self.disk.env(), Path::new(DIR), options))
    }

    fn job(&self, compaction: Compaction, snapshots: Vec<SeqNo>) -> CompactionJob {
        self.job_for(compaction, KeyRange::default(), snapshots)
    }

    fn job_for(&self, compaction: Compaction, keys: KeyRange, snapshots: Vec<SeqNo>) -> CompactionJob {
        let env = CompactionEnv {
            env: self.disk.env(),
            dir: PathBuf::from(DIR),
            table_cache: self.table_cache(),
            options: Arc::clone(&self.options),
            family_name: "default".to_owned(),
            snapshots,
            expiring: None,
            file_numbers: Arc::clone(&self.numbers),
            db_id: "db".to_owned(),
            session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
            host_id: String::new(),
            clock: Arc::new(ManualClock::new(1_700_000_000)),
            readahead_size: 4096,
            use_direct_io: false,
            keeps_cached: true,
            write_back: WriteBack::default(),
            file_checksum: FileChecksum::None,
            hidden: None,
            holders: Arc::default(),
        };
        CompactionJob::new(compaction, keys, env)
    }

    /// Runs a compaction of `version` to its end and returns the version that comes of it.
    fn compact(&self, version: &Arc<Version>, snapshots: Vec<SeqNo>) -> Result<(Arc<Version>, CompactionOutput)> {
        self.compact_shared(version, snapshots, 1)
    }

    /// The same by at most so many subcompactions, which are stepped in turn, a few entries each.
    fn compact_shared(
        &self,
        version: &Arc<Version>,
        snapshots: Vec<SeqNo>,
        most: usize,
    ) -> Result<(Arc<Version>, CompactionOutput)> {
        let compaction = pick(version, &self.options, 0, &Running::default()).expect("something to do");
        assert!(!compaction.trivial_move);
        let ranges = shares(&compaction, &self.table_cache(), most)?;
        let job = |keys| self.job_for(compaction.clone(), keys, snapshots.clone());
        let mut jobs: Vec<_> = ranges.into_iter().map(job).collect();
        let clock = ManualClock::new(0);
        let units = if most > 1 { 7 } else { u32::MAX };
        let mut done = vec![false; jobs.len()];
        while done.contains(&false) {
            for index in 0..jobs.len() {
                match jobs[index].step(&mut Budget::of_units(&clock, units)) {
                    Ok(is_done) => done[index] = is_done,
                    Err(error) => {
                        jobs.into_iter().for_each(CompactionJob::abandon);
                        return Err(error);
                    }
                }
            }
        }
        let output = CompactionJob::finish_all(&mut jobs)?;
        Ok((self.apply(version, &output.edit), output))
    }

    fn apply(&self, version: &Version, edit: &VersionEdit) -> Arc<Version> {
        let stays = |level: usize, number: u64| !edit.deleted_files.contains(&(level, number));
        let kept = version.all_files().filter(|(level, file)| stays(*level, file.number));
        let kept = kept.map(|(level, file)| (level, file.data())).collect::<Vec<_>>();
        self.version(kept.into_iter().chain(edit.new_files.clone()))
    }

    /// Moves and compacts until nothing is due.
    fn settle(&self, mut version: Arc<Version>, snapshots: &[SeqNo], most: usize) -> Arc<Version> {
        while let Some(compaction) = pick(&version, &self.options, 0, &Running::default()) {
            version = match compaction.trivial_move {
                true => self.apply(&version, &compaction.edit()),
                false => self.compact_shared(&version, snapshots.to_vec(), most).unwrap().0,
            };
        }
        version
    }

    fn read(&self, version: &Version, key: &str, seqno: SeqNo) -> Option<String> {
        let (options, key) = (TableReadOptions::default(), LookupKey::new(key.as_bytes(), seqno));
        let (_, entry) = version.get(&self.table_cache(), &options, &key, None, &mut Default::default()).unwrap()?;
        (entry.value_type == ValueType::Put).then(|| String::from_utf8(entry.value.into_vec()).unwrap())
    }

    /// How many entries the outputs have.
    fn entries(&self, output: &CompactionOutput) -> u64 {
        let version = self.version(output.edit.new_files.clone());
        let table_cache = self.table_cache();
        let entries = |file: &FileMeta| table_cache.reader(file).unwrap().properties().num_entries;
        version.all_files().map(|(_, file)| entries(file)).sum()
    }

    /// The numbers of the tables on disk.
    fn tables(&self) -> Vec<u64> {
        let entries = self.disk.env().list_dir(Path::new(DIR)).unwrap();
        entries.iter().filter_map(|entry| FileName::parse(&entry.name)?.number()).collect()
    }
}

/// Rows of 300 keys in four tables of level 0 and two of the last level; some keys twice, some deleted.
fn rows() -> (Vec<Vec<Row>>, Vec<Vec<Row>>) {
    let value = |seqno: SeqNo, index: usize| format!("value-{seqno}-{index}-{}", "x".repeat(index % 40));
    let row =
        |index: usize, seqno: SeqNo| (format!("key{index:04}"), seqno, (index % 7 != 3).then(|| value(seqno, index)));
    let level0 = (0..4u64)
        .map(|run| (0..300).filter(|index| index % 5 != run as usize).map(|index| row(index, 1000 + run)).collect());
    let last = (0..2).map(|half| (150 * half..150 * (half + 1)).map(|index| row(index, 5)).collect());
    (level0.collect(), last.collect())
}

fn world_of_rows() -> (World, Arc<Version>) {
    let world = World::small();
    let (level0, last) = rows();
    let mut files: Vec<_> = last.iter().map(|rows| (6, world.table(rows))).collect();
    files.extend(level0.iter().map(|rows| (0, world.table(rows))));
    let version = world.version(files);
    (world, version)
}

#[test]
fn a_compaction_changes_nothing_that_anyone_sees() {
    let (world, version) = world_of_rows();
    let snapshots = vec![3, 900, 1000, 1001];
    let (after, output) = world.compact(&version, snapshots.clone()).unwrap();
    assert_eq!((after.files(0).len(), output.files.len() > 3), (0, true));
    for index in 0..300 {
        let key = format!("key{index:04}");
        for seqno in snapshots.iter().copied().chain([MAX_SEQNO]) {
            assert_eq!(world.read(&after, &key, seqno), world.read(&version, &key, seqno), "{key} at {seqno}");
        }
    }
    assert!(output.dropped.hidden > 0);
    assert_eq!(output.bytes_written, output.files.iter().map(|file| file.file_size).sum::<u64>());
    assert_eq!(output.bytes_read, version.total_bytes());
}

#[test]
fn outputs_say_what_they_are() {
    let (world, version) = world_of_rows();
    let (_, output) = world.compact(&version, Vec::new()).unwrap();
    for file in &output.files {
        // The oldest input is table 1: epoch 1, and the time that its data was written.
        assert_eq!((file.epoch_number, file.oldest_ancestor_time, file.file_creation_time), (1, 41, 1_700_000_000));
        let path = FileName::Table(file.number).path(Path::new(DIR));
        assert_eq!(world.disk.after_power_loss().env().file_len(&path).unwrap(), file.file_size, "durable");
        assert_eq!((file.smallest_seqno, file.largest_seqno), (0, 0), "nobody looks: all numbers are settled");
    }
    // The newest version of each key that is not deleted, and nothing else.
    assert_eq!(world.entries(&output), (0..300).filter(|index| index % 7 != 3).count() as u64);
    for pair in output.files.windows(2) {
        assert!(pair[0].largest.user_key() < pair[1].smallest.user_key());
    }
}

#[test]
fn all_versions_of_a_key_stay_in_one_table() {
    let world = World::small();
    let versions = |from: SeqNo| -> Vec<Row> {
        (from..from + 200).map(|seqno| ("same".to_owned(), seqno, Some("v".repeat(100)))).collect()
    };
    let files = (0..5).map(|run| (if run == 0 { 6 } else { 0 }, world.table(&versions(1 + 200 * run))));
    let version = world.version(files.collect::<Vec<_>>());
    let (after, output) = world.compact(&version, (1..=1000).collect()).unwrap();
    assert_eq!((output.files.len(), world.entries(&output)), (1, 1000));
    assert!(output.files[0].file_size > 3 * world.options.target_file_size_base);
    assert_eq!(world.read(&after, "same", 400), Some("v".repeat(100)));
}

#[test]
fn a_compaction_that_leaves_nothing_writes_nothing() {
    let world = World::small();
    let rows = |seqno, value: Option<&str>| -> Vec<Row> {
        (0..50).map(|index| (format!("k{index}"), seqno, value.map(str::to_owned))).collect()
    };
    let mut files = vec![(6, world.table(&rows(1, Some("v"))))];
    files.extend((2..=5).map(|seqno| (0, world.table(&rows(seqno, None)))));
    let version = world.version(files);
    let (after, output) = world.compact(&version, Vec::new()).unwrap();
    assert_eq!((after.all_files().count(), output.files.len(), output.bytes_written), (0, 0, 0));
    assert_eq!((output.dropped.hidden, output.dropped.obsolete_tombstones), (200, 50));
    assert_eq!(world.tables(), [1, 2, 3, 4, 5]);
}

#[test]
fn an_error_leaves_the_inputs_and_nothing_else() {
    let mut failures = 0;
    for kind in [FaultKind::Io, FaultKind::NoSpace, FaultKind::ShortWrite, FaultKind::SyncFailsVisible] {
        for after in 0.. {
            let (world, version) = world_of_rows();
            let before = world.tables();
            // Removing what was written is best effort: it does not fail here.
            world.disk.set_fault(FaultPlan::once(kind, after));
            let outcome = world.compact(&version, Vec::new());
            let hits = world.disk.fault_hits();
            world.disk.clear_fault();
            if hits.is_empty() {
                break;
            }
            failures += 1;
            match outcome {
                Err(_) => assert_eq!(world.tables(), before, "{kind:?} after {after}: {hits:?}"),
                // Hints may fail without harm.
                Ok((after_it, _)) => {
                    assert!(hits.iter().all(|op| matches!(op.class, OpClass::SyncRange | OpClass::Resize)), "{hits:?}");
                    assert_eq!(world.read(&after_it, "key0001", MAX_SEQNO), world.read(&version, "key0001", MAX_SEQNO));
                }
            }
            for key in ["key0000", "key0151", "key0299"] {
                assert!(world.read(&version, key, MAX_SEQNO).is_some(), "the inputs are whole");
            }
        }
    }
    assert!(failures > 50, "{failures} failures");
}

#[test]
fn a_read_error_that_is_swallowed_loses_rows() {
    let lost = |after: u64| {
        let (world, version) = world_of_rows();
        let filter = OpFilter { class: Some(OpClass::Read), file: Some(FileKind::Table), ..OpFilter::default() };
        world.disk.set_fault(FaultPlan::once(FaultKind::Io, after).filter(filter));
        let planted = PlantedBug::CompactionSwallowsReadError;
        let outcome = with_planted(planted, || world.compact(&version, Vec::new()));
        world.disk.clear_fault();
        outcome.is_ok_and(|(_, output)| world.entries(&output) < 250)
    };
    assert!((0..60).any(lost));
}

#[test]
fn damaged_inputs_are_corruption() {
    let (world, version) = world_of_rows();
    let before = world.tables();
    let file = &version.files(0)[0];
    world.disk.flip(&FileName::Table(file.number).path(Path::new(DIR)), file.file_size / 3, 0x10).unwrap();
    let error = world.compact(&version, Vec::new()).unwrap_err();
    assert_eq!(error.kind(), siltstone_base::ErrorKind::Corruption);
    assert_eq!(error.file(), Some(&*FileName::Table(file.number).path(Path::new(DIR))));
    assert_eq!(world.tables(), before);
}

#[test]
fn a_job_that_did_not_read_its_inputs_cannot_be_finished() {
    let (world, version) = world_of_rows();
    let compaction = pick(&version, &world.options, 0, &Running::default()).unwrap();
    let unfinished = world.job(compaction, Vec::new());
    assert!(CompactionJob::finish_all(&mut vec![unfinished]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random histories in random tables over several compactions: every reader sees what a map says.
    #[test]
    fn compactions_agree_with_a_map(
        batches in proptest::collection::vec(proptest::collection::vec(change(), 1..40), 4..10),
        snapshot_every in 1u64..60,
        snapshot_life in prop_oneof![Just(SeqNo::MAX), 10u64..200],
        most in 1usize..5,
        target_file_size in prop_oneof![Just(8), Just(40), Just(2000)],
    ) {
        let world = World::new(World::small().options.as_ref().clone().target_file_size_base(target_file_size));
        let mut version = world.version([]);
        let mut history: BTreeMap<SeqNo, Change> = BTreeMap::new();
        let mut seqno = 0;
        for batch in batches {
            let (mut rows, mut ranges): (Vec<Row>, Vec<RangeTombstone>) = Default::default();
            for change in batch {
                seqno += 1;
                let key = |number: u8| format!("k{number:02}");
                match change {
                    Change::Put(number) => rows.push((key(number), seqno, Some(format!("{seqno}")))),
                    Change::Delete(number) => rows.push((key(number), seqno, None)),
                    Change::DeleteRange(start, len) => {
                        ranges.push(RangeTombstone::new(key(start).as_bytes(), key(start + len).as_bytes(), seqno));
                    }
                }
                history.insert(seqno, change);
            }
            ranges.sort_by(|a, b| (&a.start, b.seqno).cmp(&(&b.start, a.seqno)));
            let table = world.table_with_ranges(&rows, &ranges);
            let files = version.all_files().map(|(level, file)| (level, file.data())).chain([(0, table)]);
            version = world.version(files.collect::<Vec<_>>());
            let oldest = seqno.saturating_sub(snapshot_life);
            let snapshots: Vec<SeqNo> = (oldest..=seqno).filter(|seqno| seqno % snapshot_every == 0).collect();
            version = world.settle(version, &snapshots, most);
            for reader in snapshots.into_iter().chain([seqno]) {
                for key in 0..30u8 {
                    let newest = history.range(..=reader).rev().find(|(_, change)| change.touches(key));
                    let expected = newest.and_then(|(seqno, change)| {
                        matches!(change, Change::Put(_)).then(|| format!("{seqno}"))
                    });
                    let found = world.read(&version, &format!("k{key:02}"), reader);
                    prop_assert_eq!(found, expected, "{} at {}", key, reader);
                }
            }
        }
    }
}

/// A change of a random history. Keys are numbers.
#[derive(Debug, Clone, Copy)]
enum Change {
    Put(u8),
    Delete(u8),
    /// The first key, and how many.
    DeleteRange(u8, u8),
}

impl Change {
    fn touches(self, key: u8) -> bool {
        match self {
            Self::Put(changed) | Self::Delete(changed) => changed == key,
            Self::DeleteRange(start, len) => (start..start + len).contains(&key),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0u8..30).prop_map(Change::Put),
        2 => (0u8..30).prop_map(Change::Delete),
        2 => (0u8..30, 1u8..20).prop_map(|(start, len)| Change::DeleteRange(start, len)),
    ]
}

/// Every other one of 2,000 settled rows is deleted by a range of its own, and one range lies over a third of them; level 0 has that four times and nothing else.
fn range_deletes_over_settled_rows(world: &World) -> Arc<Version> {
    let key = |index: usize| format!("key{index:05}");
    let row = |index: usize| (key(index), 1, Some("x".repeat(40)));
    let range = |index: usize| RangeTombstone::new(key(index).as_bytes(), key(index + 1).as_bytes(), 9);
    let bottom = world.table(&(0..2000).map(row).collect::<Vec<_>>());
    let mut ranges: Vec<_> = (0..2000).step_by(2).map(range).collect();
    ranges.push(RangeTombstone::new(key(601).as_bytes(), key(1201).as_bytes(), 8));
    ranges.sort_by(|a, b| (&a.start, b.seqno).cmp(&(&b.start, a.seqno)));
    let level0: Vec<_> = (0..4).map(|_| world.table_with_ranges(&[], &ranges)).collect();
    let files = level0.into_iter().map(|file| (0, file)).chain([(6, bottom)]);
    world.version(files.collect::<Vec<_>>())
}

/// Without an end of tables at tombstones, all of them would be in one, and one block of it larger than the format allows.
#[test]
fn thousands_of_range_deletes_over_settled_rows_come_into_many_tables() {
    let world = World::small();
    let version = range_deletes_over_settled_rows(&world);
    let key = |index: usize| format!("key{index:05}");
    let compaction = pick(&version, &world.options, 0, &Running::default()).unwrap();
    let (after, output) = world.compact(&version, vec![5]).unwrap();
    assert!(compaction.output_level > 0 && compaction.output_level < 6);
    assert!(output.files.len() > 4, "{} tables", output.files.len());
    for pair in output.files.windows(2) {
        assert!(pair[0].largest.ends_before(&order(), pair[1].smallest.user_key()), "no key is in two tables");
    }
    for file in &output.files {
        assert!(file.file_size < 3 * world.options.target_file_size_base, "{} bytes", file.file_size);
    }
    for index in 0..2000 {
        let is_deleted = index % 2 == 0 || (601..1201).contains(&index);
        assert_eq!(world.read(&after, &key(index), MAX_SEQNO).is_none(), is_deleted, "{}", key(index));
        assert!(world.read(&after, &key(index), 5).is_some(), "the snapshot");
    }
    let settled = world.settle(after, &[], 2);
    for index in 0..2000 {
        let is_deleted = index % 2 == 0 || (601..1201).contains(&index);
        assert_eq!(world.read(&settled, &key(index), MAX_SEQNO).is_none(), is_deleted, "{}", key(index));
    }
}
