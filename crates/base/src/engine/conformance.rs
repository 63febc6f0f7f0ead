//! What every [`Kv`] keeps, as checks that run on any engine. They panic where a promise is broken.

use super::{Kv, KvBatch};
use crate::Result;
use std::path::Path;

/// Opens an engine in a directory that may not exist yet.
pub type Opener<'a> = dyn Fn(&Path) -> Result<Box<dyn Kv>> + 'a;

type Entry = (Vec<u8>, Vec<u8>);

#[track_caller]
fn open(opener: &Opener<'_>, dir: &Path) -> Box<dyn Kv> {
    opener(dir).unwrap_or_else(|error| panic!("open: {error}"))
}

#[track_caller]
fn done<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn entries(engine: &dyn Kv, backward: bool) -> Vec<Entry> {
    let mut cursor = done(engine.cursor());
    let mut found = done(if backward { cursor.seek_to_last() } else { cursor.seek_to_first() });
    let mut entries = Vec::new();
    while found {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        found = done(if backward { cursor.prev() } else { cursor.next() });
    }
    entries
}

/// Runs every check. Each uses a directory of its own under `dir`.
pub fn check_kv(opener: &Opener<'_>, dir: &Path) {
    check_reads(opener, &dir.join("reads"));
    check_cursors(opener, &dir.join("cursors"));
    check_many(opener, &dir.join("many"));
    check_deletes_once(opener, &dir.join("once"));
}

/// What is written is read: by get, by multi_get and by cursors both ways.
fn check_reads(opener: &Opener<'_>, dir: &Path) {
    let engine = open(opener, dir);
    assert!(engine.capabilities().kv);
    done(engine.put(b"b", b"2"));
    done(engine.put(b"x", b"gone"));
    let mut batch = KvBatch::new();
    batch.put(b"a", b"1");
    batch.delete(b"x");
    batch.put(b"d", b"4");
    done(engine.write(&batch));
    done(engine.delete(b"absent"));

    let mut value = vec![9];
    assert!(done(engine.get(b"a", &mut value)));
    assert_eq!(value, b"1");
    assert!(!done(engine.get(b"x", &mut value)));
    assert!(value.is_empty());
    let mut found = [None; 3];
    let mut note = |position: usize, value: Option<&[u8]>| found[position] = value.map(|value| value[0]);
    done(engine.multi_get(&[b"d", b"c", b"b"], &mut note));
    assert_eq!(found, [Some(b'4'), None, Some(b'2')]);

    let expected: Vec<Entry> = [("a", "1"), ("b", "2"), ("d", "4")].map(|(k, v)| (k.into(), v.into())).into();
    assert_eq!(entries(&*engine, false), expected);
    assert_eq!(entries(&*engine, true).into_iter().rev().collect::<Vec<_>>(), expected);
    done(engine.close());
}

/// Cursors show one moment, seek, and turn around.
fn check_cursors(opener: &Opener<'_>, dir: &Path) {
    let engine = open(opener, dir);
    let mut batch = KvBatch::new();
    for key in [b"b", b"d", b"f"] {
        batch.put(key, key);
    }
    done(engine.write(&batch));
    let mut cursor = done(engine.cursor());
    done(engine.put(b"e", b"too late"));
    assert!(done(cursor.seek(b"c")));
    assert_eq!(cursor.key(), b"d");
    assert!(done(cursor.next()));
    assert_eq!(cursor.key(), b"f");
    assert!(done(cursor.prev()));
    assert!(done(cursor.prev()));
    assert_eq!(cursor.value(), b"b");
    assert!(done(cursor.next()));
    assert_eq!(cursor.key(), b"d");
    assert!(!done(cursor.seek(b"g")));
    assert_eq!((cursor.key(), cursor.value()), (&b""[..], &b""[..]));
    drop(cursor);
    done(engine.flush());
    done(engine.settle());
    done(engine.stats());
    done(engine.close());
}

/// Overwrites, deletes and flushes between them leave the newest state, also after the engine was opened again.
fn check_many(opener: &Opener<'_>, dir: &Path) {
    const KEYS: u32 = 100;
    let key = |number: u32| format!("key{:05}", number * 7919 % KEYS).into_bytes();
    let mut engine = open(opener, dir);
    for round in 0..4_u32 {
        for number in 0..KEYS {
            if number % 4 == round {
                done(engine.delete(&key(number)));
            } else {
                done(engine.put(&key(number), format!("{round}-{number}").as_bytes()));
            }
        }
        done(engine.flush());
    }
    let mut expected: Vec<Entry> = (0..KEYS)
        .filter(|number| number % 4 != 3)
        .map(|number| (key(number), format!("3-{number}").into_bytes()))
        .collect();
    expected.sort();
    assert_eq!(entries(&*engine, false), expected);
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open(opener, dir);
    }
    assert_eq!(entries(&*engine, false), expected);
    done(engine.close());
}

/// Keys that are put once between two deletes of their kind are there or gone by turns, whatever lies in files or in memory by then, also after the engine was opened again.
fn check_deletes_once(opener: &Opener<'_>, dir: &Path) {
    const ROUNDS: u32 = 6;
    let key = |number: u32| format!("key{number:05}").into_bytes();
    let mut engine = open(opener, dir);
    for round in 0..ROUNDS {
        let mut batch = KvBatch::new();
        // The bits of a number say in which rounds its key changes.
        for number in (0..1_u32 << ROUNDS).filter(|number| (number >> round) & 1 == 1) {
            let before = number & ((1 << round) - 1);
            match before.count_ones() % 2 {
                0 => batch.put(&key(number), &[round as u8]),
                _ => batch.delete_once(&key(number)),
            }
        }
        done(engine.write(&batch));
        if round % 2 == 1 {
            done(engine.flush());
        }
    }
    done(engine.settle());
    let expected: Vec<Entry> = (0..1_u32 << ROUNDS)
        .filter(|number| number.count_ones() % 2 == 1)
        .map(|number| (key(number), vec![number.ilog2() as u8]))
        .collect();
    assert_eq!(entries(&*engine, false), expected);
    if engine.capabilities().persistent {
        done(engine.close());
        drop(engine);
        engine = open(opener, dir);
    }
    assert_eq!(entries(&*engine, false), expected);
    done(engine.close());
}
