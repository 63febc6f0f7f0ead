//! One attempt of a compaction, in steps.
//!
//! A failed attempt leaves the inputs as they are; what it wrote is removed. The outputs count when the edit that
//! [`CompactionJob::finish`] returns is durable.

#[cfg(test)]
mod tests;

use super::Compaction;
use super::beneath::Beneath;
use super::outputs::Outputs;
use super::rules::{DropReason, DropRules, Entry, RulesOptions, Verdict};
use crate::file_meta::FileMetaData;
use crate::iterator::{ChildIter, InternalIterator, IterPurpose, LevelIter, MergingIter};
use crate::key::{ParsedKey, SeqNo, pack_trailer};
use crate::options::ColumnFamilyOptions;
use crate::sst::{TableIter, TableReadOptions};
use crate::table_cache::TableCache;
use crate::version::{FileNumbers, VersionEdit};
use siltstone_base::clock::Clock;
use siltstone_base::env::{Env, FileKind, IoContext, IoPriority};
use siltstone_base::executor::Budget;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

/// What a compaction job works with.
#[derive(Debug, Clone)]
pub(crate) struct CompactionEnv {
    /// Where the files are.
    pub(crate) env: Arc<dyn Env>,
    /// The directory of the database.
    pub(crate) dir: PathBuf,
    /// The open tables of the family.
    pub(crate) table_cache: Arc<TableCache>,
    /// The options of the family.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The name of the family.
    pub(crate) family_name: String,
    /// The live snapshots, ascending, each once; asked for after the compaction was registered.
    pub(crate) snapshots: Vec<SeqNo>,
    /// Numbers of outputs come from here.
    pub(crate) file_numbers: Arc<FileNumbers>,
    /// The id of the database.
    pub(crate) db_id: String,
    /// The id of the session.
    pub(crate) session_id: String,
    /// Wall time for the outputs.
    pub(crate) clock: Arc<dyn Clock>,
    /// Bytes that are read at a time.
    pub(crate) readahead_size: usize,
    /// Writes past the operating system's page cache.
    pub(crate) use_direct_io: bool,
    /// Starts writeback of outputs after so many bytes. 0: never.
    pub(crate) bytes_per_sync: u64,
}

/// Entries that a compaction dropped, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DroppedEntries {
    /// Hidden by a newer entry that no snapshot tells apart from it.
    pub(crate) hidden: u64,
    /// Tombstones with nothing to hide.
    pub(crate) obsolete_tombstones: u64,
    /// Single deletes and what they were for.
    pub(crate) single_deletes: u64,
    /// Removed by the entry filter; a tombstone may have taken their place.
    pub(crate) filtered: u64,
}

/// What a finished compaction did.
#[derive(Debug)]
pub(crate) struct CompactionOutput {
    /// Lets the inputs leave and the outputs enter.
    pub(crate) edit: VersionEdit,
    /// The outputs, ascending.
    pub(crate) files: Vec<FileMetaData>,
    /// Bytes of the inputs.
    pub(crate) bytes_read: u64,
    /// Bytes of the outputs.
    pub(crate) bytes_written: u64,
    /// Entries dropped.
    pub(crate) dropped: DroppedEntries,
}

/// A running compaction.
#[derive(Debug)]
pub(crate) struct CompactionJob {
    compaction: Compaction,
    env: CompactionEnv,
    /// Set when the inputs were opened.
    input: Option<MergingIter<ChildIter>>,
    rules: DropRules,
    beneath: Beneath,
    outputs: Outputs,
    /// Whether no entry of the key at hand was written yet.
    is_first_of_key: bool,
    /// An internal key with a trailer of its own.
    key: Vec<u8>,
    entries_in: u64,
    dropped: DroppedEntries,
    is_done: bool,
}

impl CompactionJob {
    /// A job that has done nothing yet.
    pub(crate) fn new(compaction: Compaction, env: CompactionEnv) -> Self {
        let rules = DropRules::new(RulesOptions {
            order: compaction.input_version.comparator().clone(),
            snapshots: env.snapshots.clone(),
            bottommost: compaction.bottommost,
            filter: env.options.compaction_filter.clone(),
            output_level: compaction.output_level,
        });
        let beneath = Beneath::new(&compaction);
        let outputs = Outputs::new(&compaction, &env);
        Self {
            compaction,
            env,
            input: None,
            rules,
            beneath,
            outputs,
            is_first_of_key: true,
            key: Vec::new(),
            entries_in: 0,
            dropped: DroppedEntries::default(),
            is_done: false,
        }
    }

    /// Bytes written so far, about.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.outputs.bytes()
    }

    /// Works until the budget is spent. Returns whether all inputs are read: then [`finish`](Self::finish) is next.
    ///
    /// # Errors
    ///
    /// Whatever reading or writing meets, and damage of an input. The job must then be [abandoned](Self::abandon).
    pub(crate) fn step(&mut self, budget: &mut Budget<'_>) -> Result<bool> {
        if self.is_done {
            return Ok(true);
        }
        if self.input.is_none() {
            let mut input = self.open_inputs()?;
            input.seek_to_first();
            self.input = Some(input);
        }
        let Some(input) = &mut self.input else { return Ok(false) };
        while input.valid() {
            let internal_key = input.key();
            let parsed = ParsedKey::parse(internal_key)?;
            let entry = Entry { user_key: parsed.user_key, seqno: parsed.seqno, value_type: parsed.value_type };
            self.entries_in += 1;
            let value = input.value();
            let beneath = &mut self.beneath;
            let step = self.rules.next(entry, value, &mut |key| beneath.may_have(key));
            if let Some(held) = step.held {
                let key = self.rules.released_key();
                write_held(&mut self.outputs, &self.env, key, held, &mut self.is_first_of_key, &mut self.dropped)?;
            }
            self.is_first_of_key |= step.is_new_key;
            match step.verdict {
                Verdict::Keep { trailer, changed } => {
                    let value = if changed { self.rules.changed_value() } else { value };
                    let key = if trailer == pack_trailer(parsed.seqno, parsed.value_type as u8) {
                        internal_key
                    } else {
                        self.key.clear();
                        self.key.extend_from_slice(parsed.user_key);
                        self.key.extend_from_slice(&trailer.to_le_bytes());
                        &self.key
                    };
                    self.outputs.add(&self.env, key, value, self.is_first_of_key)?;
                    self.is_first_of_key = false;
                }
                Verdict::Drop(reason) => self.dropped.count(reason),
                Verdict::Hold => {}
            }
            input.next();
            if budget.spend(1) {
                return Ok(false);
            }
        }
        if let Err(error) = input.status()
            && !is_planted(PlantedBug::CompactionSwallowsReadError)
        {
            return Err(error);
        }
        if let Some(held) = self.rules.finish() {
            let key = self.rules.released_key();
            write_held(&mut self.outputs, &self.env, key, held, &mut self.is_first_of_key, &mut self.dropped)?;
        }
        self.outputs.finish_table()?;
        self.check_counts()?;
        self.is_done = true;
        Ok(true)
    }

    /// Checks that every entry of the inputs was read, as far as they say how many they have.
    fn check_counts(&self) -> Result<()> {
        let dropped = self.dropped.hidden + self.dropped.obsolete_tombstones + self.dropped.single_deletes;
        debug_assert_eq!(self.entries_in, self.outputs.entries() + dropped, "every entry is written or dropped");
        let mut expected = 0;
        for (_, file) in self.compaction.input_files() {
            match self.env.table_cache.reader(file)?.properties().num_entries {
                0 => return Ok(()),
                entries => expected += entries,
            }
        }
        if expected == self.entries_in || is_planted(PlantedBug::CompactionSwallowsReadError) {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the inputs of a compaction say that they have {expected} entries, and have {}",
            self.entries_in
        )))
    }

    /// Makes the outputs' names durable. REQUIRES: [`step`](Self::step) said that all is read.
    ///
    /// # Errors
    ///
    /// Of the directory's sync; the outputs are then removed.
    pub(crate) fn finish(self) -> Result<CompactionOutput> {
        if !self.is_done {
            self.abandon();
            return Err(Error::invalid_argument("a compaction was finished before its end"));
        }
        let files = self.outputs.finished().to_vec();
        if !files.is_empty()
            && let Err(source) = self.env.env.sync_dir(&self.env.dir)
        {
            let error = Error::io("sync", &self.env.dir, source);
            self.abandon();
            return Err(error);
        }
        let mut edit = self.compaction.deletions();
        for file in &files {
            edit.add_file(self.compaction.output_level, file.clone());
        }
        Ok(CompactionOutput {
            edit,
            bytes_read: self.compaction.input_bytes(),
            bytes_written: self.outputs.bytes(),
            dropped: DroppedEntries { filtered: self.rules.filtered(), ..self.dropped },
            files,
        })
    }

    /// Gives up: removes what was written.
    pub(crate) fn abandon(self) {
        drop(self.input);
        self.outputs.abandon(&self.env);
    }

    /// One source a table of level 0, and one a further level.
    fn open_inputs(&self) -> Result<MergingIter<ChildIter>> {
        let priority = if self.compaction.start_level() == 0 { IoPriority::High } else { IoPriority::Low };
        let read = TableReadOptions {
            fill_cache: false,
            context: IoContext::new(FileKind::Table, priority),
            ..TableReadOptions::default()
        };
        let read_ahead_size = self.env.readahead_size;
        let mut children = Vec::new();
        for inputs in &self.compaction.inputs {
            if inputs.level > 0 {
                let purpose = IterPurpose::Compaction { read_ahead_size };
                let files = Arc::from(inputs.files.as_slice());
                let level = LevelIter::new(files, Arc::clone(&self.env.table_cache), read, purpose);
                children.push(ChildIter::Level(level));
                continue;
            }
            for file in &inputs.files {
                let reader = Arc::clone(self.env.table_cache.reader(file)?);
                children.push(ChildIter::Table(TableIter::for_compaction(reader, read, read_ahead_size)));
            }
        }
        Ok(MergingIter::new(self.compaction.input_version.comparator().clone(), children))
    }
}

impl DroppedEntries {
    fn count(&mut self, reason: DropReason) {
        match reason {
            DropReason::Hidden => self.hidden += 1,
            DropReason::ObsoleteTombstone => self.obsolete_tombstones += 1,
            DropReason::SingleDeletePair | DropReason::SupersededSingleDelete => self.single_deletes += 1,
        }
    }
}

/// Writes or drops the tombstone that the rules held.
#[cold]
fn write_held(
    outputs: &mut Outputs,
    env: &CompactionEnv,
    key: &[u8],
    verdict: Verdict,
    is_first_of_key: &mut bool,
    dropped: &mut DroppedEntries,
) -> Result<()> {
    match verdict {
        Verdict::Drop(reason) => dropped.count(reason),
        Verdict::Keep { .. } | Verdict::Hold => {
            outputs.add(env, key, &[], *is_first_of_key)?;
            *is_first_of_key = false;
        }
    }
    Ok(())
}
