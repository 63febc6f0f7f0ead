//! How the latencies of workers become those of intervals.
//!
//! 1. Each worker records into a histogram that nobody else sees.
//! 2. When an interval ends, the sampler counts the [`Phase`] up.
//! 3. A worker that finds another phase after an operation puts its histogram on its [`Tray`], goes on with an empty one, and only then records the operation: it counts in the
//!    interval in which it was completed.
//! 4. At the end of the next interval the sampler clears the trays. Once all workers have left an interval, its percentiles are taken and its histogram is dropped.
//!
//! Operations cost what they did without intervals: each is recorded once, and the phase is the word that a worker reads anyway to learn whether the run is over. The word changes once an
//! interval, so every core has it in its cache. A worker pays for an interval with one lock, which is free but for the moment in which the sampler clears the tray, and with the exchange
//! of two histograms of some 35 KB, the second of which is not in its cache. Recorders for many threads, such as that of hdrhistogram, take an atomic addition for each operation instead.

use crate::{Latencies, LatencySummary};
use siltstone_base::Result;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::sync::{CachePadded, Mutex, Rank};
use std::collections::VecDeque;

/// The bit of a phase that is set once the run is over. The others are the number of the interval.
const OVER: u32 = 1 << 31;

/// Where a run is.
///
/// Thread safety: any thread may look; only the sampler's changes it. It orders nothing: what is handed over passes the lock of a tray.
#[derive(Debug, Default)]
pub(super) struct Phase(CachePadded<AtomicU32>);

/// What a phase was when somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment(u32);

impl Moment {
    /// The number of the interval, from 0.
    fn interval(self) -> u32 {
        self.0 & !OVER
    }

    /// Whether the run is over.
    pub(super) fn is_over(self) -> bool {
        self.0 & OVER != 0
    }
}

impl Phase {
    /// The first interval of a run.
    pub(super) fn start() -> Self {
        Self::default()
    }

    /// Where the run is.
    #[inline]
    pub(super) fn look(&self) -> Moment {
        Moment(self.0.load(Ordering::Relaxed))
    }

    /// Another interval begins.
    pub(super) fn begin_interval(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The run is over.
    pub(super) fn end_run(&self) {
        self.0.fetch_or(OVER, Ordering::Relaxed);
    }
}

/// Where one worker puts its latencies, and takes empty histograms from.
///
/// Thread safety: the worker and the sampler, each for a moment.
#[derive(Debug)]
pub(super) struct Tray(Mutex<OnTray>);

#[derive(Debug, Default)]
struct OnTray {
    /// Of the intervals before this one nothing more comes.
    reached: u32,
    /// With the numbers of their intervals, in rising order.
    full: Vec<(u32, Latencies)>,
    empty: Vec<Latencies>,
}

impl Tray {
    /// The tray of a worker that is in the first interval.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Rank(u16::MAX), OnTray::default()))
    }

    /// Takes what was recorded until `left`, and leaves an empty histogram in its place for what is recorded from `reached` on.
    pub(super) fn hand_over(&self, left: Moment, reached: Moment, latencies: &mut Latencies) {
        if left.interval() != reached.interval() {
            self.put(left.interval(), reached.interval(), latencies);
        }
    }

    /// Takes what a worker that is done has recorded since `left`.
    pub(super) fn hand_over_last(&self, left: Moment, latencies: &mut Latencies) {
        self.put(left.interval(), u32::MAX, latencies);
    }

    fn put(&self, interval: u32, reached: u32, latencies: &mut Latencies) {
        let mut tray = self.0.lock();
        tray.reached = reached;
        if latencies.is_empty() {
            return;
        }
        let empty = tray.empty.pop().unwrap_or_else(|| latencies.none_of_such());
        let full = std::mem::replace(latencies, empty);
        tray.full.push((interval, full));
    }

    /// What is on it, and before which interval nothing more comes.
    fn clear(&self) -> (u32, Vec<(u32, Latencies)>) {
        let mut tray = self.0.lock();
        (tray.reached, std::mem::take(&mut tray.full))
    }

    fn give_back(&self, mut latencies: Latencies) {
        latencies.clear();
        self.0.lock().empty.push(latencies);
    }
}

/// The latencies of all workers: of the whole run, and by interval. The sampler's.
#[derive(Debug)]
pub(super) struct Gathered<'a> {
    trays: &'a [CachePadded<Tray>],
    all: Latencies,
    /// Of the intervals that all workers have left, from the first on.
    ended: Vec<Option<LatencySummary>>,
    /// Of those after them, as far as there is anything: as many as the slowest worker is behind.
    open: VecDeque<Option<Latencies>>,
}

impl<'a> Gathered<'a> {
    /// Nothing yet.
    pub(super) fn new(trays: &'a [CachePadded<Tray>]) -> Result<Self> {
        Ok(Self { trays, all: Latencies::new()?, ended: Vec::new(), open: VecDeque::new() })
    }

    /// Clears the trays.
    pub(super) fn gather(&mut self) -> Result<()> {
        let mut left_by_all = u32::MAX;
        for tray in self.trays {
            let (reached, full) = tray.clear();
            left_by_all = left_by_all.min(reached);
            for (interval, latencies) in full {
                self.add(interval, &latencies)?;
                tray.give_back(latencies);
            }
        }
        self.end_before(left_by_all);
        Ok(())
    }

    fn add(&mut self, interval: u32, latencies: &Latencies) -> Result<()> {
        self.all.add(latencies)?;
        // Never less: an interval ends when nothing more of it comes.
        let position = (interval as usize).saturating_sub(self.ended.len());
        if self.open.len() <= position {
            self.open.resize_with(position + 1, || None);
        }
        match self.open.get_mut(position) {
            Some(Some(known)) => known.add(latencies),
            Some(nothing) => {
                *nothing = Some(latencies.clone());
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn end_before(&mut self, interval: u32) {
        while self.ended.len() < interval as usize {
            let Some(latencies) = self.open.pop_front() else { return };
            self.ended.push(latencies.and_then(|latencies| latencies.summary()));
        }
    }

    /// What all workers recorded, and the percentiles of each interval, from the first on; those at the end in which nothing was completed are missing. To be asked when all workers are done.
    pub(super) fn finish(mut self) -> Result<(Latencies, Vec<Option<LatencySummary>>)> {
        self.gather()?;
        Ok((self.all, self.ended))
    }
}
