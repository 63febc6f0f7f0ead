//! Naming in the MANIFEST what a compaction wrote, and letting readers see it.

use super::Compacting;
use crate::compaction::Compaction;
use crate::compaction::job::CompactionOutput;
use crate::db::column_family::Family;
use crate::db::state::DbInner;
use crate::db::super_version::SuperVersion;
use crate::file_names::FileName;
use crate::key::ColumnFamilyId;
use crate::metrics::Counter;
use crate::sst::TableReader;
use crate::version::{Version, VersionEdit};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

impl Compacting {
    pub(super) fn install_output(&mut self, output: CompactionOutput) -> Result<()> {
        self.info.outputs = output.files.iter().map(|file| file.number).collect();
        self.info.output_bytes = output.bytes_written;
        if let Some(hidden) = &self.hidden {
            hidden.files.set_outputs(self.info.outputs.clone());
        }
        self.db.metrics.add_all([
            (Counter::Compactions, 1),
            (Counter::Subcompactions, self.info.subcompactions as u64),
            (Counter::CompactReadBytes, output.bytes_read),
            (Counter::CompactWriteBytes, output.bytes_written),
            (Counter::CompactionKeyDropNewerEntry, output.dropped.hidden),
            (Counter::CompactionKeyDropUser, output.dropped.filtered),
            (Counter::ExpiredRowsRemoved, output.dropped.expired),
            (Counter::CompactionKeyDropObsolete, output.dropped.obsolete_tombstones + output.dropped.single_deletes),
            (Counter::CompactionKeyDropRange, output.dropped.covered),
            (Counter::OperandsMerged, output.dropped.operands_merged),
            (Counter::MergeFailures, output.dropped.merge_failures),
            (Counter::SingleDeleteMismatches, output.dropped.single_delete_mismatches),
        ]);
        if self.compaction.as_ref().is_some_and(Compaction::rewrites_for_expiry) {
            self.db.metrics.add_all([
                (Counter::ExpiryBytesIn, output.bytes_read),
                (Counter::ExpiryBytesOut, output.bytes_written),
            ]);
        }
        if is_planted(PlantedBug::InputsDeletedBeforeInstall) {
            for (_, number) in &self.info.inputs {
                let path = FileName::Table(*number).path(&self.db.dir);
                let _ = self.db.env.remove_file(&path);
            }
        }
        let installed = self.install(output.edit, output.readers);
        if installed.is_ok() {
            self.db.notify_of_tables(self.info.outputs.iter().copied());
        } else {
            // They are deleted once no MANIFEST can name them.
            self.info.outputs.iter().for_each(|number| self.db.obsolete_tables.push(FileName::Table(*number)));
        }
        installed
    }

    /// Names the outputs in the MANIFEST, then lets readers see them. They find them open, by `readers`.
    pub(super) fn install(&self, edit: VersionEdit, readers: Vec<(u64, Arc<TableReader>)>) -> Result<()> {
        let mut versions = self.db.versions.lock();
        if self.family.is_dropped() {
            return Err(Error::new(ErrorKind::Aborted, "the column family was dropped"));
        }
        if let Some((compaction, record)) =
            self.compaction.as_ref().zip(versions.family(ColumnFamilyId(self.family.id)))
        {
            DbInner::check_expired_tables(compaction, record.current())?;
        }
        let installed = versions.log_and_apply(&mut [edit])?;
        let version = installed.into_iter().find(|(id, _)| id.0 == self.family.id).map(|(_, version)| version);
        let old = version.map(|version| {
            if let Some(compaction) = &self.compaction {
                version.set_readers(compaction.output_level, readers);
            }
            self.db.publish_version(&self.family, version)
        });
        drop(versions);
        drop(old);
        Ok(())
    }
}

impl DbInner {
    /// Lets readers see a new version of a family. The caller holds the versions lock, so versions are published in the order in
    /// which they were made, and drops what is returned, the state before, behind it: what nobody reads any more takes time to go.
    #[must_use]
    pub(crate) fn publish_version(&self, family: &Family, version: Arc<Version>) -> Arc<SuperVersion> {
        let state = self.state.lock();
        let old = family.super_version.load_full();
        family.publish(
            SuperVersion {
                memtable: Arc::clone(&old.memtable),
                immutables: old.immutables.clone(),
                version,
                options: Arc::clone(&old.options),
            },
            self.clock.now_micros(),
        );
        drop(state);
        old
    }
}
