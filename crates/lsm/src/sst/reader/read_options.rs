//! How a table is read.

use crate::options::{ReadOptions, ReadTier};
use siltstone_base::env::{FileKind, IoContext, IoPriority};

/// How to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableReadOptions {
    /// Puts blocks that are read into the cache.
    pub(crate) fill_cache: bool,
    /// Verifies checksums of blocks that are read from disk.
    pub(crate) verify_checksums: bool,
    /// How far the read may go.
    pub(crate) read_tier: ReadTier,
    /// Whose read it is.
    pub(crate) context: IoContext,
    /// Passes by data blocks of which all rows are expired at this time, in Unix seconds. For tables alone that have nothing older beneath them: what a block hides would come back.
    pub(crate) expired_at: Option<u64>,
    /// Entries that a walk is expected to need of the table from where it is sought on. 0: nobody knows.
    pub(crate) expected_entries: usize,
}

impl Default for TableReadOptions {
    fn default() -> Self {
        Self {
            fill_cache: true,
            verify_checksums: true,
            read_tier: ReadTier::All,
            context: IoContext::new(FileKind::Table, IoPriority::User),
            expired_at: None,
            expected_entries: 0,
        }
    }
}

impl From<&ReadOptions> for TableReadOptions {
    #[inline]
    fn from(options: &ReadOptions) -> Self {
        Self {
            fill_cache: options.fill_cache,
            verify_checksums: options.verify_checksums,
            read_tier: options.read_tier,
            expected_entries: options.expected_entries,
            ..Self::default()
        }
    }
}
