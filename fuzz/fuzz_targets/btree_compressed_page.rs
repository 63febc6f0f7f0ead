//! Any bytes as a page of the B-tree that is stored compressed.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_btree::testing::fuzz("btree_compressed_page", data));
