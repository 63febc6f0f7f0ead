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
    /// Write batches that went into a WAL.
    WritesLogged = "rocksdb.write.wal",
    /// WALs whose file was made ahead.
    WalPrecreateHit = "rocksdb.wal.precreate.hit",
    /// WALs whose file a writer made, because none was there.
    WalPrecreateMiss = "rocksdb.wal.precreate.miss",
    /// Files of WALs that could not be made ahead.
    WalPrecreateFailed = "rocksdb.wal.precreate.failed",
    /// Syncs of WALs.
    WalSyncs = "rocksdb.wal.synced",
    /// Flushes that installed their table.
    Flushes = "siltstone.flush.count",
    /// Bytes of tables that flushes wrote.
    FlushWriteBytes = "rocksdb.flush.write.bytes",
    /// Those among them that were made because a memtable was full.
    FlushesWriteBufferFull = "rocksdb.flush.reason.write_buffer_full",
    /// Those among them that were made because the memtables of all families together had their share of `db_write_buffer_size`.
    FlushesWriteBufferManager = "rocksdb.flush.reason.write_buffer_manager",
    /// Bytes of keys and values in memtables that were flushed.
    MemtablePayloadAtFlush = "rocksdb.memtable.payload.bytes.at.flush",
    /// Those among them that no table needed: older versions, and what range tombstones cover.
    MemtableGarbageAtFlush = "rocksdb.memtable.garbage.bytes.at.flush",
    /// Microseconds that flushes took.
    FlushMicros = "siltstone.flush.micros",
    /// Compactions that installed their outputs, trivial moves not counted.
    Compactions = "siltstone.compaction.count",
    /// Subcompactions that installed compactions were shared out to.
    Subcompactions = "siltstone.compaction.subcompactions",
    /// Compactions that ended before they were done, because they were not wanted any more.
    CompactionsCancelled = "rocksdb.compaction.cancelled",
    /// Files that changed their level without being rewritten.
    TrivialMoves = "siltstone.compaction.trivial.moves",
    /// Bytes of tables that compactions read.
    CompactReadBytes = "rocksdb.compact.read.bytes",
    /// Bytes of tables that compactions wrote.
    CompactWriteBytes = "rocksdb.compact.write.bytes",
    /// Bytes of tables that compactions read because many of their entries only delete, or because a collector asked.
    CompactReadMarkedBytes = "rocksdb.compact.read.marked.bytes",
    /// Bytes of tables that these wrote.
    CompactWriteMarkedBytes = "rocksdb.compact.write.marked.bytes",
    /// Bytes of tables that compactions read because they are older than `ttl`.
    CompactReadTtlBytes = "rocksdb.compact.read.ttl.bytes",
    /// Bytes of tables that these wrote.
    CompactWriteTtlBytes = "rocksdb.compact.write.ttl.bytes",
    /// Bytes of tables that compactions read because they were written longer ago than `periodic_compaction_seconds`.
    CompactReadPeriodicBytes = "rocksdb.compact.read.periodic.bytes",
    /// Bytes of tables that these wrote.
    CompactWritePeriodicBytes = "rocksdb.compact.write.periodic.bytes",
    /// Compactions that dropped tables of a family with the FIFO style because it has too many bytes.
    FifoMaxSizeCompactions = "rocksdb.fifo.max.size.compactions",
    /// Compactions that dropped tables of a family with the FIFO style because they are too old.
    FifoTtlCompactions = "rocksdb.fifo.ttl.compactions",
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
    /// Microseconds that writers waited because more of the WAL waited for its sync than can be synced as often as was promised.
    StallUnsyncedWalMicros = "siltstone.stall.unsynced.wal.micros",
    /// Writes that were slowed down or stopped.
    StalledWrites = "siltstone.write.stalled",
    /// Bytes that flushes and compactions read and asked the rate limiter for.
    RateLimiterBytesRead = "rocksdb.rate.limiter.bytes.read",
    /// Bytes that they wrote and asked it for.
    RateLimiterBytesWritten = "rocksdb.rate.limiter.bytes.write",
    /// Times that they asked it for bytes which they read, and for none that they wrote.
    RateLimiterReads = "rocksdb.rate.limiter.requests.read",
    /// Times that they asked it for bytes which they wrote.
    RateLimiterWrites = "rocksdb.rate.limiter.requests.write",
    /// Times that it made them wait between two steps for what they read.
    RateLimiterDelayedReads = "rocksdb.rate.limiter.delayed.requests.read",
    /// Times that it made them wait between two steps for what they wrote.
    RateLimiterDelayedWrites = "rocksdb.rate.limiter.delayed.requests.write",
    /// Microseconds that it made them wait for what they read, together.
    RateLimiterReadWaitMicros = "rocksdb.rate.limiter.total.wait.micros.read",
    /// Microseconds that it made them wait for what they wrote, together.
    RateLimiterWriteWaitMicros = "rocksdb.rate.limiter.total.wait.micros.write",
    /// Keys that callers asked for, one by one or several at a time.
    KeysRead = "rocksdb.number.keys.read",
    /// Bytes of the values that gets found, and calls for several keys.
    BytesRead = "rocksdb.bytes.read",
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
    /// Keys that these asked for.
    MultiGetKeysRead = "rocksdb.number.multiget.keys.read",
    /// Those among them that have a value.
    MultiGetKeysFound = "rocksdb.number.multiget.keys.found",
    /// Bytes of these values.
    MultiGetBytesRead = "rocksdb.number.multiget.bytes.read",
    /// Nanoseconds that merge operators took in reads. Measured where [operations are timed](super::Metrics::set_times_operations).
    MergeOperationNanos = "rocksdb.merge.operation.time.nanos",
    /// Data blocks that gets and iterators read from tables, because no cache had them. What iterators read ahead is not counted.
    BlocksRead = "siltstone.block.reads",
    /// Bytes of these blocks, uncompressed.
    BlockReadBytes = "siltstone.block.read.bytes",
    /// Those among them that calls for several keys read together with others.
    BlocksReadTogether = "siltstone.block.reads.together",
    /// Times that a call for several keys read several blocks of a table at the same time: data blocks, or partitions of its index or filter.
    ReadsTogether = "siltstone.reads.together",
    /// Iterators that were made.
    IteratorsCreated = "rocksdb.num.iterator.created",
    /// Iterators that were dropped.
    IteratorsDeleted = "rocksdb.num.iterator.deleted",
    /// Seeks of iterators.
    IterSeeks = "rocksdb.number.db.seek",
    /// Those among them that ended on an entry.
    IterSeeksFound = "rocksdb.number.db.seek.found",
    /// Steps of iterators, in both directions.
    IterSteps = "siltstone.iter.steps",
    /// Steps forward.
    IterNexts = "rocksdb.number.db.next",
    /// Those among them that ended on an entry.
    IterNextsFound = "rocksdb.number.db.next.found",
    /// Steps backward.
    IterPrevs = "rocksdb.number.db.prev",
    /// Those among them that ended on an entry.
    IterPrevsFound = "rocksdb.number.db.prev.found",
    /// Bytes of keys and values that iterators stood on. Measured by iterators that are made where [operations are timed](super::Metrics::set_times_operations).
    IterBytesRead = "rocksdb.db.iter.bytes.read",
    /// Entries that iterators passed one by one on their way forward because they are not seen: tombstones, older versions, versions that are too new.
    IterSkipped = "rocksdb.number.iter.skip",
    /// Entries that iterators passed one by one because a range tombstone hides them.
    IterCovered = "siltstone.iter.covered",
    /// Tables whose footer was not that of a table.
    FooterCorruptions = "rocksdb.footer.corruption.count",
    /// Bytes that [`Db::verify_checksums`](crate::Db::verify_checksums) and [`Db::verify_file_checksums`](crate::Db::verify_file_checksums) have verified.
    VerifyChecksumReadBytes = "rocksdb.verify_checksum.read.bytes",
    /// Bytes that backups read of the database.
    BackupReadBytes = "rocksdb.backup.read.bytes",
    /// Bytes that backups wrote.
    BackupWriteBytes = "rocksdb.backup.write.bytes",
    /// Bytes that checkpoints and live copies read of the database because they could not be linked.
    CheckpointReadBytes = "rocksdb.checkpoint.read.bytes",
    /// Bytes that they wrote.
    CheckpointWriteBytes = "rocksdb.checkpoint.write.bytes",
    /// Tables that were opened.
    FileOpens = "rocksdb.no.file.opens",
    /// Tables that could not be opened.
    FileErrors = "rocksdb.no.file.errors",
    /// Blocks of tables whose checksum was computed because they were read.
    BlockChecksums = "rocksdb.block.checksum.compute.count",
    /// Those among them whose checksum was another one.
    BlockChecksumMismatches = "rocksdb.block.checksum.mismatch.count",
    /// Blocks of tables that were decompressed.
    BlocksDecompressed = "rocksdb.number.block.decompressed",
    /// Their bytes before.
    BytesDecompressedFrom = "rocksdb.bytes.decompressed.from",
    /// Their bytes behind.
    BytesDecompressedTo = "rocksdb.bytes.decompressed.to",
    /// Blocks of tables that were compressed.
    BlocksCompressed = "rocksdb.number.block.compressed",
    /// Their bytes before.
    BytesCompressedFrom = "rocksdb.bytes.compressed.from",
    /// Their bytes behind.
    BytesCompressedTo = "rocksdb.bytes.compressed.to",
    /// Blocks of tables that were not to be compressed.
    BlocksCompressionBypassed = "rocksdb.number.block_compression_bypassed",
    /// Their bytes.
    BytesCompressionBypassed = "rocksdb.bytes.compression_bypassed",
    /// Blocks of tables that compression did not make small enough: they are stored as they are.
    BlocksCompressionRejected = "rocksdb.number.block_compression_rejected",
    /// Their bytes.
    BytesCompressionRejected = "rocksdb.bytes.compression.rejected",
    /// Bytes that were read from blob files: values as stored, with their keys and headers.
    BlobFileBytesRead = "rocksdb.blobdb.blob.file.bytes.read",
    /// Calls of [`Db::updates_since`](crate::Db::updates_since).
    GetUpdatesSinceCalls = "rocksdb.getupdatessince.calls",
    /// Rows that reads met and did not see because they are expired.
    ExpiredRowsHidden = "siltstone.expiry.rows.hidden",
    /// Data blocks that reads passed by because all of their rows are expired.
    ExpiredBlocksSkipped = "siltstone.expiry.blocks.skipped",
    /// Expired rows that compactions removed, with those of tables that went as a whole.
    ExpiredRowsRemoved = "siltstone.expiry.rows.removed",
    /// Tables that went as a whole because all of their rows were expired.
    ExpiredFilesDropped = "siltstone.expiry.files.dropped",
    /// Bytes of tables that were read by compactions which only remove expired rows, and bytes of tables that went as a whole.
    ExpiryBytesIn = "siltstone.expiry.bytes.in",
    /// Bytes of tables that compactions wrote which only remove expired rows.
    ExpiryBytesOut = "siltstone.expiry.bytes.out",
    /// Files deleted because no version listed them any more.
    ObsoleteFilesDeleted = "rocksdb.files.deleted.immediately",
    /// Errors that made the engine read-only.
    BackgroundErrors = "siltstone.background.errors",
    /// Errors of background work, those included after which it is tried again.
    ErrorsMet = "rocksdb.error.handler.bg.error.count",
    /// Those among them that the environment reported.
    IoErrorsMet = "rocksdb.error.handler.bg.io.error.count",
    /// Those among them after which the work is tried again.
    PassingErrorsMet = "rocksdb.error.handler.bg.retryable.io.error.count",
}

impl Counter {
    /// The counter of the microseconds that writers waited for `cause`.
    pub const fn stall_micros(cause: StallCause) -> Self {
        match cause {
            StallCause::MemtableLimit => Self::StallMemtableLimitMicros,
            StallCause::L0FileCount => Self::StallL0FileCountMicros,
            StallCause::PendingCompactionBytes => Self::StallPendingCompactionBytesMicros,
            StallCause::UnsyncedWal => Self::StallUnsyncedWalMicros,
        }
    }

    /// Where gets end that no memtable answered: each is counted by one of these.
    pub(crate) const GET_PLACES: [Self; 4] = [Self::GetHitL0, Self::GetHitL1, Self::GetHitL2AndUp, Self::GetMiss];

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
