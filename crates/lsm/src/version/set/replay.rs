//! Replaying the edits of a MANIFEST.

use super::recover::DEFAULT_FAMILY;
use super::{Counters, Family, FamilyConfig, FamilyRecord};
use crate::file_meta::ObsoleteTables;
use crate::key::{ColumnFamilyId, InternalKeyComparator};
use crate::version::builder::VersionBuilder;
use crate::version::edit::VersionEdit;
use crate::version::file_numbers::MAX_FILE_NUMBER;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;

/// What the edits so far lead to.
#[derive(Debug)]
pub(super) struct Replay {
    families: BTreeMap<ColumnFamilyId, ReplayedFamily>,
    counters: Counters,
    next_file_number: Option<u64>,
    has_log_number: bool,
    has_last_sequence: bool,
    /// The largest number of any WAL that an edit named.
    max_log_number: u64,
    /// Edits of an atomic group whose end was not seen yet.
    group: Vec<VersionEdit>,
    /// How many edits of the group are missing.
    group_missing: u32,
}

#[derive(Debug)]
struct ReplayedFamily {
    name: String,
    comparator: Option<String>,
    log_number: u64,
    timestamp_low: u64,
    builder: VersionBuilder,
}

impl ReplayedFamily {
    fn new(name: String) -> Self {
        Self { name, comparator: None, log_number: 0, timestamp_low: 0, builder: VersionBuilder::new() }
    }
}

impl Default for Replay {
    fn default() -> Self {
        let default = ReplayedFamily::new(DEFAULT_FAMILY.to_owned());
        Self {
            families: BTreeMap::from([(ColumnFamilyId(0), default)]),
            counters: Counters::default(),
            next_file_number: None,
            has_log_number: false,
            has_last_sequence: false,
            max_log_number: 0,
            group: Vec::new(),
            group_missing: 0,
        }
    }
}

impl Replay {
    /// Takes the next edit. Edits of an atomic group count when the last one is there.
    pub(super) fn edit(&mut self, edit: VersionEdit) -> Result<()> {
        let Some(remaining) = edit.atomic_group_remaining else {
            if self.group.is_empty() {
                return self.apply(edit);
            }
            return Err(Error::corrupt("atomic group of version edits is interrupted"));
        };
        if !self.group.is_empty() && remaining.checked_add(1) != Some(self.group_missing) {
            return Err(Error::corrupt("atomic group of version edits is out of order"));
        }
        self.group.push(edit);
        self.group_missing = remaining;
        if remaining == 0 {
            for edit in std::mem::take(&mut self.group) {
                self.apply(edit)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, edit: VersionEdit) -> Result<()> {
        self.apply_counters(&edit);
        let id = edit.column_family;
        if let Some(name) = edit.add_family {
            if self.families.values().any(|family| family.name == name) || self.families.contains_key(&id) {
                return Err(Error::corrupt(format!("column family {} is added twice", id.0)));
            }
            self.counters.max_column_family = self.counters.max_column_family.max(id.0);
            self.families.insert(id, ReplayedFamily::new(name));
        }
        if edit.drop_family {
            return match self.families.remove(&id) {
                Some(_) if id.0 != 0 => Ok(()),
                _ => Err(Error::corrupt(format!("column family {} is dropped and cannot be", id.0))),
            };
        }
        let Some(family) = self.families.get_mut(&id) else {
            return Err(Error::corrupt(format!("version edit of column family {}, which does not exist", id.0)));
        };
        if let Some(comparator) = edit.comparator {
            match &family.comparator {
                Some(before) if *before != comparator => {
                    return Err(Error::corrupt(format!("column family {} changes its comparator", id.0)));
                }
                _ => family.comparator = Some(comparator),
            }
        }
        family.log_number = family.log_number.max(edit.log_number.unwrap_or(0));
        family.timestamp_low = family.timestamp_low.max(edit.timestamp_low.unwrap_or(0));
        family.builder.apply_blob_files(edit.blob_files);
        family.builder.apply(&edit.deleted_files, edit.new_files)
    }

    fn apply_counters(&mut self, edit: &VersionEdit) {
        self.counters.see(edit);
        self.has_log_number |= edit.log_number.is_some();
        self.has_last_sequence |= edit.last_sequence.is_some();
        self.next_file_number = self.next_file_number.max(edit.next_file_number);
        self.max_log_number = self.max_log_number.max(edit.log_number.unwrap_or(0));
        if edit.db_id.is_some() {
            self.counters.db_id.clone_from(&edit.db_id);
        }
    }

    /// Drops the edits of a group whose end was not seen. Returns whether there were any.
    pub(super) fn drop_incomplete_group(&mut self) -> bool {
        !std::mem::take(&mut self.group).is_empty()
    }

    /// Checks that the edits said all that a database needs.
    pub(super) fn check_complete(&self) -> Result<()> {
        let missing = |what: &str| Err(Error::corrupt(format!("MANIFEST has no {what}")));
        match () {
            () if !self.has_log_number => missing("log number"),
            () if self.next_file_number.is_none() => missing("next file number"),
            () if !self.has_last_sequence => missing("last sequence number"),
            () => Ok(()),
        }
    }

    /// The names of the families, by id.
    pub(super) fn family_names(&self) -> Vec<String> {
        self.families.values().map(|family| family.name.clone()).collect()
    }

    /// The largest number of a file that the edits list.
    pub(super) fn max_number_in_use(&self, manifest_number: u64) -> u64 {
        let tables = self.families.values().map(|family| family.builder.max_file_number());
        tables.fold(manifest_number.max(self.max_log_number), u64::max)
    }

    /// A number above all that the edits know.
    pub(super) fn next_file_number(&self, manifest_number: u64) -> Result<u64> {
        let next = self.next_file_number.unwrap_or(0).max(self.max_number_in_use(manifest_number).saturating_add(1));
        if next > MAX_FILE_NUMBER {
            return Err(Error::corrupt(format!("file number {next} is out of range")));
        }
        Ok(next)
    }

    /// The families and counters, with options as `family_config` says.
    pub(super) fn finish(
        self,
        family_config: &dyn Fn(FamilyRecord<'_>) -> Option<FamilyConfig>,
        obsolete_tables: &Arc<ObsoleteTables>,
    ) -> Result<(BTreeMap<ColumnFamilyId, Family>, Counters)> {
        let mut counters = self.counters;
        let mut families = BTreeMap::new();
        for (id, replayed) in self.families {
            let family = replayed.finish(id, family_config, obsolete_tables)?;
            let files = family.current().all_files().map(|(_, file)| file.largest_seqno);
            counters.last_sequence = files.fold(counters.last_sequence, u64::max);
            families.insert(id, family);
        }
        Ok((families, counters))
    }
}

impl ReplayedFamily {
    fn finish(
        self,
        id: ColumnFamilyId,
        family_config: &dyn Fn(FamilyRecord<'_>) -> Option<FamilyConfig>,
        obsolete_tables: &Arc<ObsoleteTables>,
    ) -> Result<Family> {
        let name = self.name;
        let comparator = self.comparator.as_deref();
        let record = FamilyRecord { name: &name, comparator, levels: self.builder.levels_in_use() };
        let Some(config) = family_config(record) else {
            return Err(Error::invalid_argument(format!("column family {name} exists and was not named at open")));
        };
        let ours = config.comparator.name();
        if let Some(theirs) = &self.comparator
            && theirs != ours
        {
            return Err(Error::invalid_argument(format!(
                "comparator: column family {name} was created with {theirs}, not with {ours}"
            )));
        }
        let comparator = InternalKeyComparator::new(Arc::clone(&config.comparator));
        let built = self.builder.finish(id, &comparator, config.num_levels, obsolete_tables)?;
        let epochs = built.version.all_files().map(|(_, file)| file.epoch_number);
        let next_epoch = epochs.max().unwrap_or(1).saturating_add(1);
        let current = Arc::new(built.version);
        Ok(Family {
            id,
            name,
            comparator,
            log_number: self.log_number,
            current,
            timestamp_low: self.timestamp_low,
            next_epoch,
        })
    }
}
