//! Values that compress to half.

use crate::Rng;

const PIECE: usize = 100;
const BUFFER: usize = 1 << 20;

/// A source of values, in the manner of db_bench: pieces of 100 bytes of which the second half repeats the first, cut at a
/// moving offset.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    bytes: Vec<u8>,
    at: usize,
    size: usize,
}

impl Values {
    /// A source of values of `size` bytes.
    pub(crate) fn new(size: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0x76616c);
        let total = BUFFER.max(size * 2);
        let mut bytes = Vec::with_capacity(total + PIECE);
        while bytes.len() < total {
            let half: [u8; PIECE / 2] = std::array::from_fn(|_| b' ' + rng.below(95) as u8);
            bytes.extend_from_slice(&half);
            bytes.extend_from_slice(&half);
        }
        Self { bytes, at: 0, size }
    }

    /// The next value.
    #[inline]
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.at + self.size > self.bytes.len() {
            self.at = 0;
        }
        let start = self.at;
        self.at += self.size;
        &self.bytes[start..start + self.size]
    }
}
