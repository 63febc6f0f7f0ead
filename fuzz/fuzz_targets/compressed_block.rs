//! Any bytes as a compressed block.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz("compressed_block", data));
