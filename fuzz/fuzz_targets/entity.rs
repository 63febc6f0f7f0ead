//! Any bytes as a wide-column entity.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz("entity", data));
