//! Any bytes as the stamps of a table.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz("stamps", data));
