//! What a page looks like on disk: its checksum, its name and its LSN, each of which a reader checks.

use super::compressed::{is_compressed, stored_len};
use super::header::{PageId, at};
use super::{HEADER_LEN, Lsn, TRAILER_LEN, u32_at};
use siltstone_base::checksum::xxh3_64;
use std::fmt;

/// Why bytes are not the page that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The page was never written: all its bytes are 0.
    Unwritten,
    /// The checksum does not fit the bytes: the page is torn, or rotten.
    Checksum,
    /// The page is whole, but another one.
    Misplaced(PageId),
    /// The page is shorter than a header and a trailer.
    Short,
    /// The page is stored compressed, and its payload is that of no page.
    Payload,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwritten => f.write_str("the page was never written"),
            Self::Checksum => f.write_str("the page's checksum does not fit"),
            Self::Misplaced(id) => write!(f, "{id} stands in the page's place"),
            Self::Short => f.write_str("the page is too short"),
            Self::Payload => f.write_str("the page does not decompress"),
        }
    }
}

/// Names a page, states its LSN twice, and sums it up: the last thing before it is written. The checksum covers name and LSN.
pub fn seal(bytes: &mut [u8], id: PageId, lsn: Lsn) {
    if bytes.len() < HEADER_LEN + TRAILER_LEN {
        return;
    }
    let trailer = bytes.len() - TRAILER_LEN;
    bytes[trailer..].copy_from_slice(&lsn.to_le_bytes());
    bytes[at::LSN..at::LSN + 8].copy_from_slice(&lsn.to_le_bytes());
    bytes[at::ID..at::ID + 4].copy_from_slice(&id.space.to_le_bytes());
    bytes[at::ID + 4..at::ID + 8].copy_from_slice(&id.number.to_le_bytes());
    let sum = xxh3_64(&bytes[at::LSN..]);
    bytes[at::CHECKSUM..at::CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Whether bytes are the sealed page `id`, compressed or not; its LSN if they are. Of a compressed page only what is stored counts.
///
/// # Errors
///
/// What is wrong with them.
pub fn verify(bytes: &[u8], id: PageId) -> Result<Lsn, Damage> {
    if bytes.len() < HEADER_LEN + TRAILER_LEN {
        return Err(Damage::Short);
    }
    let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word));
    let lsn = word(at::LSN);
    let stored = if is_compressed(bytes) { stored_len(bytes) } else { bytes.len() };
    let is_whole = is_compressed(bytes) || word(bytes.len() - TRAILER_LEN) == lsn;
    if !is_whole || word(at::CHECKSUM) != xxh3_64(&bytes[at::LSN..stored]) {
        let is_unwritten = bytes.iter().all(|byte| *byte == 0);
        return Err(if is_unwritten { Damage::Unwritten } else { Damage::Checksum });
    }
    let found = PageId::new(u32_at(bytes, at::ID), u32_at(bytes, at::ID + 4));
    if found == id { Ok(lsn) } else { Err(Damage::Misplaced(found)) }
}
