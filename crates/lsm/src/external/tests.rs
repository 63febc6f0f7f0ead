//! Tables outside of databases: what writers refuse, what readers see, and what may not be taken in.

use super::*;
use crate::options::{ColumnFamilyOptions, CompressionType};
use crate::{ErrorKind, UInt64AddOperator, ValueType};
use siltstone_base::comparator::ReverseBytewise;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::sync::Arc;
use std::path::Path;

fn on(disk: &SimDisk) -> DbOptions {
    disk.make_durable_dir(Path::new("/in")).unwrap();
    DbOptions::default().env(Some(disk.env()))
}

fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default().compression(CompressionType::Lz4)
}

#[test]
fn what_was_written_is_read() {
    let disk = SimDisk::new();
    let options = on(&disk);
    let family = family().merge_operator(Some(Arc::new(UInt64AddOperator)));
    let mut writer = SstFileWriter::create("/in/a.sst", &options, &family).unwrap();
    for number in 0..1000 {
        let key = format!("{number:04}");
        match number % 3 {
            0 => writer.put(key, number.to_string()).unwrap(),
            1 => writer.delete(key).unwrap(),
            _ => writer.merge(key, 7u64.to_le_bytes()).unwrap(),
        }
    }
    writer.delete_range("x", "y").unwrap();
    writer.delete_range("2", "30").unwrap();
    writer.delete_range("2", "5").unwrap();
    writer.delete_range("z", "z").unwrap();
    let info = writer.finish().unwrap();
    assert_eq!((info.num_entries, info.num_range_deletions), (1002, 2));
    assert_eq!(disk.env().file_len(&info.path).unwrap(), info.file_size);

    let reader = SstFileReader::open("/in/a.sst", &options, &family).unwrap();
    assert!(reader.is_external());
    assert_eq!((reader.num_entries(), reader.file_size()), (1002, info.file_size));
    assert_eq!(reader.verify_checksums().unwrap(), 1000);
    let ranges = reader.range_tombstones().unwrap();
    assert_eq!(ranges, [(b"2".to_vec()..b"5".to_vec(), 0), (b"x".to_vec()..b"y".to_vec(), 0)]);
    let mut entries = reader.iter();
    assert!(!entries.valid() && entries.key().is_empty());
    entries.seek("0500x");
    for number in 501..1000 {
        let types = [ValueType::Put, ValueType::Delete, ValueType::Merge];
        assert_eq!(entries.key(), format!("{number:04}").into_bytes());
        assert_eq!(entries.value_type(), Some(types[number % 3]));
        assert_eq!(entries.seqno(), Some(0));
        entries.next();
    }
    assert!(!entries.valid());
    entries.status().unwrap();
}

#[test]
fn a_writer_refuses_what_makes_no_table() {
    let disk = SimDisk::new();
    let options = on(&disk);
    let kind = |result: crate::Result<()>| result.unwrap_err().kind();
    let mut writer = SstFileWriter::create("/in/a.sst", &options, &family()).unwrap();
    writer.put("b", "1").unwrap();
    for refused in [writer.put("b", "2"), writer.delete("a"), writer.delete_range("b", "a"), writer.merge("c", "1")] {
        assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(writer.put(vec![0xff; 1 << 16], "")), ErrorKind::InvalidArgument);
    writer.put("c", "3").unwrap();
    assert_eq!(writer.finish().unwrap().num_entries, 2);
    let again = SstFileWriter::create("/in/a.sst", &options, &family()).map(|_| ());
    assert_eq!(kind(again), ErrorKind::AlreadyExists);
    // A file of a writer that gives up goes with it.
    drop(SstFileWriter::create("/in/b.sst", &options, &family()).unwrap());
    let empty = SstFileWriter::create("/in/c.sst", &options, &family()).unwrap();
    assert_eq!(empty.finish().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let names: Vec<_> = disk.env().list_dir(Path::new("/in")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a.sst"]);
}

#[test]
fn only_tables_for_the_family_may_be_taken_in() {
    let disk = SimDisk::new();
    let options = on(&disk);
    let family = family();
    let operator = family.clone().merge_operator(Some(Arc::new(UInt64AddOperator)));
    let mut writer = SstFileWriter::create("/in/a.sst", &options, &operator).unwrap();
    writer.merge("k", 1u64.to_le_bytes()).unwrap();
    writer.finish().unwrap();
    let examine = |path: &str, family: &ColumnFamilyOptions, verify| {
        let context = OpenContext { env: &*disk.env(), options: family };
        ExternalTable::examine(&context, Path::new(path), verify).map(|_| ()).map_err(|error| error.kind())
    };
    for verify in [false, true] {
        assert_eq!(examine("/in/a.sst", &operator, verify), Ok(()));
        assert_eq!(examine("/in/a.sst", &family, verify), Err(ErrorKind::InvalidArgument), "no operator");
        let reverse = operator.clone().comparator(Arc::new(ReverseBytewise));
        assert_eq!(examine("/in/a.sst", &reverse, verify), Err(ErrorKind::InvalidArgument), "another order");
        assert_eq!(examine("/in/none.sst", &family, verify), Err(ErrorKind::MissingFile));
    }
    // Every flipped byte of a data block is seen by whoever reads all of it.
    let len = disk.env().file_len(Path::new("/in/a.sst")).unwrap();
    for offset in 0..len {
        disk.flip(Path::new("/in/a.sst"), offset, 0x40).unwrap();
        if let Err(kind) = examine("/in/a.sst", &operator, true) {
            assert!(matches!(kind, ErrorKind::Corruption | ErrorKind::NotSupported | ErrorKind::InvalidArgument));
        }
        disk.flip(Path::new("/in/a.sst"), offset, 0x40).unwrap();
    }
    disk.flip(Path::new("/in/a.sst"), 3, 1).unwrap();
    assert_eq!(examine("/in/a.sst", &operator, true), Err(ErrorKind::Corruption));
}

#[test]
fn a_range_tombstone_that_would_hide_later_writes_is_refused() {
    let disk = SimDisk::new();
    let (options, family) = (on(&disk), family());
    let mut writer = SstFileWriter::create("/in/a.sst", &options, &family).unwrap();
    writer.put("a", "1").unwrap();
    writer.ranges.push(crate::range_tombstones::RangeTombstone::new(b"b", b"c", 1 << 50));
    writer.finish().unwrap();
    let env = disk.env();
    let context = OpenContext { env: &*env, options: &family };
    for verify in [false, true] {
        let error = ExternalTable::examine(&context, Path::new("/in/a.sst"), verify).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}
