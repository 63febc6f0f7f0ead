//! A filter that grows fuller while it is read: for memtables.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The probes of one cache line, on lines of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// Words of a line that a key touches; in each it sets two bits.
const WORDS_PER_KEY: u32 = 3;

/// A bloom filter of fixed size: any number of threads add and ask at the same time.
///
/// Ordering: all accesses are relaxed. A reader that knows of a key by a synchronising access (the published
/// sequence number, the link in the skip list) sees its bits too, because the writer set them before it published.
#[derive(Debug)]
pub struct DynamicBloom {
    lines: Box<[Line]>,
}

impl DynamicBloom {
    /// A filter of `bits`, rounded up to whole cache lines, at least one.
    pub fn new(bits: usize) -> Self {
        Self { lines: (0..bits.div_ceil(512).max(1)).map(|_| Line::default()).collect() }
    }

    /// The bytes of memory held.
    pub fn memory_usage(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// Adds the hash of a key.
    #[inline]
    pub fn add(&self, hash: u64) {
        let line = self.line(hash);
        for (index, mask) in Self::probes(hash) {
            let word = &line.0[index];
            // Frequent keys are there already: a load does not take the line from other processors.
            if word.load(Ordering::Relaxed) & mask != mask {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// Whether the key of `hash` may have been added.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let line = self.line(hash);
        let mut missing = 0;
        for (index, mask) in Self::probes(hash) {
            missing |= !line.0[index].load(Ordering::Relaxed) & mask;
        }
        missing == 0
    }

    #[inline(always)]
    fn line(&self, hash: u64) -> &Line {
        let index = (u128::from(hash) * self.lines.len() as u128) >> 64;
        &self.lines[index as usize]
    }

    /// Words and masks: 15 bits of a remixed hash for each, so that they do not follow from the line.
    #[inline(always)]
    fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
        let mixed = hash.wrapping_mul(0x9e37_79b1_85eb_ca87).rotate_left(23);
        (0..WORDS_PER_KEY).map(move |probe| {
            let bits = mixed >> (15 * probe);
            let mask = 1 << (bits >> 3 & 63) | 1 << (bits >> 9 & 63);
            ((bits & 7) as usize, mask)
        })
    }
}
