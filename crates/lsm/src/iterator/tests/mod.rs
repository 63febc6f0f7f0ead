//! Tests of iterators over several sources.

mod level;
mod merging;
mod vec_iter;
