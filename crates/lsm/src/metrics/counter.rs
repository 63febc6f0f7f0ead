//! What is counted, under RocksDB's ticker names where it has one.

use crate::event::StallCause;

macro_rules! counters {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )*) => {
        /// One counter. All only ever grow; a difference of two readings describes the time between them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Counter {
            $( $(#[$meta])* $variant, )*
        }

        impl Counter {
            /// Every counter, in the order in which they are printed.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The name under which the counter is printed.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

counters! {
    /// Entries that callers wrote.
    KeysWritten = "rocksdb.number.keys.written",
    /// Bytes of write batches that callers wrote.
    BytesWritten = "rocksdb.bytes.written",
    /// Write batches that callers wrote.
    WriteBatches = "siltstone.write.batches",
    /// Commit groups that carried them: each was one record of the WAL.
    WriteGroups = "siltstone.write.groups",
    /// Bytes appended to WALs, framing included.
    WalBytes = "rocksdb.wal.bytes",
    /// Syncs of WALs.
    WalSyncs = "rocksdb.wal.synced",
    /// Flushes that installed their table.
    Flushes = "siltstone.flush.count",
    /// Bytes of tables that flushes wrote.
    FlushWriteBytes = "rocksdb.flush.write.bytes",
    /// Microseconds that flushes took.
    FlushMicros = "siltstone.flush.micros",
    /// Compactions that installed their outputs, trivial moves not counted.
    Compactions = "siltstone.compaction.count",
    /// Subcompactions that installed compactions were shared out to.
    Subcompactions = "siltstone.compaction.subcompactions",
    /// Files that changed their level without being rewritten.
    TrivialMoves = "siltstone.compaction.trivial.moves",
    /// Bytes of tables that compactions read.
    CompactReadBytes = "rocksdb.compact.read.bytes",
    /// Bytes of tables that compactions wrote.
    CompactWriteBytes = "rocksdb.compact.write.bytes",
    /// Microseconds that compactions took which rewrote tables.
    CompactionMicros = "siltstone.compaction.micros",
    /// Entries that compactions dropped because a newer one of the same key hides them.
    CompactionKeyDropNewerEntry = "rocksdb.compaction.key.drop.new",
    /// Tombstones that compactions dropped because nothing lies beneath.
    CompactionKeyDropObsolete = "rocksdb.compaction.key.drop.obsolete",
    /// Values that a compaction filter removed.
    CompactionKeyDropUser = "rocksdb.compaction.key.drop.user",
    /// Entries that flushes and compactions dropped because a range tombstone covers them.
    CompactionKeyDropRange = "rocksdb.compaction.key.drop.range_del",
    /// Operands that flushes and compactions merged into other entries.
    OperandsMerged = "siltstone.merge.operands.merged",
    /// Keys whose operands a read, a flush or a compaction could not merge, each time.
    MergeFailures = "rocksdb.number.merge.failures",
    /// Single deletes that compactions found over more than one value, or over operands: what
    /// [`WriteBatch::single_delete`](crate::WriteBatch::single_delete) asks for was not kept.
    SingleDeleteMismatches = "siltstone.compaction.single.delete.mismatches",
    /// Microseconds that writers waited because too many memtables waited for their flush.
    StallMemtableLimitMicros = "siltstone.stall.memtable.limit.micros",
    /// Microseconds that writers waited because level 0 had too many files.
    StallL0FileCountMicros = "siltstone.stall.l0.file.count.micros",
    /// Microseconds that writers waited because too many bytes waited for their compaction.
    StallPendingCompactionBytesMicros = "siltstone.stall.pending.compaction.bytes.micros",
    /// Writes that were slowed down or stopped.
    StalledWrites = "siltstone.write.stalled",
    /// Times that the rate limiter made a flush or a compaction wait between two steps.
    RateLimiterWaits = "siltstone.rate.limiter.waits",
    /// Microseconds that it made them wait, together.
    RateLimiterWaitMicros = "siltstone.rate.limiter.wait.micros",
    /// Keys that callers asked for, one by one or several at a time.
    KeysRead = "rocksdb.number.keys.read",
    /// Gets answered by a memtable, the mutable or an immutable one.
    MemtableHit = "rocksdb.memtable.hit",
    /// Gets answered by level 0.
    GetHitL0 = "rocksdb.l0.hit",
    /// Gets answered by level 1.
    GetHitL1 = "rocksdb.l1.hit",
    /// Gets answered by level 2 or one further down.
    GetHitL2AndUp = "rocksdb.l2andup.hit",
    /// Gets that found neither a value nor a tombstone.
    GetMiss = "siltstone.get.miss",
    /// Table files that gets asked, those among them whose filter said no.
    TablesProbed = "siltstone.get.tables.probed",
    /// Tables that gets passed by because the filter of their keys said no.
    FilterUseful = "rocksdb.bloom.filter.useful",
    /// Tables that gets searched because the filter of their keys said yes.
    FilterFullPositive = "rocksdb.bloom.filter.full.positive",
    /// Those among them that had the key.
    FilterFullTruePositive = "rocksdb.bloom.filter.full.true.positive",
    /// Tables whose filter of prefixes a walk asked, or a get where the filter has no keys.
    FilterPrefixChecked = "rocksdb.bloom.filter.prefix.checked",
    /// Those among them that were passed by because it said no.
    FilterPrefixUseful = "rocksdb.bloom.filter.prefix.useful",
    /// Those among them in which a get then found its key.
    FilterPrefixTruePositive = "rocksdb.bloom.filter.prefix.true.positive",
    /// Calls that ask for several keys.
    MultiGets = "rocksdb.number.multiget.get",
    /// Data blocks that gets and iterators read from tables, because no cache had them. What iterators read ahead is not counted.
    BlocksRead = "siltstone.block.reads",
    /// Bytes of these blocks, uncompressed.
    BlockReadBytes = "siltstone.block.read.bytes",
    /// Those among them that calls for several keys read together with others.
    BlocksReadTogether = "siltstone.block.reads.together",
    /// Times that a call for several keys read several blocks of a table at the same time: data blocks, or partitions of its index or filter.
    ReadsTogether = "siltstone.reads.together",
    /// Seeks of iterators.
    IterSeeks = "rocksdb.number.db.seek",
    /// Steps of iterators, in both directions.
    IterSteps = "rocksdb.number.db.next",
    /// Entries that iterators passed one by one because a range tombstone hides them.
    IterCovered = "siltstone.iter.covered",
    /// Rows that reads met and did not see because they are expired.
    ExpiredRowsHidden = "siltstone.expiry.rows.hidden",
    /// Expired rows that compactions removed, with those of tables that went as a whole.
    ExpiredRowsRemoved = "siltstone.expiry.rows.removed",
    /// Tables that went as a whole because all of their rows were expired.
    ExpiredFilesDropped = "siltstone.expiry.files.dropped",
    /// Bytes of tables that were read by compactions which only remove expired rows, and bytes of tables that went as a whole.
    ExpiryBytesIn = "siltstone.expiry.bytes.in",
    /// Bytes of tables that compactions wrote which only remove expired rows.
    ExpiryBytesOut = "siltstone.expiry.bytes.out",
    /// Files deleted because no version listed them any more.
    ObsoleteFilesDeleted = "siltstone.obsolete.files.deleted",
    /// Errors of background work that made the engine read-only.
    BackgroundErrors = "siltstone.background.errors",
}

impl Counter {
    /// The counter of the microseconds that writers waited for `cause`.
    pub const fn stall_micros(cause: StallCause) -> Self {
        match cause {
            StallCause::MemtableLimit => Self::StallMemtableLimitMicros,
            StallCause::L0FileCount => Self::StallL0FileCountMicros,
            StallCause::PendingCompactionBytes => Self::StallPendingCompactionBytesMicros,
        }
    }

    /// The counter of gets that `level` answered.
    #[inline]
    pub const fn get_hit(level: usize) -> Self {
        match level {
            0 => Self::GetHitL0,
            1 => Self::GetHitL1,
            _ => Self::GetHitL2AndUp,
        }
    }
}
