//! Opening a table: its footer, its metaindex, and the blocks that stay in memory.

use super::{FilterAsks, TableFilter, TableReader, TableReaderOptions, decode_tombstones};
use crate::expiry::{BLOCK_STAMPS_PROPERTY, ExpiredBlocks};
use crate::metrics::Counter;
use crate::range_tombstones::Fragments;
use crate::sst::block::for_each_entry;
use crate::sst::builder::{DICTIONARY_BLOCK, INDEX_BLOCK, PROPERTIES_BLOCK};
use crate::sst::external;
use crate::sst::fetch::BlockFetcher;
use crate::sst::filter_block::{FULL_FILTER, FilterBlock, FilterContent};
use crate::sst::filter_partitions::{FilterPartitions, PARTITIONED_FILTER};
use crate::sst::format::{BlockHandle, FOOTER_LEN, Footer};
use crate::sst::index_block::{Index, IndexEncoding};
use crate::sst::index_partitions::IndexPartitions;
use crate::sst::prefix_index::{self, METADATA_BLOCK, PREFIXES_BLOCK, PrefixIndex};
use crate::sst::properties::{TableProperties, index_type};
use crate::sst::range_del_block::RANGE_DELETIONS_BLOCK;
use crate::sst::tail::{TableTail, WithTail};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::compression::DecompressionDictionary;
use siltstone_base::env::{FileKind, IoContext, IoPriority, RandomFile};
use siltstone_base::prefix_extractor::PrefixExtractor;
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most sequence numbers that the fragments of a table's range tombstones may have: 128 MiB of them.
const MAX_FRAGMENT_NUMBERS: usize = 16 << 20;

/// Most entries that a metaindex may have.
const MAX_META_BLOCKS: usize = 1024;

impl TableReader {
    /// Opens the table `file` at `path`, which has `file_size` bytes.
    ///
    /// # Errors
    ///
    /// `Corruption` if the file is damaged or not the one expected, `NotSupported` naming a feature that is not
    /// implemented, `InvalidArgument` if it was written with another comparator.
    pub(crate) fn open(
        file: Arc<dyn RandomFile>,
        path: PathBuf,
        file_size: u64,
        options: &TableReaderOptions,
    ) -> Result<Self> {
        let context = IoContext::new(FileKind::Table, options.priority);
        let footer = read_footer(&*file, &path, file_size, context);
        if footer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Corruption) {
            options.metrics.add(Counter::FooterCorruptions, 1);
        }
        let footer = footer?;
        let pool = options.block_pool.clone();
        let fetcher = BlockFetcher {
            file,
            path,
            file_size,
            data_end: file_size,
            checksum: footer.checksum,
            global_seqno: None,
            dictionary: None,
            pool,
            metrics: Some(Arc::clone(&options.metrics)),
        };
        Self::open_blocks(fetcher, &footer, options, context)
    }

    /// The same for a table that was just written: what is read to open it is in `tail`.
    pub(crate) fn open_with_tail(
        file: Arc<dyn RandomFile>,
        path: PathBuf,
        file_size: u64,
        options: &TableReaderOptions,
        tail: TableTail,
    ) -> Result<Self> {
        let mut tail = tail;
        let warm = tail.warm.take();
        let with_tail = Arc::new(WithTail { file: Arc::clone(&file), tail });
        let mut reader = Self::open(with_tail, path, file_size, options)?;
        reader.fetcher.file = file;
        if let Some(warm) = warm {
            reader.take_warm_blocks(warm);
        }
        Ok(reader)
    }

    fn open_blocks(
        mut fetcher: BlockFetcher,
        footer: &Footer,
        options: &TableReaderOptions,
        context: IoContext,
    ) -> Result<Self> {
        let meta = MetaBlocks::read(&fetcher, footer, context)?;
        let path = fetcher.path.clone();
        let in_file = |error: Error| error.with_file(&path);
        let properties = match meta.properties {
            Some(handle) => TableProperties::decode(&fetcher.properties_block(handle, context)?)
                .map_err(|error| fetcher.blame(error, handle))?,
            None => TableProperties::default(),
        };
        check_properties(&properties, options).map_err(in_file)?;
        if (1..=fetcher.file_size).contains(&properties.data_size) {
            fetcher.data_end = properties.data_size;
        }
        fetcher.global_seqno = external::global_seqno(&properties, options.largest_seqno).map_err(in_file)?;
        let ranges = match meta.range_deletions {
            Some(handle) => read_fragments(&fetcher, handle, options, context)?,
            None => None,
        };
        if let Some(handle) = meta.dictionary {
            fetcher.dictionary = Some(DecompressionDictionary::new(&fetcher.meta_block(handle, context)?));
        }
        let encoding = IndexEncoding {
            user_keys: properties.index_key_is_user_key,
            delta_values: properties.index_value_is_delta_encoded,
            first_keys: properties.index_type == index_type::BINARY_SEARCH_WITH_FIRST_KEY,
        };
        let partitions = (properties.index_type == index_type::TWO_LEVEL)
            .then(|| IndexPartitions::new(encoding, &options.block_cache));
        let Some(handle) = footer.index.or(meta.index) else {
            return Err(in_file(Error::corrupt("table without an index")));
        };
        let block = fetcher.meta_block(handle, context)?;
        let index = Index::decode(&block, encoding, &options.comparator, fetcher.file_size)
            .map_err(|error| fetcher.blame(error, handle))?;
        let hashes = !options.comparator.user().equal_may_differ();
        let extractor = options.prefix_extractor.as_ref().filter(|_| hashes);
        let extractor = extractor.filter(|extractor| extractor.name() == properties.prefix_extractor);
        let prefixes = match extractor {
            Some(extractor) if properties.index_type == index_type::HASH_SEARCH => {
                read_prefixes(&fetcher, &meta, index.len(), extractor, context)?
            }
            _ => None,
        };
        let content = FilterContent::of(&properties, &**options.comparator.user(), options.prefix_extractor.as_ref());
        let filter_asks = match content.as_ref().map(FilterContent::has_whole_keys) {
            Some(true) => FilterAsks::Keys,
            Some(false) => FilterAsks::Prefixes,
            None => FilterAsks::Nothing,
        };
        let filter = match content {
            Some(content) => read_filter(&fetcher, &meta, content, encoding, options, context)?,
            None => TableFilter::None,
        };
        let expired = options.expiry.as_ref().and_then(|policy| {
            let property = properties.others.get(BLOCK_STAMPS_PROPERTY.as_bytes())?;
            ExpiredBlocks::of_table(policy, property, properties.num_data_blocks, properties.data_size)
        });
        Ok(Self {
            comparator: options.comparator.clone(),
            hashes,
            expired: expired.map(Box::new),
            fetcher,
            index,
            partitions,
            prefixes,
            filter_asks: if matches!(filter, TableFilter::None) { FilterAsks::Nothing } else { filter_asks },
            filter,
            metrics: Arc::clone(&options.metrics),
            properties,
            ranges,
            cache_file: options.block_cache.new_file_id(),
            warm: None,
            block_cache: Arc::clone(&options.block_cache),
        })
    }
}

/// Who wrote a table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableOrigin {
    /// The session; empty if the table does not say.
    pub(crate) session: String,
    /// The number that its writer gave it; no other table of the session has it.
    pub(crate) original_number: u64,
    /// Whether it was written outside of a database.
    pub(crate) is_external: bool,
}

/// What the table `file` at `path`, of `file_size` bytes, says of who wrote it; nothing else of it is read. `None` if it has no properties.
pub(crate) fn origin_of_table(file: Arc<dyn RandomFile>, path: &Path, file_size: u64) -> Result<Option<TableOrigin>> {
    let context = IoContext::new(FileKind::Table, IoPriority::Low);
    let footer = read_footer(&*file, path, file_size, context)?;
    let fetcher = BlockFetcher {
        file,
        path: path.to_path_buf(),
        file_size,
        data_end: file_size,
        checksum: footer.checksum,
        global_seqno: None,
        dictionary: None,
        pool: BlockPool::new(0),
        metrics: None,
    };
    let Some(handle) = MetaBlocks::read(&fetcher, &footer, context)?.properties else { return Ok(None) };
    let properties = TableProperties::decode(&fetcher.properties_block(handle, context)?);
    let properties = properties.map_err(|error| fetcher.blame(error, handle))?;
    Ok(Some(TableOrigin {
        session: properties.session_id,
        original_number: properties.original_file_number,
        is_external: properties.external_version.is_some(),
    }))
}

/// The prefixes of a hash index; `None` if they are not there, or too many to be of use.
fn read_prefixes(
    fetcher: &BlockFetcher,
    meta: &MetaBlocks,
    blocks: usize,
    extractor: &Arc<dyn PrefixExtractor>,
    context: IoContext,
) -> Result<Option<Box<PrefixIndex>>> {
    let (Some(prefixes), Some(metadata)) = (meta.prefixes, meta.prefix_metadata) else { return Ok(None) };
    if prefixes.size.max(metadata.size) > prefix_index::MAX_LEN as u64 {
        return Ok(None);
    }
    let (names, ranges) = (fetcher.meta_block(prefixes, context)?, fetcher.meta_block(metadata, context)?);
    let decoded = PrefixIndex::decode(&names, &ranges, blocks, Arc::clone(extractor));
    Ok(decoded.map_err(|error| fetcher.blame(error, metadata))?.map(Box::new))
}

/// The filter, which answers for `content`.
fn read_filter(
    fetcher: &BlockFetcher,
    meta: &MetaBlocks,
    content: FilterContent,
    encoding: IndexEncoding,
    options: &TableReaderOptions,
    context: IoContext,
) -> Result<TableFilter> {
    if let Some(handle) = meta.filter {
        return Ok(TableFilter::Full(FilterBlock::new(&fetcher.meta_block(handle, context)?, content)));
    }
    let Some(handle) = meta.filter_partitions else { return Ok(TableFilter::None) };
    let table = (fetcher, &*options.block_cache, &options.comparator);
    let partitions = FilterPartitions::open(handle, encoding, content, table, options.pin_filter_partitions, context)?;
    Ok(TableFilter::Partitioned(Box::new(partitions)))
}

/// The range tombstones in the block at `handle`, as fragments.
fn read_fragments(
    fetcher: &BlockFetcher,
    handle: BlockHandle,
    options: &TableReaderOptions,
    context: IoContext,
) -> Result<Option<Box<(Fragments, BlockHandle)>>> {
    let tombstones = decode_tombstones(fetcher, handle, &options.comparator, context)?;
    let Some(fragments) = Fragments::within(&options.comparator, &tombstones, MAX_FRAGMENT_NUMBERS) else {
        let message = "range tombstones of a table overlap too much";
        return Err(fetcher.blame(Error::new(ErrorKind::LimitExceeded, message), handle));
    };
    Ok((!fragments.is_empty()).then(|| Box::new((fragments, handle))))
}

fn read_footer(file: &dyn RandomFile, path: &Path, file_size: u64, context: IoContext) -> Result<Footer> {
    let len = file_size.min(FOOTER_LEN as u64) as usize;
    let mut tail = [0; FOOTER_LEN];
    let read = file
        .read_at(file_size - len as u64, &mut tail[..len], context)
        .map_err(|error| Error::io("read footer", path, error))?;
    if read < len {
        return Err(Error::corruption(path, file_size, "file ends early"));
    }
    Footer::decode(&tail[..len], file_size).map_err(|error| error.with_file(path).with_offset(file_size - len as u64))
}

/// Blocks that the metaindex names.
#[derive(Debug, Default)]
struct MetaBlocks {
    properties: Option<BlockHandle>,
    index: Option<BlockHandle>,
    filter: Option<BlockHandle>,
    filter_partitions: Option<BlockHandle>,
    dictionary: Option<BlockHandle>,
    range_deletions: Option<BlockHandle>,
    prefixes: Option<BlockHandle>,
    prefix_metadata: Option<BlockHandle>,
}

impl MetaBlocks {
    fn read(fetcher: &BlockFetcher, footer: &Footer, context: IoContext) -> Result<Self> {
        let mut meta = Self::default();
        let mut count = 0;
        let block = fetcher.meta_block(footer.metaindex, context)?;
        for_each_entry(&block, |name, mut value| {
            count += 1;
            if count > MAX_META_BLOCKS {
                return Err(Error::corrupt("too many entries of a metaindex"));
            }
            let slot = if name == PROPERTIES_BLOCK.as_bytes() {
                &mut meta.properties
            } else if name == INDEX_BLOCK.as_bytes() {
                &mut meta.index
            } else if name == FULL_FILTER.as_bytes() {
                &mut meta.filter
            } else if name == PARTITIONED_FILTER.as_bytes() {
                &mut meta.filter_partitions
            } else if name == DICTIONARY_BLOCK.as_bytes() {
                &mut meta.dictionary
            } else if name == RANGE_DELETIONS_BLOCK.as_bytes() {
                &mut meta.range_deletions
            } else if name == PREFIXES_BLOCK.as_bytes() {
                &mut meta.prefixes
            } else if name == METADATA_BLOCK.as_bytes() {
                &mut meta.prefix_metadata
            } else {
                return Ok(());
            };
            *slot = Some(BlockHandle::decode(&mut value)?);
            Ok(())
        })
        .map_err(|error| fetcher.blame(error, footer.metaindex))?;
        Ok(meta)
    }
}

/// Refuses what cannot be read, and files that are not the expected one.
fn check_properties(properties: &TableProperties, options: &TableReaderOptions) -> Result<()> {
    match properties.index_type {
        index_type::BINARY_SEARCH
        | index_type::HASH_SEARCH
        | index_type::TWO_LEVEL
        | index_type::BINARY_SEARCH_WITH_FIRST_KEY => {}
        other => return Err(Error::corrupt(format!("unknown index type {other}"))),
    }
    let comparator = options.comparator.user().name();
    if !properties.comparator.is_empty() && properties.comparator != comparator {
        let message = format!("table was written with comparator {}, not {comparator}", properties.comparator);
        return Err(Error::invalid_argument(message));
    }
    if let (Some(expected), Some(found)) = (options.unique_id, properties.unique_id())
        && expected != found
        && expected != [0; 16]
    {
        return Err(Error::corrupt("unique id of a table is not the one in the MANIFEST"));
    }
    Ok(())
}
