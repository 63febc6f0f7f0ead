//! Looking at one table without a database.

use super::contents::OpenContext;
use crate::iterator::InternalIterator;
use crate::key::{MAX_SEQNO, ParsedKey, SEEK_TYPE, SeqNo, ValueType, pack_trailer};
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::sst::{TableIter, TableReadOptions, TableReader};
use siltstone_base::Result;
use siltstone_base::env::{FileKind, IoContext, IoPriority};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are read ahead while all of a table is looked through.
const READ_AHEAD: usize = 256 << 10;

/// Reads one table: of a database, or one that is to be taken in by one.
///
/// ```
/// use siltstone_lsm::{ColumnFamilyOptions, DbOptions, SstFileReader, SstFileWriter};
///
/// # fn main() -> siltstone_lsm::Result<()> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// let path = dir.path().join("rocks.sst");
/// let mut writer = SstFileWriter::create(&path, &DbOptions::default(), &ColumnFamilyOptions::default())?;
/// writer.put("gabbro", "igneous")?;
/// writer.finish()?;
///
/// let reader = SstFileReader::open(&path, &DbOptions::default(), &ColumnFamilyOptions::default())?;
/// let mut entries = reader.iter();
/// entries.seek_to_first();
/// assert_eq!((entries.key(), entries.value()), (&b"gabbro"[..], &b"igneous"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SstFileReader {
    reader: Arc<TableReader>,
}

impl SstFileReader {
    /// Opens the table at `path`. `options` say where; `family` says in which order.
    ///
    /// # Errors
    ///
    /// `Corruption`, `InvalidArgument` for another comparator, `NotSupported` names what is not read, errors of I/O.
    pub fn open(path: impl AsRef<Path>, options: &DbOptions, family: &ColumnFamilyOptions) -> Result<Self> {
        let env = options.environment();
        let context = OpenContext { env: &*env, options: family };
        Ok(Self { reader: Arc::new(context.open(path.as_ref())?) })
    }

    /// How many entries the table says that it has, range tombstones included.
    pub fn num_entries(&self) -> u64 {
        self.reader.properties().num_entries
    }

    /// The length of the file in bytes.
    pub fn file_size(&self) -> u64 {
        self.reader.fetcher().file_size
    }

    /// Whether the table was written to be taken in by a database.
    pub fn is_external(&self) -> bool {
        self.reader.properties().external_version.is_some()
    }

    /// The ranges that the table deletes, each with its sequence number.
    ///
    /// # Errors
    ///
    /// `Corruption`, errors of I/O.
    pub fn range_tombstones(&self) -> Result<Vec<(Range<Vec<u8>>, SeqNo)>> {
        let ranges = self.reader.read_range_tombstones(IoContext::new(FileKind::Table, IoPriority::User))?;
        Ok(ranges.into_iter().map(|range| (range.start.into_vec()..range.end.into_vec(), range.seqno)).collect())
    }

    /// An iterator over all entries, tombstones and older versions included.
    pub fn iter(&self) -> SstFileIter {
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        SstFileIter { iter: TableIter::for_compaction(Arc::clone(&self.reader), options, READ_AHEAD) }
    }

    /// Reads every entry and verifies the checksum of every data block. Returns the number of point entries.
    ///
    /// # Errors
    ///
    /// `Corruption` with the offset of the block; errors of I/O.
    pub fn verify_checksums(&self) -> Result<u64> {
        let mut entries = self.iter();
        let mut count = 0;
        entries.seek_to_first();
        while entries.valid() {
            count += 1;
            entries.next();
        }
        entries.status()?;
        Ok(count)
    }
}

/// Walks the entries of one table, as they are stored: by user key, the newest version first.
///
/// Not positioned when it is new. Where a movement leaves it without an entry, [`status`](Self::status) tells the end from an error.
#[derive(Debug)]
pub struct SstFileIter {
    iter: TableIter,
}

impl SstFileIter {
    /// Whether the iterator stands on an entry.
    pub fn valid(&self) -> bool {
        self.iter.valid() && self.parsed().is_some()
    }

    /// The error that made the iterator stop, if one did.
    pub fn status(&self) -> Result<()> {
        self.iter.status()?;
        if self.iter.valid() { ParsedKey::parse(self.iter.key()).map(|_| ()) } else { Ok(()) }
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
    }

    /// Moves to the first entry of the first user key at or behind `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let mut target = key.as_ref().to_vec();
        target.extend_from_slice(&pack_trailer(MAX_SEQNO, SEEK_TYPE).to_le_bytes());
        self.iter.seek(&target);
    }

    /// Moves to the next entry; does nothing without one.
    pub fn next(&mut self) {
        if self.valid() {
            self.iter.next();
        }
    }

    /// The user key. Empty unless [`valid`](Self::valid).
    pub fn key(&self) -> &[u8] {
        self.parsed().map_or(&[], |parsed| parsed.user_key)
    }

    /// The value, or the operand. Empty unless [`valid`](Self::valid).
    pub fn value(&self) -> &[u8] {
        if self.iter.valid() { self.iter.value() } else { &[] }
    }

    /// The sequence number that the entry is stored with: 0 in a table that no database has taken in. `None` unless [`valid`](Self::valid).
    pub fn seqno(&self) -> Option<SeqNo> {
        self.parsed().map(|parsed| parsed.seqno)
    }

    /// What the entry does to its key. `None` unless [`valid`](Self::valid).
    pub fn value_type(&self) -> Option<ValueType> {
        self.parsed().map(|parsed| parsed.value_type)
    }

    fn parsed(&self) -> Option<ParsedKey<'_>> {
        if self.iter.valid() { ParsedKey::parse(self.iter.key()).ok() } else { None }
    }
}
