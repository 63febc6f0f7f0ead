//! Keys with timestamps: read at any, and never written.
//!
//! The databases are written under an order that hides what it is, so that the engine takes the timestamps for bytes of the keys.

use super::basics::options;
use crate::version::VersionEdit;
use crate::{
    AppendOperator, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, FlushOptions, Iter,
    ReadOptions, WriteBatch, WriteOptions,
};
use proptest::prelude::*;
use siltstone_base::comparator::{BytewiseU64Ts, Comparator, ReverseBytewiseU64Ts};
use siltstone_base::env::sim::SimDisk;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An order with timestamps that says that it has none.
#[derive(Debug)]
struct Disguised(Arc<dyn Comparator>);

impl Comparator for Disguised {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare(a, b)
    }

    fn equal_may_differ(&self) -> bool {
        true
    }
}

fn order(reversed: bool) -> Arc<dyn Comparator> {
    if reversed { Arc::new(ReverseBytewiseU64Ts) } else { Arc::new(BytewiseU64Ts) }
}

fn family(order: Arc<dyn Comparator>) -> ColumnFamilyOptions {
    let operator = Some(Arc::new(AppendOperator::new(",")) as _);
    ColumnFamilyOptions::default().comparator(order).merge_operator(operator).disable_auto_compactions(true)
}

fn writable(disk: &SimDisk, reversed: bool) -> Db {
    let family = family(Arc::new(Disguised(order(reversed))));
    Db::open_families("/db", &options(disk), &[("default", family)]).unwrap()
}

/// Opens what was written; the comparator is known by its name.
fn readable(disk: &SimDisk) -> Db {
    let unnamed = ColumnFamilyOptions::default().merge_operator(Some(Arc::new(AppendOperator::new(","))));
    Db::open_read_only("/db", &options(disk).unnamed_families(unnamed), &[]).unwrap()
}

fn stamped(key: &str, timestamp: u64) -> Vec<u8> {
    [key.as_bytes(), &timestamp.to_le_bytes()].concat()
}

fn at(timestamp: u64) -> ReadOptions {
    ReadOptions::default().timestamp(Some(timestamp))
}

fn shown(iter: &Iter) -> Option<(String, String, Option<u64>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    iter.status().unwrap();
    iter.valid().then(|| (text(iter.key()), text(iter.value()), iter.timestamp()))
}

#[derive(Debug, Clone)]
enum Change {
    Put(u8),
    Merge(u8),
    Delete,
}

/// One write: key, timestamp, what; and what becomes of the memtable behind it.
type Write = (u8, u64, Change, bool);

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let change = prop_oneof![
        3 => any::<u8>().prop_map(Change::Put),
        1 => any::<u8>().prop_map(Change::Merge),
        2 => Just(Change::Delete),
    ];
    prop::collection::vec((0..6_u8, 0..8_u64, change, prop::bool::weighted(0.15)), 1..60)
}

/// What a reader at `timestamp` sees: the rows with their timestamps.
fn expected(writes: &[Write], timestamp: u64, reversed: bool) -> Vec<(String, String, Option<u64>)> {
    let mut versions: BTreeMap<u8, Vec<(u64, usize, &Change)>> = BTreeMap::new();
    for (seqno, (key, of, change, _)) in writes.iter().enumerate().filter(|(_, write)| write.1 <= timestamp) {
        versions.entry(*key).or_default().push((*of, seqno, change));
    }
    let mut rows = Vec::new();
    for (key, mut versions) in versions {
        versions.sort_by_key(|(of, seqno, _)| std::cmp::Reverse((*of, *seqno)));
        let mut parts = Vec::new();
        for (_, _, change) in &versions {
            match change {
                Change::Put(value) => {
                    parts.push(value.to_string());
                    break;
                }
                Change::Merge(value) => parts.push(value.to_string()),
                Change::Delete => break,
            }
        }
        if !parts.is_empty() {
            parts.reverse();
            rows.push((format!("k{key}"), parts.join(","), versions.first().map(|version| version.0)));
        }
    }
    if reversed {
        rows.reverse();
    }
    rows
}

fn write(db: &Db, writes: &[Write]) {
    for (key, timestamp, change, flushes) in writes {
        let key = stamped(&format!("k{key}"), *timestamp);
        match change {
            Change::Put(value) => db.put(key, value.to_string()).unwrap(),
            Change::Merge(value) => db.merge(key, value.to_string()).unwrap(),
            Change::Delete => db.delete(key).unwrap(),
        }
        if *flushes {
            db.flush(&FlushOptions::default()).unwrap();
        }
    }
}

fn compare(db: &Db, timestamp: u64, rows: &[(String, String, Option<u64>)], reversed: bool) {
    let read = at(timestamp);
    let default = db.default_family();
    let keys: Vec<String> = (0..6).map(|key| format!("k{key}")).collect();
    let slices: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for (key, found) in keys.iter().zip(db.multi_get_cf(&default, &slices, &read)) {
        let row = rows.iter().find(|row| row.0 == *key).map(|row| row.1.as_bytes());
        assert_eq!(found.unwrap().as_deref(), row, "{key} at {timestamp}");
        assert_eq!(db.get_cf(&default, key, &read).unwrap().as_deref(), row, "{key} at {timestamp}");
        assert!(row.is_none() || db.key_may_exist(&default, key, &read).unwrap());
    }
    let mut iter = db.iter(&read).unwrap();
    iter.seek_to_first();
    for row in rows {
        assert_eq!(shown(&iter).as_ref(), Some(row), "forward at {timestamp}");
        iter.next();
    }
    assert_eq!(shown(&iter), None);
    iter.seek_to_last();
    for row in rows.iter().rev() {
        assert_eq!(shown(&iter).as_ref(), Some(row), "backward at {timestamp}");
        iter.prev();
    }
    assert_eq!(shown(&iter), None);
    let is_before = |a: &str, b: &str| if reversed { a > b } else { a < b };
    for key in &keys {
        let first = rows.iter().position(|row| !is_before(&row.0, key)).unwrap_or(rows.len());
        iter.seek(key.as_bytes());
        assert_eq!(shown(&iter).as_ref(), rows.get(first), "seek {key} at {timestamp}");
        // Back over the start, and there again.
        if iter.valid() {
            iter.prev();
            assert_eq!(shown(&iter).as_ref(), first.checked_sub(1).map(|before| &rows[before]));
        }
        if iter.valid() {
            iter.next();
            assert_eq!(shown(&iter).as_ref(), rows.get(first));
        }
        let last = rows.iter().rposition(|row| !is_before(key, &row.0));
        iter.seek_for_prev(key.as_bytes());
        assert_eq!(shown(&iter).as_ref(), last.map(|last| &rows[last]), "seek back {key} at {timestamp}");
        // Bounds are keys without timestamps.
        let bounded = read.clone().iterate_upper_bound(Some(key.clone().into_bytes()));
        let mut below = db.iter(&bounded).unwrap();
        below.seek_to_last();
        assert_eq!(shown(&below).as_ref(), first.checked_sub(1).map(|before| &rows[before]));
        let bounded = read.clone().iterate_lower_bound(Some(key.clone().into_bytes()));
        let mut from = db.iter(&bounded).unwrap();
        from.seek_to_first();
        assert_eq!(shown(&from).as_ref(), rows.get(first));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn readers_see_what_was_true_at_their_timestamp(writes in writes(), reversed: bool) {
        let disk = SimDisk::new();
        let db = writable(&disk, reversed);
        // Something below level 0 too, older than all else in both ways.
        db.put(stamped("k0", 0), "below").unwrap();
        db.flush(&FlushOptions::default()).unwrap();
        db.compact_range(&db.default_family(), None, None, &CompactRangeOptions::default()).unwrap();
        db.delete(stamped("k0", 0)).unwrap();
        write(&db, &writes);
        db.close().unwrap();
        let db = readable(&disk);
        for timestamp in [0, 1, 3, 7, u64::MAX] {
            compare(&db, timestamp, &expected(&writes, timestamp, reversed), reversed);
        }
        db.check().unwrap();
    }
}

#[test]
fn nothing_is_written_to_keys_with_timestamps() {
    let disk = SimDisk::new();
    let refused = |outcome: crate::Result<()>| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.message().contains("BytewiseComparator.u64ts"), "{error}");
    };
    let with = |name| [(name, family(order(false)))];
    let create = options(&disk).create_missing_column_families(true);
    refused(Db::open_families("/db", &create, &with("default")).map(drop));
    let db = writable(&disk, false);
    db.put(stamped("k", 5), "v").unwrap();
    db.close().unwrap();
    // The comparator is the one that the MANIFEST names.
    refused(Db::open("/db", &options(&disk)).map(drop));
    refused(Db::open_families("/db", &options(&disk), &with("default")).map(drop));
    let plain = Db::open("/plain", &options(&disk)).unwrap();
    refused(plain.create_family("stamped", &family(order(false))).map(drop));

    let db = readable(&disk);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(db.put(stamped("k", 6), "w").unwrap_err().kind(), ErrorKind::ReadOnly);
    let default = db.default_family();
    assert_eq!(db.compact_range(&default, None, None, &Default::default()).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.get_entity_cf(&default, "k", &at(5)).unwrap_err().kind(), ErrorKind::NotSupported);
}

#[test]
fn a_timestamp_that_cannot_be_read_at_is_refused() {
    let disk = SimDisk::new();
    let db = writable(&disk, false);
    db.put(stamped("k", 5), "old").unwrap();
    db.put(stamped("k", 9), "new").unwrap();
    let mut edit = VersionEdit::new(ColumnFamilyId(0));
    edit.timestamp_low = Some(7);
    db.handle.inner.versions.lock().log_and_apply(&mut [edit]).unwrap();
    db.close().unwrap();
    let db = readable(&disk);
    let get =
        |timestamp| db.get_cf(&db.default_family(), "k", &at(timestamp)).map(|found| found.map(|value| value.to_vec()));
    assert_eq!(get(7).unwrap().unwrap(), b"old");
    assert_eq!(get(9).unwrap().unwrap(), b"new");
    let error = get(6).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.message(), "timestamp: 6 is less than 7, before which the column family keeps no history");
    assert_eq!(db.iter(&at(6)).unwrap_err().to_string(), error.to_string());

    let plain = Db::open("/plain", &options(&disk)).unwrap();
    plain.put("k", "v").unwrap();
    for error in [plain.iter(&at(1)).unwrap_err(), plain.get_cf(&plain.default_family(), "k", &at(1)).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.message(), "timestamp: keys of column family default have none");
    }
    let mut iter = plain.iter(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    assert_eq!((iter.valid(), iter.timestamp()), (true, None));
}

#[test]
fn range_tombstones_and_short_keys_are_errors() {
    let disk = SimDisk::new();
    let db = writable(&disk, false);
    db.put("short", "v").unwrap();
    db.put(stamped("k", 5), "v").unwrap();
    db.flush(&FlushOptions::default()).unwrap();
    let read_only = readable(&disk);
    let mut iter = read_only.iter(&ReadOptions::default()).unwrap();
    iter.seek(b"");
    assert_eq!(iter.key(), b"k");
    iter.next();
    assert_eq!((iter.valid(), iter.status().unwrap_err().kind()), (false, ErrorKind::Corruption));
    iter.seek_to_last();
    assert_eq!((iter.valid(), iter.status().unwrap_err().kind()), (false, ErrorKind::Corruption));

    let mut batch = WriteBatch::new();
    batch.delete_range(stamped("a", 9), stamped("c", 9));
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    db.close().unwrap();
    let error = readable(&disk).iter(&ReadOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert_eq!(error.message(), "range tombstones with timestamps, which column family default has");
}
