//! Stamps: who wrote a row last, and where what it was before is kept. A row without one was written by someone whom everyone sees.

use super::{FLAG_OVERFLOW, FLAG_STAMP, OverflowRef, u32_at};

/// The stamp of a row: the first bytes of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// The transaction that wrote the row last. Never 0.
    pub id: u64,
    /// Which of its changes that was: the number under which the undo log keeps what the row was before.
    pub number: u32,
}

impl Stamp {
    /// Bytes of an encoded stamp.
    pub const LEN: usize = 12;

    /// The stamp as a cell holds it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..8].copy_from_slice(&self.id.to_le_bytes());
        out[8..].copy_from_slice(&self.number.to_le_bytes());
        out
    }

    /// The stamp of a cell, if it has one.
    #[inline]
    pub fn of(flags: u8, value: &[u8]) -> Option<Self> {
        if flags & FLAG_STAMP == 0 || value.len() < Self::LEN {
            return None;
        }
        Some(Self { id: u64::from(u32_at(value, 0)) | u64::from(u32_at(value, 4)) << 32, number: u32_at(value, 8) })
    }
}

/// The value of a cell behind its stamp: the row's value, or the reference to it.
#[inline]
pub fn body(flags: u8, value: &[u8]) -> &[u8] {
    if flags & FLAG_STAMP == 0 { value } else { value.get(Stamp::LEN..).unwrap_or(&[]) }
}

/// The long value that a cell refers to, if it does.
#[inline]
pub fn chain(flags: u8, value: &[u8]) -> Option<OverflowRef> {
    (flags & FLAG_OVERFLOW != 0).then(|| OverflowRef::decode(body(flags, value))).flatten()
}
