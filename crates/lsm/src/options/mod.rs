//! Options. Every struct is a builder: `DbOptions::default().create_if_missing(true)`.

mod budget;
mod column_family;
mod compaction;
mod database;
pub(crate) mod file;
mod operation;
mod table;
#[cfg(test)]
mod tests;
mod validate;

pub use column_family::ColumnFamilyOptions;
pub use compaction::{CompactionStyle, FifoCompactionOptions, UniversalCompactionOptions, UniversalStopStyle};
pub use database::{DbOptions, FileChecksum, RateLimiterMode, WalRecoveryMode, WriteAdmission};
pub use file::{IgnoredOption, LoadedOptions};
pub use operation::{
    CompactRangeOptions, FlushOptions, IngestExternalFileOptions, ReadOptions, ReadTier, WaitForCompactOptions,
    WriteOptions,
};
pub use siltstone_base::compression::CompressionType;
pub(crate) use table::LEAST_FILTER_BITS;
pub use table::{ChecksumType, DataBlockIndexType, FilterPolicy, IndexType, TableOptions};
