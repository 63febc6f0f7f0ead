//! Subcompactions: the jobs that a large compaction is shared out to.
//!
//! Each works on a range of user keys of its own. The one that ends last ends the compaction: one edit names the outputs of all, or, after any error, all
//! outputs are removed. An error of one lets the others stop at their next step.

use super::column_family::Family;
use super::compact::{Compacting, FLUSH_HEADSTART, panicked};
use super::io_rate::{Metered, Moved};
use super::state::DbInner;
use crate::compaction::job::CompactionJob;
use siltstone_base::executor::{Budget, Job, Progress};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};

/// Rank of what the subcompactions of one compaction share: taken by a job that holds nothing.
const RANK: Rank = Rank(810);

/// What the subcompactions of one compaction share.
struct Shared {
    db: Arc<DbInner>,
    family: Arc<Family>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// For the last one.
    compacting: Option<Box<Compacting>>,
    /// Of those that have ended, in the order of their keys.
    ended: Vec<Option<CompactionJob>>,
    running: usize,
    /// Entries that all have read.
    entries: u64,
    /// The first error.
    error: Option<Error>,
}

/// One of them.
struct Subcompaction {
    shared: Arc<Shared>,
    /// Which, in the order of keys.
    index: usize,
    /// Let go at the end.
    running: Option<CompactionJob>,
    metered: Metered,
    /// Entries read that the others know of.
    entries: u64,
    /// Set when all others have ended.
    compacting: Option<Box<Compacting>>,
}

/// Has `jobs`, ascending by their ranges of keys, work on a compaction. They end it.
pub(super) fn share_out(compacting: Box<Compacting>, jobs: Vec<(CompactionJob, Metered)>) {
    let (db, family) = (Arc::clone(&compacting.db), Arc::clone(&compacting.family));
    let priority = compacting.priority();
    let inner = Inner {
        compacting: Some(compacting),
        ended: jobs.iter().map(|_| None).collect(),
        running: jobs.len(),
        entries: 0,
        error: None,
    };
    let executor = Arc::clone(&db.executor);
    let shared = Arc::new(Shared { db, family, inner: Mutex::new(RANK, inner) });
    for (index, (job, metered)) in jobs.into_iter().enumerate() {
        let shared = Arc::clone(&shared);
        let running = Some(job);
        let job = Subcompaction { shared, index, running, metered, entries: 0, compacting: None };
        executor.submit(priority, Box::new(job));
    }
}

impl Shared {
    /// Fails if what is read is of no use any more.
    fn check_wanted(&self) -> Result<()> {
        Compacting::check_wanted(&self.db, &self.family)?;
        match self.inner.lock().error {
            Some(_) => Err(Error::new(ErrorKind::Aborted, "another subcompaction has failed")),
            None => Ok(()),
        }
    }

    /// Takes note that one of them has read `entries` more, of `all` that the inputs have.
    fn reached(&self, entries: u64, all: u64) {
        let inner = &mut *self.inner.lock();
        inner.entries += entries;
        if let Some(compacting) = &mut inner.compacting {
            compacting.reached(inner.entries, all);
        }
    }

    /// One has ended. The last one takes the compaction over, with what all have made of it, or the first error.
    fn ended(
        &self,
        index: usize,
        job: Option<CompactionJob>,
        outcome: Result<()>,
    ) -> Option<(Box<Compacting>, Vec<CompactionJob>, Result<()>)> {
        let mut inner = self.inner.lock();
        if let Some(slot) = inner.ended.get_mut(index) {
            *slot = job;
        }
        if let Err(error) = outcome {
            inner.error.get_or_insert(error);
        }
        inner.running -= 1;
        if inner.running > 0 {
            return None;
        }
        let compacting = inner.compacting.take()?;
        let jobs = std::mem::take(&mut inner.ended).into_iter().flatten().collect();
        Some((compacting, jobs, inner.error.take().map_or(Ok(()), Err)))
    }
}

impl Subcompaction {
    fn try_step(&mut self, budget: &mut Budget<'_>) -> Result<Progress> {
        let shared = &self.shared;
        shared.check_wanted()?;
        if let Some(wait) = shared.db.io_rate.wait(&mut self.metered) {
            return Ok(Progress::After(wait));
        }
        if shared.db.is_flush_urgent() {
            return Ok(Progress::After(FLUSH_HEADSTART));
        }
        let Some(running) = &mut self.running else { return Ok(Progress::Done) };
        let is_done = running.step(budget)?;
        let (entries, all) = running.progress();
        shared.reached(entries.saturating_sub(self.entries), all);
        self.entries = entries;
        let moved = Moved { read: running.bytes_read(), written: running.bytes_written() };
        let wait = shared.db.meter(&mut self.metered, moved);
        if is_done {
            return Ok(Progress::Done);
        }
        Ok(wait.map_or(Progress::More, Progress::After))
    }

    fn end(&mut self, outcome: Result<()>, budget: &Budget<'_>) -> Progress {
        let Some((compacting, jobs, outcome)) = self.shared.ended(self.index, self.running.take(), outcome) else {
            return Progress::Done;
        };
        self.compacting.insert(compacting).end_shared(jobs, outcome, budget)
    }
}

impl Job for Subcompaction {
    fn name(&self) -> &'static str {
        "subcompaction"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        if let Some(compacting) = &mut self.compacting {
            return compacting.clean_up(budget);
        }
        match self.try_step(budget) {
            Ok(Progress::Done) => self.end(Ok(()), budget),
            Ok(progress) => progress,
            Err(error) => self.end(Err(error), budget),
        }
    }

    fn poisoned(&mut self, message: &str) {
        match &mut self.compacting {
            Some(compacting) => compacting.poisoned(message),
            None => {
                self.shared.db.fail_poisoned(self.name(), message);
                let clock = Arc::clone(&self.shared.db.clock);
                let mut progress = self.end(Err(panicked()), &Budget::new(&*clock));
                while progress == Progress::More
                    && let Some(compacting) = &mut self.compacting
                {
                    progress = compacting.clean_up(&Budget::new(&*clock));
                }
            }
        }
    }
}
