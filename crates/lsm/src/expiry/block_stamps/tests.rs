//! Tests of the latest stamps of data blocks.

use super::*;
use proptest::prelude::*;

/// What one block has, and whether its last key goes on in the next one.
type Block = (Vec<Option<Stamp>>, bool);

/// The length of every block in the file.
const LEN: u64 = 4101;

fn stamp(group: u32, seconds: u64) -> Option<Stamp> {
    Some(Stamp { group, seconds })
}

fn built(blocks: &[Block]) -> Option<BlockStamps> {
    let mut builder = BlockStampsBuilder::default();
    for (entries, goes_on) in blocks {
        entries.iter().for_each(|stamp| builder.add(*stamp));
        builder.end_block(*goes_on);
    }
    builder.finish("a policy", (1..=blocks.len() as u64).map(|number| number * LEN))
}

/// What is told of block `number`.
fn latest(stamps: &BlockStamps, number: u64) -> Option<Stamp> {
    let (bytes, latest) = stamps.around(number * LEN);
    assert!(bytes.contains(&(number * LEN)) && bytes.end.is_multiple_of(LEN) && bytes.start.is_multiple_of(LEN));
    latest
}

#[test]
fn a_block_has_its_latest_stamp_and_what_must_be_read_is_kept() {
    let blocks = [
        (vec![stamp(0, 30), stamp(0, 10)], false),
        (vec![stamp(0, 20), None], false),
        (vec![None, stamp(0, 20)], false),
        (vec![stamp(0, 20), stamp(1, 20)], false),
        (vec![stamp(0, 20)], true),
        (vec![stamp(7, 20)], false),
    ];
    let stamps = built(&blocks).unwrap();
    assert_eq!((latest(&stamps, 0), latest(&stamps, 5)), (stamp(0, 30), stamp(7, 20)));
    for kept in 1..5 {
        assert_eq!(latest(&stamps, kept), None, "{kept}");
    }
    assert_eq!(stamps.around(6 * LEN), (6 * LEN..u64::MAX, None), "nothing is known of what lies behind");
    assert_eq!(BlockStamps::decode(&stamps.encode()), Some(stamps));
}

#[test]
fn a_table_of_which_all_is_kept_tells_nothing() {
    assert_eq!(built(&[]), None);
    assert_eq!(built(&[(vec![None], false), (vec![stamp(0, 1)], true)]), None);
}

#[test]
fn a_large_table_tells_little_and_its_idle_third_all_the_same() {
    // A third was written long ago; the rest is of any age, with kept blocks in between.
    let block = |number: u64| match number {
        3_000..6_000 => (vec![stamp(0, 1_000 + number % 50)], false),
        _ if number.is_multiple_of(97) => (vec![None], false),
        _ => (vec![stamp(0, 500_000 + number * 7919 % 400_000)], false),
    };
    let blocks: Vec<Block> = (0..9_000).map(block).collect();
    let stamps = built(&blocks).unwrap();
    let property = stamps.encode();
    assert!(stamps.stretches.len() <= MAX_STRETCHES && property.len() < 6 << 10, "{} bytes", property.len());
    let told = (3_000..6_000).filter(|number| latest(&stamps, *number).is_some_and(|latest| latest.seconds < 1_050));
    assert_eq!(told.count(), 3_000);
    // Of the others most are told of, not much later than they are.
    let early = (0..3_000).filter(|number| latest(&stamps, *number).is_some_and(|latest| latest.seconds < 900_000));
    assert!(early.count() > 2_000);
}

#[test]
fn times_that_no_clock_should_tell_do_no_harm() {
    let seconds = |number: u64| if number.is_multiple_of(2) { u64::MAX } else { number % 3 };
    let blocks: Vec<Block> = (0..3_000).map(|number| (vec![stamp(u32::MAX, seconds(number))], false)).collect();
    for blocks in [&blocks[..], &blocks[..9]] {
        let stamps = built(blocks).unwrap();
        assert_eq!(latest(&stamps, 2), stamp(u32::MAX, u64::MAX));
        assert_eq!(BlockStamps::decode(&stamps.encode()), Some(stamps));
    }
}

#[test]
fn damaged_ones_are_none() {
    let stamps = built(&[(vec![stamp(0, 300)], false), (vec![None], false), (vec![stamp(9, 7)], false)]).unwrap();
    let good = stamps.encode();
    for len in 0..good.len() {
        assert_eq!(BlockStamps::decode(&good[..len]), None, "{len}");
    }
    assert_eq!(BlockStamps::decode(&[&good[..], b"\0"].concat()), None);
    let of = |rest: &[u8]| BlockStamps::decode(&[&[1, 1, b'p', 3][..], rest].concat());
    assert!(of(&[1, 5, 1, 4]).is_some(), "one stretch of five bytes, of group 0, until 2");
    assert_eq!(of(&[0]), None, "no stretch");
    assert_eq!(of(&[1, 0, 1, 4]), None, "a stretch of nothing");
    assert_eq!(of(&[&[0xFF; 9][..], &[1]].concat()), None, "stretches without end");
    assert_eq!(of(&[&[2][..], &[0xFF; 9], &[1, 0], &[1, 0]].concat()), None, "longer than a file can be");
    assert_eq!(of(&[1, 5, 0x81, 0x80, 0x80, 0x80, 0x10, 4]), None, "a group that there cannot be");
    assert_eq!(BlockStamps::decode(&[2, 1, b'p', 3, 1, 5, 1, 4]), None, "another form");
}

#[test]
fn those_of_another_table_do_not_fit() {
    let stamps = built(&[(vec![stamp(0, 300)], false), (vec![None], false)]).unwrap();
    assert!(stamps.fits(2, 2 * LEN));
    assert!(!stamps.fits(3, 2 * LEN) && !stamps.fits(2, 2 * LEN + 1) && !stamps.fits(0, 0));
}

fn entry() -> impl Strategy<Value = Option<Stamp>> {
    let timed = (0u32..3, prop_oneof![0u64..100, 0u64..5_000_000]);
    prop_oneof![30 => timed.prop_map(|(group, seconds)| stamp(group / 2, seconds)), 1 => Just(None)]
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let block = || (prop::collection::vec(entry(), 1..3), prop::bool::weighted(0.02));
    prop_oneof![prop::collection::vec(block(), 0..40), prop::collection::vec(block(), 1_000..2_000)]
}

proptest! {
    /// No block counts as expired with a row that is not, and nothing changes by being stored.
    #[test]
    fn what_counts_as_expired_is(blocks in blocks(), bounds in prop::collection::vec(0u64..6_000_000, 1..5)) {
        let Some(stamps) = built(&blocks) else { return Ok(()) };
        prop_assert!(stamps.stretches.len() <= MAX_STRETCHES && stamps.fits(blocks.len() as u64, blocks.len() as u64 * LEN));
        prop_assert_eq!(BlockStamps::decode(&stamps.encode()), Some(stamps.clone()));
        for (number, (entries, goes_on)) in blocks.iter().enumerate() {
            let Some(latest) = latest(&stamps, number as u64) else { continue };
            prop_assert!(!goes_on);
            for bound in &bounds {
                let is_expired = |entry: &Option<Stamp>| entry.is_some_and(|stamp| stamp.group == latest.group && stamp.seconds <= *bound);
                prop_assert!(latest.seconds > *bound || entries.iter().all(is_expired), "block {}", number);
            }
        }
    }

    /// Where there are few blocks, each is told of as it is.
    #[test]
    fn of_few_blocks_nothing_is_lost(blocks in prop::collection::vec(prop::collection::vec(entry(), 1..3), 1..100)) {
        let blocks: Vec<Block> = blocks.into_iter().map(|entries| (entries, false)).collect();
        let Some(stamps) = built(&blocks) else { return Ok(()) };
        for (number, (entries, _)) in blocks.iter().enumerate() {
            let one = entries.iter().copied().reduce(|one, other| {
                let (one, other) = (one?, other?);
                (one.group == other.group).then(|| one.max(other))
            });
            prop_assert_eq!(latest(&stamps, number as u64), one.flatten());
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = BlockStamps::decode(&bytes);
    }
}
