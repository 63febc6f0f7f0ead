//! Long values: a chain of overflow pages, and the reference to it that takes the value's place in its cell.

use super::header::Header;
use super::{HEADER_LEN, TRAILER_LEN, u32_at};

/// Where a long value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverflowRef {
    /// Bytes of the value.
    pub len: u32,
    /// The first page of the chain.
    pub first: u32,
    /// The last one: so that a chain is given back as a whole.
    pub last: u32,
}

impl OverflowRef {
    /// Bytes of an encoded reference.
    pub const LEN: usize = 12;

    /// The reference as a cell holds it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&self.len.to_le_bytes());
        out[4..8].copy_from_slice(&self.first.to_le_bytes());
        out[8..].copy_from_slice(&self.last.to_le_bytes());
        out
    }

    /// Reads what a cell holds.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == Self::LEN).then(|| Self {
            len: u32_at(bytes, 0),
            first: u32_at(bytes, 4),
            last: u32_at(bytes, 8),
        })
    }

    /// Pages of the chain.
    pub const fn pages(&self, page_len: usize) -> usize {
        (self.len as usize).div_ceil(page_len - HEADER_LEN - TRAILER_LEN)
    }
}

/// The part of a value that an overflow page holds: `heap` says where it ends.
pub fn overflow_payload<'a>(bytes: &'a [u8], header: &Header) -> Option<&'a [u8]> {
    bytes.get(HEADER_LEN..usize::from(header.heap)).filter(|_| usize::from(header.heap) + TRAILER_LEN <= bytes.len())
}
