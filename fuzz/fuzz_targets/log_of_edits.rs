//! Any bytes as the version edits of a log whose checksums are right.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz("log_of_edits", data));
