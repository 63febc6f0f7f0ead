//! Checksums and hashes of RocksDB's files.
//!
//! * [`crc32c()`], masked where it is stored beside what it covers: WAL, MANIFEST, blocks of kind 1.
//! * [`xxh32`], [`xxh64`], [`xxh3_64`]: blocks of kinds 2, 3 and 4. [`xxh3_128_with_seed`]: unique ids of files.
//! * [`xxph3`]: the hash of a key for filters. It is not XXH3.
//! * [`hash32`]: the hash of old filters.

mod xxph3;

pub use xxph3::xxph3;

/// CRC-32 with the Castagnoli polynomial.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    crc32c::crc32c(data)
}

/// The CRC of some bytes followed by `data`, given that of those bytes.
#[inline]
pub fn crc32c_append(crc: u32, data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, data)
}

const MASK_DELTA: u32 = 0xa282_ead8;

/// The form in which a CRC is stored, so that the CRC of bytes that contain CRCs stays strong.
#[inline]
pub const fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The inverse of [`mask_crc`].
#[inline]
pub const fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// XXH32.
#[inline]
pub fn xxh32(data: &[u8], seed: u32) -> u32 {
    xxhash_rust::xxh32::xxh32(data, seed)
}

/// XXH64.
#[inline]
pub fn xxh64(data: &[u8], seed: u64) -> u64 {
    xxhash_rust::xxh64::xxh64(data, seed)
}

/// XXH3 of 64 bits as released in xxHash 0.8, seed 0.
#[inline]
pub fn xxh3_64(data: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(data)
}

/// XXH3 of 128 bits as released in xxHash 0.8.
#[inline]
pub fn xxh3_128_with_seed(data: &[u8], seed: u64) -> u128 {
    xxhash_rust::xxh3::xxh3_128_with_seed(data, seed)
}

/// The hash of filters before format version 5: LevelDB's, which reads the last one to three bytes as signed.
pub fn hash32(data: &[u8], seed: u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    let mut hash = seed ^ (data.len() as u32).wrapping_mul(M);
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(M);
        hash ^= hash >> 16;
    }
    if !tail.is_empty() {
        for (index, &byte) in tail.iter().enumerate() {
            hash = hash.wrapping_add((i32::from(byte as i8) as u32) << (8 * index));
        }
        hash = hash.wrapping_mul(M);
        hash ^= hash >> 24;
    }
    hash
}

#[cfg(test)]
mod tests;
