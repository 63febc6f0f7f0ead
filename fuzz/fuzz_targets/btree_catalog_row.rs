//! Any bytes as rows of the B-tree's catalog.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_btree::testing::fuzz("btree_catalog_row", data));
