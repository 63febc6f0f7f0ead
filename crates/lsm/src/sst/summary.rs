//! What became of a table.

use crate::key::{InternalKey, SeqNo};

/// What a finished table is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSummary {
    /// Exact length in bytes.
    pub(crate) file_size: u64,
    /// Smallest internal key; empty if there are no entries.
    pub(crate) smallest: InternalKey,
    /// Largest internal key; empty if there are no entries.
    pub(crate) largest: InternalKey,
    /// Smallest sequence number; 0 if there are no entries.
    pub(crate) smallest_seqno: SeqNo,
    /// Largest sequence number.
    pub(crate) largest_seqno: SeqNo,
    /// Entries, range tombstones included.
    pub(crate) num_entries: u64,
    /// Tombstones of both kinds among them.
    pub(crate) num_deletions: u64,
    /// Range tombstones among them.
    pub(crate) num_range_deletions: u64,
    /// Bytes of all internal keys.
    pub(crate) raw_key_size: u64,
    /// Bytes of all values.
    pub(crate) raw_value_size: u64,
    /// Bytes of the data blocks as stored.
    pub(crate) data_size: u64,
    /// Data blocks.
    pub(crate) num_data_blocks: u64,
    /// CRC32c of the whole file, if it was asked for.
    pub(crate) file_crc: Option<u32>,
    /// Whether a collector wants the table to be compacted.
    pub(crate) needs_compaction: bool,
    /// RocksDB's unique id, if the ids of database and session are known.
    pub(crate) unique_id: Option<[u8; 16]>,
}
