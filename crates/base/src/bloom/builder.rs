//! Writing a filter block.

use super::{LINE_LEN, MAX_PROBES, POWERS, TRAILER_LEN, line_of};

/// Below this no filter is worth its bytes: what is written always matches.
const MIN_MILLIBITS: u32 = 500;

/// The most lines of a filter: its length stays below 2^32.
const MAX_LINES: u64 = (u32::MAX / LINE_LEN as u32) as u64;

/// Keys that are taken in between two questions whether time is over: a fraction of a millisecond.
const KEYS_PER_PIECE: usize = 8192;

/// A filter block that is built in pieces.
#[derive(Debug)]
pub struct BloomBuild {
    block: Vec<u8>,
    lines: u32,
    probes: usize,
    /// The keys before this one are in it.
    next: usize,
}

impl BloomBuild {
    /// The block, once [`BloomBuilder::step`] says that it is done.
    pub fn into_block(self) -> Vec<u8> {
        self.block
    }
}

/// Collects the hashes of the keys of a table, and writes a filter for exactly as many.
#[derive(Debug)]
pub struct BloomBuilder {
    millibits: u32,
    hashes: Vec<u64>,
}

impl BloomBuilder {
    /// A filter of `millibits` thousandths of a bit per key (10,000: about 1 % of false answers), between 1 and 100 bits.
    pub const fn new(millibits: u32) -> Self {
        Self { millibits, hashes: Vec::new() }
    }

    /// Adds the [`xxph3`](crate::checksum::xxph3) hash of a key, unless it is the one added last.
    #[inline]
    pub fn add_hash(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// The number of keys, adjacent duplicates counted once.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The hashes that were added, adjacent duplicates once.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Forgets all keys; the memory is kept.
    pub fn clear(&mut self) {
        self.hashes.clear();
    }

    /// The bytes of memory held.
    pub fn memory_usage(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }

    /// The length of the block that [`finish`](Self::finish) would return.
    pub fn finished_len(&self) -> usize {
        match self.hashes.len() {
            0 => 0,
            _ if self.millibits < MIN_MILLIBITS => 1 + TRAILER_LEN,
            keys => lines_for(keys, self.clamped()) as usize * LINE_LEN + TRAILER_LEN,
        }
    }

    /// The filter block: the bits and their trailer. No keys make an empty one, which never matches.
    pub fn finish(mut self) -> Vec<u8> {
        self.finish_and_reset()
    }

    /// The same, leaving a builder without keys that keeps its memory: for filters cut into partitions.
    pub fn finish_and_reset(&mut self) -> Vec<u8> {
        let mut build = self.begin();
        while !self.step(&mut build, &mut || false) {}
        self.hashes.clear();
        build.block
    }

    /// Begins the filter of the keys so far, for building it in pieces.
    pub fn begin(&self) -> BloomBuild {
        let keys = self.hashes.len();
        if keys == 0 || self.millibits < MIN_MILLIBITS {
            // Nothing, or a filter that always matches.
            let block = if keys == 0 { Vec::new() } else { vec![0; 1 + TRAILER_LEN] };
            return BloomBuild { block, lines: 0, probes: 0, next: keys };
        }
        let lines = lines_for(keys, self.clamped());
        let probes = probes_for(self.clamped());
        let mut block = vec![0; lines as usize * LINE_LEN + TRAILER_LEN];
        let (_, trailer) = block.split_at_mut(lines as usize * LINE_LEN);
        trailer.copy_from_slice(&[0xff, 0, probes as u8, 0, 0]);
        BloomBuild { block, lines, probes, next: 0 }
    }

    /// Works on a filter until `is_over`, which is asked after each piece; returns whether it is done. No key comes between.
    pub fn step(&self, build: &mut BloomBuild, is_over: &mut dyn FnMut() -> bool) -> bool {
        let (bits, _) = build.block.split_at_mut(build.lines as usize * LINE_LEN);
        let (bits, _) = bits.as_chunks_mut::<LINE_LEN>();
        for piece in self.hashes[build.next.min(self.hashes.len())..].chunks(KEYS_PER_PIECE) {
            for &hash in piece {
                set_bits(&mut bits[line_of(hash, build.lines)], build.probes, hash);
            }
            build.next += piece.len();
            if build.next < self.hashes.len() && is_over() {
                return false;
            }
        }
        true
    }

    fn clamped(&self) -> u32 {
        self.millibits.clamp(1000, 100_000)
    }
}

#[inline]
fn set_bits(line: &mut [u8; LINE_LEN], probes: usize, hash: u64) {
    let high = (hash >> 32) as u32;
    for power in &POWERS[..probes.min(MAX_PROBES)] {
        let bit = high.wrapping_mul(*power) >> 23;
        line[(bit >> 3) as usize] |= 1 << (bit & 7);
    }
}

fn lines_for(keys: usize, millibits: u32) -> u32 {
    let bytes = (keys as u64).saturating_mul(u64::from(millibits)).div_ceil(8000);
    bytes.div_ceil(LINE_LEN as u64).clamp(1, MAX_LINES) as u32
}

/// How often a filter of `millibits` thousandths of a bit per key answers wrongly, as RocksDB estimates it: lines are fuller and
/// emptier than the average by a standard deviation.
pub fn false_rate(millibits: u32) -> f64 {
    let millibits = millibits.clamp(1000, 100_000);
    let probes = probes_for(millibits) as f64;
    let bits_per_line = LINE_LEN as f64 * 8.0;
    let keys_per_line = bits_per_line / (f64::from(millibits) / 1000.0);
    let rate_with = |keys: f64| (1.0 - (-probes * keys / bits_per_line).exp()).powf(probes);
    let deviation = keys_per_line.sqrt();
    f64::midpoint(rate_with(keys_per_line + deviation), rate_with(keys_per_line - deviation))
}

/// The probes that RocksDB makes at so many millibits per key.
pub(super) fn probes_for(millibits: u32) -> usize {
    const UP_TO: [u32; 12] = [2080, 3580, 5100, 6640, 8300, 10_070, 11_720, 14_001, 16_050, 18_300, 22_001, 25_501];
    match millibits {
        50_001.. => 24,
        25_502.. => (millibits as usize - 1) / 2000 - 1,
        _ => UP_TO.partition_point(|most| *most < millibits) + 1,
    }
}
