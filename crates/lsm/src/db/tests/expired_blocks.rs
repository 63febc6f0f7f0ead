//! Reads pass by data blocks of expired rows, and bring nothing back by it.

use super::basics::options;
use crate::expiry::test_policy::AtItsStamp;
use crate::metrics::Counter;
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbOptions, FlushOptions, ReadOptions, ReadTier,
    TableOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::sync::Arc;
use std::time::Duration;

const START: u64 = 1_700_000_000;
const ROWS: u64 = 900;

/// A database that compacts nothing unless it is asked to.
struct Life {
    db: Db,
    clock: Arc<ManualClock>,
}

impl Life {
    fn open() -> Self {
        let disk = SimDisk::new();
        let clock = Arc::new(ManualClock::new(START));
        let executor = Arc::new(StepExecutor::new(Arc::clone(&clock)));
        let options: DbOptions = options(&disk).executor(Some(executor));
        let family = ColumnFamilyOptions::default()
            .compression(CompressionType::None)
            .disable_auto_compactions(true)
            .table(TableOptions::default().block_size(256))
            .expiry(Some(Arc::new(AtItsStamp)));
        let db = Db::open_families("/db", &options, &[("default", family)]).unwrap();
        Self { db, clock }
    }

    /// Puts a row that expires so many seconds after the start, and has a block for itself.
    fn put(&self, key: &str, expires: u64) {
        self.db.put(key, format!("{}@{}", "v".repeat(240), START + expires)).unwrap();
    }

    fn flush(&self) {
        self.db.flush(&FlushOptions::default()).unwrap();
    }

    /// Brings all there is to the bottom.
    fn compact(&self) {
        let force = CompactRangeOptions::default().force_bottommost(true);
        self.db.compact_range(&self.db.default_family(), None, None, &force).unwrap();
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn skipped(&self) -> u64 {
        self.db.metrics().get(Counter::ExpiredBlocksSkipped)
    }

    /// What `body` reads: data blocks, whose checksums are verified, and those that it passes by.
    fn counted(&self, body: impl FnOnce()) -> (u64, u64) {
        let checked = || self.db.metrics().get(Counter::BlockChecksums);
        let before = (checked(), self.skipped());
        body();
        (checked() - before.0, self.skipped() - before.1)
    }

    fn keys(&self, options: &ReadOptions, is_forward: bool) -> Vec<String> {
        let mut rows = self.db.iter(options).unwrap();
        if is_forward {
            rows.seek_to_first()
        } else {
            rows.seek_to_last()
        }
        let mut keys = Vec::new();
        while rows.valid() {
            keys.push(String::from_utf8(rows.key().to_vec()).unwrap());
            if is_forward { rows.next() } else { rows.prev() }
        }
        rows.status().unwrap();
        keys
    }

    /// Asserts that a row is not there, whoever asks.
    fn assert_gone(&self, key: &str) {
        let (family, read) = (self.db.default_family(), ReadOptions::default());
        assert!(self.db.get(key).unwrap().is_none(), "a get shows {key}");
        let found = self.db.multi_get_cf(&family, &[b"a", key.as_bytes(), b"z"], &read);
        assert!(found[1].as_ref().unwrap().is_none(), "a get of several shows {key}");
        for is_forward in [true, false] {
            assert!(!self.keys(&read, is_forward).iter().any(|shown| shown == key), "a walk shows {key}");
        }
    }
}

fn key(number: u64) -> String {
    format!("row{number:04}")
}

/// Rows at the bottom, of which the middle third expires after a hundred seconds.
fn with_idle_third() -> Life {
    let life = Life::open();
    for number in 0..ROWS {
        life.put(&key(number), if (300..600).contains(&number) { 100 } else { 10_000 });
    }
    life.compact();
    life
}

/// Blocks that are read are not kept, so that each walk reads all that it needs.
fn unkept() -> ReadOptions {
    ReadOptions::default().fill_cache(false)
}

#[test]
fn no_block_of_an_expired_third_is_read() {
    let life = with_idle_third();
    // Opens the table.
    life.keys(&unkept(), true);
    let (all, skipped) = life.counted(|| assert_eq!(life.keys(&unkept(), true).len() as u64, ROWS));
    assert_eq!(skipped, 0);
    life.pass(200);
    for is_forward in [true, false] {
        let (read, skipped) = life.counted(|| assert_eq!(life.keys(&unkept(), is_forward).len() as u64, ROWS - 300));
        assert_eq!(read + skipped, all, "each block is read or passed by");
        assert!(skipped * 10 > all * 3, "{skipped} of {all}");
    }
    let get = || assert!(life.db.get_cf(&life.db.default_family(), key(450), &unkept()).unwrap().is_none());
    assert_eq!(life.counted(get), (0, 1));
    let several = || {
        let keys = [key(400), key(450), key(500)];
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let found = life.db.multi_get_cf(&life.db.default_family(), &keys, &unkept());
        assert!(found.into_iter().all(|found| found.unwrap().is_none()));
    };
    assert_eq!(life.counted(several), (0, 3));
    // A walk that ends within, and one that begins there.
    let mut rows = life.db.iter(&unkept()).unwrap();
    rows.seek(key(450).as_bytes());
    assert_eq!(rows.key(), key(600).as_bytes());
    rows.prev();
    assert_eq!(rows.key(), key(299).as_bytes());
    rows.seek_for_prev(key(450).as_bytes());
    assert_eq!(rows.key(), key(299).as_bytes());
    drop(rows);
    let told = life.db.expiry_report(&life.db.default_family()).unwrap().unwrap();
    assert_eq!(told.blocks_skipped, life.skipped());
}

#[test]
fn whoever_began_before_rows_expired_goes_on_seeing_them() {
    let life = with_idle_third();
    let snapshot = life.db.snapshot();
    let mut rows = life.db.iter(&unkept()).unwrap();
    rows.seek_to_first();
    life.pass(200);
    let mut count = 0;
    while rows.valid() {
        count += 1;
        rows.next();
    }
    rows.seek(key(450).as_bytes());
    assert_eq!((count, rows.key()), (ROWS, key(450).as_bytes()));
    rows.refresh().unwrap();
    rows.seek(key(450).as_bytes());
    assert_eq!(rows.key(), key(600).as_bytes(), "it is another reader now");
    drop(rows);
    let at = unkept().snapshot(Some(snapshot));
    let counted = life.counted(|| {
        assert_eq!(life.keys(&at, true).len() as u64, ROWS);
        assert!(life.db.get_cf(&life.db.default_family(), key(450), &at).unwrap().is_some());
    });
    assert_eq!(counted.1, 0);
    assert_eq!(life.keys(&unkept(), true).len() as u64, ROWS - 300);
}

/// The column that says when a row expires was moved back: the newer version expires first, and its block with it.
#[test]
fn a_row_whose_expiry_was_moved_back_does_not_come_back() {
    let life = Life::open();
    life.put("ticket", 5_000);
    life.put("zebra", 5_000);
    life.compact();
    life.put("ticket", 100);
    life.flush();
    life.pass(200);
    assert_eq!(life.counted(|| life.assert_gone("ticket")).1, 0, "the newer version is not at the bottom");
    assert_eq!(life.keys(&ReadOptions::default(), true), ["zebra"]);
    // At the bottom there is nothing else of it.
    life.compact();
    life.assert_gone("ticket");
}

/// The same, with both versions at the bottom, in a block each, because a snapshot sees the older one.
#[test]
fn an_older_version_in_the_next_block_does_not_come_back() {
    let life = Life::open();
    life.put("ticket", 5_000);
    let snapshot = life.db.snapshot();
    life.put("ticket", 100);
    life.put("zebra", 5_000);
    life.compact();
    life.pass(200);
    life.assert_gone("ticket");
    let at = ReadOptions::default().snapshot(Some(snapshot));
    assert_eq!(life.keys(&at, true), ["ticket"]);
    assert_eq!(life.keys(&at, false), ["ticket"]);
    assert!(life.db.get_cf(&life.db.default_family(), "ticket", &at).unwrap().is_some());
}

#[test]
fn rows_that_never_expire_are_seen_among_those_that_do() {
    let life = Life::open();
    for number in 0..100 {
        life.put(&key(number), 100);
    }
    life.db.put(key(50), "for ever").unwrap();
    life.compact();
    life.pass(200);
    assert_eq!(life.keys(&ReadOptions::default(), true), [key(50)]);
    assert_eq!(life.keys(&ReadOptions::default(), false), [key(50)]);
    assert!(life.skipped() > 50, "{}", life.skipped());
}

/// Without this a walk over one index would open every table of the next one's expired rows, and fail by damage that is none of its business.
#[test]
fn a_walk_within_bounds_goes_no_further_for_the_sake_of_expired_rows_behind_them() {
    let bounds = [
        (ReadOptions::default().iterate_upper_bound(Some(key(310).into_bytes())), true, 0..300),
        (ReadOptions::default().iterate_lower_bound(Some(key(590).into_bytes())), false, 600..ROWS),
    ];
    for (read, is_forward, shown) in bounds {
        let life = with_idle_third();
        // What such a walk reads while nothing is expired is kept, and nothing else.
        assert_eq!(life.keys(&read, is_forward).len() as u64, shown.end - shown.start + 10);
        life.pass(200);
        let cached = read.read_tier(ReadTier::BlockCache);
        let expected: Vec<String> = shown.map(key).collect();
        let mut found = life.keys(&cached, is_forward);
        found.sort_unstable();
        assert_eq!(found, expected);
        assert!(life.skipped() > 3, "blocks within the bounds are passed by: {}", life.skipped());
    }
}
