//! Any bytes as the file EXPIRY.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz("expiry", data));
