//! Tests of the pickers on pictures of trees.

mod recheck;
mod simulate;

use super::*;
use crate::compaction::targets::estimated_pending_compaction_bytes;
use crate::compaction::{Compaction, Merge, Running, RunningId};
use crate::expiry::test_policy::AtItsStamp;
use crate::expiry::{Expiring, HistogramBuilder, StampHistogram};
use crate::file_meta::{FileMeta, FileMetaData, ObsoleteTables};
use crate::key::{ColumnFamilyId, InternalKey, InternalKeyComparator, MAX_SEQNO, ValueType};
use crate::options::{
    ColumnFamilyOptions, CompactionStyle, CompressionType, FifoCompactionOptions, UniversalCompactionOptions,
};
use crate::range_tombstones::{Fragments, RangeTombstone};
use crate::version::{Version, version_for_test};
use siltstone_base::comparator::Bytewise;
use siltstone_base::entry_filter::{Decision, EntryFilter};
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::script::{Command, run_dir};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Debug)]
struct KeepAll;

impl EntryFilter for KeepAll {
    fn name(&self) -> &str {
        "keep all"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        Decision::Keep
    }
}

/// A tree, its options and what runs on it.
struct World {
    version: Arc<Version>,
    options: ColumnFamilyOptions,
    running: Running,
    /// What was begun, and has not ended.
    begun: Vec<(RunningId, Compaction)>,
    manual: Option<ManualRange>,
    /// The next file number for it.
    next_number: u64,
    /// Range tombstones by table.
    ranges: BTreeMap<u64, Fragments>,
}

impl World {
    fn new() -> Self {
        let options = ColumnFamilyOptions::default();
        Self {
            version: version_of(&[], 4),
            options,
            running: Running::default(),
            begun: Vec::new(),
            manual: None,
            next_number: u64::MAX,
            ranges: BTreeMap::new(),
        }
    }

    fn run(&mut self, command: &Command) -> String {
        match command.name.as_str() {
            "options" => {
                self.options = options_of(command);
                String::new()
            }
            "tree" => {
                let words: Vec<_> = command.input_words().collect();
                let files: Vec<_> = words.iter().flat_map(|line| files_of(line)).collect();
                self.version = version_of(&files, self.options.num_levels);
                self.running = Running::default();
                self.begun.clear();
                self.manual = None;
                self.ranges.clear();
                self.describe()
            }
            "merge" => {
                let level = |name| command.get(name).unwrap();
                self.running.set_merge_for_test(Merge { first_level: level("from"), output_level: level("to") });
                String::new()
            }
            // A table that is being taken in: it is in no version yet.
            "reserve" => {
                let bound = |key: &str| command.get::<String>(key).unwrap().into_bytes();
                self.running.reserve(command.get("level").unwrap(), &bound("begin"), &bound("end"));
                String::new()
            }
            "pick" => {
                let picked = pick(&self.version, &self.options, command.get_or("now", 0), &self.running);
                let text = picked.as_ref().map_or_else(|| "nothing".to_owned(), show);
                if let Some(compaction) = picked.filter(|_| command.has("run")) {
                    self.begun.push((self.running.register(&compaction), compaction));
                }
                text
            }
            // What `pick run` began ends without a trace.
            "end" => {
                self.begun.drain(..).for_each(|(id, compaction)| self.running.unregister(id, &compaction));
                String::new()
            }
            "pick-beside" => {
                let picked = pick_level0(&self.version, &self.options, command.get_or("now", 0), &self.running);
                picked.map_or("nothing".to_owned(), |compaction| show(&compaction))
            }
            "paid" => {
                for words in command.input_words() {
                    let (number, bytes) = (words[0].parse::<u64>().unwrap(), words[1].parse().unwrap());
                    let mut files = self.version.all_files().map(|(_, file)| file);
                    let file = files.find(|file| file.number == number).unwrap();
                    file.read_bytes.store(bytes, Ordering::Relaxed);
                }
                String::new()
            }
            "suggest" => {
                let numbers: Vec<u64> = command.input_words().map(|words| words[0].parse().unwrap()).collect();
                let files = self.version.all_files().map(|(_, file)| file);
                files.filter(|file| numbers.contains(&file.number)).for_each(|file| file.suggest_compaction());
                String::new()
            }
            "ranges" => {
                self.ranges = command.input_words().map(|words| ranges_of(&words)).collect();
                String::new()
            }
            "covered" => {
                let snapshots = command.values("snapshots").unwrap_or_default();
                let snapshots: Vec<u64> = snapshots.iter().map(|text| text.parse().unwrap()).collect();
                let picked = covered::pick(&self.version, &snapshots, &|file| self.ranges.get(&file.number));
                if let Some(compaction) = picked.as_ref().filter(|_| command.has("run")) {
                    self.running.register(compaction);
                }
                picked.map_or("nothing".to_owned(), |compaction| show(&compaction))
            }
            "stamps" => {
                for words in command.input_words() {
                    let number = words[0].parse::<u64>().unwrap();
                    let mut files = self.version.all_files().map(|(_, file)| file);
                    let policy = command.get_or("policy", AtItsStamp.name().to_owned());
                    let stamps = stamps_of(&policy, &words[1..]);
                    files.find(|file| file.number == number).unwrap().set_stamps_for_test(stamps);
                }
                String::new()
            }
            "expired" | "rewrite" => {
                let expiring = Expiring { policy: Arc::new(AtItsStamp), time: command.get("at").unwrap() };
                let picked = match command.name.as_str() {
                    "expired" => pick_expired_drop(&self.version, &expiring),
                    _ => pick_expired_rewrite(&self.version, &self.options, &expiring, &self.running),
                };
                if let Some(compaction) = picked.as_ref().filter(|_| command.has("run")) {
                    self.running.register(compaction);
                }
                picked.map_or("nothing".to_owned(), |compaction| show(&compaction))
            }
            "next" => next_upkeep(&self.version, &self.options).map_or("never".to_owned(), |due| format!("at {due}")),
            "manual" => {
                let bound = |key: &str| command.get::<String>(key).map(String::into_bytes);
                self.next_number = command.get_or("first-new", u64::MAX);
                let asked_at = self.running.mark();
                self.manual = Some(ManualRange::new(bound("begin"), bound("end"), command.has("force"), asked_at));
                self.manual_step()
            }
            "step" => self.manual_step(),
            other => panic!("line {}: unknown command {other}", command.line),
        }
    }

    /// Proposes the next step of the manual compaction, and lets its outputs take the place of its inputs.
    fn manual_step(&mut self) -> String {
        let manual = self.manual.as_mut().unwrap();
        match manual.next(&self.version, &self.options, &self.running, self.next_number) {
            ManualStep::Wait => "wait".to_owned(),
            ManualStep::Done => "done".to_owned(),
            ManualStep::Compact(compaction) => {
                let text = show(&compaction);
                let mut files: Vec<(usize, FileMetaData)> =
                    self.version.all_files().map(|(level, file)| (level, file.data())).collect();
                let is_input = |number| compaction.input_files().any(|(_, file)| file.number == number);
                let next = files.iter().map(|(_, file)| file.number).max().unwrap() + 1;
                files.retain(|(_, file)| !is_input(file.number));
                let (smallest, largest) = compaction.user_key_range();
                let text_of = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
                let output = file_of(next, &text_of(smallest), &text_of(largest), compaction.input_bytes());
                files.push((compaction.output_level, output));
                let files: Vec<_> = files.into_iter().map(|(level, file)| (level, file, false)).collect();
                self.version = version_of(&files, self.options.num_levels);
                text
            }
        }
    }

    fn describe(&self) -> String {
        if self.options.compaction_style != CompactionStyle::Leveled {
            return format!("pending {}", pending_compaction_bytes(&self.version, &self.options));
        }
        let targets = LevelTargets::new(&self.version, &self.options);
        let mut text = format!("base L{}", targets.base_level);
        for (level, bytes) in targets.max_bytes.iter().enumerate().filter(|(_, bytes)| **bytes != u64::MAX) {
            write!(text, ", L{level} {}/{bytes}", self.version.level_bytes(level)).unwrap();
        }
        if targets.lowest_unnecessary_level > 0 {
            write!(text, ", drain to L{}", targets.lowest_unnecessary_level).unwrap();
        }
        text.push_str("\nscores");
        for score in level_scores(&self.version, &self.options, &targets) {
            write!(text, " L{} {:.3}", score.level, score.score).unwrap();
        }
        let pending = estimated_pending_compaction_bytes(&self.version, &self.options, &targets);
        write!(text, "\npending {pending}").unwrap();
        text
    }
}

fn options_of(command: &Command) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default()
        .num_levels(command.get_or("levels", 4))
        .max_bytes_for_level_base(command.get_or("base", 1000))
        .max_bytes_for_level_multiplier(command.get_or("multiplier", 10))
        .target_file_size_base(command.get_or("target", 100))
        .max_compaction_bytes(command.get_or("max-compaction", 0))
        .ttl(command.get_or("ttl", 0))
        .periodic_compaction_seconds(command.get_or("periodic", 0))
        .read_triggered_bytes(command.get_or("reads", 0))
        .level_compaction_dynamic_level_bytes(!command.has("static"))
        .level0_sublevels(command.has("sublevels"));
    if command.has("universal") {
        options.compaction_style = CompactionStyle::Universal;
        options.write_buffer_size = command.get_or("flush", 100);
        options.level0_file_num_compaction_trigger = command.get_or("trigger", 4);
        options.compaction_options_universal = UniversalCompactionOptions::default()
            .compression_size_percent(command.get_or("compress", -1))
            .allow_trivial_move(command.has("move"))
            .incremental(!command.has("at-once"));
    }
    if command.has("fifo") {
        options.compaction_style = CompactionStyle::Fifo;
        options.write_buffer_size = command.get_or("flush", 100);
        options.compaction_options_fifo = FifoCompactionOptions::default()
            .max_table_files_size(command.get_or("size", u64::MAX))
            .allow_compaction(command.has("merge"));
    }
    if let Some(codecs) = command.values("codecs") {
        let codec = |name: &String| CompressionType::from_property_name(name).unwrap();
        options.compression_per_level = codecs.iter().map(codec).collect();
    }
    if let Some(name) = command.get::<String>("bottommost") {
        options.bottommost_compression = CompressionType::from_property_name(&name);
    }
    if command.has("filter") {
        options.compaction_filter = Some(Arc::new(KeepAll));
    }
    options
}

/// `L1 7:a-f@500 8:g-k*`: tables 7 and 8 of level 1; 500 bytes instead of 100; table 8 is being compacted. A table was written at the second of its number, and
/// `7!` wants to be compacted.
fn files_of(words: &[&str]) -> Vec<(usize, FileMetaData, bool)> {
    let level = words[0].strip_prefix('L').unwrap().parse().unwrap();
    let parse = |word: &&str| {
        let (word, is_busy) = word.strip_suffix('*').map_or((*word, false), |word| (word, true));
        let (word, size) = word.split_once('@').map_or((word, 100), |(word, size)| (word, size.parse().unwrap()));
        let (number, range) = word.split_once(':').unwrap();
        let (number, is_dense) = number.strip_suffix('!').map_or((number, false), |number| (number, true));
        let (smallest, largest) = range.split_once('-').unwrap();
        let mut file = file_of(number.parse().unwrap(), smallest, largest, size);
        file.other_fields = crate::file_meta::other_fields(None, is_dense);
        (level, file, is_busy)
    };
    words[1..].iter().map(parse).collect()
}

/// A boundary `k5` is key `k` at sequence number 5; `k` alone at 9, or at 1 on the right. `k)` on the right is the exclusive end of a range tombstone.
fn file_of(number: u64, smallest: &str, largest: &str, file_size: u64) -> FileMetaData {
    let boundary = |text: &str, default: u64| {
        if let Some(key) = text.strip_suffix(')') {
            return InternalKey::new(key.as_bytes(), MAX_SEQNO, ValueType::RangeDelete);
        }
        let digits = text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let key = &text[..text.len() - digits.len()];
        InternalKey::new(key.as_bytes(), digits.parse().unwrap_or(default), ValueType::Put)
    };
    FileMetaData {
        number,
        file_size,
        smallest: boundary(smallest, 9),
        largest: boundary(largest, 1),
        smallest_seqno: 1,
        largest_seqno: 9,
        epoch_number: number,
        file_creation_time: number,
        oldest_ancestor_time: number,
        ..FileMetaData::default()
    }
}

/// `3 a-m@12 k-z@20`: the range tombstones of table 3, whose ends are exclusive.
fn ranges_of(words: &[&str]) -> (u64, Fragments) {
    let order = InternalKeyComparator::new(Arc::new(Bytewise));
    let tombstone = |word: &&str| {
        let (range, seqno) = word.split_once('@').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        RangeTombstone { start: start.as_bytes().into(), end: end.as_bytes().into(), seqno: seqno.parse().unwrap() }
    };
    let tombstones: Vec<RangeTombstone> = words[1..].iter().map(tombstone).collect();
    (words[0].parse().unwrap(), Fragments::new(&order, &tombstones))
}

/// `7:60 9/2:40 none:1`: the stamps of rows of 60 and 40 bytes, and an entry of one byte that has none.
fn stamps_of(policy: &str, words: &[&str]) -> StampHistogram {
    let mut builder = HistogramBuilder::new(policy);
    for word in words {
        let (stamp, bytes) = word.split_once(':').unwrap();
        builder.add(AtItsStamp::parse(stamp), bytes.parse().unwrap());
    }
    builder.finish().unwrap()
}

fn version_of(files: &[(usize, FileMetaData, bool)], num_levels: usize) -> Arc<Version> {
    let order = InternalKeyComparator::new(Arc::new(Bytewise));
    let added = files.iter().map(|(level, file, _)| (*level, file.clone()));
    let version = version_for_test(ColumnFamilyId(0), &order, num_levels, added, &Arc::new(ObsoleteTables::new()));
    for (_, file, _) in files.iter().filter(|(_, _, is_busy)| *is_busy) {
        let meta = version.all_files().find(|(_, meta)| meta.number == file.number).unwrap().1;
        meta.being_compacted.store(true, Ordering::Relaxed);
    }
    version
}

fn show(compaction: &Compaction) -> String {
    let numbers =
        |files: &[Arc<FileMeta>]| files.iter().map(|file| file.number.to_string()).collect::<Vec<_>>().join(" ");
    let inputs = compaction.inputs.iter().map(|inputs| format!("L{} [{}]", inputs.level, numbers(&inputs.files)));
    let mut text = inputs.collect::<Vec<_>>().join(" + ");
    write!(text, " -> L{}", compaction.output_level).unwrap();
    if compaction.deletes {
        return text + ", delete";
    }
    if compaction.trivial_move {
        text.push_str(", move");
    } else {
        let (target, max) = (compaction.target_file_size, compaction.max_output_file_size);
        write!(text, ", files of {target} to {max}, {}", compaction.compression.property_name()).unwrap();
    }
    if compaction.bottommost {
        text.push_str(", nothing beneath");
    } else {
        write!(text, ", above [{}]", numbers(&compaction.grandparents)).unwrap();
    }
    if !compaction.fences.is_empty() {
        let fences: Vec<_> = compaction.fences.iter().map(|key| String::from_utf8_lossy(key)).collect();
        write!(text, ", fences {}", fences.join(" ")).unwrap();
    }
    if let Some(merge) = &compaction.merge {
        write!(text, ", of a merge of L{} to L{}", merge.first_level, merge.output_level).unwrap();
    }
    text
}

#[test]
fn pickers_do_as_the_pictures_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/picker");
    run_dir(dir, |_| {
        let mut world = World::new();
        move |command: &Command| world.run(command)
    });
}
