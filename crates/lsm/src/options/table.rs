//! Options of table files.

/// How blocks are protected. The numbers are those of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ChecksumType {
    /// Not at all.
    None = 0,
    /// CRC32c, masked.
    Crc32c = 1,
    /// XXH32.
    XxHash = 2,
    /// The low half of XXH64.
    XxHash64 = 3,
    /// XXH3 with RocksDB's rule for the last byte.
    Xxh3 = 4,
}

/// How the index of a table is laid out. The numbers are those of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum IndexType {
    /// One block, held in memory while the table is open.
    BinarySearch = 0,
    /// The same with the prefixes of keys beside it, which lead gets to the few blocks of a prefix, or to none. Needs a
    /// [`prefix_extractor`](crate::ColumnFamilyOptions::prefix_extractor); each index entry has its full key.
    HashSearch = 1,
    /// Partitions that come and go through the block cache, and a small index above them: for tables whose index is too
    /// large to be held.
    TwoLevel = 2,
    /// One block that also has the first key of each data block.
    BinarySearchWithFirstKey = 3,
}

/// How point reads search a data block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataBlockIndexType {
    /// By bisection.
    BinarySearch,
    /// By a hash of the user key, which costs a byte or two a key. No use with a comparator for which keys of different bytes
    /// may be equal: their blocks are written without it.
    BinarySearchAndHash,
}

/// What a table says about the keys that it does not have, so that reads pass it by.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FilterPolicy {
    /// Nothing.
    None,
    /// A bloom filter: built and asked fastest.
    Bloom {
        /// Bits per key; fractions are allowed, and below 0.5 there is no filter. At most 100. 10: about 1 % of false answers.
        bits_per_key: f64,
    },
    /// A ribbon filter: a third smaller than a bloom filter of the same accuracy, built several times slower. Read by RocksDB 6.15 and later.
    /// Where it would be larger, as for a few hundred keys, and in the rare case that it cannot be built, a bloom filter takes its place.
    Ribbon {
        /// Bits per key of a bloom filter that errs as often. Below 0.5 there is no filter. At most 100.
        bloom_equivalent_bits_per_key: f64,
        /// Tables of lower levels get bloom filters: they are soon rewritten. A flush counts as level -1, so that 0 means flushes alone.
        bloom_before_level: i32,
    },
}

/// Fewer bits of a key are not worth a filter: there is none.
pub(crate) const LEAST_FILTER_BITS: f64 = 0.5;

/// Bits of a key in a filter, at most.
pub(crate) const MOST_FILTER_BITS: f64 = 100.0;

siltstone_base::define_options! {
    /// Layout of table files.
    TableOptions {
        /// Version of the format, 5 to 7: 5 is read by RocksDB 6.6 and later, 6 by 8.6 and later, 7 by 10.4 and later.
        format_version: u32 = 6,
        /// Uncompressed bytes at which a data block ends. 256 to 16 MiB.
        block_size: usize = 4096,
        /// Entries of a data block between two full keys. 1 to 256.
        block_restart_interval: usize = 16,
        /// The same for index blocks.
        index_block_restart_interval: usize = 1,
        /// How point reads search a data block.
        data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch,
        /// Keys a bucket of the hash of a data block. 0.1 to 1.
        data_block_hash_table_util_ratio: f64 = 0.75,
        /// How the index is laid out.
        index_type: IndexType = IndexType::BinarySearch,
        /// Uncompressed bytes at which a partition of a two-level index ends. 64 to 16 MiB.
        metadata_block_size: usize = 4096,
        /// How blocks are protected.
        checksum: ChecksumType = ChecksumType::Xxh3,
        /// The filter of each table.
        filter_policy: FilterPolicy = FilterPolicy::None,
        /// Bits that each key gets beyond those of `filter_policy` in tables of flushes, and of compactions that leave older data beneath what they write. 0 to 100. A get asks all of those before it
        /// comes to the last level: an answer that errs costs a block there, and where the levels above have few of the keys, accuracy costs little memory. A table keeps its filter when it moves
        /// to the last level as it is, as after a load of ascending keys; so does every table of the FIFO style.
        upper_level_filter_bits: f64 = 6.0,
        /// Puts whole keys into the filter, for gets; `false`: only their prefixes, if the family has a
        /// [`prefix_extractor`](crate::ColumnFamilyOptions::prefix_extractor).
        whole_key_filtering: bool = true,
        /// Cuts filters into partitions of `metadata_block_size`, which come and go through the block cache. Takes effect with a two-level index alone.
        partition_filters: bool = false,
        /// Keeps the partitions of a table's filter in memory while the table is open, beside the block cache.
        pin_filter_partitions: bool = false,
    }
}

impl TableOptions {
    /// Sets [`filter_policy`](Self::filter_policy) to bloom filters of so many bits per key. 0: no filter.
    #[must_use]
    pub fn bloom_bits_per_key(self, bits_per_key: f64) -> Self {
        self.filter_policy(FilterPolicy::Bloom { bits_per_key })
    }

    /// The filter of tables that may have older data beneath them.
    ///
    /// As much for each of them, where "Monkey" (SIGMOD 2017) has the more the higher the level: behind the first bits there is little left to win.
    pub(crate) fn upper_level_filter(&self) -> FilterPolicy {
        let raised = |bits: f64| {
            if bits >= LEAST_FILTER_BITS { (bits + self.upper_level_filter_bits).min(MOST_FILTER_BITS) } else { bits }
        };
        match self.filter_policy {
            FilterPolicy::None => FilterPolicy::None,
            FilterPolicy::Bloom { bits_per_key } => FilterPolicy::Bloom { bits_per_key: raised(bits_per_key) },
            FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: bits, bloom_before_level } => {
                FilterPolicy::Ribbon { bloom_equivalent_bits_per_key: raised(bits), bloom_before_level }
            }
        }
    }
}

impl TableOptions {
    /// The oldest [`format_version`](Self::format_version) that is written.
    pub(crate) const OLDEST_WRITTEN_VERSION: u32 = 5;
}
