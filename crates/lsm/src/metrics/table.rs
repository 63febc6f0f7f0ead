//! Metrics as one table: the tree level by level, then reads, writes, background work and stalls.

use super::{Counter, Counters};
use crate::event::{StallCause, StallCondition};
use siltstone_base::text_table::{TextTable, format_bytes, format_count};
use std::fmt;
use std::time::Duration;

/// One level of a family, or of all families together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LevelStats {
    /// Table files.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// How far the level is above its target; at 1 it is due for compaction.
    pub score: f64,
    /// Files that are inputs of running compactions.
    pub compacting: u64,
}

/// How much may still be written until writers are slowed down or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextLimit {
    /// What is met then.
    pub condition: StallCondition,
    /// Bytes that callers may write until then: if no flush ends meanwhile where memtables are the limit, else if no compaction does.
    pub bytes: u64,
}

impl fmt::Display for NextLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = format_bytes(self.bytes);
        match self.condition {
            StallCondition::Normal => write!(f, "none within {bytes}"),
            StallCondition::Delayed(cause) => write!(f, "{} slows writers down in {bytes}", cause.name()),
            StallCondition::Stopped(cause) => write!(f, "{} stops writers in {bytes}", cause.name()),
        }
    }
}

/// Everything that the table shows. Its `Display` is the table.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsTable {
    /// Name of the family, or of the whole.
    pub title: String,
    /// The levels, from level 0 down.
    pub levels: Vec<LevelStats>,
    /// Bytes of memtables, mutable and immutable.
    pub memtable_bytes: u64,
    /// Memtables that wait for their flush.
    pub immutable_memtables: u64,
    /// RocksDB's estimate of the bytes that compactions must rewrite.
    pub pending_compaction_bytes: u64,
    /// The limit that writers meet next, if there is any.
    pub next_limit: Option<NextLimit>,
    /// Time since the database was opened.
    pub uptime: Duration,
    /// The counters of the database.
    pub counters: Counters,
}

/// A ratio, or a dash where there is nothing to divide by.
struct Ratio(Option<f64>);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ratio) => f.pad(&format!("{ratio:.2}")),
            None => f.pad("-"),
        }
    }
}

fn ratio(part: u64, whole: u64) -> Ratio {
    Ratio((whole > 0).then(|| part as f64 / whole as f64))
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

impl fmt::Display for MetricsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree(f)?;
        self.writes(f)?;
        self.background(f)?;
        self.reads(f)?;
        self.stalls(f)
    }
}

impl MetricsTable {
    fn tree(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, open for {:.1} s", self.title, self.uptime.as_secs_f64())?;
        let mut tree = TextTable::new(["level", "files", "size", "score", "compacting"]);
        tree.row([
            "memtable".to_owned(),
            (self.immutable_memtables + 1).to_string(),
            format_bytes(self.memtable_bytes),
        ]);
        let deepest = self.levels.iter().rposition(|level| level.files > 0).map_or(1, |deepest| deepest + 1);
        for (number, level) in self.levels.iter().enumerate().take(deepest) {
            tree.row([
                number.to_string(),
                level.files.to_string(),
                format_bytes(level.bytes),
                format!("{:.2}", level.score),
                level.compacting.to_string(),
            ]);
        }
        let files: u64 = self.levels.iter().map(|level| level.files).sum();
        let bytes: u64 = self.levels.iter().map(|level| level.bytes).sum();
        tree.row(["tables".to_owned(), files.to_string(), format_bytes(bytes)]);
        write!(f, "{tree}")?;
        writeln!(f, "pending compaction {}", format_bytes(self.pending_compaction_bytes))
    }

    fn writes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        let (groups, batches) = (counters.get(Counter::WriteGroups), counters.get(Counter::WriteBatches));
        writeln!(
            f,
            "writes   {} keys, {} from callers, {} batches, {} a group",
            format_count(counters.get(Counter::KeysWritten)),
            format_bytes(counters.get(Counter::BytesWritten)),
            format_count(batches),
            ratio(batches, groups)
        )?;
        writeln!(
            f,
            "disk     wal {} in {} syncs, flushes {}, compactions {}, write amplification {}",
            format_bytes(counters.get(Counter::WalBytes)),
            format_count(counters.get(Counter::WalSyncs)),
            format_bytes(counters.get(Counter::FlushWriteBytes)),
            format_bytes(counters.get(Counter::CompactWriteBytes)),
            Ratio(counters.write_amplification())
        )
    }

    fn background(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        writeln!(
            f,
            "work     {} flushes in {:.2} s, {} compactions in {:.2} s reading {}, {} moves, {} errors",
            format_count(counters.get(Counter::Flushes)),
            seconds(counters.get(Counter::FlushMicros)),
            format_count(counters.get(Counter::Compactions)),
            seconds(counters.get(Counter::CompactionMicros)),
            format_bytes(counters.get(Counter::CompactReadBytes)),
            format_count(counters.get(Counter::TrivialMoves)),
            counters.get(Counter::BackgroundErrors)
        )?;
        writeln!(
            f,
            "dropped  {} hidden entries, {} tombstones, {} by filter, {} obsolete files",
            format_count(counters.get(Counter::CompactionKeyDropNewerEntry)),
            format_count(counters.get(Counter::CompactionKeyDropObsolete)),
            format_count(counters.get(Counter::CompactionKeyDropUser)),
            counters.get(Counter::ObsoleteFilesDeleted)
        )
    }

    fn reads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        let keys = counters.get(Counter::KeysRead);
        writeln!(
            f,
            "gets     {} keys: memtable {}, level 0 {}, level 1 {}, below {}, none {}; {} tables a key",
            format_count(keys),
            format_count(counters.get(Counter::MemtableHit)),
            format_count(counters.get(Counter::GetHitL0)),
            format_count(counters.get(Counter::GetHitL1)),
            format_count(counters.get(Counter::GetHitL2AndUp)),
            format_count(counters.get(Counter::GetMiss)),
            ratio(counters.get(Counter::TablesProbed), keys)
        )?;
        writeln!(
            f,
            "filters  {} tables denied, {} allowed, {} of them rightly; of prefixes {} asked, {} denied",
            format_count(counters.get(Counter::FilterUseful)),
            format_count(counters.get(Counter::FilterFullPositive)),
            format_count(counters.get(Counter::FilterFullTruePositive)),
            format_count(counters.get(Counter::FilterPrefixChecked)),
            format_count(counters.get(Counter::FilterPrefixUseful)),
        )?;
        writeln!(
            f,
            "scans    {} seeks, {} steps",
            format_count(counters.get(Counter::IterSeeks)),
            format_count(counters.get(Counter::IterSteps)),
        )
    }

    fn stalls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |cause| seconds(self.counters.get(Counter::stall_micros(cause)));
        writeln!(
            f,
            "stalls   {} writes; memtable limit {:.3} s, level 0 file count {:.3} s, pending compaction bytes {:.3} s, unsynced WAL {:.3} s",
            format_count(self.counters.get(Counter::StalledWrites)),
            micros(StallCause::MemtableLimit),
            micros(StallCause::L0FileCount),
            micros(StallCause::PendingCompactionBytes),
            micros(StallCause::UnsyncedWal)
        )?;
        match &self.next_limit {
            Some(limit) => writeln!(f, "limits   {limit}"),
            None => Ok(()),
        }
    }
}
