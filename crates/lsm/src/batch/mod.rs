//! Write batches, in the form in which they travel through the write-ahead log.
//!
//! ```text
//! fixed64 sequence number of the first entry | fixed32 count of entries | record*
//! ```
//!
//! Invariant: a [`WriteBatch`] is well-formed from birth. Its writers encode nothing else, and [`WriteBatch::from_bytes`]
//! checks every record and the count. Reading one therefore needs no error path; bytes that nobody checked are read by
//! [`BatchReader`].

pub(crate) mod notes;
mod phase;
mod reader;
mod record;
#[cfg(test)]
mod tests;

use crate::key::{ColumnFamilyId, SeqNo, ValueType};
pub(crate) use phase::{Phase, Step};
pub use reader::BatchIter;
pub(crate) use reader::BatchReader;
pub use record::BatchEntry;
pub(crate) use record::{Malformed, Marker, Record, Records};
use record::{key_too_long, tag, value_too_long};
use siltstone_base::coding::put_varint32;
use siltstone_base::{Error, ErrorKind, Result};

/// Bytes of the header: sequence number and count.
pub(crate) const HEADER_LEN: usize = 12;

/// The longest key, in bytes.
pub const MAX_KEY_LEN: usize = (64 << 10) - 16;

/// The longest value, in bytes: with its key it fits in a block.
pub const MAX_VALUE_LEN: usize = (64 << 20) - (128 << 10);

/// The longest varint32.
const MAX_VARINT32_LEN: usize = 5;

/// The header of a batch of `count` entries whose first has the number `seqno`.
#[inline]
pub(crate) fn encode_header(seqno: SeqNo, count: u32) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&seqno.to_le_bytes());
    header[8..].copy_from_slice(&count.to_le_bytes());
    header
}

/// A list of changes that are applied all or not at all, in the order in which they were added.
///
/// Keys have at most [`MAX_KEY_LEN`] bytes and values at most [`MAX_VALUE_LEN`]. A change beyond a limit is not added; the
/// batch keeps the first such error, [`check`](Self::check) tells it, and a database refuses to write the batch with it.
///
/// ```
/// use siltstone_lsm::WriteBatch;
///
/// let mut batch = WriteBatch::new();
/// batch.put("plum", "blue");
/// batch.delete("pear");
/// assert_eq!(batch.len(), 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    /// Empty, or a header and well-formed records.
    bytes: Vec<u8>,
    /// Whether an entry names a column family other than `default`.
    other_families: bool,
    /// Whether there are entries other than puts and tombstones of one key, which a family may refuse.
    special: bool,
    /// The first change that could not be added.
    error: Option<Error>,
    /// Set for a step of a two-phase commit.
    phase: Option<Box<Phase>>,
}

/// The length of a [`WriteBatch`] at some time, to which it can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchMark {
    /// Entries.
    pub(crate) count: u32,
    len: usize,
    other_families: bool,
    special: bool,
}

impl WriteBatch {
    /// A batch without entries. Allocates nothing.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), other_families: false, special: false, error: None, phase: None }
    }

    /// A batch without entries, with room for `bytes` bytes in stored form.
    pub fn with_capacity(bytes: usize) -> Self {
        let bytes = Vec::with_capacity(bytes.saturating_add(HEADER_LEN));
        Self { bytes, other_families: false, special: false, error: None, phase: None }
    }

    /// Takes a batch in stored form, after checking all of it: header, every record, limits and count. Markers of two-phase
    /// commit are legal here; whoever applies the batch may refuse them. What an engine says of its own log among the records, of which that batch was read, is left out: it is not true of another log.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Result<Self> {
        BatchReader::new(&bytes)?.validate()?;
        remove_notes(&mut bytes);
        let mut batch = Self { bytes, other_families: false, special: false, error: None, phase: None };
        batch.other_families = batch.iter().any(|entry| entry.column_family.0 != 0);
        batch.special = batch.iter().any(|entry| !(entry.kind == ValueType::Put || entry.kind.is_tombstone()));
        let mut records = Records::new(batch.body());
        while let Ok(Some(record)) = records.next_record() {
            if matches!(record, Record::Marker(marker) if marker != Marker::Noop) {
                batch.special = true;
                batch.phase = Some(Box::new(Phase::foreign()));
                break;
            }
        }
        Ok(batch)
    }

    /// Sets `key` to `value` in the default column family.
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.add(tag::PUT, tag::CF_PUT, ColumnFamilyId(0), key.as_ref(), Some(value.as_ref()));
    }

    /// Sets `key` to `value` in a column family.
    #[inline]
    pub fn put_cf(&mut self, column_family: impl Into<ColumnFamilyId>, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.add(tag::PUT, tag::CF_PUT, column_family.into(), key.as_ref(), Some(value.as_ref()));
    }

    /// Deletes `key` from the default column family.
    #[inline]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.add(tag::DELETE, tag::CF_DELETE, ColumnFamilyId(0), key.as_ref(), None);
    }

    /// Deletes `key` from a column family.
    #[inline]
    pub fn delete_cf(&mut self, column_family: impl Into<ColumnFamilyId>, key: impl AsRef<[u8]>) {
        self.add(tag::DELETE, tag::CF_DELETE, column_family.into(), key.as_ref(), None);
    }

    /// Merges `operand` into the value of `key` in the default column family, whose
    /// [`merge_operator`](crate::ColumnFamilyOptions::merge_operator) puts them together.
    #[inline]
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.merge_cf(ColumnFamilyId(0), key, operand);
    }

    /// Merges `operand` into the value of `key` in a column family.
    #[inline]
    pub fn merge_cf(
        &mut self,
        column_family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) {
        self.special = true;
        self.add(tag::MERGE, tag::CF_MERGE, column_family.into(), key.as_ref(), Some(operand.as_ref()));
    }

    /// Deletes `key` from the default column family. The tombstone goes away as soon as it meets the value, where that of
    /// [`delete`](Self::delete) stays until nothing older can lie beneath it.
    ///
    /// For keys that are put once, single-deleted, put once again and so on. A key that is put twice without a single delete between, deleted by
    /// [`delete`](Self::delete) or merged into must not be single-deleted: older values may come back. Nor must one whose value a compaction filter or
    /// expiry may remove, for that makes a tombstone like one of [`delete`](Self::delete).
    ///
    /// Compactions that meet a single delete over something else count it: see
    /// [`SingleDeleteMismatches`](crate::Counter::SingleDeleteMismatches).
    #[inline]
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) {
        self.single_delete_cf(ColumnFamilyId(0), key);
    }

    /// [`single_delete`](Self::single_delete) in a column family.
    #[inline]
    pub fn single_delete_cf(&mut self, column_family: impl Into<ColumnFamilyId>, key: impl AsRef<[u8]>) {
        self.add(tag::SINGLE_DELETE, tag::CF_SINGLE_DELETE, column_family.into(), key.as_ref(), None);
    }

    /// Deletes every key from `begin` to `end`, exclusive, from the default column family. With equal keys it deletes nothing; a database
    /// refuses the batch if `end` is before `begin` in the family's order.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) {
        self.delete_range_cf(ColumnFamilyId(0), begin, end);
    }

    /// [`delete_range`](Self::delete_range) in a column family.
    pub fn delete_range_cf(
        &mut self,
        column_family: impl Into<ColumnFamilyId>,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        if end.len() > MAX_KEY_LEN {
            self.refuse(key_too_long(end.len()));
            return;
        }
        self.special = true;
        self.add(tag::RANGE_DELETE, tag::CF_RANGE_DELETE, column_family.into(), begin, Some(end));
    }

    /// Adds bytes that are written to the log with the batch and nowhere else. They are no entry and are not counted. What the engine itself would take for its own notes in the
    /// log is refused (`InvalidArgument`, when the batch is written): it begins with `SLTSELF1`, `SLTPRED1`, `SLTAGAN1` or `SLTSYNC1`.
    pub fn put_log_data(&mut self, data: impl AsRef<[u8]>) {
        let data = data.as_ref();
        if notes::is_note(data) {
            self.refuse(Error::invalid_argument("log data that would pass for a note of the engine"));
            return;
        }
        if data.len() > MAX_VALUE_LEN {
            self.refuse(value_too_long(data.len()));
            return;
        }
        self.ensure_header();
        self.bytes.push(tag::LOG_DATA);
        put_varint32(&mut self.bytes, data.len() as u32);
        self.bytes.extend_from_slice(data);
    }

    /// Removes all entries and the error, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.other_families = false;
        self.special = false;
        self.error = None;
        self.phase = None;
    }

    /// Where the batch ends now.
    pub(crate) fn mark(&self) -> BatchMark {
        let (other_families, special) = (self.other_families, self.special);
        BatchMark { count: self.count(), len: self.bytes.len(), other_families, special }
    }

    /// The entries that were added since `mark` was taken.
    pub(crate) fn iter_since(&self, mark: &BatchMark) -> BatchIter<'_> {
        // Of a batch that was empty the header came later.
        BatchIter::of_records(self.bytes.get(mark.len.max(HEADER_LEN)..).unwrap_or_default())
    }

    /// Removes everything that was added since `mark` was taken, which was since the batch was last cleared or cut to before it.
    pub(crate) fn cut(&mut self, mark: &BatchMark) {
        self.bytes.truncate(mark.len);
        if let Some(count) = self.bytes.get_mut(8..HEADER_LEN) {
            count.copy_from_slice(&mark.count.to_le_bytes());
        }
        (self.other_families, self.special, self.error) = (mark.other_families, mark.special, None);
    }

    /// Adds an entry as it was read from another batch.
    ///
    /// # Errors
    ///
    /// `NotSupported` for an entry that this engine writes to no batch.
    pub(crate) fn add_entry(&mut self, entry: &BatchEntry<'_>) -> Result<()> {
        let (short, long, has_value) = match entry.kind {
            ValueType::Put => (tag::PUT, tag::CF_PUT, true),
            ValueType::Merge => (tag::MERGE, tag::CF_MERGE, true),
            ValueType::RangeDelete => (tag::RANGE_DELETE, tag::CF_RANGE_DELETE, true),
            ValueType::WideColumnEntity => (tag::WIDE_COLUMN_ENTITY, tag::CF_WIDE_COLUMN_ENTITY, true),
            ValueType::Delete => (tag::DELETE, tag::CF_DELETE, false),
            ValueType::SingleDelete => (tag::SINGLE_DELETE, tag::CF_SINGLE_DELETE, false),
            other => return Err(Error::not_supported(format!("entries of type {other:?} in a prepared transaction"))),
        };
        self.special |= !(entry.kind == ValueType::Put || entry.kind.is_tombstone());
        self.add(short, long, entry.column_family, entry.key, has_value.then_some(entry.value));
        self.check()
    }

    /// Makes the batch a step of a two-phase commit, or one that is none.
    pub(crate) fn set_phase(&mut self, phase: Option<Phase>) {
        self.ensure_header();
        self.phase = phase.map(Box::new);
    }

    /// Which step of a two-phase commit it is, if it is one.
    #[inline]
    pub(crate) fn phase(&self) -> Option<&Phase> {
        self.phase.as_deref()
    }

    /// Entries that are applied when the batch is written. Only they take sequence numbers.
    #[inline]
    pub(crate) fn applied_count(&self) -> u32 {
        match &self.phase {
            Some(phase) if !phase.is_applied() => 0,
            _ => self.count(),
        }
    }

    /// What the batch is in the WAL: the parts of its body, and the entries in them.
    #[inline]
    pub(crate) fn logged(&self) -> ([&[u8]; 3], u32) {
        match &self.phase {
            None => ([&[], self.body(), &[]], self.count()),
            Some(phase) => phase.logged(self.body(), self.count()),
        }
    }

    /// How many entries the batch has.
    #[inline]
    pub fn len(&self) -> usize {
        self.count() as usize
    }

    /// How many entries the batch has, in the width of the stored form.
    #[inline]
    pub fn count(&self) -> u32 {
        self.bytes.get(8..HEADER_LEN).and_then(<[u8]>::first_chunk).map_or(0, |count| u32::from_le_bytes(*count))
    }

    /// Whether the batch has no entries. It may still have log data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Bytes of the stored form.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len().max(HEADER_LEN)
    }

    /// Gives memory back that it does not need.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Makes room for `additional` bytes more, of `most` in all: memory grows by doubling, but no further than that.
    #[inline]
    pub(crate) fn reserve_within(&mut self, additional: usize, most: usize) {
        let (len, capacity) = (self.bytes.len(), self.bytes.capacity());
        let needed = len.saturating_add(additional);
        if needed > capacity {
            self.bytes.reserve_exact(needed.max(capacity.saturating_mul(2).min(most)).saturating_sub(len));
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The stored form.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        if self.bytes.is_empty() { &[0; HEADER_LEN] } else { &self.bytes }
    }

    /// The entries, in order.
    #[inline]
    pub fn iter(&self) -> BatchIter<'_> {
        BatchIter::new(self)
    }

    /// The log data, in order.
    pub fn log_data(&self) -> impl Iterator<Item = &[u8]> {
        let mut records = Records::new(self.body());
        std::iter::from_fn(move || {
            while let Ok(Some(record)) = records.next_record() {
                if let Record::LogData(data) = record {
                    return Some(data);
                }
            }
            None
        })
    }

    /// The error of the first change that was beyond a limit and is therefore missing.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Whether every entry is of the family `default`.
    #[inline]
    pub(crate) fn is_default_only(&self) -> bool {
        !self.other_families
    }

    /// Whether every entry is a put or a tombstone of one key.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.special
    }

    /// The records, without the header. The bodies of several batches after one header are a batch.
    #[inline]
    pub(crate) fn body(&self) -> &[u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or(&[])
    }

    #[inline]
    fn ensure_header(&mut self) {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(&[0; HEADER_LEN]);
        }
    }

    #[inline]
    fn add(&mut self, short: u8, long: u8, column_family: ColumnFamilyId, key: &[u8], value: Option<&[u8]>) {
        let value_len = value.map_or(0, <[u8]>::len);
        if key.len() > MAX_KEY_LEN || value_len > MAX_VALUE_LEN || self.count() == u32::MAX {
            self.refuse_change(key.len(), value_len);
            return;
        }
        let at_most = HEADER_LEN + 1 + 3 * MAX_VARINT32_LEN + key.len() + value_len;
        self.bytes.reserve(at_most);
        self.ensure_header();
        if column_family.0 == 0 {
            self.bytes.push(short);
        } else {
            self.other_families = true;
            self.bytes.push(long);
            put_varint32(&mut self.bytes, column_family.0);
        }
        put_varint32(&mut self.bytes, key.len() as u32);
        self.bytes.extend_from_slice(key);
        if let Some(value) = value {
            put_varint32(&mut self.bytes, value_len as u32);
            self.bytes.extend_from_slice(value);
        }
        let count = self.count() + 1;
        self.bytes[8..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
    }

    #[cold]
    fn refuse_change(&mut self, key_len: usize, value_len: usize) {
        self.refuse(if key_len > MAX_KEY_LEN {
            key_too_long(key_len)
        } else if value_len > MAX_VALUE_LEN {
            value_too_long(value_len)
        } else {
            Error::new(ErrorKind::LimitExceeded, "a write batch has more than 2^32 - 1 entries")
        });
    }

    #[cold]
    fn refuse(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = BatchEntry<'a>;
    type IntoIter = BatchIter<'a>;

    fn into_iter(self) -> BatchIter<'a> {
        self.iter()
    }
}

/// Takes notes about logs out of a batch in stored form that is valid.
fn remove_notes(bytes: &mut Vec<u8>) {
    let mut records = Records::new(bytes.get(HEADER_LEN..).unwrap_or_default());
    let mut kept: Option<Vec<u8>> = None;
    let mut before = records.rest();
    while let Ok(Some(record)) = records.next_record() {
        let rest = records.rest();
        let (start, end) = (bytes.len() - before.len(), bytes.len() - rest.len());
        match record {
            Record::LogData(blob) if notes::is_note(blob) => {
                kept.get_or_insert_with(|| bytes.get(..start).unwrap_or_default().to_vec());
            }
            _ => kept.iter_mut().for_each(|kept| kept.extend_from_slice(bytes.get(start..end).unwrap_or_default())),
        }
        before = rest;
    }
    if let Some(kept) = kept {
        *bytes = kept;
    }
}
