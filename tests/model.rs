//! Random operations under random options against a BTreeMap.
//!
//! The whole engine runs on one thread: files on the simulated disk, jobs on the step executor in an order that a seed
//! decides, a drawn number of entries a step: so operations come between any two yield points of a job. After every flush, compaction, reopening
//! and crash the whole tree is checked; at the end every key, every live snapshot and both directions are compared with the model.
//!
//! Runs a fixed seed and a fresh one. `SILTSTONE_SEED=N` replays a printed seed, `SILTSTONE_CASES=N` sets how many cases each
//! runs.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a test")]

mod model_support;

use model_support::options;
use model_support::world::{Op, Tally, World};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::RefCell;
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
        1 => (family.clone(), key.clone(), 0..KEYS).prop_map(|(family, low, high)| Op::DeleteFiles { family, low, high }),
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
        1 => (proptest::option::of(family), 0..30_u8, any::<bool>())
            .prop_map(|(flush, steps, loses_power)| Op::Crash { flush, steps, loses_power }),
        3 => (0..30_u8).prop_map(Op::Step),
    ]
}

/// All that is drawn; a failure prints it.
#[derive(Debug, Clone)]
struct Case {
    options_seed: u64,
    /// The most that a step of a job does, about an entry a unit; `None`: as far as its budget goes.
    step_units: Option<u32>,
    ops: Vec<Op>,
}

fn case() -> impl Strategy<Value = Case> {
    let step_units = select(&[None, Some(1), Some(3), Some(10), Some(60)]);
    let drawn = (any::<u64>(), step_units, vec(op(), 1..160));
    drawn.prop_map(|(options_seed, step_units, ops)| Case { options_seed, step_units, ops })
}

/// Fewer cases may by chance have none of what the tally counts.
const CASES: u32 = 1_000;

fn cases() -> u32 {
    std::env::var("SILTSTONE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

fn run(seed: u64) {
    println!("seed {seed} (replay with SILTSTONE_SEED={seed})");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        max_shrink_time: 120_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tally = RefCell::new(Tally::default());
    runner
        .run(&case(), |Case { options_seed, step_units, ops }| {
            let mut world = World::new(options_seed, step_units);
            for op in &ops {
                world.apply(op);
            }
            world.compare_everything();
            tally.borrow_mut().add(&world.close());
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let tally = tally.into_inner();
    println!("{tally:?}");
    assert!(cases() < CASES || tally.is_complete(), "something is hardly ever tried: {tally:?}");
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
