//! A tree of make-believe tables that flushes and several compactions at a time change, in any order.

use super::*;
use crate::compaction::RunningId;
use crate::version::VersionEdit;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Bytes of one entry.
const ENTRY: u64 = 10;

/// What a table holds: keys, and the sequence number of their newest entry.
type Content = BTreeMap<u16, u64>;

struct Tree {
    options: ColumnFamilyOptions,
    version: Arc<Version>,
    running: Running,
    jobs: Vec<(RunningId, Compaction)>,
    contents: BTreeMap<u64, Content>,
    next_number: u64,
    seqno: u64,
    newest: Content,
    bytes_written: u64,
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
            contents: BTreeMap::new(),
            next_number: 1,
            seqno: 0,
            newest: Content::new(),
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
        let Some(compaction) = pick(&self.version, &self.options, 0, &self.running) else { return false };
        assert!(compaction.input_files().all(|(_, file)| !file.is_being_compacted()), "inputs are taken once");
        let id = self.running.register(&compaction);
        self.jobs.push((id, compaction));
        true
    }

    /// Ends the running compaction `index`.
    fn finish(&mut self, index: usize) {
        let (id, compaction) = self.jobs.swap_remove(index);
        let edit = if compaction.is_edit() { compaction.edit() } else { self.merge(&compaction) };
        self.apply(&edit);
        self.running.unregister(id, &compaction);
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
        for rows in rows.chunks(per_table) {
            let mut file = self.table(rows.iter().copied().collect());
            file.epoch_number = epoch;
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
    }
}

#[derive(Debug, Clone)]
enum Event {
    Flush(Vec<u16>),
    Start,
    Finish(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => proptest::collection::vec(0u16..400, 1..30).prop_map(Event::Flush),
        // A flush of neighbours, as ascending writes make them.
        1 => (0u16..380, 1u16..20).prop_map(|(first, len)| Event::Flush((first..first + len).collect())),
        4 => Just(Event::Start),
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
        universal in any::<bool>(),
        incremental in any::<bool>(),
        trigger in 1usize..6,
        num_levels in 2usize..7,
    ) {
        let options = ColumnFamilyOptions::default()
            .num_levels(num_levels)
            .write_buffer_size(100)
            .level0_file_num_compaction_trigger(trigger)
            .compaction_style(if universal { CompactionStyle::Universal } else { CompactionStyle::Leveled })
            .compaction_options_universal(UniversalCompactionOptions::default().incremental(incremental))
            .level_compaction_dynamic_level_bytes(dynamic)
            .level0_sublevels(sublevels)
            .max_bytes_for_level_base(300)
            .max_bytes_for_level_multiplier(multiplier)
            .target_file_size_base(100);
        let mut tree = Tree::new(options);
        for event in events {
            match event {
                Event::Flush(keys) => tree.flush(&keys),
                Event::Start => { tree.start(); }
                Event::Finish(index) if !tree.jobs.is_empty() => tree.finish(index % tree.jobs.len()),
                Event::Finish(_) => {}
            }
            tree.check();
        }
        let flushed = tree.bytes_written;
        for step in 0.. {
            prop_assert!(step < 2000, "compactions without end, {} bytes written", tree.bytes_written - flushed);
            if tree.jobs.is_empty() && !tree.start() {
                break;
            }
            tree.finish(0);
            tree.check();
        }
        if universal {
            return Ok(());
        }
        let targets = LevelTargets::new(&tree.version, &tree.options);
        prop_assert_eq!(estimated_pending_compaction_bytes(&tree.version, &tree.options, &targets), 0);
        prop_assert!(level_scores(&tree.version, &tree.options, &targets).iter().all(|score| score.score < 1.0));
    }
}
