//! Tables: rows and their entries.

mod build;
mod build_beside;
mod build_crashes;
mod build_faults;
mod build_online;
mod build_writers;
mod scan;
mod transactions;
mod unreadable;

use crate::{Counter, Db, DbOptions, Doublewrite, Durability, ErrorKind, TransactionOptions};
use siltstone_base::engine::{Row, RowChange, TableId, TableSpec};
use siltstone_base::index_spec::{IndexExtractor, IndexSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn small() -> DbOptions {
    DbOptions::default()
        .create_if_missing(true)
        .page_size(512)
        .buffer_pool_bytes(1 << 20)
        .redo_capacity_bytes(4 << 20)
        .durability(Durability::Os)
}

/// The first two bytes of a row's value in an index that is not unique, the next two in one that is. A row that is too short has no entry.
fn stones() -> TableSpec {
    let by_kind = IndexSpec::over_columns("by_kind", Some(0..2));
    let by_number = IndexSpec::over_columns("by_number", Some(2..4)).unique(true).covering(false);
    TableSpec { name: "stones".to_owned(), indexes: vec![by_kind, by_number] }
}

fn row<'a>(primary_key: &'a str, value: &'a str) -> Row<'a> {
    Row { primary_key: primary_key.as_bytes(), value: value.as_bytes() }
}

fn entries(db: &Db, table: TableId, index: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |entry: &[u8]| found.push(String::from_utf8_lossy(entry).into_owned());
    db.scan_index(table, index, b"", usize::MAX, &mut note).unwrap();
    found
}

fn rows(db: &Db, table: TableId) -> Vec<String> {
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut note = |row: Row<'_>| found.push(format!("{}={}", text(row.primary_key), text(row.value)));
    db.scan_rows(table, b"", usize::MAX, &mut note).unwrap();
    found
}

#[test]
fn rows_have_their_entries_and_tables_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&stones()).unwrap();
    assert_eq!(db.create_table(&stones()).unwrap_err().kind(), ErrorKind::AlreadyExists);
    db.insert(table, &[row("a", "ig01 granite"), row("b", "me02 slate"), row("c", "ig03 basalt"), row("d", "x")])
        .unwrap();
    assert_eq!(entries(&db, table, 0), ["iga", "igc", "meb"]);
    assert_eq!(entries(&db, table, 1), ["01a", "02b", "03c"]);
    db.update_rows(table, &[(row("a", "ig01 granite"), row("a", "ig11 granite")), (row("d", "x"), row("d", "se04"))])
        .unwrap();
    db.delete_rows(table, &[row("c", "ig03 basalt")]).unwrap();
    // A row that gets another primary key.
    db.update_rows(table, &[(row("b", "me02 slate"), row("e", "me02 slate"))]).unwrap();
    let check = |db: &Db, table: TableId| {
        assert_eq!(rows(db, table), ["a=ig11 granite", "d=se04", "e=me02 slate"]);
        assert_eq!(
            (entries(db, table, 0), entries(db, table, 1)),
            (
                vec!["iga".to_owned(), "mee".to_owned(), "sed".to_owned()],
                vec!["02e".to_owned(), "04d".to_owned(), "11a".to_owned()],
            )
        );
        let report = db.check().unwrap();
        assert_eq!((report.tables, report.rows, report.index_entries, report.trees), (1, 3, 6, 4));
    };
    check(&db, table);
    assert_eq!(db.scan_index(table, 2, b"", 1, &mut |_| ()).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.tree_names(), ["default"], "the trees of a table are not for everyone");
    drop(db);
    let db = Db::open(dir.path(), &small()).unwrap();
    assert_eq!(db.get_row(table, b"a", &mut |_| ()).unwrap_err().kind(), ErrorKind::NotFound, "not opened yet");
    assert_eq!(db.table_names(), ["stones"]);
    let mut other = stones();
    other.indexes[0].unique = true;
    assert_eq!(db.open_table(&other).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.open_table(&stones()).unwrap(), table);
    check(&db, table);
    let mut value = Vec::new();
    assert!(db.get_row(table, b"e", &mut |bytes| value.extend_from_slice(bytes)).unwrap() && value == b"me02 slate");
    db.close().unwrap();
}

#[test]
fn a_batch_that_fails_leaves_rows_and_entries_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01"), row("b", "me02")]).unwrap();
    let kind = |outcome: crate::Result<()>| outcome.unwrap_err().kind();
    for snapshot in [false, true] {
        let cursor = snapshot.then(|| db.cursor().unwrap());
        assert_eq!(kind(db.insert(table, &[row("c", "ig03"), row("a", "ig04")])), ErrorKind::AlreadyExists);
        let error = db.insert(table, &[row("c", "ig03"), row("d", "ig02")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("stones.by_number") && error.to_string().contains("\"02\""), "{error}");
        assert_eq!(kind(db.insert(table, &[row("c", "ig03"), row("d", "ig03")])), ErrorKind::AlreadyExists);
        assert_eq!(kind(db.delete_rows(table, &[row("a", "ig01"), row("c", "ig03")])), ErrorKind::NotFound);
        assert_eq!(kind(db.delete_rows(table, &[row("a", "ig01"), row("b", "me03")])), ErrorKind::Busy);
        assert_eq!(kind(db.update_rows(table, &[(row("a", "ig01"), row("a", "ig02"))])), ErrorKind::AlreadyExists);
        assert_eq!(kind(db.insert(table, &[row(&"k".repeat(63), "ig09")])), ErrorKind::LimitExceeded);
        let many: Vec<_> = (0..100).map(|_| row("z", "ig09")).collect();
        assert_eq!(kind(db.insert(table, &many)), ErrorKind::LimitExceeded);
        assert_eq!(rows(&db, table), ["a=ig01", "b=me02"]);
        assert_eq!(
            (entries(&db, table, 0), entries(&db, table, 1)),
            (vec!["iga".to_owned(), "meb".to_owned()], vec!["01a".to_owned(), "02b".to_owned()],)
        );
        drop(cursor);
        db.check().unwrap();
    }
    // A key that one row gives up may be another's in the same batch.
    db.update_rows(table, &[(row("a", "ig01"), row("a", "ig05")), (row("b", "me02"), row("b", "me01"))]).unwrap();
    assert_eq!(entries(&db, table, 1), ["01b", "05a"]);
}

#[test]
fn whatever_goes_goes_before_anything_comes() {
    use RowChange::{Delete, Insert, Update};
    for snapshot in [false, true] {
        for durability in [Durability::Os, Durability::Commit] {
            let dir = tempfile::tempdir().unwrap();
            let db = Db::open(dir.path(), &small().durability(durability).max_version_bytes(0)).unwrap();
            let one = db.create_table(&stones()).unwrap();
            let two = db.create_table(&TableSpec { name: "others".to_owned(), ..stones() }).unwrap();
            db.insert(one, &[row("a", "ig01"), row("b", "me02"), row("c", "se03")]).unwrap();
            db.insert(two, &[row("a", "ig01")]).unwrap();
            let open = db.0.tables.get(one).unwrap();
            let view = snapshot.then(|| db.0.view(0, 0));
            // Unique keys are swapped, a primary key is taken over, and a row comes back as it was.
            let changes = [
                (one, Update(row("a", "ig01"), row("a", "ig02"))),
                (two, Delete(row("a", "ig01"))),
                (one, Update(row("b", "me02"), row("d", "me01"))),
                (one, Insert(row("b", "ig04"))),
                (two, Insert(row("a", "ig01"))),
                (one, Delete(row("c", "se03"))),
                (two, Insert(row("c", "se03"))),
                (one, Insert(row("c", "se03"))),
            ];
            db.commit_rows(&changes).unwrap();
            assert_eq!(rows(&db, one), ["a=ig02", "b=ig04", "c=se03", "d=me01"]);
            assert_eq!(entries(&db, one, 0), ["iga", "igb", "med", "sec"]);
            assert_eq!(entries(&db, one, 1), ["01d", "02a", "03c", "04b"]);
            assert_eq!(
                (rows(&db, two), entries(&db, two, 1)),
                (vec!["a=ig01".to_owned(), "c=se03".to_owned()], vec!["01a".to_owned(), "03c".to_owned()])
            );
            if let Some(view) = &view {
                assert_eq!(db.0.check_indexes(&open, view).unwrap(), 6, "as it was before");
            }
            // What fails in the last table leaves no trace in the first.
            let fails =
                [(one, Delete(row("a", "ig02"))), (one, Insert(row("e", "ig02"))), (two, Insert(row("d", "me01")))];
            assert_eq!(db.commit_rows(&fails).unwrap_err().kind(), ErrorKind::AlreadyExists);
            let twice = [(one, Delete(row("a", "ig02"))), (one, Update(row("a", "ig02"), row("f", "ig02")))];
            assert_eq!(db.commit_rows(&twice).unwrap_err().kind(), ErrorKind::InvalidArgument);
            assert_eq!((rows(&db, one).len(), entries(&db, one, 1)[1].as_str()), (4, "02a"));
            drop(view);
            db.0.settle();
            db.check().unwrap();
        }
    }
}

/// Panics, changes its mind, or fails, by the first byte of the value.
#[derive(Debug, Default)]
struct Moody(AtomicU64);

impl IndexExtractor for Moody {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        assert_ne!(value[0], b'p', "asked for");
        if value[0] == b'c' {
            index_key.extend_from_slice(&self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        }
        if value[0] == b't' {
            index_key.clear();
        }
        true
    }

    fn try_extract(&self, key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> crate::Result<bool> {
        if value.first().is_none_or(|first| *first == b'u') {
            return Err(siltstone_base::Error::corrupt("not a row"));
        }
        Ok(self.extract(key, value, index_key))
    }
}

#[test]
fn an_extractor_that_misbehaves_is_caught_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let moody = IndexSpec::new("moody", Arc::new(Moody::default()));
    let kind = IndexSpec::over_columns("kind", Some(0..1));
    let table = db.create_table(&TableSpec { name: "t".to_owned(), indexes: vec![kind, moody] }).unwrap();
    db.insert(table, &[row("1", "good")]).unwrap();
    for (value, kind) in [
        ("panics", ErrorKind::Poisoned),
        ("changes", ErrorKind::InvalidArgument),
        ("takes away", ErrorKind::InvalidArgument),
        ("undecodable", ErrorKind::Corruption),
    ] {
        for outcome in [
            db.insert(table, &[row("2", value)]),
            db.delete_rows(table, &[row("1", value)]),
            db.update_rows(table, &[(row("1", "good"), row("1", value))]),
        ] {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), kind, "{value}: {error}");
            assert!(error.to_string().contains("index moody"), "{error}");
        }
        let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
        assert_eq!(transaction.insert_row(table, row("3", value)).unwrap_err().kind(), kind, "{value}");
        transaction.rollback().unwrap();
    }
    // In a larger call the first, the middle and the last row are asked about twice, and a row that fails is named.
    let names: Vec<String> = (0..100).map(|number| format!("2{number:02}")).collect();
    for (bad, value) in [(0, "changes"), (50, "changes"), (99, "changes"), (7, "undecodable"), (7, "panics")] {
        let mut rows: Vec<_> = names.iter().map(|name| row(name, "good")).collect();
        rows[bad] = row(&names[bad], value);
        let changes: Vec<_> = rows.iter().map(|row| (table, RowChange::Insert(*row))).collect();
        for outcome in [db.insert(table, &rows), db.commit_rows(&changes)] {
            assert_eq!(outcome.unwrap_err().message(), format!("row {bad} of the call, from 0"), "{value}");
        }
    }
    // Nobody was left behind with a lock.
    db.update_rows(table, &[(row("1", "good"), row("1", "better"))]).unwrap();
    assert_eq!((rows(&db, table), entries(&db, table, 1)), (vec!["1=better".to_owned()], vec!["1".to_owned()]));
    db.check().unwrap();
}

#[test]
fn cursors_see_entries_as_they_were() {
    for max_version_bytes in [1 << 20, 0] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), &small().max_version_bytes(max_version_bytes)).unwrap();
        let table = db.create_table(&stones()).unwrap();
        let keys: Vec<_> =
            (0..60).map(|number| (format!("{number:03}"), format!("k{}{number:02}", number % 7))).collect();
        for chunk in keys.chunks(20) {
            let chunk: Vec<_> = chunk.iter().map(|(key, value)| row(key, value)).collect();
            db.insert(table, &chunk).unwrap();
        }
        let expected = (entries(&db, table, 0), entries(&db, table, 1));
        let open = db.0.tables.get(table).unwrap();
        let view = db.0.view(0, 0);
        for (key, value) in &keys {
            let new = format!("n{}", &value[1..]);
            db.update_rows(table, &[(row(key, value), row(key, &new))]).unwrap();
            db.delete_rows(table, &[row(key, &new)]).unwrap();
            if key.ends_with('5') {
                // What was deleted a moment ago is there again.
                db.insert(table, &[row(key, value)]).unwrap();
            }
        }
        let seen = |index: usize| {
            let mut cursor =
                super::super::scan::Cursor::with_view(&db.0, open.index(index).unwrap(), view.again()).unwrap();
            let mut found = Vec::new();
            let mut note = |entry: &[u8], _: &[u8]| found.push(String::from_utf8_lossy(entry).into_owned());
            super::read::walk(&mut cursor, b"", usize::MAX, &mut note).unwrap();
            found
        };
        assert_eq!((seen(0), seen(1)), expected);
        assert_eq!(db.0.check_indexes(&open, &view).unwrap(), 120);
        assert_eq!(entries(&db, table, 0).len(), 6);
        db.check().unwrap();
        assert_eq!(db.history_len() > 0, max_version_bytes == 0);
        drop(view);
        db.0.settle();
        let report = db.check().unwrap();
        assert_eq!((report.index_entries, report.deleted_rows, report.undo_records), (12, 0, 1));
    }
}

#[test]
fn a_table_is_created_and_dropped_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let files = || db.0.env.list_dir(dir.path()).unwrap().len();
    let before = files();
    let table = db.create_table(&stones()).unwrap();
    assert_eq!(files(), before + 3);
    let wide = TableSpec {
        name: "wide".to_owned(),
        indexes: (0..60).map(|number| IndexSpec::over_columns(format!("{number}"), Some(0..1))).collect(),
    };
    let wide_table = db.create_table(&wide).unwrap();
    db.insert(wide_table, &[row("a", "1"), row("b", "2")]).unwrap();
    db.insert(table, &[row("a", "ig01")]).unwrap();
    assert_eq!(db.check().unwrap().index_entries, 122);
    db.drop_table(table).unwrap();
    assert_eq!(db.insert(table, &[row("a", "ig01")]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.drop_table(table).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!((files(), db.table_names()), (before + 61, vec!["wide".to_owned()]));
    let again = db.create_table(&stones()).unwrap();
    assert_ne!(again, table, "no number is used twice");
    drop(db);
    let db = Db::open(dir.path(), &small().buffer_pool_bytes(32 << 10)).unwrap();
    assert_eq!(db.table_names(), ["stones", "wide"]);
    let wider = TableSpec { name: "wider".to_owned(), ..wide };
    assert_eq!(db.create_table(&wider).unwrap_err().kind(), ErrorKind::LimitExceeded);
    db.drop_table(db.open_table(&stones()).unwrap()).unwrap();
    db.check().unwrap();
}

#[test]
fn a_hundred_rows_with_three_entries_fit_a_batch() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().page_size(4 << 10).buffer_pool_bytes(12_000 * 4096).redo_capacity_bytes(32 << 20);
    let db = Db::open(dir.path(), &options).unwrap();
    let indexes =
        (0..3).map(|column| IndexSpec::over_columns(format!("{column}"), Some(column * 4..column * 4 + 8))).collect();
    let table = db.create_table(&TableSpec { name: "purchases".to_owned(), indexes }).unwrap();
    let mut next = 0_u32;
    for _ in 0..20 {
        let rows: Vec<_> = (0..100)
            .map(|_| {
                next += 1;
                let random = next.wrapping_mul(2_654_435_761);
                (
                    next.to_be_bytes(),
                    [random.to_be_bytes(), random.swap_bytes().to_be_bytes(), next.to_be_bytes(), [7; 4], [8; 4]]
                        .concat(),
                )
            })
            .collect();
        let rows: Vec<_> = rows.iter().map(|(key, value)| Row { primary_key: key, value }).collect();
        db.insert(table, &rows).unwrap();
    }
    let report = db.check().unwrap();
    assert_eq!((report.rows, report.index_entries), (2_000, 6_000));
    assert!(db.0.versions.is_empty());
    assert_eq!(db.metrics().get(Counter::TransactionsBegun), 0);
}

#[test]
fn batches_wait_for_transactions_that_hold_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small().lock_timeout_millis(1)).unwrap();
    let table = db.create_table(&stones()).unwrap();
    db.insert(table, &[row("a", "ig01")]).unwrap();
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    let open = db.0.tables.get(table).unwrap();
    db.0.lock_row(transaction.id(), &open.table.rows, b"a", None).unwrap();
    assert_eq!(db.delete_rows(table, &[row("a", "ig01")]).unwrap_err().kind(), ErrorKind::TimedOut);
    let unique = open.index(1).unwrap();
    db.0.lock_key_from(db.0.writer.lock(), transaction.id(), unique, b"07", None).unwrap();
    assert_eq!(db.insert(table, &[row("b", "ig07")]).unwrap_err().kind(), ErrorKind::TimedOut);
    db.insert(table, &[row("b", "ig08")]).unwrap();
    transaction.rollback().unwrap();
    db.insert(table, &[row("c", "ig07")]).unwrap();
    db.check().unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "damages a file behind the engine's back")]
fn a_damaged_bitmap_must_not_keep_the_database_from_opening_nor_hide_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    // No other copy of the page.
    let options = small().doublewrite(Doublewrite::Off);
    let other = || TableSpec { name: "others".to_owned(), ..stones() };
    let path = {
        let db = Db::open(dir.path(), &options).unwrap();
        let (table, second) = (db.create_table(&stones()).unwrap(), db.create_table(&other()).unwrap());
        for number in 0..90 {
            let (key, value) = (format!("{number:08}"), format!("ig{number:02}"));
            db.insert(table, &[row(&key, &value)]).unwrap();
        }
        db.insert(second, &[row("a", "ig01")]).unwrap();
        db.close().unwrap();
        db.0.spaces.path(db.0.tables.get(table).unwrap().index(0).unwrap().tree().space())
    };
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[512 + 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let db = Db::open(dir.path(), &options).unwrap();
    let (table, second) = (db.open_table(&stones()).unwrap(), db.open_table(&other()).unwrap());
    assert_eq!((rows(&db, table).len(), entries(&db, second, 0)), (90, vec!["iga".to_owned()]));
    let kind = |outcome: crate::Result<()>| outcome.unwrap_err().kind();
    assert_eq!(kind(db.scan_index(table, 0, b"", 9, &mut |_| {}).map(drop)), ErrorKind::Corruption);
    assert_eq!(kind(db.insert(table, &[row("b", "ig99")])), ErrorKind::Corruption);
    assert_eq!(kind(db.delete_rows(table, &[row("00000001", "ig01")])), ErrorKind::Corruption);
    assert_eq!(kind(db.check().map(drop)), ErrorKind::Corruption);
    db.insert(second, &[row("b", "ig02")]).unwrap();
    db.drop_table(table).unwrap();
    db.check().unwrap();
}
