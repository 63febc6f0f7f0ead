//! Physical records: a header and its payload within one block.

use super::tail::Valid;
use super::{HEADER_LEN, RECYCLABLE_HEADER_LEN, TYPE_AT};
use siltstone_base::checksum::{crc32c, unmask_crc};

/// Which part of a logical record a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment {
    /// All of it.
    Full,
    /// Its start.
    First,
    /// Neither its start nor its end.
    Middle,
    /// Its end.
    Last,
}

impl Fragment {
    /// The number in a legacy header.
    #[inline]
    pub(super) const fn legacy(self) -> u8 {
        match self {
            Self::Full => 1,
            Self::First => 2,
            Self::Middle => 3,
            Self::Last => 4,
        }
    }
}

/// What the type of a header means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordType {
    /// Part of a logical record.
    Fragment(Fragment),
    /// All logical records are compressed.
    Compression,
    /// Sizes of the user-defined timestamps in the keys of some families.
    TimestampSizes,
    /// What is known of the log before this one.
    Predecessor,
    /// What later versions declare ignorable by the highest bit.
    Ignorable,
    /// No header written by anyone.
    Unknown,
}

/// The header of a physical record, of either kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// The masked checksum.
    crc: u32,
    /// Bytes of the payload.
    length: usize,
    /// The type as stored.
    number: u8,
    /// The low half of the number of the log that the record was written to, in a recyclable header.
    log_number: Option<u32>,
}

impl Header {
    /// Reads the header at the front of `bytes`; `None` if they are fewer than it takes.
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[c0, c1, c2, c3, l0, l1, number] = bytes.first_chunk::<HEADER_LEN>()?;
        let recyclable = matches!(number, 5..=8 | 11 | 131);
        let log_number =
            if recyclable { Some(u32::from_le_bytes(*bytes.get(HEADER_LEN..)?.first_chunk()?)) } else { None };
        let length = usize::from(u16::from_le_bytes([l0, l1]));
        Some(Self { crc: u32::from_le_bytes([c0, c1, c2, c3]), length, number, log_number })
    }

    /// Whether the header is of the longer kind.
    #[inline]
    pub(super) fn is_recyclable(&self) -> bool {
        self.log_number.is_some()
    }

    /// Bytes of the header.
    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.is_recyclable() { RECYCLABLE_HEADER_LEN } else { HEADER_LEN }
    }

    /// Bytes of header and payload.
    #[inline]
    pub(super) fn record_len(&self) -> usize {
        self.len() + self.length
    }

    /// The type as stored.
    pub(super) fn number(&self) -> u8 {
        self.number
    }

    /// What the type means.
    #[inline]
    pub(super) fn record_type(&self) -> RecordType {
        match self.number {
            1 | 5 => RecordType::Fragment(Fragment::Full),
            2 | 6 => RecordType::Fragment(Fragment::First),
            3 | 7 => RecordType::Fragment(Fragment::Middle),
            4 | 8 => RecordType::Fragment(Fragment::Last),
            9 => RecordType::Compression,
            10 | 11 => RecordType::TimestampSizes,
            130 | 131 => RecordType::Predecessor,
            128.. => RecordType::Ignorable,
            _ => RecordType::Unknown,
        }
    }

    /// Whether the checksum fits `record`: the bytes from the front of this header to the end of the payload.
    #[inline]
    pub(super) fn fits(&self, record: &[u8]) -> bool {
        record.get(TYPE_AT..).is_some_and(|covered| unmask_crc(self.crc) == crc32c(covered))
    }

    /// Whether the number of the log, if the header has one, is that of log `log_number`.
    #[inline]
    pub(super) fn is_of_log(&self, log_number: u64) -> bool {
        self.log_number.is_none_or(|number| number == log_number as u32)
    }
}

/// Whether part of a logical record, as `valid` describes it, starts at the front of `bytes`, which end where its block or its file
/// does.
pub(super) fn is_record(bytes: &[u8], valid: Valid) -> bool {
    fragment_at(bytes, valid).is_some()
}

/// The part of a logical record that starts there, if one does, and its length with its header.
pub(super) fn fragment_at(bytes: &[u8], valid: Valid) -> Option<(Fragment, usize)> {
    let header = Header::parse(bytes)?;
    let RecordType::Fragment(fragment) = header.record_type() else { return None };
    let is_valid = header.is_of_log(valid.log_number)
        && valid.recyclable.is_none_or(|recyclable| recyclable == header.is_recyclable())
        && bytes.get(..header.record_len()).is_some_and(|record| header.fits(record));
    is_valid.then_some((fragment, header.record_len()))
}
