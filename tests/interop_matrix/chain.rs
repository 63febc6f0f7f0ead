//! Everything that this engine adds to the format is a hint: stock RocksDB drops it when it rewrites a directory, and nothing is lost.

use super::routes::{apply, check_ours, files};
use super::server::{Request, Rows, Server};
use crate::interop_tools::siltstone as engine;
use crate::interop_tools::{Python, Script};
use siltstone::lsm::{ColumnFamilyOptions, Db, DbOptions, FlushOptions, TableOptions};
use std::path::Path;

/// Words that begin what this engine adds.
const HINTS: [&[u8]; 2] = [b"SLTPRED1", b"SLTSELF1"];

/// Which of the hints stand in some table or WAL.
#[expect(clippy::disallowed_methods, reason = "looks at what an engine wrote")]
fn hints(dir: &Path) -> Vec<&'static [u8]> {
    let is_data = |path: &std::path::PathBuf| path.extension().is_some_and(|found| found == "sst" || found == "log");
    let files: Vec<_> = files(dir).into_iter().filter(is_data).map(|path| std::fs::read(path).unwrap()).collect();
    let stands = |hint: &&[u8]| files.iter().any(|bytes| bytes.windows(hint.len()).any(|part| part == *hint));
    HINTS.into_iter().filter(stands).collect()
}

fn open(dir: &Path) -> Db {
    let table = TableOptions::default().block_size(1024).bloom_bits_per_key(10.0);
    let families = ColumnFamilyOptions::default().target_file_size_base(32 << 10).table(table);
    Db::open(dir, &DbOptions::default().create_if_missing(true).unnamed_families(families)).unwrap()
}

#[test]
fn what_this_engine_adds_may_be_lost() {
    let Some(python) = Python::find() else { return };
    let mut nine = Server::start(python.tool("rocksdict_server.py"), "RocksDB 9.8.4");
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let mut rows = Rows::new();
    for turn in 0..3 {
        let script = Script::new(700 + turn, &["default"], 600);
        let db = open(&dir);
        check_ours(&db, &rows, "before writing").unwrap();
        engine::write_steps(&db, &script);
        apply(&script, &mut rows);
        // A second WAL, which says how the first one ended.
        db.flush(&FlushOptions::default()).unwrap();
        db.put("last", turn.to_string()).unwrap();
        rows.insert(b"last".to_vec(), turn.to_string().into_bytes());
        check_ours(&db, &rows, "after writing").unwrap();
        db.close().unwrap();
        assert_eq!(hints(&dir), HINTS, "turn {turn}: hints are there before");

        let request = Request::open(&dir, &[]).then("rows").then("compact").then("close");
        assert!(nine.ask(&request).unwrap() == rows, "turn {turn}: RocksDB reads other rows");
        nine.ask(&Request::check(&dir, "")).unwrap();
        assert_eq!(hints(&dir), <[&[u8]; 0]>::default(), "turn {turn}: hints are gone");

        let db = open(&dir);
        check_ours(&db, &rows, "without hints").unwrap();
        db.check().unwrap();
        db.close().unwrap();
    }
}
