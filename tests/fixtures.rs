//! Databases that RocksDB 11.8 wrote and left without closing: read without a change, then written on.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "prepares directories, and looks at them, outside of the engine")]

#[path = "../crates/lsm/examples/rows.rs"]
#[expect(dead_code, reason = "a program whose parts are used here")]
mod rows_example;

use rows_example::{options, print_rows};
use siltstone::lsm::{AppendOperator, CompactRangeOptions, Db, DbOptions, ErrorKind, FlushOptions};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, FileOptions, IoContext, IoPriority};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Every kind in `tests/fixtures` that this engine reads.
const KINDS: [&str; 6] = ["cfs_partitioned", "deletes_merges", "lz4_leveled", "per_level", "wal_only", "zstd_dict"];

/// An unpacked fixture.
struct Fixture {
    root: tempfile::TempDir,
    kind: &'static str,
}

impl Fixture {
    fn unpack(kind: &'static str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{kind}.tar.zst"));
        let archive = std::fs::File::open(archive).unwrap();
        tar::Archive::new(zstd::Decoder::new(archive).unwrap()).unpack(root.path()).unwrap();
        Self { root, kind }
    }

    fn db(&self) -> PathBuf {
        self.root.path().join(self.kind).join("db")
    }

    /// Every live row, as `print_rows` prints them.
    fn expected(&self) -> Vec<u8> {
        std::fs::read(self.root.path().join(self.kind).join("expected.tsv")).unwrap()
    }
}

/// What the example prints.
fn printed(dir: &Path, options: &DbOptions) -> Vec<u8> {
    let mut out = Vec::new();
    print_rows(dir, options, &mut out).unwrap();
    out
}

/// Fails without printing megabytes.
fn assert_rows(found: &[u8], expected: &[u8], what: &str) {
    let lines = |text: &[u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    if found != expected {
        let (found, expected) = (lines(found), lines(expected));
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        panic!("{what}: {} lines instead of {}, first difference at {first:?}", found.len(), expected.len());
    }
}

/// Name, bytes and time of the last change of every file.
fn listing(dir: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
            (path, bytes, changed)
        })
        .collect();
    files.sort();
    files
}

fn set_mode(dir: &Path, mode: u32) {
    std::fs::set_permissions(dir, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn every_row_is_read_and_no_file_is_touched() {
    for kind in KINDS {
        let fixture = Fixture::unpack(kind);
        let dir = fixture.db();
        let before = listing(&dir);
        let dir_before = std::fs::metadata(&dir).unwrap().modified().unwrap();
        set_mode(&dir, 0o555);
        let found = printed(&dir, &options());
        set_mode(&dir, 0o755);
        assert_rows(&found, &fixture.expected(), kind);
        assert!(listing(&dir) == before, "{kind}: a file was changed, made or removed");
        assert_eq!(std::fs::metadata(&dir).unwrap().modified().unwrap(), dir_before, "{kind}");
    }
}

/// The same on a disk that knows every call.
#[test]
fn reading_makes_no_call_that_writes() {
    let context = IoContext::new(FileKind::Other, IoPriority::User);
    for kind in KINDS {
        let fixture = Fixture::unpack(kind);
        let disk = SimDisk::new();
        let place = Path::new("/db");
        disk.make_durable_dir(place).unwrap();
        let env = disk.env();
        for (path, bytes, _) in listing(&fixture.db()) {
            let path = place.join(path.file_name().unwrap());
            let mut file = env.create_append(&path, &FileOptions::new(FileKind::Other)).unwrap();
            file.append(&bytes, context).unwrap();
            file.finish().unwrap();
        }
        disk.start_trace();
        let found = printed(place, &options().env(Some(disk.env())));
        assert_rows(&found, &fixture.expected(), kind);
        let calls = disk.take_trace();
        let writing: Vec<_> = calls.iter().filter(|call| call.class.is_mutating()).collect();
        assert!(!calls.is_empty() && writing.is_empty(), "{kind}: {writing:?}");
    }
}

#[test]
fn reading_needs_no_lock() {
    let fixture = Fixture::unpack("lz4_leveled");
    let dir = fixture.db();
    let owner = Db::open(&dir, &options()).unwrap();
    owner.wait_for_background_work().unwrap();
    assert_eq!(Db::open(&dir, &options()).unwrap_err().kind(), ErrorKind::Locked);
    assert_rows(&printed(&dir, &options()), &fixture.expected(), "while it is open");
    owner.close().unwrap();
}

#[test]
fn no_fixture_is_left_out() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let names = listing(&fixtures).into_iter().map(|(path, ..)| path.file_name().unwrap().to_owned());
    let mut kinds: Vec<_> =
        names.filter_map(|name| name.to_str()?.strip_suffix(".tar.zst").map(str::to_owned)).collect();
    // Those of the other engine have tests of their own.
    kinds.retain(|kind| !kind.starts_with("btree_"));
    kinds.sort();
    assert_eq!(kinds, KINDS);
}

/// Recovered into tables, compacted and opened again, a database has the rows that it had.
#[test]
fn every_row_survives_a_rewrite() {
    for kind in KINDS {
        let fixture = Fixture::unpack(kind);
        let (dir, expected) = (fixture.db(), fixture.expected());
        let db = Db::open(&dir, &options()).unwrap();
        // A reader beside the writer finds every file only while none is replaced.
        db.wait_for_background_work().unwrap();
        assert_rows(&printed(&dir, &options()), &expected, "recovered");
        for family in db.families() {
            let options = CompactRangeOptions::default().force_bottommost(true);
            db.compact_range(&family, None, None, &options).unwrap();
        }
        db.check().unwrap();
        db.close().unwrap();
        assert_rows(&printed(&dir, &options()), &expected, kind);
    }
}

/// The same under the options that RocksDB left: indexes, filters, prefixes, codecs and dictionaries are then those of the fixture; and some rows are written anew.
#[test]
fn every_row_survives_a_rewrite_with_the_options_that_rocksdb_left() {
    for kind in KINDS {
        let fixture = Fixture::unpack(kind);
        let (dir, expected) = (fixture.db(), fixture.expected());
        let loaded = Db::load_latest_options(&dir, &DbOptions::default()).unwrap();
        let mut families = loaded.named_families();
        for (_, options) in &mut families {
            options.merge_operator = Some(Arc::new(AppendOperator::new(",").named("append")));
        }
        let db = Db::open_families(&dir, &loaded.database, &families).unwrap();
        for family in db.families() {
            // Every eighth row is put as it is, over whatever it is made of.
            let mut rows = db.iter_cf(&family, &Default::default()).unwrap();
            rows.seek_to_first();
            let mut count = 0;
            while rows.valid() {
                if count % 8 == 0 {
                    db.put_cf(&family, rows.key(), rows.value(), &Default::default()).unwrap();
                }
                count += 1;
                rows.next();
            }
            rows.status().unwrap();
            drop(rows);
            db.flush_families(&[&family], &FlushOptions::default()).unwrap();
            db.compact_range(&family, None, None, &CompactRangeOptions::default().force_bottommost(true)).unwrap();
        }
        db.check().unwrap();
        db.close().unwrap();
        assert_rows(&printed(&dir, &options()), &expected, kind);
    }
}
