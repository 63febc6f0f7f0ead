//! Runs an engine beside the model.

use super::{Failure, Model, Step};
use crate::{
    ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, FlushOptions, ReadOptions, Snapshot, TableOptions,
};
use siltstone_base::clock::ManualClock;
use siltstone_base::env::sim::SimDisk;
use siltstone_base::executor::StepExecutor;
use std::collections::VecDeque;
use std::sync::Arc;

const DIR: &str = "/db";

/// Runs steps on an engine with the user's parts.
///
/// One thread, a simulated disk and a clock that stands still: the same steps give the same run.
#[derive(Debug, Clone)]
pub struct Checker {
    family: ColumnFamilyOptions,
}

/// An engine that runs, and what it must show.
struct Run {
    family: ColumnFamilyOptions,
    disk: SimDisk,
    db: Db,
    model: Model,
    /// Oldest first.
    snapshots: VecDeque<(Snapshot, Model)>,
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self::new(format!("a call failed: {error}"))
    }
}

impl Checker {
    /// A checker of an engine whose default family has these options. Memtables, tables and levels are made small, so that few
    /// steps reach all parts of the tree.
    pub fn new(family: ColumnFamilyOptions) -> Self {
        let table = TableOptions { block_size: 256, ..family.table.clone() };
        let family = family
            .write_buffer_size(4 << 10)
            .level0_file_num_compaction_trigger(2)
            .target_file_size_base(2 << 10)
            .max_bytes_for_level_base(8 << 10)
            .table(table);
        Self { family }
    }

    /// Carries `steps` out, and compares every row with the model wherever the engine has rewritten something.
    ///
    /// # Errors
    ///
    /// The first difference, or the first call that failed.
    pub fn run(&self, steps: &[Step]) -> Result<(), Failure> {
        let disk = SimDisk::new();
        let db = open(&disk, &self.family)?;
        let order = Arc::clone(&self.family.comparator);
        let model =
            Model::new(order, self.family.compaction_filter.clone()).merging(self.family.merge_operator.clone());
        let mut run = Run { family: self.family.clone(), disk, db, model, snapshots: VecDeque::new() };
        for (number, step) in steps.iter().enumerate() {
            let outcome = run.step(step);
            outcome.map_err(|failure| Failure::new(format!("step {number}, {step:?}: {failure}")))?;
        }
        run.compare().map_err(|failure| Failure::new(format!("at the end: {failure}")))?;
        Ok(run.db.close()?)
    }
}

fn open(disk: &SimDisk, family: &ColumnFamilyOptions) -> Result<Db, Failure> {
    let executor = StepExecutor::new(Arc::new(ManualClock::new(1_700_000_000)));
    let options = DbOptions::default().create_if_missing(true).env(Some(disk.env())).executor(Some(Arc::new(executor)));
    Ok(Db::open_families(DIR, &options, &[("default", family.clone())])?)
}

impl Run {
    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::Put(key, value) => {
                self.db.put(key, value)?;
                self.model.put(key, value);
                Ok(())
            }
            Step::Merge(key, operand) => {
                self.db.merge(key, operand)?;
                self.model.merge(key, operand)
            }
            Step::Delete(key) => {
                self.db.delete(key)?;
                self.model.delete(key);
                Ok(())
            }
            Step::Get(key) => self.get(key),
            Step::Snapshot => {
                self.snapshots.push_back((self.db.snapshot(), self.model.clone()));
                Ok(())
            }
            Step::Release => {
                self.snapshots.pop_front();
                Ok(())
            }
            Step::Flush => {
                self.db.flush(&FlushOptions::default())?;
                self.compare()
            }
            Step::Compact => {
                let forced = CompactRangeOptions::default().force_bottommost(true);
                self.db.compact_range(&self.db.default_family(), None, None, &forced)?;
                self.db.wait_for_background_work()?;
                self.compare()
            }
            Step::Reopen => {
                self.snapshots.clear();
                self.db.clone().close()?;
                self.db = open(&self.disk, &self.family)?;
                self.compare()
            }
            Step::Kill => {
                self.snapshots.clear();
                self.disk = self.disk.after_process_death();
                self.db = open(&self.disk, &self.family)?;
                self.compare()
            }
        }
    }

    fn get(&mut self, key: &[u8]) -> Result<(), Failure> {
        let seen = self.db.get(key)?;
        if self.model.see(key, seen.as_deref()) { Ok(()) } else { Err(Failure::new("another value, or none")) }
    }

    /// Compares all rows, now and at every snapshot, and checks the tree.
    fn compare(&mut self) -> Result<(), Failure> {
        self.db.check()?;
        compare(&self.db, &ReadOptions::default(), &mut self.model)?;
        for (snapshot, model) in &mut self.snapshots {
            let at = ReadOptions::default().snapshot(Some(snapshot.clone()));
            compare(&self.db, &at, model).map_err(|failure| Failure::new(format!("at a snapshot: {failure}")))?;
        }
        Ok(())
    }
}

/// Compares all rows, forward, backward and by key.
fn compare(db: &Db, at: &ReadOptions, model: &mut Model) -> Result<(), Failure> {
    let mut iter = db.iter(at)?;
    let mut forward = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        forward.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    iter.status()?;
    let mut backward = Vec::new();
    iter.seek_to_last();
    while iter.valid() {
        backward.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev();
    }
    iter.status()?;
    backward.reverse();
    if forward != backward {
        return Err(Failure::new("walking forward and backward show other rows"));
    }
    let family = db.default_family();
    let keys: Vec<Vec<u8>> = model.rows().iter().map(|(key, _)| key.clone()).collect();
    for key in &keys {
        let seen = db.get_cf(&family, key, at)?;
        if !model.see(key, seen.as_deref()) {
            return Err(Failure::new(format!("{key:?} shows as {seen:?}")));
        }
    }
    // What the gets showed is what the walk must have shown.
    if model.rows().len() != forward.len() {
        return Err(Failure::new(format!("{} rows instead of {}", forward.len(), model.rows().len())));
    }
    for ((key, value), (_, wanted)) in forward.iter().zip(model.rows()) {
        if value != wanted {
            return Err(Failure::new(format!("{key:?} shows as {value:?} when walking, and as {wanted:?} otherwise")));
        }
    }
    Ok(())
}
