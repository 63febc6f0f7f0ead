//! Blocks whose values lie apart from their keys.

use crate::sst::block::for_each_entry;
use crate::sst::block_builder::common_prefix;
use crate::sst::separated::{is_separated, joined};
use proptest::prelude::*;
use siltstone_base::ErrorKind;
use siltstone_base::coding::{put_fixed32, put_varint32};

type Entry = (Vec<u8>, Vec<u8>);

/// The layout of RocksDB 11, with a hash index of three empty buckets if asked for.
fn separated(entries: &[Entry], interval: usize, has_hash: bool) -> Vec<u8> {
    let (mut block, mut values, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (key, value)) in entries.iter().enumerate() {
        let is_restart = at % interval == 0;
        let shared = if is_restart { 0 } else { common_prefix(&entries[at - 1].0, key) };
        if is_restart {
            restarts.push(block.len() as u32);
        }
        for number in [shared, key.len() - shared, value.len()] {
            put_varint32(&mut block, number as u32);
        }
        if is_restart {
            put_varint32(&mut block, values.len() as u32);
        }
        block.extend_from_slice(&key[shared..]);
        values.extend_from_slice(value);
    }
    let values_start = block.len() as u32;
    block.extend_from_slice(&values);
    restarts.resize(restarts.len().max(1), 0);
    for restart in &restarts {
        put_fixed32(&mut block, *restart);
    }
    if has_hash {
        block.extend_from_slice(&[255, 255, 255, 3, 0]);
    }
    put_fixed32(&mut block, values_start);
    put_fixed32(&mut block, restarts.len() as u32 | 1 << 28 | u32::from(has_hash) << 31);
    block
}

fn entries_of(block: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for_each_entry(block, |key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        Ok(())
    })
    .unwrap();
    entries
}

#[test]
fn they_are_told_by_their_last_word() {
    let entries = [(b"key".to_vec(), b"value".to_vec())];
    let block = separated(&entries, 16, false);
    assert!(is_separated(&block));
    let joined = joined(&block).unwrap();
    assert!(!is_separated(&joined));
    assert_eq!(entries_of(&joined), entries);
    assert!(!is_separated(b""));
}

#[test]
fn values_that_do_not_follow_each_other_are_corruption() {
    let entries: Vec<Entry> = (0..4u8).map(|n| (vec![n], vec![n; 3])).collect();
    let mut block = separated(&entries, 1, false);
    // The offset of the second value: behind the first entry of five bytes and three numbers.
    assert_eq!(block[5 + 3], 3);
    block[5 + 3] = 2;
    assert_eq!(joined(&block).unwrap_err().kind(), ErrorKind::Corruption);
}

proptest! {
    #[test]
    fn joined_blocks_have_the_same_entries(
        entries in prop::collection::btree_map(
            prop::collection::vec(0u8..4, 0..6), prop::collection::vec(any::<u8>(), 0..200), 0..40),
        interval in 1usize..20,
        has_hash: bool,
    ) {
        let entries: Vec<Entry> = entries.into_iter().collect();
        prop_assert_eq!(entries_of(&joined(&separated(&entries, interval, has_hash)).unwrap()), entries);
    }

    #[test]
    fn damage_is_an_error_or_other_entries(
        entries in prop::collection::btree_map(
            prop::collection::vec(0u8..4, 0..6), prop::collection::vec(any::<u8>(), 0..20), 0..20),
        interval in 1usize..4,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let mut block = separated(&entries, interval, true);
        for (at, byte) in damage {
            let at = at.index(block.len());
            block[at] = byte;
        }
        if let Ok(joined) = joined(&block) {
            prop_assert!(joined.len() <= 2 * block.len() + 8);
            let _ = for_each_entry(&joined, |_, _| Ok(()));
        }
    }
}
