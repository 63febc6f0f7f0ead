//! Listeners hear of every table and every WAL, once when it comes and once when it goes.

use super::basics::options;
use crate::event::EventListener;
use crate::{ColumnFamilyOptions, Db, FlushOptions, IngestExternalFileOptions, SstFileWriter};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::sync::{Mutex, Rank};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a directory, by what it was told.
#[derive(Debug)]
struct Directory(Mutex<BTreeSet<PathBuf>>);

impl EventListener for Directory {
    fn file_created(&self, path: &Path) {
        assert!(self.0.lock().insert(path.to_path_buf()), "{} was created twice", path.display());
    }

    fn file_deleted(&self, path: &Path) {
        let is_of_interest = is_table_or_wal(path);
        assert_eq!(self.0.lock().remove(path), is_of_interest, "{} was deleted", path.display());
    }
}

fn is_table_or_wal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sst" || extension == "log")
}

fn there(disk: &SimDisk) -> BTreeSet<PathBuf> {
    let entries = disk.env().list_dir(Path::new("/db")).unwrap();
    entries.into_iter().map(|entry| Path::new("/db").join(entry.name)).filter(|path| is_table_or_wal(path)).collect()
}

#[test]
fn whoever_keeps_a_list_of_files_by_events_has_what_is_in_the_directory() {
    let disk = SimDisk::new();
    let heard = Arc::new(Directory(Mutex::new(Rank(60_000), BTreeSet::new())));
    let listener: Arc<dyn EventListener> = Arc::<Directory>::clone(&heard);
    let options = options(&disk).listeners(vec![listener]);
    let family = ColumnFamilyOptions::default().write_buffer_size(64 << 10).level0_file_num_compaction_trigger(2);
    let open = || Db::open_families("/db", &options, &[("default", family.clone())]).unwrap();
    let db = open();
    let same = |when: &str| assert_eq!(*heard.0.lock(), there(&disk), "{when}");
    same("opened");
    for round in 0..8_u32 {
        for number in 0..300_u32 {
            db.put(format!("{:05}", number * 7 % 1_000), format!("{round} {number}").repeat(20)).unwrap();
        }
        db.flush(&FlushOptions::default()).unwrap();
        db.wait_for_background_work().unwrap();
        same("written");
    }
    let mut writer = SstFileWriter::create("/in.sst", &options, &family).unwrap();
    writer.put("taken in", "value").unwrap();
    writer.finish().unwrap();
    db.ingest_external_files(&db.default_family(), &[Path::new("/in.sst")], &IngestExternalFileOptions::default())
        .unwrap();
    db.wait_for_background_work().unwrap();
    same("taken in");
    db.put("in the WAL", "alone").unwrap();
    db.close().unwrap();
    // What was in the WAL comes into a table.
    let db = open();
    db.wait_for_background_work().unwrap();
    same("opened again");
    assert!(db.get("in the WAL").unwrap().is_some());
    db.close().unwrap();
}
