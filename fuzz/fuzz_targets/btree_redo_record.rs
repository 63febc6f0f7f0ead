//! Any bytes as the entries of a record of the redo log.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| siltstone_btree::testing::fuzz("btree_redo_record", data));
