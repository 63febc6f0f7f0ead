//! Batches that are read: what they show is what the database shows once they are written.

use super::{family_options, kind, options, rows};
use crate::{Db, ErrorKind, FlushOptions, ReadOptions, Savepoint, WriteBatchWithIndex, WriteOptions};
use proptest::prelude::*;
use siltstone_base::env::sim::SimDisk;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    /// Outside of the batch.
    Base(u8, Option<u8>),
    BaseMerge(u8, u8),
    BaseRange(u8, u8),
    Flush,
    Put(bool, u8, u8),
    Merge(u8, u8),
    Delete(bool, u8),
    Savepoint,
    Rollback(u8),
    Look,
    Write,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..8_u8;
    prop_oneof![
        4 => (key(), prop::option::weighted(0.7, any::<u8>())).prop_map(|(key, value)| Step::Base(key, value)),
        1 => (key(), any::<u8>()).prop_map(|(key, value)| Step::BaseMerge(key, value)),
        1 => (key(), key()).prop_map(|(begin, end)| Step::BaseRange(begin.min(end), begin.max(end))),
        1 => Just(Step::Flush),
        6 => (any::<bool>(), key(), any::<u8>()).prop_map(|(other, key, value)| Step::Put(other, key, value)),
        3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Merge(key, value)),
        3 => (any::<bool>(), key()).prop_map(|(other, key)| Step::Delete(other, key)),
        2 => Just(Step::Savepoint),
        2 => any::<u8>().prop_map(Step::Rollback),
        3 => Just(Step::Look),
        1 => Just(Step::Write),
    ]
}

type Rows = BTreeMap<u8, u64>;
/// What a change does to the rows of both families.
type Effect = Box<dyn Fn(&mut Rows, &mut Rows)>;

fn text(rows: &Rows) -> String {
    let row = |(key, value): (&u8, &u64)| {
        let value = value.to_le_bytes();
        format!("k{key}={}", String::from_utf8_lossy(&value).escape_default())
    };
    rows.iter().map(row).collect::<Vec<_>>().join(" ")
}

fn key(number: u8) -> String {
    format!("k{number}")
}

fn run(steps: &[Step]) {
    let disk = SimDisk::new();
    let named = [("default", family_options()), ("other", family_options())];
    let db = Db::open_families("/db", &options(&disk), &named).unwrap();
    let (default, other) = (db.default_family(), db.family("other").unwrap());
    let mut batch = WriteBatchWithIndex::new(&db);
    // What the database has, and what the batch adds: in order, so that it can be applied to what the database has by then.
    let mut base = Rows::new();
    let mut changes: Vec<Effect> = Vec::new();
    // With the changes before them.
    let mut savepoints: Vec<(Savepoint, usize)> = Vec::new();
    let mut gone: Vec<Savepoint> = Vec::new();
    let mut other_rows = Rows::new();
    for step in steps {
        match *step {
            Step::Base(number, Some(value)) => {
                db.put(key(number), u64::from(value).to_le_bytes()).unwrap();
                base.insert(number, u64::from(value));
            }
            Step::Base(number, None) => {
                db.delete(key(number)).unwrap();
                base.remove(&number);
            }
            Step::BaseMerge(number, value) => {
                db.merge(key(number), u64::from(value).to_le_bytes()).unwrap();
                *base.entry(number).or_default() += u64::from(value);
            }
            Step::BaseRange(begin, end) => {
                db.delete_range(key(begin), key(end)).unwrap();
                base.retain(|number, _| !(begin..end).contains(number));
            }
            Step::Flush => db.flush(&FlushOptions::default()).unwrap(),
            Step::Put(to_other, number, value) => {
                let family = if to_other { &other } else { &default };
                batch.put_cf(family, key(number), u64::from(value).to_le_bytes()).unwrap();
                changes.push(Box::new(move |default, other| {
                    (if to_other { other } else { default }).insert(number, u64::from(value));
                }));
            }
            Step::Merge(number, value) => {
                batch.merge_cf(&default, key(number), u64::from(value).to_le_bytes()).unwrap();
                changes.push(Box::new(move |default, _| *default.entry(number).or_default() += u64::from(value)));
            }
            Step::Delete(to_other, number) => {
                let family = if to_other { &other } else { &default };
                batch.delete_cf(family, key(number)).unwrap();
                changes.push(Box::new(move |default, other| {
                    (if to_other { other } else { default }).remove(&number);
                }));
            }
            Step::Savepoint => {
                let savepoint = batch.savepoint();
                if savepoints.last().is_none_or(|(last, _)| *last != savepoint) {
                    savepoints.push((savepoint, changes.len()));
                }
                assert_eq!(savepoints.last(), Some(&(savepoint, changes.len())));
                assert!(!gone.contains(&savepoint), "a number came back");
            }
            Step::Rollback(choice) if savepoints.is_empty() => {
                let none = Savepoint(u64::from(choice) + 1_000_000);
                assert_eq!(kind(batch.rollback_to(none)), ErrorKind::InvalidArgument);
            }
            Step::Rollback(choice) => {
                let index = usize::from(choice) % savepoints.len();
                batch.rollback_to(savepoints[index].0).unwrap();
                changes.truncate(savepoints[index].1);
                gone.extend(savepoints.drain(index + 1..).map(|(savepoint, _)| savepoint));
            }
            Step::Write => {
                batch.write(&WriteOptions::default()).unwrap();
                changes.drain(..).for_each(|change| change(&mut base, &mut other_rows));
                gone.extend(savepoints.drain(..).map(|(savepoint, _)| savepoint));
                assert!(batch.is_empty());
            }
            Step::Look => {}
        }
        let (mut expected, mut expected_other) = (base.clone(), other_rows.clone());
        changes.iter().for_each(|change| change(&mut expected, &mut expected_other));
        assert_eq!(batch.len(), changes.len());
        for savepoint in &gone {
            assert_eq!(kind(batch.rollback_to(*savepoint)), ErrorKind::InvalidArgument);
        }
        let read = ReadOptions::default();
        assert_eq!(rows(batch.iter(&read).unwrap()), text(&expected));
        assert_eq!(rows(batch.iter_cf(&other, &read).unwrap()), text(&expected_other));
        assert_eq!(rows(db.iter(&read).unwrap()), text(&base));
        for number in 0..8 {
            let found = batch.get(key(number), &read).unwrap();
            let expected = expected.get(&number).map(|value| value.to_le_bytes().to_vec());
            assert_eq!(found.map(|value| value.to_vec()), expected, "{number}");
            let mut iter = batch.iter(&read).unwrap();
            iter.seek(key(number).as_bytes());
            assert_eq!(iter.valid() && iter.key() == key(number).as_bytes(), expected.is_some(), "{number}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_batch_shows_what_the_database_will_show(steps in prop::collection::vec(step(), 1..30)) {
        run(&steps);
    }
}

#[test]
fn what_a_batch_cannot_do_is_refused_and_leaves_it_as_it_was() {
    let disk = SimDisk::new();
    let named = [("default", crate::ColumnFamilyOptions::default())];
    let db = Db::open_families("/db", &options(&disk), &named).unwrap();
    let family = db.default_family();
    let mut batch = WriteBatchWithIndex::new(&db);
    batch.put("a", "1").unwrap();
    assert_eq!(kind(batch.delete_range_cf(&family, "a", "b")), ErrorKind::NotSupported);
    assert_eq!(kind(batch.merge_cf(&family, "a", "1")), ErrorKind::InvalidArgument);
    assert_eq!(kind(batch.put(vec![0; crate::MAX_KEY_LEN + 1], "1")), ErrorKind::LimitExceeded);
    let dropped = db.create_family("gone", &Default::default()).unwrap();
    db.drop_family(&dropped).unwrap();
    assert_eq!(kind(batch.put_cf(&dropped, "a", "1")), ErrorKind::NotFound);
    let mut iter = batch.iter(&ReadOptions::default()).unwrap();
    assert_eq!(kind(iter.refresh()), ErrorKind::Aborted);
    assert_eq!((batch.len(), rows(iter)), (1, "a=1".to_owned()));
    batch.write(&WriteOptions::default()).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// Steps over keys by the order of their family, with a snapshot beneath and bounds around.
#[test]
fn a_batch_keeps_to_snapshots_bounds_and_the_order_of_its_family() {
    let disk = SimDisk::new();
    let reverse = family_options().comparator(std::sync::Arc::new(siltstone_base::comparator::ReverseBytewise));
    let db = Db::open_families("/db", &options(&disk), &[("default", reverse)]).unwrap();
    for key in ["a", "c", "e"] {
        db.put(key, "0").unwrap();
    }
    let snapshot = db.snapshot();
    db.put("c", "9").unwrap();
    db.put("b", "9").unwrap();
    let mut batch = WriteBatchWithIndex::new(&db);
    batch.put("d", "1").unwrap();
    batch.single_delete_cf(&db.default_family(), "e").unwrap();
    let at = ReadOptions::default().snapshot(Some(snapshot));
    assert_eq!(rows(batch.iter(&at).unwrap()), "d=1 c=0 a=0");
    assert_eq!(rows(batch.iter(&Default::default()).unwrap()), "d=1 c=9 b=9 a=0");
    let bounded = at.iterate_lower_bound(Some(b"d".to_vec())).iterate_upper_bound(Some(b"a".to_vec()));
    assert_eq!(rows(batch.iter(&bounded).unwrap()), "d=1 c=0");
    let mut iter = batch.iter(&bounded).unwrap();
    iter.seek_for_prev(b"c");
    assert_eq!((iter.key(), iter.value()), (&b"c"[..], &b"0"[..]));
    iter.prev();
    assert_eq!((iter.key(), iter.value()), (&b"d"[..], &b"1"[..]));
    iter.next();
    assert_eq!(iter.key(), b"c");
}

/// Sources that lack a prefix are left out of a limited walk; a batch's own entries are none of them.
#[test]
fn a_batch_is_part_of_limited_walks() {
    let disk = SimDisk::new();
    let family = family_options()
        .prefix_extractor(Some(std::sync::Arc::new(crate::FixedPrefix::new(2))))
        .memtable_bloom_bits_per_key(10)
        .write_buffer_size(64 << 10);
    let db = Db::open_families("/db", &options(&disk), &[("default", family)]).unwrap();
    for number in 0..300 {
        db.put(format!("aa{number:03}"), "0").unwrap();
    }
    let mut batch = WriteBatchWithIndex::new(&db);
    batch.put("bb1", "1").unwrap();
    batch.put("cc1", "1").unwrap();
    let mut iter = batch.iter(&ReadOptions::default().prefix_same_as_start(true)).unwrap();
    iter.seek(b"bb");
    assert_eq!((iter.key(), iter.value()), (&b"bb1"[..], &b"1"[..]));
    iter.next();
    assert!(!iter.valid());
    iter.seek(b"aa299");
    assert_eq!(iter.key(), b"aa299");
    iter.next();
    assert!(!iter.valid());
}

/// What a statement undoes must not cost what all statements before it did: layers are few, and most rollbacks touch the newest one alone.
#[test]
fn a_savepoint_for_each_statement_keeps_few_layers() {
    let disk = SimDisk::new();
    let named = [("default", family_options())];
    let db = Db::open_families("/db", &options(&disk), &named).unwrap();
    let mut batch = WriteBatchWithIndex::new(&db);
    let mut marks = Vec::new();
    for number in 0..1000_u32 {
        marks.push((batch.savepoint(), number));
        batch.put(format!("k{:03}", number % 700), format!("{number}")).unwrap();
        let again = batch.savepoint();
        batch.put("undone", "1").unwrap();
        batch.rollback_to(again).unwrap();
        assert!(batch.layers_for_test() <= 11, "{number}: {}", batch.layers_for_test());
    }
    let mut held = batch.iter(&Default::default()).unwrap();
    for (savepoint, number) in marks.into_iter().rev().filter(|(_, number)| number % 90 == 50) {
        batch.rollback_to(savepoint).unwrap();
        let newest = |key: u32| [key + 700, key].into_iter().find(|last| *last < number);
        for key in 0..700 {
            let found = batch.get(format!("k{key:03}"), &Default::default()).unwrap();
            assert_eq!(found.map(|value| value.to_vec()), newest(key).map(|last| last.to_string().into_bytes()));
        }
        assert_eq!(batch.len(), number as usize);
    }
    held.seek(b"k299");
    assert_eq!((held.key(), held.value()), (&b"k299"[..], &b"999"[..]), "it shows what it showed");
}
