//! Order and round trip by property, bytes by table.

use super::*;
use crate::ErrorKind;
use Direction::{Ascending, Descending};
use proptest::prelude::*;
use std::cmp::Ordering;

fn numbers<T: FixedKey>(value: T, direction: Direction) -> Vec<u8> {
    let mut out = Vec::new();
    put_in(&mut out, value, direction);
    out
}

fn bytes(value: &[u8], direction: Direction) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes_in(&mut out, value, direction);
    out
}

#[test]
fn forms_are_those_of_myrocks() {
    assert_eq!(numbers(1_u32, Ascending), [0, 0, 0, 1]);
    assert_eq!(numbers(1_i32, Ascending), [0x80, 0, 0, 1]);
    assert_eq!(numbers(-1_i32, Ascending), [0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(numbers(-1_i32, Descending), [0x80, 0, 0, 0]);
    assert_eq!(numbers(1.0_f64, Ascending), [0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(b"", Ascending), [0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes(b"abc", Ascending), *b"abc\0\0\0\0\0\x03");
    assert_eq!(bytes(b"abcdefgh", Ascending), *b"abcdefgh\x08");
    assert_eq!(bytes(b"abcdefghi", Ascending), *b"abcdefgh\x09i\0\0\0\0\0\0\0\x01");
    assert_eq!(bytes(b"\0", Descending), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
}

#[test]
fn what_cannot_have_been_written_is_corruption() {
    let rows: &[&[u8]] = &[
        b"",
        b"abcdefgh",
        b"abcdefgh\x09",
        b"abcdefgh\x09\0\0\0\0\0\0\0\0\0",
        b"abc\0\0\0\0\0\x0a",
        b"abc\0\0\0\0\0\xff",
        b"abc\0\0\0\0x\x03",
    ];
    for &row in rows {
        let mut out = Vec::new();
        let error = get_bytes(&mut &row[..], &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{row:?}");
    }
    assert!(get::<u32>(&mut &[1, 2, 3][..]).is_err());
    assert!(get_is_not_null(&mut &[2][..], Ascending).is_err());
    assert!(get_is_not_null(&mut &[][..], Ascending).is_err());
    let mut invalid = Vec::new();
    put_bytes(&mut invalid, &[0xff]);
    assert!(get_string(&mut &invalid[..]).is_err());
    assert!(skip_bytes(&mut &b"abcdefgh\x09"[..], Ascending).is_err());
}

/// Checks order and round trip of a pair of one type in both directions.
fn check_pair<T: FixedKey>(a: T, b: T, order: Ordering) -> Result<(), TestCaseError> {
    for (direction, expected) in [(Ascending, order), (Descending, order.reverse())] {
        let (a_bytes, b_bytes) = (numbers(a, direction), numbers(b, direction));
        prop_assert_eq!(a_bytes.cmp(&b_bytes), expected);
        let mut input = &a_bytes[..];
        let read = get_in::<T>(&mut input, direction).unwrap();
        prop_assert!(input.is_empty());
        prop_assert_eq!(numbers(read, direction), a_bytes);
    }
    let mut with_null = Vec::new();
    put_option_in(&mut with_null, Some(a), Ascending);
    let mut null = Vec::new();
    put_option_in::<T>(&mut null, None, Ascending);
    prop_assert!(null < with_null);
    prop_assert!(get_option_in::<T>(&mut &with_null[..], Ascending).unwrap().is_some());
    prop_assert!(get_option_in::<T>(&mut &null[..], Ascending).unwrap().is_none());
    Ok(())
}

/// Strings over few letters share prefixes and end at group borders.
fn strings() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 0..20),
        (0usize..20, any::<Option<u8>>()).prop_map(|(len, last)| vec![b'a'; len].into_iter().chain(last).collect()),
        any::<Vec<u8>>(),
    ]
}

proptest! {
    #[test]
    fn integers_sort_and_read_back(a: u64, b: u64, shift in 0u32..64) {
        let (a, b) = (a >> shift, b >> shift);
        check_pair(a, b, a.cmp(&b))?;
        check_pair(a as u32, b as u32, (a as u32).cmp(&(b as u32)))?;
        check_pair(a as u16, b as u16, (a as u16).cmp(&(b as u16)))?;
        check_pair(a as u8, b as u8, (a as u8).cmp(&(b as u8)))?;
        check_pair(a as i64, b as i64, (a as i64).cmp(&(b as i64)))?;
        check_pair(a as i32, b as i32, (a as i32).cmp(&(b as i32)))?;
        check_pair(a as i16, b as i16, (a as i16).cmp(&(b as i16)))?;
        check_pair(a as i8, b as i8, (a as i8).cmp(&(b as i8)))?;
        prop_assert_eq!(get::<i64>(&mut &numbers(a as i64, Ascending)[..]).unwrap(), a as i64);
    }

    #[test]
    fn floating_point_numbers_sort_and_read_back(
        a in prop::num::f64::ANY,
        b in prop::num::f64::ANY,
        c in prop::num::f32::ANY,
        d in prop::num::f32::ANY,
    ) {
        check_pair(a, b, a.total_cmp(&b))?;
        check_pair(c, d, c.total_cmp(&d))?;
        check_pair(a, -a, a.total_cmp(&-a))?;
        prop_assert_eq!(get::<f64>(&mut &numbers(a, Ascending)[..]).unwrap().to_bits(), a.to_bits());
        prop_assert_eq!(get::<f32>(&mut &numbers(c, Ascending)[..]).unwrap().to_bits(), c.to_bits());
    }

    #[test]
    fn byte_strings_sort_and_read_back(a in strings(), b in strings()) {
        for (direction, expected) in [(Ascending, a.cmp(&b)), (Descending, b.cmp(&a))] {
            let (a_bytes, b_bytes) = (bytes(&a, direction), bytes(&b, direction));
            prop_assert_eq!(a_bytes.cmp(&b_bytes), expected);
            prop_assert_eq!(a_bytes.len(), encoded_bytes_len(a.len()));
            prop_assert!(a == b || !b_bytes.starts_with(&a_bytes), "prefix-free");
            let followed = [&a_bytes[..], b"rest"].concat();
            let (mut input, mut skipped, mut out) = (&followed[..], &followed[..], Vec::new());
            get_bytes_in(&mut input, &mut out, direction).unwrap();
            prop_assert_eq!(&out, &a);
            prop_assert_eq!(input, b"rest");
            skip_bytes(&mut skipped, direction).unwrap();
            prop_assert_eq!(skipped, b"rest");
        }
    }

    #[test]
    fn rows_sort_by_columns_in_turn(
        a in (any::<Option<i16>>(), "[ab]{0,10}", any::<u8>()),
        b in (any::<Option<i16>>(), "[ab]{0,10}", any::<u8>()),
    ) {
        let encode = |row: &(Option<i16>, String, u8)| {
            let mut out = Vec::new();
            put_option_in(&mut out, row.0, Descending);
            put_str(&mut out, &row.1);
            put(&mut out, row.2);
            out
        };
        let expected = b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2));
        let (a_bytes, b_bytes) = (encode(&a), encode(&b));
        prop_assert_eq!(a_bytes.cmp(&b_bytes), expected);
        let mut input = &a_bytes[..];
        prop_assert_eq!(get_option_in::<i16>(&mut input, Descending).unwrap(), a.0);
        prop_assert_eq!(get_string(&mut input).unwrap(), a.1);
        prop_assert_eq!(get::<u8>(&mut input).unwrap(), a.2);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(input: Vec<u8>) {
        for direction in [Ascending, Descending] {
            let (mut rest, mut out) = (&input[..], Vec::new());
            if get_bytes_in(&mut rest, &mut out, direction).is_ok() {
                prop_assert_eq!(bytes(&out, direction), &input[..input.len() - rest.len()]);
            }
        }
    }
}

fn decimal_type() -> impl Strategy<Value = DecimalType> {
    (1..=DecimalType::MAX_PRECISION)
        .prop_flat_map(|precision| (Just(precision), 0..=precision))
        .prop_map(|(precision, scale)| DecimalType::new(precision, scale).unwrap())
}

/// Two numbers of one type, which often share digits.
fn decimals() -> impl Strategy<Value = (DecimalType, i128, i128)> {
    decimal_type().prop_flat_map(|kind| {
        let most = 10_i128.pow(u32::from(kind.precision())) - 1;
        let number = prop_oneof![-most..=most, (-12_i128..12).prop_map(move |small| small.clamp(-most, most))];
        (Just(kind), number.clone(), number)
    })
}

fn dates() -> impl Strategy<Value = Date> {
    let year = prop_oneof![0..=9999_u16, 1999..2002_u16];
    (year, 0..=12_u8, 0..=31_u8).prop_map(|(year, month, day)| Date { year, month, day })
}

fn moments() -> impl Strategy<Value = DateTime> {
    let micros = prop_oneof![0..1_000_000_u32, 0..2_u32];
    (dates(), 0..24_u8, 0..60_u8, 0..60_u8, micros).prop_map(|(date, hour, minute, second, micros)| DateTime {
        date,
        hour,
        minute,
        second,
        micros,
    })
}

#[test]
fn decimals_and_dates_have_mysqls_bytes() {
    let encode = |unscaled, precision, scale| {
        let mut out = Vec::new();
        put_decimal(&mut out, unscaled, DecimalType::new(precision, scale).unwrap(), Ascending).unwrap();
        out
    };
    // 1234567890.1234 as DECIMAL(14,4), and its negative: the example of MySQL's sources.
    assert_eq!(encode(12_345_678_901_234, 14, 4), [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2]);
    assert_eq!(encode(-12_345_678_901_234, 14, 4), [0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d]);
    assert_eq!(encode(0, 1, 0), [0x80]);
    assert_eq!(encode(-5, 2, 2), [0x7a]);
    let mut out = Vec::new();
    let date = Date { year: 2024, month: 2, day: 29 };
    put_date(&mut out, date, Ascending).unwrap();
    assert_eq!(out, [0x0f, 0xd0, 0x5d]);
    out.clear();
    put_datetime(&mut out, DateTime { date, hour: 13, minute: 5, second: 59, micros: 70_000 }, Ascending).unwrap();
    assert_eq!(out, [0x99, 0xb2, 0xba, 0xd1, 0x7b, 0x01, 0x11, 0x70]);
}

#[test]
fn decimals_and_dates_out_of_bounds_are_refused() {
    for (precision, scale) in [(0, 0), (39, 0), (5, 6)] {
        assert_eq!(DecimalType::new(precision, scale).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let kind = DecimalType::new(3, 1).unwrap();
    let mut out = Vec::new();
    for unscaled in [1000, -1000, i128::MAX, i128::MIN] {
        assert_eq!(put_decimal(&mut out, unscaled, kind, Ascending).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let date = Date { year: 10_000, month: 1, day: 1 };
    assert!(put_date(&mut out, date, Ascending).is_err());
    assert!(put_date(&mut out, Date { year: 1, month: 13, day: 1 }, Ascending).is_err());
    assert!(put_datetime(&mut out, DateTime { hour: 24, ..DateTime::default() }, Ascending).is_err());
    assert!(put_datetime(&mut out, DateTime { micros: 1_000_000, ..DateTime::default() }, Ascending).is_err());
    assert!(out.is_empty(), "nothing is appended");
    // Too short; a group of two digits that says 100; a negative zero.
    for bytes in [&[0x80][..], &[0x80 + 100, 0], &[0x7f, 0xff]] {
        assert_eq!(get_decimal(&mut &*bytes, kind, Ascending).unwrap_err().kind(), ErrorKind::Corruption, "{bytes:?}");
    }
    assert!(get_date(&mut &[0, 1][..], Ascending).is_err());
    assert!(get_date(&mut &[0xff, 0xff, 0xff][..], Ascending).is_err());
    assert!(get_datetime(&mut &[0; 8][..], Ascending).is_err());
    assert!(get_datetime(&mut &[0x99; 7][..], Ascending).is_err());
}

proptest! {
    #[test]
    fn decimals_sort_and_read_back((kind, a, b) in decimals()) {
        for (direction, expected) in [(Ascending, a.cmp(&b)), (Descending, b.cmp(&a))] {
            let encode = |unscaled| {
                let mut out = Vec::new();
                put_decimal(&mut out, unscaled, kind, direction).unwrap();
                out
            };
            let (a_bytes, b_bytes) = (encode(a), encode(b));
            prop_assert_eq!(a_bytes.cmp(&b_bytes), expected);
            prop_assert_eq!(a_bytes.len(), kind.encoded_len());
            let followed = [&a_bytes[..], b"rest"].concat();
            let mut input = &followed[..];
            prop_assert_eq!(get_decimal(&mut input, kind, direction).unwrap(), a);
            prop_assert_eq!(input, b"rest");
        }
    }

    #[test]
    fn dates_sort_and_read_back(a in moments(), b in moments()) {
        for (direction, expected, by_day) in
            [(Ascending, a.cmp(&b), a.date.cmp(&b.date)), (Descending, b.cmp(&a), b.date.cmp(&a.date))]
        {
            let day = |date| {
                let mut out = Vec::new();
                put_date(&mut out, date, direction).unwrap();
                out
            };
            prop_assert_eq!(day(a.date).cmp(&day(b.date)), by_day);
            prop_assert_eq!(get_date(&mut &day(a.date)[..], direction).unwrap(), a.date);
            let moment = |moment| {
                let mut out = Vec::new();
                put_datetime(&mut out, moment, direction).unwrap();
                out
            };
            prop_assert_eq!(moment(a).cmp(&moment(b)), expected);
            prop_assert_eq!(get_datetime(&mut &moment(a)[..], direction).unwrap(), a);
        }
    }

    #[test]
    fn any_bytes_are_a_decimal_or_a_date_or_refused(kind in decimal_type(), input: Vec<u8>) {
        for direction in [Ascending, Descending] {
            let (mut rest, mut out) = (&input[..], Vec::new());
            if let Ok(number) = get_decimal(&mut rest, kind, direction) {
                put_decimal(&mut out, number, kind, direction).unwrap();
                prop_assert_eq!(&out[..], &input[..input.len() - rest.len()]);
            }
            let (mut rest, mut out) = (&input[..], Vec::new());
            if let Ok(moment) = get_datetime(&mut rest, direction) {
                put_datetime(&mut out, moment, direction).unwrap();
                prop_assert_eq!(&out[..], &input[..input.len() - rest.len()]);
            }
        }
    }
}
