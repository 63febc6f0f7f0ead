//! What comes after damage: the difference between a torn tail and a hole in the log.

use super::BLOCK_LEN;
use super::chunks::Chunks;
use super::physical::is_record;
use siltstone_base::Result;

/// Which headers count as records of a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Valid {
    /// The number of the log, which recyclable headers must bear.
    pub(super) log_number: u64,
    /// Whether the log has recyclable headers, if that is known.
    pub(super) recyclable: Option<bool>,
}

/// Whether a record with a fitting checksum starts after `offset`: anywhere in the same block, or at the front of a later one, where
/// every block of a log starts one.
pub(super) fn record_follows(chunks: &mut Chunks, offset: u64, valid: Valid) -> Result<bool> {
    let block = chunks.rest_of_block(offset)?;
    if (1..block.len()).any(|from| is_record(&block[from..], valid)) {
        return Ok(true);
    }
    let mut next = next_block(offset);
    while next < chunks.len() {
        if is_record(chunks.rest_of_block(next)?, valid) {
            return Ok(true);
        }
        next = next_block(next);
    }
    Ok(false)
}

/// Whether the file has nothing but zeros from `offset` on.
pub(super) fn only_zeros_follow(chunks: &mut Chunks, mut offset: u64) -> Result<bool> {
    while offset < chunks.len() {
        if !is_zero(chunks.rest_of_block(offset)?) {
            return Ok(false);
        }
        offset = next_block(offset);
    }
    Ok(true)
}

/// Whether all bytes are zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The front of the block after that of `offset`.
pub(super) fn next_block(offset: u64) -> u64 {
    offset - offset % BLOCK_LEN as u64 + BLOCK_LEN as u64
}
