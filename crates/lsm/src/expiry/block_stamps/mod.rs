//! Until when the data blocks of a table have rows that live: for reads that pass by blocks of expired rows.
//!
//! Consecutive blocks are told of together, as a *stretch* of the file, by the latest stamp in any of them. It is a hint, which errs to one side: a stretch that counts as expired is. A
//! table without it, or with one of another policy, or that does not fit the table, is read as if all of its rows lived.
//!
//! What must be read counts as *kept*, and is never passed by:
//!
//! 1. a block with anything but values that have stamps: rows without, tombstones, operands;
//! 2. a block with rows of several groups, which may live for different times;
//! 3. a block whose last user key goes on in the next one: the version in it may hide an older one there, which may have a later stamp.
//!
//! That nothing older lies beneath a table, so that passing by its blocks brings nothing back, is for the version to say.

mod builder;
#[cfg(test)]
mod tests;

pub(crate) use builder::BlockStampsBuilder;

use siltstone_base::coding::{
    get_length_prefixed, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64, zigzag_decode64,
    zigzag_encode64,
};
use siltstone_base::expiry::Stamp;
use std::ops::Range;

/// The property of a table that holds the latest stamps of its data blocks.
pub(crate) const BLOCK_STAMPS_PROPERTY: &str = "siltstone.block.stamps";

/// Most stretches of a table: a few KiB of the property.
pub(super) const MAX_STRETCHES: usize = 512;

/// The form of the property.
const FORM: u32 = 1;

/// Consecutive data blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    /// Offset in the file behind the last of them.
    end: u64,
    /// The latest stamp in them; `None` if they are kept.
    latest: Option<Stamp>,
}

/// The latest stamps of the data blocks of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockStamps {
    /// The name of the policy that told them.
    policy: String,
    /// How many data blocks there are.
    blocks: u64,
    /// Ascending, from the front of the file to the end of its data blocks; at least one.
    stretches: Vec<Stretch>,
}

impl BlockStamps {
    /// The name of the policy that told the stamps.
    pub(crate) fn policy(&self) -> &str {
        &self.policy
    }

    /// Whether they may be those of a table with so many data blocks, which end at `end`.
    pub(crate) fn fits(&self, blocks: u64, end: u64) -> bool {
        self.blocks == blocks && self.stretches.last().is_some_and(|last| last.end == end)
    }

    /// The bytes of the file that are told of together with the one at `offset`, and the latest stamp in them; `None` if they are kept, or nothing is known.
    pub(crate) fn around(&self, offset: u64) -> (Range<u64>, Option<Stamp>) {
        let index = self.stretches.partition_point(|stretch| stretch.end <= offset);
        let start = index.checked_sub(1).and_then(|before| self.stretches.get(before)).map_or(0, |before| before.end);
        match self.stretches.get(index) {
            Some(stretch) => (start..stretch.end, stretch.latest),
            None => (start..u64::MAX, None),
        }
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.policy.capacity() + self.stretches.capacity() * size_of::<Stretch>()
    }

    /// The property.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint32(&mut out, FORM);
        put_length_prefixed(&mut out, self.policy.as_bytes());
        put_varint64(&mut out, self.blocks);
        put_varint64(&mut out, self.stretches.len() as u64);
        let (mut end, mut seconds) = (0, 0_u64);
        for stretch in &self.stretches {
            put_varint64(&mut out, stretch.end - end);
            end = stretch.end;
            let Some(latest) = stretch.latest else {
                put_varint64(&mut out, 0);
                continue;
            };
            put_varint64(&mut out, u64::from(latest.group) + 1);
            put_varint64(&mut out, zigzag_encode64(latest.seconds.wrapping_sub(seconds) as i64));
            seconds = latest.seconds;
        }
        out
    }

    /// What was encoded; `None` for anything else.
    pub(crate) fn decode(mut input: &[u8]) -> Option<Self> {
        let input = &mut input;
        if get_varint32(input)? != FORM {
            return None;
        }
        let policy = std::str::from_utf8(get_length_prefixed(input)?).ok()?.to_owned();
        let blocks = get_varint64(input)?;
        let count = usize::try_from(get_varint64(input)?).ok()?;
        if !(1..=MAX_STRETCHES).contains(&count) {
            return None;
        }
        let mut stretches = Vec::with_capacity(count);
        let (mut end, mut seconds) = (0_u64, 0_u64);
        for _ in 0..count {
            let len = get_varint64(input).filter(|len| *len > 0)?;
            end = end.checked_add(len)?;
            let latest = match get_varint64(input)?.checked_sub(1) {
                None => None,
                Some(group) => {
                    seconds = seconds.wrapping_add(zigzag_decode64(get_varint64(input)?) as u64);
                    Some(Stamp { group: u32::try_from(group).ok()?, seconds })
                }
            };
            stretches.push(Stretch { end, latest });
        }
        input.is_empty().then_some(Self { policy, blocks, stretches })
    }
}
