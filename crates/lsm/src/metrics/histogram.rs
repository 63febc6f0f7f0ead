//! Distributions of what the engine measures, under RocksDB's histogram names where it has one.
//!
//! A value is counted in the bucket of its range: exactly below 16, to an eighth of a power of two above. Each thread that measures something counts in cells of its own,
//! which are made when it does so first; a reader adds them up.

use super::{SLOTS, is_shared, slot};
use siltstone_base::sync::OnceLock;
use siltstone_base::sync::atomic::{AtomicU64, Ordering};
use std::fmt;

macro_rules! histograms {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )*) => {
        /// One distribution.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum HistogramKind {
            $( $(#[$meta])* $variant, )*
        }

        impl HistogramKind {
            /// Every distribution, in the order in which they are printed.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The name under which the distribution is printed.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

histograms! {
    /// Microseconds of a get. Measured where [operations are timed](super::Metrics::set_times_operations).
    DbGet = "rocksdb.db.get.micros",
    /// Microseconds of a write, waiting included. Measured where operations are timed.
    DbWrite = "rocksdb.db.write.micros",
    /// Microseconds of a read of several keys. Measured where operations are timed.
    DbMultiGet = "rocksdb.db.multiget.micros",
    /// Microseconds of a seek of an iterator. Measured by iterators that are made where operations are timed.
    DbSeek = "rocksdb.db.seek.micros",
    /// Bytes of the value that a get found. Measured where operations are timed.
    BytesPerRead = "rocksdb.bytes.per.read",
    /// Bytes of a write batch. Measured where operations are timed.
    BytesPerWrite = "rocksdb.bytes.per.write",
    /// Bytes of the values that a read of several keys found. Measured where operations are timed.
    BytesPerMultiGet = "rocksdb.bytes.per.multiget",
    /// Keys that a read of several keys asked one table for, where they were more than one.
    SstBatchSize = "rocksdb.sst.batch.size",
    /// Operands that a read merged for a key.
    ReadNumMergeOperands = "rocksdb.read.num.merge_operands",
    /// Operations of a transaction that was committed from memory.
    NumOpsPerTransaction = "rocksdb.num.op.per.transaction",
    /// Microseconds of opening a table.
    TableOpenIo = "rocksdb.table.open.io.micros",
    /// Microseconds of a read of a table file. Measured where operations are timed.
    SstRead = "rocksdb.sst.read.micros",
    /// Microseconds of coming by one data block that no cache has, for a get. Measured where operations are timed.
    ReadBlockGet = "rocksdb.read.block.get.micros",
    /// Nanoseconds of decompressing a block of a table. Measured where operations are timed.
    DecompressionTime = "rocksdb.decompression.times.nanos",
    /// Nanoseconds of compressing a block of a table. Measured where operations are timed.
    CompressionTime = "rocksdb.compression.times.nanos",
    /// Microseconds of a write to a table file. Measured where operations are timed.
    SstWrite = "rocksdb.sst.write.micros",
    /// Microseconds of the sync of a table that a flush, or what is not a compaction, wrote.
    TableSync = "rocksdb.table.sync.micros",
    /// Microseconds of the sync of a table that a compaction wrote.
    CompactionOutfileSync = "rocksdb.compaction.outfile.sync.micros",
    /// Microseconds of a sync of the MANIFEST.
    ManifestFileSync = "rocksdb.manifest.file.sync.micros",
    /// Files that a compaction read.
    NumFilesInSingleCompaction = "rocksdb.numfiles.in.singlecompaction",
    /// Microseconds of a flush.
    FlushTime = "rocksdb.db.flush.micros",
    /// Microseconds of a compaction that rewrote tables, failed ones included.
    CompactionTime = "rocksdb.compaction.times.micros",
    /// Microseconds of a sync of a WAL.
    WalFileSync = "rocksdb.wal.file.sync.micros",
    /// Microseconds that a write was held back, for each that was.
    WriteStall = "rocksdb.db.write.stall",
    /// Bytes of memory of the memtables that a flush wrote.
    FlushMemtableMemory = "rocksdb.flush.memtable.memory.bytes",
    /// Bytes of keys and values in them.
    FlushMemtableData = "rocksdb.flush.memtable.total.data.size.bytes",
    /// Bytes of memory of the memtables that a flush wrote because one of them was full.
    FlushFullMemtableMemory = "rocksdb.flush.write_buffer_full.memtable.memory.bytes",
    /// Bytes of memory of the memtables that a flush wrote because those of all families together had their share.
    FlushManagedMemtableMemory = "rocksdb.flush.write_buffer_manager.memtable.memory.bytes",
    /// Microseconds that external tables took to be copied or linked, and looked through.
    IngestPrepare = "rocksdb.ingest.external.file.prepare.micros",
    /// Microseconds that they then took to become part of a family; writers wait for the most of it.
    IngestRun = "rocksdb.ingest.external.file.run.micros",
    /// Microseconds that the rate limiter made a flush or a compaction wait for what it read.
    RateLimiterReadWait = "rocksdb.rate.limiter.wait.micros.read",
    /// Microseconds that it made one wait for what it wrote.
    RateLimiterWriteWait = "rocksdb.rate.limiter.wait.micros.write",
    /// Subcompactions of a compaction that was shared out.
    NumSubcompactionsScheduled = "rocksdb.num.subcompactions.scheduled",
}

const KINDS: usize = HistogramKind::ALL.len();

/// Values below have a bucket each.
const EXACT: u64 = 16;
/// Buckets between two powers of two, as a power of two.
const BITS: u32 = 3;
/// Powers of two that are told apart; larger values are counted with the last.
const LARGEST_BIT: u32 = 47;
const BUCKETS: usize = EXACT as usize + ((LARGEST_BIT - EXACT.ilog2() + 1) << BITS) as usize;

/// The bucket of a value.
fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let bit = value.ilog2();
    if bit > LARGEST_BIT {
        return BUCKETS - 1;
    }
    let within = (value >> (bit - BITS)) & ((1 << BITS) - 1);
    EXACT as usize + ((((bit - EXACT.ilog2()) << BITS) as u64) + within) as usize
}

/// The smallest value of a bucket, and the smallest of the next one.
fn range_of(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return (bucket, bucket + 1);
    }
    let above = bucket - EXACT;
    let bit = EXACT.ilog2() + (above >> BITS) as u32;
    let within = above & ((1 << BITS) - 1);
    let step = 1_u64 << (bit - BITS);
    let start = (1_u64 << bit) + within * step;
    (start, start + step)
}

/// What one thread counts of one distribution.
struct Cells {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Cells {
    const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }

    fn record(&self, value: u64, is_shared: bool) {
        let add = |cell: &AtomicU64, amount: u64| {
            if is_shared {
                cell.fetch_add(amount, Ordering::Relaxed);
            } else {
                // Only this thread writes the cell.
                cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
            }
        };
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            add(bucket, 1);
        }
        add(&self.sum, value);
        // Mostly it is no new one, and a look costs less than a locked operation.
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }
}

/// The distributions of one open database.
///
/// Thread safety: every method may be called from any thread.
pub(super) struct Histograms {
    slots: Box<[[OnceLock<Box<Cells>>; KINDS]]>,
}

impl Histograms {
    pub(super) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| [const { OnceLock::new() }; KINDS]).collect() }
    }

    /// Counts a value.
    pub(super) fn record(&self, kind: HistogramKind, value: u64) {
        let slot = slot();
        if let Some(cells) = self.slots.get(slot).and_then(|cells| cells.get(kind as usize)) {
            cells.get_or_init(|| Box::new(Cells::new())).record(value, is_shared(slot));
        }
    }

    /// What was counted so far.
    pub(super) fn get(&self, kind: HistogramKind) -> HistogramData {
        let mut data = HistogramData { buckets: vec![0; BUCKETS], count: 0, sum: 0, max: 0 };
        let cells = self.slots.iter().filter_map(|cells| cells.get(kind as usize)?.get());
        for cells in cells {
            for (sum, bucket) in data.buckets.iter_mut().zip(&cells.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
            data.sum = data.sum.wrapping_add(cells.sum.load(Ordering::Relaxed));
            data.max = data.max.max(cells.max.load(Ordering::Relaxed));
        }
        data.count = data.buckets.iter().sum();
        data
    }
}

impl fmt::Debug for Histograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(HistogramKind::ALL.iter().map(|kind| (kind.name(), self.get(*kind)))).finish()
    }
}

/// A distribution at one moment.
#[derive(Clone, PartialEq, Eq)]
pub struct HistogramData {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl HistogramData {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest; 0 without any.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Their mean; 0 without any.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The value that a share of `quantile` (0.0 to 1.0) does not exceed, to an eighth; 0 without any.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let wanted = quantile.clamp(0.0, 1.0) * self.count as f64;
        let mut before = 0;
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            if (before + count) as f64 >= wanted {
                let (start, end) = range_of(bucket);
                let share = ((wanted - before as f64) / *count as f64).clamp(0.0, 1.0);
                // The values of a bucket may lie anywhere in it.
                let value = start as f64 + share * (end - 1 - start) as f64;
                return value.min(self.max as f64);
            }
            before += count;
        }
        self.max as f64
    }
}

impl fmt::Debug for HistogramData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// As RocksDB prints it.
impl fmt::Display for HistogramData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "P50 : {:.6} P95 : {:.6} P99 : {:.6} P100 : {:.6} COUNT : {} SUM : {}",
            self.quantile(0.5),
            self.quantile(0.95),
            self.quantile(0.99),
            self.max as f64,
            self.count,
            self.sum
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_neighbours_and_have_their_values() {
        let mut before = 0;
        for bucket in 0..BUCKETS {
            let (start, end) = range_of(bucket);
            assert_eq!(start, before, "bucket {bucket}");
            assert!(end > start);
            assert_eq!((bucket_of(start), bucket_of(end - 1)), (bucket, bucket));
            before = end;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_right_to_an_eighth() {
        let histograms = Histograms::new();
        assert_eq!(histograms.get(HistogramKind::DbGet).quantile(0.5), 0.0);
        (1..=10_000).for_each(|value| histograms.record(HistogramKind::DbGet, value));
        let data = histograms.get(HistogramKind::DbGet);
        assert_eq!((data.count(), data.sum(), data.max()), (10_000, 50_005_000, 10_000));
        for (quantile, expected) in [(0.5, 5_000.0), (0.95, 9_500.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = data.quantile(quantile);
            assert!((found - expected).abs() <= expected / 8.0, "{quantile}: {found}");
        }
        assert_eq!(data.mean(), 5_000.5);
        assert_eq!(histograms.get(HistogramKind::DbWrite).count(), 0, "each is counted apart");
    }
}
