//! A process that is killed at any moment: every write that it acknowledged is there afterwards.

use siltstone::lsm::{ColumnFamilyOptions, Db, DbOptions, WriteBatch, WriteOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Tells the process that is going to be killed where to write, and from which row on.
const DIR: &str = "SILTSTONE_TEST_DIR";
const FROM: &str = "SILTSTONE_TEST_FROM";
const KILLS: u64 = 24;

fn open(dir: &Path) -> Db {
    let family = ColumnFamilyOptions::default()
        .write_buffer_size(12 << 10)
        .level0_file_num_compaction_trigger(2)
        .target_file_size_base(16 << 10)
        .max_bytes_for_level_base(48 << 10);
    let options = DbOptions::default()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .max_manifest_file_size(3_000)
        .max_total_wal_size(64 << 10);
    Db::open_families(dir, &options, &[("default", family.clone()), ("twin", family)]).unwrap()
}

fn value(number: u64) -> String {
    format!("{number}-{}", "v".repeat((number * 37 % 250) as usize))
}

/// Not a test of its own: the process that is killed. Says the number of every row that was acknowledged.
#[test]
fn victim() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let from: u64 = std::env::var(FROM).unwrap().parse().unwrap();
    let db = open(Path::new(&dir));
    let twin = db.family("twin").unwrap();
    let mut out = std::io::stdout().lock();
    for number in from..from + 100_000 {
        let mut batch = WriteBatch::new();
        batch.put(number.to_be_bytes(), value(number));
        // The second family is written now and then, so that it pins old WALs.
        if number % 5 == 0 {
            batch.put_cf(&twin, number.to_be_bytes(), value(number));
        }
        db.write(&mut batch, &WriteOptions::default().sync(number % 11 == 0)).unwrap();
        writeln!(out, "acknowledged {number}").unwrap();
    }
}

/// Runs a victim until it acknowledged `count` rows, and kills it. Returns the last row that it acknowledged.
fn run_victim(dir: &Path, from: u64, count: u64) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stress_cases::kills::victim", "--nocapture"])
        .env(DIR, dir)
        .env(FROM, from.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let number_in = |line: &str| line.split("acknowledged ").nth(1).and_then(|number| number.parse().ok());
    let mut left = count;
    while left > 0 {
        let Some(line) = lines.next() else { panic!("the victim ended by itself") };
        if let Some(number) = number_in(&line.unwrap()) {
            last = Some(number);
            left -= 1;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it said before it died counts too; the last line may be cut off within its number.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let whole = rest.len().saturating_sub(1);
    rest[..whole].iter().filter_map(|line| number_in(line)).next_back().or(last)
}

#[test]
fn every_acknowledged_write_survives_the_kill_of_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for kill in 0..KILLS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Some die while they open or recover.
        let count = if kill % 6 == 5 { 0 } else { 1 + (random >> 33) % 700 };
        let last = run_victim(dir.path(), next, count);
        next = last.map_or(next, |last| last + 1);
        // Every third time the next victim recovers what this one left; otherwise it is looked at in between.
        if kill % 3 != 2 || kill + 1 == KILLS {
            check(dir.path(), next);
        }
    }
    assert!(next > KILLS * 50, "{next} rows");
}

fn check(dir: &Path, acknowledged: u64) {
    let db = open(dir);
    let twin = db.family("twin").unwrap();
    for number in 0..acknowledged {
        let found = db.get(number.to_be_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(value(number).as_bytes()), "row {number} of {acknowledged}");
        if number % 5 == 0 {
            let found = db.get_cf(&twin, number.to_be_bytes(), &Default::default()).unwrap();
            assert_eq!(found.as_deref(), Some(value(number).as_bytes()), "row {number} of the second family");
        }
    }
    db.check().unwrap();
    db.close().unwrap();
}
