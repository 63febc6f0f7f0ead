//! What SQLite was asked for is what it does, and its connections do not wait for one another.

use super::SqliteEngine;
use crate::PeerSettings;
use rusqlite::Connection;
use rusqlite::types::FromSql;
use siltstone_base::ErrorKind;
use siltstone_base::engine::{Admin, Durability, Kv, KvBatch};
use std::sync::Barrier;
use tempfile::TempDir;

fn open(dir: &TempDir, durability: Durability) -> SqliteEngine {
    let settings =
        PeerSettings { cache_bytes: 8 << 20, write_buffer_bytes: 1 << 20, durability, ..PeerSettings::default() };
    SqliteEngine::open(dir.path(), &settings).unwrap()
}

fn pragma<T: FromSql>(connection: &Connection, name: &str) -> T {
    connection.pragma_query_value(None, name, |row| row.get(0)).unwrap()
}

#[test]
fn every_connection_has_the_settings_and_its_part_of_the_cache() {
    for (durability, synchronous) in [(Durability::Commit, 2), (Durability::Os, 1)] {
        let dir = TempDir::new().unwrap();
        let engine = open(&dir, durability);
        let two = [engine.pool.take().unwrap(), engine.pool.take().unwrap()];
        for pooled in &two {
            let connection = &pooled.connection;
            assert_eq!(pragma::<String>(connection, "journal_mode"), "wal");
            assert_eq!(pragma::<i64>(connection, "synchronous"), synchronous);
            assert_eq!(pragma::<i64>(connection, "page_size"), 4096);
            assert_eq!(pragma::<i64>(connection, "wal_autocheckpoint"), 512);
        }
        two.into_iter().for_each(|pooled| engine.pool.give_back(pooled));
        let two = [engine.pool.take().unwrap(), engine.pool.take().unwrap()];
        assert_eq!(two.each_ref().map(|pooled| pragma::<i64>(&pooled.connection, "cache_size")), [-4096; 2]);
    }
}

#[test]
fn readers_read_at_once_and_beside_a_write_that_is_under_way() {
    const READERS: usize = 4;
    let dir = TempDir::new().unwrap();
    let engine = open(&dir, Durability::Os);
    engine.put(b"granite", b"igneous").unwrap();
    // Every reader is within its read when the others are within theirs, and a writer has begun.
    let meeting = Barrier::new(READERS + 1);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut found = |value: &[u8]| {
                    assert_eq!(value, b"igneous");
                    meeting.wait();
                };
                assert!(engine.get_pinned(b"granite", &mut found).unwrap());
            });
        }
        let change = engine.change("write", |connection| {
            connection.execute_batch("BEGIN IMMEDIATE; DELETE FROM kv")?;
            meeting.wait();
            connection.execute_batch("COMMIT")
        });
        change.unwrap();
    });
    assert!(!engine.get(b"granite", &mut Vec::new()).unwrap());
}

#[test]
fn writers_take_turns_and_none_is_refused() {
    let dir = TempDir::new().unwrap();
    let engine = open(&dir, Durability::Os);
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let engine = &engine;
            scope.spawn(move || {
                for number in 0..100_u8 {
                    let mut batch = KvBatch::new();
                    batch.put(&[writer, number], b"here");
                    batch.delete(&[writer, number.wrapping_sub(1)]);
                    engine.write(&batch).unwrap();
                }
            });
        }
    });
    let mut cursor = engine.cursor().unwrap();
    assert!(cursor.seek_to_first().unwrap());
    for writer in 0..4 {
        assert_eq!(cursor.key(), [writer, 99]);
        assert_eq!(cursor.next().unwrap(), writer < 3);
    }
}

#[test]
fn a_change_that_fails_leaves_nothing_behind() {
    let dir = TempDir::new().unwrap();
    let engine = open(&dir, Durability::Commit);
    let failed = engine.change("write", |connection| {
        connection
            .execute_batch("BEGIN IMMEDIATE; INSERT INTO kv VALUES (x'61', x'62'); INSERT INTO nowhere VALUES (1)")
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
    assert!(!engine.get(b"a", &mut Vec::new()).unwrap());
    engine.put(b"a", b"c").unwrap();
    assert!(engine.get(b"a", &mut Vec::new()).unwrap());
}

#[test]
fn keys_are_ordered_as_bytes_and_may_be_empty() {
    let dir = TempDir::new().unwrap();
    let engine = open(&dir, Durability::Commit);
    let keys: [&[u8]; 5] = [b"", b"\0", b"\0\xff", b"a", b"\xff"];
    for key in keys {
        engine.put(key, key).unwrap();
    }
    let mut cursor = engine.cursor().unwrap();
    assert!(cursor.seek(b"").unwrap());
    for (position, key) in keys.iter().enumerate() {
        assert_eq!((cursor.key(), cursor.value()), (*key, *key));
        assert_eq!(cursor.next().unwrap(), position + 1 < keys.len());
    }
    assert!(!cursor.next().unwrap());
}

#[test]
fn closing_empties_the_log_and_says_so_if_a_cursor_prevents_it() {
    let dir = TempDir::new().unwrap();
    let engine = open(&dir, Durability::Os);
    engine.put(b"a", b"1").unwrap();
    let cursor = engine.cursor().unwrap();
    engine.put(b"a", b"2").unwrap();
    engine.flush().unwrap();
    assert_eq!(engine.close().unwrap_err().kind(), ErrorKind::Busy);
    drop(cursor);
    engine.close().unwrap();
    engine.close().unwrap();
    let log = dir.path().join("data.sqlite-wal");
    assert_eq!(log.metadata().unwrap().len(), 0);
}
