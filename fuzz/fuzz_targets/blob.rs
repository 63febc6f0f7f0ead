//! Any bytes as a reference to a blob and the file that it leads into.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_lsm::testing::fuzz("blob", data));
