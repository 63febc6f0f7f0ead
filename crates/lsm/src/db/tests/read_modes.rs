//! One database on a real file system, read through the page cache, past it, and mapped: each must say the same.

use crate::{ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions, ReadOptions, TableOptions};
use std::collections::BTreeMap;
use std::path::Path;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u32 = 3000;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// How files are read and written.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Buffered,
    /// A file system that has no direct I/O gives buffered files.
    Direct,
    Mapped,
}

fn open(dir: &Path, mode: Mode) -> Db {
    let table = TableOptions::default().block_size(512).bloom_bits_per_key(10.0);
    let family =
        ColumnFamilyOptions::default().disable_auto_compactions(true).target_file_size_base(64 << 10).table(table);
    let options = DbOptions::default().create_if_missing(true);
    let options = match mode {
        Mode::Buffered => options,
        Mode::Direct => options.use_direct_reads(true).use_direct_io_for_flush_and_compaction(true),
        Mode::Mapped => options.allow_mmap_reads(true),
    };
    Db::open_families(dir, &options, &[("default", family)]).unwrap()
}

/// Writes every third row anew, with values whose lengths fit no sector, and deletes some.
fn write(db: &Db, rows: &mut Rows, round: u32) {
    for number in (round % 3..KEYS).step_by(3).chain(0..KEYS / 10) {
        let value = format!("{round}-{number}-").repeat(1 + (number % 11) as usize).into_bytes();
        db.put(key(number), &value).unwrap();
        rows.insert(key(number), value);
    }
    for number in (round..KEYS).step_by(17) {
        db.delete(key(number)).unwrap();
        rows.remove(&key(number));
    }
    db.flush(&FlushOptions::default()).unwrap();
}

fn compare(db: &Db, rows: &Rows, mode: Mode) {
    let family = db.default_family();
    // Neighbours and keys of far blocks, some that are not there.
    let keys: Vec<_> = (0..KEYS + 50).step_by(7).chain(1000..1100).map(key).collect();
    let slices: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let together = db.multi_get_cf(&family, &slices, &ReadOptions::default());
    assert_eq!(together.len(), keys.len());
    for (key, found) in keys.iter().zip(together) {
        let expected = rows.get(key).map(Vec::as_slice);
        assert_eq!(found.unwrap().as_deref(), expected, "{mode:?}");
        assert_eq!(db.get(key).unwrap().as_deref(), expected, "{mode:?}");
    }
    let mut iter = db.iter_cf(&family, &ReadOptions::default()).unwrap();
    iter.seek_to_first();
    for (key, value) in rows {
        assert!(iter.valid(), "{mode:?} ends before {key:?}");
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]), "{mode:?}");
        iter.next();
    }
    assert!(!iter.valid(), "{mode:?}");
    iter.seek_to_last();
    for (key, value) in rows.iter().rev() {
        assert!(iter.valid(), "{mode:?} ends after {key:?}");
        assert_eq!((iter.key(), iter.value()), (&key[..], &value[..]), "{mode:?}");
        iter.prev();
    }
    assert!(!iter.valid(), "{mode:?}");
    iter.status().unwrap();
}

#[test]
fn buffered_direct_and_mapped_reads_of_one_database_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let modes = [Mode::Buffered, Mode::Direct, Mode::Mapped];
    let mut rows = Rows::new();
    // Each mode reads what it wrote itself and what the other two did: flushed, and compacted.
    for (round, writer) in (0..).zip(modes) {
        let db = open(dir.path(), writer);
        write(&db, &mut rows, round);
        compare(&db, &rows, writer);
        db.close().unwrap();
        for is_compacted in [false, true] {
            for mode in modes {
                let db = open(dir.path(), mode);
                compare(&db, &rows, mode);
                db.close().unwrap();
            }
            if !is_compacted {
                let db = open(dir.path(), writer);
                let forced = CompactRangeOptions::default().force_bottommost(true);
                db.compact_range(&db.default_family(), None, None, &forced).unwrap();
                assert!(db.table_files(&db.default_family()).unwrap().iter().all(|table| table.level > 0));
                compare(&db, &rows, writer);
                db.check().unwrap();
                db.close().unwrap();
            }
        }
    }
}
