//! One database on a real file system, read through the page cache, past it, and mapped: each must say the same.

use crate::{ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions, ReadOptions, TableOptions};
#[cfg(target_os = "linux")]
use siltstone_base::entry_filter::Decision;
use siltstone_base::entry_filter::EntryFilter;
use std::collections::BTreeMap;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;

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
    /// Only flushes and compactions.
    DirectJobs,
    Mapped,
}

fn open(dir: &Path, mode: Mode) -> Db {
    open_filtered(dir, mode, None)
}

fn open_filtered(dir: &Path, mode: Mode, filter: Option<Arc<dyn EntryFilter>>) -> Db {
    let table = TableOptions::default().block_size(512).bloom_bits_per_key(10.0);
    let family = ColumnFamilyOptions::default()
        .disable_auto_compactions(true)
        .target_file_size_base(64 << 10)
        .compaction_filter(filter)
        .table(table);
    let options = DbOptions::default().create_if_missing(true);
    let options = match mode {
        Mode::Buffered => options,
        Mode::Direct => options.use_direct_reads(true).use_direct_io_for_flush_and_compaction(true),
        Mode::DirectJobs => options.use_direct_io_for_flush_and_compaction(true),
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

/// How the process has the tables in `dir` open, by what the kernel says. `None` where the file system has no direct I/O.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "asks the kernel")]
fn modes_of_open_tables(dir: &Path) -> Option<Vec<&'static str>> {
    use std::os::unix::fs::OpenOptionsExt;

    const O_DIRECT: i32 = libc::O_DIRECT;
    let tables = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> = tables.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).collect();
    std::fs::OpenOptions::new().read(true).custom_flags(O_DIRECT).open(tables.first()?).ok()?;
    let mut modes = Vec::new();
    for descriptor in std::fs::read_dir("/proc/self/fd").unwrap() {
        let descriptor = descriptor.unwrap();
        // Others come and go meanwhile.
        let Ok(path) = std::fs::read_link(descriptor.path()) else { continue };
        if !tables.contains(&path) {
            continue;
        }
        let information = Path::new("/proc/self/fdinfo").join(descriptor.file_name());
        let Ok(information) = std::fs::read_to_string(information) else { continue };
        // The number may have become another file's meanwhile.
        if std::fs::read_link(descriptor.path()).ok() != Some(path) {
            continue;
        }
        let flags = information.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
        modes.push(if flags & O_DIRECT == 0 { "buffered" } else { "direct" });
    }
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_mapped = |line: &&str| tables.iter().any(|table| line.ends_with(&*table.to_string_lossy()));
    modes.extend(mapped.lines().filter(is_mapped).map(|_| "mapped"));
    modes.sort_unstable();
    modes.dedup();
    Some(modes)
}

/// Else who asked for direct reads would find his data twice in memory, and who asked for maps would pay for copies.
#[cfg(target_os = "linux")]
#[test]
fn tables_are_read_the_way_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = Rows::new();
    let db = open(dir.path(), Mode::Buffered);
    write(&db, &mut rows, 0);
    db.close().unwrap();
    for (mode, expected) in [(Mode::Buffered, "buffered"), (Mode::Direct, "direct"), (Mode::Mapped, "mapped")] {
        let db = open(dir.path(), mode);
        compare(&db, &rows, mode);
        let Some(modes) = modes_of_open_tables(dir.path()) else { return };
        let is_right = match mode {
            // Whether a file that is mapped stays open beside that is nobody's concern.
            Mode::Mapped => modes.contains(&expected) && !modes.contains(&"direct"),
            _ => modes == [expected],
        };
        assert!(is_right, "{mode:?}: {modes:?}");
        db.close().unwrap();
    }
}

/// Looks how tables are open once a compaction reads.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Look {
    dir: PathBuf,
    seen: OnceLock<Option<Vec<&'static str>>>,
}

#[cfg(target_os = "linux")]
impl EntryFilter for Look {
    fn name(&self) -> &str {
        "look"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        self.seen.get_or_init(|| modes_of_open_tables(&self.dir));
        Decision::Keep
    }
}

/// Else a compaction of cold data would drive from the page cache what callers read there.
#[cfg(target_os = "linux")]
#[test]
fn compactions_read_past_the_page_cache_where_only_jobs_are_to() {
    for (mode, expected) in [(Mode::Buffered, &["buffered"][..]), (Mode::DirectJobs, &["buffered", "direct"])] {
        let dir = tempfile::tempdir().unwrap();
        let look = Arc::new(Look { dir: dir.path().to_path_buf(), seen: OnceLock::new() });
        let db = open_filtered(dir.path(), mode, Some(Arc::<Look>::clone(&look)));
        let mut rows = Rows::new();
        // Of several tables a level.
        for is_first in [true, false] {
            write(&db, &mut rows, u32::from(is_first));
            let forced = CompactRangeOptions::default().force_bottommost(true);
            db.compact_range(&db.default_family(), None, None, &forced).unwrap();
        }
        compare(&db, &rows, mode);
        match look.seen.get() {
            Some(Some(seen)) => assert_eq!(seen, expected, "{mode:?}"),
            // The file system has no direct I/O.
            seen => assert_eq!(seen, Some(&None)),
        }
        assert!(modes_of_open_tables(dir.path()).is_none_or(|modes| modes == ["buffered"]), "{mode:?}");
    }
}

#[test]
fn buffered_direct_and_mapped_reads_of_one_database_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let modes = [Mode::Buffered, Mode::Direct, Mode::DirectJobs, Mode::Mapped];
    let mut rows = Rows::new();
    // Each mode reads what it wrote itself and what the others did: flushed, and compacted.
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
