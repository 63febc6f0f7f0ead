//! Writers, readers, flushes, compactions, and families that come and go, all at once.

use siltstone::lsm::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, ErrorKind, FlushOptions, ReadOptions,
    WriteBatch, WriteOptions,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WRITERS: u64 = 4;
const KEYS: u64 = 40;

/// What differs between the runs.
#[derive(Debug, Clone, Copy)]
struct Settings {
    batches: u64,
    /// Every how many batches one is synced; 0: never.
    sync_every: u64,
    /// Groups of more bytes are inserted by their own writers; 0: never.
    concurrent_bytes: usize,
    write_buffer_size: usize,
    wal_sync_millis: u64,
    max_total_wal_size: u64,
}

impl Settings {
    fn open(&self, dir: &Path) -> Db {
        let family = ColumnFamilyOptions::default()
            .write_buffer_size(self.write_buffer_size)
            .max_write_buffer_number(3)
            .level0_file_num_compaction_trigger(2)
            .level0_slowdown_writes_trigger(6)
            .level0_stop_writes_trigger(10)
            .target_file_size_base(16 << 10)
            .max_bytes_for_level_base(64 << 10);
        let options = DbOptions::default()
            .create_if_missing(true)
            .create_missing_column_families(true)
            .concurrent_memtable_write_bytes(self.concurrent_bytes)
            .wal_sync_interval_millis(self.wal_sync_millis)
            .max_total_wal_size(self.max_total_wal_size)
            .delayed_write_rate(64 << 20)
            .max_background_jobs(3);
        Db::open_families(dir, &options, &[("default", family.clone()), ("twin", family)]).unwrap()
    }
}

fn key(writer: u64, number: u64) -> [u8; 2] {
    [writer as u8, (number % KEYS) as u8]
}

fn value(count: u64) -> Vec<u8> {
    let mut value = count.to_be_bytes().to_vec();
    value.resize(8 + (count % 120) as usize, b'.');
    value
}

fn count_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().unwrap())
}

/// What the threads share.
struct Shared<'a> {
    db: &'a Db,
    twin: ColumnFamily,
    settings: Settings,
    /// The batches of each writer that were acknowledged.
    acknowledged: [AtomicU64; WRITERS as usize],
    done: AtomicBool,
}

impl Shared<'_> {
    /// Batch `count` of a writer sets one key, in both families, and the writer's counter.
    fn write(&self, writer: u64) {
        let mut batch = WriteBatch::new();
        for count in 1..=self.settings.batches {
            batch.clear();
            batch.put(key(writer, count), value(count));
            batch.put_cf(&self.twin, key(writer, count), value(count));
            batch.put([b'c', writer as u8], value(count));
            batch.put_cf(&self.twin, [b'c', writer as u8], value(count));
            let sync = self.settings.sync_every > 0 && count % self.settings.sync_every == 0;
            self.db.write(&mut batch, &WriteOptions::default().sync(sync)).unwrap();
            self.acknowledged[writer as usize].store(count, Ordering::Release);
        }
    }

    /// Reads at snapshots and without, until the writers are done.
    fn read(&self, reader: u64) {
        let mut seen = [0; WRITERS as usize];
        let mut rounds = 0;
        while !self.done.load(Ordering::Acquire) || rounds < 3 {
            rounds += 1;
            for writer in 0..WRITERS {
                let known = self.acknowledged[writer as usize].load(Ordering::Acquire);
                let now = self.db.get([b'c', writer as u8]).unwrap().map_or(0, |value| count_of(&value));
                assert!(now >= known, "an acknowledged write is not visible: {now} after {known}");
                assert!(now >= seen[writer as usize], "a counter went back");
                seen[writer as usize] = now;
            }
            let snapshot = self.db.snapshot();
            let at = ReadOptions::default().snapshot(Some(snapshot));
            match (reader + rounds) % 3 {
                0 => self.compare_iterators(&at),
                1 => self.compare_iterators(&ReadOptions::default()),
                _ => self.compare_gets(&at, &seen),
            }
        }
    }

    /// Both families have the same rows, forward and backward.
    fn compare_iterators(&self, options: &ReadOptions) {
        let default = self.db.default_family();
        let mut iters = self.db.iters(&[&default, &self.twin], options).unwrap();
        let (mut first, mut second) = (iters.remove(0), iters.remove(0));
        let mut forward = 0;
        first.seek_to_first();
        second.seek_to_first();
        while first.valid() || second.valid() {
            assert_eq!((first.key(), first.value()), (second.key(), second.value()), "the families differ");
            forward += 1;
            first.next();
            second.next();
        }
        first.status().unwrap();
        second.status().unwrap();
        let mut backward = 0;
        first.seek_to_last();
        while first.valid() {
            backward += 1;
            first.prev();
        }
        assert_eq!(forward, backward);
    }

    fn compare_gets(&self, at: &ReadOptions, seen: &[u64]) {
        let default = self.db.default_family();
        for writer in 0..WRITERS {
            let counter = [b'c', writer as u8];
            let keys: Vec<[u8; 2]> = (0..KEYS).map(|number| key(writer, number)).collect();
            let slices: Vec<&[u8]> = keys.iter().map(|key| &key[..]).chain([&counter[..]]).collect();
            let ours = self.db.multi_get_cf(&default, &slices, at);
            let theirs = self.db.multi_get_cf(&self.twin, &slices, at);
            let mut newest = 0;
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
                assert_eq!(ours.as_deref(), theirs.as_deref(), "the families differ at a snapshot");
                newest = newest.max(ours.map_or(0, |value| count_of(&value)));
            }
            let counter = self.db.get_cf(&default, counter, at).unwrap().map_or(0, |value| count_of(&value));
            assert_eq!(counter, newest, "a batch is visible in part");
            assert!(counter >= seen[writer as usize], "a snapshot is older than what was read before it");
        }
    }

    /// Flushes, compacts, syncs, creates and drops until the writers are done.
    fn disturb(&self) {
        let default = self.db.default_family();
        let mut round = 0;
        while !self.done.load(Ordering::Acquire) {
            round += 1;
            match round % 6 {
                0 => self.db.flush(&FlushOptions::default()).unwrap(),
                1 => self.db.flush_families(&[&default, &self.twin], &FlushOptions::default()).unwrap(),
                2 => self.db.compact_range(&self.twin, None, None, &CompactRangeOptions::default()).unwrap(),
                3 => self.db.sync_wal().unwrap(),
                4 => self.come_and_go(round),
                _ => {
                    self.db.disable_file_deletions();
                    self.db.pause_background_work().unwrap();
                    self.db.resume_background_work();
                    self.db.enable_file_deletions();
                }
            }
        }
    }

    /// A family is created, written to, flushed now and then, and dropped.
    fn come_and_go(&self, round: u64) {
        let name = format!("passing{round}");
        let small = ColumnFamilyOptions::default().write_buffer_size(4 << 10);
        let family = self.db.create_family(&name, &small).unwrap();
        for number in 0..50_u64 {
            self.db.put_cf(&family, number.to_be_bytes(), [b'x'; 100], &WriteOptions::default()).unwrap();
        }
        let iter = self.db.iter_cf(&family, &ReadOptions::default());
        if round.is_multiple_of(4) {
            self.db.flush_families(&[&family], &FlushOptions::default()).unwrap();
        }
        assert_eq!(self.db.get_cf(&family, 7_u64.to_be_bytes(), &ReadOptions::default()).unwrap().unwrap().len(), 100);
        self.db.drop_family(&family).unwrap();
        // An iterator made before still shows all of it.
        let mut iter = iter.unwrap();
        iter.seek_to_first();
        let mut rows = 0;
        while iter.valid() {
            rows += 1;
            iter.next();
        }
        iter.status().unwrap();
        assert_eq!(rows, 50);
        let gone = self.db.put_cf(&family, "k", "v", &WriteOptions::default());
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

fn run(settings: Settings) {
    let dir = tempfile::tempdir().unwrap();
    let db = settings.open(dir.path());
    let twin = db.family("twin").unwrap();
    let shared = Shared { db: &db, twin, settings, acknowledged: Default::default(), done: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let shared = &shared;
                    move || shared.write(writer)
                })
            })
            .collect();
        for reader in 0..2 {
            let shared = &shared;
            scope.spawn(move || shared.read(reader));
        }
        scope.spawn(|| shared.disturb());
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        shared.done.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok), "a writer failed: {settings:?}");
    });
    drop(shared);
    db.wait_for_background_work().unwrap();
    db.check().unwrap();
    db.close().unwrap();
    let db = settings.open(dir.path());
    let twin = db.family("twin").unwrap();
    assert_eq!(db.families().len(), 2);
    db.check().unwrap();
    let options = ReadOptions::default();
    for writer in 0..WRITERS {
        for family in [&db.default_family(), &twin] {
            let counter = db.get_cf(family, [b'c', writer as u8], &options).unwrap().unwrap();
            assert_eq!(count_of(&counter), settings.batches);
            for back in 0..KEYS {
                let count = settings.batches - back;
                let found = db.get_cf(family, key(writer, count), &options).unwrap().unwrap();
                assert_eq!(*found, *value(count));
            }
        }
    }
}

const BASE: Settings = Settings {
    batches: 3_000,
    sync_every: 0,
    concurrent_bytes: 0,
    write_buffer_size: 16 << 10,
    wal_sync_millis: 0,
    max_total_wal_size: 0,
};

#[test]
fn unsynced_writers_lose_and_split_nothing() {
    run(BASE);
}

#[test]
fn synced_and_unsynced_writers_lose_and_split_nothing() {
    run(Settings { batches: 600, sync_every: 3, wal_sync_millis: 1, ..BASE });
}

#[test]
fn writers_that_insert_in_parallel_lose_and_split_nothing() {
    run(Settings { concurrent_bytes: 1, sync_every: 40, ..BASE });
}

#[test]
fn writers_under_a_small_limit_of_wals_lose_and_split_nothing() {
    run(Settings { concurrent_bytes: 300, max_total_wal_size: 24 << 10, write_buffer_size: 64 << 10, ..BASE });
}
