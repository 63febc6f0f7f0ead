//! Compactions that a caller asks for: a range, level by level, down to the last level that has any of it.

use super::background::Picked;
use super::column_family::Family;
use super::state::{DbInner, State};
use crate::compaction::{ManualRange, ManualStep, RunningMark};
use crate::options::{CompactRangeOptions, FlushOptions};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, Result};

/// Rank of one request: taken under the state lock.
const RANK: Rank = Rank(800);

/// A request for the compaction of a range: as many compactions as it takes, one at a time.
#[derive(Debug)]
pub(crate) struct ManualCompaction {
    family: Arc<Family>,
    /// Most subcompactions of each; 0: as many as the database says.
    max_subcompactions: usize,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    range: ManualRange,
    /// Whether one of its compactions runs.
    running: bool,
    /// Whether its next compaction had to wait for others when that was last asked.
    waits: bool,
    /// Set when all is done, or a compaction failed.
    outcome: Option<Result<()>>,
}

impl ManualCompaction {
    /// Whether it is one of the family `id`.
    pub(crate) fn is_of(&self, id: u32) -> bool {
        self.family.id == id
    }

    /// The most subcompactions of each of its compactions; 0: as many as the database says.
    pub(crate) fn max_subcompactions(&self) -> usize {
        self.max_subcompactions
    }

    /// Whether it waits for compactions of the family `id` that have some of its tables. Who could as well come later must not take more of them: by turns they would have some all the time.
    pub(crate) fn waits_for(&self, id: u32) -> bool {
        let progress = self.progress.lock();
        self.is_of(id) && progress.waits && progress.outcome.is_none()
    }

    /// One compaction of this request ended.
    pub(crate) fn step_done(&self, error: Option<&Error>) {
        let mut progress = self.progress.lock();
        progress.running = false;
        if let Some(error) = error {
            progress.outcome = Some(Err(error.clone()));
        }
    }

    fn outcome(&self) -> Option<Result<()>> {
        self.progress.lock().outcome.clone()
    }
}

impl DbInner {
    /// Compacts a range of a family.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_readable(family)?;
        self.flush(std::slice::from_ref(family), &FlushOptions::default())?;
        let request = self.ask_for_compaction(family, begin, end, options);
        let waited = self.wait(|| {
            request.outcome().is_some() || self.errors.is_failed() || self.is_closing() || family.is_dropped()
        });
        self.state.lock().manual.retain(|other| !Arc::ptr_eq(other, &request));
        waited?;
        match request.outcome() {
            Some(outcome) => outcome,
            None => self.check_writable().and_then(|()| self.check_readable(family)),
        }
    }

    /// Lets jobs compact a range of what is in tables. The request stands until somebody takes it out.
    pub(super) fn ask_for_compaction(
        self: &Arc<Self>,
        family: &Arc<Family>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Arc<ManualCompaction> {
        let (begin, end) = (begin.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        let mut state = self.state.lock();
        let asked_at = state.families.get(&family.id).map_or(RunningMark::default(), |one| one.running.mark());
        let range = ManualRange::new(begin, end, options.force_bottommost, asked_at);
        let progress = Progress { range, running: false, waits: false, outcome: None };
        let request = Arc::new(ManualCompaction {
            family: Arc::clone(family),
            max_subcompactions: options.max_subcompactions,
            progress: Mutex::new(RANK, progress),
        });
        state.manual.push_back(Arc::clone(&request));
        drop(state);
        self.schedule();
        request
    }

    /// The next compaction of the oldest request that can run one now.
    pub(crate) fn pick_manual(&self, state: &State) -> Option<Picked> {
        let mut finished = false;
        let mut found = None;
        for request in &state.manual {
            let Some(background) = state.families.get(&request.family.id) else { continue };
            let mut progress = request.progress.lock();
            if progress.running || progress.outcome.is_some() {
                continue;
            }
            let pinned = request.family.super_version.load_full();
            let next_number = self.file_numbers.next();
            let step = progress.range.next(&pinned.version, &pinned.options, &background.running, next_number);
            progress.waits = matches!(step, ManualStep::Wait);
            match step {
                ManualStep::Done => {
                    progress.outcome = Some(Ok(()));
                    finished = true;
                }
                ManualStep::Wait => {}
                ManualStep::Compact(compaction) => {
                    progress.running = true;
                    found = Some((Arc::clone(&request.family), *compaction, Some(Arc::clone(request))));
                    break;
                }
            }
        }
        if finished {
            self.changed.notify_all();
        }
        found
    }
}
