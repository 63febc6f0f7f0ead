//! Tests of where outputs end, and which range tombstones they get.

use super::cut::OutputCutter;
use super::ranges::WaitingRanges;
use crate::compaction::{Compaction, LevelInputs};
use crate::event::CompactionReason;
use crate::file_meta::{FileMeta, FileMetaData};
use crate::key::{ColumnFamilyId, InternalKey, InternalKeyComparator, ValueType};
use crate::options::CompressionType;
use crate::range_tombstones::RangeTombstone;
use crate::version::Version;
use siltstone_base::comparator::Bytewise;
use siltstone_base::script::{Command, run_file};
use siltstone_base::sync::Arc;

/// `b-d@100`
fn grandparent(word: &str) -> Arc<FileMeta> {
    let (range, size) = word.split_once('@').unwrap();
    let (smallest, largest) = range.split_once('-').unwrap();
    let key = |key: &str| InternalKey::new(key.as_bytes(), 5, ValueType::Put);
    let file_size = size.parse().unwrap();
    let data = FileMetaData { smallest: key(smallest), largest: key(largest), file_size, ..FileMetaData::default() };
    FileMeta::new(data, None)
}

/// The outputs of a compaction of `keys`, each of which takes `entry` bytes.
fn run(command: &Command) -> String {
    assert_eq!(command.name, "cut");
    let order = InternalKeyComparator::new(Arc::new(Bytewise));
    let target = command.get_or("target", 100);
    let compaction = Compaction {
        family: ColumnFamilyId(0),
        reason: CompactionReason::MaxLevelSize,
        inputs: vec![LevelInputs { level: 1, files: Vec::new() }],
        output_level: 2,
        input_version: Arc::new(Version::empty(ColumnFamilyId(0), order, 7)),
        grandparents: command.values("above").unwrap_or_default().iter().map(|word| grandparent(word)).collect(),
        target_file_size: target,
        max_output_file_size: command.get_or("max", 2 * target),
        max_compaction_bytes: command.get_or("max-compaction", u64::MAX),
        compression: CompressionType::None,
        trivial_move: false,
        deletes: false,
        bottommost: false,
        fences: command.values("fences").unwrap_or_default().iter().map(|key| key.as_bytes().to_vec()).collect(),
        merge: None,
    };
    let mut cutter = OutputCutter::new(&compaction);
    let entry: u64 = command.get_or("entry", 10);
    let (mut text, mut size) = (String::new(), 0);
    for key in command.input.split_whitespace() {
        if cutter.ends_before(key.as_bytes(), size) {
            text.push_str(&format!(" ({size})\n"));
            size = 0;
        } else if size > 0 {
            text.push(' ');
        }
        text.push_str(key);
        size += entry;
    }
    text + &format!(" ({size})\n")
}

#[test]
fn outputs_end_where_the_script_says() {
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/output_borders"), run);
}

/// `a-c@7`
fn tombstone(word: &str) -> RangeTombstone {
    let (range, seqno) = word.split_once('@').unwrap();
    let (start, end) = range.split_once('-').unwrap();
    RangeTombstone::new(start.as_bytes(), end.as_bytes(), seqno.parse().unwrap())
}

/// The tables of a compaction that has the keys and range tombstones of the input, ascending; a table also ends before each key that is marked so: `|c`.
fn run_ranges(command: &Command) -> String {
    assert_eq!(command.name, "tables");
    let order = InternalKeyComparator::new(Arc::new(Bytewise));
    let (ranges, keys): (Vec<_>, Vec<_>) = command.input.split_whitespace().partition(|word| word.contains('@'));
    let mut waiting = WaitingRanges::new(order, command.get("bytes"));
    waiting.set(ranges.iter().map(|word| tombstone(word)).collect());
    let (mut text, mut keys_of_table) = (String::new(), Vec::new());
    let mut end_table = |waiting: &mut WaitingRanges, keys: &mut Vec<&str>, next_key: Option<&str>| {
        loop {
            let (last_key, next_key) = (keys.last().map(|key| key.as_bytes()), next_key.map(str::as_bytes));
            if last_key.is_none() && !waiting.need_table_before(next_key) {
                return;
            }
            let ranges = waiting.next_table(last_key, next_key);
            text.push_str(&format!("{} {:?}\n", keys.join(" "), ranges.tombstones));
            keys.clear();
            if !ranges.is_cut {
                return;
            }
        }
    };
    for word in keys {
        let key = word.trim_start_matches('|');
        if waiting.fill_table_before(key.as_bytes()) || key != word {
            end_table(&mut waiting, &mut keys_of_table, Some(key));
        }
        keys_of_table.push(key);
    }
    end_table(&mut waiting, &mut keys_of_table, None);
    assert!(!waiting.need_table_before(None));
    text
}

#[test]
fn range_tombstones_come_into_the_tables_that_the_script_says() {
    run_file(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/output_ranges"), run_ranges);
}
