//! Writing a ribbon filter.
//!
//! Steps: for each key its equation is brought into row echelon form (*banding*): an equation takes the slot of its first
//! coefficient, and if another one has it, their sum goes on to its own first coefficient. When a sum has no coefficients left
//! but expects something, the equations contradict each other, and all begins anew with another seed. Then the slots are solved
//! from the last to the first, a block at a time.

use super::{Equation, MAX_COLUMNS, SEGMENT_LEN, SLOTS_PER_BLOCK, spread_seed, starts_of};

/// The most keys of a filter.
const MAX_KEYS: usize = 950_000_000;

/// Keys that are taken in, and blocks that are solved, between two questions whether time is over: a fraction of a millisecond.
const KEYS_PER_PIECE: usize = 4096;
const BLOCKS_PER_PIECE: usize = 128;

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
    match RibbonBuild::new(hashes, one_in)?.step(hashes, &mut || false) {
        RibbonProgress::Done(filter) => Some(filter),
        RibbonProgress::More | RibbonProgress::Impossible => None,
    }
}

/// How far a filter is that is built in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RibbonProgress {
    /// Time was over; another step is needed.
    More,
    /// It is there.
    Done(RibbonBytes),
    /// There is no seed with which the equations can be solved.
    Impossible,
}

/// Builds a filter in pieces, so that other work is done between them.
#[derive(Debug)]
pub struct RibbonBuild {
    banding: Banding,
    segments: usize,
    first_seed: u8,
    attempt: u32,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The keys before this one are taken in.
    Banding(usize),
    Solving(Box<Solution>),
}

impl RibbonBuild {
    /// Begins a filter of the keys of `hashes` that answers wrongly once in `one_in`. `None` if there are no keys, or too many.
    pub fn new(hashes: &[u64], one_in: f64) -> Option<Self> {
        let first = *hashes.first()?;
        if hashes.len() > MAX_KEYS {
            return None;
        }
        let blocks = blocks_for(hashes.len());
        // The seed is part of the hash of the first key: filters of different tables err on different keys.
        Some(Self {
            banding: Banding::new(blocks),
            segments: segments_for(blocks, one_in),
            first_seed: first as u8,
            attempt: 0,
            stage: Stage::Banding(0),
        })
    }

    /// Works until `is_over`, which is asked after each piece. `hashes` are those that it began with.
    pub fn step(&mut self, hashes: &[u64], is_over: &mut dyn FnMut() -> bool) -> RibbonProgress {
        loop {
            let seed = self.first_seed.wrapping_add(self.attempt as u8);
            match &mut self.stage {
                Stage::Banding(next) => {
                    let rest = hashes.get(*next..).unwrap_or_default();
                    let piece = &rest[..rest.len().min(KEYS_PER_PIECE)];
                    if piece.is_empty() {
                        self.stage = Stage::Solving(Box::new(Solution::new(self.banding.blocks, self.segments)));
                    } else if self.banding.add_all(piece, spread_seed(seed)) {
                        *next += piece.len();
                    } else {
                        self.attempt += 1;
                        if self.attempt == SEEDS {
                            return RibbonProgress::Impossible;
                        }
                        self.banding.clear();
                        *next = 0;
                    }
                }
                Stage::Solving(solution) => {
                    if self.banding.solve(solution, BLOCKS_PER_PIECE) {
                        let segments = std::mem::take(&mut solution.bytes);
                        return RibbonProgress::Done(RibbonBytes { segments, seed, blocks: self.banding.blocks });
                    }
                }
            }
            if is_over() {
                return RibbonProgress::More;
            }
        }
    }
}

/// A solution, from the last block to the first.
#[derive(Debug)]
struct Solution {
    bytes: Vec<u8>,
    /// The 128 slots from the current one on, a word a column.
    window: [u128; MAX_COLUMNS as usize],
    columns: usize,
    /// Blocks that have one column less.
    shorter: usize,
    /// Blocks that are not solved.
    blocks_left: usize,
    /// Where their segments end.
    end: usize,
}

impl Solution {
    fn new(blocks: u32, segments: usize) -> Self {
        let blocks = blocks as usize;
        let columns = segments.div_ceil(blocks);
        let bytes = vec![0; segments * SEGMENT_LEN];
        Self {
            end: bytes.len(),
            bytes,
            window: [0; MAX_COLUMNS as usize],
            columns,
            shorter: columns * blocks - segments,
            blocks_left: blocks,
        }
    }
}

/// Equations in row echelon form: that of a slot has its first coefficient there.
#[derive(Debug)]
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

    /// Solves up to `limit` blocks; returns whether none is left.
    fn solve(&self, solution: &mut Solution, limit: usize) -> bool {
        let columns = solution.columns;
        let window = &mut solution.window[..columns];
        let first = solution.blocks_left.saturating_sub(limit);
        for block in (first..solution.blocks_left).rev() {
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
            let stored = columns - usize::from(block < solution.shorter);
            let (start, end) = (solution.end - stored * SEGMENT_LEN, solution.end);
            let (into, _) = solution.bytes[start..end].as_chunks_mut::<SEGMENT_LEN>();
            for (segment, bits) in into.iter_mut().zip(&*window) {
                *segment = bits.to_le_bytes();
            }
            solution.end = start;
        }
        solution.blocks_left = first;
        first == 0
    }
}
