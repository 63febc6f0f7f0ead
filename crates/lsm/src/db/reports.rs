//! What a database tells of itself: properties, statistics, its files, and checks of all that is in it.

use super::{
    ApproximateSize, ColumnFamily, CompactionRecord, Db, ExpiryReport, MemoryReport, PinnedState, TableExpiryReport,
    TableFile, TreeReport,
};
use crate::metrics::{Metrics, MetricsTable, Statistics};
use siltstone_base::Result;

impl Db {
    /// The value of a property of the default family, under RocksDB's name (`rocksdb.stats`).
    ///
    /// # Errors
    ///
    /// `NotFound` for a name that is no property.
    pub fn property(&self, name: &str) -> Result<String> {
        self.property_cf(&self.default_family(), name)
    }

    /// The value of a property of `family`.
    pub fn property_cf(&self, family: &ColumnFamily, name: &str) -> Result<String> {
        self.handle.inner.property(&family.0, name)
    }

    /// The counters of this database.
    pub fn metrics(&self) -> &Metrics {
        &self.handle.inner.metrics
    }

    /// The same, for what outlives the call.
    pub(crate) fn shared_metrics(&self) -> siltstone_base::sync::Arc<Metrics> {
        siltstone_base::sync::Arc::clone(&self.handle.inner.metrics)
    }

    /// All counters and distributions at this moment, those of the block cache included; a cache that several databases share counts for all of them.
    ///
    /// ```
    /// use siltstone_lsm::{Db, DbOptions};
    ///
    /// # fn main() -> siltstone_lsm::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true))?;
    /// db.metrics().set_times_operations(true);
    /// db.put("ochre", "yellow")?;
    /// let statistics = db.statistics();
    /// assert_eq!(statistics.ticker("rocksdb.number.keys.written"), Some(1));
    /// assert_eq!(statistics.histogram("rocksdb.db.write.micros").map(|times| times.count()), Some(1));
    /// assert!(statistics.to_string().contains("rocksdb.number.keys.written COUNT : 1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn statistics(&self) -> Statistics {
        self.handle.inner.statistics()
    }

    /// The statistics, and the properties of all families that are numbers, in Prometheus' text format: names with underscores, families and levels as labels.
    pub fn prometheus_text(&self) -> String {
        self.handle.inner.prometheus_text()
    }

    /// Hands the same to the recorder that the program has installed for the crate `metrics`: tickers as counters, of distributions the quantiles (`….p50`, `.p95`, `.p99`,
    /// `.max`) as gauges and number and sum (`.count`, `.sum`) as counters, properties as gauges with labels. To be called as often as somebody looks; nothing is handed over in between.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        self.handle.inner.publish_metrics();
    }

    /// Who holds how much memory at the moment. Walks over all tables.
    pub fn memory_report(&self) -> MemoryReport {
        self.handle.inner.memory_report()
    }

    /// The last compactions of all families that ended, oldest first: at most 256, failed ones and those that only moved tables included. They are not kept over an opening.
    pub fn compaction_log(&self) -> Vec<CompactionRecord> {
        self.handle.inner.compaction_log()
    }

    /// The counters and the tree of `family`, ready to print.
    pub fn metrics_table(&self, family: &ColumnFamily) -> MetricsTable {
        self.handle.inner.metrics_table(&family.0)
    }

    /// Checks the whole tree of every family: order, overlap, sequence numbers, and every entry against what the MANIFEST
    /// says of its file. Reads everything.
    pub fn check(&self) -> Result<TreeReport> {
        self.handle.inner.check()
    }

    /// The live tables of `family`, by level, with what their properties say and what collectors stored in them.
    pub fn table_files(&self, family: &ColumnFamily) -> Result<Vec<TableFile>> {
        self.handle.inner.table_files(&family.0)
    }

    /// Reads every live table that has a checksum in the MANIFEST ([`DbOptions::file_checksum`](crate::DbOptions::file_checksum)) and compares. Returns the number
    /// of tables that have one.
    ///
    /// # Errors
    ///
    /// `Corruption` names the first table that differs.
    pub fn verify_file_checksums(&self) -> Result<u64> {
        self.handle.inner.verify_file_checksums()
    }

    /// Reads every block of every live table and every value of every blob file from the disk, and verifies its checksum. Returns the number of files.
    /// [`check`](Self::check) moreover compares the entries of tables with the MANIFEST.
    ///
    /// # Errors
    ///
    /// `Corruption` names the first file that is damaged, and the offset of the block or value.
    pub fn verify_checksums(&self) -> Result<u64> {
        self.handle.inner.verify_checksums()
    }

    /// About how much of `family` is in each of `ranges`, from the first key to before the second: by what the indexes of tables say, and by samples of memtables. A range
    /// that ends before it begins has nothing.
    ///
    /// # Errors
    ///
    /// Those of opening tables; no data block is read.
    pub fn approximate_sizes(&self, family: &ColumnFamily, ranges: &[(&[u8], &[u8])]) -> Result<Vec<ApproximateSize>> {
        self.handle.inner.approximate_sizes(&family.0, ranges)
    }

    /// The states of `family` that were replaced and that iterators still hold, oldest first: what they keep from being freed and deleted, and for how long.
    pub fn pinned_states(&self, family: &ColumnFamily) -> Vec<PinnedState> {
        let now_micros = self.handle.inner.clock.now_micros();
        family.0.replaced.pinned_states(&family.0.super_version.load(), now_micros)
    }

    /// The error that made the engine read-only, if one did.
    pub fn background_error(&self) -> Option<crate::Error> {
        self.handle.inner.errors.cause()
    }

    /// The time by which rows expire for readers that begin now, in Unix seconds; 0 if no family has rows that do.
    pub(crate) fn expiry_now(&self) -> u64 {
        self.handle.inner.surroundings.expiry.now()
    }

    /// The same of some groups of the default family's rows; see [`TableDb::expiry_report`](crate::TableDb::expiry_report).
    pub(crate) fn expiry_of_groups(&self, groups: &[u32]) -> Result<Option<TableExpiryReport>> {
        let inner = &self.handle.inner;
        inner.expiry_of_groups(&inner.default_family, groups)
    }

    /// What there is to tell about rows of `family` that expire; `None` if none does.
    ///
    /// # Errors
    ///
    /// `NotFound` if the family was dropped.
    pub fn expiry_report(&self, family: &ColumnFamily) -> Result<Option<ExpiryReport>> {
        self.handle.inner.expiry_report(&family.0)
    }
}
