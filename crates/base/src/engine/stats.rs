//! What an engine counts.

use std::collections::BTreeMap;

/// Microseconds that writers were delayed or stopped, by the engine's own name for the cause.
pub type StallMicros = BTreeMap<String, u64>;

/// Counters by their engine's own names.
pub type Counters = BTreeMap<String, u64>;

/// Counters of an engine since it was opened. `None` where the engine cannot tell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineStats {
    /// Bytes written to files: logs, flushes, compactions, pages.
    pub bytes_written: Option<u64>,
    /// Bytes read from files, by users and by background work.
    pub bytes_read: Option<u64>,
    /// What both are rounded to, for an engine that counts less exactly than by single bytes: growth of fewer than ten of these is not known.
    pub bytes_grain: u64,
    /// Reads from files, by users and by background work: of a B-tree, pages.
    pub reads: Option<u64>,
    /// Bytes that files occupy now.
    pub space_bytes: Option<u64>,
    /// Those of them that logs occupy, whose size says nothing about the data: circular ones, write-ahead logs of what is in memory with the space that they reserved, and copies of what is being written.
    pub log_bytes: Option<u64>,
    /// RocksDB's estimate of the bytes that compaction has to rewrite until every level is within its target.
    pub debt_bytes: Option<u64>,
    /// Bytes that callers may still write until a limit slows writers down or stops them, if background work got no further from now on.
    pub next_limit_bytes: Option<u64>,
    /// Time that writers were held up. `None` if the engine does not count it; empty if nobody was.
    pub stall_micros: Option<StallMicros>,
    /// Whatever else the engine counts; zeros are left out.
    pub counters: Counters,
}

impl EngineStats {
    /// What happened since `earlier`: counters are subtracted, sizes are those of `self`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        let bytes = |now, then| difference(now, then).filter(|grown| *grown >= self.bytes_grain.saturating_mul(10));
        let stall_micros = self.stall_micros.as_ref().map(|now| {
            let then = |cause: &String| earlier.stall_micros.as_ref().and_then(|causes| causes.get(cause)).copied();
            now.iter()
                .map(|(cause, micros)| (cause.clone(), micros.saturating_sub(then(cause).unwrap_or(0))))
                .filter(|(_, micros)| *micros > 0)
                .collect()
        });
        let then = |name: &String| earlier.counters.get(name).copied().unwrap_or(0);
        let grown = self.counters.iter().map(|(name, now)| (name.clone(), now.saturating_sub(then(name))));
        let counters = grown.filter(|(_, count)| *count > 0).collect();
        Self {
            counters,
            bytes_written: bytes(self.bytes_written, earlier.bytes_written),
            bytes_read: bytes(self.bytes_read, earlier.bytes_read),
            bytes_grain: self.bytes_grain,
            reads: difference(self.reads, earlier.reads),
            space_bytes: self.space_bytes,
            log_bytes: self.log_bytes,
            debt_bytes: self.debt_bytes,
            next_limit_bytes: self.next_limit_bytes,
            stall_micros,
        }
    }

    /// Bytes that files occupy without such logs.
    pub fn data_bytes(&self) -> Option<u64> {
        Some(self.space_bytes?.saturating_sub(self.log_bytes.unwrap_or(0)))
    }

    /// The sum of [`stall_micros`](Self::stall_micros) over all causes.
    pub fn stall_micros_total(&self) -> Option<u64> {
        self.stall_micros.as_ref().map(|causes| causes.values().sum())
    }
}
