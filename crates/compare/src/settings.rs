//! What every foreign engine is opened with.

use siltstone_base::engine::Durability;

/// The settings of one run, the same for all engines.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerSettings {
    /// Bytes of the block cache, or of the page cache of an engine that has one of its own.
    pub cache_bytes: usize,
    /// Bytes of one write buffer.
    pub write_buffer_bytes: usize,
    /// Write buffers, being written and sealed.
    pub write_buffers: usize,
    /// Bytes of a table below level 0 of LSM trees.
    pub table_bytes: u64,
    /// Bytes of RocksDB's first level.
    pub level_base_bytes: u64,
    /// Bits per key of the bloom filters.
    pub bloom_bits_per_key: f64,
    /// Keys are looked for that are there: LSM trees write no filters for their last level.
    pub expects_hits: bool,
    /// LSM trees compress their blocks with LZ4; the others never compress.
    pub compress: bool,
    /// Threads for flushes and compactions.
    pub background_jobs: usize,
    /// Reads and writes tables past the operating system's page cache. Engines without such a mode refuse.
    pub direct: bool,
    /// Version of RocksDB's table format. `None`: what the engine writes by itself.
    pub format_version: Option<u32>,
    /// How long a write has to be safe before it returns.
    pub durability: Durability,
    /// Files in level 0 at which RocksDB compacts it. `None`: what it does by itself.
    pub level0_compaction_trigger: Option<usize>,
    /// The same at which it slows writers down.
    pub level0_slowdown_trigger: Option<usize>,
    /// The same at which it stops them.
    pub level0_stop_trigger: Option<usize>,
}

impl PeerSettings {
    /// Bytes of all memory that an engine may use: of the cache, and of the write buffers.
    pub fn memory_bytes(&self) -> usize {
        self.cache_bytes.saturating_add(self.write_buffers.saturating_mul(self.write_buffer_bytes))
    }
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            write_buffer_bytes: 64 << 20,
            write_buffers: 2,
            table_bytes: 64 << 20,
            level_base_bytes: 256 << 20,
            bloom_bits_per_key: 10.0,
            expects_hits: false,
            compress: true,
            background_jobs: 2,
            direct: false,
            format_version: None,
            durability: Durability::Os,
            level0_compaction_trigger: None,
            level0_slowdown_trigger: None,
            level0_stop_trigger: None,
        }
    }
}
