//! Keys whose bytes sort as their values do: the form of primary and index keys.
//!
//! Follows MyRocks: integers are big-endian with the sign bit flipped, floating-point numbers in their total order, decimals and
//! dates in MySQL's own sortable forms, byte strings in groups of eight with a marker, and a byte in front of what may be NULL. No encoding is a proper prefix of
//! another of the same type, so that columns can follow one another. Descending columns have every byte inverted.
//!
//! Writers append to a `Vec<u8>` and allocate nothing else. Readers take from the front of a slice; an error is of kind
//! [`Corruption`](crate::ErrorKind::Corruption) and leaves the slice anywhere.

mod dates;
mod decimal;
mod fixed;

pub use dates::{Date, DateTime, get_date, get_datetime, put_date, put_datetime};
pub use decimal::{DecimalType, get_decimal, put_decimal};
pub use fixed::FixedKey;

use crate::{Error, Result};

/// The direction in which a column sorts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Small values first.
    #[default]
    Ascending,
    /// Large values first.
    Descending,
}

impl Direction {
    /// What every byte is xored with.
    #[inline(always)]
    const fn mask(self) -> u8 {
        match self {
            Self::Ascending => 0,
            Self::Descending => 0xff,
        }
    }
}

/// Bytes of a string in a group; its marker follows.
const GROUP: usize = 8;

/// The marker of a group that another follows. Smaller ones are the number of bytes used in the last group.
const MORE: u8 = GROUP as u8 + 1;

const NULL: u8 = 0;
const NOT_NULL: u8 = 1;

#[cold]
fn corrupt(what: &'static str) -> Error {
    Error::corrupt(what)
}

/// Appends an integer or a floating-point number, ascending.
#[inline]
pub fn put<T: FixedKey>(out: &mut Vec<u8>, value: T) {
    put_in(out, value, Direction::Ascending);
}

/// Appends an integer or a floating-point number.
#[inline]
pub fn put_in<T: FixedKey>(out: &mut Vec<u8>, value: T, direction: Direction) {
    let mut bytes = value.to_ordered();
    invert(bytes.as_mut(), direction);
    out.extend_from_slice(bytes.as_ref());
}

/// Takes an integer or a floating-point number, ascending.
#[inline]
pub fn get<T: FixedKey>(input: &mut &[u8]) -> Result<T> {
    get_in(input, Direction::Ascending)
}

/// Takes an integer or a floating-point number.
#[inline]
pub fn get_in<T: FixedKey>(input: &mut &[u8], direction: Direction) -> Result<T> {
    let mut bytes = T::Bytes::default();
    let len = bytes.as_ref().len();
    let Some((head, rest)) = input.split_at_checked(len) else {
        return Err(corrupt("memcomparable number is truncated"));
    };
    bytes.as_mut().copy_from_slice(head);
    invert(bytes.as_mut(), direction);
    *input = rest;
    Ok(T::from_ordered(bytes))
}

#[inline(always)]
fn invert(bytes: &mut [u8], direction: Direction) {
    for byte in bytes {
        *byte ^= direction.mask();
    }
}

/// Appends a byte string, ascending.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, value: &[u8]) {
    put_bytes_in(out, value, Direction::Ascending);
}

/// Appends a byte string: `len / 8 + 1` groups of nine bytes, one fewer if `len` is a positive multiple of 8.
pub fn put_bytes_in(out: &mut Vec<u8>, value: &[u8], direction: Direction) {
    let start = out.len();
    let last = value.len().saturating_sub(1) / GROUP * GROUP;
    let (full, rest) = value.split_at(last);
    out.reserve(encoded_bytes_len(value.len()));
    for group in full.as_chunks::<GROUP>().0 {
        out.extend_from_slice(group);
        out.push(MORE);
    }
    let mut group = [0; GROUP];
    group[..rest.len()].copy_from_slice(rest);
    out.extend_from_slice(&group);
    out.push(rest.len() as u8);
    if direction == Direction::Descending {
        invert(&mut out[start..], direction);
    }
}

/// The bytes that a byte string of `len` bytes takes.
#[inline]
pub const fn encoded_bytes_len(len: usize) -> usize {
    (len.saturating_sub(1) / GROUP + 1) * (GROUP + 1)
}

/// Takes a byte string, ascending, and appends it to `out`.
#[inline]
pub fn get_bytes(input: &mut &[u8], out: &mut Vec<u8>) -> Result<()> {
    get_bytes_in(input, out, Direction::Ascending)
}

/// Takes a byte string and appends it to `out`. Only what [`put_bytes_in`] can have written is accepted.
pub fn get_bytes_in(input: &mut &[u8], out: &mut Vec<u8>, direction: Direction) -> Result<()> {
    let mut is_first = true;
    loop {
        let (group, used) = get_group(input, direction)?;
        match used {
            MORE => out.extend_from_slice(&group),
            0 if !is_first => return Err(corrupt("memcomparable string ends with an empty group")),
            _ => {
                let Some((value, padding)) = group.split_at_checked(usize::from(used)) else {
                    return Err(corrupt("memcomparable string has a bad marker"));
                };
                if padding.iter().any(|byte| *byte != 0) {
                    return Err(corrupt("memcomparable string has bad padding"));
                }
                out.extend_from_slice(value);
                return Ok(());
            }
        }
        is_first = false;
    }
}

/// Passes over a byte string.
pub fn skip_bytes(input: &mut &[u8], direction: Direction) -> Result<()> {
    while get_group(input, direction)?.1 == MORE {}
    Ok(())
}

#[inline]
fn get_group(input: &mut &[u8], direction: Direction) -> Result<([u8; GROUP], u8)> {
    let Some((stored, rest)) = input.split_first_chunk::<{ GROUP + 1 }>() else {
        return Err(corrupt("memcomparable string is truncated"));
    };
    *input = rest;
    let [mut group @ .., marker] = *stored;
    invert(&mut group, direction);
    Ok((group, marker ^ direction.mask()))
}

/// Appends a string, ascending by its UTF-8 bytes, which is by code points.
#[inline]
pub fn put_str(out: &mut Vec<u8>, value: &str) {
    put_bytes(out, value.as_bytes());
}

/// Takes a string that [`put_str`] wrote.
pub fn get_string(input: &mut &[u8]) -> Result<String> {
    let mut bytes = Vec::new();
    get_bytes(input, &mut bytes)?;
    String::from_utf8(bytes).map_err(|_| corrupt("memcomparable string is not UTF-8"))
}

/// Appends the flag of a NULL: it sorts before every value, and nothing follows it.
#[inline]
pub fn put_null(out: &mut Vec<u8>, direction: Direction) {
    out.push(NULL ^ direction.mask());
}

/// Appends the flag of a value that might have been NULL; the value follows.
#[inline]
pub fn put_not_null(out: &mut Vec<u8>, direction: Direction) {
    out.push(NOT_NULL ^ direction.mask());
}

/// Takes the flag of a column that may be NULL: whether a value follows.
#[inline]
pub fn get_is_not_null(input: &mut &[u8], direction: Direction) -> Result<bool> {
    match input.split_first() {
        Some((&flag, rest)) if flag ^ direction.mask() <= NOT_NULL => {
            *input = rest;
            Ok(flag ^ direction.mask() == NOT_NULL)
        }
        _ => Err(corrupt("memcomparable NULL flag is bad")),
    }
}

/// Appends a number that may be NULL.
#[inline]
pub fn put_option_in<T: FixedKey>(out: &mut Vec<u8>, value: Option<T>, direction: Direction) {
    match value {
        None => put_null(out, direction),
        Some(value) => {
            put_not_null(out, direction);
            put_in(out, value, direction);
        }
    }
}

/// Takes a number that may be NULL.
#[inline]
pub fn get_option_in<T: FixedKey>(input: &mut &[u8], direction: Direction) -> Result<Option<T>> {
    match get_is_not_null(input, direction)? {
        true => get_in(input, direction).map(Some),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests;
