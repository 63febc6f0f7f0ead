//! FIFO deletes the oldest files with all that they have: of a row and its entries, what was written first.

use super::*;
use crate::options::{CompactionStyle, CompressionType, FifoCompactionOptions};
use siltstone_base::engine::Admin;
use siltstone_base::env::{Env, PosixEnv};

/// Keeps so many bytes of the newest files.
const KEPT: u64 = 16 << 10;

fn fifo() -> ColumnFamilyOptions {
    let few = FifoCompactionOptions::default().max_table_files_size(KEPT);
    ColumnFamilyOptions::default().compaction_style(CompactionStyle::Fifo).compaction_options_fifo(few)
}

const TO_FIFO: [(&str, &str); 2] =
    [("compaction_style", "kCompactionStyleFIFO"), ("compaction_options_fifo.max_table_files_size", "1")];

#[test]
fn rows_are_not_opened_where_fifo_would_take_their_old_entries() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let refused = || {
        let swept = TableDb::open_swept(dir.path(), &options, &fifo(), &WriteOptions::default(), &Default::default());
        for opened in [TableDb::open(dir.path(), &options, &fifo(), &WriteOptions::default()), swept] {
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().starts_with("compaction_style: FIFO "), "{error}");
        }
    };
    refused();
    assert!(PosixEnv::new().list_dir(dir.path()).unwrap().is_empty(), "nothing is begun");
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("1", "abc")]);
    db.close().unwrap();
    refused();
    let db = open(dir.path());
    let table = db.open_table(&spec("t", 1)).unwrap();
    assert_eq!(scan(&db, table, 0, "", 9), ["ab1"]);
}

/// An update leaves an entry alone that stays the same: it is in an older file than its row.
#[test]
fn a_row_whose_entry_is_in_an_old_file_keeps_it_whatever_options_are_set() {
    for in_background in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = DbOptions::default().create_if_missing(true);
        let rows = ColumnFamilyOptions::default().disable_auto_compactions(true);
        let sweeps = SweepOptions::default().in_background(in_background);
        let db = TableDb::open_swept(dir.path(), &options, &rows, &WriteOptions::default(), &sweeps).unwrap();
        let table = db.create_table(&spec("t", 1)).unwrap();
        insert(&db, table, &[("1", "abc")]);
        Admin::flush(&db).unwrap();
        for family in [&db.ground.rows, &db.system] {
            let error = db.db().set_options(family, &TO_FIFO).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().starts_with("compaction_style: FIFO "), "{error}");
            assert_eq!(family.options().compaction_options_fifo.max_table_files_size, 1 << 30, "nothing changes");
        }
        db.update(table, &[(row("1", "abc"), row("1", "abd"))]).unwrap();
        Admin::flush(&db).unwrap();
        db.db().set_options(&db.ground.rows, &[("disable_auto_compactions", "false")]).unwrap();
        Admin::settle(&db).unwrap();
        assert_eq!(by(&db, table, 0, &IndexScan::all()), "ab:1=abd");
        assert!(db.check_table(table).unwrap().iter().all(|check| check.is_sound() && check.missing == 0));
        // The other styles keep everything.
        db.db().set_options(&db.ground.rows, &[("compaction_style", "kCompactionStyleUniversal")]).unwrap();
        assert_eq!(db.ground.rows.options().compaction_style, CompactionStyle::Universal);
    }
}

#[test]
fn a_family_beside_the_tables_may_be_a_cache() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let cache = db.db().create_family("cache", &fifo()).unwrap();
    db.db().set_options(&cache, &[("compaction_style", "kCompactionStyleLevel")]).unwrap();
    db.db().set_options(&cache, &TO_FIFO).unwrap();
}

/// Why all of that is: the directory is opened behind the tables' back.
#[test]
fn what_fifo_leaves_is_a_row_without_its_entry() {
    let dir = tempfile::tempdir().unwrap();
    let rows = ColumnFamilyOptions::default().compression(CompressionType::None);
    let db = open_with(dir.path(), &DbOptions::default().create_if_missing(true), &rows);
    let table = db.create_table(&spec("t", 1)).unwrap();
    insert(&db, table, &[("0", &"x".repeat(KEPT as usize)), ("1", "abc")]);
    Admin::flush(&db).unwrap();
    db.update(table, &[(row("1", "abc"), row("1", "abd"))]).unwrap();
    let system = db.system.name().to_owned();
    db.close().unwrap();
    let families = [("default", fifo()), (&*system, ColumnFamilyOptions::default())];
    let behind = Db::open_families(dir.path(), &DbOptions::default(), &families).unwrap();
    behind.flush(&FlushOptions::default()).unwrap();
    behind.wait_for_background_work().unwrap();
    behind.close().unwrap();
    let db = open(dir.path());
    let table = db.open_table(&spec("t", 1)).unwrap();
    assert_eq!(get(&db, table, "0"), None);
    assert_eq!(get(&db, table, "1").as_deref(), Some("abd"));
    assert_eq!(by(&db, table, 0, &IndexScan::all()), "");
    assert_eq!(db.check_table(table).unwrap()[0].missing, 1);
}
