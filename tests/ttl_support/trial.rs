//! A drawn run of writes, reads, clocks, changes of durations, compactions, openings and crashes over two families.

use super::model::{Model, Rows};
use super::small_family;
use crate::expiry_support::{DIR, Rng, START, options, seconds};
use siltstone::lsm::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, Counter, Db, DbOptions, ExpiryBlocker,
    FlushOptions, IndexType, IngestExternalFileOptions, Iter, ReadOptions, Snapshot, SstFileWriter, TableOptions,
    TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use siltstone::ttl::{ErrorKind, Result, StampLayout, Ttl};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, read_file};
use siltstone_base::executor::StepExecutor;
use siltstone_base::expiry::{MAX_RECORD_BYTES, Record};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FAMILIES: [&str; 2] = ["default", "other"];

/// Further than a clock is trusted to go at an opening.
const FAR_SECONDS: u64 = 40 * 86_400;

/// A family: how it is opened, and what is in it.
struct Kin {
    options: ColumnFamilyOptions,
    layout: StampLayout,
    ttl: Arc<Ttl>,
    model: Model,
}

/// The engine while it is open.
struct Engine {
    transactions: TransactionDb,
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
    options: DbOptions,
}

impl Engine {
    fn open(disk: &SimDisk, kin: &[Kin], now: u64) -> Result<Self> {
        let clock = Arc::new(ManualClock::new(now));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let options = options(disk, &executor).create_missing_column_families(true);
        let family = |kin: &Kin| kin.options.clone().expiry(Some(kin.ttl.clone()));
        let families: Vec<_> = FAMILIES.into_iter().zip(kin.iter().map(family)).collect();
        let transactions = TransactionDb::open(DIR, &options, &families, &TransactionDbOptions::default())?;
        Ok(Self { transactions, clock, executor, options })
    }
}

/// A change of one row: its family, its key, and its value or none.
type Change = (usize, Vec<u8>, Option<Vec<u8>>);

/// One run.
pub struct Trial {
    seed: u64,
    rng: Rng,
    disk: SimDisk,
    kin: Vec<Kin>,
    engine: Option<Engine>,
    /// Snapshots, with what reads at them show.
    snapshots: Vec<(Snapshot, Vec<Rows>)>,
    /// Iterators that were moved already, with their family, and what they have still to show.
    walks: Vec<(Iter, usize, Rows)>,
    prepared: Vec<(String, Vec<Change>)>,
    /// The latest time that was seen.
    latest: u64,
    /// The latest that was trusted, while this one is not.
    known: Option<u64>,
    removed_before: u64,
    names: u64,
    steps: Vec<String>,
    pub rows_removed: u64,
    pub files_dropped: u64,
    pub blocks_skipped: u64,
    /// Openings that showed rows again that had expired before a crash.
    pub went_back: u64,
}

impl Trial {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let styles =
            [CompactionStyle::Leveled, CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy];
        let mut kin = || {
            let style = styles[rng.below(4) as usize];
            let layout = if rng.below(2) == 0 { StampLayout::Prefix } else { StampLayout::Suffix };
            let duration = 50 + rng.below(200);
            // From two rows a block on.
            let block_size = [256, 256, 512, 4096][rng.below(4) as usize];
            let index_type = if rng.below(3) == 0 { IndexType::TwoLevel } else { IndexType::BinarySearch };
            let table = TableOptions::default().block_size(block_size).index_type(index_type).metadata_block_size(128);
            let ttl = Arc::new(Ttl::new(layout, seconds(duration)));
            Kin { options: small_family(style).table(table), layout, ttl, model: Model::new(layout, duration) }
        };
        let kin = vec![kin(), kin()];
        let disk = SimDisk::new();
        let engine = Engine::open(&disk, &kin, START).unwrap();
        let begin =
            |kin: &Kin| format!("{:?}, {:?}, {} s", kin.options.compaction_style, kin.layout, kin.ttl.duration());
        Self {
            seed,
            rng,
            disk,
            steps: kin.iter().map(begin).collect(),
            kin,
            engine: Some(engine),
            snapshots: Vec::new(),
            walks: Vec::new(),
            prepared: Vec::new(),
            latest: START,
            known: None,
            removed_before: 0,
            names: 0,
            rows_removed: 0,
            files_dropped: 0,
            blocks_skipped: 0,
            went_back: 0,
        }
    }

    pub fn run(&mut self) {
        for _ in 0..12 + self.rng.below(18) {
            self.step();
            self.check();
        }
        self.let_go();
        self.note();
        self.engine.take().unwrap().transactions.close().unwrap();
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn db(&self) -> &Db {
        self.engine().transactions.db()
    }

    fn family(&self, which: usize) -> ColumnFamily {
        self.db().family(FAMILIES[which]).unwrap()
    }

    /// The time by which rows are expired.
    fn now(&self) -> u64 {
        self.db().expiry_report(&self.family(0)).unwrap().unwrap().unix_seconds
    }

    fn pass(&self, seconds: u64) {
        self.engine().clock.advance(Duration::from_secs(seconds));
        self.engine().executor.run_until_idle();
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..26 => self.write(),
            26..32 => self.write_batch(),
            32..36 => self.ingest(),
            36..42 => self.transact(),
            42..56 => {
                let passed = 1 + self.rng.below(60);
                self.steps.push(format!("{passed} s pass"));
                self.pass(passed);
            }
            56..59 => self.move_wall(),
            59..66 => {
                self.steps.push("flush".to_owned());
                let families = FAMILIES.map(|name| self.db().family(name).unwrap());
                let families: Vec<&ColumnFamily> = families.iter().collect();
                self.db().flush_families(&families, &FlushOptions::default()).unwrap();
            }
            66..71 => {
                self.steps.push("wait".to_owned());
                self.db().wait_for_background_work().unwrap();
            }
            71..75 => {
                let (which, force) = (self.rng.below(2) as usize, self.rng.below(2) == 0);
                self.steps.push(format!("compact {which}, force {force}"));
                let options = CompactRangeOptions::default().force_bottommost(force);
                self.db().compact_range(&self.family(which), None, None, &options).unwrap();
            }
            75..80 => {
                let now = self.now();
                let snapshot = self.db().snapshot();
                assert_eq!(snapshot.unix_seconds(), now, "{}", self.told());
                self.steps.push(format!("snapshot at {now}"));
                let rows = self.kin.iter().map(|kin| kin.model.visible(now)).collect();
                self.snapshots.push((snapshot, rows));
            }
            80..83 => self.walk_slowly(),
            83..87 => {
                self.steps.push("let all go".to_owned());
                self.let_go();
            }
            87..94 => self.change_duration(),
            _ => self.reopen(),
        }
    }

    /// Ends what pins something, but for transactions that are prepared.
    fn let_go(&mut self) {
        self.snapshots.clear();
        for (mut walk, which, expected) in std::mem::take(&mut self.walks) {
            let mut found = Rows::new();
            while walk.valid() {
                found.insert(walk.key().to_vec(), walk.value().to_vec());
                walk.next();
            }
            walk.status().unwrap();
            assert_eq!(found, expected, "the rest of a walk over family {which}: {}", self.told());
        }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{:03}", self.rng.below(60)).into_bytes()
    }

    /// A value as it is stored. Of a column: stamps are not always later than those that they replace, some are of the future, and some values have none.
    fn value(&mut self, which: usize, now: u64) -> Vec<u8> {
        let (layout, duration) = (self.kin[which].layout, self.kin[which].model.duration);
        let stamp = match self.rng.below(16) {
            0 => return vec![b'n'; self.rng.below(4) as usize],
            1..6 => now,
            6 => now + self.rng.below(2 * duration),
            _ => now.saturating_sub(self.rng.below(2 * duration)),
        };
        let len = 1 + self.rng.below(150) as usize;
        layout.stamped(&vec![b'v'; len], stamp).unwrap()
    }

    fn synced(&self) -> WriteOptions {
        WriteOptions::default().sync(true)
    }

    fn write(&mut self) {
        let (now, which) = (self.now(), self.rng.below(2) as usize);
        let count = 1 + self.rng.below(40);
        self.steps.push(format!("{count} writes to {which} at {now}"));
        let (family, options) = (self.family(which), self.synced());
        for _ in 0..count {
            let key = self.key();
            match self.rng.below(24) {
                0..2 => {
                    self.db().delete_cf(&family, &key, &options).unwrap();
                    self.kin[which].model.rows.remove(&key);
                }
                2 => self.write_once(which, &family, now),
                3 => {
                    let end = format!("key{:03}", self.rng.below(60)).into_bytes();
                    let (begin, end) = if key <= end { (key, end) } else { (end, key) };
                    self.db().delete_range_cf(&family, &begin, &end, &options).unwrap();
                    self.kin[which].model.rows.retain(|key, _| *key < begin || *key >= end);
                }
                _ => {
                    let value = self.value(which, now);
                    self.db().put_cf(&family, &key, &value, &options).unwrap();
                    self.kin[which].model.rows.insert(key, value);
                }
            }
        }
    }

    /// Rows that are put once, and deleted by single deletes, expired or not.
    fn write_once(&mut self, which: usize, family: &ColumnFamily, now: u64) {
        let options = self.synced();
        if self.rng.below(2) == 0
            && let Some(key) = self.kin[which].model.put_once.pop()
        {
            self.db().single_delete_cf(family, &key, &options).unwrap();
            self.kin[which].model.rows.remove(&key);
            return;
        }
        let key = format!("once{:03}", self.rng.below(20)).into_bytes();
        if !self.kin[which].model.put_once.contains(&key) {
            let value = self.value(which, now);
            self.db().put_cf(family, &key, &value, &options).unwrap();
            self.kin[which].model.rows.insert(key.clone(), value);
            self.kin[which].model.put_once.push(key);
        }
    }

    /// Changes of both families.
    fn changes(&mut self, most: u64, now: u64) -> Vec<Change> {
        let count = 1 + self.rng.below(most);
        let mut changes = Vec::new();
        for _ in 0..count {
            let (which, key) = (self.rng.below(2) as usize, self.key());
            let value = (self.rng.below(6) > 0).then(|| self.value(which, now));
            changes.push((which, key, value));
        }
        changes
    }

    fn made(&mut self, changes: Vec<Change>) {
        for (which, key, value) in changes {
            let rows = &mut self.kin[which].model.rows;
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
    }

    fn write_batch(&mut self) {
        let now = self.now();
        let changes = self.changes(20, now);
        self.steps.push(format!("a batch of {} at {now}", changes.len()));
        let families = FAMILIES.map(|name| self.db().family(name).unwrap());
        let mut batch = WriteBatch::new();
        for (which, key, value) in &changes {
            match value {
                Some(value) => batch.put_cf(&families[*which], key, value),
                None => batch.delete_cf(&families[*which], key),
            }
        }
        self.db().write(&mut batch, &self.synced()).unwrap();
        self.made(changes);
    }

    fn ingest(&mut self) {
        let (now, which) = (self.now(), self.rng.below(2) as usize);
        let rows: Rows = (0..1 + self.rng.below(12)).map(|_| (self.key(), self.value(which, now))).collect();
        self.steps.push(format!("{} rows are taken in by {which} at {now}", rows.len()));
        self.names += 1;
        self.disk.env().create_dir_all(Path::new("/external")).unwrap();
        let path = format!("/external/{:03}.sst", self.names);
        let options = self.kin[which].options.clone().expiry(Some(self.kin[which].ttl.clone()));
        let mut writer = SstFileWriter::create(&path, &self.engine().options, &options).unwrap();
        for (key, value) in &rows {
            writer.put(key, value).unwrap();
        }
        writer.finish().unwrap();
        let family = self.family(which);
        self.db().ingest_external_files(&family, &[path], &IngestExternalFileOptions::default()).unwrap();
        self.kin[which].model.rows.extend(rows);
    }

    /// Prepares a transaction, or decides about one.
    fn transact(&mut self) {
        let now = self.now();
        if self.prepared.len() >= 2 || (!self.prepared.is_empty() && self.rng.below(2) == 0) {
            let (name, changes) = self.prepared.remove(0);
            if self.rng.below(3) == 0 {
                self.steps.push(format!("rollback of {name}"));
                self.engine().transactions.rollback_prepared(&name).unwrap();
            } else {
                self.steps.push(format!("commit of {name} at {now}"));
                self.engine().transactions.commit_prepared(&name).unwrap();
                self.db().sync_wal().unwrap();
                self.made(changes);
            }
            return;
        }
        let mut changes = self.changes(5, now);
        // Its locks must not meet those of another.
        let is_free = |key: &[u8], which: usize| {
            !self
                .prepared
                .iter()
                .flat_map(|(_, changes)| changes)
                .any(|(other, locked, _)| (*other, locked.as_slice()) == (which, key))
        };
        changes.retain(|(which, key, _)| is_free(key, *which));
        if changes.is_empty() {
            return;
        }
        self.names += 1;
        let name = format!("transaction {}", self.names);
        self.steps.push(format!("{name} is prepared at {now}"));
        let families = FAMILIES.map(|name| self.db().family(name).unwrap());
        let mut transaction = self.engine().transactions.begin(&TransactionOptions::default());
        for (which, key, value) in &changes {
            match value {
                Some(value) => transaction.put_cf(&families[*which], key, value).unwrap(),
                None => transaction.delete_cf(&families[*which], key).unwrap(),
            }
        }
        // What it has itself is hidden as the rest is.
        for (which, key, _) in &changes {
            let found = transaction.get_cf(&families[*which], key).unwrap();
            let mut walk = transaction.iter_cf(&families[*which], &ReadOptions::default()).unwrap();
            walk.seek(key);
            let walked = (walk.valid() && walk.key() == key.as_slice()).then(|| walk.value().to_vec());
            assert_eq!(found.map(|value| value.to_vec()), walked, "in a transaction: {}", self.told());
        }
        transaction.prepare(&name).unwrap();
        self.prepared.push((name, changes));
    }

    /// Somebody sets the clock, or the machine sleeps.
    fn move_wall(&mut self) {
        let by = self.rng.below(2000) as i64 - 500;
        self.steps.push(format!("the wall clock moves by {by} s"));
        let before = self.now();
        self.engine().clock.move_wall(by);
        assert!(self.now() >= before, "{}", self.told());
        if self.rng.below(2) == 0 {
            self.steps.push("which is confirmed".to_owned());
            self.confirm();
            let blockers = self.db().expiry_report(&self.family(0)).unwrap().unwrap().blockers;
            let is_behind = |blocker: &ExpiryBlocker| matches!(blocker, ExpiryBlocker::ClockBehind { .. });
            assert!(!blockers.iter().any(is_behind), "{}", self.told());
        }
    }

    fn confirm(&mut self) {
        self.db().confirm_clock().unwrap();
        self.known = None;
    }

    /// Begins a walk, and moves it halfway.
    fn walk_slowly(&mut self) {
        let (now, which) = (self.now(), self.rng.below(2) as usize);
        self.steps.push(format!("a walk over {which} begins at {now}"));
        let mut rest = self.kin[which].model.visible(now);
        let mut walk = self.db().iter_cf(&self.family(which), &ReadOptions::default()).unwrap();
        walk.seek_to_first();
        for _ in 0..rest.len() / 2 {
            let first = rest.pop_first().unwrap();
            assert_eq!((walk.key(), walk.value()), (first.0.as_slice(), first.1.as_slice()), "{}", self.told());
            walk.next();
        }
        self.walks.push((walk, which, rest));
    }

    fn change_duration(&mut self) {
        let (now, which) = (self.now(), self.rng.below(2) as usize);
        let changes = 1 + self.rng.below(3);
        for _ in 0..changes {
            let duration = 20 + self.rng.below(300);
            self.steps.push(format!("{duration} s for {which} at {now}"));
            let changed = self.kin[which].ttl.set_duration(seconds(duration));
            match self.known {
                None => {
                    changed.unwrap();
                    self.kin[which].model.change(duration, now);
                }
                Some(_) if duration == self.kin[which].model.given() => changed.unwrap(),
                Some(_) => assert_eq!(changed.unwrap_err().kind(), ErrorKind::Busy, "{}", self.told()),
            }
        }
    }

    /// Closes the engine or lets the power go, and opens it with another clock and perhaps other durations.
    fn reopen(&mut self) {
        self.let_go();
        let now = self.now();
        self.note();
        self.removed_before = 0;
        let is_crash = self.rng.below(2) == 0;
        let engine = self.engine.take().unwrap();
        if is_crash {
            let left = self.disk.after_power_loss();
            self.disk.power_off();
            engine.executor.abandon_all();
            // An error is what a lost disk answers.
            let _ = engine.transactions.close();
            self.disk = left;
        } else {
            engine.transactions.close().unwrap();
        }
        // What was trusted last.
        let before = self.known.unwrap_or(now);
        let mut known = None;
        let clock = match self.rng.below(8) {
            // A crash forgets the time since it was written down last.
            0 if !is_crash => before - self.rng.below(100_000),
            0 | 1 if self.known.is_none() => self.back_to(before),
            1 if !is_crash => {
                known = Some(before);
                before + FAR_SECONDS + self.rng.below(1000)
            }
            2 | 3 => before + self.rng.below(200),
            _ => before,
        };
        self.steps.push(format!("open after a crash {is_crash} at {clock}"));
        for which in 0..self.kin.len() {
            let given = self.kin[which].model.given();
            let duration = if self.rng.below(3) == 0 { 20 + self.rng.below(300) } else { given };
            self.steps.push(format!("family {which} with {duration} s"));
            self.kin[which].ttl = Arc::new(Ttl::new(self.kin[which].layout, seconds(duration)));
        }
        let opened = Engine::open(&self.disk, &self.kin, clock);
        self.engine = Some(opened.unwrap_or_else(|error| panic!("{error}: {}", self.told())));
        let opened_at = self.now();
        assert!(opened_at >= if is_crash { clock } else { clock.max(before) }, "{}", self.told());
        (self.known, self.latest) = (known, opened_at);
        for which in 0..self.kin.len() {
            let kin = &mut self.kin[which];
            kin.model.reopened(kin.ttl.duration().seconds(), known.unwrap_or(opened_at));
            if opened_at < before {
                self.look_back(which, opened_at);
            }
        }
        if known.is_some() && self.rng.below(3) == 0 {
            self.steps.push("the clock is right".to_owned());
            self.confirm();
        }
    }

    /// A time from when it was written down last to `before`.
    fn back_to(&mut self, before: u64) -> u64 {
        let file = read_file(&*self.disk.env(), &Path::new(DIR).join("EXPIRY"), FileKind::Other, MAX_RECORD_BYTES);
        let written = Record::decode(&file.unwrap()).unwrap().seen;
        let changed = self.kin.iter().map(|kin| kin.model.changed).max().unwrap_or(0);
        let first = written.max(changed).min(before);
        self.kin.iter_mut().for_each(|kin| kin.model.look(before, true));
        first + self.rng.below(before - first + 1)
    }

    /// Time went back by a crash: what was seen last is seen, and of what had expired since, whatever was not removed, as it was.
    fn look_back(&mut self, which: usize, now: u64) {
        let must = self.kin[which].model.went_back(now);
        let may = self.kin[which].model.visible(now);
        let found = self.walk(which, &ReadOptions::default(), true);
        assert!(must.iter().all(|(key, value)| found.get(key) == Some(value)), "{which}: {}", self.told());
        assert!(found.iter().all(|(key, value)| may.get(key) == Some(value)), "{which}: {}", self.told());
        self.kin[which].model.rows.retain(|key, _| found.contains_key(key) || !may.contains_key(key));
        self.went_back += u64::from(found.len() > must.len());
    }

    fn check(&mut self) {
        let now = self.now();
        assert!(now >= self.latest, "time goes back from {} to {now}: {}", self.latest, self.told());
        self.latest = now;
        let is_trusted = self.known.is_none();
        self.kin.iter_mut().for_each(|kin| kin.model.look(now, is_trusted));
        let (metrics, read) = (self.db().metrics(), ReadOptions::default());
        let removed = metrics.get(Counter::ExpiredRowsRemoved);
        assert!(is_trusted || removed == self.removed_before, "removed by a wrong clock: {}", self.told());
        self.removed_before = removed;
        let is_thorough = self.rng.below(4) == 0;
        for which in 0..self.kin.len() {
            let expected = self.kin[which].model.visible(now);
            assert_eq!(self.walk(which, &read, true), expected, "forward over {which}: {}", self.told());
            if !is_thorough {
                continue;
            }
            assert_eq!(self.walk(which, &read, false), expected, "backward over {which}: {}", self.told());
            let family = self.family(which);
            let keys: Vec<&[u8]> = self.kin[which].model.rows.keys().map(Vec::as_slice).collect();
            let found = self.db().multi_get_cf(&family, &keys, &read);
            for (key, found) in keys.into_iter().zip(found) {
                let found = found.unwrap().map(|value| value.to_vec());
                assert_eq!(found.as_ref(), expected.get(key), "multi_get: {}", self.told());
                let found = self.db().get_cf(&family, key, &read).unwrap().map(|value| value.to_vec());
                assert_eq!(found.as_ref(), expected.get(key), "get: {}", self.told());
            }
        }
        for (snapshot, expected) in &self.snapshots {
            let read = ReadOptions::default().snapshot(Some(snapshot.clone()));
            for (which, expected) in expected.iter().enumerate() {
                let walked = self.walk(which, &read, !is_thorough);
                assert_eq!(walked, *expected, "over {which} at a snapshot: {}", self.told());
            }
        }
    }

    fn walk(&self, which: usize, read: &ReadOptions, is_forward: bool) -> Rows {
        let mut rows = self.db().iter_cf(&self.family(which), read).unwrap();
        let mut found = Rows::new();
        if is_forward {
            rows.seek_to_first()
        } else {
            rows.seek_to_last()
        }
        while rows.valid() {
            let before = found.insert(rows.key().to_vec(), rows.value().to_vec());
            assert!(before.is_none(), "a row twice: {}", self.told());
            if is_forward { rows.next() } else { rows.prev() }
        }
        rows.status().unwrap();
        found
    }

    /// Takes note of what was removed.
    fn note(&mut self) {
        let metrics = self.db().metrics();
        let (rows, files) = (metrics.get(Counter::ExpiredRowsRemoved), metrics.get(Counter::ExpiredFilesDropped));
        let blocks = metrics.get(Counter::ExpiredBlocksSkipped);
        self.rows_removed += rows;
        self.files_dropped += files;
        self.blocks_skipped += blocks;
    }

    fn told(&self) -> String {
        format!("seed {}\n{}", self.seed, self.steps.join("\n"))
    }
}
