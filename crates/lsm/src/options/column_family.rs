//! Options of one column family.

use super::{CompactionStyle, CompressionType, FifoCompactionOptions, TableOptions, UniversalCompactionOptions};
use crate::merge::MergeOperator;
use crate::sst::TablePropertiesCollectorFactory;
use siltstone_base::comparator::{Bytewise, Comparator};
use siltstone_base::entry_filter::EntryFilter;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::prefix_extractor::PrefixExtractor;
use std::sync::Arc;

siltstone_base::define_options! {
    /// Options of one column family. Names and meanings are RocksDB's where it has the option.
    ColumnFamilyOptions {
        /// The order of keys. Fixed when the family is created.
        comparator: Arc<dyn Comparator> = Arc::new(Bytewise),
        /// Bytes of a memtable at which it is sealed and flushed. At least 1024.
        write_buffer_size: usize = 64 << 20,
        /// Memtables, being written and sealed, at which writers stop. At least 2.
        max_write_buffer_number: usize = 2,
        /// Bits per key of a bloom filter over each memtable, sized for its capacity and made when there are a few hundred entries, so
        /// that reads of keys that were not written lately do not search it. 0: none.
        memtable_bloom_bits_per_key: usize = 10,
        /// Tells the prefix of a key. Filters of tables and memtables then have the prefixes of their keys too, so that walks which stay
        /// among the keys of one prefix pass by what has none of them; see [`ReadOptions`](crate::ReadOptions). Tables that were written with
        /// another extractor are still read, without that help. Unused if keys of different bytes may be equal.
        prefix_extractor: Option<Arc<dyn PrefixExtractor>> = None,
        /// Files in level 0 at which it is compacted; with the universal style sorted runs. At least 1.
        level0_file_num_compaction_trigger: usize = 4,
        /// Files in level 0 at which writers are slowed down; with the universal style sorted runs. At least the compaction trigger.
        level0_slowdown_writes_trigger: usize = 20,
        /// Files in level 0 at which writers stop; with the universal style sorted runs. At least the slowdown trigger.
        level0_stop_writes_trigger: usize = 36,
        /// Estimated bytes of pending compactions at which writers are slowed down. 0: never.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30,
        /// Estimated bytes of pending compactions at which writers stop. 0: never. Otherwise at least the soft limit.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30,
        /// Number of levels. 2 to 64.
        num_levels: usize = 7,
        /// Size of tables in the base level, in bytes. At least 1.
        target_file_size_base: u64 = 64 << 20,
        /// How much larger tables are a level further down. At least 1.
        target_file_size_multiplier: u64 = 1,
        /// Target size of the base level, in bytes. At least 1.
        max_bytes_for_level_base: u64 = 256 << 20,
        /// How much larger the target is a level further down. At least 2.
        max_bytes_for_level_multiplier: u64 = 10,
        /// Derives the levels' targets from the size of the last one, so that about 90 % of the data is there.
        level_compaction_dynamic_level_bytes: bool = true,
        /// With the leveled style and dynamic level bytes: where level 0 is due, but its merge into the base level has to wait for another or would read more than
        /// `max_compaction_bytes`, merges its oldest files into an empty level above the base level, from where they go on table by table. Level 0 stays
        /// short, and more is written.
        level0_sublevels: bool = false,
        /// Most bytes of inputs of one compaction. 0: 25 times `target_file_size_base`.
        max_compaction_bytes: u64 = 0,
        /// How tables are merged.
        compaction_style: CompactionStyle = CompactionStyle::Leveled,
        /// Options of the universal style.
        compaction_options_universal: UniversalCompactionOptions = UniversalCompactionOptions::default(),
        /// Options of the FIFO style.
        compaction_options_fifo: FifoCompactionOptions = FifoCompactionOptions::default(),
        /// With the FIFO style, deletes tables that were written so many seconds ago. With others, lets data that old go down to the last level
        /// that has any, where what was deleted ends. 0: never.
        ttl: u64 = 0,
        /// Rewrites tables that were written so many seconds ago, so that compaction filters see what nobody writes to any more. Without
        /// effect in the FIFO style. 0: never.
        periodic_compaction_seconds: u64 = 0,
        /// What a read costs that asks a table in vain, in bytes of merging. When reads have paid more for a table than merging it into the next
        /// level takes, or in the universal and the lazy style into the next run, that is done. Seeks pay for every table that they meet above the last one; gets for those whose filters let them through. Looked at every few
        /// seconds. Without effect in the FIFO style. 0: never; a read from a disk costs about 16 KiB.
        read_triggered_bytes: u64 = 0,
        /// Writes no filter for tables of the last level that has data: nine tenths of all filters, for reads that mostly find what they look for, which have to read a block there anyway.
        optimize_filters_for_hits: bool = false,
        /// Starts no compaction unless asked.
        disable_auto_compactions: bool = false,
        /// Codec of levels that `compression_per_level` does not name.
        compression: CompressionType = CompressionType::Lz4,
        /// Codec by level; with dynamic level bytes, index 0 is level 0 and index 1 the base level. The last one holds for all
        /// further levels. Empty: `compression` everywhere.
        compression_per_level: Vec<CompressionType> = Vec::new(),
        /// Codec of the last level that has data. `None`: as the level says.
        bottommost_compression: Option<CompressionType> = None,
        /// Effort of Zstd: -7 to 22.
        zstd_level: i32 = 3,
        /// Most bytes of the dictionary of each table, for codecs that have dictionaries. 0: none is made. At most 16 MiB.
        max_dict_bytes: usize = 0,
        /// Bytes of samples that a dictionary is trained on; a hundred times `max_dict_bytes` is good. 0: the dictionary is a
        /// few samples as they are. At most 256 MiB.
        zstd_max_train_bytes: usize = 0,
        /// Bytes of a table's data blocks that are held back until its dictionary is made of samples of them. 0: four times the
        /// samples, where RocksDB holds the whole table back.
        max_dict_buffer_bytes: usize = 0,
        /// Who collects properties of each table that is written.
        table_properties_collectors: Vec<Arc<dyn TablePropertiesCollectorFactory>> = Vec::new(),
        /// Looks at every live value that a compaction rewrites.
        compaction_filter: Option<Arc<dyn EntryFilter>> = None,
        /// Says which rows are expired: those are hidden from every read that begins later, and are removed when that is cheap. Not together with a merge
        /// operator, nor with timestamps. Each family needs a policy of its own.
        expiry: Option<Arc<dyn ExpiryPolicy>> = None,
        /// Puts together what is written by merges. `None`: merges are refused, and so are reads of keys that have operands.
        merge_operator: Option<Arc<dyn MergeOperator>> = None,
        /// Opens the family although it was written with a merge operator of another name, or although there is none now, which is else refused. Operands that are there count as
        /// those of `merge_operator`. To be said at every opening until a compaction of the whole family has merged them.
        allow_other_merge_operator: bool = false,
        /// Layout of tables.
        table: TableOptions = TableOptions::default(),
    }
}

impl ColumnFamilyOptions {
    /// Whether compactions remove rows that nobody deleted: those that a caller asks for rewrite tables that they could move.
    pub(crate) fn removes_rows(&self) -> bool {
        self.compaction_filter.is_some() || self.expiry.is_some()
    }
}
