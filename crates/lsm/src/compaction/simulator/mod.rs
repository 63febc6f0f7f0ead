//! The picker simulator: make-believe flushes into make-believe tables, and the real pickers on them.
//!
//! Nothing is stored: a table is a range of keys and the share of them that it has, so that what a merge makes of its inputs follows from
//! arithmetic, and a million flushes take a minute or two. Versions, picks, the cutting of outputs and the checks of the version builder are those of the
//! engine. Reported is what a style costs: write, space and read amplification, and the longest debt.

mod content;
mod picture;
#[cfg(test)]
mod stepped;
#[cfg(test)]
mod tests;
mod tree;

pub use picture::Picture;
#[cfg(test)]
pub(crate) use stepped::SteppedTree;

use crate::options::ColumnFamilyOptions;
use tree::Tree;

/// Which keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// All with the same probability.
    Uniform,
    /// One after the other, without end.
    Ascending,
    /// Nine of ten writes go to a tenth of the keys.
    Hot,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// Options of the family. A flush has `write_buffer_size` bytes of writes.
    pub options: ColumnFamilyOptions,
    /// Which keys are written.
    pub pattern: Pattern,
    /// How many keys there are.
    pub keys: u64,
    /// Bytes of an entry in a table.
    pub entry_bytes: u64,
    /// How many compactions run at the same time.
    pub jobs: usize,
    /// Bytes that compactions read between two flushes, together.
    pub work_bytes: u64,
    /// Seconds between two flushes.
    pub flush_seconds: u64,
}

/// What it came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Flushes.
    pub flushes: u64,
    /// Times that a flush had to wait, because level 0 was full.
    pub stops: u64,
    /// Compactions that rewrote something.
    pub compactions: u64,
    /// Compactions that moved or deleted whole tables.
    pub edits: u64,
    /// Bytes written, flushes included, per byte of the user.
    pub write_amp: f64,
    /// Bytes of all tables and of unfinished outputs, per live byte: the mean.
    pub space_amp: f64,
    /// The same at its largest, once there were a hundred flushes.
    pub space_amp_max: f64,
    /// Bytes of unfinished outputs after a flush, per live byte, at their most; once there were a hundred flushes.
    pub unfinished_max: f64,
    /// Sorted runs, which is how many tables a get may have to ask: the mean.
    pub sorted_runs: f64,
    /// The most of them.
    pub sorted_runs_max: usize,
    /// The most bytes that were pending.
    pub debt_bytes_max: u64,
    /// The most flushes in a row after which something was pending.
    pub debt_flushes_max: u64,
    /// The most bytes that one compaction read, in parts of all live bytes; once there were a hundred flushes.
    pub largest_input: f64,
}

impl Simulation {
    /// A simulation of a family with these options: a million keys of 1 KiB, uniformly written; one compaction at a time, with as much to read between two
    /// flushes as it takes.
    pub fn new(options: ColumnFamilyOptions) -> Self {
        Self {
            options,
            pattern: Pattern::Uniform,
            keys: 1 << 20,
            entry_bytes: 1 << 10,
            jobs: 1,
            work_bytes: u64::MAX,
            flush_seconds: 1,
        }
    }

    /// Runs it for so many flushes.
    pub fn run(&self, flushes: u64) -> Outcome {
        self.run_to_picture(flushes).0
    }

    /// The same, and what the tree looks like at the end.
    pub fn run_to_picture(&self, flushes: u64) -> (Outcome, Picture) {
        let mut tree = Tree::new(self.clone());
        for _ in 0..flushes {
            tree.flush();
        }
        (tree.outcome(), tree.picture())
    }
}
