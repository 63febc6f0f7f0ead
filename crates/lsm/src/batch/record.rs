//! The records of a write batch: one tag byte and what it is followed by.
//!
//! Every string is a varint32 length and the bytes. The long tags carry the column family as a varint32 before the key; the
//! short ones mean family 0.

use super::{MAX_KEY_LEN, MAX_VALUE_LEN};
use crate::key::{ColumnFamilyId, ValueType};
use siltstone_base::coding::decode_varint32;
use siltstone_base::{Error, ErrorKind};

/// Tag numbers that are not value types.
pub(super) mod tag {
    pub(crate) const DELETE: u8 = 0x00;
    pub(crate) const PUT: u8 = 0x01;
    pub(crate) const MERGE: u8 = 0x02;
    pub(crate) const LOG_DATA: u8 = 0x03;
    pub(crate) const CF_DELETE: u8 = 0x04;
    pub(crate) const CF_PUT: u8 = 0x05;
    pub(crate) const CF_MERGE: u8 = 0x06;
    pub(crate) const SINGLE_DELETE: u8 = 0x07;
    pub(crate) const CF_SINGLE_DELETE: u8 = 0x08;
    pub(crate) const BEGIN_PREPARE: u8 = 0x09;
    pub(crate) const END_PREPARE: u8 = 0x0A;
    pub(crate) const COMMIT: u8 = 0x0B;
    pub(crate) const ROLLBACK: u8 = 0x0C;
    pub(crate) const NOOP: u8 = 0x0D;
    pub(crate) const CF_RANGE_DELETE: u8 = 0x0E;
    pub(crate) const RANGE_DELETE: u8 = 0x0F;
    pub(crate) const CF_BLOB_INDEX: u8 = 0x10;
    pub(crate) const BLOB_INDEX: u8 = 0x11;
    pub(crate) const BEGIN_PERSISTED_PREPARE: u8 = 0x12;
    pub(crate) const BEGIN_UNPREPARE: u8 = 0x13;
    pub(crate) const COMMIT_WITH_TIMESTAMP: u8 = 0x15;
    pub(crate) const WIDE_COLUMN_ENTITY: u8 = 0x16;
    pub(crate) const CF_WIDE_COLUMN_ENTITY: u8 = 0x17;
    pub(crate) const TIMED_PUT: u8 = 0x18;
    pub(crate) const CF_TIMED_PUT: u8 = 0x19;
}

/// One entry of a batch: what happens to which key of which column family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchEntry<'a> {
    /// The column family.
    pub column_family: ColumnFamilyId,
    /// What the entry does.
    pub kind: ValueType,
    /// The key; the first key of the range for [`ValueType::RangeDelete`].
    pub key: &'a [u8],
    /// The value; empty for a delete, the exclusive end of the range for [`ValueType::RangeDelete`].
    pub value: &'a [u8],
}

/// A record that marks a phase of a transaction and consumes no sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker<'a> {
    /// Nothing: transaction databases start ordinary batches with it.
    Noop,
    /// The entries that follow, up to the end marker, are prepared, not applied.
    BeginPrepare,
    /// The same under the policy that writes to memtables at prepare time.
    BeginPersistedPrepare,
    /// The same under the policy that writes to memtables before prepare.
    BeginUnprepare,
    /// The end of the prepared section of the transaction of this name.
    EndPrepare(&'a [u8]),
    /// The transaction of this name is committed.
    Commit(&'a [u8]),
    /// The transaction of this name is committed at a user-defined timestamp.
    CommitWithTimestamp {
        /// The timestamp.
        timestamp: &'a [u8],
        /// The name.
        name: &'a [u8],
    },
    /// The transaction of this name is rolled back.
    Rollback(&'a [u8]),
}

/// One record of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Consumes one sequence number.
    Entry(BatchEntry<'a>),
    /// Opaque bytes that live in the log only.
    LogData(&'a [u8]),
    /// A marker of a transaction.
    Marker(Marker<'a>),
}

/// Why bytes are no record. Small, so that decoding costs no allocation until the error is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The bytes end within a record, or a length is no varint32.
    Truncated,
    /// No record has this tag.
    UnknownTag(u8),
    /// A key is longer than [`MAX_KEY_LEN`].
    KeyTooLong(usize),
    /// A value is longer than [`MAX_VALUE_LEN`].
    ValueTooLong(usize),
}

impl Malformed {
    /// The error to report.
    #[cold]
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Truncated => Error::corrupt("write batch ends within a record"),
            Self::UnknownTag(tag) => Error::corrupt(format!("unknown write batch tag {tag:#04x}")),
            Self::KeyTooLong(len) => key_too_long(len),
            Self::ValueTooLong(len) => value_too_long(len),
        }
    }
}

/// The error for a key of `len` bytes.
#[cold]
pub(super) fn key_too_long(len: usize) -> Error {
    Error::new(ErrorKind::LimitExceeded, format!("key of {len} bytes; the limit is {MAX_KEY_LEN}"))
}

/// The error for a value of `len` bytes.
#[cold]
pub(super) fn value_too_long(len: usize) -> Error {
    Error::new(ErrorKind::LimitExceeded, format!("value of {len} bytes; the limit is {MAX_VALUE_LEN}"))
}

/// Takes records off the front of the body of a batch (the bytes after its header). Total: any bytes end in records, the
/// end, or an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records of `body`.
    #[inline]
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// The records that were not taken off yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next record, or `None` at the end. After an error nothing more is yielded.
    #[inline]
    pub(crate) fn next_record(&mut self) -> Result<Option<Record<'a>>, Malformed> {
        let Some((&tag, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let record = self.decode(tag);
        if record.is_err() {
            self.rest = &[];
        }
        record.map(Some)
    }

    #[inline]
    fn decode(&mut self, tag: u8) -> Result<Record<'a>, Malformed> {
        match tag {
            tag::PUT => self.pair(ValueType::Put, false),
            tag::DELETE => self.single(ValueType::Delete, false),
            tag::CF_PUT => self.pair(ValueType::Put, true),
            tag::CF_DELETE => self.single(ValueType::Delete, true),
            tag::SINGLE_DELETE => self.single(ValueType::SingleDelete, false),
            tag::CF_SINGLE_DELETE => self.single(ValueType::SingleDelete, true),
            tag::LOG_DATA => Ok(Record::LogData(self.bytes()?)),
            _ => self.decode_rare(tag),
        }
    }

    #[cold]
    fn decode_rare(&mut self, tag: u8) -> Result<Record<'a>, Malformed> {
        let marker = match tag {
            tag::MERGE => return self.pair(ValueType::Merge, false),
            tag::CF_MERGE => return self.pair(ValueType::Merge, true),
            tag::RANGE_DELETE => return self.range(false),
            tag::CF_RANGE_DELETE => return self.range(true),
            tag::BLOB_INDEX => return self.pair(ValueType::BlobIndex, false),
            tag::CF_BLOB_INDEX => return self.pair(ValueType::BlobIndex, true),
            tag::WIDE_COLUMN_ENTITY => return self.pair(ValueType::WideColumnEntity, false),
            tag::CF_WIDE_COLUMN_ENTITY => return self.pair(ValueType::WideColumnEntity, true),
            tag::TIMED_PUT => return self.timed(false),
            tag::CF_TIMED_PUT => return self.timed(true),
            tag::NOOP => Marker::Noop,
            tag::BEGIN_PREPARE => Marker::BeginPrepare,
            tag::BEGIN_PERSISTED_PREPARE => Marker::BeginPersistedPrepare,
            tag::BEGIN_UNPREPARE => Marker::BeginUnprepare,
            tag::END_PREPARE => Marker::EndPrepare(self.bytes()?),
            tag::COMMIT => Marker::Commit(self.bytes()?),
            tag::ROLLBACK => Marker::Rollback(self.bytes()?),
            tag::COMMIT_WITH_TIMESTAMP => Marker::CommitWithTimestamp { timestamp: self.bytes()?, name: self.bytes()? },
            unknown => return Err(Malformed::UnknownTag(unknown)),
        };
        Ok(Record::Marker(marker))
    }

    #[inline]
    fn pair(&mut self, kind: ValueType, long: bool) -> Result<Record<'a>, Malformed> {
        let column_family = self.family(long)?;
        let key = self.key()?;
        let value = self.bytes()?;
        if value.len() > MAX_VALUE_LEN {
            return Err(Malformed::ValueTooLong(value.len()));
        }
        Ok(Record::Entry(BatchEntry { column_family, kind, key, value }))
    }

    /// A timed put is a put here: that its value has an age is a hint for where to keep it.
    fn timed(&mut self, long: bool) -> Result<Record<'a>, Malformed> {
        let record = self.pair(ValueType::Put, long)?;
        let Record::Entry(entry) = record else { return Ok(record) };
        let Some((value, _unix_seconds)) = entry.value.split_last_chunk::<8>() else {
            return Err(Malformed::Truncated);
        };
        Ok(Record::Entry(BatchEntry { value, ..entry }))
    }

    #[inline]
    fn single(&mut self, kind: ValueType, long: bool) -> Result<Record<'a>, Malformed> {
        let column_family = self.family(long)?;
        Ok(Record::Entry(BatchEntry { column_family, kind, key: self.key()?, value: &[] }))
    }

    fn range(&mut self, long: bool) -> Result<Record<'a>, Malformed> {
        let column_family = self.family(long)?;
        let key = self.key()?;
        Ok(Record::Entry(BatchEntry { column_family, kind: ValueType::RangeDelete, key, value: self.key()? }))
    }

    #[inline]
    fn family(&mut self, long: bool) -> Result<ColumnFamilyId, Malformed> {
        if long { self.varint32().map(ColumnFamilyId) } else { Ok(ColumnFamilyId(0)) }
    }

    #[inline]
    fn key(&mut self) -> Result<&'a [u8], Malformed> {
        let key = self.bytes()?;
        if key.len() > MAX_KEY_LEN { Err(Malformed::KeyTooLong(key.len())) } else { Ok(key) }
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint32()? as usize;
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            return Err(Malformed::Truncated);
        };
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    fn varint32(&mut self) -> Result<u32, Malformed> {
        let (value, len) = decode_varint32(self.rest).ok_or(Malformed::Truncated)?;
        self.rest = &self.rest[len..];
        Ok(value)
    }
}
