//! The hash index of a data block: for a user key the restart interval that has it, so that a point read bisects nothing.
//!
//! ```text
//! hash index = u8 bucket[n] || fixed16 n, behind the restart points
//! bucket[hash32(user key, 397) mod n] = number of a restart point up to 253, 254: several, 255: none
//! ```

use super::block::MAX_HASH_INDEX_BLOCK_LEN;
use siltstone_base::checksum::hash32;

/// Seed of the hash.
const SEED: u32 = 397;
/// A bucket that no key of the block hashes to.
const EMPTY: u8 = 255;
/// A bucket of keys in several restart intervals.
const COLLISION: u8 = 254;
/// The last restart point that a bucket can name.
const MAX_RESTART: usize = 253;

/// What the hash index of a block says of a user key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HashBucket {
    /// No entry of the block has it.
    Absent,
    /// Nothing: search the block.
    Collision,
    /// All entries that may have it are in this restart interval.
    Restart(usize),
}

/// Looks `user_key` up in the buckets of a block; there is at least one.
#[inline]
pub(crate) fn look_up(buckets: &[u8], user_key: &[u8]) -> HashBucket {
    let at = hash32(user_key, SEED) as usize % buckets.len().max(1);
    match buckets.get(at) {
        Some(&EMPTY) => HashBucket::Absent,
        Some(&COLLISION) | None => HashBucket::Collision,
        Some(&restart) => HashBucket::Restart(usize::from(restart)),
    }
}

/// Gathers the hash index of a block while it is built.
#[derive(Debug)]
pub(crate) struct BlockHashBuilder {
    /// Hash of each distinct user key in each restart interval, and the interval.
    keys: Vec<(u32, u8)>,
    util_ratio: f64,
    /// Whether a restart point was too large for a bucket.
    overflowed: bool,
}

impl BlockHashBuilder {
    /// For blocks with `util_ratio` keys a bucket.
    pub(crate) fn new(util_ratio: f64) -> Self {
        Self { keys: Vec::new(), util_ratio, overflowed: false }
    }

    /// Adds a user key of restart interval `restart`.
    pub(crate) fn add(&mut self, user_key: &[u8], restart: usize) {
        if restart > MAX_RESTART {
            self.overflowed = true;
            return;
        }
        let key = (hash32(user_key, SEED), restart as u8);
        if self.keys.last() != Some(&key) {
            self.keys.push(key);
        }
    }

    fn num_buckets(&self) -> usize {
        let wanted = (self.keys.len() as f64 / self.util_ratio) as usize;
        // Odd, so that it shares no factor with patterns of hashes.
        wanted.min(usize::from(u16::MAX)) | 1
    }

    /// Bytes that the hash index would take now.
    pub(crate) fn len(&self) -> usize {
        if self.overflowed { 0 } else { self.num_buckets() + 2 }
    }

    /// Appends the hash index to `block`, which ends with its restart points, unless the block has too many of them or would
    /// become too long; whether it did.
    pub(crate) fn finish(&self, block: &mut Vec<u8>) -> bool {
        if self.overflowed || block.len() + self.len() + 4 > MAX_HASH_INDEX_BLOCK_LEN {
            return false;
        }
        let (start, buckets) = (block.len(), self.num_buckets());
        block.resize(start + buckets, EMPTY);
        for (hash, restart) in &self.keys {
            let bucket = &mut block[start + *hash as usize % buckets];
            *bucket = if *bucket == EMPTY || *bucket == *restart { *restart } else { COLLISION };
        }
        block.extend_from_slice(&(buckets as u16).to_le_bytes());
        true
    }

    /// Begins the next block.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.overflowed = false;
    }
}
