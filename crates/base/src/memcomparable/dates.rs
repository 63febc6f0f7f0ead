//! Dates, and moments of a calendar without a time zone, in the forms of MySQL's `DATE` and `DATETIME(6)`.
//!
//! A date is 3 bytes, big-endian: year, month and day in 15, 4 and 5 bits. A moment is 5 bytes and 3 more for microseconds: year times 13 plus the
//! month, day, hour, minute and second in 17, 5, 5, 6 and 6 bits behind one that is always set.

use super::{Direction, corrupt, invert};
use crate::{Error, Result};

/// A day of a calendar. A month and a day may be 0, as in MySQL: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 12.
    pub month: u8,
    /// 0 to 31; whether the month has such a day is not checked.
    pub day: u8,
}

/// A moment of a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DateTime {
    /// The day.
    pub date: Date,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

impl Date {
    /// Bytes of each encoding.
    pub const ENCODED_LEN: usize = 3;

    const fn is_valid(self) -> bool {
        self.year <= 9999 && self.month <= 12 && self.day <= 31
    }
}

impl DateTime {
    /// Bytes of each encoding.
    pub const ENCODED_LEN: usize = 8;

    const fn is_valid(self) -> bool {
        self.date.is_valid() && self.hour < 24 && self.minute < 60 && self.second < 60 && self.micros < 1_000_000
    }
}

#[cold]
fn out_of_bounds() -> Error {
    Error::invalid_argument("a part of a date is out of bounds")
}

/// Appends a date.
///
/// # Errors
///
/// `InvalidArgument` if a part of it is out of bounds; nothing is appended then.
pub fn put_date(out: &mut Vec<u8>, date: Date, direction: Direction) -> Result<()> {
    if !date.is_valid() {
        return Err(out_of_bounds());
    }
    let packed = u32::from(date.year) << 9 | u32::from(date.month) << 5 | u32::from(date.day);
    let [_, mut bytes @ ..] = packed.to_be_bytes();
    invert(&mut bytes, direction);
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Takes a date.
///
/// # Errors
///
/// `Corruption` if there are too few bytes, or those of no date.
pub fn get_date(input: &mut &[u8], direction: Direction) -> Result<Date> {
    let Some((stored, rest)) = input.split_first_chunk::<{ Date::ENCODED_LEN }>() else {
        return Err(corrupt("memcomparable date is truncated"));
    };
    let mut bytes = *stored;
    invert(&mut bytes, direction);
    let packed = bytes.iter().fold(0, |packed, byte| packed << 8 | u32::from(*byte));
    let date = Date { year: (packed >> 9) as u16, month: (packed >> 5 & 15) as u8, day: (packed & 31) as u8 };
    if !date.is_valid() {
        return Err(corrupt("memcomparable date has a part that is out of bounds"));
    }
    *input = rest;
    Ok(date)
}

/// Appends a moment.
///
/// # Errors
///
/// `InvalidArgument` if a part of it is out of bounds; nothing is appended then.
pub fn put_datetime(out: &mut Vec<u8>, moment: DateTime, direction: Direction) -> Result<()> {
    if !moment.is_valid() {
        return Err(out_of_bounds());
    }
    let date = moment.date;
    let days = (u64::from(date.year) * 13 + u64::from(date.month)) << 5 | u64::from(date.day);
    let time = u64::from(moment.hour) << 12 | u64::from(moment.minute) << 6 | u64::from(moment.second);
    let packed = 1 << 39 | days << 17 | time;
    let mut bytes = (packed << 24 | u64::from(moment.micros)).to_be_bytes();
    invert(&mut bytes, direction);
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Takes a moment.
///
/// # Errors
///
/// `Corruption` if there are too few bytes, or those of no moment.
pub fn get_datetime(input: &mut &[u8], direction: Direction) -> Result<DateTime> {
    let Some((stored, rest)) = input.split_first_chunk::<{ DateTime::ENCODED_LEN }>() else {
        return Err(corrupt("memcomparable moment is truncated"));
    };
    let mut bytes = *stored;
    invert(&mut bytes, direction);
    let whole = u64::from_be_bytes(bytes);
    let (packed, micros) = (whole >> 24, (whole & 0xff_ffff) as u32);
    let (days, time) = (packed >> 17 & 0x3f_ffff, packed & 0x1_ffff);
    let months = days >> 5;
    let date = Date { year: (months / 13) as u16, month: (months % 13) as u8, day: (days & 31) as u8 };
    let (hour, minute, second) = ((time >> 12) as u8, (time >> 6 & 63) as u8, (time & 63) as u8);
    let moment = DateTime { date, hour, minute, second, micros };
    if packed >> 39 != 1 || !moment.is_valid() {
        return Err(corrupt("memcomparable moment has a part that is out of bounds"));
    }
    *input = rest;
    Ok(moment)
}
