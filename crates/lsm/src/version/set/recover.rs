//! Creating a version set, and recovering one from CURRENT and the MANIFEST.

use super::manifest::{self, Manifest};
use super::replay::Replay;
use super::{Counters, DroppedEdits, Family, FamilyConfig, FamilyRecord, VersionSet, VersionSetConfig};
use crate::file_names::FileName;
use crate::key::ColumnFamilyId;
use crate::version::FileNumbers;
use crate::version::edit::{MAX_EDIT_BYTES, VersionEdit};
use crate::version::file_numbers::MAX_FILE_NUMBER;
use crate::wal::{LogEnd, ReadOutcome, WalReader};
use siltstone_base::env::{Access, FileKind, FileOptions};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// The name of the family that always exists.
pub(crate) const DEFAULT_FAMILY: &str = "default";

/// The first number that a database gives to a file.
const FIRST_FILE_NUMBER: u64 = 1;

impl VersionSet {
    /// The set of a new database with the default family only. Writes its MANIFEST and CURRENT.
    ///
    /// # Errors
    ///
    /// Errors of I/O; the database then does not exist, or exists and is empty.
    pub(crate) fn create_new(
        config: VersionSetConfig,
        default_family: &FamilyConfig,
        db_id: Option<String>,
    ) -> Result<Self> {
        let id = ColumnFamilyId(0);
        let family = Family::empty(id, DEFAULT_FAMILY.to_owned(), default_family, 0);
        let mut set = Self {
            config,
            numbers: Arc::new(FileNumbers::new(FIRST_FILE_NUMBER)),
            families: BTreeMap::from([(id, family)]),
            counters: Counters { db_id, ..Counters::default() },
            manifest: Manifest::None,
            doubts: 0,
            dropped_edits: None,
            is_closed: false,
            manifest_number: 0,
        };
        set.write_new_manifest(&mut [])?;
        Ok(set)
    }

    /// The set that CURRENT and its MANIFEST describe. Writes nothing: the first edit starts a new MANIFEST.
    ///
    /// `family_config` says how to open a family; `None` if nobody asked for it.
    ///
    /// # Errors
    ///
    /// `MissingFile` if there is no database; `Corruption` with file and offset; `InvalidArgument` for a family that nobody asked for, for
    /// another comparator than the family was created with, and for too few levels; `NotSupported`.
    pub(crate) fn recover(
        config: VersionSetConfig,
        family_config: &dyn Fn(FamilyRecord<'_>) -> Option<FamilyConfig>,
    ) -> Result<Self> {
        let manifest_number = manifest::read_current(&config)?;
        let path = FileName::Manifest(manifest_number).path(&config.dir);
        let ReadManifest { replay, dropped } = read_manifest(&config, manifest_number)?;
        let next_file_number = replay.next_file_number(manifest_number).map_err(|error| error.with_file(&path))?;
        let next_file_number = match is_planted(PlantedBug::FileNumberReused) {
            false => next_file_number.max(next_after_files(&config)?),
            true => replay.max_number_in_use(manifest_number) + 1,
        };
        let finished = replay.finish(family_config, &config.obsolete_tables);
        let (families, counters) = finished.map_err(|error| error.with_file(&path))?;
        if let Some(damage) = &dropped {
            check_nothing_is_missing(&config, &families, counters.min_log_number_to_keep, &damage.damage)?;
        }
        Ok(Self {
            config,
            numbers: Arc::new(FileNumbers::new(next_file_number)),
            families,
            counters,
            manifest: Manifest::None,
            doubts: 0,
            dropped_edits: dropped,
            is_closed: false,
            manifest_number,
        })
    }
}

/// The names of the families that the MANIFEST lists, by id.
///
/// # Errors
///
/// As [`VersionSet::recover`], but for what concerns options.
pub(crate) fn list_families(config: &VersionSetConfig) -> Result<Vec<String>> {
    let manifest_number = manifest::read_current(config)?;
    Ok(read_manifest(config, manifest_number)?.replay.family_names())
}

/// What a MANIFEST says.
struct ReadManifest {
    replay: Replay,
    /// Its last edits, if some were dropped.
    dropped: Option<DroppedEdits>,
}

/// Replays a MANIFEST. Damage behind its last whole edit may be what a crash leaves of an edit that nobody was promised, and is dropped;
/// damage that a whole record follows is corruption.
fn read_manifest(config: &VersionSetConfig, number: u64) -> Result<ReadManifest> {
    let path = FileName::Manifest(number).path(&config.dir);
    let options = FileOptions::new(FileKind::Manifest).access(Access::Sequential);
    let file = config.env.open_random(&path, &options).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => manifest::named_but_missing(config, number),
        _ => Error::io("open", &path, source),
    })?;
    let mut reader = WalReader::new(file, path.clone(), manifest::LOG_NUMBER, manifest::CONTEXT, MAX_EDIT_BYTES)?;
    let mut replay = Replay::default();
    let mut record = Vec::new();
    let mut dropped = loop {
        match reader.next_record(&mut record) {
            Ok(ReadOutcome::Record { offset }) => {
                let replayed = VersionEdit::decode(&record).and_then(|edit| replay.edit(edit));
                replayed.map_err(|error| error.with_file(&path).with_offset(offset))?;
            }
            Ok(ReadOutcome::End(LogEnd::Clean)) => break None,
            Ok(ReadOutcome::End(LogEnd::TornTail { offset, what })) => {
                break Some(DroppedEdits { damage: Error::corruption(&path, offset, what), may_have_rotted: false });
            }
            Err(damage) if damage.kind() == ErrorKind::Corruption && !reader.record_follows_damage()? => {
                break Some(DroppedEdits { damage, may_have_rotted: true });
            }
            Err(error) => return Err(error),
        }
    };
    let end = reader.end_offset();
    if replay.drop_incomplete_group() {
        dropped.get_or_insert_with(|| DroppedEdits {
            damage: Error::corruption(&path, end, "atomic group of version edits without its end"),
            may_have_rotted: false,
        });
    }
    replay.check_complete().map_err(|error| error.with_file(&path).with_offset(end))?;
    Ok(ReadManifest { replay, dropped })
}

/// Dropped edits may also have been durable and damaged later. They are not missed as long as all that the state before them needs is still
/// there: nothing of it was deleted on the strength of them. Otherwise the damage counts.
fn check_nothing_is_missing(
    config: &VersionSetConfig,
    families: &BTreeMap<ColumnFamilyId, Family>,
    min_log_number_to_keep: u64,
    damage: &Error,
) -> Result<()> {
    let has_len =
        |name: FileName, len: u64| config.env.file_len(&name.path(&config.dir)).is_ok_and(|found| found == len);
    let mut listed = HashSet::new();
    for (_, file) in families.values().flat_map(|family| family.current().all_files()) {
        listed.insert(file.number);
        if !has_len(FileName::Table(file.number), file.file_size)
            && !has_len(FileName::LegacyTable(file.number), file.file_size)
        {
            return Err(damage.clone());
        }
    }
    let names = list_files(config)?;
    let min_log_number = families.values().map(Family::log_number).min().unwrap_or(0).max(min_log_number_to_keep);
    let is_replaced = names.iter().any(|name| matches!(name, FileName::Wal(number) if *number > min_log_number))
        && !names.contains(&FileName::Wal(min_log_number));
    let has_orphan = names.iter().any(|name| matches!(name, FileName::Table(number) if !listed.contains(number)));
    // The oldest WAL that is needed is gone, a newer one is there, and so is a table of which nobody knows: the flush of that WAL was among
    // what was dropped.
    if min_log_number > 0 && is_replaced && has_orphan { Err(damage.clone()) } else { Ok(()) }
}

/// The files of the directory that have a name of ours.
fn list_files(config: &VersionSetConfig) -> Result<Vec<FileName>> {
    let entries = config.env.list_dir(&config.dir).map_err(|source| Error::io("list", &config.dir, source))?;
    Ok(entries.iter().filter_map(|entry| FileName::parse(&entry.name)).collect())
}

/// A number above those of all files in the directory: one that the MANIFEST does not list may still be named by an edit that comes back.
fn next_after_files(config: &VersionSetConfig) -> Result<u64> {
    let names = list_files(config)?;
    let numbers = names.iter().filter_map(|name| name.number());
    Ok(numbers.filter(|number| *number < MAX_FILE_NUMBER).max().map_or(FIRST_FILE_NUMBER, |number| number + 1))
}
