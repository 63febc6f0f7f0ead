//! Random operations under random options against a BTreeMap.
//!
//! The whole engine runs on one thread: files on the simulated disk, jobs on the step executor in an order that a seed
//! decides. After every flush, compaction and reopening the whole tree is checked; at the end every key, every live
//! snapshot and both directions are compared with the model.
//!
//! Runs a fixed seed and a fresh one. `SILTSTONE_SEED=N` replays a printed seed, `SILTSTONE_CASES=N` sets how many cases each
//! runs.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod model_support;

use model_support::options;
use model_support::world::{Op, World};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::hash::{BuildHasher, Hasher};

/// Keys are drawn from few, so that each has many versions.
const KEYS: u16 = 48;
const FAMILIES: u8 = 3;

fn op() -> impl Strategy<Value = Op> {
    let family = 0..FAMILIES;
    let key = 0..KEYS;
    prop_oneof![
        24 => (family.clone(), key.clone(), 0..400_u16, any::<bool>())
            .prop_map(|(family, key, len, sync)| Op::Put { family, key, len, sync }),
        8 => (family.clone(), key.clone()).prop_map(|(family, key)| Op::Delete { family, key }),
        10 => (family.clone(), key.clone(), 0..40_u16).prop_map(|(family, key, len)| Op::Merge { family, key, len }),
        6 => (family.clone(), key.clone(), 0..KEYS).prop_map(|(family, low, high)| Op::DeleteRange { family, low, high }),
        6 => vec((family.clone(), key.clone(), 0..200_u16), 1..12).prop_map(Op::Batch),
        2 => (0..FAMILIES, 0..KEYS, 1..60_u16).prop_map(|(family, first, count)| Op::PutRun { family, first, count }),
        5 => (family.clone(), key.clone()).prop_map(|(family, key)| Op::Get { family, key }),
        3 => (family.clone(), key.clone(), any::<bool>()).prop_map(|(family, key, back)| Op::Walk { family, key, back }),
        2 => (family.clone(), key.clone(), 0..KEYS).prop_map(|(family, low, high)| Op::Bounded { family, low, high }),
        3 => (family.clone(), any::<bool>()).prop_map(|(family, refresh)| Op::Hold { family, refresh }),
        2 => Just(Op::Snapshot),
        2 => any::<u8>().prop_map(Op::Release),
        3 => family.clone().prop_map(Op::Flush),
        2 => (family.clone(), proptest::option::of(0..KEYS), proptest::option::of(0..KEYS), any::<bool>())
            .prop_map(|(family, begin, end, force)| Op::Compact { family, begin, end, force }),
        2 => Just(Op::Settle),
        1 => (1..FAMILIES).prop_map(Op::DropAndCreate),
        3 => family.clone().prop_map(Op::SetOptions),
        1 => Just(Op::Reopen),
        1 => (0..30_u8).prop_map(Op::Step),
    ]
}

fn cases() -> u32 {
    std::env::var("SILTSTONE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

fn run(seed: u64) {
    println!("seed {seed} (replay with SILTSTONE_SEED={seed})");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: cases(), failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let input = (any::<u64>(), vec(op(), 1..160));
    runner
        .run(&input, |(options_seed, ops)| {
            let mut world = World::new(options_seed);
            for op in &ops {
                world.apply(op);
            }
            world.compare_everything();
            world.close();
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
}

#[test]
fn random_operations_under_random_options_match_a_map_with_a_fixed_seed() {
    run(20_170_314);
}

#[test]
fn random_operations_under_random_options_match_a_map_with_a_fresh_seed() {
    let fresh = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    run(std::env::var("SILTSTONE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(fresh));
}

#[test]
fn every_public_option_is_drawn_or_excused_with_a_reason() {
    let drawn = options::names_drawn();
    let excused = options::EXCUSED;
    let all: Vec<&str> = options::all_names();
    for name in &all {
        let is_excused = excused.iter().any(|(other, reason)| other == name && !reason.is_empty());
        assert!(drawn.contains(*name) != is_excused, "option {name} must be drawn or excused, and not both");
    }
    assert!(excused.len() * 20 <= all.len(), "{} of {} options are excused: more than 5 %", excused.len(), all.len());
    println!("{} options, {} drawn, {} excused", all.len(), drawn.len(), excused.len());
}
