//! What comes between looking for places and taking them.

use super::*;
use crate::{ColumnFamilyOptions, Db, DbOptions, SstFileWriter};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;

/// A database, and the table /in/a.sst with one row, which may be brought into it.
fn beside_a_table() -> Db {
    let disk = SimDisk::new();
    disk.make_durable_dir(Path::new("/in")).unwrap();
    let executor = StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000)));
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env()));
    let options = options.executor(Some(Arc::new(executor)));
    let mut writer = SstFileWriter::create("/in/a.sst", &options, &ColumnFamilyOptions::default()).unwrap();
    writer.put("b", "1").unwrap();
    writer.finish().unwrap();
    Db::open("/db", &options).unwrap()
}

#[test]
fn a_compaction_that_comes_between_costs_a_number_and_not_the_load() {
    let db = beside_a_table();
    let default = db.default_family();
    let (inner, family) = (&db.handle.inner, &default.0);
    let ingest = IngestExternalFileOptions::default().snapshot_consistency(false);
    let tables = inner.examine(family, &[Path::new("/in/a.sst")]).unwrap();
    let brought = inner.bring(tables, &ingest).unwrap();
    assert!(!inner.overlap_anything(family, &brought.tables));
    // From here on every level has somebody who may write what overlaps.
    let reserve = || {
        let mut state = inner.state.lock();
        let running = &mut state.families.get_mut(&family.id).unwrap().running;
        (1..7).map(|level| running.reserve(level, b"a", b"z")).collect::<Vec<_>>()
    };
    let reserved = reserve();
    let mut leader = inner.lock_write_side();
    assert_eq!(
        inner.try_install(&mut leader, &[Intake::new(family, &brought.tables)], false).unwrap(),
        Attempt::NeedsSeqnos
    );
    assert_eq!(
        inner.try_install(&mut leader, &[Intake::new(family, &brought.tables)], true).unwrap(),
        Attempt::Installed
    );
    assert_eq!(leader.side.last_seqno, 1, "the attempt that did nothing uses up no number");
    drop(leader);
    brought.keep();
    {
        let mut state = inner.state.lock();
        let running = &mut state.families.get_mut(&family.id).unwrap().running;
        reserved.into_iter().for_each(|id| running.release(id));
    }
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"1"[..]));
    db.check().unwrap();
}

/// Who follows the WALs would look for the number in vain.
#[test]
fn a_load_that_the_manifest_never_saw_uses_up_no_number() {
    let db = beside_a_table();
    let mut updates = db.updates_since(1).unwrap();
    let dropped = db.create_family("dropped", &ColumnFamilyOptions::default()).unwrap();
    let (inner, family) = (&db.handle.inner, &dropped.0);
    let ingest = IngestExternalFileOptions::default();
    let brought = inner.bring(inner.examine(family, &[Path::new("/in/a.sst")]).unwrap(), &ingest).unwrap();
    // It goes when the tables are there already.
    db.drop_family(&dropped).unwrap();
    {
        let mut leader = inner.lock_write_side();
        let error = inner.try_install(&mut leader, &[Intake::new(family, &brought.tables)], true).unwrap_err();
        assert_eq!((error.kind(), leader.side.last_seqno), (ErrorKind::NotFound, 0));
    }
    drop(brought);
    db.put("a", "1").unwrap();
    assert_eq!(updates.next_batch().unwrap().unwrap().seqno, 1);
}

/// Whoever looked at everything at the moment never looks at what came in afterwards, if it is taken for older.
#[test]
fn a_row_that_came_in_without_a_number_is_not_taken_for_unchanged() {
    let db = beside_a_table();
    let default = db.default_family();
    let (inner, family) = (&db.handle.inner, &default.0);
    let ingest = IngestExternalFileOptions::default().snapshot_consistency(false);
    let tables = inner.examine(family, &[Path::new("/in/a.sst")]).unwrap();
    let brought = inner.bring(tables, &ingest).unwrap();
    // Its file has a number by now.
    let (moment, snapshot) = db.moment();
    let mut leader = inner.lock_write_side();
    assert_eq!(inner.install_tables(&mut leader, family, &brought.tables, &ingest).unwrap(), 0);
    drop(leader);
    brought.keep();
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(!db.is_known_unchanged(&default, b"b", moment).unwrap());
    drop(snapshot);
}
