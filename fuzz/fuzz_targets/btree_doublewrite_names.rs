//! Any bytes as a slot of the doublewrite file.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_btree::testing::fuzz("btree_doublewrite_names", data));
