//! Open tables: each file is opened once, when it is first needed, and stays open while a version lists it.
//!
//! Path: get 5/7. Before: version/read.rs. After: sst/reader/mod.rs.

use crate::file_meta::{FileMeta, FileMetaData};
use crate::file_names::FileName;
use crate::key::{InternalKeyComparator, SeqNo};
use crate::metrics::{Counter, HistogramKind, Metrics, PerfTime, times};
use crate::options::ReadTier;
use crate::sst::{
    BlockCache, CacheWatch, TableIter, TableReadOptions, TableReader, TableReaderOptions, TableTail, WarmBlocks,
};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::checksum::xxph3;
use siltstone_base::env::{Env, FileKind, FileOptions, IoPriority, RandomFile};
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::prefix_extractor::PrefixExtractor;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};

/// How tables are opened.
#[derive(Debug, Clone)]
pub(crate) struct TableCacheOptions {
    /// The order of keys of the family.
    pub(crate) comparator: InternalKeyComparator,
    /// Tells the prefixes that walks ask filters for.
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// Keeps the partitions of filters in memory.
    pub(crate) pin_filter_partitions: bool,
    /// Says which rows are expired, if rows of the family expire.
    pub(crate) expiry: Option<Arc<dyn ExpiryPolicy>>,
    /// Where data blocks are kept.
    pub(crate) block_cache: Arc<BlockCache>,
    /// Where their memory comes from.
    pub(crate) block_pool: BlockPool,
    /// Reads past the operating system's page cache.
    pub(crate) use_direct_reads: bool,
    /// Compactions read past the page cache, through files of their own where other reads go through it.
    pub(crate) use_direct_io_for_compaction: bool,
    /// Maps tables.
    pub(crate) allow_mmap_reads: bool,
    /// Name of the family's merge operator, if it has one.
    pub(crate) merge_operator: Option<String>,
    /// Opens tables with operands of any operator.
    pub(crate) allow_other_merge_operator: bool,
    /// Who counts what filters spare.
    pub(crate) metrics: Arc<Metrics>,
}

/// What the MANIFEST says of a table that is to be opened.
struct Identity {
    number: u64,
    file_size: u64,
    unique_id: Option<[u8; 16]>,
    largest_seqno: SeqNo,
}

/// Opens the tables of one column family.
///
/// Thread safety: every method may be called from any thread. Of several that need a table first at the same time one opens it, and the others wait
/// for that.
#[derive(Debug)]
pub(crate) struct TableCache {
    env: Arc<dyn Env>,
    db_dir: PathBuf,
    options: TableCacheOptions,
}

impl TableCache {
    /// Opens tables in `db_dir`.
    pub(crate) fn new(env: Arc<dyn Env>, db_dir: &Path, options: TableCacheOptions) -> Self {
        Self { env, db_dir: db_dir.to_path_buf(), options }
    }

    /// The reader of a live table.
    ///
    /// # Errors
    ///
    /// `MissingFile` if there is no such file, `Corruption` if it is not as long as the MANIFEST says, `InvalidArgument` if it has operands of
    /// another merge operator than the family, and errors of [`TableReader::open`].
    #[inline]
    pub(crate) fn reader<'a>(&self, file: &'a FileMeta) -> Result<&'a Arc<TableReader>> {
        match file.reader.get() {
            Some(reader) => Ok(reader),
            None => self.open(file),
        }
    }

    /// The same for a read that goes as far as `tier` lets it.
    ///
    /// # Errors
    ///
    /// Moreover `Incomplete` for a table that is not open yet where nothing may be read.
    #[inline]
    pub(crate) fn reader_within<'a>(&self, file: &'a FileMeta, tier: ReadTier) -> Result<&'a Arc<TableReader>> {
        match file.reader.get() {
            Some(reader) => Ok(reader),
            None if tier == ReadTier::BlockCache => Err(not_open()),
            None => self.open(file),
        }
    }

    /// An iterator over a live table for a compaction, which reads `read_ahead_size` bytes at a time and leaves the block cache alone, and the page cache where it is to.
    ///
    /// # Errors
    ///
    /// Those of [`reader`](Self::reader).
    pub(crate) fn compaction_iter(
        &self,
        file: &FileMeta,
        read: TableReadOptions,
        read_ahead_size: usize,
    ) -> Result<TableIter> {
        let reader = Arc::clone(self.reader(file)?);
        let iter = TableIter::for_compaction(reader, read, read_ahead_size);
        if !self.options.use_direct_io_for_compaction || self.options.use_direct_reads {
            return Ok(iter);
        }
        let options = FileOptions::new(FileKind::Table).direct(true);
        let (own, _) = self.open_file(file.number, &options)?;
        Ok(iter.through(own))
    }

    /// Where blocks of tables that are being written go, if they are made of blocks that are cached, as `watch` says.
    pub(crate) fn warm_blocks(&self, watch: Arc<CacheWatch>) -> WarmBlocks {
        let (cache, pool) = (Arc::clone(&self.options.block_cache), self.options.block_pool.clone());
        WarmBlocks { cache, pool, watch: Some(watch) }
    }

    /// Who counts.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.options.metrics
    }

    /// The order of keys.
    #[inline]
    pub(crate) fn comparator(&self) -> &InternalKeyComparator {
        &self.options.comparator
    }

    /// Whether the XXPH3 hash of the prefix of `user_key` is `hash`.
    pub(crate) fn is_of_prefix(&self, user_key: &[u8], hash: u64) -> bool {
        let extractor = self.options.prefix_extractor.as_ref();
        let prefix = extractor.and_then(|extractor| extractor.prefix(user_key));
        prefix.is_some_and(|prefix| xxph3(prefix) == hash)
    }

    #[cold]
    fn open<'a>(&self, file: &'a FileMeta) -> Result<&'a Arc<TableReader>> {
        let _opening = file.opening.lock();
        if let Some(reader) = file.reader.get() {
            return Ok(reader);
        }
        let reader = self.open_anew(file)?;
        Ok(file.reader.get_or_init(|| Arc::new(reader)))
    }

    /// Opens a table that was just written and ends with `tail`, before anybody may read it.
    ///
    /// # Errors
    ///
    /// `Corruption`: the table is not what was to be written. Others of [`reader`](Self::reader).
    pub(crate) fn open_written(&self, file: &FileMetaData, tail: TableTail) -> Result<Arc<TableReader>> {
        let identity = Identity {
            number: file.number,
            file_size: file.file_size,
            unique_id: file.unique_id,
            largest_seqno: file.largest_seqno,
        };
        Ok(Arc::new(self.open_table(&identity, IoPriority::High, Some(tail))?))
    }

    /// Opens a live table for the caller alone, whether or not it is open: what is on the disk is read again.
    pub(crate) fn open_anew(&self, file: &FileMeta) -> Result<TableReader> {
        let identity = Identity {
            number: file.number,
            file_size: file.file_size,
            unique_id: file.unique_id,
            largest_seqno: file.largest_seqno,
        };
        self.open_table(&identity, IoPriority::User, None)
    }

    fn open_table(&self, file: &Identity, priority: IoPriority, tail: Option<TableTail>) -> Result<TableReader> {
        let metrics = &self.options.metrics;
        let open = || times::timed(PerfTime::FindTable, || self.open_uncounted(file, priority, tail));
        let opened = metrics.measured(HistogramKind::TableOpenIo, open);
        metrics.add(if opened.is_ok() { Counter::FileOpens } else { Counter::FileErrors }, 1);
        opened
    }

    fn open_uncounted(&self, file: &Identity, priority: IoPriority, tail: Option<TableTail>) -> Result<TableReader> {
        let options = FileOptions::new(FileKind::Table)
            .direct(self.options.use_direct_reads)
            .mmap(self.options.allow_mmap_reads && !self.options.use_direct_reads);
        let (opened, path) = self.open_file(file.number, &options)?;
        let len = opened.len().map_err(|error| Error::io("measure", &path, error))?;
        if len != file.file_size {
            let message = format!("table has {len} bytes, not the {} of the MANIFEST", file.file_size);
            return Err(Error::corrupt(message).with_file(&path));
        }
        let options = TableReaderOptions {
            comparator: self.options.comparator.clone(),
            block_cache: Arc::clone(&self.options.block_cache),
            block_pool: self.options.block_pool.clone(),
            unique_id: file.unique_id,
            largest_seqno: Some(file.largest_seqno),
            prefix_extractor: self.options.prefix_extractor.clone(),
            pin_filter_partitions: self.options.pin_filter_partitions,
            expiry: self.options.expiry.clone(),
            priority,
            metrics: Arc::clone(&self.options.metrics),
        };
        let reader = match tail {
            None => TableReader::open(opened, path, len, &options)?,
            Some(tail) => TableReader::open_with_tail(opened, path, len, &options, tail)?,
        };
        self.check_operator(&reader)?;
        Ok(reader)
    }

    /// Refuses a table with operands that are of another operator than the family's.
    fn check_operator(&self, reader: &TableReader) -> Result<()> {
        let properties = reader.properties();
        if properties.num_merge_operands == 0 || self.options.allow_other_merge_operator {
            return Ok(());
        }
        // Old tables do not say.
        let theirs = Some(properties.merge_operator.as_str()).filter(|name| !name.is_empty());
        let ours = self.options.merge_operator.as_deref();
        if ours.is_some() && (theirs.is_none() || ours == theirs) {
            return Ok(());
        }
        let message = format!(
            "merge_operator: a table of column family {} has operands of {}, and the family is opened with {}",
            properties.column_family_name,
            theirs.unwrap_or("an operator that it does not name"),
            ours.unwrap_or("none")
        );
        Err(Error::invalid_argument(message).with_file(&reader.fetcher().path))
    }

    /// Opens table `number`, which old versions of RocksDB named `.ldb`.
    fn open_file(&self, number: u64, options: &FileOptions) -> Result<(Arc<dyn RandomFile>, PathBuf)> {
        let path = FileName::Table(number).path(&self.db_dir);
        let error = match self.env.open_random(&path, options) {
            Ok(file) => return Ok((file, path)),
            Err(error) => error,
        };
        if error.kind() == io::ErrorKind::NotFound {
            let old_path = FileName::LegacyTable(number).path(&self.db_dir);
            if let Ok(file) = self.env.open_random(&old_path, options) {
                return Ok((file, old_path));
            }
        }
        Err(Error::io("open", &path, error))
    }
}

#[cold]
fn not_open() -> Error {
    Error::new(ErrorKind::Incomplete, "table is not open")
}
