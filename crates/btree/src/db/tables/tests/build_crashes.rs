//! Pages of an index that the catalog does not name yet: what waits for them, and what the log says of them when a crash comes.

use super::super::super::tests::{new_disk, open_on, options};
use super::build::{Moody, with};
use super::build_online::Meanwhile;
use super::{row, rows, stones};
use crate::{ChangeBuffering, Counter, Durability, ErrorKind};
use siltstone_base::engine::TableSpec;
use siltstone_base::env::sim::{CrashConfig, CrashStates};
use siltstone_base::index_spec::IndexSpec;
use std::sync::Arc;

/// Leaves that are not in memory get entries that wait for them, before the catalog knows the index.
#[test]
fn entries_of_an_index_that_is_not_there_yet_may_wait_for_its_pages() {
    for fails in [false, true] {
        let disk = new_disk();
        let options = options().change_buffering(ChangeBuffering::All).redo_capacity_bytes(1 << 20);
        let db = Arc::new(open_on(&disk, &options).unwrap());
        let table = db.create_table(&with(0)).unwrap();
        let value = |number: usize| format!("{:04}", number * 7919 % 10_000);
        for number in 0..3_000 {
            db.insert(table, &[row(&format!("{number:04}"), &value(number))]).unwrap();
        }
        let before = db.0.spaces.all();
        let changed = Arc::clone(&db);
        let moody = IndexSpec::new("moody", Arc::new(Moody::default()));
        let index = Meanwhile::index(moody, move || {
            for number in (0..3_000).step_by(7) {
                let (key, old, new) = (format!("{number:04}"), value(number), value(number + 5_000));
                changed.update_rows(table, &[(row(&key, &old), row(&key, &new))]).unwrap();
            }
            if fails {
                changed.insert(table, &[row("last", "long")]).unwrap();
            }
        });
        let kept = db.metrics().get(Counter::ChangeBufferOps);
        let outcome = db.add_index(table, &index);
        assert!(db.metrics().get(Counter::ChangeBufferOps) > kept, "some wait");
        if fails {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::LimitExceeded);
            assert_eq!(db.0.spaces.all(), before);
            db.check().unwrap();
            db.delete_rows(table, &[row("last", "long")]).unwrap();
            assert_eq!(db.add_index(table, &index).unwrap(), 0);
        }
        db.check().unwrap();
        db.merge_changes().unwrap();
        assert_eq!(db.check().unwrap().index_entries, 3_000);
        db.close().unwrap();
    }
}

/// Rows change while the index is built, so that the log says what became of its pages before the catalog names it.
#[test]
fn no_crash_leaves_half_an_index_or_its_pages() {
    const ROWS: usize = 120;
    let index = IndexSpec::over_columns("by_number", Some(2..5)).unique(true);
    let grown = TableSpec { indexes: vec![stones().indexes.swap_remove(0), index.clone()], ..stones() };
    let value = |number: usize| format!("k{}{:03}", number % 7, number * 97 % 1000);
    for durability in [Durability::Os, Durability::Commit] {
        let options = options().durability(durability);
        let disk = new_disk();
        let db = Arc::new(open_on(&disk, &options).unwrap());
        let table = db.create_table(&with(1)).unwrap();
        for number in 0..ROWS {
            db.insert(table, &[row(&format!("{number:03}"), &value(number))]).unwrap();
        }
        db.flush().unwrap();
        let without = db.0.spaces.all().len();
        disk.start_recording();
        let changed = Arc::clone(&db);
        let building = Meanwhile::index(index.clone(), move || {
            for number in 0..ROWS {
                let (key, old, new) = (format!("{number:03}"), value(number), value(number + 300));
                let old = row(&key, &old);
                match number % 3 {
                    0 => changed.delete_rows(table, &[old]).unwrap(),
                    // Too short for the index: the entry goes.
                    1 => changed.update_rows(table, &[(old, row(&key, "zzz"))]).unwrap(),
                    _ => changed.insert(table, &[row(&format!("new{key}"), &new)]).unwrap(),
                }
            }
        });
        let redo = db.metrics().get(Counter::RedoBytes);
        assert_eq!(db.add_index(table, &building).unwrap(), 1);
        assert!(db.metrics().get(Counter::RedoBytes) > redo);
        let (added, expected) = (disk.recorded(), rows(&db, table));
        db.flush().unwrap();
        let recording = disk.take_recording();
        drop((db, building));
        let config = CrashConfig {
            every: 3,
            states_per_cut: 12,
            random_subsets: 4,
            tail_cuts: 3,
            tears: 3,
            ..CrashConfig::default()
        };
        let (mut states, mut with_index) = (0, 0);
        for state in CrashStates::new(&recording, config) {
            let Some(disk) = state.disk() else { continue };
            let at = format!("cut {} ({:?}), {:?}", state.cut, state.op, state.model);
            let db = open_on(&disk, &options).unwrap_or_else(|error| panic!("{at}: {error}"));
            let is_there = db.open_table(&grown).is_ok();
            if !is_there {
                assert!(state.cut < added, "{at}: an index that was added is gone");
                db.open_table(&with(1)).unwrap();
            }
            assert_eq!(db.0.spaces.all().len(), without + usize::from(is_there), "{at}");
            db.check().unwrap_or_else(|error| panic!("{at}: {error}"));
            if is_there {
                assert_eq!(rows(&db, table), expected, "{at}");
            } else if states % 8 == 0 {
                db.add_index(table, &index).unwrap();
                db.check().unwrap();
                db.close().unwrap();
            }
            states += 1;
            with_index += usize::from(is_there);
        }
        assert!(states > 100 && (1..states).contains(&with_index), "{with_index} of {states}");
    }
}
