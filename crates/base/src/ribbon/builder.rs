//! Writing a ribbon filter.
//!
//! Steps: for each key its equation is brought into row echelon form (*banding*): an equation takes the slot of its first
//! coefficient, and if another one has it, their sum goes on to its own first coefficient. When a sum has no coefficients left
//! but expects something, the equations contradict each other, and all begins anew with another seed. Then the slots are solved
//! from the last to the first, a block at a time.

use super::{Equation, MAX_COLUMNS, SEGMENT_LEN, SLOTS_PER_BLOCK, spread_seed, starts_of};

/// The most keys of a filter.
const MAX_KEYS: usize = 950_000_000;

/// Seeds that fit into the trailer.
const SEEDS: u32 = 256;

/// How many slots there are for `keys`, as blocks: as few as let 19 of 20 seeds succeed. The more equations, the more room they need,
/// since each of them may contradict: measured from 2^12 to 2^20 keys, the same share more for each doubling.
fn blocks_for(keys: usize) -> u32 {
    let doublings = (keys.max(2) as f64).log2();
    let slots = keys as f64 * (0.97 + 0.0042 * doublings);
    ((slots / f64::from(SLOTS_PER_BLOCK)).ceil() as u32).max(2)
}

/// Columns of `blocks` blocks: how many segments there are for one wrong answer in `one_in`.
fn segments_for(blocks: u32, one_in: f64) -> usize {
    let most = blocks as usize * MAX_COLUMNS as usize;
    if !one_in.is_finite() || one_in >= (1_u64 << MAX_COLUMNS) as f64 {
        return most;
    }
    let columns = one_in.max(1.0).log2().floor();
    // With a share `longer` of blocks of one column more, the rates of both kinds average to the one asked for.
    let longer = 2.0 - (columns + 1.0).exp2() / one_in.max(1.0);
    let segments = f64::from(blocks) * columns + (f64::from(blocks) * longer).ceil();
    (segments as usize).clamp(1, most)
}

/// The length of the filter that [`build`] would write, without a trailer.
pub fn finished_len(keys: usize, one_in: f64) -> usize {
    segments_for(blocks_for(keys.min(MAX_KEYS)), one_in) * SEGMENT_LEN
}

/// A filter, without a trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RibbonBytes {
    /// The segments, with room behind them for a trailer.
    pub segments: Vec<u8>,
    /// The seed with which it is asked.
    pub seed: u8,
    /// How many blocks it has.
    pub blocks: u32,
}

/// A filter of the keys of `hashes` that answers wrongly once in `one_in`. `None` if there are no keys, too many, or no seed with which their equations can be solved.
pub fn build(hashes: &[u64], one_in: f64) -> Option<RibbonBytes> {
    let first = *hashes.first()?;
    if hashes.len() > MAX_KEYS {
        return None;
    }
    let blocks = blocks_for(hashes.len());
    let mut banding = Banding::new(blocks);
    // The seed is part of the hash of the first key: filters of different tables err on different keys.
    let seeds = (0..SEEDS).map(|step| (first as u32).wrapping_add(step) as u8);
    for seed in seeds {
        banding.clear();
        if banding.add_all(hashes, spread_seed(seed)) {
            let segments = banding.solve(segments_for(blocks, one_in));
            return Some(RibbonBytes { segments, seed, blocks });
        }
    }
    None
}

/// Equations in row echelon form: that of a slot has its first coefficient there.
pub(super) struct Banding {
    blocks: u32,
    /// 0: the slot is free.
    coefficients: Vec<u128>,
    expected: Vec<u32>,
}

impl Banding {
    pub(super) fn new(blocks: u32) -> Self {
        let slots = blocks as usize * SLOTS_PER_BLOCK as usize;
        Self { blocks, coefficients: vec![0; slots], expected: vec![0; slots] }
    }

    pub(super) fn clear(&mut self) {
        self.coefficients.fill(0);
        self.expected.fill(0);
    }

    pub(super) fn add_all(&mut self, hashes: &[u64], seed: u32) -> bool {
        let starts = starts_of(self.blocks);
        hashes.iter().all(|hash| self.add(Equation::of(*hash, seed, starts)))
    }

    /// Takes an equation in; false if it contradicts the others.
    #[inline]
    fn add(&mut self, equation: Equation) -> bool {
        let Equation { start, mut coefficients, mut expected } = equation;
        let mut slot = start as usize;
        loop {
            let taken = self.coefficients[slot];
            if taken == 0 {
                self.coefficients[slot] = coefficients;
                self.expected[slot] = expected;
                return true;
            }
            // Both have their first coefficient here: it cancels.
            coefficients ^= taken;
            expected ^= self.expected[slot];
            if coefficients == 0 {
                // The same equation twice, or a contradiction.
                return expected == 0;
            }
            let shift = coefficients.trailing_zeros();
            slot += shift as usize;
            coefficients >>= shift;
        }
    }

    /// The solution as `segments`.
    fn solve(&self, segments: usize) -> Vec<u8> {
        let blocks = self.blocks as usize;
        let columns = segments.div_ceil(blocks);
        let shorter = columns * blocks - segments;
        let mut bytes = vec![0; segments * SEGMENT_LEN];
        // The 128 slots from the current one on, a word a column.
        let mut window = [0_u128; MAX_COLUMNS as usize];
        let window = &mut window[..columns];
        let mut end = bytes.len();
        for block in (0..blocks).rev() {
            let slots = block * SLOTS_PER_BLOCK as usize..(block + 1) * SLOTS_PER_BLOCK as usize;
            for slot in slots.rev() {
                let (coefficients, expected) = (self.coefficients[slot], self.expected[slot]);
                for (column, bits) in window.iter_mut().enumerate() {
                    // The first coefficient is that of the bit which is sought.
                    let moved = *bits << 1;
                    let sum = (moved & coefficients).count_ones() ^ expected >> column;
                    *bits = moved | u128::from(sum & 1);
                }
            }
            let stored = columns - usize::from(block < shorter);
            let start = end - stored * SEGMENT_LEN;
            let (into, _) = bytes[start..end].as_chunks_mut::<SEGMENT_LEN>();
            for (segment, bits) in into.iter_mut().zip(&*window) {
                *segment = bits.to_le_bytes();
            }
            end = start;
        }
        bytes
    }
}
