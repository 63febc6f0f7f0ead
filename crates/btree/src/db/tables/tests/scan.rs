//! Ranges of indexes, and what entries hold beside their keys, against what the rows say.

use super::{Db, Row, TableId, TableSpec, row, small};
use crate::mtr::{Close, close_group};
use crate::tree::Value;
use crate::{ErrorKind, TransactionOptions};
use proptest::prelude::*;
use siltstone_base::engine::RowChange;
use siltstone_base::index_scan::{IndexEntry, IndexScan};
use siltstone_base::index_spec::{FixedColumns, IndexExtractor, IndexSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The word of a value that a number of words stand before, ended by a zero. A row without one has no entry.
#[derive(Debug)]
struct Word(usize);

impl IndexExtractor for Word {
    fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        let word = value.split(|byte| *byte == b' ').nth(self.0);
        index_key.extend_from_slice(word.unwrap_or_default());
        index_key.push(0);
        word.is_some()
    }

    fn identity(&self) -> Vec<u8> {
        format!("word {}", self.0).into_bytes()
    }
}

fn word(name: &str, number: usize) -> IndexSpec {
    IndexSpec::new(name, Arc::new(Word(number)))
}

/// Keys of one length and of many, with columns beside them and without.
fn specs() -> Vec<IndexSpec> {
    vec![
        IndexSpec::over_columns("fixed", Some(0..2)),
        word("word", 0),
        IndexSpec::over_columns("covered", Some(0..1)).covered(Arc::new(Word(1))),
        word("covered_word", 1).covered(Arc::new(FixedColumns::new(Some(0..1)))),
    ]
}

fn table() -> TableSpec {
    TableSpec { name: "stones".to_owned(), indexes: specs() }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// Index key, primary key, covered columns, row.
type Entry = (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>);

fn expected(model: &Model, spec: &IndexSpec) -> Vec<Entry> {
    let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let (mut index_key, mut covered) = (Vec::new(), Vec::new());
        let has_entry = spec.extractor.extract(key, value, &mut index_key);
        if let Some(columns) = &spec.covered
            && !columns.extract(key, value, &mut covered)
        {
            covered.clear();
        }
        has_entry.then(|| (index_key, key.clone(), covered, value.clone()))
    };
    let mut entries: Vec<Entry> = model.iter().filter_map(entry).collect();
    entries.sort_by_key(|(index_key, key, _, _)| [&index_key[..], key].concat());
    entries
}

fn check_scan(db: &Db, table: TableId, index: usize, scan: &IndexScan, model: &Model) {
    let mut wanted = expected(model, &specs()[index]);
    let whole = |entry: &Entry| [&entry.0[..], &entry.1].concat();
    wanted.retain(|entry| whole(entry)[..] >= *scan.from() && scan.end().is_none_or(|end| whole(entry)[..] < *end));
    if scan.is_reverse() {
        wanted.reverse();
    }
    wanted.truncate(scan.most());
    let owned = |entry: IndexEntry<'_>| (entry.index_key.to_vec(), entry.primary_key.to_vec(), entry.covered.to_vec());
    let mut entries = Vec::new();
    let count = db.scan_entries(table, index, scan, &mut |entry| entries.push(owned(entry))).unwrap();
    assert_eq!(count, entries.len());
    let keys: Vec<_> = wanted.iter().cloned().map(|(index_key, key, covered, _)| (index_key, key, covered)).collect();
    assert_eq!(entries, keys, "index {index}, {scan:?}");
    let mut rows = Vec::new();
    db.scan_rows_by(table, index, scan, &mut |entry, value| {
        let (index_key, key, covered) = owned(entry);
        rows.push((index_key, key, covered, value.to_vec()));
    })
    .unwrap();
    assert_eq!(rows, wanted, "index {index}, {scan:?}");
    if scan.end().is_none() && !scan.is_reverse() {
        let mut plain = Vec::new();
        db.scan_index(table, index, scan.from(), scan.most(), &mut |entry| plain.push(entry.to_vec())).unwrap();
        assert_eq!(plain, wanted.iter().map(whole).collect::<Vec<_>>(), "index {index}, {scan:?}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A row becomes this value, or goes.
    Change(Vec<u8>, Option<Vec<u8>>),
    /// The same in a transaction, which ends by rolling back or committing.
    Transaction(Vec<(Vec<u8>, Option<Vec<u8>>)>, bool),
    Scan {
        index: usize,
        from: Vec<u8>,
        end: Option<Vec<u8>>,
        reverse: bool,
        limit: usize,
    },
    Reopen,
}

/// Primary keys that are beginnings of each other, across the groups of memcomparable strings.
fn primary_key() -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(vec!["", "k", "k\0", "k\u{1}", "kkkkkkkk", "kkkkkkkk\0", "kkkkkkkkk", "l"]), 0..3_u8)
        .prop_map(|(key, number)| match number {
            0 => key.as_bytes().to_vec(),
            number => [key.as_bytes(), &[b'0' + number]].concat(),
        })
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let word = || prop::sample::select(vec!["", "a", "ab", "abc", "b", "granite", "slate"]);
    prop_oneof![
        4 => (word(), word()).prop_map(|(one, other)| format!("{one} {other}").into_bytes()),
        1 => word().prop_map(|word| word.as_bytes().to_vec()),
    ]
}

/// An end of a range: a beginning of an index key, or one with a primary key.
fn bound() -> impl Strategy<Value = Vec<u8>> {
    let index_key = prop::sample::select(vec!["", "a", "a\0", "ab", "ab\0", "abc\0", "b", "b\0", "slate\0", "\u{7f}"]);
    (index_key, prop::option::of(primary_key()))
        .prop_map(|(index_key, key)| [index_key.as_bytes(), &key.unwrap_or_default()].concat())
}

fn step() -> impl Strategy<Value = Step> {
    let change = || (primary_key(), prop::option::weighted(0.8, value()));
    prop_oneof![
        6 => change().prop_map(|(key, value)| Step::Change(key, value)),
        2 => (prop::collection::vec(change(), 1..5), any::<bool>())
            .prop_map(|(changes, commits)| Step::Transaction(changes, commits)),
        6 => (0..4_usize, bound(), prop::option::of(bound()), any::<bool>(), 0..9_usize).prop_map(
            |(index, from, end, reverse, limit)| Step::Scan { index, from, end, reverse, limit },
        ),
        1 => Just(Step::Reopen),
    ]
}

fn change(db: &Db, table: TableId, model: &mut Model, key: &[u8], value: Option<Vec<u8>>) {
    let of = |value| Row { primary_key: key, value };
    match (model.get(key).map(Vec::as_slice), value.as_deref()) {
        (None, None) => return,
        (None, Some(new)) => db.insert(table, &[of(new)]).unwrap(),
        (Some(old), None) => db.delete_rows(table, &[of(old)]).unwrap(),
        (Some(old), Some(new)) => db.update_rows(table, &[(of(old), of(new))]).unwrap(),
    }
    put(model, key, value);
}

fn put(model: &mut Model, key: &[u8], value: Option<Vec<u8>>) {
    match value {
        None => drop(model.remove(key)),
        Some(value) => drop(model.insert(key.to_vec(), value)),
    }
}

fn run(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let mut db = Db::open(dir.path(), &small()).unwrap();
    let id = db.create_table(&table()).unwrap();
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Change(key, value) => change(&db, id, &mut model, &key, value),
            Step::Transaction(changes, commits) => {
                let mut transaction = db.begin(&TransactionOptions::default()).unwrap();
                let mut changed = model.clone();
                for (key, value) in changes {
                    let is_there = changed.contains_key(&key);
                    match &value {
                        Some(value) => {
                            let row = Row { primary_key: &key, value };
                            if is_there { transaction.update_row(id, row) } else { transaction.insert_row(id, row) }
                                .unwrap();
                        }
                        None => assert_eq!(transaction.delete_row(id, &key).unwrap(), is_there),
                    }
                    put(&mut changed, &key, value);
                }
                for (index, spec) in specs().iter().enumerate() {
                    let mut found = Vec::new();
                    transaction.scan_index(id, index, b"", 99, &mut |entry| found.push(entry.to_vec())).unwrap();
                    let wanted = expected(&changed, spec).into_iter().map(|entry| [entry.0, entry.1].concat());
                    assert_eq!(found, wanted.collect::<Vec<_>>());
                }
                if commits {
                    transaction.commit().unwrap();
                    model = changed;
                } else {
                    transaction.rollback().unwrap();
                }
            }
            Step::Scan { index, from, end, reverse, limit } => {
                let mut scan = IndexScan::all().starting_at(from);
                if let Some(end) = end {
                    scan = scan.ending_before(end);
                }
                if reverse {
                    scan = scan.reverse();
                }
                // The largest limit is none.
                check_scan(&db, id, index, &if limit == 8 { scan } else { scan.limit(limit) }, &model);
            }
            Step::Reopen => {
                db.close().unwrap();
                db = Db::open(dir.path(), &small()).unwrap();
                assert_eq!(db.open_table(&table()).unwrap(), id);
            }
        }
    }
    for index in 0..specs().len() {
        check_scan(&db, id, index, &IndexScan::all(), &model);
        check_scan(&db, id, index, &IndexScan::all().reverse(), &model);
    }
    db.check().unwrap();
    db.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn ranges_hand_out_what_the_rows_say(steps in prop::collection::vec(step(), 1..40)) {
        run(steps);
    }
}

/// More rows than are fetched at a time, from an index that was added when they were there.
#[test]
fn rows_by_an_added_index_come_in_its_order_whatever_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let id = db.create_table(&TableSpec { name: "stones".to_owned(), indexes: Vec::new() }).unwrap();
    let mut model = Model::new();
    for number in 0..900_u32 {
        let (key, value) = (format!("k{number}"), format!("w{:03} c{}", number.wrapping_mul(7919) % 500, number % 7));
        db.insert(id, &[row(&key, &value)]).unwrap();
        model.insert(key.into_bytes(), value.into_bytes());
    }
    for (position, spec) in specs().iter().enumerate() {
        assert_eq!(db.add_index(id, spec).unwrap(), position);
        for scan in [IndexScan::all(), IndexScan::all().reverse(), IndexScan::all().prefix("w1").limit(40)] {
            check_scan(&db, id, position, &scan, &model);
        }
    }
    db.check().unwrap();
    db.close().unwrap();
}

/// What is covered changes alone: one entry goes and one comes, in a unique index, too.
#[test]
fn a_unique_entry_may_change_what_it_holds_beside_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let indexes = vec![word("number", 0).unique(true).covered(Arc::new(Word(1)))];
    let id = db.create_table(&TableSpec { name: "stones".to_owned(), indexes }).unwrap();
    let shown = || {
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "");
        let mut note = |entry: IndexEntry<'_>| {
            found.push([entry.index_key, entry.primary_key, entry.covered].map(text).join(":"));
        };
        db.scan_entries(id, 0, &IndexScan::all(), &mut note).unwrap();
        found.join(" ")
    };
    db.insert(id, &[row("a", "1 grey"), row("b", "2 red")]).unwrap();
    assert_eq!(shown(), "1:a:grey 2:b:red");
    db.update_rows(id, &[(row("a", "1 grey"), row("a", "1 blue"))]).unwrap();
    let swap = [
        (id, RowChange::Update(row("a", "1 blue"), row("a", "2 blue"))),
        (id, RowChange::Update(row("b", "2 red"), row("b", "1 red"))),
    ];
    db.commit_rows(&swap).unwrap();
    assert_eq!(shown(), "1:b:red 2:a:blue");
    let error = db.insert(id, &[row("c", "1 green")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    db.check().unwrap();
    db.close().unwrap();
}

/// Entries of other columns would hand out what the rows do not have.
#[test]
fn a_table_is_not_opened_with_other_covered_columns() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let of = |spec: IndexSpec| TableSpec { name: "stones".to_owned(), indexes: vec![spec] };
    let covering = |number| of(word("first", 0).covered(Arc::new(Word(number))));
    db.create_table(&covering(1)).unwrap();
    for other in [covering(2), of(word("first", 0))] {
        assert_eq!(db.open_table(&other).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    db.open_table(&covering(1)).unwrap();
    db.close().unwrap();
}

/// Who is told of the index alone looks for one entry among millions.
#[test]
fn an_entry_that_is_damaged_or_leads_to_no_row_is_named_by_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &small()).unwrap();
    let indexes = vec![word("word", 0).unique(true), IndexSpec::over_columns("fixed", Some(1..4)).unique(true)];
    let id = db.create_table(&TableSpec { name: "stones".to_owned(), indexes }).unwrap();
    for number in 0..100 {
        db.insert(id, &[row(&format!("k{number:02}"), &format!("w{number:03}"))]).unwrap();
    }
    let open = db.0.tables.get(id).unwrap();
    let add = |index: usize, entry: &[u8]| {
        let _writer = db.0.lock_with_room(64 << 10).unwrap();
        let tree = open.index(index).unwrap().tree();
        tree.put(entry, Value::inline(b""), false, Close::Open, Close::Open, &mut |_| Ok(())).unwrap();
        close_group(tree.pool()).unwrap();
    };
    add(0, b"w050\0zzzz");
    add(0, b"w070\0kkk\0\0\0\0\0\x03\x05\0\0\0");
    add(1, b"0");
    add(1, b"070zz");
    let told = |index: usize, from: &str, says: &str| {
        let scan = IndexScan::all().starting_at(from);
        let error = db.scan_rows_by(id, index, &scan, &mut |_, _| {}).unwrap_err();
        let path = db.0.spaces.path(open.index(index).unwrap().tree().space());
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(path.as_path())), "{error}");
        // A leaf behind the first one, which is where the root was.
        assert!(error.offset().is_some_and(|offset| offset > 1024 && offset % 512 == 0), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    told(0, "", "index word: entry 51 of a scan, from 0, is damaged");
    told(0, "w060", "index word: entry 11 of a scan, from 0, leads to no row");
    told(1, "", "index fixed: entry 0 of a scan, from 0, is damaged");
    told(1, "060", "index fixed: entry 11 of a scan, from 0, leads to no row");
    db.scan_rows_by(id, 0, &IndexScan::all().starting_at("w071"), &mut |_, _| {}).unwrap();
    let error = db.check().unwrap_err();
    assert!(error.to_string().contains("102 entries, and its rows 100"), "{error}");
    db.close().unwrap();
}
