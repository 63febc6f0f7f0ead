//! Any bytes as the file that says what a directory of the B-tree is.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_btree::testing::fuzz("btree_identity", data));
