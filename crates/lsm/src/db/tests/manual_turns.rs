//! Who asks for a compaction gets it, whatever is due all the time.

use super::basics::options;
use crate::{ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FlushOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;
use std::time::Duration;

/// Keeps everything, and takes its time for it.
#[derive(Debug)]
struct KeepSlowly(Arc<ManualClock>);

impl EntryFilter for KeepSlowly {
    fn name(&self) -> &str {
        "keep slowly"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        self.0.advance(Duration::from_millis(20));
        Decision::Keep
    }
}

/// Tables are due again before those beside them are rewritten: some of the range are always being compacted.
#[test]
fn compact_range_ends_beside_upkeep_that_is_always_due() {
    let disk = SimDisk::new();
    let clock = Arc::new(ManualClock::new(1_700_000_000));
    let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
    executor.limit_steps(10);
    let family = ColumnFamilyOptions::default()
        .compression(CompressionType::None)
        .target_file_size_base(8 << 10)
        .compaction_filter(Some(Arc::new(KeepSlowly(clock))));
    let options = options(&disk).executor(Some(executor)).max_background_jobs(8);
    let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
    for number in 0..1_000_u32 {
        db.put(number.to_be_bytes(), [7; 80]).unwrap();
    }
    db.flush(&FlushOptions::default()).unwrap();
    let everything = CompactRangeOptions::default().force_bottommost(true);
    db.compact_range(&db.default_family(), None, None, &everything).unwrap();
    assert!(db.table_files(&db.default_family()).unwrap().len() > 8);
    db.set_options(&db.default_family(), &[("periodic_compaction_seconds", "1")]).unwrap();
    db.compact_range(&db.default_family(), None, None, &everything).unwrap();
    assert_eq!(db.get(7_u32.to_be_bytes()).unwrap().as_deref(), Some(&[7; 80][..]));
    db.close().unwrap();
}
