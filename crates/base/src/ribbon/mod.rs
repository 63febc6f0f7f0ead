//! Ribbon filters of table files, byte for byte: a third smaller than bloom filters of the same accuracy, and slower to build.
//!
//! A filter is the solution of a system of linear equations over bits. The hash of a key chooses 128 neighbouring *slots* (from
//! `start` on), which of them count (`coefficients`), and what the bits of those slots must add up to in each *column*
//! (`expected`). Equations of the keys hold, those of another key hold by chance: once in two to the power of the columns.
//!
//! Slots form blocks of 128. A block is stored as one segment of 16 bytes for each of its columns. All blocks have the same number of columns,
//! but for the first ones, which may have one less: so filters of any length are possible.
//!
//! Sources: Dillinger and Walzer, "Ribbon filter: practically smaller than Bloom and Xor" (2021); the constants are the format's.

mod builder;

#[cfg(test)]
use builder::Banding;
pub use builder::{RibbonBuild, RibbonBytes, RibbonProgress, build, finished_len};

/// Slots of a block, and bits of a coefficient row.
const SLOTS_PER_BLOCK: u32 = 128;

/// Bytes of one column of a block.
const SEGMENT_LEN: usize = 16;

/// Columns of an equation.
const MAX_COLUMNS: u32 = 32;

const SEED_FACTOR: u64 = 0xc782_19a2_3eea_dd03;
const HASH_FACTOR: u64 = 0x6193_d459_236a_3a0d;
const ROW_FACTOR: u64 = 0xc28f_8282_2b65_0bed;
const ROW_XOR: u64 = 0xc367_844a_6e52_731d;

/// One key's equation.
#[derive(Debug, Clone, Copy)]
struct Equation {
    /// The first slot.
    start: u32,
    /// Which of the 128 slots from `start` on count; the first one always does.
    coefficients: u128,
    /// What their bits add up to, a bit a column.
    expected: u32,
}

impl Equation {
    #[inline(always)]
    fn of(hash: u64, seed: u32, starts: u32) -> Self {
        let hash = (hash ^ u64::from(seed)).wrapping_mul(HASH_FACTOR);
        let start = ((u128::from(hash) * u128::from(starts)) >> 64) as u32;
        let row = hash.wrapping_mul(ROW_FACTOR);
        let coefficients = (u128::from(row) << 64 | u128::from(row)) ^ u128::from(ROW_XOR) | 1;
        Self { start, coefficients, expected: row.swap_bytes() as u32 }
    }
}

/// The number that a stored seed stands for: near seeds give unrelated ones.
#[inline]
fn spread_seed(seed: u8) -> u32 {
    let spread = u64::from(seed).wrapping_mul(SEED_FACTOR);
    (spread ^ (spread & 0xf0f0_f0f0_f0f0_f0f0) >> 4) as u32
}

/// The first slots that an equation may have: its last slot lies within the last block.
#[inline]
const fn starts_of(blocks: u32) -> u32 {
    SLOTS_PER_BLOCK * blocks - (SLOTS_PER_BLOCK - 1)
}

/// How a filter is laid out: small enough to keep beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RibbonShape {
    seed: u32,
    blocks: u32,
    /// Columns of every block but the first `shorter`, which have one less. At most 32.
    columns: u32,
    shorter: u32,
}

impl RibbonShape {
    /// The shape of a filter of `len` bytes, its trailer not counted, with the `seed` and the number of `blocks` that the trailer states;
    /// `None` if there is no such filter.
    pub fn new(len: usize, seed: u8, blocks: u32) -> Option<Self> {
        let segments = u64::try_from(len / SEGMENT_LEN).ok()?;
        if !(2..1 << 24).contains(&blocks) || !len.is_multiple_of(SEGMENT_LEN) {
            return None;
        }
        let columns = segments.div_ceil(u64::from(blocks));
        if columns > u64::from(MAX_COLUMNS) {
            return None;
        }
        let shorter = (columns * u64::from(blocks) - segments) as u32;
        Some(Self { seed: spread_seed(seed), blocks, columns: columns as u32, shorter })
    }

    /// Where the segments of a block begin, and how many there are.
    #[inline(always)]
    fn block(&self, block: u32) -> (usize, u32) {
        let first = u64::from(block) * u64::from(self.columns) - u64::from(block.min(self.shorter));
        (first as usize * SEGMENT_LEN, self.columns - u32::from(block < self.shorter))
    }

    /// Whether the filter may have the key whose [`xxph3`](crate::checksum::xxph3) hash is `hash`. `filter` must be what the shape was made for:
    /// of a shorter one the answer is "yes".
    #[inline]
    pub fn may_match(&self, filter: &[u8], hash: u64) -> bool {
        let equation = Equation::of(hash, self.seed, starts_of(self.blocks));
        let (block, shift) = (equation.start / SLOTS_PER_BLOCK, equation.start % SLOTS_PER_BLOCK);
        let (at, columns) = self.block(block);
        let stride = columns as usize * SEGMENT_LEN;
        let left = equation.coefficients << shift;
        // Within the last block every equation begins at its first slot: what lies behind is not read.
        let right = equation.coefficients.checked_shr(SLOTS_PER_BLOCK - shift).unwrap_or(0);
        for column in 0..columns {
            let at = at + column as usize * SEGMENT_LEN;
            let Some(mut sum) = segment(filter, at).map(|bits| bits & left) else { return true };
            if shift != 0 {
                let Some(bits) = segment(filter, at + stride) else { return true };
                sum ^= bits & right;
            }
            if sum.count_ones() & 1 != equation.expected >> column & 1 {
                return false;
            }
        }
        true
    }
}

#[inline(always)]
fn segment(filter: &[u8], at: usize) -> Option<u128> {
    filter.get(at..)?.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
