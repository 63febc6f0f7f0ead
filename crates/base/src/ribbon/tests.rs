//! Filters that forget nothing, err as seldom as promised, and answer to any bytes.

use super::*;
use crate::checksum::xxph3;
use proptest::prelude::*;

fn hashes(keys: std::ops::Range<u64>) -> Vec<u64> {
    keys.map(|key| xxph3(&key.to_be_bytes())).collect()
}

fn shape(built: &RibbonBytes) -> RibbonShape {
    RibbonShape::new(built.segments.len(), built.seed, built.blocks).expect("a shape")
}

#[test]
fn equations_are_those_of_the_format() {
    // Made by arithmetic on integers without bounds, from the description of the format.
    let seeds = [(0, 0), (1, 0x3de4_d003), (2, 0x7ad8_b106), (255, 0xa1fd_27f2)];
    for (seed, spread) in seeds {
        assert_eq!(spread_seed(seed), spread, "{seed}");
    }
    let equation = Equation::of(xxph3(b"abc"), spread_seed(7), starts_of(10));
    assert_eq!(equation.start, 1108);
    assert_eq!(equation.coefficients, 0x0f7a_5795_2b68_65dc_cc1d_d3df_453a_16c1);
    assert_eq!(equation.expected, 0x9557_7a0f);
}

#[test]
fn nothing_is_forgotten_and_false_answers_are_as_rare_as_promised() {
    for (keys, one_in) in [(1_u64, 100.0), (150, 2.0), (1000, 20.0), (5000, 118.0), (20_000, 118.0), (20_000, 900.0)] {
        let added = hashes(0..keys);
        let built = build(&added, one_in).expect("a filter");
        assert_eq!(built.segments.len(), finished_len(added.len(), one_in));
        let shape = shape(&built);
        assert!(added.iter().all(|hash| shape.may_match(&built.segments, *hash)), "{keys} keys");
        let asked = 100_000;
        let wrong = hashes(1 << 40..(1 << 40) + asked);
        let wrong = wrong.iter().filter(|hash| shape.may_match(&built.segments, **hash)).count();
        let promised = asked as f64 / one_in;
        assert!(
            (wrong as f64) < promised * 1.1 + 3.0 * promised.sqrt(),
            "{keys} keys: {wrong} of {asked}, one in {one_in}"
        );
        assert!(
            (wrong as f64) > promised * 0.8 - 4.0 * promised.sqrt(),
            "{keys} keys: {wrong} of {asked}, one in {one_in}"
        );
    }
}

#[test]
fn a_filter_that_is_built_in_pieces_is_the_same() {
    for keys in [1, 100, 5000, 40_000] {
        let added = hashes(0..keys);
        let mut build_in_pieces = RibbonBuild::new(&added, 118.0).unwrap();
        let mut pieces = 0;
        let filter = loop {
            pieces += 1;
            match build_in_pieces.step(&added, &mut || true) {
                RibbonProgress::More => {}
                RibbonProgress::Done(filter) => break filter,
                RibbonProgress::Impossible => panic!("{keys} keys"),
            }
        };
        assert!(pieces > keys / 5000, "{pieces} pieces of {keys} keys");
        assert_eq!(Some(filter), build(&added, 118.0), "{keys}");
    }
}

#[test]
fn a_filter_takes_a_tenth_more_than_the_least_possible() {
    for (keys, one_in) in [(20_000_usize, 118.0_f64), (20_000, 1000.0), (1 << 20, 118.0)] {
        let least = keys as f64 * one_in.log2() / 8.0;
        let len = finished_len(keys, one_in) as f64;
        assert!(len > least && len < least * 1.1, "{keys} keys, one in {one_in}: {len} bytes, {least} at least");
    }
    assert_eq!(finished_len(1000, f64::INFINITY), finished_len(1000, 1e12));
    assert!(finished_len(1, 0.0) > 0);
}

#[test]
fn the_same_key_twice_is_no_contradiction() {
    let mut added = hashes(0..500);
    added.extend(hashes(0..500));
    let built = build(&added, 50.0).expect("a filter");
    assert!(added.iter().all(|hash| shape(&built).may_match(&built.segments, *hash)));
}

#[test]
fn equations_beyond_the_slots_are_given_up() {
    let mut banding = Banding::new(2);
    assert!(!banding.add_all(&hashes(0..300), spread_seed(0)), "300 equations do not fit into 256 slots");
    banding.clear();
    assert!(banding.add_all(&hashes(0..100), spread_seed(0)));
    assert_eq!(build(&[], 100.0), None);
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    assert!(RibbonShape::new(32, 0, 2).is_some());
    assert!(RibbonShape::new(0, 0, 2).is_some(), "no columns: every key matches");
    assert!(RibbonShape::new(0, 0, 2).is_some_and(|shape| shape.may_match(&[], 1)));
    for (len, blocks) in [(32, 0), (32, 1), (33, 2), (16 * 65, 2), (32, 1 << 24)] {
        assert_eq!(RibbonShape::new(len, 0, blocks), None, "{len} bytes, {blocks} blocks");
    }
}

proptest! {
    #[test]
    fn what_was_added_matches(one_in in 0.5_f64..1e10, added in prop::collection::vec(any::<u64>(), 1..600)) {
        let built = build(&added, one_in).expect("a filter");
        let shape = shape(&built);
        prop_assert!(added.iter().all(|hash| shape.may_match(&built.segments, *hash)));
    }

    #[test]
    fn any_bytes_answer(bytes: Vec<u8>, seed: u8, blocks in 0_u32..6, cut: usize, hash: u64) {
        let whole = bytes.len() - bytes.len() % 16;
        if let Some(shape) = RibbonShape::new(whole, seed, blocks) {
            let _ = shape.may_match(&bytes[..whole], hash);
            let _ = shape.may_match(&bytes[..cut % (whole + 1)], hash);
        }
    }
}
