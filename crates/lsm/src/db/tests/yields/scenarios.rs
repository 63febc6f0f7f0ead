//! Trees with compactions due.

use super::super::basics::options;
use super::{DIR, FAMILY, Rows, rows};
use crate::event::CompactionReason;
use crate::file_meta::FileMetaData;
use crate::file_names::FileName;
use crate::key::ValueType;
use crate::options::{CompactionStyle, FifoCompactionOptions};
use crate::version::{BlobChange, VersionEdit};
use crate::{
    AppendOperator, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, FlushOptions,
    TableOptions, WriteBatch, WriteOptions,
};
use siltstone_base::checksum::{crc32c, mask_crc};
use siltstone_base::coding::put_varint64;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{FileKind, read_file, write_file_atomically};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A tree, and the options with which compactions of it are due.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) family: ColumnFamilyOptions,
    /// Entries that a step gets through.
    pub(super) units: u32,
    /// Why the compactions that it is about are due.
    pub(super) reason: CompactionReason,
    /// Jobs that a compaction may be shared out to.
    pub(super) subcompactions: usize,
    /// How much later than it was written the tree is opened.
    pub(super) later_seconds: u64,
    pub(super) fill: fn(&Db, &ColumnFamily),
    /// Whether a row with a value may go.
    pub(super) may_go: fn(&[u8]) -> bool,
}

/// A tree that was closed, and what is in it.
pub(super) struct Tree {
    pub(super) disk: SimDisk,
    pub(super) rows: Rows,
    /// Those of the other family.
    pub(super) other: Rows,
    /// Keys that compactions may drop.
    pub(super) may_go: BTreeSet<Vec<u8>>,
}

impl Scenario {
    /// Writes the tree, without any compaction that nobody asks for.
    pub(super) fn build(&self) -> Tree {
        let disk = SimDisk::new();
        disk.make_durable_dir(Path::new(DIR)).unwrap();
        let idle = self.family.clone().disable_auto_compactions(true).periodic_compaction_seconds(0);
        let options = options(&disk).create_missing_column_families(true);
        let families = [("default", ColumnFamilyOptions::default()), (FAMILY, idle)];
        let db = Db::open_families(DIR, &options, &families).unwrap();
        let family = db.family(FAMILY).unwrap();
        (0..50).for_each(|number| db.put(key(number), "of the other family").unwrap());
        db.flush(&FlushOptions::default()).unwrap();
        (self.fill)(&db, &family);
        let (of_family, other) = (rows(&db, &family), rows(&db, &db.default_family()));
        let may_go = of_family.iter().filter(|row| (self.may_go)(row.1)).map(|row| row.0.clone()).collect();
        drop(family);
        db.close().unwrap();
        Tree { disk, rows: of_family, other, may_go }
    }
}

/// Bytes of the header of a blob file.
const BLOB_HEADER_LEN: usize = 30;

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

pub(super) fn small() -> ColumnFamilyOptions {
    ColumnFamilyOptions::default()
        .compression(CompressionType::None)
        .merge_operator(Some(Arc::new(AppendOperator::new(","))))
        .level0_file_num_compaction_trigger(3)
        .target_file_size_base(8 << 10)
        .max_bytes_for_level_base(24 << 10)
        .max_bytes_for_level_multiplier(2)
        .num_levels(5)
        .memtable_bloom_bits_per_key(0)
        .table(TableOptions::default().block_size(512))
}

pub(super) fn flush(db: &Db, family: &ColumnFamily) {
    db.flush_families(&[family], &FlushOptions::default()).unwrap();
}

/// Tables of puts, operands, deletes and range tombstones over one another.
pub(super) fn write_rounds(db: &Db, family: &ColumnFamily, rounds: u64, keys: u64) {
    for round in 0..rounds {
        let mut batch = WriteBatch::new();
        for number in 0..keys {
            let key = key(number);
            match (number + round) % 7 {
                0 => batch.merge_cf(family, key, format!("operand {round}")),
                1 if round > 0 => batch.delete_cf(family, key),
                _ => batch.put_cf(family, key, format!("{:->1$}", round, 20 + number as usize % 30)),
            }
        }
        let from = round * keys / 5 % keys;
        batch.delete_range_cf(family, key(from), key(from + keys / 8));
        db.write(&mut batch, &WriteOptions::default()).unwrap();
        flush(db, family);
    }
}

pub(super) fn settle_below(db: &Db, family: &ColumnFamily) {
    db.compact_range(family, None, None, &CompactRangeOptions::default()).unwrap();
}

/// Level 0 into a base level that has tables.
pub(super) fn leveled() -> Scenario {
    Scenario {
        name: "leveled",
        family: small(),
        units: 25,
        subcompactions: 1,
        reason: CompactionReason::L0FileCount,
        later_seconds: 0,
        fill: |db, family| {
            write_rounds(db, family, 1, 500);
            settle_below(db, family);
            write_rounds(db, family, 4, 300);
        },
        may_go: |_| false,
    }
}

/// Levels in which nothing is due, and a caller who asks for a compaction of everything.
pub(super) fn manual() -> Scenario {
    Scenario {
        name: "manual",
        family: small().level0_file_num_compaction_trigger(6).max_bytes_for_level_base(1 << 20),
        reason: CompactionReason::Manual,
        fill: |db, family| {
            write_rounds(db, family, 1, 500);
            settle_below(db, family);
            write_rounds(db, family, 3, 300);
        },
        ..leveled()
    }
}

/// Level 0 into a base level that has tables, shared out.
pub(super) fn leveled_shared_out() -> Scenario {
    Scenario { name: "leveled, shared out", units: 60, subcompactions: 3, ..leveled() }
}

/// A level 0 that is too large for one compaction: its oldest tables become a sublevel, which is drained.
pub(super) fn sublevels() -> Scenario {
    Scenario {
        name: "sublevels",
        family: small().level0_sublevels(true).max_compaction_bytes(8 << 10),
        units: 25,
        reason: CompactionReason::L0FileCount,
        later_seconds: 0,
        fill: |db, family| {
            write_rounds(db, family, 1, 500);
            settle_below(db, family);
            write_rounds(db, family, 4, 300);
        },
        may_go: |_| false,
        subcompactions: 1,
    }
}

/// Levels that are larger than their targets.
pub(super) fn deep() -> Scenario {
    Scenario {
        name: "deep",
        family: small().max_bytes_for_level_base(4 << 10),
        units: 30,
        subcompactions: 1,
        reason: CompactionReason::MaxLevelSize,
        later_seconds: 0,
        fill: |db, family| {
            write_rounds(db, family, 1, 500);
            settle_below(db, family);
            write_rounds(db, family, 3, 900);
        },
        may_go: |_| false,
    }
}

pub(super) fn universal_family() -> ColumnFamilyOptions {
    small().compaction_style(CompactionStyle::Universal).num_levels(7).write_buffer_size(64 << 10)
}

/// Sorted runs, merged as a whole.
pub(super) fn universal() -> Scenario {
    Scenario {
        name: "universal",
        family: universal_family().level0_file_num_compaction_trigger(4),
        units: 40,
        subcompactions: 1,
        reason: CompactionReason::SpaceAmplification,
        later_seconds: 0,
        fill: |db, family| write_rounds(db, family, 6, 300),
        may_go: |_| false,
    }
}

/// The same, shared out.
pub(super) fn universal_shared_out() -> Scenario {
    Scenario { name: "universal, shared out", units: 60, subcompactions: 4, ..universal() }
}

/// Sorted runs, piece by piece: the runs are larger than memtables.
pub(super) fn universal_pieces() -> Scenario {
    Scenario {
        name: "universal in pieces",
        family: universal_family().level0_file_num_compaction_trigger(3).write_buffer_size(2 << 10),
        units: 25,
        subcompactions: 1,
        reason: CompactionReason::SpaceAmplification,
        later_seconds: 0,
        fill: |db, family| {
            write_rounds(db, family, 1, 400);
            settle_below(db, family);
            write_rounds(db, family, 5, 400);
        },
        may_go: |_| false,
    }
}

pub(super) fn fifo(options: FifoCompactionOptions) -> ColumnFamilyOptions {
    small().compaction_style(CompactionStyle::Fifo).compaction_options_fifo(options).write_buffer_size(1 << 20)
}

/// Tiers, of which one is full, above a leveled run.
pub(super) fn lazy() -> Scenario {
    Scenario {
        name: "lazy",
        family: universal_family().compaction_style(CompactionStyle::Lazy).write_buffer_size(2 << 10),
        units: 25,
        reason: CompactionReason::SpaceAmplification,
        ..universal_pieces()
    }
}

/// Tables of a family that is a cache, merged with each other.
pub(super) fn fifo_merges() -> Scenario {
    Scenario {
        name: "fifo merges",
        family: fifo(FifoCompactionOptions::default().allow_compaction(true)),
        units: 40,
        subcompactions: 1,
        reason: CompactionReason::L0FileCount,
        later_seconds: 0,
        fill: |db, family| write_rounds(db, family, 5, 300),
        may_go: |_| false,
    }
}

/// Tables of a family that is a cache, deleted.
pub(super) fn fifo_deletions() -> Scenario {
    Scenario {
        name: "fifo deletions",
        family: fifo(FifoCompactionOptions::default().max_table_files_size(20 << 10)),
        units: 1,
        subcompactions: 1,
        reason: CompactionReason::FifoMaxSize,
        later_seconds: 0,
        fill: |db, family| {
            for round in 0..6 {
                (0..100).for_each(|number| {
                    db.put_cf(family, key(round * 100 + number), [7; 50], &WriteOptions::default()).unwrap();
                });
                flush(db, family);
            }
        },
        may_go: |_| true,
    }
}

/// Tables that are rewritten for their age alone.
pub(super) fn upkeep() -> Scenario {
    Scenario {
        name: "upkeep",
        family: small().periodic_compaction_seconds(3_600),
        units: 15,
        subcompactions: 1,
        reason: CompactionReason::Periodic,
        later_seconds: 7_200,
        fill: |db, family| {
            write_rounds(db, family, 3, 800);
            settle_below(db, family);
        },
        may_go: |_| false,
    }
}

/// References to values in a blob file, some of which newer values replace.
pub(super) fn blobs() -> Scenario {
    Scenario {
        name: "blobs",
        family: small(),
        units: 20,
        subcompactions: 1,
        reason: CompactionReason::L0FileCount,
        later_seconds: 0,
        fill: |db, family| {
            write_blobs(db, family, 200);
            for round in 0..4 {
                (0..100).for_each(|number| {
                    let key = key(number * 2 + round % 2);
                    db.put_cf(family, key, format!("inline {round}"), &WriteOptions::default()).unwrap();
                });
                flush(db, family);
            }
        },
        may_go: |_| false,
    }
}

/// The same, shared out.
pub(super) fn blobs_shared_out() -> Scenario {
    let family = small().target_file_size_base(1 << 10);
    Scenario { name: "blobs, shared out", family, units: 40, subcompactions: 3, ..blobs() }
}

/// The engine reads blob files and does not write them: a table of references goes to the last level by hand.
fn write_blobs(db: &Db, family: &ColumnFamily, count: u64) {
    let inner = &db.handle.inner;
    let number = inner.file_numbers.allocate();
    // Magic number, version and family; flags, codec and expiry range are 0.
    let mut bytes: Vec<u8> = [2_395_959_u32, 1, family.id().0].iter().flat_map(|part| part.to_le_bytes()).collect();
    bytes.resize(BLOB_HEADER_LEN, 0);
    let mut references = Vec::new();
    for index in 0..count {
        let (key, value) = (key(index), format!("blob {index}").into_bytes());
        let mut lengths = (key.len() as u64).to_le_bytes().to_vec();
        lengths.extend((value.len() as u64).to_le_bytes());
        lengths.extend([0; 8]);
        bytes.extend(&lengths);
        bytes.extend(mask_crc(crc32c(&lengths)).to_le_bytes());
        bytes.extend(mask_crc(crc32c(&[&key[..], &value].concat())).to_le_bytes());
        bytes.extend(&key);
        let mut reference = vec![1];
        for part in [number, bytes.len() as u64, value.len() as u64] {
            put_varint64(&mut reference, part);
        }
        reference.push(0);
        bytes.extend(&value);
        references.push((key, reference));
    }
    let path = FileName::Blob(number).path(Path::new(DIR));
    let temporary = FileName::Temporary(number).path(Path::new(DIR));
    write_file_atomically(&*inner.env, &path, &temporary, &bytes, FileKind::Blob).unwrap();
    let mut added = VersionEdit::new(family.id());
    let bytes = (bytes.len() - BLOB_HEADER_LEN) as u64;
    added.blob_files.push(BlobChange::Added { number, count, bytes, rest: vec![0; 3] });
    inner.versions.lock().log_and_apply(&mut [added]).unwrap();
    {
        let mut leader = inner.lock_write_side();
        let pinned = family.0.super_version.load();
        let mut writer = pinned.memtable.writer().unwrap();
        for (key, reference) in &references {
            leader.side.last_seqno += 1;
            writer.add(leader.side.last_seqno, ValueType::BlobIndex, key, reference);
        }
        let last = leader.side.last_seqno;
        inner.visible_seqno.store(last, siltstone_base::sync::atomic::Ordering::Release);
    }
    flush(db, family);
    // What a flush writes names no blob file: a copy that does takes its place, in the last level.
    let version = Arc::clone(&family.0.super_version.load().version);
    let (level, file) = version.all_files().next().unwrap();
    let table = |number| FileName::Table(number).path(Path::new(DIR));
    let mut copy = FileMetaData { number: inner.file_numbers.allocate(), ..file.data() };
    copy.set_oldest_blob_file(number);
    let bytes = read_file(&*inner.env, &table(file.number), FileKind::Table, 1 << 20).unwrap();
    write_file_atomically(&*inner.env, &table(copy.number), &temporary, &bytes, FileKind::Table).unwrap();
    let mut edit = VersionEdit::new(family.id());
    edit.delete_file(level, file.number);
    edit.add_file(4, copy);
    let installed = inner.versions.lock().log_and_apply(&mut [edit]).unwrap();
    installed.into_iter().for_each(|(_, version)| drop(inner.publish_version(&family.0, version)));
}
