//! Where rows and index entries stand: keys of the shared family, after MyRocks' layout.
//!
//! `row = index id || primary key -> value`. An index entry is one of
//!
//! | index | key | value |
//! | --- | --- | --- |
//! | whose index keys have one length | index id, index key, primary key | covered columns |
//! | other | index id, index key, primary key | varint32 length of the index key, covered columns |
//! | unique | index id, index key | varint32 length of the primary key, primary key, covered columns |
//!
//! In a table whose rows expire each value, of rows and of entries, has the stamp of the row before it: 8 bytes, big-endian.
//!
//! Index ids are fixed32 big-endian, so that the keys of an index lie together, in the order of what follows the id.

use siltstone_base::coding::{get_varint32, put_varint32};
use siltstone_base::index_scan::IndexEntry;
use siltstone_base::{Error, Result};

/// Number of an index, primary or secondary. Never given out twice in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IndexId(pub(crate) u32);

/// Bytes of an index id in front of each key.
pub(crate) const ID_LEN: usize = 4;

/// The first index id that is given out; MyRocks keeps those below for itself too.
pub(crate) const FIRST_ID: IndexId = IndexId(256);

/// The largest index id that is given out: each id has a successor that ends its range.
pub(crate) const LAST_ID: IndexId = IndexId(u32::MAX - 1);

impl IndexId {
    /// The id as it stands in front of keys: also the smallest key of the index.
    #[inline]
    pub(crate) const fn to_bytes(self) -> [u8; ID_LEN] {
        self.0.to_be_bytes()
    }

    /// The end of the index's keys, exclusive.
    pub(crate) const fn end(self) -> [u8; ID_LEN] {
        self.0.saturating_add(1).to_be_bytes()
    }

    /// The key of the index that ends with `rest`.
    pub(crate) fn key(self, rest: &[u8]) -> Vec<u8> {
        [&self.to_bytes()[..], rest].concat()
    }

    /// Makes `key` the beginning of a key of the index.
    #[inline]
    pub(crate) fn begin(self, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.to_bytes());
    }

    /// The index whose key this is; `None` for a key that is shorter than an id.
    #[inline]
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        key.first_chunk().map(|id| Self(u32::from_be_bytes(*id)))
    }

    /// Reads an id from the front of `bytes`; refuses those that are never given out.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        match Self::of_key(bytes) {
            Some(id) if (FIRST_ID..=LAST_ID).contains(&id) => Ok(id),
            _ => Err(Error::corrupt("index id out of bounds in the dictionary")),
        }
    }
}

/// What follows the id in a key of an index; nothing for a key that is shorter.
#[inline]
pub(crate) fn without_id(key: &[u8]) -> &[u8] {
    key.get(ID_LEN..).unwrap_or(&[])
}

/// How the entries of an index are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryForm {
    /// All index keys have this length.
    Fixed(usize),
    /// Values say how long index keys are.
    Sized,
    /// Values say which row it is.
    Unique,
}

impl EntryForm {
    /// Appends the rest of an entry to `key`, which ends with an index key of `len` bytes, and to `value`, which holds the stamp, if there is one. What is covered comes behind that.
    #[inline]
    pub(crate) fn finish(self, len: usize, primary_key: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) {
        match self {
            Self::Fixed(_) => key.extend_from_slice(primary_key),
            Self::Sized => {
                // Keys are at most 64 KiB long, which the write checks.
                put_varint32(value, u32::try_from(len).unwrap_or(u32::MAX));
                key.extend_from_slice(primary_key);
            }
            Self::Unique => {
                put_varint32(value, u32::try_from(primary_key.len()).unwrap_or(u32::MAX));
                value.extend_from_slice(primary_key);
            }
        }
    }

    /// Takes an entry apart, of which `key` is what follows the id, and `value` is without a stamp. `None` if it is none.
    #[inline]
    pub(crate) fn decode<'a>(self, key: &'a [u8], mut value: &'a [u8]) -> Option<IndexEntry<'a>> {
        let (index_key, primary_key) = match self {
            Self::Fixed(len) => key.split_at_checked(len)?,
            Self::Sized => {
                let len = get_varint32(&mut value)?;
                key.split_at_checked(len as usize)?
            }
            Self::Unique => {
                let len = get_varint32(&mut value)?;
                let (primary_key, covered) = value.split_at_checked(len as usize)?;
                value = covered;
                (key, primary_key)
            }
        };
        Some(IndexEntry { index_key, primary_key, covered: value })
    }
}
