//! What is in a table that comes from outside: whether it may be taken in, and where it begins and ends.

use crate::iterator::InternalIterator;
use crate::key::{InternalKey, InternalKeyComparator, MAX_SEQNO, ParsedKey, SeqNo, ValueType};
use crate::options::ColumnFamilyOptions;
use crate::range_tombstones::RangeTombstone;
use crate::sst::{BlockCache, EXTERNAL_VERSION, TableIter, TableReadOptions, TableReader, TableReaderOptions};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::env::{Env, FileKind, FileOptions, IoContext, IoPriority};
use siltstone_base::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read ahead while all of a table is looked through.
const READ_AHEAD: usize = 256 << 10;

/// Bytes of free blocks that are kept while a table is open.
const RETAINED_POOL_BYTES: usize = 1 << 20;

/// What a table is opened with.
#[derive(Debug)]
pub(crate) struct OpenContext<'a> {
    /// Where the file is.
    pub(crate) env: &'a dyn Env,
    /// The order of keys, and who merges.
    pub(crate) options: &'a ColumnFamilyOptions,
}

impl OpenContext<'_> {
    /// Opens the table at `path`.
    pub(crate) fn open(&self, path: &Path) -> Result<TableReader> {
        let file = self.env.open_random(path, &FileOptions::new(FileKind::Table));
        let file = file.map_err(|error| Error::io("open", path, error))?;
        let len = file.len().map_err(|error| Error::io("measure", path, error))?;
        let options = TableReaderOptions {
            comparator: InternalKeyComparator::new(Arc::clone(&self.options.comparator)),
            block_cache: Arc::new(BlockCache::new(0)),
            block_pool: BlockPool::new(RETAINED_POOL_BYTES),
            unique_id: None,
            largest_seqno: None,
            prefix_extractor: self.options.prefix_extractor.clone(),
            pin_filter_partitions: false,
            expiry: None,
            priority: IoPriority::Low,
            metrics: Arc::default(),
        };
        TableReader::open(file, path.to_path_buf(), len, &options)
    }
}

/// The first or the last point entry.
type Point = (Vec<u8>, ValueType);

/// A table that may be taken in.
#[derive(Debug)]
pub(crate) struct ExternalTable {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its length in bytes.
    pub(crate) file_size: u64,
    /// RocksDB's unique id, if its properties suffice for one.
    pub(crate) unique_id: Option<[u8; 16]>,
    /// Whether it has range tombstones.
    pub(crate) has_ranges: bool,
    points: Option<(Point, Point)>,
    ranges: Vec<RangeTombstone>,
}

impl ExternalTable {
    /// Looks at the table at `path`: at its properties and its ends, and at every entry if `verify`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a table that no writer of external tables wrote, that has nothing in it, or whose comparator or merge operator is
    /// another; `Corruption`; `NotSupported` names what cannot be taken in.
    pub(crate) fn examine(context: &OpenContext<'_>, path: &Path, verify: bool) -> Result<Self> {
        Self::try_examine(context, path, verify).map_err(|error| error.with_file(path))
    }

    fn try_examine(context: &OpenContext<'_>, path: &Path, verify: bool) -> Result<Self> {
        let reader = Arc::new(context.open(path)?);
        check_origin(&reader, context.options)?;
        let io = IoContext::new(FileKind::Table, IoPriority::Low);
        let ranges = reader.read_range_tombstones(io)?;
        if ranges.iter().any(|range| range.seqno != 0) {
            return Err(Error::corrupt("a range tombstone of an external table has a sequence number"));
        }
        let options = TableReadOptions { fill_cache: false, context: io, ..TableReadOptions::default() };
        let order = reader.comparator().clone();
        let mut iter = TableIter::for_compaction(Arc::clone(&reader), options, if verify { READ_AHEAD } else { 0 });
        let points = if verify { walk(&mut iter, &order, context.options)? } else { ends(&mut iter)? };
        if points.is_none() && ranges.is_empty() {
            return Err(Error::invalid_argument("a table without an entry"));
        }
        Ok(Self {
            path: path.to_path_buf(),
            file_size: reader.fetcher().file_size,
            unique_id: reader.properties().unique_id(),
            has_ranges: !ranges.is_empty(),
            points,
            ranges,
        })
    }

    /// Whether another look found the same file, as far as both saw it.
    pub(crate) fn has_contents_of(&self, other: &Self) -> bool {
        (self.file_size, self.unique_id, &self.points, &self.ranges)
            == (other.file_size, other.unique_id, &other.points, &other.ranges)
    }

    /// The smallest and the largest internal key, when every entry has number `seqno`.
    pub(crate) fn bounds(&self, order: &InternalKeyComparator, seqno: SeqNo) -> (InternalKey, InternalKey) {
        let points = self.points.iter().map(|((first, first_type), (last, last_type))| {
            (InternalKey::new(first, seqno, *first_type), InternalKey::new(last, seqno, *last_type))
        });
        let ranges = self.ranges.iter().map(|range| {
            // The end is exclusive: as a bound it stands before every entry of its key.
            let end = InternalKey::new(&range.end, MAX_SEQNO, ValueType::RangeDelete);
            (InternalKey::new(&range.start, seqno, ValueType::RangeDelete), end)
        });
        let wider = |a: (InternalKey, InternalKey), b: (InternalKey, InternalKey)| {
            let begins_before = order.compare(b.0.as_bytes(), a.0.as_bytes()).is_lt();
            let ends_behind = order.compare(b.1.as_bytes(), a.1.as_bytes()).is_gt();
            (if begins_before { b.0 } else { a.0 }, if ends_behind { b.1 } else { a.1 })
        };
        points.chain(ranges).reduce(wider).unwrap_or_default()
    }
}

/// Refuses what is no external table for the family.
fn check_origin(reader: &TableReader, options: &ColumnFamilyOptions) -> Result<()> {
    let properties = reader.properties();
    match properties.external_version {
        Some(EXTERNAL_VERSION) => {}
        None => return Err(Error::invalid_argument("a table that was not written to be taken in by a database")),
        Some(version) => return Err(Error::not_supported(format!("taking in external tables of version {version}"))),
    }
    if properties.global_seqno.is_some_and(|seqno| seqno != 0) {
        return Err(Error::not_supported("taking in a table in which another database has set its sequence number"));
    }
    if options.comparator.timestamp_len() > 0 {
        return Err(Error::not_supported("taking in tables of keys with timestamps"));
    }
    if properties.num_merge_operands > 0 {
        let theirs = properties.merge_operator.as_str();
        match &options.merge_operator {
            None => {
                return Err(Error::invalid_argument("merge_operator: the table has operands, the family no operator"));
            }
            Some(ours) if !theirs.is_empty() && theirs != "nullptr" && theirs != ours.name() => {
                let message = format!("merge_operator: the table has operands of {theirs}, not of {}", ours.name());
                return Err(Error::invalid_argument(message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The first and the last entry.
fn ends(iter: &mut TableIter) -> Result<Option<(Point, Point)>> {
    iter.seek_to_first();
    if !iter.valid() {
        iter.status()?;
        return Ok(None);
    }
    let first = point(iter.key())?;
    iter.seek_to_last();
    iter.status()?;
    if !iter.valid() {
        return Err(Error::corrupt("a table with a first entry and no last one"));
    }
    let last = point(iter.key())?;
    Ok(Some((first, last)))
}

/// The same, having looked at every entry in between.
fn walk(
    iter: &mut TableIter,
    order: &InternalKeyComparator,
    options: &ColumnFamilyOptions,
) -> Result<Option<(Point, Point)>> {
    let mut first: Option<Point> = None;
    let mut last: Option<Point> = None;
    iter.seek_to_first();
    while iter.valid() {
        let found = point(iter.key())?;
        if found.1 == ValueType::Merge && options.merge_operator.is_none() {
            return Err(Error::invalid_argument("merge_operator: the table has operands, the family no operator"));
        }
        if last.as_ref().is_some_and(|(last, _)| order.compare_user(last, &found.0).is_ge()) {
            return Err(Error::corrupt("user keys of an external table do not ascend"));
        }
        if first.is_none() {
            first = Some(found.clone());
        }
        last = Some(found);
        iter.next();
    }
    iter.status()?;
    Ok(first.zip(last))
}

/// The user key and the type of an entry that may be taken in.
fn point(internal_key: &[u8]) -> Result<Point> {
    let parsed = ParsedKey::parse(internal_key)?;
    if parsed.seqno != 0 {
        return Err(Error::corrupt("an entry of an external table has a sequence number"));
    }
    match parsed.value_type {
        ValueType::Put
        | ValueType::Delete
        | ValueType::SingleDelete
        | ValueType::Merge
        | ValueType::WideColumnEntity => Ok((parsed.user_key.to_vec(), parsed.value_type)),
        other => Err(Error::not_supported(format!("taking in entries of type {other:?}"))),
    }
}
