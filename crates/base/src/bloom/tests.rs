//! Filters that RocksDB reads, bits at known places, and blocks of every other kind.

use super::*;
use proptest::prelude::*;

fn build(millibits: u32, keys: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut builder = BloomBuilder::new(millibits);
    for key in keys {
        builder.add_hash(xxph3(&key.to_be_bytes()));
    }
    let expected = builder.finished_len();
    let filter = builder.finish();
    assert_eq!(filter.len(), expected);
    filter
}

#[test]
fn bits_are_where_rocksdb_puts_them() {
    let hash = xxph3(b"abc");
    assert_eq!(line_of(hash, 4), 2);
    let bits: Vec<u32> = POWERS[..6].iter().map(|power| ((hash >> 32) as u32).wrapping_mul(*power) >> 23).collect();
    assert_eq!(bits, [423, 188, 464, 413, 226, 254]);
    let mut builder = BloomBuilder::new(10_000);
    builder.add_hash(hash);
    let mut filter = builder.finish();
    assert_eq!(filter.len(), 64 + TRAILER_LEN);
    let expected: Vec<usize> = (0..512).filter(|bit| filter[bit / 8] >> (bit % 8) & 1 == 1).collect();
    assert_eq!(expected, [188, 226, 254, 413, 423, 464]);
    assert_eq!(filter[64..], [0xff, 0, 6, 0, 0]);
    assert!(may_match(&filter, hash));
    filter[188 / 8] ^= 1 << (188 % 8);
    assert!(!may_match(&filter, hash), "one missing bit is enough");
}

#[test]
fn probes_follow_the_bits_per_key() {
    let rows = [
        (1000, 1),
        (2080, 1),
        (2081, 2),
        (3580, 2),
        (5100, 3),
        (6640, 4),
        (8300, 5),
        (10_000, 6),
        (10_070, 6),
        (10_071, 7),
        (11_720, 7),
        (14_001, 8),
        (16_050, 9),
        (18_300, 10),
        (22_001, 11),
        (25_501, 12),
        (25_502, 11),
        (30_000, 13),
        (50_000, 23),
        (50_001, 24),
        (100_000, 24),
    ];
    for (millibits, probes) in rows {
        assert_eq!(builder::probes_for(millibits), probes, "{millibits}");
    }
}

#[test]
fn lengths_are_whole_lines() {
    for (keys, lines) in [(1, 1), (51, 1), (52, 2), (204, 4), (205, 5), (10_000, 196)] {
        assert_eq!(build(10_000, 0..keys).len(), lines * 64 + TRAILER_LEN, "{keys} keys");
    }
}

#[test]
fn adjacent_duplicates_count_once() {
    let mut builder = BloomBuilder::new(10_000);
    for hash in [1, 1, 2, 1, 1] {
        builder.add_hash(hash);
    }
    assert_eq!(builder.len(), 3);
    assert!(!builder.finish_and_reset().is_empty());
    assert!(builder.is_empty());
    assert!(builder.memory_usage() > 0);
    assert!(builder.finish().is_empty());
}

#[test]
fn false_answers_are_as_rare_as_promised() {
    for (millibits, most) in [(5_000, 0.13), (10_000, 0.011), (16_000, 0.002)] {
        let filter = build(millibits, 0..20_000);
        let kind = FilterKind::parse(&filter);
        assert!((0..20_000_u64).all(|key| kind.may_match(&filter, xxph3(&key.to_be_bytes()))));
        let wrong = (1_000_000..1_100_000_u64).filter(|key| kind.may_match(&filter, xxph3(&key.to_be_bytes()))).count();
        assert!(wrong as f64 / 100_000.0 < most, "{millibits}: {wrong}");
    }
}

#[test]
fn blocks_of_other_kinds() {
    use FilterKind::{AlwaysMatches, FastLocal, Legacy, NeverMatches};
    let block = |len: usize, trailer: [u8; 5]| [vec![0; len], trailer.to_vec()].concat();
    let rows = [
        (vec![], NeverMatches),
        (vec![0xff; 4], NeverMatches),
        (block(0, [0xff, 0, 6, 0, 0]), NeverMatches),
        (vec![0; 6], AlwaysMatches),
        (block(64, [0xff, 0, 6, 0, 0]), FastLocal { probes: 6, lines: 1 }),
        (block(128, [0xff, 0, 30, 0, 0]), FastLocal { probes: 30, lines: 2 }),
        (block(64, [0xff, 0, 31, 0, 0]), AlwaysMatches),
        (block(64, [0xff, 0, 0, 0, 0]), AlwaysMatches),
        (block(64, [0xff, 1, 6, 0, 0]), AlwaysMatches),
        (block(64, [0xff, 0, 0x26, 0, 0]), AlwaysMatches),
        (block(64, [0xff, 0, 6, 1, 0]), AlwaysMatches),
        (block(65, [0xff, 0, 6, 0, 0]), AlwaysMatches),
        (block(64, [0xfe, 0, 1, 0, 0]), AlwaysMatches),
        (block(65, [0xfe, 0, 2, 0, 0]), AlwaysMatches),
        (block(64, [0xfd, 0, 2, 0, 0]), AlwaysMatches),
        (block(64, [0x80, 0, 2, 0, 0]), AlwaysMatches),
        (block(192, [6, 3, 0, 0, 0]), Legacy { probes: 6, lines: 3, line_shift: 6 }),
        (block(192, [6, 0, 0, 0, 0]), AlwaysMatches),
        (block(192, [6, 5, 0, 0, 0]), AlwaysMatches),
        (block(192, [6, 2, 0, 0, 0]), AlwaysMatches),
        (block(64, [6, 0xff, 0xff, 0xff, 0xff]), AlwaysMatches),
    ];
    for (filter, kind) in rows {
        assert_eq!(FilterKind::parse(&filter), kind, "{filter:?}");
        let expected = matches!(kind, AlwaysMatches | Legacy { .. });
        assert_eq!(may_match(&filter, xxph3(b"key")), expected, "{filter:?}");
    }
}

#[test]
fn ribbon_blocks_are_recognised() {
    let hashes: Vec<u64> = (0..3000_u64).map(|key| xxph3(&key.to_be_bytes())).collect();
    let ribbon = crate::ribbon::build(&hashes, 1.0 / false_rate(10_000)).unwrap();
    let block = ribbon_block(ribbon.clone());
    assert_eq!(block.len(), ribbon.segments.len() + TRAILER_LEN);
    let kind = FilterKind::parse(&block);
    assert!(matches!(kind, FilterKind::Ribbon(_)) && !kind.needs_own_hash());
    assert!(hashes.iter().all(|hash| may_match(&block, *hash)));
    let wrong = (1_000_000..1_020_000_u64).filter(|key| may_match(&block, xxph3(&key.to_be_bytes()))).count();
    assert!(wrong < 300, "{wrong} of 20000");
    let bloom = build(10_000, 0..3000);
    assert!(block.len() * 10 < bloom.len() * 8, "{} and {}", block.len(), bloom.len());
}

/// Written by RocksDB 9.8.4 for the keys `key000000` to `key002999`, in place of a bloom filter of 10 bits per key.
const OF_ROCKSDB: &[u8] = include_bytes!("../../testdata/ribbon_of_rocksdb_9_8_4");

#[test]
fn a_ribbon_filter_of_rocksdb_has_its_keys_and_few_others() {
    let kind = FilterKind::parse(OF_ROCKSDB);
    assert!(matches!(kind, FilterKind::Ribbon(_)));
    let matches = |key: String| kind.may_match(OF_ROCKSDB, kind.hash_key(key.as_bytes()));
    assert!((0..3000).all(|number| matches(format!("key{number:06}"))));
    let wrong = (0..20_000).filter(|number| matches(format!("nokey{number:06}"))).count();
    assert!(wrong < 260, "{wrong} of 20000");
    let length = ribbon_block(crate::ribbon::build(&[1; 3000], 1.0 / false_rate(10_000)).unwrap()).len();
    assert!(OF_ROCKSDB.len().abs_diff(length) * 20 < length, "ours has {length} bytes");
}

#[test]
fn the_estimated_rate_is_the_one_seen() {
    for millibits in [1000, 5_000, 10_000, 16_000] {
        let filter = build(millibits, 0..20_000);
        let wrong = (1_000_000..1_100_000_u64).filter(|key| may_match(&filter, xxph3(&key.to_be_bytes()))).count();
        let (rate, seen) = (false_rate(millibits), wrong as f64 / 100_000.0);
        assert!((seen / rate - 1.0).abs() < 0.2, "{millibits}: {seen}, estimated {rate}");
    }
}

#[test]
fn legacy_filters_are_asked_with_their_own_hash() {
    let mut filter = vec![0; 192];
    filter.extend_from_slice(&[6, 3, 0, 0, 0]);
    let mut hash = hash32(b"key", 0xbc9f_1d34);
    let delta = hash.rotate_right(17);
    let start = (hash % 3) as usize * 64;
    for _ in 0..6 {
        filter[start + (hash % 512) as usize / 8] |= 1 << (hash % 8);
        hash = hash.wrapping_add(delta);
    }
    let kind = FilterKind::parse(&filter);
    assert!(kind.needs_own_hash());
    assert!(kind.may_match(&filter, kind.hash_key(b"key")));
    let others = (0..1000_u32).filter(|n| kind.may_match(&filter, kind.hash_key(&n.to_le_bytes()))).count();
    assert!(others < 20, "{others}");
}

#[test]
fn settings_below_half_a_bit_always_match() {
    assert_eq!(build(400, 0..10), [0; 6]);
    assert!(may_match(&build(400, 0..10), 77));
}

#[test]
fn dynamic_filters_forget_nothing_and_err_seldom() {
    let filter = DynamicBloom::new(10 * 20_000);
    assert_eq!(filter.memory_usage(), 391 * 64);
    std::thread::scope(|scope| {
        for part in 0..2_u64 {
            let filter = &filter;
            scope.spawn(move || {
                for key in (part..20_000).step_by(2) {
                    filter.add(xxph3(&key.to_be_bytes()));
                    assert!(filter.may_contain(xxph3(&key.to_be_bytes())));
                }
            });
        }
    });
    assert!((0..20_000_u64).all(|key| filter.may_contain(xxph3(&key.to_be_bytes()))));
    let wrong = (1_000_000..1_100_000_u64).filter(|key| filter.may_contain(xxph3(&key.to_be_bytes()))).count();
    assert!(wrong < 2000, "{wrong} of 100000");
    assert!(!DynamicBloom::new(0).may_contain(1));
}

proptest! {
    #[test]
    fn what_was_added_matches(millibits in 500u32..120_000, hashes in prop::collection::vec(any::<u64>(), 1..500)) {
        let mut builder = BloomBuilder::new(millibits);
        hashes.iter().for_each(|hash| builder.add_hash(*hash));
        let filter = builder.finish();
        prop_assert!(hashes.iter().all(|hash| may_match(&filter, *hash)));
    }

    #[test]
    fn any_bytes_answer(bytes: Vec<u8>, cut: usize, hash: u64) {
        let kind = FilterKind::parse(&bytes);
        let _ = kind.may_match(&bytes, hash);
        let _ = kind.may_match(&bytes[..cut % (bytes.len() + 1)], hash);
    }
}

#[test]
fn what_is_asked_for_in_advance_may_lie_beyond_the_filter() {
    let block = build(10_000, 0..1_000);
    let kind = FilterKind::parse(&block);
    assert!(matches!(kind, FilterKind::FastLocal { .. }));
    for len in [0, 1, LINE_LEN - 1, LINE_LEN, block.len()] {
        kind.prefetch(&block[..len], 0);
        kind.prefetch(&block[..len], u64::MAX);
        assert!(len == block.len() || kind.may_match(&block[..len], u64::MAX), "a filter cut short says yes");
    }
}
