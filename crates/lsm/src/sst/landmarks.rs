//! A few keys of a block, kept beside it: a search that starts with them touches fewer cache lines of the block.

use super::block::Block;
use super::block_builder::common_prefix;
use crate::key::TRAILER_LEN;
use std::cmp::Ordering;

/// How many restart points are kept.
const LANDMARKS: usize = 8;
/// Shared bytes that are kept.
const SHARED_LEN: usize = 24;

/// The heads of up to 8 restart keys of a block, evenly spread. For bytewise orders only.
///
/// A head is the 8 bytes behind what all restart keys share, big-endian, filled up with zeros: comparing two as
/// integers compares the keys, unless they are equal.
#[derive(Debug, Default)]
pub(crate) struct Landmarks {
    /// What all restart keys begin with, up to a length.
    shared: [u8; SHARED_LEN],
    shared_len: u8,
    /// Landmarks; 0: none.
    len: u8,
    /// Restart points from one landmark to the next.
    stride: u32,
    heads: [u64; LANDMARKS],
}

impl Landmarks {
    /// Takes the landmarks of `block`; none if it has a single restart point or is damaged.
    pub(crate) fn of(block: &Block) -> Self {
        Self::try_of(block).unwrap_or_default()
    }

    fn try_of(block: &Block) -> Option<Self> {
        let restarts = block.num_restarts();
        if restarts < 2 {
            return None;
        }
        let user_key = |index| {
            let key = block.restart_key(index)?;
            key.get(..key.len().checked_sub(TRAILER_LEN)?)
        };
        let first = user_key(0)?;
        let shared_len = common_prefix(first, user_key(restarts - 1)?).min(SHARED_LEN);
        let stride = restarts.div_ceil(LANDMARKS);
        let mut landmarks = Self { shared_len: shared_len as u8, stride: stride as u32, ..Self::default() };
        landmarks.shared[..shared_len].copy_from_slice(&first[..shared_len]);
        for index in (0..restarts).step_by(stride) {
            let key = user_key(index)?;
            // In a damaged block a key between the first and the last may be anything.
            landmarks.heads[usize::from(landmarks.len)] = head(key.get(shared_len..)?);
            landmarks.len += 1;
        }
        Some(landmarks)
    }

    /// The range of restart points, both included, that has the last one before `user_key` (or the first one, if there
    /// is none before it).
    #[inline]
    pub(crate) fn narrow(&self, block: &Block, user_key: &[u8]) -> (usize, usize) {
        let last = block.num_restarts() - 1;
        let len = usize::from(self.len);
        if len == 0 {
            return (0, last);
        }
        let shared = &self.shared[..usize::from(self.shared_len)];
        let Some((prefix, rest)) = user_key.split_at_checked(shared.len()) else {
            // A shorter key may come before or after all of them.
            return (0, last);
        };
        match prefix.cmp(shared) {
            Ordering::Less => return (0, 0),
            Ordering::Greater => return (last, last),
            Ordering::Equal => {}
        }
        let wanted = head(rest);
        let (mut before, mut not_behind) = (0, 0);
        for head in &self.heads[..len.min(LANDMARKS)] {
            before += usize::from(*head < wanted);
            not_behind += usize::from(*head <= wanted);
        }
        let stride = self.stride as usize;
        let low = before.saturating_sub(1) * stride;
        let high = if not_behind == len { last } else { (not_behind * stride).saturating_sub(1) };
        (low, high.max(low))
    }
}

/// The first 8 bytes as an integer whose order is that of the bytes, filled up with zeros.
#[inline]
pub(crate) fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(chunk)
        }
    }
}
