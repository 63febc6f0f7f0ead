//! Bloom filters: those of table files, byte for byte, and one for memtables.
//!
//! [`BloomBuilder`] writes RocksDB's "fast local" filter, whose probes of a key all fall into one cache line.
//! [`FilterKind`] recognises what a filter block is, also a [`ribbon`](crate::ribbon) filter; whatever it does not know "may match".

mod builder;
mod dynamic;

pub use builder::{BloomBuild, BloomBuilder, false_rate};
pub use dynamic::DynamicBloom;

use crate::checksum::{hash32, xxph3};
use crate::prefetch::prefetch;
use crate::ribbon::{RibbonBytes, RibbonShape};

/// The bytes behind the bits of every filter block.
pub const TRAILER_LEN: usize = 5;

/// The bytes that all probes of a key fall into.
const LINE_LEN: usize = 64;

const MAX_PROBES: usize = 30;

const LEGACY_SEED: u32 = 0xbc9f_1d34;

const GOLDEN: u32 = 0x9e37_79b9;

/// The multiplier of every probe, so that no probe waits for the one before.
const POWERS: [u32; MAX_PROBES] = {
    let mut powers = [1_u32; MAX_PROBES];
    let mut index = 1;
    while index < MAX_PROBES {
        powers[index] = powers[index - 1].wrapping_mul(GOLDEN);
        index += 1;
    }
    powers
};

/// The cache line of a hash among `lines`.
#[inline(always)]
fn line_of(hash: u64, lines: u32) -> usize {
    ((u64::from(hash as u32) * u64::from(lines)) >> 32) as usize
}

/// What a filter block is and how to ask it: small enough to keep beside the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterKind {
    /// A filter of no keys.
    NeverMatches,
    /// A filter that says nothing: of an unknown kind, damaged, or written so on purpose.
    AlwaysMatches,
    /// The filter of format version 5 and later; asked with the [`xxph3`] hash of a key.
    FastLocal {
        /// Bits per key, at most 30.
        probes: u8,
        /// Cache lines of 64 bytes.
        lines: u32,
    },
    /// The filter before format version 5; asked with another hash.
    Legacy {
        /// Bits per key, at most 127.
        probes: u8,
        /// Cache lines.
        lines: u32,
        /// The base-2 logarithm of the bytes of a line.
        line_shift: u8,
    },
    /// A ribbon filter; asked with the [`xxph3`] hash of a key.
    Ribbon(RibbonShape),
}

/// The first byte of a ribbon filter's trailer.
const RIBBON_MARK: u8 = -2_i8 as u8;

/// The filter block of a ribbon filter.
pub fn ribbon_block(ribbon: RibbonBytes) -> Vec<u8> {
    let RibbonBytes { segments: mut block, seed, blocks } = ribbon;
    let [low, middle, high, _] = blocks.to_le_bytes();
    block.extend_from_slice(&[RIBBON_MARK, seed, low, middle, high]);
    block
}

impl FilterKind {
    /// Recognises a filter block by its length and its trailer. Never fails: what it does not know always matches.
    pub fn parse(filter: &[u8]) -> Self {
        let Some((bits, trailer)) = filter.split_last_chunk::<TRAILER_LEN>() else {
            return Self::NeverMatches;
        };
        if bits.is_empty() {
            return Self::NeverMatches;
        }
        match trailer[0] as i8 {
            -1 => Self::parse_fast_local(bits.len(), *trailer),
            -2 => Self::parse_ribbon(bits.len(), *trailer),
            probes @ 1.. => Self::parse_legacy(bits.len(), probes as u8, *trailer),
            _ => Self::AlwaysMatches,
        }
    }

    fn parse_fast_local(len: usize, trailer: [u8; TRAILER_LEN]) -> Self {
        let [_, sub_type, shape, rest @ ..] = trailer;
        let (probes, line_shift) = (shape & 0x1f, shape >> 5);
        let known = sub_type == 0 && line_shift == 0 && rest == [0, 0];
        match u32::try_from(len / LINE_LEN) {
            Ok(lines) if known && (1..=MAX_PROBES as u8).contains(&probes) && len.is_multiple_of(LINE_LEN) => {
                Self::FastLocal { probes, lines }
            }
            _ => Self::AlwaysMatches,
        }
    }

    fn parse_ribbon(len: usize, trailer: [u8; TRAILER_LEN]) -> Self {
        let [_, seed, low, middle, high] = trailer;
        let shape = RibbonShape::new(len, seed, u32::from_le_bytes([low, middle, high, 0]));
        shape.map_or(Self::AlwaysMatches, Self::Ribbon)
    }

    fn parse_legacy(len: usize, probes: u8, trailer: [u8; TRAILER_LEN]) -> Self {
        let [_, lines @ ..] = trailer;
        let lines = u32::from_le_bytes(lines);
        let line_len = match len.checked_div(lines as usize) {
            Some(line_len) if line_len.is_power_of_two() && line_len * lines as usize == len => line_len,
            _ => return Self::AlwaysMatches,
        };
        Self::Legacy { probes, lines, line_shift: line_len.ilog2() as u8 }
    }

    /// The hash with which to ask [`may_match`](Self::may_match) for `key`.
    #[inline]
    pub fn hash_key(&self, key: &[u8]) -> u64 {
        match self {
            Self::Legacy { .. } => u64::from(hash32(key, LEGACY_SEED)),
            _ => xxph3(key),
        }
    }

    /// Whether [`hash_key`](Self::hash_key) is not [`xxph3`], so that a hash made for other filters must not be used.
    #[inline]
    pub const fn needs_own_hash(&self) -> bool {
        matches!(self, Self::Legacy { .. })
    }

    /// Asks for the memory that [`may_match`](Self::may_match) reads for a key of this [`xxph3`] hash, if that is one cache line.
    #[inline]
    pub fn prefetch(&self, filter: &[u8], hash: u64) {
        if let Self::FastLocal { lines, .. } = *self
            && let Some([first, .., last]) = line_at(filter, lines, hash)
        {
            // Two lines of the processor if the filter is not aligned.
            prefetch(first);
            prefetch(last);
        }
    }

    /// Whether the block that this was parsed from may have the key of `hash`. `filter` must be that block:
    /// of a shorter one the answer is "yes".
    #[inline]
    pub fn may_match(&self, filter: &[u8], hash: u64) -> bool {
        match *self {
            Self::FastLocal { probes, lines } => fast_local_may_match(filter, probes, lines, hash),
            Self::NeverMatches => false,
            Self::AlwaysMatches => true,
            Self::Legacy { probes, lines, line_shift } => {
                legacy_may_match(filter, probes, lines, line_shift, hash as u32)
            }
            Self::Ribbon(shape) => shape.may_match(filter, hash),
        }
    }
}

/// Whether a filter block may have the key whose [`xxph3`] hash is `hash`. A legacy filter, which knows another hash,
/// always "may": it is asked by [`FilterKind::hash_key`] and [`FilterKind::may_match`].
#[inline]
pub fn may_match(filter: &[u8], hash: u64) -> bool {
    let kind = FilterKind::parse(filter);
    kind.needs_own_hash() || kind.may_match(filter, hash)
}

/// The bytes that all probes of a hash fall into; `None` if the filter is too short.
#[inline(always)]
fn line_at(filter: &[u8], lines: u32, hash: u64) -> Option<&[u8; LINE_LEN]> {
    filter.get(line_of(hash, lines) * LINE_LEN..)?.first_chunk()
}

/// Every probe is made: their results are unpredictable, so leaving early costs more than it saves.
#[inline]
fn fast_local_may_match(filter: &[u8], probes: u8, lines: u32, hash: u64) -> bool {
    let Some(line) = line_at(filter, lines, hash) else { return true };
    let high = (hash >> 32) as u32;
    let mut all = 1;
    for power in POWERS.iter().take(usize::from(probes)) {
        let bit = high.wrapping_mul(*power) >> 23;
        all &= line[(bit >> 3) as usize] >> (bit & 7);
    }
    all & 1 == 1
}

fn legacy_may_match(filter: &[u8], probes: u8, lines: u32, line_shift: u8, mut hash: u32) -> bool {
    let delta = hash.rotate_right(17);
    let line_bits_mask = (8_u64 << line_shift) - 1;
    let start = ((hash % lines.max(1)) as usize) << line_shift;
    for _ in 0..probes {
        let bit = u64::from(hash) & line_bits_mask;
        match filter.get(start + (bit >> 3) as usize) {
            Some(byte) if byte >> (bit & 7) & 1 == 0 => return false,
            _ => hash = hash.wrapping_add(delta),
        }
    }
    true
}

#[cfg(test)]
mod tests;
