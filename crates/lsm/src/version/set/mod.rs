//! The version set: the current version of every family, the database's counters, and the MANIFEST that makes them durable.
//!
//! Invariants:
//! * What the set shows is in the MANIFEST that CURRENT names, durably. An edit is installed after its sync, or not at all.
//! * After an error of the MANIFEST nobody knows which edits are on disk. Until a new MANIFEST, which begins with a snapshot of what the
//!   set shows, is durable, nothing is appended, and nobody deletes a file (see [`VersionSet::is_manifest_broken`]).
//! * A file becomes obsolete only when the edit that lets it go is durable.

mod family;
mod manifest;
mod recover;
mod replay;
#[cfg(test)]
mod tests;

pub(crate) use family::{Family, FamilyConfig, FamilyRecord};
pub(crate) use recover::list_families;

use super::builder::{BuiltVersion, OLDEST_EPOCH, VersionBuilder};
use super::{FileNumbers, Version, VersionEdit};
use crate::file_meta::ObsoleteTables;
use crate::key::{ColumnFamilyId, SeqNo};
use crate::metrics::Metrics;
use manifest::Manifest;
use siltstone_base::env::Env;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a version set works with.
#[derive(Debug, Clone)]
pub(crate) struct VersionSetConfig {
    /// Where the files are.
    pub(crate) env: Arc<dyn Env>,
    /// The directory of the database.
    pub(crate) dir: PathBuf,
    /// Size at which the MANIFEST is replaced, in bytes.
    pub(crate) max_manifest_file_size: u64,
    /// Where the numbers of tables go that no version lists any more.
    pub(crate) obsolete_tables: Arc<ObsoleteTables>,
    /// Who counts, if somebody does.
    pub(crate) metrics: Option<Arc<Metrics>>,
}

/// The current version of every family, and the MANIFEST.
#[derive(Debug)]
pub(crate) struct VersionSet {
    config: VersionSetConfig,
    numbers: Arc<FileNumbers>,
    families: BTreeMap<ColumnFamilyId, Family>,
    counters: Counters,
    manifest: Manifest,
    /// How many writes failed of which nobody knows whether they are in the MANIFEST after a crash.
    doubts: u64,
    /// What became of the last edits of the MANIFEST when it was read, if some were dropped.
    dropped_edits: Option<DroppedEdits>,
    /// Whether nothing may be written any more: the directory may be another opening's.
    is_closed: bool,
    /// The MANIFEST that CURRENT names for certain, or 0.
    manifest_number: u64,
}

/// Edits at the end of a MANIFEST that do not count.
#[derive(Debug)]
struct DroppedEdits {
    /// Why.
    damage: Error,
    /// Whether more is wrong than that the end is missing, as if it was not a crash that did it.
    may_have_rotted: bool,
}

/// Counters of the whole database.
#[derive(Debug, Clone, Default)]
struct Counters {
    last_sequence: SeqNo,
    min_log_number_to_keep: u64,
    max_column_family: u32,
    db_id: Option<String>,
    /// Bytes of WALs that RocksDB says that it synced, by number.
    synced_wals: BTreeMap<u64, u64>,
}

/// Everything that becomes visible when edits are durable.
#[derive(Default)]
struct Pending {
    built: Vec<(ColumnFamilyId, BuiltVersion)>,
    log_numbers: Vec<(ColumnFamilyId, u64)>,
    epochs: BTreeMap<ColumnFamilyId, u64>,
    counters: Counters,
}

impl VersionSet {
    /// The counter of file numbers, for use without the lock of the set.
    pub(crate) fn file_numbers(&self) -> &Arc<FileNumbers> {
        &self.numbers
    }

    /// All families, by id.
    pub(crate) fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.values()
    }

    /// The family with this id.
    pub(crate) fn family(&self, id: ColumnFamilyId) -> Option<&Family> {
        self.families.get(&id)
    }

    /// The family with this name.
    pub(crate) fn family_by_name(&self, name: &str) -> Option<&Family> {
        self.families.values().find(|family| family.name == name)
    }

    /// The largest id that a family has had as far as the MANIFEST knows, and why its last edits were dropped; nothing, if none were.
    pub(crate) fn dropped_edits(&self) -> Option<(u32, &Error)> {
        let known = self.families.keys().map(|id| id.0).max().unwrap_or(0).max(self.counters.max_column_family);
        self.dropped_edits.as_ref().map(|dropped| (known, &dropped.damage))
    }

    /// Whether the last edit of the MANIFEST was dropped although it was not only cut short: it may have been durable once.
    pub(crate) fn may_have_rotted(&self) -> bool {
        self.dropped_edits.as_ref().is_some_and(|dropped| dropped.may_have_rotted)
    }

    /// The numbers of all tables and blob files of the current versions. All files have theirs from one counter.
    pub(crate) fn listed_files(&self) -> impl Iterator<Item = u64> {
        let tables = self.families().flat_map(|family| family.current().all_files()).map(|(_, file)| file.number);
        tables.chain(self.families().flat_map(|family| family.current().blob_files().numbers()))
    }

    /// The largest sequence number that the MANIFEST knows of.
    pub(crate) fn last_sequence(&self) -> SeqNo {
        self.counters.last_sequence
    }

    /// WALs below are not needed by any family, as far as the MANIFEST knows.
    pub(crate) fn min_log_number_to_keep(&self) -> u64 {
        self.counters.min_log_number_to_keep
    }

    /// Bytes of WALs that were synced when the MANIFEST said so, by number. This engine says it in the WALs themselves.
    pub(crate) fn synced_wals(&self) -> &BTreeMap<u64, u64> {
        &self.counters.synced_wals
    }

    /// The id that the MANIFEST names, if it names one.
    pub(crate) fn db_id(&self) -> Option<&str> {
        self.counters.db_id.as_deref()
    }

    /// Sets the id that the next MANIFEST will name.
    pub(crate) fn set_db_id(&mut self, db_id: String) {
        self.counters.db_id = Some(db_id);
    }

    /// The number of the MANIFEST that CURRENT names. Those below it may be deleted unless the MANIFEST is broken.
    pub(crate) fn manifest_number(&self) -> u64 {
        self.manifest_number
    }

    /// The number of the MANIFEST that CURRENT names, and its bytes, all of them durable; `None` before the first edit, and while the outcome
    /// of the last one is unknown.
    pub(crate) fn durable_manifest(&self) -> Option<(u64, u64)> {
        match &self.manifest {
            Manifest::Open(writer) => Some((self.manifest_number, writer.len())),
            Manifest::None | Manifest::Broken => None,
        }
    }

    /// Whether the last write of the MANIFEST failed. Until a later one succeeds, no file may be deleted: not even the outputs of the edit
    /// that failed, because it may come back.
    pub(crate) fn is_manifest_broken(&self) -> bool {
        matches!(self.manifest, Manifest::Broken)
    }

    /// How many writes failed of which nobody knows whether they are in the MANIFEST after a crash. A [new MANIFEST](Self::write_new_manifest) says that they are not.
    pub(crate) fn doubts(&self) -> u64 {
        self.doubts
    }

    /// Nothing is written any more: all that is asked for fails with `Aborted`.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Raises the log number of a family all whose entries below `log_number` are in tables, because it has none in memory. The
    /// MANIFEST learns of it with its next edit.
    pub(crate) fn advance_log_number(&mut self, id: ColumnFamilyId, log_number: u64) {
        if let Some(family) = self.families.get_mut(&id) {
            family.log_number = family.log_number.max(log_number);
        }
    }

    /// Makes `edits` durable as one unit and installs what they lead to. Returns the new version of every family whose files changed.
    ///
    /// Fills in what every edit carries: counters, and the epochs of files that have none (at level 0 in the order of the
    /// edits: later is newer). The smallest WAL to keep is raised by an edit that says so and by no other: families' log numbers do not tell which WALs
    /// have what was prepared. Starts a new MANIFEST where there is none, where it is broken, and where it has
    /// reached its size. Adding and dropping families has doors of its own.
    ///
    /// # Errors
    ///
    /// `Corruption`, `InvalidArgument`: an edit does not fit the current version; nothing was written. Errors of I/O: see
    /// [`is_manifest_broken`](Self::is_manifest_broken); nothing was installed.
    pub(crate) fn log_and_apply(&mut self, edits: &mut [VersionEdit]) -> Result<Vec<(ColumnFamilyId, Arc<Version>)>> {
        let pending = self.prepare(edits)?;
        self.write(edits, &pending.counters)?;
        Ok(self.install(pending))
    }

    /// Starts a new MANIFEST with a snapshot and `edits`, whatever the size of the current one.
    ///
    /// # Errors
    ///
    /// As [`log_and_apply`](Self::log_and_apply).
    pub(crate) fn write_new_manifest(
        &mut self,
        edits: &mut [VersionEdit],
    ) -> Result<Vec<(ColumnFamilyId, Arc<Version>)>> {
        let pending = self.prepare(edits)?;
        self.roll(edits, &pending.counters)?;
        Ok(self.install(pending))
    }

    /// Creates a family whose entries start in WAL `log_number`.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`, `LimitExceeded`, and as [`log_and_apply`](Self::log_and_apply).
    pub(crate) fn create_family(
        &mut self,
        name: &str,
        config: &FamilyConfig,
        log_number: u64,
    ) -> Result<ColumnFamilyId> {
        if self.family_by_name(name).is_some() {
            return Err(Error::new(ErrorKind::AlreadyExists, "column family of that name"));
        }
        let Some(number) = self.counters.max_column_family.checked_add(1) else {
            return Err(Error::new(ErrorKind::LimitExceeded, "number of column families ever created"));
        };
        let id = ColumnFamilyId(number);
        let mut edit = VersionEdit::new(id);
        edit.add_family = Some(name.to_owned());
        edit.comparator = Some(config.comparator.name().to_owned());
        edit.log_number = Some(log_number);
        let mut counters = self.counters.clone();
        counters.max_column_family = number;
        self.complete(&mut edit, &counters);
        self.write(&[edit], &counters)?;
        self.counters = counters;
        self.families.insert(id, Family::empty(id, name.to_owned(), config, log_number));
        Ok(id)
    }

    /// Drops a family. Its tables become obsolete when nobody reads them any more. No WAL below `kept_log` is needed without it.
    ///
    /// # Errors
    ///
    /// `NotFound`; `InvalidArgument` for the default family; and as [`log_and_apply`](Self::log_and_apply).
    pub(crate) fn drop_family(&mut self, id: ColumnFamilyId, kept_log: u64) -> Result<()> {
        if id.0 == 0 {
            return Err(Error::invalid_argument("the default column family cannot be dropped"));
        }
        if !self.families.contains_key(&id) {
            return Err(Error::new(ErrorKind::NotFound, "column family to drop"));
        }
        let mut edit = VersionEdit::new(id);
        edit.drop_family = true;
        edit.max_column_family = Some(self.counters.max_column_family);
        let mut counters = self.counters.clone();
        if kept_log > counters.min_log_number_to_keep {
            counters.min_log_number_to_keep = kept_log;
            edit.min_log_number_to_keep = Some(kept_log);
        }
        self.complete(&mut edit, &counters);
        self.write(&[edit], &counters)?;
        self.counters = counters;
        let dropped = self.families.remove(&id);
        for (_, file) in dropped.iter().flat_map(|family| family.current.all_files()) {
            file.mark_obsolete();
        }
        for file in dropped.iter().flat_map(|family| family.current.blob_files().metas()) {
            file.mark_obsolete();
        }
        Ok(())
    }

    /// Builds what `edits` lead to, and completes them. Changes nothing of the set.
    fn prepare(&self, edits: &mut [VersionEdit]) -> Result<Pending> {
        let mut pending = Pending { counters: self.counters.clone(), ..Pending::default() };
        let mut builders: BTreeMap<ColumnFamilyId, VersionBuilder> = BTreeMap::new();
        for edit in edits.iter_mut() {
            let id = edit.column_family;
            let family = self.families.get(&id).ok_or_else(|| unknown_family(id))?;
            if edit.add_family.is_some() || edit.drop_family {
                return Err(Error::invalid_argument("a version edit that adds or drops a column family"));
            }
            pending.assign_epochs(family, edit);
            pending.counters.see(edit);
            pending.log_numbers.extend(edit.log_number.map(|log_number| (id, log_number)));
            if edit.changes_files() {
                let builder = builders.entry(id).or_insert_with(|| VersionBuilder::on(Arc::clone(&family.current)));
                builder.apply(&edit.deleted_files, edit.new_files.iter().cloned())?;
                builder.apply_blob_files(edit.blob_files.iter().cloned());
            }
        }
        for (id, builder) in builders {
            let family = self.families.get(&id).ok_or_else(|| unknown_family(id))?;
            let (order, levels) = (&family.comparator, family.current.num_levels());
            pending.built.push((id, builder.finish(id, order, levels, &self.config.obsolete_tables)?));
        }
        let group = edits.len() as u32;
        for (index, edit) in edits.iter_mut().enumerate() {
            self.complete(edit, &pending.counters);
            edit.atomic_group_remaining = (group > 1).then(|| group - 1 - index as u32);
        }
        Ok(pending)
    }

    /// Writes the counters into `edit`.
    fn complete(&self, edit: &mut VersionEdit, counters: &Counters) {
        edit.prev_log_number = Some(0);
        edit.next_file_number = Some(self.numbers.next());
        edit.last_sequence = Some(counters.last_sequence);
    }

    /// Appends `edits` durably, to the MANIFEST there is or to a new one.
    fn write(&mut self, edits: &[VersionEdit], counters: &Counters) -> Result<()> {
        self.check_open()?;
        let needs_new = match &self.manifest {
            Manifest::None | Manifest::Broken => true,
            Manifest::Open(writer) => writer.len() >= self.config.max_manifest_file_size,
        };
        if needs_new {
            return self.roll(edits, counters);
        }
        let Manifest::Open(writer) = &mut self.manifest else { return Ok(()) };
        let written = manifest::append(writer, edits).and_then(|()| manifest::sync(&self.config, writer));
        if written.is_err() {
            self.manifest = Manifest::Broken;
            self.doubts += 1;
            if is_planted(PlantedBug::AppendBehindBrokenManifestRecord) {
                self.manifest = manifest::reopen(&self.config, self.manifest_number);
            }
        }
        written
    }

    /// Starts a new MANIFEST: a snapshot, then `edits`, then the counters, without which no MANIFEST is accepted. So one
    /// that lost any of this is known to be damaged.
    fn roll(&mut self, edits: &[VersionEdit], counters: &Counters) -> Result<()> {
        self.check_open()?;
        let number = self.numbers.allocate();
        let snapshot = self.snapshot();
        let mut edits = edits.to_vec();
        for edit in &mut edits {
            (edit.next_file_number, edit.last_sequence) = (None, None);
        }
        edits.push(self.snapshot_of_counters(counters));
        self.manifest = Manifest::Broken;
        let mut writer = manifest::create(&self.config, number, &snapshot, &edits)?;
        if let Err(error) = manifest::switch_to(&self.config, number, &mut writer) {
            self.doubts += 1;
            return Err(error);
        }
        self.manifest = Manifest::Open(writer);
        self.manifest_number = number;
        Ok(())
    }

    fn check_open(&self) -> Result<()> {
        match self.is_closed {
            true => Err(Error::new(ErrorKind::Aborted, "the database is closed")),
            false => Ok(()),
        }
    }

    /// Edits that lead from nothing to what the set shows.
    fn snapshot(&self) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        for family in self.families.values() {
            family.snapshot(&mut edits);
        }
        edits
    }

    fn snapshot_of_counters(&self, counters: &Counters) -> VersionEdit {
        VersionEdit {
            db_id: counters.db_id.clone(),
            prev_log_number: Some(0),
            next_file_number: Some(self.numbers.next()),
            last_sequence: Some(counters.last_sequence),
            min_log_number_to_keep: Some(counters.min_log_number_to_keep).filter(|number| *number > 0),
            max_column_family: Some(counters.max_column_family).filter(|number| *number > 0),
            ..VersionEdit::default()
        }
    }

    /// Shows what is durable now.
    fn install(&mut self, pending: Pending) -> Vec<(ColumnFamilyId, Arc<Version>)> {
        self.counters = pending.counters;
        for (id, log_number) in pending.log_numbers {
            self.advance_log_number(id, log_number);
        }
        for (id, next_epoch) in pending.epochs {
            if let Some(family) = self.families.get_mut(&id) {
                family.next_epoch = next_epoch;
            }
        }
        let mut versions = Vec::with_capacity(pending.built.len());
        for (id, built) in pending.built {
            let Some(family) = self.families.get_mut(&id) else { continue };
            family.current = Arc::new(built.version);
            // Marked while the old version, or `left`, still holds them: dropping the last holder then reports them.
            for file in &built.left {
                file.mark_obsolete();
            }
            for file in &built.left_blob_files {
                file.mark_obsolete();
            }
            versions.push((id, Arc::clone(&family.current)));
        }
        versions
    }
}

impl Counters {
    /// Raises the counters to what `edit` says or implies.
    fn see(&mut self, edit: &VersionEdit) {
        let of_files = edit.new_files.iter().map(|(_, file)| file.largest_seqno).max();
        self.last_sequence = self.last_sequence.max(edit.last_sequence.max(of_files).unwrap_or(0));
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(edit.min_log_number_to_keep.unwrap_or(0));
        self.max_column_family = self.max_column_family.max(edit.max_column_family.unwrap_or(0));
        for (number, synced) in &edit.wals {
            let known = self.synced_wals.entry(*number).or_default();
            *known = (*known).max(synced.unwrap_or(0));
        }
        if let Some(below) = edit.forget_wals_below {
            self.synced_wals = self.synced_wals.split_off(&below);
        }
    }
}

impl Pending {
    fn assign_epochs(&mut self, family: &Family, edit: &mut VersionEdit) {
        let next = self.epochs.entry(family.id).or_insert(family.next_epoch);
        for (level, file) in &mut edit.new_files {
            if file.epoch_number == 0 {
                file.epoch_number = if *level == 0 { *next } else { OLDEST_EPOCH };
            }
            *next = (*next).max(file.epoch_number.saturating_add(1));
        }
    }
}

fn unknown_family(id: ColumnFamilyId) -> Error {
    Error::new(ErrorKind::NotFound, format!("column family {} of a version edit", id.0))
}
