//! Inserts and reads, and the bytes that they leave.

use super::*;
use siltstone_base::engine::conformance_all::{Openers, check_all};

#[test]
fn rows_and_entries_are_stored_in_myrocks_layout() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 2)).unwrap();
    assert_eq!(table, TableId(256));
    insert(&db, table, &[("p2", "abc"), ("p1", "xyz"), ("p3", "a")]);
    let wanted: [&[u8]; 7] = [
        b"\0\0\x01\0p1",
        b"\0\0\x01\0p2",
        b"\0\0\x01\0p3",
        b"\0\0\x01\x01abp2",
        b"\0\0\x01\x01xyp1",
        b"\0\0\x01\x02bcp2",
        b"\0\0\x01\x02yzp1",
    ];
    assert_eq!(stored(&db, &db.ground.rows), wanted);
    assert_eq!(db.db().get(b"\0\0\x01\0p1").unwrap().as_deref(), Some(&b"xyz"[..]));
    assert_eq!(db.db().get(b"\0\0\x01\x01xyp1").unwrap().as_deref(), Some(&b""[..]));
}

#[test]
fn reads_see_their_own_table_and_index() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let one = db.create_table(&spec("one", 2)).unwrap();
    let other = db.create_table(&spec("other", 1)).unwrap();
    insert(&db, one, &[("1", "abc"), ("2", "aab"), ("3", "bca")]);
    insert(&db, other, &[("1", "zzz"), ("9", "yyy")]);

    assert_eq!(get(&db, one, "1").as_deref(), Some("abc"));
    assert_eq!(get(&db, other, "1").as_deref(), Some("zzz"));
    assert_eq!(get(&db, one, "9"), None);
    assert_eq!(get(&db, one, ""), None);

    assert_eq!(scan(&db, one, 0, "", 9), ["aa2", "ab1", "bc3"]);
    assert_eq!(scan(&db, one, 1, "", 9), ["ab2", "bc1", "ca3"]);
    assert_eq!(scan(&db, one, 0, "ab", 9), ["ab1", "bc3"]);
    assert_eq!(scan(&db, one, 0, "ab1", 1), ["ab1"]);
    assert_eq!(scan(&db, one, 0, "ab11", 1), ["bc3"]);
    assert_eq!(scan(&db, one, 0, "", 0), Vec::<String>::new());
    assert_eq!(scan(&db, one, 0, "zz", 9), Vec::<String>::new());
    assert_eq!(scan(&db, other, 0, "", 9), ["yy9", "zz1"]);
}

#[test]
fn long_keys_and_many_rows_survive_flush_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 3)).unwrap();
    let rows: Vec<(String, String)> =
        (0..2_000).map(|i| (format!("{i:06}{}", "k".repeat(i % 300)), format!("{:05}", i * 7 % 2_000))).collect();
    for chunk in rows.chunks(100) {
        insert(&db, table, &chunk.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>());
        if chunk[0].0.starts_with("0005") {
            siltstone_base::engine::Admin::flush(&db).unwrap();
        }
    }
    let check = |db: &TableDb, table| {
        for (key, value) in &rows {
            assert_eq!(get(db, table, key).as_deref(), Some(value.as_str()));
        }
        for index in 0..3 {
            let mut wanted: Vec<String> =
                rows.iter().map(|(key, value)| format!("{}{key}", &value[index..index + 2])).collect();
            wanted.sort();
            assert_eq!(scan(db, table, index, "", usize::MAX), wanted);
        }
    };
    check(&db, table);
    db.close().unwrap();
    let db = open(dir.path());
    assert_eq!(db.table_names(), ["t"]);
    let table = db.open_table(&spec("t", 3)).unwrap();
    check(&db, table);
}

#[test]
fn what_is_not_open_or_does_not_exist_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.create_table(&spec("t", 1)).unwrap();
    let kind = |result: Result<TableId>| result.unwrap_err().kind();
    assert_eq!(kind(db.create_table(&spec("t", 1))), ErrorKind::AlreadyExists);
    assert_eq!(kind(db.open_table(&spec("u", 1))), ErrorKind::NotFound);
    assert_eq!(kind(db.open_table(&spec("t", 2))), ErrorKind::InvalidArgument);
    let mut renamed = spec("t", 1);
    renamed.indexes[0].name = "other".to_owned();
    assert_eq!(kind(db.open_table(&renamed)), ErrorKind::InvalidArgument);

    let nothing = TableId(table.0 + 1);
    assert_eq!(db.insert(nothing, &[]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.get_row(nothing, b"", &mut |_| {}).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.scan_index(table, 1, b"", 1, &mut |_| {}).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.drop_table(nothing).unwrap_err().kind(), ErrorKind::NotFound);

    let long = [Row { primary_key: &[0; 70_000], value: b"" }];
    assert_eq!(db.insert(table, &long).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(stored(&db, &db.ground.rows), Vec::<Vec<u8>>::new());
    insert(&db, table, &[("1", "ab")]);
    assert_eq!(get(&db, table, "1").as_deref(), Some("ab"));
}

#[test]
fn a_directory_with_other_keys_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true)).unwrap();
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    let opened =
        TableDb::open(dir.path(), &DbOptions::default(), &ColumnFamilyOptions::default(), &WriteOptions::default());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let db = Db::open(dir.path(), &DbOptions::default()).unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn it_keeps_what_every_engine_of_tables_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let options = DbOptions::default().create_if_missing(true);
    let open = |path: &Path| TableDb::open(path, &options, &ColumnFamilyOptions::default(), &WriteOptions::default());
    let openers = Openers {
        tables: Some(&|path| Ok(Box::new(open(path)?))),
        lazy_tables: Some(&|path| Ok(Box::new(open(path)?))),
        ..Openers::default()
    };
    let checked = check_all(&openers, dir.path());
    assert_eq!(checked.left_out, ["kv", "transactions"]);
}
