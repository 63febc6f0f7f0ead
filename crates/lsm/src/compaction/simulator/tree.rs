//! The tree that is simulated: versions of make-believe tables, and the compactions that run on them.

use super::content::{Content, Segment, refine, union};
use super::{Outcome, Pattern, Picture, Simulation};
use crate::compaction::outputs::OutputCutter;
use crate::compaction::{Compaction, Running, RunningId, pending_compaction_bytes, pick};
use crate::file_meta::{FileMetaData, ObsoleteTables};
use crate::key::{ColumnFamilyId, InternalKey, InternalKeyComparator, ValueType};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::{Version, VersionEdit, applied};
use siltstone_base::comparator::Bytewise;
use siltstone_base::sync::Arc;
use std::collections::HashMap;

const FAMILY: ColumnFamilyId = ColumnFamilyId(0);

/// An output is looked at this often while it grows to its target size.
const STEPS_PER_FILE: u64 = 8;

/// Flushes before the largest figures count: a tree of a few tables has no shape yet.
const WARM_UP: u64 = 100;

/// What finds the next compaction.
pub(super) type Picker = fn(&Arc<Version>, &ColumnFamilyOptions, u64, &Running) -> Option<Compaction>;

/// A compaction that runs.
pub(super) struct Job {
    id: RunningId,
    pub(super) compaction: Compaction,
    /// Bytes that it must still read.
    pub(super) left: u64,
}

pub(super) struct Tree {
    pub(super) simulation: Simulation,
    pub(super) version: Arc<Version>,
    pub(super) running: Running,
    pub(super) jobs: Vec<Job>,
    contents: HashMap<u64, Content>,
    obsolete: Arc<ObsoleteTables>,
    /// Everything that was ever written, each key once.
    live: Content,
    live_bytes: u64,
    last_number: u64,
    written_bytes: u64,
    user_bytes: u64,
    samples: u64,
    debt_flushes: u64,
    outcome: Outcome,
}

impl Tree {
    pub(super) fn new(simulation: Simulation) -> Self {
        let order = InternalKeyComparator::new(Arc::new(Bytewise));
        let version = Arc::new(Version::empty(FAMILY, order, simulation.options.num_levels));
        Self {
            simulation,
            version,
            running: Running::default(),
            jobs: Vec::new(),
            contents: HashMap::new(),
            obsolete: Arc::new(ObsoleteTables::new()),
            live: Content::new(),
            live_bytes: 0,
            last_number: 0,
            written_bytes: 0,
            user_bytes: 0,
            samples: 0,
            debt_flushes: 0,
            outcome: Outcome::default(),
        }
    }

    /// One flush, and the compactions until the next.
    pub(super) fn flush(&mut self) {
        while self.is_stopped() {
            self.outcome.stops += 1;
            let before = self.version.files(0).len();
            self.work();
            if self.jobs.is_empty() && self.version.files(0).len() >= before {
                break;
            }
        }
        self.add_flush();
        self.work();
        self.sample();
    }

    /// Whether a flush has to wait. In the FIFO style all tables are in level 0.
    fn is_stopped(&self) -> bool {
        let options = &self.simulation.options;
        options.compaction_style != CompactionStyle::Fifo
            && self.version.files(0).len() >= options.level0_stop_writes_trigger
    }

    /// A flush alone.
    pub(super) fn add_flush(&mut self) {
        let content = self.next_content();
        let user_entries = self.simulation.options.write_buffer_size as u64 / self.simulation.entry_bytes;
        self.user_bytes += user_entries * self.simulation.entry_bytes;
        let whole = content.clone();
        let file = self.file(&content, whole, self.outcome.flushes + 1);
        let mut edit = VersionEdit::new(FAMILY);
        edit.add_file(0, file);
        self.apply(&edit);
        self.grow_live(content);
        self.outcome.flushes += 1;
    }

    /// What the next memtable holds.
    fn next_content(&self) -> Content {
        let Simulation { keys, entry_bytes, options, pattern, .. } = &self.simulation;
        let entries = (options.write_buffer_size as u64 / entry_bytes).max(1);
        let among = |first: u64, end: u64, entries: f64| {
            let share = 1.0 - (-entries / (end - first) as f64).exp();
            Segment { first, end, share }
        };
        match pattern {
            Pattern::Uniform => vec![among(0, *keys, entries as f64)],
            Pattern::Ascending => {
                let first = self.outcome.flushes * entries;
                vec![Segment { first, end: first + entries, share: 1.0 }]
            }
            Pattern::Hot => {
                let entries = entries as f64;
                vec![among(0, keys / 10, entries * 0.9), among(keys / 10, *keys, entries * 0.1)]
            }
        }
    }

    fn grow_live(&mut self, content: Content) {
        if self.simulation.pattern == Pattern::Ascending {
            self.live_bytes += self.bytes(&content);
            return;
        }
        self.live = union(&[std::mem::take(&mut self.live), content]);
        self.live_bytes = self.bytes(&self.live);
    }

    fn bytes(&self, content: &Content) -> u64 {
        let entries: f64 = content.iter().map(Segment::entries).sum();
        ((entries * self.simulation.entry_bytes as f64) as u64).max(1)
    }

    /// A new table with the range of `range` that holds `content`.
    fn file(&mut self, range: &Content, content: Content, epoch_number: u64) -> FileMetaData {
        self.last_number += 1;
        let first = range.first().map_or(0, |segment| segment.first);
        let last = range.last().map_or(0, |segment| segment.end - 1);
        let boundary = |key: u64, seqno| InternalKey::new(&key.to_be_bytes(), seqno, ValueType::Put);
        let file_size = self.bytes(&content);
        self.written_bytes += file_size;
        self.contents.insert(self.last_number, content);
        FileMetaData {
            number: self.last_number,
            file_size,
            smallest: boundary(first, 9),
            largest: boundary(last, 1),
            smallest_seqno: epoch_number,
            largest_seqno: epoch_number,
            epoch_number,
            file_creation_time: self.now(),
            oldest_ancestor_time: self.now(),
            has_ranges: Some(false),
            ..FileMetaData::default()
        }
    }

    fn now(&self) -> u64 {
        1 + self.outcome.flushes.saturating_mul(self.simulation.flush_seconds)
    }

    fn apply(&mut self, edit: &VersionEdit) {
        self.version = applied(&self.version, edit, &self.obsolete);
        for (_, number) in &edit.deleted_files {
            if !edit.new_files.iter().any(|(_, file)| file.number == *number) {
                self.contents.remove(number);
            }
        }
    }

    /// Compactions for as long as it takes to fill the next memtable.
    fn work(&mut self) {
        let mut budget = self.simulation.work_bytes;
        loop {
            while self.jobs.len() < self.simulation.jobs && self.start() {}
            let Some(least) = self.jobs.iter().map(|job| job.left).min() else { return };
            let count = self.jobs.len() as u64;
            let step = least.min(budget / count);
            budget -= step * count;
            self.jobs.iter_mut().for_each(|job| job.left -= step);
            match self.jobs.iter().position(|job| job.left == 0) {
                Some(index) => self.finish(index),
                None => return,
            }
        }
    }

    fn start(&mut self) -> bool {
        self.start_by(pick)
    }

    /// Begins the next compaction that the picker finds.
    pub(super) fn start_by(&mut self, picker: Picker) -> bool {
        let picked = picker(&self.version, &self.simulation.options, self.now(), &self.running);
        let Some(compaction) = picked else { return false };
        let left = if compaction.is_edit() { 0 } else { compaction.input_bytes() };
        if self.outcome.flushes > WARM_UP {
            let share = left as f64 / self.live_bytes.max(1) as f64;
            self.outcome.largest_input = self.outcome.largest_input.max(share);
        }
        let id = self.running.register(&compaction);
        self.jobs.push(Job { id, compaction, left });
        true
    }

    pub(super) fn finish(&mut self, index: usize) {
        let Job { id, compaction, .. } = self.jobs.swap_remove(index);
        if compaction.is_edit() {
            self.outcome.edits += 1;
            self.apply(&compaction.edit());
        } else {
            self.outcome.compactions += 1;
            let edit = self.merge(&compaction);
            self.apply(&edit);
        }
        self.running.unregister(id, &compaction);
    }

    /// What a compaction makes of its inputs.
    fn merge(&mut self, compaction: &Compaction) -> VersionEdit {
        let mut runs = Vec::new();
        for inputs in &compaction.inputs {
            let contents = inputs.files.iter().map(|file| self.contents[&file.number].clone());
            match inputs.level {
                0 => runs.extend(contents),
                _ => runs.push(contents.flatten().collect()),
            }
        }
        let mut borders = Vec::new();
        for file in &compaction.grandparents {
            borders.extend([key_of(file.smallest.user_key()), key_of(file.largest.user_key()) + 1]);
        }
        borders.extend(compaction.fences.iter().map(|key| key_of(key)));
        borders.sort_unstable();
        let entry_bytes = self.simulation.entry_bytes as f64;
        let step = compaction.target_file_size.div_ceil(STEPS_PER_FILE) as f64 / entry_bytes;
        let steps = refine(&union(&runs), &borders, step.max(1.0));
        let epochs = compaction.input_files().map(|(_, file)| file.epoch_number);
        let epoch = epochs.min().unwrap_or(0);
        let mut edit = compaction.deletions();
        let mut cutter = OutputCutter::new(compaction);
        let (mut current, mut entries) = (Content::new(), 0.0);
        for segment in steps {
            if cutter.ends_before(&segment.first.to_be_bytes(), (entries * entry_bytes) as u64) {
                edit.add_file(compaction.output_level, self.output(&mut current, entries, epoch));
                entries = 0.0;
            }
            entries += segment.entries();
            current.push(segment);
        }
        if !current.is_empty() {
            edit.add_file(compaction.output_level, self.output(&mut current, entries, epoch));
        }
        edit
    }

    /// The table that an output became. What it has counts as spread evenly.
    fn output(&mut self, current: &mut Content, entries: f64, epoch: u64) -> FileMetaData {
        let range = std::mem::take(current);
        let (first, end) = (range[0].first, range[range.len() - 1].end);
        let even = vec![Segment { first, end, share: (entries / (end - first) as f64).min(1.0) }];
        self.file(&range, even, epoch)
    }

    fn sample(&mut self) {
        let version = &self.version;
        let runs =
            version.files(0).len() + (1..version.num_levels()).filter(|level| version.level_bytes(*level) > 0).count();
        // Inputs are read and outputs written at the same pace.
        let unfinished = self.jobs.iter().filter(|job| !job.compaction.is_edit());
        let unfinished: u64 = unfinished.map(|job| job.compaction.input_bytes() - job.left).sum();
        let live_bytes = self.live_bytes.max(1) as f64;
        let space = (version.total_bytes() + unfinished) as f64 / live_bytes;
        let debt = pending_compaction_bytes(version, &self.simulation.options);
        self.samples += 1;
        self.debt_flushes = if debt > 0 { self.debt_flushes + 1 } else { 0 };
        let outcome = &mut self.outcome;
        outcome.space_amp += space;
        outcome.sorted_runs += runs as f64;
        outcome.debt_bytes_max = outcome.debt_bytes_max.max(debt);
        outcome.debt_flushes_max = outcome.debt_flushes_max.max(self.debt_flushes);
        if outcome.flushes > WARM_UP {
            outcome.space_amp_max = outcome.space_amp_max.max(space);
            outcome.unfinished_max = outcome.unfinished_max.max(unfinished as f64 / live_bytes);
            outcome.sorted_runs_max = outcome.sorted_runs_max.max(runs);
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        let samples = self.samples.max(1) as f64;
        Outcome {
            write_amp: self.written_bytes as f64 / self.user_bytes.max(1) as f64,
            space_amp: self.outcome.space_amp / samples,
            sorted_runs: self.outcome.sorted_runs / samples,
            ..self.outcome
        }
    }

    pub(super) fn picture(&self) -> Picture {
        Picture::of(&self.version, key_of)
    }
}

/// The number that a key is.
fn key_of(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}
