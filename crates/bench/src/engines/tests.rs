//! The engines that are made here keep what every engine keeps.

use super::{KvTables, MemoryEngine};
use siltstone_base::engine::Tables;
use siltstone_base::engine::conformance_tables::{check_added_indexes, check_tables};
use std::path::Path;

#[test]
fn the_model_and_tables_over_it_keep_what_every_engine_of_tables_keeps() {
    check_tables(&|_| Ok(Box::new(MemoryEngine::new()) as Box<dyn Tables>), Path::new("."));
    check_added_indexes(&|_| Ok(Box::new(MemoryEngine::new()) as Box<dyn Tables>), Path::new("."));
    check_tables(&|_| Ok(Box::new(KvTables::new(MemoryEngine::new())) as Box<dyn Tables>), Path::new("."));
}
