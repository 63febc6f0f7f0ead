//! Keys: how records are named, and which are popular.

use rand::rngs::StdRng;
use rand_distr::{Distribution, Zipf};
use siltstone_base::{Error, ErrorKind, Result};
use std::io::Write;

/// Zipf's exponent.
const EXPONENT: f64 = 0.99;

/// `user` and the 19 digits of a hash.
pub(super) const KEY_BYTES: usize = 23;

/// The hash of a number: FNV-1a over its eight bytes.
pub(super) fn scattered(number: u64) -> u64 {
    number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The key of record `number`, in place of the one before.
pub(super) fn encode_key(number: u64, key: &mut Vec<u8>) {
    key.clear();
    // To a vector nothing can fail. 63 bits have at most 19 digits.
    let _ = write!(key, "user{:019}", scattered(number) >> 1);
}

/// Draws records, the popular ones most often.
#[derive(Debug)]
pub(super) struct Popular {
    zipf: Zipf<f64>,
    records: u64,
}

impl Popular {
    /// Draws from `records` records, at least one.
    pub(super) fn new(records: u64) -> Result<Self> {
        let zipf = Zipf::new(records as f64, EXPONENT)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, "records of ycsb").with_source(error))?;
        Ok(Self { zipf, records })
    }

    /// A rank: 0 is the most popular.
    fn rank(&self, rng: &mut StdRng) -> u64 {
        // Ranks of the distribution begin with 1.
        (self.zipf.sample(rng) as u64).saturating_sub(1).min(self.records - 1)
    }

    /// A record; the popular ones lie anywhere.
    pub(super) fn anywhere(&self, rng: &mut StdRng) -> u64 {
        scattered(self.rank(rng)) % self.records
    }

    /// A record of those below `end`, which is at least 1; the newest, which is the one before `end`, is the most popular.
    pub(super) fn newest(&self, end: u64, rng: &mut StdRng) -> u64 {
        (end - 1).saturating_sub(self.rank(rng))
    }
}
