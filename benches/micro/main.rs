//! Microbenchmarks: a module for each structure, and one for the rows of each engine.
//!
//! `cargo bench --bench micro [-- WORD]`: those in whose name the word is, such as `bloom`, or `"rows of the LSM-tree"`.

mod block;
mod bloom;
mod btree;
mod cache;
mod coding;
mod lsm;
mod merge;
mod range_deletes;
mod rows;
mod skiplist;

use criterion::criterion_main;

criterion_main!(
    block::benches,
    bloom::benches,
    btree::benches,
    cache::benches,
    coding::benches,
    lsm::benches,
    merge::benches,
    range_deletes::benches,
    skiplist::benches
);
