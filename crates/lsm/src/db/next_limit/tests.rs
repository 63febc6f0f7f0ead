//! Distances to limits, from a script and of a database.

use super::{Distance, next_limits};
use crate::db::write_stall::Pressure;
use crate::options::CompactionStyle;
use crate::{ColumnFamilyOptions, Db, DbOptions, FlushOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use siltstone_base::script::{Command, run_file};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// Sizes are in MiB.
fn run(command: &Command) -> String {
    assert_eq!(command.name, "distance");
    let mib = |name: &str| command.get_or(name, 0_u64) * MIB;
    let options = ColumnFamilyOptions::default()
        .write_buffer_size(64 << 20)
        .max_write_buffer_number(command.get_or("buffers", 2))
        .level0_file_num_compaction_trigger(4)
        .level0_slowdown_writes_trigger(20)
        .level0_stop_writes_trigger(36)
        .soft_pending_compaction_bytes_limit(command.get_or("soft", 65_536_u64) * MIB)
        .hard_pending_compaction_bytes_limit(command.get_or("hard", 262_144_u64) * MIB)
        .disable_auto_compactions(command.has("idle"))
        .compaction_style(if command.has("fifo") { CompactionStyle::Fifo } else { CompactionStyle::Leveled });
    let distance = Distance {
        pressure: Pressure {
            immutable_memtables: command.get_or("sealed", 0),
            l0_files: command.get_or("files", 0),
            pending_compaction_bytes: mib("pending"),
        },
        level0_count: command.get_or("files", 0),
        active_bytes: mib("active"),
        sealed_bytes: command.get_or("sealed", 0_u64) * 64 * MIB,
        shared_room: command.has("shared").then(|| mib("shared")),
        amplification: command.get_or("amplification", 0.0),
        only_stops: !command.has("rocksdb"),
    };
    next_limits(&distance, &options).iter().map(|limit| format!("{limit}\n")).collect()
}

#[test]
fn limits_are_as_far_as_the_script_says() {
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/next_limit"), run);
}

#[test]
fn a_database_says_how_far_its_next_limit_is() {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let options = DbOptions::default()
        .create_if_missing(true)
        .env(Some(SimDisk::new().env()))
        .executor(Some(executor))
        .unnamed_families(ColumnFamilyOptions::default().write_buffer_size(1 << 20));
    let db = Db::open("/db", &options).unwrap();
    let next = || db.metrics_table(&db.default_family()).next_limit.unwrap().bytes;
    let before = next();
    assert!((MIB..=2 * MIB).contains(&before), "{before}");
    for number in 0..500_u64 {
        db.put(number.to_be_bytes(), [1; 1000]).unwrap();
    }
    let after = next();
    assert!((400_000..700_000).contains(&(before - after)), "{before} to {after}");
    let text = db.property("siltstone.pacing").unwrap();
    assert!(text.starts_with("memtable limit stops writers in 1.") && text.ends_with("writers are free\n"), "{text}");
    assert_eq!(db.property("siltstone.io-rate").unwrap(), "0");
}

/// Few runs are no pressure in the universal style, but the next file makes them count: it said that 36 files were far when 32 were.
#[test]
fn the_limit_of_a_universal_database_does_not_jump_nearer_with_one_more_file() {
    let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000))));
    let family = ColumnFamilyOptions::default()
        .compaction_style(CompactionStyle::Universal)
        .level0_file_num_compaction_trigger(8)
        .write_buffer_size(1 << 20)
        // The limit of memtables is farther.
        .max_write_buffer_number(64);
    let options = DbOptions::default()
        .create_if_missing(true)
        .env(Some(SimDisk::new().env()))
        .executor(Some(executor))
        .unnamed_families(family);
    let db = Db::open("/db", &options).unwrap();
    let mut nearer = Vec::new();
    for number in 0..6_u8 {
        nearer.push(db.metrics_table(&db.default_family()).next_limit.unwrap().bytes / MIB);
        db.put([number], b"value").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
    }
    let steps: Vec<u64> = nearer.windows(2).map(|pair| pair[0] - pair[1]).collect();
    assert_eq!(steps, [1; 5], "one file each: {nearer:?}");
}
