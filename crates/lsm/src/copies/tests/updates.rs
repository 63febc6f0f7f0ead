//! Updates: every batch once, in order, as it was written.

use super::*;
use crate::{ColumnFamilyId, ErrorKind, FlushOptions, IngestExternalFileOptions, SstFileWriter, ValueType};

type Found = Vec<(u64, Vec<(ColumnFamilyId, ValueType, Vec<u8>, Vec<u8>)>)>;

fn drain(updates: &mut crate::Updates) -> Found {
    let mut found = Found::new();
    while let Some(update) = updates.next_batch().unwrap() {
        let entries = update.batch.iter();
        let entries = entries.map(|entry| (entry.column_family, entry.kind, entry.key.to_vec(), entry.value.to_vec()));
        found.push((update.seqno, entries.collect()));
    }
    found
}

#[test]
fn batches_come_as_they_were_written() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    db.create_family(OTHER, &db.default_family().options()).unwrap();
    let mut updates = db.updates_since(0).unwrap();
    assert!(updates.next_batch().unwrap().is_none());
    let mut batch = WriteBatch::new();
    batch.put("a", "1");
    batch.put_log_data("for whoever follows");
    batch.delete_cf(&db.family(OTHER).unwrap(), "b");
    db.write(&mut batch, &WriteOptions::default()).unwrap();
    let update = updates.next_batch().unwrap().unwrap();
    assert_eq!((update.seqno, update.batch.len()), (1, 2));
    assert_eq!(update.batch.log_data().collect::<Vec<_>>(), [b"for whoever follows"], "without the engine's own");
    assert!(updates.next_batch().unwrap().is_none());
    // Over switches of the WAL, and with those that nothing else needs any more.
    let mut expected = Found::new();
    for number in 2..=1500 {
        write_row(&db, number, &WriteOptions::default());
        let (key, value) = row(number);
        let entry = |id| (ColumnFamilyId(id), ValueType::Put, key.clone(), value.clone());
        expected.push((2 * number - 1, vec![entry(0), entry(1)]));
    }
    db.flush(&FlushOptions::default()).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(drain(&mut updates), expected);
    let mut late = db.updates_since(2001).unwrap();
    assert_eq!(drain(&mut late), expected[999..]);
    // The second entry of a batch: the batch that has it.
    assert_eq!(drain(&mut db.updates_since(2000).unwrap()), expected[998..]);
    drop((updates, late));
    let wals = disk.env().list_dir(Path::new("/db")).unwrap();
    assert!(wals.iter().filter(|entry| entry.name.ends_with(".log")).count() <= 2, "{wals:?}");
    assert_eq!(db.updates_since(1).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(drain(&mut db.updates_since(3001).unwrap()).is_empty());
}

#[test]
fn entries_that_are_in_no_wal_are_an_error() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("b", "2").unwrap();
    writer.finish().unwrap();
    let ingest = IngestExternalFileOptions::default();
    assert_eq!(db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &ingest).unwrap(), 2);
    db.put("c", "3").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.updates_since(3).unwrap().next_batch().unwrap().unwrap().seqno, 3);
    db.put_cf(&db.default_family(), "d", "4", &WriteOptions::default().disable_wal(true)).unwrap();
    db.put("e", "5").unwrap();
    let mut updates = db.updates_since(3).unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 3);
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn updates_beside_a_writer_build_the_same_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), &small(DbOptions::default())).unwrap();
    let mut found = BTreeMap::new();
    let mut last = 0;
    beside_a_writer(&db, || {
        let mut updates = db.updates_since(1).unwrap();
        while last < 8000 {
            let Some(update) = updates.next_batch().unwrap() else {
                std::thread::yield_now();
                continue;
            };
            assert_eq!(update.seqno, last + 1);
            last += u64::from(update.batch.count());
            for entry in update.batch.iter().filter(|entry| entry.column_family.0 == 0) {
                found.insert(entry.key.to_vec(), entry.value.to_vec());
            }
        }
    });
    assert_eq!(last % 2, 0);
    assert!(found == rows_up_to(last / 2)["default"]);
    db.close().unwrap();
}

#[test]
fn tables_that_need_no_number_are_a_gap_all_the_same() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("b", "2").unwrap();
    writer.finish().unwrap();
    let ingest = IngestExternalFileOptions::default().snapshot_consistency(false);
    assert_eq!(db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &ingest).unwrap(), 0);
    // Before anything else is written.
    assert_eq!(db.updates_since(1).unwrap_err().kind(), ErrorKind::NotFound);
    let refused = db.updates_since(2).unwrap().next_batch();
    assert!(refused.unwrap().is_none(), "nothing is missing behind it");
    db.put("c", "3").unwrap();
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.updates_since(2).unwrap().next_batch().unwrap().unwrap().seqno, 2);
}

#[test]
fn what_was_taken_in_last_is_missed_before_anything_follows_it() {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    assert!(updates.next_batch().unwrap().is_none());
    let mut writer = SstFileWriter::create("/in/a.sst", &simulated(&disk), &db.default_family().options()).unwrap();
    writer.put("b", "2").unwrap();
    writer.finish().unwrap();
    db.ingest_external_files(&db.default_family(), &["/in/a.sst"], &IngestExternalFileOptions::default()).unwrap();
    assert_eq!(updates.next_batch().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_looks_like_the_next_wal_ends_nothing() {
    let disk = SimDisk::new();
    let db = Db::open("/db", &simulated(&disk)).unwrap();
    let mut updates = db.updates_since(1).unwrap();
    db.put("a", "1").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
    let options = siltstone_base::env::FileOptions::new(siltstone_base::env::FileKind::Wal);
    disk.env().create_append(Path::new("/db/900000.log"), &options).unwrap().finish().unwrap();
    assert!(updates.next_batch().unwrap().is_none());
    db.put("b", "2").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 2);
}
