//! Internal keys: user key, sequence number and value type, and their order.
//!
//! `internal key = user key || fixed64(seqno << 8 | value type)`. Order: user keys ascending by the comparator, then
//! the trailer descending, so that the newest version of a key comes first.

use siltstone_base::comparator::Comparator;
use siltstone_base::{Error, Result};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Sequence number of one entry: 56 bits.
pub type SeqNo = u64;

/// Number of a column family; 0 is `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ColumnFamilyId(pub u32);

/// The largest sequence number.
pub const MAX_SEQNO: SeqNo = (1 << 56) - 1;

/// Bytes that an internal key is longer than its user key.
pub const TRAILER_LEN: usize = 8;

/// What an entry does to its key. The numbers are those of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// A tombstone.
    Delete = 0x00,
    /// A value.
    Put = 0x01,
    /// An operand of a merge operator.
    Merge = 0x02,
    /// A tombstone for a key that was put once since the last one.
    SingleDelete = 0x07,
    /// A tombstone for a range of keys. Never among the point entries of a table.
    RangeDelete = 0x0F,
    /// A reference to a value in a blob file.
    BlobIndex = 0x11,
    /// A tombstone, of a key that ends with a timestamp.
    DeleteWithTimestamp = 0x14,
    /// A wide-column value.
    WideColumnEntity = 0x16,
    /// A value, and behind it 8 bytes with the sequence number that it would have by its age. RocksDB may give it that number; here the
    /// bytes are carried along.
    TimedPut = 0x18,
}

impl ValueType {
    /// The type of a stored number, if it is one of the above.
    #[inline]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            0x00 => Self::Delete,
            0x01 => Self::Put,
            0x02 => Self::Merge,
            0x07 => Self::SingleDelete,
            0x0F => Self::RangeDelete,
            0x11 => Self::BlobIndex,
            0x14 => Self::DeleteWithTimestamp,
            0x16 => Self::WideColumnEntity,
            0x18 => Self::TimedPut,
            _ => return None,
        })
    }

    /// Whether the entry says that the key has no value.
    pub const fn is_tombstone(self) -> bool {
        matches!(self, Self::Delete | Self::SingleDelete | Self::DeleteWithTimestamp)
    }
}

/// The type number in keys that only seek: the largest, so that it comes before every entry of its sequence number.
pub const SEEK_TYPE: u8 = 0x7F;

/// Packs a sequence number and a type number.
#[inline]
pub const fn pack_trailer(seqno: SeqNo, value_type: u8) -> u64 {
    (seqno << 8) | value_type as u64
}

/// The first eight bytes of a key as a number that sorts like them; a shorter key is taken to end in zeros, so that only
/// different heads decide.
#[inline]
pub(crate) fn head_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => bytes.iter().fold(0, |head, byte| (head << 8) | u64::from(*byte)) << (8 * (8 - bytes.len()) % 64),
    }
}

/// The same of the first sixteen bytes.
#[inline]
pub(crate) fn wide_head_of(bytes: &[u8]) -> u128 {
    match bytes.first_chunk::<16>() {
        Some(chunk) => u128::from_be_bytes(*chunk),
        None => bytes.iter().fold(0, |head, byte| (head << 8) | u128::from(*byte)) << (8 * (16 - bytes.len()) % 128),
    }
}

/// The user key of an internal key that was checked before.
#[inline]
pub fn user_key(internal_key: &[u8]) -> &[u8] {
    &internal_key[..internal_key.len().saturating_sub(TRAILER_LEN)]
}

/// The trailer of an internal key that was checked before; 0 for one that is too short.
#[inline]
pub fn trailer(internal_key: &[u8]) -> u64 {
    match internal_key.last_chunk::<TRAILER_LEN>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// The sequence number of an internal key that was checked before.
#[inline]
pub fn seqno(internal_key: &[u8]) -> SeqNo {
    trailer(internal_key) >> 8
}

/// An internal key taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ParsedKey<'a> {
    /// The bytes that the caller gave.
    pub user_key: &'a [u8],
    /// The sequence number.
    pub seqno: SeqNo,
    /// What the entry does.
    pub value_type: ValueType,
}

impl<'a> ParsedKey<'a> {
    /// Takes a stored internal key apart; a short one or an unknown type is corruption.
    #[inline]
    pub fn parse(internal_key: &'a [u8]) -> Result<Self> {
        let Some((user_key, trailer)) = internal_key.split_last_chunk::<TRAILER_LEN>() else {
            return Err(Error::corrupt("internal key shorter than its trailer"));
        };
        let trailer = u64::from_le_bytes(*trailer);
        let Some(value_type) = ValueType::from_u8(trailer as u8) else {
            return Err(Error::corrupt(format!("unknown value type {:#04x}", trailer as u8)));
        };
        Ok(Self { user_key, seqno: trailer >> 8, value_type })
    }
}

impl fmt::Debug for ParsedKey<'_> {
    /// The notation of the tests: `key#seqno,Type`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{},{:?}", self.user_key.escape_ascii(), self.seqno, self.value_type)
    }
}

/// Appends an internal key to `out`.
#[inline]
pub fn append_internal_key(out: &mut Vec<u8>, user_key: &[u8], seqno: SeqNo, value_type: ValueType) {
    out.extend_from_slice(user_key);
    out.extend_from_slice(&pack_trailer(seqno, value_type as u8).to_le_bytes());
}

/// An owned internal key, as file boundaries are.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct InternalKey(Vec<u8>);

impl InternalKey {
    /// Puts a key together.
    pub fn new(user_key: &[u8], seqno: SeqNo, value_type: ValueType) -> Self {
        let mut bytes = Vec::with_capacity(user_key.len() + TRAILER_LEN);
        append_internal_key(&mut bytes, user_key, seqno, value_type);
        Self(bytes)
    }

    /// Checks and takes stored bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        ParsedKey::parse(bytes)?;
        Ok(Self(bytes.to_vec()))
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The user key.
    pub fn user_key(&self) -> &[u8] {
        user_key(&self.0)
    }

    /// The sequence number.
    pub fn seqno(&self) -> SeqNo {
        seqno(&self.0)
    }

    /// Whether, as the upper bound of a table, it is the exclusive end of a range tombstone: the table then has no entry of its user key.
    #[inline]
    pub fn is_exclusive_end(&self) -> bool {
        trailer(&self.0) == pack_trailer(MAX_SEQNO, ValueType::RangeDelete as u8)
    }

    /// Whether a table with this upper bound ends before `other`, a user key.
    #[inline]
    pub fn ends_before(&self, order: &InternalKeyComparator, other: &[u8]) -> bool {
        let ordering = order.compare_user(self.user_key(), other);
        ordering.is_lt() || (ordering.is_eq() && self.is_exclusive_end())
    }
}

impl fmt::Debug for InternalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ParsedKey::parse(&self.0) {
            Ok(parsed) => parsed.fmt(f),
            Err(_) => write!(f, "invalid({})", self.0.escape_ascii()),
        }
    }
}

/// A user key and the sequence number to read it at, in the form that seeks need. Short keys are kept inline.
#[derive(Debug, Clone)]
pub struct LookupKey {
    bytes: LookupBytes,
}

const INLINE: usize = 64;

#[derive(Debug, Clone)]
enum LookupBytes {
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Vec<u8>),
}

impl LookupKey {
    /// The key that seeks the newest version of `user_key` visible at `seqno`.
    ///
    /// No entry has the largest number of all, and so has no key that seeks: the exclusive end of a table has it, and comes before all that is of its user key.
    #[inline]
    pub fn new(user_key: &[u8], seqno: SeqNo) -> Self {
        let trailer = pack_trailer(seqno.min(MAX_SEQNO - 1), SEEK_TYPE).to_le_bytes();
        let len = user_key.len() + TRAILER_LEN;
        if len <= INLINE {
            let mut bytes = [0; INLINE];
            bytes[..user_key.len()].copy_from_slice(user_key);
            bytes[user_key.len()..len].copy_from_slice(&trailer);
            return Self { bytes: LookupBytes::Inline { len: len as u8, bytes } };
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(user_key);
        bytes.extend_from_slice(&trailer);
        Self { bytes: LookupBytes::Heap(bytes) }
    }

    /// The internal key to seek.
    #[inline]
    pub fn internal_key(&self) -> &[u8] {
        match &self.bytes {
            LookupBytes::Inline { len, bytes } => &bytes[..*len as usize],
            LookupBytes::Heap(bytes) => bytes,
        }
    }

    /// The user key.
    #[inline]
    pub fn user_key(&self) -> &[u8] {
        user_key(self.internal_key())
    }

    /// The sequence number to read at.
    #[inline]
    pub fn seqno(&self) -> SeqNo {
        seqno(self.internal_key())
    }
}

/// The order of internal keys over an order of user keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct InternalKeyComparator {
    user: Arc<dyn Comparator>,
    bytewise: bool,
}

impl InternalKeyComparator {
    /// The order over `user`.
    pub fn new(user: Arc<dyn Comparator>) -> Self {
        let bytewise = user.is_bytewise();
        Self { user, bytewise }
    }

    /// The order of user keys.
    pub fn user(&self) -> &Arc<dyn Comparator> {
        &self.user
    }

    /// Whether user keys are ordered like their bytes, shorter first.
    #[inline]
    pub fn is_bytewise(&self) -> bool {
        self.bytewise
    }

    /// Compares two user keys.
    #[inline]
    pub fn compare_user(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.bytewise { a.cmp(b) } else { self.user.compare(a, b) }
    }

    /// Compares two internal keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_user(user_key(a), user_key(b)).then_with(|| trailer(b).cmp(&trailer(a)))
    }
}
