//! Random cases by a seed that can be given again.
#![allow(clippy::print_stdout, reason = "a failure is run again by what was printed")]

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::hash::{BuildHasher, Hasher};

/// What CI always runs.
pub const FIXED: u64 = 20_190_605;

/// `SILTSTONE_SEED`, or one that nobody had before.
pub fn fresh() -> u64 {
    let drawn = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    std::env::var("SILTSTONE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(drawn)
}

/// What runs as many cases as `SILTSTONE_CASES` says, or `cases`, as `seed` draws them; says how they are run again.
pub fn runner(seed: u64, cases: u32) -> TestRunner {
    println!("seed {seed} (replay with SILTSTONE_SEED={seed})");
    let cases = std::env::var("SILTSTONE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(cases);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 500,
        max_shrink_time: 120_000,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
