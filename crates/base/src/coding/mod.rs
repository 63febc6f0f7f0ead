//! Fixed and variable length integers and length-prefixed byte strings, little-endian, as RocksDB's files store them.
//!
//! Writers append to a `Vec<u8>`. Readers take bytes from the front of a slice and advance it; on `None` the bytes were
//! truncated or out of range, and the slice is left where it was.

/// The longest varint of 32 bits, in bytes.
pub const MAX_VARINT32_LEN: usize = 5;

/// The longest varint of 64 bits, in bytes.
pub const MAX_VARINT64_LEN: usize = 10;

macro_rules! fixed {
    ($put:ident, $get:ident, $type:ty, $bits:literal) => {
        #[doc = concat!("Appends `value` as ", $bits, " bits, little-endian.")]
        #[inline]
        pub fn $put(out: &mut Vec<u8>, value: $type) {
            out.extend_from_slice(&value.to_le_bytes());
        }

        #[doc = concat!("Takes an unsigned integer of ", $bits, " bits, little-endian.")]
        #[inline]
        pub fn $get(input: &mut &[u8]) -> Option<$type> {
            let (head, rest) = input.split_first_chunk()?;
            *input = rest;
            Some(<$type>::from_le_bytes(*head))
        }
    };
}

fixed!(put_fixed16, get_fixed16, u16, "16");
fixed!(put_fixed32, get_fixed32, u32, "32");
fixed!(put_fixed64, get_fixed64, u64, "64");

/// Appends `value` as a varint of 1 to 5 bytes.
#[inline]
pub fn put_varint32(out: &mut Vec<u8>, value: u32) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        put_varint_long(out, u64::from(value));
    }
}

/// Appends `value` as a varint of 1 to 10 bytes.
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        put_varint_long(out, value);
    }
}

fn put_varint_long(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; MAX_VARINT64_LEN];
    let len = write_varint64(&mut bytes, value);
    out.extend_from_slice(&bytes[..len]);
}

/// Writes `value` as a varint to the front of `bytes`; returns its length.
#[inline]
pub fn write_varint64(bytes: &mut [u8; MAX_VARINT64_LEN], mut value: u64) -> usize {
    let mut len = 0;
    while value >= 0x80 {
        bytes[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    bytes[len] = value as u8;
    len + 1
}

/// The bytes that `value` takes as a varint.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    // ceil(bits / 7) without a division, for 1 to 64 significant bits (0 counts as 1).
    ((63 - (value | 1).leading_zeros()) as usize * 9 + 73) / 64
}

/// Takes a varint of at most 5 bytes and 32 bits.
#[inline]
pub fn get_varint32(input: &mut &[u8]) -> Option<u32> {
    let (value, len) = decode_varint32(input)?;
    *input = &input[len..];
    Some(value)
}

/// Takes a varint of at most 10 bytes and 64 bits.
#[inline]
pub fn get_varint64(input: &mut &[u8]) -> Option<u64> {
    let (value, len) = decode_varint64(input)?;
    *input = &input[len..];
    Some(value)
}

/// Reads a varint of at most 5 bytes and 32 bits from the front of `input`: the value and its length.
#[inline(always)]
pub fn decode_varint32(input: &[u8]) -> Option<(u32, usize)> {
    match input.first() {
        Some(&byte) if byte < 0x80 => Some((u32::from(byte), 1)),
        _ => decode_varint32_long(input),
    }
}

#[inline(never)]
fn decode_varint32_long(input: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0;
    for (index, &byte) in input.iter().take(MAX_VARINT32_LEN).enumerate() {
        if index == MAX_VARINT32_LEN - 1 && byte > 0x0f {
            return None;
        }
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Reads a varint of at most 10 bytes and 64 bits from the front of `input`: the value and its length.
#[inline(always)]
pub fn decode_varint64(input: &[u8]) -> Option<(u64, usize)> {
    match input.first() {
        Some(&byte) if byte < 0x80 => Some((u64::from(byte), 1)),
        _ => decode_varint64_long(input),
    }
}

#[inline(never)]
fn decode_varint64_long(input: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in input.iter().take(MAX_VARINT64_LEN).enumerate() {
        if index == MAX_VARINT64_LEN - 1 && byte > 0x01 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Appends the length of `bytes` as a varint of 32 bits, then `bytes`, which must be shorter than 4 GiB.
#[inline]
pub fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(u32::try_from(bytes.len()).is_ok(), "shorter than 4 GiB");
    put_varint64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes a byte string that its length, a varint of 32 bits, precedes.
#[inline]
pub fn get_length_prefixed<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, prefix) = decode_varint32(input)?;
    let (bytes, rest) = input.get(prefix..)?.split_at_checked(len as usize)?;
    *input = rest;
    Some(bytes)
}

/// Maps small numbers of either sign to small unsigned ones: 0, -1, 1, -2 to 0, 1, 2, 3.
#[inline]
pub const fn zigzag_encode64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag_encode64`].
#[inline]
pub const fn zigzag_decode64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests;
