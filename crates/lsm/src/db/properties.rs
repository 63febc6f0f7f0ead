//! RocksDB's properties, answered from the state of a family.

use super::column_family::Family;
use super::next_limit::{Distance, next_limits};
use super::pacing::Pacer;
use super::state::DbInner;
use super::write_stall::pressure;
use crate::compaction::{self, LevelScore, LevelTargets};
use crate::event::StallCondition;
use crate::metrics::{Counter, LevelStats, MetricsTable, NextLimit, Property};
use crate::version::Version;
use siltstone_base::Result;
use siltstone_base::sync::Arc;
use siltstone_base::text_table::format_bytes;
use std::fmt::Write;
use std::time::Duration;

impl DbInner {
    /// The value of the property `name`.
    pub(crate) fn property(&self, family: &Family, name: &str) -> Result<String> {
        let property = Property::parse(name)?;
        Ok(match property {
            Property::Stats | Property::CfStats => self.metrics_table(family).to_string(),
            Property::DbStats | Property::OptionsStatistics => self.statistics().to_string(),
            Property::AggregatedTableProperties => self.aggregated_properties(family)?,
            Property::LevelStats => self.level_stats_text(family),
            Property::SsTables => self.tables_text(family),
            Property::Pacing => self.pacing_text(family),
            _ => self.number_property(family, property).to_string(),
        })
    }

    pub(super) fn number_property(&self, family: &Family, property: Property) -> u64 {
        let pinned = family.super_version.load();
        let version = &pinned.version;
        let sealed = || pinned.immutables.newest_first().iter();
        let active = &pinned.memtable;
        let sealed_bytes = || sealed().map(|memtable| memtable.approximate_memory_usage() as u64).sum::<u64>();
        let all_memory = || active.approximate_memory_usage() as u64 + sealed_bytes();
        match property {
            Property::Stats
            | Property::CfStats
            | Property::DbStats
            | Property::OptionsStatistics
            | Property::AggregatedTableProperties
            | Property::LevelStats
            | Property::SsTables
            | Property::Pacing => 0,
            Property::IoRate => self.io_rate.limiter().bytes_per_second(),
            Property::NumFilesAtLevel(level) => version.files(level).len() as u64,
            Property::NumImmutableMemTable => pinned.immutables.len() as u64,
            Property::MemTableFlushPending => u64::from(!pinned.immutables.is_empty()),
            Property::NumRunningFlushes => self.state.lock().running_flushes as u64,
            Property::NumRunningCompactions => self.state.lock().running_compactions as u64,
            Property::CompactionPending => {
                u64::from(self.level_scores(family, version).first().is_some_and(|level| level.score >= 1.0))
            }
            Property::BackgroundErrors => self.metrics.get(Counter::BackgroundErrors),
            Property::CurSizeActiveMemTable => active.approximate_memory_usage() as u64,
            Property::CurSizeAllMemTables => all_memory(),
            Property::SizeAllMemTables => all_memory() + family.replaced.bytes_beside(&pinned).0,
            Property::NumEntriesActiveMemTable => active.num_entries(),
            Property::NumEntriesImmMemTables => sealed().map(|memtable| memtable.num_entries()).sum(),
            Property::NumDeletesActiveMemTable => active.num_deletes(),
            Property::NumDeletesImmMemTables => sealed().map(|memtable| memtable.num_deletes()).sum(),
            Property::EstimateNumKeys => {
                let in_memory: u64 = sealed().map(|memtable| memtable.num_entries()).sum();
                active.num_entries() + in_memory + self.table_entries(family)
            }
            Property::EstimateTableReadersMem => {
                version.all_files().filter_map(|(_, file)| Some(file.reader.get()?.memory_usage() as u64)).sum()
            }
            Property::IsFileDeletionsEnabled => u64::from(self.deletions.is_enabled()),
            Property::NumSnapshots => self.snapshots.len() as u64,
            Property::OldestSnapshotSequence => self.snapshots.seqnos().first().copied().unwrap_or(0),
            Property::NumLiveVersions => Arc::strong_count(version).saturating_sub(1) as u64,
            Property::CurrentSuperVersionNumber => active.id(),
            Property::EstimateLiveDataSize => last_level_bytes(version),
            Property::MinLogNumberToKeep => self.versions.lock().min_log_number_to_keep(),
            Property::PreparedTransactions => self.prepared_logs.count() as u64,
            Property::PreparedLogBytes => self.prepared_log_bytes(),
            Property::TotalSstFilesSize => version.total_bytes() + family.replaced.bytes_beside(&pinned).1,
            Property::LiveSstFilesSize => version.total_bytes(),
            Property::NumBlobFiles => version.blob_files().numbers().count() as u64,
            Property::TotalBlobFileSize => version.blob_files().bytes(),
            Property::LiveBlobFileSize => {
                version.blob_files().bytes().saturating_sub(version.blob_files().garbage_bytes())
            }
            Property::LiveBlobFileGarbageSize => version.blob_files().garbage_bytes(),
            Property::BaseLevel => LevelTargets::new(version, &pinned.options).base_level as u64,
            Property::EstimatePendingCompactionBytes => compaction::pending_compaction_bytes(version, &pinned.options),
            Property::ActualDelayedWriteRate if let Some(pacer) = self.pacer() => pacer.rate().unwrap_or(0),
            Property::ActualDelayedWriteRate => match self.controller.condition() {
                StallCondition::Delayed(_) => self.controller.delayed_rate(),
                _ => 0,
            },
            Property::IsWriteStopped => u64::from(matches!(self.controller.condition(), StallCondition::Stopped(_))),
            Property::BlockCacheCapacity => self.block_cache.capacity() as u64,
            Property::BlockCacheUsage => self.block_cache.usage() as u64,
            Property::BlockCachePinnedUsage => self.block_cache.pinned_usage() as u64,
            Property::CompressedBlockCacheUsage => self.block_cache.compressed_usage() as u64,
        }
    }

    /// Entries of all tables whose readers are open, extrapolated over the others by bytes.
    fn table_entries(&self, family: &Family) -> u64 {
        let version = Arc::clone(&family.super_version.load().version);
        let (mut entries, mut known_bytes, mut bytes) = (0_u64, 0_u64, 0_u64);
        for (_, file) in version.all_files() {
            bytes += file.file_size;
            if let Some(reader) = file.reader.get() {
                entries += reader.properties().num_entries;
                known_bytes += file.file_size;
            }
        }
        match known_bytes {
            0 => 0,
            known => (u128::from(entries) * u128::from(bytes) / u128::from(known)) as u64,
        }
    }

    /// The sums of the properties of all tables of the family.
    fn aggregated_properties(&self, family: &Family) -> Result<String> {
        let version = Arc::clone(&family.super_version.load().version);
        let mut sums = [
            ("# data blocks", 0_u64),
            ("# entries", 0),
            ("# deletions", 0),
            ("# merge operands", 0),
            ("# range deletions", 0),
            ("key size", 0),
            ("value size", 0),
            ("data block size", 0),
            ("index block size", 0),
            ("filter block size", 0),
        ];
        for (_, file) in version.all_files() {
            let properties = family.table_cache.reader(file)?.properties();
            let of_table = [
                properties.num_data_blocks,
                properties.num_entries,
                properties.num_deletions,
                properties.num_merge_operands,
                properties.num_range_deletions,
                properties.raw_key_size,
                properties.raw_value_size,
                properties.data_size,
                properties.index_size,
                properties.filter_size,
            ];
            sums.iter_mut().zip(of_table).for_each(|((_, sum), value)| *sum = sum.saturating_add(value));
        }
        let parts: Vec<String> = sums.iter().map(|(name, sum)| format!("{name}={sum}")).collect();
        Ok(parts.join("; "))
    }

    /// The counters of the database and the tree of `family`.
    pub(crate) fn metrics_table(&self, family: &Family) -> MetricsTable {
        let pinned = family.super_version.load();
        let scores = self.level_scores(family, &pinned.version);
        let levels = (0..pinned.version.num_levels()).map(|level| {
            let files = pinned.version.files(level);
            LevelStats {
                files: files.len() as u64,
                bytes: pinned.version.level_bytes(level),
                score: scores.iter().find(|score| score.level == level).map_or(0.0, |score| score.score),
                compacting: files.iter().filter(|file| file.is_being_compacted()).count() as u64,
            }
        });
        let sealed: usize =
            pinned.immutables.newest_first().iter().map(|memtable| memtable.approximate_memory_usage()).sum();
        MetricsTable {
            title: family.name.clone(),
            levels: levels.collect(),
            memtable_bytes: (pinned.memtable.approximate_memory_usage() + sealed) as u64,
            immutable_memtables: pinned.immutables.len() as u64,
            pending_compaction_bytes: compaction::pending_compaction_bytes(&pinned.version, &pinned.options),
            next_limit: self.next_limits(family).first().copied(),
            uptime: Duration::from_micros(self.clock.now_micros().saturating_sub(self.opened_micros)),
            counters: self.metrics.counters(),
        }
    }

    /// The scores of the family's levels, the most urgent first.
    fn level_scores(&self, family: &Family, version: &Version) -> Vec<LevelScore> {
        let state = self.state.lock();
        let background = state.families.get(&family.id);
        background.map_or_else(Vec::new, |family_state| {
            compaction::scores(version, &family.options(), self.clock.unix_seconds(), &family_state.running)
        })
    }

    /// The limits that writers of the family would meet, the next one first.
    fn next_limits(&self, family: &Family) -> Vec<NextLimit> {
        let pinned = family.super_version.load();
        let sealed = pinned.immutables.newest_first().iter();
        let sealed: usize = sealed.map(|memtable| memtable.approximate_memory_usage()).sum();
        let (flushed, rewritten) =
            (self.metrics.get(Counter::FlushWriteBytes), self.metrics.get(Counter::CompactReadBytes));
        let distance = Distance {
            pressure: pressure(&pinned),
            level0_count: compaction::level0_count(&pinned.version, &pinned.options),
            active_bytes: pinned.memtable.approximate_memory_usage() as u64,
            sealed_bytes: sealed as u64,
            shared_room: self.shared_memtable_room(),
            amplification: rewritten as f64 / flushed.max(1) as f64,
            only_stops: self.pacer().is_some(),
        };
        next_limits(&distance, &pinned.options)
    }

    fn pacing_text(&self, family: &Family) -> String {
        let mut text = String::new();
        for limit in self.next_limits(family) {
            let _ = writeln!(text, "{limit}");
        }
        let _ = match self.pacer().and_then(Pacer::rate) {
            Some(rate) => writeln!(text, "writers are paced to {} a second", format_bytes(rate)),
            None => writeln!(text, "writers are free"),
        };
        text
    }

    fn level_stats_text(&self, family: &Family) -> String {
        let version = Arc::clone(&family.super_version.load().version);
        let mut text = String::from("Level Files Size(MB)\n--------------------\n");
        for level in 0..version.num_levels() {
            let (files, bytes) = (version.files(level).len(), version.level_bytes(level));
            let _ = writeln!(text, "{level:>3} {files:>8} {:>8.0}", bytes as f64 / 1_048_576.0);
        }
        text
    }

    fn tables_text(&self, family: &Family) -> String {
        let version = Arc::clone(&family.super_version.load().version);
        let mut text = String::new();
        for level in 0..version.num_levels() {
            let _ = writeln!(text, "--- level {level} ---");
            for file in version.files(level) {
                let (low, high) = (file.smallest_seqno, file.largest_seqno);
                let _ = writeln!(text, " {}:{}[{low} .. {high}]", file.number, file.file_size);
            }
        }
        text
    }
}

/// Bytes of the last level that has any: what would be left if everything were compacted.
fn last_level_bytes(version: &Version) -> u64 {
    version.last_level_with_data().map_or(0, |level| version.level_bytes(level))
}
