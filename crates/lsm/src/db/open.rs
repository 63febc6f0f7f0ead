//! Opening: lock, MANIFEST, WALs, a new MANIFEST, a new WAL; then what is left over is deleted.

use super::archive::WalArchive;
use super::column_family::Family;
use super::compaction_log::CompactionLog;
use super::directory::{lock, read_identity, refuse_remains, write_identity};
use super::error_state::ErrorState;
use super::expiry::FamilyExpiry;
use super::io_rate::IoRate;
use super::lost_files;
use super::memory::TransactionMemory;
use super::merge_operators::{self, with_known_operator};
use super::obsolete_files::FileDeletions;
use super::open_tables::OpenTables;
use super::options_file::{self, OptionsFiles};
use super::pacing::{LowPriority, Pacer};
use super::pacing_watch::PacingWatch;
use super::prepare_again::prepare_again;
use super::prepared::{PreparedBatches, PreparedTransactions};
use super::prepared_logs::PreparedLogs;
use super::read_only_turn::ReadOnlyTurn;
use super::recovery::{RecoveringFamily, Recovery, list_logs};
use super::state::{DbInner, FamilyState, LiveWal, State, Surroundings, ranks};
use super::super_version::SuperVersion;
use super::surroundings::surroundings;
use super::timestamps::refuse_writing;
use super::wal_lag::WalLag;
use super::wal_promise::DurableWal;
use super::write::WriteSide;
use super::write_controller::WriteController;
use super::write_queue::WriteQueue;
use crate::expiry;
use crate::file_meta::ObsoleteTables;
use crate::file_names::FileName;
use crate::key::{ColumnFamilyId, SeqNo};
use crate::memtable::ImmutableList;
use crate::options::file::OptionsFile;
use crate::options::{ColumnFamilyOptions, DbOptions, LoadedOptions, ReadOptions, WalRecoveryMode, WriteAdmission};
use crate::snapshot::SnapshotList;
use crate::trace::{self, Work};
use crate::version::set::{self, FamilyRecord, list_families};
use crate::version::{FamilyConfig, Version, VersionEdit, VersionSet, VersionSetConfig};
use crate::wal::WalWriter;
use siltstone_base::comparator;
use siltstone_base::env::{FileLock, create_dir_durably};
use siltstone_base::expiry::Known;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64};
use siltstone_base::sync::{Arc, ArcSwap, CachePadded, Mutex, OnceLock, Signal};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::Path;

/// Opens a database for reading and writing.
pub(crate) fn open(dir: &Path, options: &DbOptions, named: &[(&str, ColumnFamilyOptions)]) -> Result<Arc<DbInner>> {
    open_for(dir, options, named, Undecided::Refused).map(|(inner, _)| inner)
}

/// The same for who decides about transactions that are prepared: their names and entries. They are prepared again.
pub(crate) fn open_prepared(
    dir: &Path,
    options: &DbOptions,
    named: &[(&str, ColumnFamilyOptions)],
) -> Result<(Arc<DbInner>, PreparedBatches)> {
    open_for(dir, options, named, Undecided::Kept)
}

/// What becomes of transactions that are prepared and not decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undecided {
    /// Opening fails.
    Refused,
    /// They are prepared again.
    Kept,
    /// They are not looked at.
    Ignored,
}

fn open_for(
    dir: &Path,
    options: &DbOptions,
    named: &[(&str, ColumnFamilyOptions)],
    undecided: Undecided,
) -> Result<(Arc<DbInner>, PreparedBatches)> {
    validate(options, named)?;
    let _span = trace::enter(Work::Open(dir, false));
    let mut surroundings = surroundings(dir, options)?;
    let env = Arc::clone(&surroundings.env);
    if options.create_if_missing {
        create_dir_durably(&*env, dir).map_err(|error| Error::io("create", dir, error))?;
    }
    let lock = lock(&*env, dir)?;
    let current = FileName::Current.path(dir);
    let exists = env.exists(&current).map_err(|error| Error::io("stat", &current, error))?;
    if exists && options.error_if_exists {
        return Err(Error::new(ErrorKind::AlreadyExists, "the database exists (error_if_exists is set)").with_file(dir));
    }
    if !exists && !options.create_if_missing {
        let message = "there is no database here (create_if_missing is not set)";
        return Err(Error::new(ErrorKind::MissingFile, message).with_file(&current));
    }
    if !exists {
        refuse_remains(&*env, dir)?;
    }
    let mut stored_id = read_identity(&*env, dir)?;
    let found = options_file::find(&surroundings)?;
    let keeps_table_format = exists && options.keep_table_format;
    let families = FamilyOptions { options, named, found: found.as_ref(), keeps_table_format };
    let obsolete_tables = Arc::new(ObsoleteTables::new());
    let config = version_set_config(&surroundings, &obsolete_tables);
    if !exists {
        refuse_writing("default", &families.given("default"))?;
        expiry::remove_remains(&*env, dir)?;
        let default = FamilyConfig::from(&families.given("default"));
        let id = match stored_id.take() {
            Some(id) => id,
            None => write_identity(&*env, dir, None)?,
        };
        stored_id = Some(id.clone());
        VersionSet::create_new(config.clone(), &default, Some(id))?;
    }
    let mut versions = VersionSet::recover(config, &|record| Some(families.config_of(record)))?;
    check_named_families(&versions, options, named)?;
    versions.families().try_for_each(|record| refuse_writing(record.name(), &families.of(record)))?;
    surroundings.db_id = match stored_id {
        Some(id) => id,
        // The MANIFEST knows it too.
        None => write_identity(&*env, dir, versions.db_id())?,
    };
    versions.set_db_id(surroundings.db_id.clone());
    if versions.families().any(|record| families.of(record).expiry.is_some()) {
        surroundings.expiry.set_known(known_before(&surroundings.db_id, &versions));
        // Tables that recovery writes tell of this opening's clock.
        surroundings.expiry.begin()?;
    }

    // Replaying writes tables that no edit names yet.
    lost_files::set_aside(&surroundings, &versions)?;
    let mut recovery = replay(&surroundings, &versions, &families, undecided, None)?;
    let wal_number = versions.file_numbers().allocate();
    recovery.write_all(wal_number)?;
    let last_seqno = recovery.last_seqno;
    // What was not replayed to its end, now or by an opening before that did not get further, is nobody's to follow.
    let unsound_below = if recovery.is_whole { recovery.oldest_kept } else { wal_number };
    let mut prepared = recovery.prepared.into_batches()?;
    if is_planted(PlantedBug::PreparedIsLost) {
        prepared.clear();
    }
    let recovering = recovery.families;
    if recovering.values().any(|recovering| recovering.edit.changes_files()) {
        env.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
    }
    let mut edits: Vec<VersionEdit> = recovering.values().map(|recovering| recovering.edit.clone()).collect();
    if let Some(first) = edits.first_mut() {
        first.last_sequence = Some(last_seqno);
    }
    if let Some(first) = edits.first_mut() {
        // One of the old WALs that comes back although it was deleted must not show what it prepared.
        first.min_log_number_to_keep = Some(wal_number);
    }
    let write_buffer_size = recovering.get(&0).map_or(0, |default| default.family.options().write_buffer_size);
    let begun = match prepared.is_empty() {
        true => None,
        false => Some(prepare_again(&surroundings, wal_number, write_buffer_size, last_seqno, &mut prepared)?),
    };
    let recovered: Vec<u64> =
        edits.iter().flat_map(|edit| edit.new_files.iter().map(|(_, file)| file.number)).collect();
    // From here on no old WAL is needed: what they had is in tables that the new MANIFEST names, or is prepared in the new WAL.
    versions.write_new_manifest(&mut edits)?;

    let families = recovering.into_values().map(|recovering| recovering.family).collect();
    let options_files = OptionsFiles::new(found, keeps_table_format);
    let lock = Some(lock);
    let parts = Parts { surroundings, versions, families, last_seqno, obsolete_tables, options_files, lock };
    let inner = Arc::new(assemble(parts, wal_number, false)?);
    inner.wal_archive.set_unsound_below(unsound_below);
    {
        let is_begun = begun.is_some();
        if is_begun {
            inner.notify_of_wal(wal_number);
        }
        let (wal, live) = begun.map_or_else(|| inner.begin_wal(wal_number), Ok)?;
        if is_begun {
            inner.durable_wal.raise(wal_number, wal.len());
        }
        let mut side = inner.write_side.lock();
        (side.wal, side.wal_entry_synced) = (Some(wal), is_begun);
        inner.state.lock().wals.push_back(live);
    }
    inner.notify_of_tables(recovered);
    for (name, batch) in &prepared {
        inner.check_batch(batch)?;
        inner.prepared_logs.prepared(name, wal_number);
    }
    start(&inner, named)?;
    Ok((inner, prepared))
}

/// Deletes what is left over, creates the families that are missing, and starts background work.
fn start(inner: &Arc<DbInner>, named: &[(&str, ColumnFamilyOptions)]) -> Result<()> {
    inner.delete_leftovers()?;
    for (name, options) in named {
        if !inner.families.load().values().any(|family| family.name == *name) {
            inner.add_family(name, options)?;
        }
    }
    inner.write_options_file()?;
    for family in inner.families.load().values() {
        inner.update_pressure(family);
    }
    // Nothing fails behind this, and nothing was removed before it.
    let families = inner.families.load_full();
    inner
        .surroundings
        .expiry
        .open(families.values().filter_map(|family| family.expiry.as_ref()).map(FamilyExpiry::home))?;
    inner.start_wal_sync();
    inner.schedule();
    if inner.is_unwatched() {
        inner.watch();
    }
    Ok(())
}

/// Opens a database without changing anything. Where an earlier opening is gone on from, every table is open before WALs are replayed.
pub(crate) fn open_read_only(
    dir: &Path,
    options: &DbOptions,
    named: &[(&str, ColumnFamilyOptions)],
    earlier: Option<&mut OpenTables>,
) -> Result<Arc<DbInner>> {
    validate(options, named)?;
    let _span = trace::enter(Work::Open(dir, true));
    let mut surroundings = surroundings(dir, options)?;
    let obsolete_tables = Arc::new(ObsoleteTables::new());
    let config = version_set_config(&surroundings, &obsolete_tables);
    let found = options_file::find(&surroundings)?;
    let families = FamilyOptions { options, named, found: found.as_ref(), keeps_table_format: false };
    let versions = VersionSet::recover(config, &|record| Some(families.config_of(record)))?;
    // A backup that was restored has no IDENTITY, and its WALs tell whose they are by the id.
    surroundings.db_id = match versions.db_id() {
        Some(id) => id.to_owned(),
        None => read_identity(&*surroundings.env, dir)?.unwrap_or_default(),
    };
    surroundings.expiry.set_known(known_before(&surroundings.db_id, &versions));
    check_named_families(&versions, &DbOptions::default(), named)?;
    let recovery = replay(&surroundings, &versions, &families, Undecided::Ignored, earlier)?;
    let last_seqno = recovery.last_seqno;
    let families = recovery.families.into_values();
    let families = families.map(|recovering| {
        let pinned = recovering.family.super_version.load_full();
        recovering.family.super_version.store(Arc::new(SuperVersion {
            memtable: recovering.memtable,
            immutables: ImmutableList::default(),
            version: Arc::clone(&pinned.version),
            options: Arc::clone(&pinned.options),
        }));
        recovering.family
    });
    let families = families.collect();
    let options_files = OptionsFiles::new(None, false);
    let parts = Parts { surroundings, versions, families, last_seqno, obsolete_tables, options_files, lock: None };
    Ok(Arc::new(assemble(parts, 0, true)?))
}

/// The names of the families of the database in `dir`.
pub(crate) fn list_column_families(dir: &Path, options: &DbOptions) -> Result<Vec<String>> {
    list_families(&VersionSetConfig {
        env: options.environment(),
        dir: dir.to_path_buf(),
        max_manifest_file_size: options.max_manifest_file_size,
        obsolete_tables: Arc::new(ObsoleteTables::new()),
        metrics: None,
    })
}

/// What the newest OPTIONS file in `dir` says.
pub(crate) fn load_latest_options(dir: &Path, options: &DbOptions) -> Result<LoadedOptions> {
    let found = OptionsFile::read_latest(&*options.environment(), dir)?;
    let missing = || Error::new(ErrorKind::MissingFile, "the directory has no OPTIONS file").with_file(dir);
    found.ok_or_else(missing)?.load()
}

fn validate(options: &DbOptions, named: &[(&str, ColumnFamilyOptions)]) -> Result<()> {
    options.validate()?;
    options.unnamed_families.validate()?;
    let mut names = HashSet::new();
    for (name, options) in named {
        options.validate()?;
        if !names.insert(name) {
            return Err(Error::invalid_argument(format!("column family {name} is named twice")));
        }
    }
    Ok(())
}

/// Where the options of families come from.
struct FamilyOptions<'a> {
    /// What the caller said.
    options: &'a DbOptions,
    named: &'a [(&'a str, ColumnFamilyOptions)],
    /// What the directory was opened with before.
    found: Option<&'a OptionsFile>,
    /// Whether tables are written as they were.
    keeps_table_format: bool,
}

impl FamilyOptions<'_> {
    /// The options that open was given for the family `name`.
    fn given(&self, name: &str) -> ColumnFamilyOptions {
        let found = self.named.iter().find(|(other, _)| *other == name);
        let options = found.map_or(&self.options.unnamed_families, |(_, options)| options);
        options_file::with_kept_format(options.clone(), name, self.found.filter(|_| self.keeps_table_format))
    }

    fn is_named(&self, name: &str) -> bool {
        self.named.iter().any(|(other, _)| *other == name)
    }

    /// How to open a family. One that the caller does not name has the comparator and the levels that the MANIFEST says, as far as the
    /// comparator is known.
    fn config_of(&self, record: FamilyRecord<'_>) -> FamilyConfig {
        let mut config = FamilyConfig::from(&self.given(record.name));
        if !self.is_named(record.name) {
            if let Some(comparator) = record.comparator.and_then(comparator::by_name) {
                config.comparator = comparator;
            }
            config.num_levels = config.num_levels.max(record.levels);
        }
        config
    }

    /// The options of a family that was opened as [`config_of`](Self::config_of) says. One that the caller does not name has the merge operator that the directory
    /// says, if it is known.
    fn of(&self, record: &set::Family) -> ColumnFamilyOptions {
        let comparator = Arc::clone(record.current().comparator().user());
        let options = self.given(record.name()).comparator(comparator).num_levels(record.current().num_levels());
        let found = self.found.filter(|_| !self.is_named(record.name()));
        with_known_operator(options, record.name(), found)
    }
}

/// What a database tells of itself and of time, before this opening writes anything. Where no family has a policy, that is asked when [one comes](DbInner::add_family).
fn known_before(db_id: &str, versions: &VersionSet) -> Known {
    let tables = versions.families().flat_map(|record| record.current().all_files());
    let newest_table = tables.map(|(_, file)| file.file_creation_time).filter(|seconds| *seconds > 0).max();
    Known { db_id: db_id.to_owned(), newest_table }
}

fn version_set_config(surroundings: &Surroundings, obsolete_tables: &Arc<ObsoleteTables>) -> VersionSetConfig {
    VersionSetConfig {
        env: Arc::clone(&surroundings.env),
        dir: surroundings.dir.clone(),
        max_manifest_file_size: surroundings.options.max_manifest_file_size,
        obsolete_tables: Arc::clone(obsolete_tables),
        metrics: Some(Arc::clone(&surroundings.metrics)),
    }
}

fn check_named_families(
    versions: &VersionSet,
    options: &DbOptions,
    named: &[(&str, ColumnFamilyOptions)],
) -> Result<()> {
    for (name, _) in named {
        if versions.family_by_name(name).is_none() && !options.create_missing_column_families {
            return Err(Error::new(ErrorKind::NotFound, format!("column family {name} does not exist")));
        }
    }
    Ok(())
}

/// Replays the WALs that any family needs.
fn replay<'a>(
    surroundings: &'a Surroundings,
    versions: &'a VersionSet,
    options: &FamilyOptions<'_>,
    undecided: Undecided,
    mut earlier: Option<&mut OpenTables>,
) -> Result<Recovery<'a>> {
    let mut families = BTreeMap::new();
    let found = options.found;
    for record in versions.families() {
        let mut options = options.of(record);
        let is_view = undecided == Undecided::Ignored;
        if is_view && let Some(policy) = options.expiry.take() {
            let saved = surroundings.expiry.saved(record.id().0, policy.name())?;
            options.expiry = Some(match earlier.as_deref_mut() {
                Some(earlier) => earlier.view_of(record.id().0, policy, saved)?,
                None => policy.view(&saved)?,
            });
        }
        let options = Arc::new(options);
        let memtable = Family::new_memtable(&surroundings.memtable_memory, &options, 0);
        let first = SuperVersion {
            memtable: Arc::clone(&memtable),
            immutables: ImmutableList::default(),
            version: Arc::clone(record.current()),
            options,
        };
        let family = Family::new(record.id().0, record.name().to_owned(), first, surroundings);
        let family = Arc::new(family.with_timestamp_low(record.timestamp_low()));
        if let Some(earlier) = earlier.as_deref_mut() {
            earlier.open_all(&family)?;
        }
        if let Some(expiry) = family.expiry.as_ref().filter(|_| !is_view) {
            // Tables that recovery writes tell of their stamps, too.
            expiry.attach()?;
        }
        merge_operators::check(&family, record.current(), found)?;
        let log_number = record.log_number();
        let edit = VersionEdit::new(record.id());
        let version = record.current();
        let files = || version.all_files().map(|(_, file)| file);
        let flushed_seqno = files().map(|file| file.largest_seqno).max().unwrap_or(0);
        let with_range = files().filter(|file| file.smallest_seqno != file.largest_seqno);
        let flushed_range_end = with_range.map(|file| file.largest_seqno).max().unwrap_or(0);
        let recovering = RecoveringFamily { family, log_number, memtable, edit, flushed_seqno, flushed_range_end };
        families.insert(record.id().0, recovering);
    }
    let entries = surroundings.env.list_dir(&surroundings.dir);
    let entries = entries.map_err(|error| Error::io("list", &surroundings.dir, error))?;
    let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    let oldest_needed = families.values().map(|family| family.log_number).min().unwrap_or(0);
    let oldest_needed = oldest_needed.max(versions.min_log_number_to_keep());
    // RocksDB says nothing of it before its first flush.
    let oldest_kept = Some(versions.min_log_number_to_keep()).filter(|kept| *kept > 0).unwrap_or(oldest_needed);
    let logs = list_logs(&names, oldest_kept);
    if let (true, Some(wal_dir)) = (logs.is_empty(), found.and_then(OptionsFile::wal_dir)) {
        refuse_logs_elsewhere(surroundings, wal_dir, oldest_kept)?;
    }
    let file_numbers = versions.file_numbers();
    let last_seqno = versions.last_sequence();
    let skips_damage = surroundings.options.wal_recovery_mode == WalRecoveryMode::SkipAnyCorruptedRecords;
    let mut recovery = Recovery {
        surroundings,
        file_numbers,
        families,
        last_seqno,
        oldest_needed,
        oldest_kept,
        replayed_seqno: 0,
        numbers_unknown: false,
        is_whole: true,
        own_log: None,
        has_foreign: false,
        synced_wals: versions.synced_wals().clone(),
        dropped_edits: versions
            .dropped_edits()
            .filter(|_| !skips_damage)
            .map(|(known, damage)| (known, damage.clone())),
        lost_family: None,
        prepared: PreparedTransactions::default(),
        in_memory: undecided == Undecided::Ignored,
    };
    recovery.replay(&logs)?;
    if let Some(damage) = recovery.lost_family.take() {
        return Err(damage);
    }
    if undecided == Undecided::Refused {
        recovery.check_nothing_is_prepared()?;
    }
    Ok(recovery)
}

/// Refuses a database without WALs whose OPTIONS file names another directory that has some: what they hold would be missing, and the numbers of its writes be given out again. A path that
/// leads nowhere, or to the same directory, says nothing: directories are copied, and older releases wrote down where they were.
fn refuse_logs_elsewhere(surroundings: &Surroundings, wal_dir: &Path, oldest_kept: u64) -> Result<()> {
    let env = &surroundings.env;
    let (Ok(elsewhere), Ok(own)) = (env.resolve(wal_dir), env.resolve(&surroundings.dir)) else { return Ok(()) };
    let Ok(entries) = env.list_dir(&elsewhere) else { return Ok(()) };
    let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    if elsewhere == own || list_logs(&names, oldest_kept).is_empty() {
        return Ok(());
    }
    let what = "wal_dir: the WALs are in another directory; they can be moved beside the tables";
    Err(Error::not_supported(what).with_file(&elsewhere))
}

/// What an open database is assembled of.
struct Parts {
    surroundings: Surroundings,
    versions: VersionSet,
    families: Vec<Arc<Family>>,
    last_seqno: SeqNo,
    obsolete_tables: Arc<ObsoleteTables>,
    options_files: OptionsFiles,
    lock: Option<Box<dyn FileLock>>,
}

fn assemble(parts: Parts, wal_number: u64, read_only: bool) -> Result<DbInner> {
    let Parts { surroundings, versions, families, last_seqno, obsolete_tables, options_files, lock } = parts;
    let options = &surroundings.options;
    let mut by_id = BTreeMap::new();
    let mut state = State { wals: VecDeque::<LiveWal>::new(), ..State::default() };
    for family in families {
        let old = family.super_version.load_full();
        if !read_only {
            family.super_version.store(Arc::new(SuperVersion {
                memtable: Family::new_memtable(&surroundings.memtable_memory, &old.options, wal_number),
                immutables: ImmutableList::default(),
                version: current_version(&versions, &family, &old),
                options: Arc::clone(&old.options),
            }));
        }
        state.families.insert(family.id, FamilyState::default());
        by_id.insert(family.id, family);
    }
    let Some(default_family) = by_id.get(&0).cloned() else {
        return Err(Error::corrupt("the database has no default column family"));
    };
    let no_wal: Option<WalWriter> = None;
    Ok(DbInner {
        default_read_options: ReadOptions::default(),
        read_only,
        write_side: Mutex::new(ranks::WRITE_SIDE, WriteSide::new(no_wal, wal_number, last_seqno)),
        write_queue: WriteQueue::new(),
        changing_options: Mutex::new(ranks::CHANGING_OPTIONS, ()),
        wal_bytes_per_sync: AtomicU64::new(options.wal_bytes_per_sync),
        wal_sync: Mutex::new(ranks::WAL_SYNC, ()),
        retired_wals: Mutex::new(ranks::RETIRED_WALS, Vec::new()),
        durable_wal: DurableWal::new(),
        wal_lag: WalLag::new(options.wal_sync_interval_millis),
        controller: WriteController::new(options.delayed_write_rate, options.write_admission),
        idle_pacer: Pacer::new(),
        low_priority: LowPriority::new(),
        attached: OnceLock::new(),
        is_paced: AtomicBool::new(options.write_admission == WriteAdmission::Paced),
        visible_seqno: CachePadded::new(AtomicU64::new(last_seqno)),
        families: ArcSwap::from_pointee(by_id),
        default_family,
        snapshots: SnapshotList::new(surroundings.expiry.shared_clock()),
        file_numbers: Arc::clone(versions.file_numbers()),
        deleted_manifests_below: AtomicU64::new(versions.manifest_number()),
        versions: Mutex::new(ranks::VERSIONS, versions),
        state: Mutex::new(ranks::STATE, state),
        changed: Signal::new(),
        closing: AtomicBool::new(false),
        closed: AtomicBool::new(false),
        errors: ErrorState::new(),
        obsolete_tables,
        deletions: FileDeletions::new(),
        wal_archive: WalArchive::new(),
        options_files,
        compaction_log: CompactionLog::new(),
        io_rate: IoRate::new(options, &surroundings.clock),
        prepared_logs: PreparedLogs::new(),
        transaction_memory: Arc::new(TransactionMemory::new(&surroundings.block_cache)),
        read_only_turn: ReadOnlyTurn::default(),
        pacing_watch: PacingWatch::default(),
        opened_micros: surroundings.clock.now_micros(),
        lock: Mutex::new(ranks::DIRECTORY_LOCK, lock),
        surroundings,
    })
}

fn current_version(versions: &VersionSet, family: &Family, old: &SuperVersion) -> Arc<Version> {
    let record = versions.family(ColumnFamilyId(family.id));
    record.map_or_else(|| Arc::clone(&old.version), |record| Arc::clone(record.current()))
}
