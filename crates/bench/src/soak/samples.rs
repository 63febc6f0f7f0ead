//! What the process holds in memory, and what the database says that it holds.

use crate::ProcessUsage;
use siltstone_base::{Error, ErrorKind, Result};
use siltstone_lsm::{Db, MemoryReport};
use std::fmt;

/// By so much of it resident memory may differ from what it should be.
const TOLERANCE: f64 = 0.1;

const MIB: f64 = (1 << 20) as f64;

/// The memory of one moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    seconds: f64,
    /// Bytes.
    resident: f64,
    /// Of right before.
    report: MemoryReport,
    /// Of right after: a memtable may go between a report and a look at resident memory.
    report_after: MemoryReport,
}

impl Sample {
    pub(super) const HEADER: &str = "     s  resident  holders  differ  memtables  blocks  compressed  tables  buffers  free  \
                                     transactions  prepared  locks (MiB)";

    pub(super) fn take(seconds: f64, db: &Db) -> Result<Self> {
        let report = db.memory_report();
        let Some(resident) = ProcessUsage::now().rss_mb else {
            return Err(Error::not_supported("soak: the system does not tell how much memory is resident"));
        };
        Ok(Self { seconds, resident: resident * 1e6, report, report_after: db.memory_report() })
    }

    fn holders(&self) -> f64 {
        self.report.total_with_process() as f64
    }

    /// By how much the report differs from resident memory, as a part of that: the one of right before, or of right after, whichever is nearer.
    fn difference(&self) -> f64 {
        let of = |report: &MemoryReport| (self.resident - report.total_with_process() as f64) / self.resident;
        let (before, after) = (of(&self.report), of(&self.report_after));
        if before.abs() <= after.abs() { before } else { after }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.report;
        write!(
            f,
            "{:6.0} {:9.1} {:8.1} {:5.1} %",
            self.seconds,
            self.resident / MIB,
            self.holders() / MIB,
            100.0 * self.difference()
        )?;
        let columns = [
            (report.memtables + report.held_memtables + report.free_memtables, 11),
            (report.cached_blocks, 8),
            (report.compressed_blocks, 12),
            (report.open_tables, 8),
            (report.buffers, 9),
            (report.free_buffers, 6),
            (report.transactions, 14),
            (report.prepared_transactions, 10),
            (report.row_locks, 7),
        ];
        columns.iter().try_for_each(|(bytes, width)| write!(f, "{:width$.1}", *bytes as f64 / MIB, width = *width))
    }
}

/// All samples of a run.
#[derive(Debug)]
pub(super) struct Samples {
    budget: f64,
    count: usize,
    /// Those that were compared with the report.
    compared: usize,
    /// Samples above the budget and the tolerance.
    above: usize,
    /// Samples whose report differs by more than the tolerance.
    different: usize,
    largest: Option<Sample>,
    most_different: Option<Sample>,
}

impl Samples {
    pub(super) fn new(budget: usize) -> Self {
        let budget = budget as f64;
        Self { budget, count: 0, compared: 0, above: 0, different: 0, largest: None, most_different: None }
    }

    /// Adds a sample, and returns whether it is not what it should be.
    pub(super) fn add(&mut self, sample: Sample) -> bool {
        self.count += 1;
        let is_above = sample.resident > self.budget * (1.0 + TOLERANCE);
        self.above += usize::from(is_above);
        let is_compared = self.compared > 0 || sample.holders() >= self.budget / 2.0;
        self.compared += usize::from(is_compared);
        let is_different = is_compared && sample.difference().abs() > TOLERANCE;
        self.different += usize::from(is_different);
        if self.largest.as_ref().is_none_or(|largest| largest.resident < sample.resident) {
            self.largest = Some(sample.clone());
        }
        let difference = |sample: &Sample| sample.difference().abs();
        if is_compared && self.most_different.as_ref().is_none_or(|most| difference(most) < difference(&sample)) {
            self.most_different = Some(sample);
        }
        is_above || is_different
    }

    pub(super) fn summary(&self) -> String {
        let resident = self.largest.as_ref().map_or(0.0, |sample| sample.resident);
        let difference = self.most_different.as_ref().map_or(0.0, Sample::difference);
        format!(
            "{} samples: {} above the budget and a tenth (resident {:.1} MiB at most, {:.1} % of the budget); of {} that were compared, {} differ from the report by more than a tenth \
             ({:.1} % at most)",
            self.count,
            self.above,
            resident / MIB,
            100.0 * resident / self.budget,
            self.compared,
            self.different,
            100.0 * difference
        )
    }

    /// Fails if a sample was not what it should be.
    pub(super) fn verdict(&self) -> Result<()> {
        match (self.above, self.different) {
            (0, 0) => Ok(()),
            _ => Err(Error::new(ErrorKind::LimitExceeded, format!("soak: {}", self.summary()))),
        }
    }

    #[cfg(test)]
    pub(super) fn counts_for_test(&self) -> [usize; 4] {
        [self.count, self.above, self.compared, self.different]
    }
}

#[cfg(test)]
impl Sample {
    pub(super) fn for_test(resident_mib: f64, held_mib: u64) -> Self {
        let mut report = MemoryReport::default();
        report.cached_blocks = held_mib << 20;
        Self { seconds: 1.0, resident: resident_mib * MIB, report, report_after: report }
    }
}
