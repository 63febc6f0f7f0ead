//! Tests of iterators over several sources.

mod expired_blocks;
mod level;
mod merging;
mod vec_iter;
