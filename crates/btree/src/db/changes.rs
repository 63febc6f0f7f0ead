//! The change buffer within a database: who merges what waits, and when.
//!
//! Whoever needs a leaf has what waits for it merged first: a reader takes the lock of writers for that, a writer has it already. A job merges in the background when the buffer is
//! nearly full, and when nobody writes: it reads the pages without the lock of writers, and merges with it. A writer who finds the buffer full merges some himself before his group begins.

use super::state::State;
use super::steps::WeakState;
use super::writers::Writer;
use crate::change_buffer::ChangeBuffer;
use crate::event::{Event, MergeCause};
use crate::mtr::Close;
use crate::page::PageId;
use crate::space::{LeafState, LeafStates};
use crate::tree::{EntryOp, Gate, Tree};
use siltstone_base::executor::{Budget, Job, Priority, Progress};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::sync::{Arc, OnceLock, Weak};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// After a round that failed, or found no room in the redo log; and between two looks whether somebody writes.
const RETRY: Duration = Duration::from_millis(10);

/// Areas that a writer merges before his group, while the buffer is full.
const AREAS_OF_A_WRITER: usize = 2;

/// The change buffer as trees see it.
#[derive(Debug)]
pub(super) struct ChangesGate {
    pub(super) changes: Arc<ChangeBuffer>,
    state: OnceLock<Weak<State>>,
}

/// What the job that merges remembers.
#[derive(Debug, Default)]
pub(super) struct Merging {
    is_running: AtomicBool,
    /// Whether the buffer was full at the last look.
    is_full: AtomicBool,
    /// Where the redo log ended when the job looked last.
    end: AtomicU64,
}

impl ChangesGate {
    pub(super) fn new(changes: Arc<ChangeBuffer>) -> Self {
        Self { changes, state: OnceLock::new() }
    }

    /// Says whose gate it is. Before that nothing may be merged.
    pub(super) fn attach(&self, state: &Arc<State>) {
        let _ = self.state.set(Arc::downgrade(state));
    }
}

impl Gate for ChangesGate {
    fn keep(&self, tree: &Tree, leaf: u32, key: &[u8], op: EntryOp) -> Result<bool> {
        match tree.states() {
            Some(states) if states.damage().is_some() => states.damage().cloned().map_or(Ok(false), Err),
            Some(states) => self.changes.keep(states, tree.page(leaf), key, op),
            None => Ok(false),
        }
    }

    fn take_back(&self, tree: &Tree, leaf: u32, key: &[u8], op: EntryOp) -> Result<bool> {
        match tree.states() {
            Some(states) if states.damage().is_none() => self.changes.take_back(states, tree.page(leaf), key, op),
            _ => Ok(false),
        }
    }

    fn may_keep(&self, state: LeafState) -> bool {
        self.changes.may_keep(state)
    }

    fn merge(&self, tree: &Tree, leaf: u32) -> Result<()> {
        let state = self.state.get().and_then(Weak::upgrade);
        let state = state.ok_or_else(|| Error::new(ErrorKind::Aborted, "the database is not open"))?;
        if state.writer.is_mine() {
            return state.merge_leaf(tree, leaf);
        }
        let _writer = state.lock_for_merging()?;
        state.merge_leaf(tree, leaf)
    }
}

impl State {
    /// Bytes of the redo log that merging what waits for a leaf may need.
    fn merge_bytes(&self) -> u64 {
        8 * self.pool.page_len() as u64
    }

    fn lock_for_merging(self: &Arc<Self>) -> Result<Writer<'_>> {
        self.lock_for(self.merge_bytes())
    }

    /// Merges what waits for a leaf, within the group that is open or as one of its own. For who holds the lock of writers.
    fn merge_leaf(&self, tree: &Tree, leaf: u32) -> Result<()> {
        if self.tree_of(tree.space()).is_none() {
            return Err(Error::new(ErrorKind::NotFound, "the tree was dropped"));
        }
        let Some(states) = tree.states().filter(|states| states.is_pending(leaf)) else { return Ok(()) };
        if let Some(error) = states.damage() {
            return Err(error.clone());
        }
        let close = if self.redo.has_open_group() { Close::Open } else { Close::Group };
        let merged = self.changes.merge(tree.page(leaf), close)?;
        if let (Some(key), Close::Group) = (merged.underfull, close) {
            // That it can't be done now is no error: the tree is as good as before.
            let _ = tree.merge_at(&key, Close::Group);
        }
        Ok(())
    }

    /// Merges what waits for some pages, or discards it. Returns how many pages that were. For who holds the lock of writers, with no group open.
    fn merge_pages(&self, pages: &[PageId], cause: MergeCause) -> Result<usize> {
        let merged = self.merge_each(pages)?;
        if merged > 0 {
            self.events.note(|| Event::ChangesMerged { cause, pages: merged as u64 });
        }
        if !self.changes.is_full() {
            self.merging.is_full.store(false, Ordering::Relaxed);
        }
        Ok(merged)
    }

    /// What can't be merged keeps what lies behind it waiting no longer: the first error is returned at the end.
    fn merge_each(&self, pages: &[PageId]) -> Result<usize> {
        let (mut merged, mut failed) = (0, None);
        for page in pages {
            if !self.redo.has_room(self.merge_bytes()) {
                break;
            }
            match self.merge_page(*page) {
                Ok(()) => merged += 1,
                Err(error) => {
                    self.health.check()?;
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(merged), Err)
    }

    fn merge_page(&self, page: PageId) -> Result<()> {
        match self.tree_of(page.space) {
            Some(open) if open.tree().space() == page.space => {
                let is_pending = |states: &LeafStates| states.is_pending(page.number);
                if !open.tree().states().is_some_and(is_pending) && self.changes.has(page)? {
                    // Never to be merged, and met again and again.
                    return Err(self.changes.damaged("entries wait for a leaf whose bit does not say so"));
                }
                self.merge_leaf(open.tree(), page.number)
            }
            _ => self.changes.discard(page, Close::Group).map(drop),
        }
    }

    /// Makes the change buffer shorter if it is full. For who holds the lock of writers, with no group open.
    #[inline]
    pub(super) fn contract_changes(&self) {
        // One that may have no pages is full all the time, of nothing.
        if self.changes.is_full() && self.changes.lens().0 > 0 {
            self.contract_some();
        }
    }

    #[cold]
    fn contract_some(&self) {
        if !self.merging.is_full.swap(true, Ordering::Relaxed) {
            let (pages, max_pages) = self.changes.lens();
            self.events.note(|| Event::ChangeBufferFull { pages, max_pages });
        }
        for _ in 0..AREAS_OF_A_WRITER {
            // A failure is no error of this writer: while the buffer is full, pages are read.
            let merged = self.changes.next_area().and_then(|pages| self.merge_pages(&pages, MergeCause::Full));
            if !matches!(merged, Ok(1..)) || !self.changes.is_full() {
                return;
            }
        }
    }

    /// Merges everything that waits, also behind what can't be merged: the first error is returned at the end.
    pub(super) fn merge_all(self: &Arc<Self>) -> Result<()> {
        let mut failed = BTreeMap::new();
        loop {
            let _writer = self.lock_for_merging()?;
            let pages = self.changes.next_area()?;
            let Some(first) = pages.first().filter(|first| !failed.contains_key(*first)) else {
                return failed.into_values().next().map_or(Ok(()), Err);
            };
            if let Err(error) = self.merge_pages(&pages, MergeCause::Manual) {
                self.health.check()?;
                failed.insert(*first, error);
            }
        }
    }

    /// Starts the job that merges, if the buffer is nearly full.
    #[inline]
    pub(super) fn wake_merging(self: &Arc<Self>) {
        if self.changes.is_crowded() {
            self.start_merging();
        }
    }

    /// Starts the job that merges, if something waits: nobody writes.
    pub(super) fn wake_idle_merging(self: &Arc<Self>) {
        if matches!(self.changes.is_empty(), Ok(false)) {
            self.merging.end.store(self.redo.end(), Ordering::Relaxed);
            self.start_merging();
        }
    }

    #[cold]
    fn start_merging(self: &Arc<Self>) {
        if self.check_open().is_ok() && !self.merging.is_running.swap(true, Ordering::AcqRel) {
            self.executor.submit(Priority::Low, Box::new(Merger(self.weak())));
        }
    }

    /// One step of the job that merges.
    fn merge_some(self: &Arc<Self>) -> Result<Progress> {
        let is_idle = self.merging.end.swap(self.redo.end(), Ordering::Relaxed) == self.redo.end();
        let is_due = self.changes.is_crowded();
        if !is_due && !is_idle {
            return Ok(Progress::Done);
        }
        let pages = self.changes.next_area()?;
        if pages.is_empty() {
            return Ok(Progress::Done);
        }
        // Reading keeps no writer waiting. What can't be read is told by the merge.
        pages.iter().filter(|page| self.spaces.is_open(page.space)).for_each(|page| drop(self.pool.shared(*page)));
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if !self.redo.has_room(self.merge_bytes()) {
            drop(writer);
            self.wake_cleaner();
            return Ok(Progress::After(RETRY));
        }
        let outcome = self.merge_pages(&pages, if is_due { MergeCause::Crowded } else { MergeCause::Idle });
        if is_idle {
            self.merging.end.store(self.redo.end(), Ordering::Relaxed);
        }
        drop(writer);
        self.wake_jobs();
        outcome?;
        Ok(if is_due { Progress::More } else { Progress::After(RETRY) })
    }

    fn stop_merging(self: &Arc<Self>) -> Progress {
        self.merging.is_running.store(false, Ordering::Release);
        // Whoever made the buffer longer just before found the job running.
        if self.health.error().is_none() && matches!(self.changes.is_empty(), Ok(false)) {
            self.wake_merging();
        }
        Progress::Done
    }
}

#[derive(Debug)]
struct Merger(WeakState);

impl Job for Merger {
    fn name(&self) -> &'static str {
        "change buffer merge"
    }

    fn step(&mut self, budget: &mut Budget<'_>) -> Progress {
        let Some(state) = self.0.begin_step() else { return Progress::Done };
        loop {
            if state.check_open().is_err() || state.health.error().is_some() {
                state.merging.is_running.store(false, Ordering::Release);
                return Progress::Done;
            }
            match state.merge_some() {
                Ok(Progress::More) if !budget.spend(64) => {}
                Ok(Progress::Done) => return state.stop_merging(),
                Ok(progress) => return progress,
                Err(error) => {
                    state.note_failure(self.name(), &error);
                    return Progress::After(10 * RETRY);
                }
            }
        }
    }

    fn poisoned(&mut self, message: &str) {
        super::background::poisoned(&self.0, "change buffer merge", message);
    }
}
