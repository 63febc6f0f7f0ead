//! What a program wants to know of each table: properties that it collects itself while the table is written.

use crate::key::{ColumnFamilyId, SeqNo, ValueType};
use std::fmt;

/// Longest name and value of a collected property, in bytes, and the most that one collector may have.
const MAX_NAME_LEN: usize = 1024;
const MAX_VALUE_LEN: usize = 1 << 20;
const MAX_PROPERTIES: usize = 1024;

/// Names that begin like this are RocksDB's own.
const RESERVED_PREFIX: &str = "rocksdb.";

/// An entry that is written to a table.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct CollectedEntry<'a> {
    /// The user key.
    pub user_key: &'a [u8],
    /// Its sequence number.
    pub seqno: SeqNo,
    /// What it does to the key.
    pub value_type: ValueType,
    /// Its value.
    pub value: &'a [u8],
}

/// Collects properties of one table.
///
/// Everything that a collector stores is a *hint*: RocksDB drops it when it rewrites the table, so its absence means that
/// nothing is known.
pub trait TablePropertiesCollector: Send + fmt::Debug {
    /// Looks at an entry. Entries come in the order of the table.
    fn add(&mut self, entry: &CollectedEntry<'_>);

    /// Whether the table should be compacted soon, asked at its end. The MANIFEST keeps the answer, as RocksDB's does.
    fn needs_compaction(&self) -> bool {
        false
    }

    /// The properties, at the end of the table. Left out are those whose names are not ASCII, longer than 1 KiB or begin with
    /// `rocksdb.`, values above 1 MiB, and all behind the first 1024.
    fn finish(self: Box<Self>) -> Vec<(String, Vec<u8>)>;
}

/// Makes a collector for each table.
///
/// Thread safety: called by background jobs, several at the same time.
pub trait TablePropertiesCollectorFactory: Send + Sync + fmt::Debug {
    /// The name; tables list the names of their collectors.
    fn name(&self) -> &str;

    /// A collector for one table of a column family.
    fn collector(&self, family: ColumnFamilyId) -> Box<dyn TablePropertiesCollector>;
}

/// Whether a collected property may be stored.
pub(crate) fn is_storable(name: &str, value: &[u8]) -> bool {
    name.is_ascii()
        && !name.is_empty()
        && name.len() <= MAX_NAME_LEN
        && value.len() <= MAX_VALUE_LEN
        && !name.starts_with(RESERVED_PREFIX)
}

/// The properties of a collector that may be stored.
pub(crate) fn storable(collector: Box<dyn TablePropertiesCollector>) -> impl Iterator<Item = (String, Vec<u8>)> {
    collector.finish().into_iter().filter(|(name, value)| is_storable(name, value)).take(MAX_PROPERTIES)
}
