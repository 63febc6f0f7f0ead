//! A tree of make-believe tables that flushes and several compactions at a time change, in any order.

use super::*;
use crate::compaction::RunningId;
use crate::version::VersionEdit;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of one entry.
const ENTRY: u64 = 10;

/// What a table holds: keys, and the sequence number of their newest entry.
type Content = BTreeMap<u16, u64>;

struct Tree {
    options: ColumnFamilyOptions,
    version: Arc<Version>,
    running: Running,
    jobs: Vec<Job>,
    /// Ranges that callers ask for; one compaction of the first runs at a time.
    manual: Vec<ManualRange>,
    /// Unix seconds.
    now: u64,
    contents: BTreeMap<u64, Content>,
    next_number: u64,
    seqno: u64,
    newest: Content,
    /// Keys of which nothing is left, because the FIFO style forgot them.
    gone: BTreeSet<u16>,
    bytes_written: u64,
}

struct Job {
    id: RunningId,
    compaction: Compaction,
    is_manual: bool,
}

fn name(key: u16) -> Vec<u8> {
    format!("{key:05}").into_bytes()
}

impl Tree {
    fn new(options: ColumnFamilyOptions) -> Self {
        Self {
            version: version_of(&[], options.num_levels),
            options,
            running: Running::default(),
            jobs: Vec::new(),
            manual: Vec::new(),
            now: 1_000,
            contents: BTreeMap::new(),
            next_number: 1,
            seqno: 0,
            newest: Content::new(),
            gone: BTreeSet::new(),
            bytes_written: 0,
        }
    }

    fn table(&mut self, content: Content) -> FileMetaData {
        let number = self.next_number;
        self.next_number += 1;
        let boundary = |entry: Option<(&u16, &u64)>| {
            let (key, seqno) = entry.unwrap();
            InternalKey::new(&name(*key), *seqno, ValueType::Put)
        };
        let file = FileMetaData {
            number,
            file_size: ENTRY * content.len() as u64,
            smallest: boundary(content.first_key_value()),
            largest: boundary(content.last_key_value()),
            smallest_seqno: *content.values().min().unwrap(),
            largest_seqno: *content.values().max().unwrap(),
            epoch_number: number,
            file_creation_time: self.now,
            oldest_ancestor_time: self.now,
            ..FileMetaData::default()
        };
        self.bytes_written += file.file_size;
        self.contents.insert(number, content);
        file
    }

    fn flush(&mut self, keys: &[u16]) {
        let mut content = Content::new();
        for key in keys {
            self.seqno += 1;
            content.insert(*key, self.seqno);
        }
        self.newest.extend(content.clone());
        self.gone.retain(|key| !content.contains_key(key));
        let mut edit = VersionEdit::new(ColumnFamilyId(0));
        let file = self.table(content);
        edit.add_file(0, file);
        self.apply(&edit);
    }

    /// Builds the next version on this one, with all checks of the builder.
    fn apply(&mut self, edit: &VersionEdit) {
        self.version = crate::version::apply_for_test(&self.version, edit);
    }

    /// Starts a compaction, if one is due.
    fn start(&mut self) -> bool {
        let Some(compaction) = pick(&self.version, &self.options, self.now, &self.running) else { return false };
        self.begin(compaction, false);
        true
    }

    /// Starts a compaction of level 0, if one is due, as where all places are taken.
    fn start_level0(&mut self) -> bool {
        let picked = pick_level0(&self.version, &self.options, self.now, &self.running);
        let Some(compaction) = picked else { return false };
        assert_eq!(compaction.start_level(), 0);
        self.begin(compaction, false);
        true
    }

    /// Starts the next compaction of the range that was asked for first. True also if that range is done.
    fn start_manual(&mut self) -> bool {
        if self.jobs.iter().any(|job| job.is_manual) {
            return false;
        }
        let Some(range) = self.manual.first_mut() else { return false };
        match range.next(&self.version, &self.options, &self.running, self.next_number) {
            ManualStep::Wait => return false,
            ManualStep::Done => drop(self.manual.remove(0)),
            ManualStep::Compact(compaction) => self.begin(*compaction, true),
        }
        true
    }

    fn begin(&mut self, compaction: Compaction, is_manual: bool) {
        assert!(compaction.input_files().all(|(_, file)| !file.is_being_compacted()), "inputs are taken once");
        let id = self.running.register(&compaction);
        self.jobs.push(Job { id, compaction, is_manual });
    }

    /// Ends the running compaction `index`.
    fn finish(&mut self, index: usize) {
        let Job { id, compaction, .. } = self.jobs.swap_remove(index);
        if compaction.deletes {
            self.forget(&compaction);
        }
        let edit = if compaction.is_edit() { compaction.edit() } else { self.merge(&compaction) };
        self.apply(&edit);
        self.running.unregister(id, &compaction);
    }

    /// What was newest in tables that just go is not found any more.
    fn forget(&mut self, compaction: &Compaction) {
        for (_, file) in compaction.input_files() {
            for (key, seqno) in &self.contents[&file.number] {
                if self.newest.get(key) == Some(seqno) {
                    self.newest.remove(key);
                    self.gone.insert(*key);
                }
            }
        }
    }

    fn merge(&mut self, compaction: &Compaction) -> VersionEdit {
        let mut merged = Content::new();
        for (_, file) in compaction.input_files() {
            for (key, seqno) in &self.contents[&file.number] {
                let newest = merged.entry(*key).or_insert(0);
                *newest = (*newest).max(*seqno);
            }
        }
        let mut edit = compaction.deletions();
        let per_table = match compaction.output_level {
            0 => usize::MAX,
            _ => (compaction.target_file_size / ENTRY).max(1) as usize,
        };
        let rows: Vec<_> = merged.into_iter().collect();
        let epoch = compaction.input_files().map(|(_, file)| file.epoch_number).min().unwrap();
        let oldest = compaction.input_files().map(|(_, file)| file.oldest_ancestor_time).min().unwrap();
        for rows in rows.chunks(per_table) {
            let mut file = self.table(rows.iter().copied().collect());
            file.epoch_number = epoch;
            file.oldest_ancestor_time = oldest;
            edit.add_file(compaction.output_level, file);
        }
        edit
    }

    /// Reads every key as the engine does: the first table from the top that has it.
    fn check(&self) {
        for (key, expected) in &self.newest {
            let found = self.version.all_files().find_map(|(_, file)| self.contents[&file.number].get(key));
            assert_eq!(found, Some(expected), "key {key}");
        }
        for key in &self.gone {
            let found = self.version.all_files().find_map(|(_, file)| self.contents[&file.number].get(key));
            assert_eq!(found, None, "key {key} is back");
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Flush(Vec<u16>),
    Start,
    StartLevel0,
    StartManual,
    Finish(usize),
    /// A caller asks for the compaction of a range.
    Range(u16, u16, bool),
    /// The style is another one from now on.
    Style(CompactionStyle),
    /// So many seconds pass.
    Pass(u64),
}

fn style() -> impl Strategy<Value = CompactionStyle> {
    use CompactionStyle::{Fifo, Lazy, Leveled, Universal};
    prop_oneof![4 => Just(Leveled), 2 => Just(Universal), 2 => Just(Lazy), 1 => Just(Fifo)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => proptest::collection::vec(0u16..400, 1..30).prop_map(Event::Flush),
        // A flush of neighbours, as ascending writes make them.
        1 => (0u16..380, 1u16..20).prop_map(|(first, len)| Event::Flush((first..first + len).collect())),
        4 => Just(Event::Start),
        1 => Just(Event::StartLevel0),
        2 => Just(Event::StartManual),
        1 => (0u16..400, 0u16..400, any::<bool>()).prop_map(|(a, b, force)| Event::Range(a.min(b), a.max(b), force)),
        1 => (0u64..60).prop_map(Event::Pass),
        1 => (0u32..8, style()).prop_map(|(draw, style)| if draw == 0 { Event::Style(style) } else { Event::Start }),
        3 => any::<usize>().prop_map(Event::Finish),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever runs at the same time and ends in whatever order: versions stay possible, older entries never come to lie above newer ones,
    /// and in the end nothing is due and nothing is owed.
    #[test]
    fn picks_agree_with_each_other(
        events in proptest::collection::vec(event(), 1..150),
        dynamic in any::<bool>(),
        sublevels in any::<bool>(),
        multiplier in 2u64..6,
        style in style(),
        incremental in any::<bool>(),
        trigger in prop_oneof![3 => 1usize..6, 1 => 6usize..18],
        narrowest in 2u32..8,
        num_levels in prop_oneof![3 => 2usize..7, 1 => 7usize..20],
        max_compaction in proptest::sample::select(&[0_u64, 150, 400]),
        ages in any::<bool>(),
    ) {
        let options = ColumnFamilyOptions::default()
            .num_levels(num_levels)
            .write_buffer_size(100)
            .level0_file_num_compaction_trigger(trigger)
            .compaction_style(style)
            .compaction_options_fifo(FifoCompactionOptions::default().max_table_files_size(2_000).allow_compaction(incremental))
            .ttl(if ages { 100 } else { 0 })
            .periodic_compaction_seconds(if ages { 150 } else { 0 })
            .compaction_options_universal(UniversalCompactionOptions::default().incremental(incremental).min_merge_width(narrowest))
            .level_compaction_dynamic_level_bytes(dynamic)
            .level0_sublevels(sublevels)
            .max_bytes_for_level_base(300)
            .max_bytes_for_level_multiplier(multiplier)
            .max_compaction_bytes(max_compaction)
            .target_file_size_base(100);
        let mut tree = Tree::new(options);
        for event in events {
            match event {
                Event::Flush(keys) => tree.flush(&keys),
                Event::Start => { tree.start(); }
                Event::StartLevel0 => { tree.start_level0(); }
                Event::StartManual => { tree.start_manual(); }
                Event::Range(begin, end, force) => {
                    tree.manual.push(ManualRange::new(Some(name(begin)), Some(name(end)), force, tree.running.mark()));
                }
                Event::Style(style) => tree.options.compaction_style = style,
                Event::Pass(seconds) => tree.now += seconds,
                Event::Finish(index) if !tree.jobs.is_empty() => tree.finish(index % tree.jobs.len()),
                Event::Finish(_) => {}
            }
            tree.check();
        }
        let flushed = tree.bytes_written;
        for step in 0.. {
            prop_assert!(step < 2000, "compactions without end, {} bytes written", tree.bytes_written - flushed);
            if tree.jobs.is_empty() && !tree.start_manual() && !tree.start() {
                break;
            }
            if !tree.jobs.is_empty() {
                tree.finish(0);
            }
            tree.check();
        }
        prop_assert!(tree.manual.is_empty(), "a range waits for ever");
        if tree.options.compaction_style == CompactionStyle::Universal {
            prop_assert_eq!(level0_load(&tree.version, &tree.options), 0, "runs that stop writers and are never merged");
        }
        if tree.options.compaction_style != CompactionStyle::Leveled {
            return Ok(());
        }
        let targets = LevelTargets::new(&tree.version, &tree.options);
        prop_assert_eq!(estimated_pending_compaction_bytes(&tree.version, &tree.options, &targets), 0);
        prop_assert!(level_scores(&tree.version, &tree.options, &targets).iter().all(|score| score.score < 1.0));
    }
}
