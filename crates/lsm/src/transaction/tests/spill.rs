//! Transactions larger than memory: they show and become what small ones do.

use super::{LEVELS, kind, on, options, rows};
use crate::file_names::FileName;
use crate::{
    AppendOperator, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, FlushOptions, Isolation,
    MergeFailure, MergeOperator, OptimisticTransaction, OptimisticTransactionDb, ReadOptions, Result, Savepoint, Spill,
    Transaction, TransactionDb, TransactionDbOptions, WriteOptions,
};
use siltstone_base::env::FileKind;
use siltstone_base::env::sim::{FaultKind, FaultPlan, OpClass, OpFilter, SimDisk};
use siltstone_base::row_locks::LockMode;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The smallest limit there is.
pub(super) const LIMIT: usize = 1024;

/// Joins, and cannot join without the value before.
#[derive(Debug)]
struct Whole;

impl MergeOperator for Whole {
    fn name(&self) -> &str {
        "Whole"
    }

    fn full_merge(
        &self,
        key: &[u8],
        old: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, MergeFailure> {
        AppendOperator::new("").full_merge(key, old, operands)
    }
}

pub(super) fn families() -> [(&'static str, ColumnFamilyOptions); 3] {
    let family = ColumnFamilyOptions::default().write_buffer_size(16 << 10).target_file_size_base(2 << 10);
    let joining = family.clone().merge_operator(Some(Arc::new(AppendOperator::new(","))));
    let whole = family.clone().merge_operator(Some(Arc::new(Whole)));
    [("default", joining), ("other", whole), ("third", family)]
}

pub(super) fn small() -> TransactionDbOptions {
    TransactionDbOptions::default().max_transaction_bytes(LIMIT)
}

pub(super) fn open(disk: &SimDisk) -> Result<TransactionDb> {
    TransactionDb::open("/db", &options(disk), &families(), &small())
}

/// Names of temporary files in the directory, but for that of the next WAL, which is empty.
pub(super) fn temporary(disk: &SimDisk) -> Vec<String> {
    let (env, dir) = (disk.env(), Path::new("/db"));
    let names = env.list_dir(dir).unwrap().into_iter().map(|entry| entry.name);
    let names = names.filter(|name| matches!(FileName::parse(name), Some(FileName::Temporary(_))));
    names.filter(|name| env.file_len(&dir.join(name)).unwrap() > 0).collect()
}

/// Fails unless all tables in the directory are those of the database.
pub(super) fn check_files(disk: &SimDisk, db: &Db) {
    let entries = disk.env().list_dir(Path::new("/db")).unwrap();
    let tables =
        entries.iter().filter(|entry| matches!(FileName::parse(&entry.name), Some(FileName::Table(_)))).count();
    let live: usize = db.families().iter().map(|family| db.table_files(family).unwrap().len()).sum();
    assert_eq!((tables, temporary(disk)), (live, Vec::new()));
}

/// A value that fills the limit soon.
pub(super) fn value(number: u64) -> Vec<u8> {
    format!("{number}-").repeat(20).into_bytes()
}

pub(super) struct Draw(pub(super) u64);

impl Draw {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn text(rows: &Rows) -> String {
    let row = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value).escape_default())
    };
    rows.iter().map(row).collect::<Vec<_>>().join(" ")
}

/// A database of either kind.
enum Engine {
    Locks(TransactionDb),
    Optimistic(OptimisticTransactionDb),
}

enum Tx {
    Locks(Transaction),
    Optimistic(OptimisticTransaction),
}

macro_rules! each {
    ($tx:expr, $name:ident => $call:expr) => {
        match $tx {
            Tx::Locks($name) => $call,
            Tx::Optimistic($name) => $call,
        }
    };
}

impl Engine {
    fn open(disk: &SimDisk, is_optimistic: bool, transactions: &TransactionDbOptions) -> Self {
        let (options, families) = (options(disk), families());
        match is_optimistic {
            false => Self::Locks(TransactionDb::open("/db", &options, &families, transactions).unwrap()),
            true => Self::Optimistic(OptimisticTransactionDb::open("/db", &options, &families, transactions).unwrap()),
        }
    }

    fn db(&self) -> &Db {
        match self {
            Self::Locks(db) => db.db(),
            Self::Optimistic(db) => db.db(),
        }
    }

    fn begin(&self, level: Isolation) -> Tx {
        match self {
            Self::Locks(db) => Tx::Locks(db.begin(&on(level))),
            Self::Optimistic(db) => Tx::Optimistic(db.begin(&on(level))),
        }
    }

    fn families(&self) -> [ColumnFamily; 2] {
        [self.db().default_family(), self.db().family("other").unwrap()]
    }
}

#[derive(Debug)]
enum Change {
    Put(Vec<u8>),
    Merge(Vec<u8>),
    Delete,
    SingleDelete,
}

/// A change of a key that may be made where rows are these.
fn draw_change(draw: &mut Draw, rows: &Rows) -> (Vec<u8>, Change) {
    let number = draw.below(1000);
    if draw.below(4) == 0 {
        // A key that is put once and single-deleted once, in turns.
        let key = format!("s{}", draw.below(4)).into_bytes();
        let change = if rows.contains_key(&key) { Change::SingleDelete } else { Change::Put(value(number)) };
        return (key, change);
    }
    let key = format!("k{:02}", draw.below(14)).into_bytes();
    let change = match draw.below(6) {
        0..3 => Change::Put(value(number)),
        3..5 => Change::Merge(number.to_string().repeat(1 + draw.below(5) as usize).into_bytes()),
        _ => Change::Delete,
    };
    (key, change)
}

fn apply_to_rows(rows: &mut Rows, is_other: bool, key: &[u8], change: &Change) {
    match change {
        Change::Put(value) => drop(rows.insert(key.to_vec(), value.clone())),
        Change::Delete | Change::SingleDelete => drop(rows.remove(key)),
        Change::Merge(operand) => {
            let old = rows.get(key).cloned();
            let operator = AppendOperator::new(if is_other { "" } else { "," });
            rows.insert(key.to_vec(), operator.full_merge(key, old.as_deref(), &[operand]).unwrap());
        }
    }
}

fn apply(tx: &mut Tx, family: &ColumnFamily, key: &[u8], change: &Change) {
    match (tx, change) {
        (tx, Change::Put(value)) => each!(tx, tx => tx.put_cf(family, key, value)).unwrap(),
        (tx, Change::Merge(operand)) => each!(tx, tx => tx.merge_cf(family, key, operand)).unwrap(),
        (tx, Change::Delete) => each!(tx, tx => tx.delete_cf(family, key)).unwrap(),
        (Tx::Locks(tx), Change::SingleDelete) => tx.single_delete_cf(family, key).unwrap(),
        // These know none.
        (Tx::Optimistic(tx), Change::SingleDelete) => tx.delete_cf(family, key).unwrap(),
    }
}

/// Compares what a transaction, or what the database shows.
fn check_rows(engine: &Engine, tx: Option<&mut Tx>, expected: &[Rows; 2], at: &str) {
    let Some(tx) = tx else {
        for (family, expected) in engine.families().iter().zip(expected) {
            let found = engine.db().iter_cf(family, &ReadOptions::default()).unwrap();
            assert_eq!(rows(found), text(expected), "{at}");
        }
        return;
    };
    for (family, expected) in engine.families().iter().zip(expected) {
        let read = ReadOptions::default();
        assert_eq!(rows(each!(tx, tx => tx.iter_cf(family, &read)).unwrap()), text(expected), "{at}");
        for key in (0..14).map(|number| format!("k{number:02}")).chain((0..4).map(|number| format!("s{number}"))) {
            let expected = expected.get(key.as_bytes()).map(Vec::as_slice);
            let found = each!(tx, tx => tx.get_cf(family, &key)).unwrap();
            assert_eq!(found.as_deref(), expected, "{at}, {key}");
            let mut iter = each!(tx, tx => tx.iter_cf(family, &read)).unwrap();
            iter.seek(key.as_bytes());
            let found = (iter.valid() && iter.key() == key.as_bytes()).then(|| iter.value());
            assert_eq!(found, expected, "{at}, seeking {key}");
            let found = match tx {
                Tx::Locks(tx) => tx.get_for_update_cf(family, &key, LockMode::Exclusive),
                Tx::Optimistic(tx) => tx.get_for_update_cf(family, &key),
            };
            assert_eq!(found.unwrap().as_deref(), expected, "{at}, {key} for update");
        }
    }
}

/// Runs transactions, some larger than memory, and compares them with a map and with an engine whose transactions are all small enough.
fn compare(seed: u64) {
    let mut draw = Draw(seed);
    let (is_optimistic, level) = (draw.below(2) == 0, LEVELS[draw.below(2) as usize]);
    let disks = [SimDisk::new(), SimDisk::new()];
    let limits = [small(), TransactionDbOptions::default().spill(Spill::Never)];
    let mut engines = [0, 1].map(|index| Engine::open(&disks[index], is_optimistic, &limits[index]));
    let mut committed = [Rows::new(), Rows::new()];
    for number in 0..4 {
        let mut txs = [0, 1].map(|index| engines[index].begin(level));
        let mut expected = committed.clone();
        let mut savepoints: Vec<([Savepoint; 2], [Rows; 2])> = Vec::new();
        let mut early = None;
        let mut most = 0;
        for step in 0..20 + draw.below(150) {
            let at = format!("seed {seed}, transaction {number}, step {step}");
            match draw.below(40) {
                0..2 => {
                    let place = [0, 1].map(|index| each!(&mut txs[index], tx => tx.savepoint()));
                    if savepoints.last().is_none_or(|(last, _)| *last != place) {
                        savepoints.push((place, expected.clone()));
                    }
                }
                2 if !savepoints.is_empty() => {
                    let choice = draw.below(savepoints.len() as u64) as usize;
                    savepoints.truncate(choice + 1);
                    let (place, rows) = &savepoints[choice];
                    for (tx, place) in txs.iter_mut().zip(place) {
                        each!(tx, tx => tx.rollback_to(*place)).unwrap();
                    }
                    expected = rows.clone();
                }
                3 => {
                    for (engine, tx) in engines.iter().zip(&mut txs) {
                        check_rows(engine, Some(tx), &expected, &at);
                    }
                    check_rows(&engines[0], None, &committed, &at);
                    let family = &engines[0].families()[0];
                    early = Some((
                        each!(&txs[0], tx => tx.iter_cf(family, &ReadOptions::default())).unwrap(),
                        text(&expected[0]),
                    ));
                }
                4 => engines.iter().for_each(|engine| engine.db().flush(&FlushOptions::default()).unwrap()),
                _ => {
                    let is_other = draw.below(3) == 0;
                    let (key, change) = draw_change(&mut draw, &expected[usize::from(is_other)]);
                    for (engine, tx) in engines.iter().zip(&mut txs) {
                        apply(tx, &engine.families()[usize::from(is_other)], &key, &change);
                    }
                    apply_to_rows(&mut expected[usize::from(is_other)], is_other, &key, &change);
                }
            }
            if let Tx::Locks(tx) = &txs[0] {
                most = most.max(tx.parts_for_test());
                assert_eq!(tx.has_spilled(), tx.parts_for_test() > 0);
            }
        }
        if let Some((iter, expected)) = early {
            assert_eq!(rows(iter), expected, "an iterator shows what it showed");
        }
        assert!(most < 24, "{most} parts");
        let commits = draw.below(4) > 0;
        for tx in txs {
            match commits {
                true => each!(tx, tx => tx.commit()).unwrap(),
                false => each!(tx, tx => tx.rollback()),
            }
        }
        if commits {
            committed = expected;
        }
        let at = format!("seed {seed}, after transaction {number}");
        for (engine, disk) in engines.iter().zip(&disks) {
            check_rows(engine, None, &committed, &at);
            if draw.below(2) == 0 {
                for family in engine.families() {
                    engine.db().compact_range(&family, None, None, &CompactRangeOptions::default()).unwrap();
                }
                check_rows(engine, None, &committed, &format!("{at}, compacted"));
            }
            engine.db().check().unwrap();
            engine.db().wait_for_background_work().unwrap();
            check_files(disk, engine.db());
        }
        if draw.below(3) == 0 {
            engines.iter().for_each(|engine| engine.db().clone().close().unwrap());
            engines = [0, 1].map(|index| Engine::open(&disks[index], is_optimistic, &limits[index]));
            check_rows(&engines[0], None, &committed, &format!("{at}, opened again"));
        }
    }
}

#[test]
fn a_transaction_that_spills_shows_and_becomes_what_a_small_one_does() {
    (0..40).for_each(compare);
}

/// Puts as many rows as make a transaction spill several times, in both families.
pub(super) fn fill(tx: &mut Transaction, db: &TransactionDb, number: u64) {
    let other = db.db().family("other").unwrap();
    for row in 0..40 {
        tx.put(format!("a{row:02}"), value(number)).unwrap();
        tx.put_cf(&other, format!("b{row:02}"), value(number)).unwrap();
    }
    assert!(tx.has_spilled());
}

fn count(db: &TransactionDb, family: &str, read: &ReadOptions) -> usize {
    let family = db.db().family(family).unwrap();
    let mut iter = db.db().iter_cf(&family, read).unwrap();
    let mut count = 0;
    iter.seek_to_first();
    while iter.valid() {
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    count
}

#[test]
fn all_of_it_is_seen_at_once_and_by_no_older_snapshot() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    db.put("a00", "before").unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 1);
    let before = db.db().snapshot();
    assert_eq!(kind(db.put("a00", "1")), ErrorKind::TimedOut, "its rows are locked");
    let read = ReadOptions::default();
    assert_eq!((count(&db, "default", &read), count(&db, "other", &read)), (1, 0));
    tx.commit().unwrap();
    assert_eq!((count(&db, "default", &read), count(&db, "other", &read)), (40, 40));
    let read = read.snapshot(Some(before));
    assert_eq!((count(&db, "default", &read), count(&db, "other", &read)), (1, 0));
    // What comes later is newer.
    db.put("a00", "after").unwrap();
    for _ in 0..2 {
        assert_eq!(db.db().get("a00").unwrap().as_deref(), Some(&b"after"[..]));
        db.db().flush(&FlushOptions::default()).unwrap();
    }
    assert_eq!(db.lock_stats().locks, 0);
    db.db().check().unwrap();
}

#[test]
fn who_follows_sees_a_gap() {
    let disk = SimDisk::new();
    let db = TransactionDb::open("/db", &options(&disk), &families(), &small().spill(Spill::Always)).unwrap();
    db.put("first", "1").unwrap();
    let mut updates = db.db().updates_since(1).unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    let mut tx = db.begin(&on(Isolation::ReadCommitted));
    fill(&mut tx, &db, 1);
    tx.commit().unwrap();
    db.put("last", "1").unwrap();
    assert_eq!(kind(updates.next_batch()), ErrorKind::NotFound);
}

#[test]
fn a_large_optimistic_transaction_loses_against_who_committed_before() {
    for (is_flushed, for_update) in [(false, false), (true, false), (false, true), (true, true)] {
        let disk = SimDisk::new();
        let db = OptimisticTransactionDb::open("/db", &options(&disk), &families(), &small()).unwrap();
        let fill = |tx: &mut OptimisticTransaction| {
            for row in 0..40 {
                tx.put(format!("a{row:02}"), value(1)).unwrap();
            }
        };
        for level in LEVELS {
            let mut tx = db.begin(&on(level));
            if for_update {
                assert!(tx.get_for_update("x").unwrap().is_none_or(|found| &*found == b"2"));
            }
            fill(&mut tx);
            db.db().put(if for_update { "x" } else { "a03" }, "2").unwrap();
            if is_flushed {
                db.db().flush(&FlushOptions::default()).unwrap();
            }
            assert_eq!(kind(tx.commit()), ErrorKind::Busy);
            assert_eq!(db.db().get("a00").unwrap(), None);
            check_files(&disk, db.db());
        }
        let mut tx = db.begin(&on(Isolation::Snapshot));
        fill(&mut tx);
        db.db().put("y", "2").unwrap();
        tx.commit().unwrap();
        assert_eq!(db.db().get("a03").unwrap().as_deref(), Some(&value(1)[..]));
        // The other way round: who began before it commits after it.
        let mut small = db.begin(&on(Isolation::Snapshot));
        small.put("a05", "3").unwrap();
        let mut tx = db.begin(&on(Isolation::Snapshot));
        fill(&mut tx);
        tx.commit().unwrap();
        assert_eq!(kind(small.commit()), ErrorKind::Busy);
    }
}

#[test]
fn one_that_has_spilled_is_not_prepared_and_stays_as_it_is() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    tx.put("a", "1").unwrap();
    tx.check_preparable().unwrap();
    fill(&mut tx, &db, 1);
    assert_eq!(kind(tx.check_preparable()), ErrorKind::NotSupported);
    assert_eq!(tx.get("a07").unwrap().as_deref(), Some(&value(1)[..]));
    tx.commit().unwrap();
    assert!(db.db().get("a").unwrap().is_some());
    // Who does not ask first gets it rolled back.
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 2);
    assert_eq!(kind(tx.prepare("name")), ErrorKind::NotSupported);
    assert_eq!((db.lock_stats().locks, db.prepared_transactions().len()), (0, 0));
    assert_eq!(db.db().get("a07").unwrap().as_deref(), Some(&value(1)[..]));
    check_files(&disk, db.db());
}

#[test]
fn nothing_is_left_of_one_that_ends_in_any_other_way() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 1);
    assert!(!temporary(&disk).is_empty());
    // The process dies.
    let after = disk.after_process_death();
    drop(tx);
    check_files(&disk, db.db());
    assert!(!temporary(&after).is_empty());
    let again = open(&after).unwrap();
    check_files(&after, again.db());
    // The database is closed under it: what it has may be somebody else's by the time it goes.
    let mut tx = again.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &again, 1);
    again.close().unwrap();
    let again = open(&after).unwrap();
    check_files(&after, again.db());
    assert_eq!(kind(tx.commit()), ErrorKind::Aborted);
    again.put("a", "1").unwrap();
    again.db().check().unwrap();
}

/// The next opening gives out the same names: a file that is made under one of them would take the place of a WAL or of a table.
#[test]
fn a_transaction_of_a_closed_database_makes_no_files() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 1);
    db.close().unwrap();
    let again = open(&disk).unwrap();
    again.put("a", "1").unwrap();
    let before = disk.env().list_dir(Path::new("/db")).unwrap();
    let mut refused = 0;
    for number in 0..200_u32 {
        refused +=
            usize::from(tx.put(number.to_be_bytes(), value(7)).is_err_and(|error| error.kind() == ErrorKind::Aborted));
    }
    assert!(refused > 0);
    assert_eq!(kind(tx.commit()), ErrorKind::Aborted);
    assert_eq!(disk.env().list_dir(Path::new("/db")).unwrap(), before);
    again.close().unwrap();
    let again = open(&disk).unwrap();
    assert_eq!(again.db().get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// Others get its locks and read what was before it: so it must not be there after a crash, though its record may have come to the device.
#[test]
fn a_commit_that_failed_does_not_come_back_beneath_later_ones() {
    for kind in [FaultKind::Io, FaultKind::SyncFailsVisible] {
        let disk = SimDisk::new();
        let db = open(&disk).unwrap();
        let mut tx = db.begin(&on(Isolation::Snapshot));
        tx.put("first", "1").unwrap();
        fill(&mut tx, &db, 1);
        let syncs = OpFilter { class: Some(OpClass::Sync), file: Some(FileKind::Manifest), ..OpFilter::default() };
        disk.set_fault(FaultPlan::once(kind, 0).filter(syncs));
        let failed = tx.commit();
        disk.clear_fault();
        assert!(failed.is_err() && !disk.fault_hits().is_empty(), "{failed:?}");
        assert_eq!(db.db().get("first").unwrap(), None);
        db.put("second", "2").unwrap();
        let again = open(&disk.after_process_death()).unwrap();
        assert_eq!(again.db().get("first").unwrap(), None);
        assert_eq!(again.db().get("second").unwrap().as_deref(), Some(&b"2"[..]));
        again.db().check().unwrap();
    }
}

#[test]
fn one_whose_family_is_dropped_changes_nothing() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut tx = db.begin(&on(Isolation::Snapshot));
    fill(&mut tx, &db, 1);
    db.db().drop_family(&db.db().family("other").unwrap()).unwrap();
    assert_eq!(kind(tx.commit()), ErrorKind::NotFound);
    assert_eq!(db.db().get("a00").unwrap(), None);
    check_files(&disk, db.db());
}

/// Its runs are few, and what it holds in memory is within the limit, however large it becomes.
#[test]
fn a_very_large_one_has_few_runs() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let mut tx = db.begin(&on(Isolation::ReadCommitted));
    let place = tx.savepoint();
    let mut most = 0;
    for number in 0..3_000_u32 {
        tx.put(number.wrapping_mul(0x9E37_79B9).to_be_bytes(), value(7)).unwrap();
        most = most.max(tx.parts_for_test());
    }
    assert!((8..24).contains(&most), "{most}");
    assert!(tx.size_bytes() > 100 * LIMIT);
    tx.rollback_to(place).unwrap();
    assert_eq!((tx.parts_for_test(), temporary(&disk).len()), (0, 0));
    for number in 0..3_000_u32 {
        tx.put(number.wrapping_mul(0x9E37_79B9).to_be_bytes(), value(8)).unwrap();
    }
    tx.commit().unwrap();
    assert_eq!(count(&db, "default", &ReadOptions::default()), 3_000);
    // They do not slow writers down by their number.
    assert!(db.db().table_files(&db.db().default_family()).unwrap().len() <= 9);
    db.db().check().unwrap();
}

/// What the database had before the first of two single deletes would be there again.
#[test]
fn a_single_delete_in_a_large_transaction_takes_away_what_the_database_had() {
    let disk = SimDisk::new();
    let db = open(&disk).unwrap();
    let family = db.db().default_family();
    let compact = || db.db().compact_range(&family, None, None, &CompactRangeOptions::default()).unwrap();
    for is_compacted in [false, true] {
        db.put("s", "first").unwrap();
        if is_compacted {
            compact();
        }
        let mut tx = db.begin(&on(Isolation::Snapshot));
        tx.single_delete_cf(&family, "s").unwrap();
        tx.put("s", "second").unwrap();
        fill(&mut tx, &db, 1);
        tx.commit().unwrap();
        assert_eq!(db.db().get("s").unwrap().as_deref(), Some(&b"second"[..]));
        db.db().single_delete_cf(&family, "s", &WriteOptions::default()).unwrap();
        for _ in 0..2 {
            assert_eq!(db.db().get("s").unwrap(), None);
            compact();
        }
        db.db().check().unwrap();
    }
}
