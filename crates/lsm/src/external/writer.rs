//! Writing a table for databases to take in.

use super::unix_seconds;
use crate::batch::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::holders::Held;
use crate::key::{InternalKeyComparator, SeqNo, ValueType, append_internal_key};
use crate::options::{ColumnFamilyOptions, CompressionType, DbOptions};
use crate::range_tombstones::RangeTombstone;
use crate::sst::{DictionaryOptions, TableBuilder, TableBuilderOptions, WriteBack, encode_session_id};
use siltstone_base::env::{Env, FileKind, FileOptions, IoPriority};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What RocksDB's writer of external tables gives as the id of their database.
const DB_ID: &str = "SST Writer";

/// The number of the column family of a table that is written for none in particular.
const NO_FAMILY: u32 = i32::MAX as u32;

/// The number that every entry is stored with.
const STORED_SEQNO: SeqNo = 0;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstFileInfo {
    /// Where the table is.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_size: u64,
    /// Entries, range tombstones included.
    pub num_entries: u64,
    /// Range tombstones among them.
    pub num_range_deletions: u64,
}

/// Writes one table that databases take in by [`Db::ingest_external_files`](crate::Db::ingest_external_files), ours and RocksDB's.
///
/// Keys strictly ascend in the order of the family that the table is for. Dropping the writer before [`finish`](Self::finish) removes the file.
///
/// ```
/// use siltstone_lsm::{ColumnFamilyOptions, Db, DbOptions, IngestExternalFileOptions, SstFileWriter};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let path = dir.path().join("rocks.sst");
/// let mut writer = SstFileWriter::create(&path, &DbOptions::default(), &ColumnFamilyOptions::default())?;
/// writer.put("basalt", "igneous")?;
/// writer.put("marble", "metamorphic")?;
/// writer.finish()?;
///
/// let db = Db::open(dir.path().join("db"), &DbOptions::default().create_if_missing(true))?;
/// db.ingest_external_files(&db.default_family(), &[&path], &IngestExternalFileOptions::default())?;
/// assert_eq!(db.get("marble")?.as_deref(), Some(&b"metamorphic"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SstFileWriter {
    env: Arc<dyn Env>,
    path: PathBuf,
    order: InternalKeyComparator,
    /// `None` once it is finished.
    builder: Option<TableBuilder>,
    /// The last key, if there is one.
    last: Option<Vec<u8>>,
    pub(super) ranges: Vec<RangeTombstone>,
    /// Scratch: the internal key.
    key: Vec<u8>,
    has_operator: bool,
}

impl SstFileWriter {
    /// Creates the file `path`, which must not exist. `options` say where; `family` says in which order, how blocks are built and compressed.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `NotSupported` for keys with timestamps; `InvalidArgument` for a bad option; errors of I/O.
    pub fn create(path: impl AsRef<Path>, options: &DbOptions, family: &ColumnFamilyOptions) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        family.validate()?;
        if family.comparator.timestamp_len() > 0 {
            return Err(Error::not_supported("writing tables of keys with timestamps"));
        }
        let env = options.environment();
        if env.exists(&path).map_err(|error| Error::io("stat", &path, error))? {
            return Err(Error::new(ErrorKind::AlreadyExists, "the table is there already").with_file(&path));
        }
        let order = InternalKeyComparator::new(Arc::clone(&family.comparator));
        let file = env.create_append(&path, &FileOptions::new(FileKind::Table));
        let file = file.map_err(|error| Error::io("create", &path, error))?;
        let builder = TableBuilder::new(file, path.clone(), builder_options(options, family, &order));
        let mut writer = Self {
            env,
            path,
            order,
            builder: None,
            last: None,
            ranges: Vec::new(),
            key: Vec::new(),
            has_operator: family.merge_operator.is_some(),
        };
        // From here on the file is removed with the writer.
        let mut builder = builder?;
        builder.mark_external();
        writer.builder = Some(builder);
        Ok(writer)
    }

    /// Counts what it holds by `held` from now on.
    pub(crate) fn count_memory(&mut self, held: Held) {
        if let Some(builder) = &mut self.builder {
            builder.count_memory(held);
        }
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a key that is not behind the one before, or that is too long; errors of I/O, after which the file is of no use.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), ValueType::Put, value.as_ref())
    }

    /// Merges `operand` into the value of `key`.
    ///
    /// # Errors
    ///
    /// Moreover `InvalidArgument` if the family has no merge operator.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        if !self.has_operator {
            return Err(Error::invalid_argument("merge_operator: the family of the table has none"));
        }
        self.add(key.as_ref(), ValueType::Merge, operand.as_ref())
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), ValueType::Delete, &[])
    }

    /// Deletes every key from `begin` to `end`, exclusive, that the database has before it takes the table in; other entries of the table stay.
    /// Ranges may come in any order, and overlap.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `end` is before `begin`; equal keys delete nothing.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        if begin.len().max(end.len()) > MAX_KEY_LEN {
            return Err(Error::invalid_argument("a key that is too long"));
        }
        match self.order.compare_user(begin, end) {
            std::cmp::Ordering::Less => self.ranges.push(RangeTombstone::new(begin, end, STORED_SEQNO)),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => {
                return Err(Error::invalid_argument("a range to delete ends before it begins"));
            }
        }
        Ok(())
    }

    /// Bytes of the file so far, about.
    pub fn file_size(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::estimated_size)
    }

    /// Ends the table and makes it and its name durable.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a table without an entry, and errors of I/O. The file is removed.
    pub fn finish(mut self) -> Result<SstFileInfo> {
        let info = self.try_finish()?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.env.sync_dir(parent).map_err(|error| Error::io("sync", parent, error))?;
        // Now it stays.
        self.builder = None;
        self.path.clear();
        Ok(info)
    }

    fn try_finish(&mut self) -> Result<SstFileInfo> {
        let Some(mut builder) = self.builder.take() else {
            return Err(Error::invalid_argument("the table is finished"));
        };
        if builder.num_entries() == 0 && self.ranges.is_empty() {
            return Err(Error::invalid_argument("a table without an entry").with_file(&self.path));
        }
        let order = &self.order;
        let mut ranges = std::mem::take(&mut self.ranges);
        // Of those that begin at one key, the longest says all.
        ranges.sort_by(|a, b| order.compare_user(&a.start, &b.start).then_with(|| order.compare_user(&b.end, &a.end)));
        ranges.dedup_by(|later, earlier| order.compare_user(&later.start, &earlier.start).is_eq());
        ranges.iter().try_for_each(|range| builder.add_range_tombstone(range))?;
        let summary = builder.finish()?;
        Ok(SstFileInfo {
            path: self.path.clone(),
            file_size: summary.file_size,
            num_entries: summary.num_entries,
            num_range_deletions: summary.num_range_deletions,
        })
    }

    /// Adds an entry of any type that [may be taken in](super::contents).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub(crate) fn add(&mut self, key: &[u8], value_type: ValueType, value: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
            return Err(Error::invalid_argument("a key or a value that is too long"));
        }
        if self.last.as_ref().is_some_and(|last| self.order.compare_user(last, key).is_ge()) {
            return Err(Error::invalid_argument("keys of a table must ascend").with_file(&self.path));
        }
        let Some(builder) = &mut self.builder else {
            return Err(Error::invalid_argument("the table is finished"));
        };
        self.key.clear();
        append_internal_key(&mut self.key, key, STORED_SEQNO, value_type);
        builder.add(&self.key, value)?;
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            drop(self.builder.take());
            // Nobody is told: whoever gave up saw an error, or wanted to.
            let _ = self.env.remove_file(&self.path);
        }
    }
}

fn builder_options(
    options: &DbOptions,
    family: &ColumnFamilyOptions,
    order: &InternalKeyComparator,
) -> TableBuilderOptions {
    let (upper, lower) = uuid::Uuid::new_v4().as_u64_pair();
    let now = unix_seconds(options);
    TableBuilderOptions {
        comparator: order.clone(),
        table: family.table.clone(),
        merge_operator: family.merge_operator.as_ref().map(|operator| operator.name().to_owned()).unwrap_or_default(),
        prefix_extractor: family.prefix_extractor.clone(),
        compression: codec(family),
        zstd_level: family.zstd_level,
        dictionary: DictionaryOptions {
            max_bytes: family.max_dict_bytes,
            train_bytes: family.zstd_max_train_bytes,
            buffer_bytes: family.max_dict_buffer_bytes,
        },
        collectors: family.table_properties_collectors.clone(),
        expiry: family.expiry.clone(),
        file_checksum: false,
        level: -1,
        column_family_id: NO_FAMILY,
        column_family_name: String::new(),
        db_id: DB_ID.to_owned(),
        session_id: encode_session_id(upper, lower.max(1)),
        file_number: 1,
        creation_time: 0,
        oldest_key_time: 0,
        newest_key_time: 0,
        host_id: options.db_host_id.clone(),
        file_creation_time: now,
        priority: IoPriority::Low,
        write_back: WriteBack { bytes: options.bytes_per_sync, strict: options.strict_bytes_per_sync },
        metrics: None,
        sync_kind: crate::metrics::HistogramKind::TableSync,
    }
}

/// The codec of data that goes to the bottom.
fn codec(family: &ColumnFamilyOptions) -> CompressionType {
    let per_level = family.compression_per_level.last().copied();
    family.bottommost_compression.or(per_level).unwrap_or(family.compression)
}
