//! An engine on a simulated disk, with all its work on the calling thread.

use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use siltstone_lsm::{
    ColumnFamilyOptions, CompactionInfo, CompactionStyle, CompressionType, Db, DbOptions, EventListener, FlushInfo,
    Result, TableOptions,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The directory of the database on every disk.
pub const DIR: &str = "/db";

/// Names of the families that scripts use; the first one always exists.
pub const FAMILIES: [&str; 4] = ["default", "f1", "f2", "f3"];

/// The options that scripts vary.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Bytes of a memtable.
    pub write_buffer_size: usize,
    /// Bytes at which the MANIFEST is replaced.
    pub max_manifest_file_size: u64,
    /// Bytes of WALs at which idle families are flushed.
    pub max_total_wal_size: u64,
    /// Files in level 0 at which they are compacted.
    pub l0_trigger: usize,
    /// Bytes of the base level and of a table.
    pub level_base: u64,
    /// Levels.
    pub num_levels: usize,
    /// Derives the targets of levels from the last one.
    pub dynamic_levels: bool,
    /// How tables are merged.
    pub style: CompactionStyle,
    /// Starts no compaction by itself.
    pub disable_auto_compactions: bool,
    /// Syncs the WAL in the background every so many milliseconds.
    pub wal_sync_interval_millis: u64,
    /// Seed of the order of jobs; `None`: by priority.
    pub schedule: Option<u64>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            write_buffer_size: 4 << 10,
            max_manifest_file_size: 1 << 20,
            max_total_wal_size: 0,
            l0_trigger: 3,
            level_base: 8 << 10,
            num_levels: 4,
            dynamic_levels: true,
            style: CompactionStyle::Leveled,
            disable_auto_compactions: false,
            wal_sync_interval_millis: 0,
            schedule: None,
        }
    }
}

impl Profile {
    /// The options of every family.
    pub fn family_options(&self) -> ColumnFamilyOptions {
        ColumnFamilyOptions::default()
            .write_buffer_size(self.write_buffer_size)
            .level0_file_num_compaction_trigger(self.l0_trigger)
            .max_bytes_for_level_base(self.level_base)
            .max_bytes_for_level_multiplier(2)
            .target_file_size_base(self.level_base / 2)
            .level_compaction_dynamic_level_bytes(self.dynamic_levels)
            .num_levels(self.num_levels)
            .compaction_style(self.style)
            .disable_auto_compactions(self.disable_auto_compactions)
            .compression(CompressionType::None)
            .table(TableOptions::default().block_size(1024))
    }

    fn db_options(&self) -> DbOptions {
        DbOptions::default()
            .create_if_missing(true)
            .max_manifest_file_size(self.max_manifest_file_size)
            .max_total_wal_size(self.max_total_wal_size)
            .wal_sync_interval_millis(self.wal_sync_interval_millis)
            .bytes_per_sync(0)
            // Nobody is alone on this clock: what waits for quiet seconds has tests of its own.
            .drain_when_read_only_seconds(0)
    }
}

/// A disk, and the executor and clock of one life of an engine.
#[derive(Debug)]
pub struct Rig {
    /// The disk.
    pub disk: SimDisk,
    /// What the engine's jobs run on.
    pub executor: Arc<StepExecutor>,
    profile: Profile,
}

impl Rig {
    /// A rig over `disk`.
    pub fn new(disk: SimDisk, profile: &Profile) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000));
        let executor = match profile.schedule {
            None => StepExecutor::new(clock),
            Some(seed) => StepExecutor::with_seed(clock, seed),
        };
        Self { disk, executor: Arc::new(executor), profile: profile.clone() }
    }

    /// The options of every family.
    pub fn family_options(&self) -> ColumnFamilyOptions {
        self.profile.family_options()
    }

    /// Opens the engine with the options of all families.
    pub fn open(&self) -> Result<Db> {
        let listener: Arc<dyn EventListener> = Arc::new(Phases::new(self.disk.clone()));
        let options = self
            .profile
            .db_options()
            .env(Some(self.disk.env()))
            .executor(Some(self.executor.clone()))
            .listeners(vec![listener]);
        let names = Db::list_column_families(DIR, &options).unwrap_or_default();
        let families: Vec<_> = names.iter().map(|name| (name.as_str(), self.profile.family_options())).collect();
        if families.is_empty() {
            return Db::open_families(DIR, &options, &[(FAMILIES[0], self.profile.family_options())]);
        }
        Db::open_families(DIR, &options, &families)
    }

    /// Ends this life without a word: nothing that the engine still does reaches the disk.
    pub fn kill(self, db: Option<Db>) {
        self.disk.power_off();
        drop(db);
        self.executor.abandon_all();
    }
}

/// A disk with a durable, empty directory for the database.
pub fn empty_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new(DIR)).expect("an empty disk takes a directory");
    disk
}

/// Names what the engine does in the background.
#[derive(Debug)]
struct Phases {
    disk: SimDisk,
    flushes: AtomicUsize,
    compactions: AtomicUsize,
}

impl Phases {
    fn new(disk: SimDisk) -> Self {
        Self { disk, flushes: AtomicUsize::new(0), compactions: AtomicUsize::new(0) }
    }

    fn name(&self) {
        let flushes = self.flushes.load(Ordering::Relaxed);
        let compactions = self.compactions.load(Ordering::Relaxed);
        self.disk.set_phase(match (flushes, compactions) {
            (0, 0) => "",
            (0, _) => "compaction",
            (_, _) => "flush",
        });
    }
}

impl EventListener for Phases {
    fn flush_begin(&self, _: &FlushInfo) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.name();
    }

    fn flush_end(&self, _: &FlushInfo) {
        self.flushes.fetch_sub(1, Ordering::Relaxed);
        self.name();
    }

    fn compaction_begin(&self, _: &CompactionInfo) {
        self.compactions.fetch_add(1, Ordering::Relaxed);
        self.name();
    }

    fn compaction_end(&self, _: &CompactionInfo) {
        self.compactions.fetch_sub(1, Ordering::Relaxed);
        self.name();
    }
}
