//! An engine whose rows expire, on a simulated disk, and what every read of it must show.

#![expect(clippy::unwrap_used, reason = "a test")]

use siltstone::lsm::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, Counter, Db, DbOptions, FlushOptions, ReadOptions,
    Snapshot, TableOptions, WriteOptions,
};
use siltstone::ttl::{Result, StampLayout, Ttl, TtlDuration};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";
const START: u64 = 1_700_000_000;

/// A small generator; the seed alone decides.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

pub fn seconds(seconds: u64) -> TtlDuration {
    TtlDuration::from_seconds(seconds).unwrap()
}

pub fn small_family(style: CompactionStyle) -> ColumnFamilyOptions {
    ColumnFamilyOptions::default()
        .write_buffer_size(8 << 10)
        .level0_file_num_compaction_trigger(2)
        .target_file_size_base(4 << 10)
        .max_bytes_for_level_base(8 << 10)
        .max_bytes_for_level_multiplier(2)
        .num_levels(5)
        .compaction_style(style)
        .table(TableOptions::default().block_size(512))
}

pub fn options(disk: &SimDisk, executor: &Arc<StepExecutor>) -> DbOptions {
    let executor = Arc::clone(executor);
    DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(executor))
}

/// An open engine.
#[derive(Debug)]
pub struct Life {
    pub db: Db,
    clock: Arc<ManualClock>,
    executor: Arc<StepExecutor>,
}

impl Life {
    pub fn open(disk: &SimDisk, family: ColumnFamilyOptions, ttl: &Arc<Ttl>, now: u64) -> Result<Self> {
        let clock = Arc::new(ManualClock::new(now));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let db = Db::open_families(DIR, &options(disk, &executor), &[("default", family.expiry(Some(ttl.clone())))])?;
        Ok(Self { db, clock, executor })
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.executor.run_until_idle();
    }

    /// Bytes of tables that were written.
    pub fn written(&self) -> u64 {
        let metrics = self.db.metrics();
        metrics.get(Counter::FlushWriteBytes) + metrics.get(Counter::CompactWriteBytes)
    }

    pub fn close(self) {
        self.db.close().unwrap();
    }

    /// What a power loss leaves.
    pub fn lose_power(self, disk: &SimDisk) -> SimDisk {
        let left = disk.after_power_loss();
        disk.power_off();
        self.executor.abandon_all();
        // An error is what a lost disk answers.
        let _ = self.db.close();
        left
    }
}

/// What a read shows: key, then stamp and the rest of the value.
type Rows = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

/// Everything that was written, and which of it is expired.
#[derive(Clone, Default)]
struct Model {
    rows: Rows,
    /// Stamps up to here are expired whatever the duration is.
    floor: u64,
}

impl Model {
    /// The rows with stamps after `bound`.
    fn visible(&self, bound: u64) -> Rows {
        self.rows.iter().filter(|(_, row)| row.0 > bound).map(|(key, row)| (key.clone(), row.clone())).collect()
    }
}

/// A drawn run of writes, reads, clocks, changes of the duration, compactions, openings and crashes.
pub struct Trial {
    seed: u64,
    rng: Rng,
    disk: SimDisk,
    family: ColumnFamilyOptions,
    ttl: Arc<Ttl>,
    duration: u64,
    life: Option<Life>,
    model: Model,
    /// Snapshots, with what reads at them show.
    snapshots: Vec<(Snapshot, Rows)>,
    /// The latest time that was seen.
    latest: u64,
    steps: Vec<String>,
    pub rows_removed: u64,
    pub files_dropped: u64,
}

impl Trial {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let styles =
            [CompactionStyle::Leveled, CompactionStyle::Leveled, CompactionStyle::Universal, CompactionStyle::Lazy];
        let style = styles[rng.below(4) as usize];
        let layout = if rng.below(2) == 0 { StampLayout::Prefix } else { StampLayout::Suffix };
        let duration = 50 + rng.below(200);
        let ttl = Arc::new(Ttl::new(layout, seconds(duration)));
        let (disk, family) = (SimDisk::new(), small_family(style));
        let life = Life::open(&disk, family.clone(), &ttl, START).unwrap();
        let steps = vec![format!("{style:?}, {layout:?}, {duration} s")];
        Self {
            seed,
            rng,
            disk,
            family,
            ttl,
            duration,
            life: Some(life),
            model: Model::default(),
            snapshots: Vec::new(),
            latest: START,
            steps,
            rows_removed: 0,
            files_dropped: 0,
        }
    }

    pub fn run(&mut self) {
        for _ in 0..25 + self.rng.below(25) {
            self.step();
            self.check();
        }
        self.snapshots.clear();
        self.note();
        self.life.take().unwrap().close();
    }

    fn db(&self) -> &Db {
        &self.life.as_ref().unwrap().db
    }

    /// The time by which rows are expired.
    fn now(&self) -> u64 {
        let db = self.db();
        db.expiry_report(&db.default_family()).unwrap().unwrap().unix_seconds
    }

    fn bound(&self, now: u64) -> u64 {
        self.model.floor.max(now - self.duration)
    }

    fn step(&mut self) {
        let drawn = self.rng.below(100);
        match drawn {
            0..45 => self.write(),
            45..60 => {
                let passed = 1 + self.rng.below(60);
                self.steps.push(format!("{passed} s pass"));
                self.life.as_ref().unwrap().pass(passed);
            }
            60..68 => {
                self.steps.push("flush".to_owned());
                self.db().flush(&FlushOptions::default()).unwrap();
            }
            68..74 => {
                self.steps.push("wait".to_owned());
                self.db().wait_for_background_work().unwrap();
            }
            74..78 => {
                let force = self.rng.below(2) == 0;
                self.steps.push(format!("compact, force {force}"));
                let options = CompactRangeOptions::default().force_bottommost(force);
                self.db().compact_range(&self.db().default_family(), None, None, &options).unwrap();
            }
            78..84 => {
                let now = self.now();
                let snapshot = self.db().snapshot();
                assert_eq!(snapshot.unix_seconds(), now, "{}", self.told());
                self.steps.push(format!("snapshot at {now}"));
                self.snapshots.push((snapshot, self.model.visible(self.bound(now))));
            }
            84..88 => {
                if !self.snapshots.is_empty() {
                    self.steps.push("let a snapshot go".to_owned());
                    let which = self.rng.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.swap_remove(which);
                }
            }
            88..93 => self.change_duration(),
            _ => self.reopen(),
        }
    }

    fn write(&mut self) {
        let now = self.now();
        let count = 1 + self.rng.below(60);
        self.steps.push(format!("{count} writes at {now}"));
        let options = WriteOptions::default().sync(true);
        for _ in 0..count {
            let key = format!("key{:03}", self.rng.below(150)).into_bytes();
            let family = self.db().default_family();
            match self.rng.below(12) {
                0 => {
                    self.db().delete_cf(&family, &key, &options).unwrap();
                    self.model.rows.remove(&key);
                }
                drawn => {
                    // Of a column: not always later than what it replaces.
                    let stamp = if drawn < 5 { now } else { now - self.rng.below(2 * self.duration) };
                    let value = vec![b'v'; 1 + self.rng.below(60) as usize];
                    let stamped = self.ttl.layout().stamped(&value, stamp).unwrap();
                    self.db().put_cf(&family, &key, stamped, &options).unwrap();
                    self.model.rows.insert(key, (stamp, value));
                }
            }
        }
    }

    fn change_duration(&mut self) {
        // Where the clock went back, time stands still, and with it what a change would do.
        let before = self.now();
        self.life.as_ref().unwrap().pass(1);
        let now = self.now();
        if now == before {
            return;
        }
        let duration = 20 + self.rng.below(300);
        self.steps.push(format!("{duration} s at {now}"));
        self.ttl.set_duration(seconds(duration)).unwrap();
        self.model.floor = self.bound(now);
        self.duration = duration;
        // It counts from the next second on.
        self.life.as_ref().unwrap().pass(1);
    }

    /// Closes the engine or lets the power go, and opens it with another clock and perhaps another duration.
    fn reopen(&mut self) {
        self.snapshots.clear();
        let now = self.now();
        self.latest = self.latest.max(now);
        self.note();
        let is_crash = self.rng.below(2) == 0;
        let life = self.life.take().unwrap();
        if is_crash {
            self.disk = life.lose_power(&self.disk);
        } else {
            life.close();
        }
        let clock = match self.rng.below(4) {
            // A crash may forget the last seconds of the time.
            0 if !is_crash => now - self.rng.below(100_000),
            1 => now + self.rng.below(200),
            _ => now,
        };
        let duration = if self.rng.below(3) == 0 { 20 + self.rng.below(300) } else { self.duration };
        self.steps.push(format!("open after a crash {is_crash} at {clock} with {duration} s"));
        self.ttl = Arc::new(Ttl::new(self.ttl.layout(), seconds(duration)));
        let opened = Life::open(&self.disk, self.family.clone(), &self.ttl, clock);
        self.life = Some(opened.unwrap_or_else(|error| panic!("{error}: {}", self.told())));
        let opened_at = self.now();
        assert!(opened_at >= clock.max(now), "{}", self.told());
        if duration != self.duration {
            self.model.floor = self.bound(opened_at);
            self.duration = duration;
        }
    }

    fn check(&mut self) {
        let now = self.now();
        assert!(now >= self.latest, "time goes back from {} to {now}: {}", self.latest, self.told());
        self.latest = now;
        let expected = self.model.visible(self.bound(now));
        let read = ReadOptions::default();
        assert_eq!(self.walk(&read, true), expected, "forward: {}", self.told());
        assert_eq!(self.walk(&read, false), expected, "backward: {}", self.told());
        let family = self.db().default_family();
        for key in self.model.rows.keys() {
            let found = self.db().get_cf(&family, key, &read).unwrap().map(|value| self.row(&value));
            assert_eq!(found.as_ref(), expected.get(key), "get: {}", self.told());
        }
        for (snapshot, expected) in &self.snapshots {
            let read = ReadOptions::default().snapshot(Some(snapshot.clone()));
            assert_eq!(self.walk(&read, true), *expected, "at a snapshot: {}", self.told());
            assert_eq!(self.walk(&read, false), *expected, "backward at a snapshot: {}", self.told());
        }
    }

    fn row(&self, stamped: &[u8]) -> (u64, Vec<u8>) {
        let (value, stamp) = self.ttl.layout().split(stamped).unwrap();
        (stamp, value.to_vec())
    }

    fn walk(&self, read: &ReadOptions, is_forward: bool) -> Rows {
        let mut rows = self.db().iter(read).unwrap();
        let mut found = Rows::new();
        if is_forward {
            rows.seek_to_first()
        } else {
            rows.seek_to_last()
        }
        while rows.valid() {
            let before = found.insert(rows.key().to_vec(), self.row(rows.value()));
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
        self.rows_removed += rows;
        self.files_dropped += files;
    }

    fn told(&self) -> String {
        format!("seed {}\n{}", self.seed, self.steps.join("\n"))
    }
}
