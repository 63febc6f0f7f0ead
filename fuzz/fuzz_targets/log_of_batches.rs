//! Any bytes as the write batches of a log whose checksums are right.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz("log_of_batches", data));
