//! Boundaries by table, everything else by property.

use super::*;
use proptest::prelude::*;

#[test]
fn varints_at_every_length_boundary() {
    let rows: &[(u64, &[u8])] = &[
        (0, &[0]),
        (1, &[1]),
        (127, &[0x7f]),
        (128, &[0x80, 1]),
        (300, &[0xac, 2]),
        (16_383, &[0xff, 0x7f]),
        (16_384, &[0x80, 0x80, 1]),
        (u64::from(u32::MAX), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    ];
    for &(value, bytes) in rows {
        let mut out = Vec::new();
        put_varint64(&mut out, value);
        assert_eq!(out, bytes, "{value}");
        assert_eq!(varint_len(value), bytes.len(), "{value}");
        assert_eq!(decode_varint64(bytes), Some((value, bytes.len())));
        match u32::try_from(value) {
            Ok(small) => assert_eq!(decode_varint32(bytes), Some((small, bytes.len()))),
            Err(_) => assert_eq!(decode_varint32(bytes), None, "{value} does not fit"),
        }
    }
    for shift in 0..64 {
        for value in [1u64 << shift, (1 << shift) - 1] {
            let mut out = Vec::new();
            put_varint64(&mut out, value);
            assert_eq!(varint_len(value), out.len(), "{value}");
        }
    }
}

#[test]
fn malformed_varints_are_refused_and_consume_nothing() {
    let rows: &[&[u8]] = &[
        &[],
        &[0x80],
        &[0xff, 0xff, 0xff, 0xff, 0x10],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
    ];
    for &bytes in rows {
        let mut input = bytes;
        assert_eq!(get_varint32(&mut input), None, "{bytes:x?}");
        assert_eq!(input, bytes);
    }
    for &bytes in [rows[0], rows[1], rows[4], rows[5]].iter() {
        let mut input = bytes;
        assert_eq!(get_varint64(&mut input), None, "{bytes:x?}");
        assert_eq!(input, bytes);
    }
    // Padding with zero groups is accepted up to the longest length, as RocksDB does.
    assert_eq!(decode_varint32(&[0x81, 0x80, 0]), Some((1, 3)));
}

#[test]
fn truncated_fields_are_refused_and_consume_nothing() {
    let mut input: &[u8] = &[1, 2, 3];
    assert_eq!(get_fixed32(&mut input), None);
    assert_eq!(get_fixed64(&mut input), None);
    assert_eq!(get_fixed16(&mut input), Some(0x0201));
    assert_eq!(input, [3]);
    let mut input: &[u8] = &[3, b'a', b'b'];
    assert_eq!(get_length_prefixed(&mut input), None);
    assert_eq!(input.len(), 3);
    let mut input: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0x0f, 1];
    assert_eq!(get_length_prefixed(&mut input), None);
}

#[test]
fn zigzag_alternates_around_zero() {
    for (value, code) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)] {
        assert_eq!(zigzag_encode64(value), code);
        assert_eq!(zigzag_decode64(code), value);
    }
}

proptest! {
    #[test]
    fn a_sequence_of_fields_reads_back(a: u16, b: u32, c: u64, shift in 0u32..64, text: Vec<u8>, signed: i64) {
        let mut out = Vec::new();
        put_fixed16(&mut out, a);
        put_varint32(&mut out, b >> (shift % 32));
        put_varint64(&mut out, c >> shift);
        put_length_prefixed(&mut out, &text);
        put_fixed32(&mut out, b);
        put_fixed64(&mut out, c);
        put_varint64(&mut out, zigzag_encode64(signed));
        let mut input = &out[..];
        prop_assert_eq!(get_fixed16(&mut input), Some(a));
        prop_assert_eq!(get_varint32(&mut input), Some(b >> (shift % 32)));
        prop_assert_eq!(get_varint64(&mut input), Some(c >> shift));
        prop_assert_eq!(get_length_prefixed(&mut input), Some(&text[..]));
        prop_assert_eq!(get_fixed32(&mut input), Some(b));
        prop_assert_eq!(get_fixed64(&mut input), Some(c));
        prop_assert_eq!(get_varint64(&mut input).map(zigzag_decode64), Some(signed));
        prop_assert!(input.is_empty());
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
        for (value, len) in [decode_varint32(&bytes).map(|(v, l)| (u64::from(v), l)), decode_varint64(&bytes)].into_iter().flatten() {
            prop_assert!(len <= bytes.len());
            prop_assert!(varint_len(value) <= len);
        }
        let mut input = &bytes[..];
        if let Some(text) = get_length_prefixed(&mut input) {
            prop_assert!(text.len() + input.len() < bytes.len());
        }
    }
}
