//! Values that are read without being copied.

use super::block::Block;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes of a value. They lie in a block that this value keeps in memory, or are its own.
///
/// A block stays charged to its cache while it is held, so values are not for keeping: copy what lives long.
#[derive(Clone)]
pub struct PinnedBytes(Repr);

#[derive(Clone)]
enum Repr {
    Block { block: Arc<Block>, start: u32, end: u32 },
    Owned(Vec<u8>),
}

impl PinnedBytes {
    /// The bytes from `start` to `end` of a block, which a cursor found there.
    #[inline]
    pub(crate) fn in_block(block: Arc<Block>, range: (u32, u32)) -> Self {
        Self(Repr::Block { block, start: range.0, end: range.1 })
    }

    /// The bytes as a vector; copied if they lie in a block.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Block { block, start, end } => block.slice(start, end).to_vec(),
            Repr::Owned(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for PinnedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Repr::Owned(bytes))
    }
}

impl Deref for PinnedBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Block { block, start, end } => block.slice(*start, *end),
            Repr::Owned(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for PinnedBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for PinnedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PinnedBytes {}

impl PartialEq<[u8]> for PinnedBytes {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for PinnedBytes {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for PinnedBytes {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl fmt::Debug for PinnedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBytes({} bytes)", self.len())
    }
}
