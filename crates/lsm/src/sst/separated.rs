//! Data blocks that RocksDB 11 stores with the values apart from the keys. They are made over into the ordinary layout when they
//! are read.
//!
//! ```text
//! block = key entry* || value* || restart offsets: fixed32[R] || [hash index] || fixed32 values offset || fixed32 R and bits
//! key entry = varint32 shared, varint32 non_shared, varint32 value_len, [varint32 value offset, at restart points], key tail
//! ```

use super::block::{Layout, SEPARATED_BIT};
use siltstone_base::coding::{decode_varint32, put_fixed32, put_varint32};
use siltstone_base::{Error, Result};

/// Whether the block `data` has its values apart.
#[inline]
pub(crate) fn is_separated(data: &[u8]) -> bool {
    data.last_chunk::<4>().is_some_and(|word| u32::from_le_bytes(*word) & SEPARATED_BIT != 0)
}

/// The block `data` in the ordinary layout, without its hash index.
pub(crate) fn joined(data: &[u8]) -> Result<Vec<u8>> {
    let corrupt = || Error::corrupt("bad block with separated keys and values");
    let (rest, word) = data.split_last_chunk::<4>().ok_or_else(corrupt)?;
    let (rest, values_start) = rest.split_last_chunk::<4>().ok_or_else(corrupt)?;
    let word = u32::from_le_bytes(*word) & !SEPARATED_BIT;
    let values_start = u32::from_le_bytes(*values_start) as usize;
    // The same block without what is special about its end.
    let mut plain = rest.to_vec();
    put_fixed32(&mut plain, word);
    let layout = Layout::of(&plain)?;
    let values_end = layout.entries_len as usize;
    if values_start > values_end {
        return Err(corrupt());
    }
    let num_restarts = layout.num_restarts as usize;
    let restart = |index: usize| {
        let word = plain.get(values_end + 4 * index..).and_then(|bytes| bytes.first_chunk());
        word.map(|word| u32::from_le_bytes(*word) as usize)
    };
    let keys = &plain[..values_start];
    let mut out = Vec::with_capacity(values_end + 4 * num_restarts + 4);
    let mut restarts: Vec<u32> = Vec::new();
    let (mut at, mut value_at) = (0, values_start);
    while at < keys.len() {
        let is_restart = restarts.len() < num_restarts && restart(restarts.len()) == Some(at);
        let mut take = || {
            let (value, len) = decode_varint32(keys.get(at..)?)?;
            at += len;
            Some(value as usize)
        };
        let (shared, non_shared) = (take().ok_or_else(corrupt)?, take().ok_or_else(corrupt)?);
        let value_len = take().ok_or_else(corrupt)?;
        if is_restart {
            // Values follow each other, so the offset says nothing new.
            let offset = take().ok_or_else(corrupt)?;
            if values_start.checked_add(offset) != Some(value_at) {
                return Err(corrupt());
            }
            restarts.push(u32::try_from(out.len()).map_err(|_| corrupt())?);
        }
        let tail = at.checked_add(non_shared).and_then(|end| keys.get(at..end)).ok_or_else(corrupt)?;
        let value_end = value_at.checked_add(value_len).filter(|end| *end <= values_end).ok_or_else(corrupt)?;
        put_varint32(&mut out, shared as u32);
        put_varint32(&mut out, non_shared as u32);
        put_varint32(&mut out, value_len as u32);
        out.extend_from_slice(tail);
        out.extend_from_slice(&plain[value_at..value_end]);
        at += non_shared;
        value_at = value_end;
    }
    if restarts.len() != num_restarts && !keys.is_empty() {
        return Err(corrupt());
    }
    // An empty block has one too.
    if restarts.is_empty() {
        restarts.push(0);
    }
    for restart in &restarts {
        put_fixed32(&mut out, *restart);
    }
    put_fixed32(&mut out, restarts.len() as u32);
    Ok(out)
}
