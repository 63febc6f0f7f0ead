//! The simulated tree with its caller's clock: flushes and compactions advance by as many bytes as the caller says.

use super::Simulation;
use super::tree::Tree;
use crate::compaction::{Moving, pick, pick_level0};
use crate::version::Version;

/// A simulated tree whose caller decides when flushes happen and how fast compactions are.
pub(crate) struct SteppedTree {
    tree: Tree,
}

impl SteppedTree {
    /// An empty tree.
    pub(crate) fn new(simulation: Simulation) -> Self {
        Self { tree: Tree::new(simulation) }
    }

    /// A memtable became a table of level 0.
    pub(crate) fn flush(&mut self) {
        self.tree.add_flush();
    }

    /// Begins what is due and has a place, edits at once. One of level 0 begins beside deep ones that have all places, as in the engine.
    pub(crate) fn start(&mut self) {
        loop {
            let Tree { jobs, simulation, running, .. } = &self.tree;
            let (is_full, has_level0) = (jobs.len() >= simulation.jobs, running.has_level0());
            if (is_full && (has_level0 || jobs.len() > simulation.jobs))
                || !self.tree.start_by(if is_full { pick_level0 } else { pick })
            {
                return;
            }
            if let Some(index) = self.tree.jobs.iter().position(|job| job.left == 0) {
                self.tree.finish(index);
            }
        }
    }

    /// Compactions read `bytes`, those of level 0 before others. Returns what they had to read.
    pub(crate) fn advance(&mut self, bytes: u64) -> u64 {
        let mut left = bytes;
        while left > 0 {
            let jobs = self.tree.jobs.iter_mut().enumerate();
            let Some((index, job)) = jobs.min_by_key(|(_, job)| job.compaction.start_level() != 0) else { break };
            let step = left.min(job.left);
            job.left -= step;
            left -= step;
            if job.left == 0 {
                self.tree.finish(index);
                self.start();
            }
        }
        bytes - left
    }

    /// What running compactions move, and the bytes that they have read.
    pub(crate) fn moving(&self) -> (Vec<Moving>, u64) {
        let read = self.tree.jobs.iter().map(|job| job.compaction.input_bytes() - job.left).sum();
        (self.tree.running.moving(), read)
    }

    /// Files of level 0, less what has been read of them.
    pub(crate) fn l0_files(&self) -> f64 {
        let read = self.tree.jobs.iter().filter(|job| job.compaction.start_level() == 0).map(|job| {
            let share = 1.0 - job.left as f64 / job.compaction.input_bytes().max(1) as f64;
            job.compaction.inputs.first().map_or(0, |inputs| inputs.files.len()) as f64 * share
        });
        self.tree.version.files(0).len() as f64 - read.sum::<f64>()
    }

    /// Files of level 0 that a running compaction takes, the bytes that it must still read, and those that it reads in all.
    pub(crate) fn level0_job(&self) -> [f64; 3] {
        let job = self.tree.jobs.iter().find(|job| job.compaction.start_level() == 0);
        job.map_or([0.0; 3], |job| {
            let files =
                job.compaction.inputs.iter().filter(|inputs| inputs.level == 0).map(|inputs| inputs.files.len());
            [files.sum::<usize>() as f64, job.left as f64, job.compaction.input_bytes() as f64]
        })
    }

    /// Bytes of tables that were written, flushes included, per byte of the user.
    pub(crate) fn write_amp(&self) -> f64 {
        self.tree.outcome().write_amp
    }

    /// Whether a compaction runs.
    pub(crate) fn is_busy(&self) -> bool {
        !self.tree.jobs.is_empty()
    }

    /// The tables.
    pub(crate) fn version(&self) -> &Version {
        &self.tree.version
    }
}
