//! Options of the compaction styles.

/// How the tables of a family are merged. Names and meanings are RocksDB's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompactionStyle {
    /// Each level below 0 is one sorted run with a target size, and what is too much moves down: little space, quick reads, more writing.
    Leveled,
    /// Sorted runs of similar sizes are merged with each other: less writing, more space. See [`UniversalCompactionOptions`].
    Universal,
    /// Lazy leveling, between the two: one run at the bottom, which what is above it goes into when that is more than the bottom's bytes divided by
    /// [`max_bytes_for_level_multiplier`](super::ColumnFamilyOptions::max_bytes_for_level_multiplier); above it, runs of about one size are merged when there are
    /// [`level0_file_num_compaction_trigger`](super::ColumnFamilyOptions::level0_file_num_compaction_trigger) of them. Of the options of the universal style, those about how merges are done
    /// hold. To RocksDB it is the universal style.
    Lazy,
    /// Nothing is merged, and the oldest tables are deleted with what they have: a cache. See [`FifoCompactionOptions`].
    Fifo,
}

/// When a merge takes no further sorted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UniversalStopStyle {
    /// When the next run is not of the size of the last one that was taken.
    SimilarSize,
    /// When the next run is larger than all that were taken, together.
    TotalSize,
}

siltstone_base::define_options! {
    /// Options of [`CompactionStyle::Fifo`]. All tables stay in level 0, whose number slows no writer down. What is too old or too much is looked at when a flush or a
    /// compaction ends. [`Db::compact_range`](crate::Db::compact_range) flushes and does nothing else.
    FifoCompactionOptions {
        /// Bytes of all tables above which the oldest are deleted.
        max_table_files_size: u64 = 1 << 30,
        /// Merges tables that are no larger than a flush makes them, when there are
        /// [`level0_file_num_compaction_trigger`](super::ColumnFamilyOptions::level0_file_num_compaction_trigger) of them, so that reads ask fewer.
        allow_compaction: bool = false,
    }
}

siltstone_base::define_options! {
    /// Options of [`CompactionStyle::Universal`]. A table of level 0 is a sorted run, and so is each further level that has tables. Merges begin when there are
    /// [`level0_file_num_compaction_trigger`](super::ColumnFamilyOptions::level0_file_num_compaction_trigger) sorted runs. Keep that below `num_levels`, so that there is a
    /// level for every run.
    UniversalCompactionOptions {
        /// By how many percent what was taken may be smaller than the next run and still be merged with it.
        size_ratio: u32 = 1,
        /// Fewest runs of one merge. At least 2.
        min_merge_width: u32 = 2,
        /// Most runs of one merge, unless it is for space amplification. At least the fewest.
        max_merge_width: u32 = u32::MAX,
        /// Bytes of all runs but the oldest, in percent of it, at which everything is merged.
        max_size_amplification_percent: u32 = 200,
        /// Of the data in percent: so much of the oldest is compressed, and newer runs are not. Negative: everything is compressed as the level says. At most 100.
        compression_size_percent: i32 = -1,
        /// When a merge takes no further run.
        stop_style: UniversalStopStyle = UniversalStopStyle::TotalSize,
        /// Lets tables that meet no others change their level without being rewritten, also where runs are merged as a whole.
        allow_trivial_move: bool = false,
        /// Merges large runs range by range: each piece counts when it is done, and its inputs go. So a merge needs at most about a tenth of the data as extra
        /// space, and whatever is more urgent runs between two pieces. Without it the inputs of a merge go when all of it is done.
        incremental: bool = true,
    }
}
