//! Where rows and index entries stand: keys of the shared family, after MyRocks' layout.
//!
//! `row = index id || primary key -> value`, `index entry = index id || index key || primary key -> nothing`. Index ids are
//! fixed32 big-endian, so that the keys of an index lie together, in the order of what follows the id.

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
