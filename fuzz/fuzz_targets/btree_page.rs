//! Any bytes as a page of the B-tree.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_btree::testing::fuzz("btree_page", data));
