//! Copies of databases: the same rows as at the moment of the copy, whatever happens meanwhile and afterwards.

mod backup;
mod bad_backups;
mod changing;
mod checkpoint;
mod follower;
mod live_copy;
mod prepared_updates;
mod read_only;
mod undecided;
mod updates;

use crate::{ColumnFamilyOptions, Db, DbOptions, ReadOptions, WriteBatch, WriteOptions};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::path::Path;

/// The family beside the default one.
pub(super) const OTHER: &str = "other";

/// Rows by family and key.
pub(super) type Rows = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// Options of a database on a simulated disk, run by the thread that waits.
pub(super) fn simulated(disk: &SimDisk) -> DbOptions {
    let executor = StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000)));
    small(DbOptions::default()).env(Some(disk.env())).executor(Some(Arc::new(executor)))
}

/// Small memtables and tables, so that flushes and compactions run.
pub(super) fn small(options: DbOptions) -> DbOptions {
    let families = ColumnFamilyOptions::default().write_buffer_size(32 << 10).target_file_size_base(16 << 10);
    options.create_if_missing(true).unnamed_families(families.level0_file_num_compaction_trigger(2))
}

/// All rows of all families.
pub(super) fn rows(db: &Db) -> Rows {
    let families = db.families();
    let rows = families.iter().map(|family| {
        let mut iter = db.iter_cf(family, &ReadOptions::default()).unwrap();
        let mut rows = BTreeMap::new();
        iter.seek_to_first();
        while iter.valid() {
            rows.insert(iter.key().to_vec(), iter.value().to_vec());
            iter.next();
        }
        iter.status().unwrap();
        (family.name().to_owned(), rows)
    });
    rows.collect()
}

/// Opens the database in `dir`, looks through all of it, and returns its rows.
pub(super) fn rows_in(dir: impl AsRef<Path>, options: &DbOptions) -> Rows {
    let db = Db::open(dir, &options.clone().create_if_missing(false)).unwrap();
    db.check().unwrap();
    let rows = rows(&db);
    db.close().unwrap();
    rows
}

/// The key and the value of row `number`.
pub(super) fn row(number: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("{:08}", number * 7919 % 100_000).into_bytes(), format!("{number}-{}", "v".repeat(40)).into_bytes())
}

/// Writes row `number` to both families, as one batch: sequence numbers `2 * number - 1` and `2 * number`.
pub(super) fn write_row(db: &Db, number: u64, options: &WriteOptions) {
    let (key, value) = row(number);
    let other = db.family(OTHER).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&key, &value);
    batch.put_cf(&other, &key, &value);
    db.write(&mut batch, options).unwrap();
}

/// What there is once rows up to `last` were written.
pub(super) fn rows_up_to(last: u64) -> Rows {
    let rows: BTreeMap<_, _> = (1..=last).map(row).collect();
    [("default".to_owned(), rows.clone()), (OTHER.to_owned(), rows)].into()
}

/// Runs `meanwhile` while another thread writes rows 1, 2, 3 and so on.
pub(super) fn beside_a_writer(db: &Db, meanwhile: impl FnOnce()) {
    beside_a_writer_ahead_by(u64::MAX, db, |_| meanwhile());
}

/// The same with a writer that goes on as far as somebody [waits for](PacedWriter::wait_for) and 4,000 seqnos further: whoever reads everything each time does not have more and more to read.
pub(super) fn beside_a_paced_writer(db: &Db, meanwhile: impl FnOnce(&PacedWriter<'_>)) {
    beside_a_writer_ahead_by(4_000, db, meanwhile);
}

fn beside_a_writer_ahead_by(lead: u64, db: &Db, meanwhile: impl FnOnce(&PacedWriter<'_>)) {
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    let stop = AtomicBool::new(false);
    let writer = PacedWriter { db, wanted: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Ordering::Acquire) {
                if db.latest_seqno() > writer.wanted.load(Ordering::Acquire).saturating_add(lead) {
                    std::thread::yield_now();
                    continue;
                }
                number += 1;
                write_row(db, number, &WriteOptions::default());
            }
        });
        let _stop = StopAtEnd(&stop);
        meanwhile(&writer);
    });
}

/// A writer beside which a test runs.
pub(super) struct PacedWriter<'a> {
    db: &'a Db,
    wanted: AtomicU64,
}

impl PacedWriter<'_> {
    /// Waits until the writer has come to `seqno`.
    pub(super) fn wait_for(&self, seqno: u64) {
        self.wanted.fetch_max(seqno, Ordering::AcqRel);
        wait_for(self.db, seqno);
    }
}

/// Stops the writer also if an assertion fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Waits until the writer has come to `seqno`.
pub(super) fn wait_for(db: &Db, seqno: u64) {
    while db.latest_seqno() < seqno {
        std::thread::yield_now();
    }
}
