//! Decimal numbers of a fixed number of digits, in the form of MySQL's `DECIMAL(precision, scale)`.
//!
//! The digits before and behind the point are cut into groups of nine, counted from the point; nine digits take 4 bytes, big-endian, fewer take as
//! few as they need. The first bit is flipped, and every byte of a negative number is inverted.

use super::{Direction, corrupt, invert};
use crate::{Error, Result};

/// Digits of a full group, and its bytes.
const GROUP_DIGITS: u32 = 9;
const GROUP_BYTES: usize = 4;

/// Bytes of a group by its number of digits.
const BYTES_OF: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// The type of a decimal column: how many digits a number has, and how many of them are behind the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecimalType {
    precision: u8,
    scale: u8,
}

impl DecimalType {
    /// Most digits of a number. MySQL has up to 65; a number of this type fits into an `i128`.
    pub const MAX_PRECISION: u8 = 38;

    /// A type of 1 to 38 digits, of which `scale` are behind the point.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` outside of these bounds.
    pub fn new(precision: u8, scale: u8) -> Result<Self> {
        if (1..=Self::MAX_PRECISION).contains(&precision) && scale <= precision {
            return Ok(Self { precision, scale });
        }
        Err(Error::invalid_argument("a decimal has 1 to 38 digits, and as many of them behind the point at most"))
    }

    /// Digits of a number.
    pub const fn precision(self) -> u8 {
        self.precision
    }

    /// Those of them behind the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// Bytes of each encoding.
    pub fn encoded_len(self) -> usize {
        self.groups().map(|digits| BYTES_OF[digits as usize]).sum()
    }

    /// Numbers of digits of the groups, from the left.
    fn groups(self) -> impl DoubleEndedIterator<Item = u32> {
        let (before, behind) = (u32::from(self.precision - self.scale), u32::from(self.scale));
        let full = |digits: u32| std::iter::repeat_n(GROUP_DIGITS, (digits / GROUP_DIGITS) as usize);
        let first = std::iter::once(before % GROUP_DIGITS);
        first.chain(full(before)).chain(full(behind)).chain(std::iter::once(behind % GROUP_DIGITS))
    }
}

/// Appends a decimal: `unscaled` divided by ten to the power of the scale.
///
/// # Errors
///
/// `InvalidArgument` if the number has more digits than its type; nothing is appended then.
pub fn put_decimal(out: &mut Vec<u8>, unscaled: i128, kind: DecimalType, direction: Direction) -> Result<()> {
    let mut rest = unscaled.unsigned_abs();
    if rest >= 10_u128.pow(u32::from(kind.precision)) {
        return Err(Error::invalid_argument("a decimal has more digits than its type"));
    }
    let start = out.len();
    out.resize(start + kind.encoded_len(), 0);
    let mut end = out.len();
    for digits in kind.groups().rev() {
        let base = 10_u128.pow(digits);
        // At most nine digits.
        let group = ((rest % base) as u32).to_be_bytes();
        rest /= base;
        let bytes = BYTES_OF[digits as usize];
        out[end - bytes..end].copy_from_slice(&group[GROUP_BYTES - bytes..]);
        end -= bytes;
    }
    out[start] ^= 0x80;
    if unscaled < 0 {
        invert(&mut out[start..], Direction::Descending);
    }
    invert(&mut out[start..], direction);
    Ok(())
}

/// Takes a decimal that [`put_decimal`] wrote; returns it without its point.
///
/// # Errors
///
/// `Corruption` if there are too few bytes, or those of no number of this type.
pub fn get_decimal(input: &mut &[u8], kind: DecimalType, direction: Direction) -> Result<i128> {
    let Some((stored, rest)) = input.split_at_checked(kind.encoded_len()) else {
        return Err(corrupt("memcomparable decimal is truncated"));
    };
    let mut bytes = stored.to_vec();
    invert(&mut bytes, direction);
    let Some(first) = bytes.first_mut() else { return Err(corrupt("memcomparable decimal is empty")) };
    let is_negative = *first & 0x80 == 0;
    *first ^= 0x80;
    if is_negative {
        invert(&mut bytes, Direction::Descending);
    }
    let (mut unscaled, mut bytes) = (0_i128, &bytes[..]);
    for digits in kind.groups() {
        let Some((group, others)) = bytes.split_at_checked(BYTES_OF[digits as usize]) else {
            return Err(corrupt("memcomparable decimal is truncated"));
        };
        let group = group.iter().fold(0_i128, |number, byte| number << 8 | i128::from(*byte));
        let base = 10_i128.pow(digits);
        if group >= base {
            return Err(corrupt("memcomparable decimal has a group with too many digits"));
        }
        // 38 digits fit.
        unscaled = unscaled * base + group;
        bytes = others;
    }
    if is_negative && unscaled == 0 {
        return Err(corrupt("memcomparable decimal is a negative zero"));
    }
    *input = rest;
    Ok(if is_negative { -unscaled } else { unscaled })
}
