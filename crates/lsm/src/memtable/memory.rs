//! What the memtables of a database take, those included that only readers and jobs still hold, and what its jobs need beside them.

use super::block::{MAX_BLOCK_LEN, OwnedBlock};
use super::spare::{SpareBlocks, SpareJob};
use siltstone_base::sync::Arc;
use siltstone_base::sync::CachePadded;
use siltstone_base::sync::atomic::{AtomicUsize, Ordering};
use std::fmt;

/// What is charged falls once memtables take one part in so many of it: not with each flush, which the next memtable follows.
const EMPTY_PART: usize = 16;

/// Is told what is charged: how many bytes before, and how many now.
type Charge = Box<dyn Fn(usize, usize) + Send + Sync>;

/// Has a job run.
type Submit = Box<dyn Fn(SpareJob) + Send + Sync>;

/// Somebody else makes room.
struct Charged {
    /// For so many bytes at the moment.
    bytes: AtomicUsize,
    /// So many of them for jobs, while any works.
    of_jobs: usize,
    charge: Charge,
}

/// Bytes of the blocks of memory of all memtables that were made in it, until the last of each has gone back, and of their filters. Some blocks wait for the next memtables.
///
/// Thread safety: every method may be called from any thread.
#[derive(Default)]
pub(crate) struct MemtableMemory {
    bytes: CachePadded<AtomicUsize>,
    jobs: AtomicUsize,
    charged: Option<Charged>,
    spares: SpareBlocks,
    /// Memtables that took a block of the largest size before they were that large.
    early: AtomicUsize,
    submit: Option<Submit>,
}

impl MemtableMemory {
    /// The same, for which somebody else makes room, and for `of_jobs` bytes while flushes or compactions work. `charge` is told when that is more than it ever was since memtables were last empty,
    /// and when they are empty, more or less, and no job works: who makes room has much to do, and would do it again with each memtable. Calls may come in another order than what they tell.
    pub(crate) fn charging(of_jobs: usize, charge: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        let charged = Charged { bytes: AtomicUsize::new(0), of_jobs, charge: Box::new(charge) };
        Self { charged: Some(charged), ..Self::default() }
    }

    /// The same, with blocks that are made ahead by jobs, which `submit` has run.
    pub(crate) fn with_jobs(mut self, submit: impl Fn(SpareJob) + Send + Sync + 'static) -> Self {
        self.submit = Some(Box::new(submit));
        self
    }

    /// Bytes of all of them, and of those that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the blocks that wait for the next memtables.
    pub(crate) fn spare_bytes(&self) -> usize {
        self.spares.len() * MAX_BLOCK_LEN
    }

    /// Gives back what waits for the next memtables: nothing is written any more, for now.
    pub(crate) fn free_spares(&self) {
        for block in self.spares.take_all() {
            drop(block);
            self.gave_back(MAX_BLOCK_LEN);
        }
    }

    /// As much as a memtable of so many bytes has may wait for the next ones.
    pub(super) fn allow_spares(&self, write_buffer_size: usize) {
        self.spares.allow(write_buffer_size / MAX_BLOCK_LEN);
    }

    /// A block of the largest size, which is counted: one that waited, or a new one.
    pub(super) fn largest_block(self: &Arc<Self>) -> OwnedBlock {
        self.spare_block().unwrap_or_else(|| {
            self.took(MAX_BLOCK_LEN);
            OwnedBlock::largest()
        })
    }

    /// A block of the largest size for a memtable that is small yet, if one waits and not too many such memtables have one. Its owner says when it [has ended](Self::early_ended).
    pub(super) fn early_block(self: &Arc<Self>) -> Option<OwnedBlock> {
        let most = self.spares.most_early();
        let one_more = |early: usize| (early < most).then_some(early + 1);
        self.early.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).ok()?;
        let block = self.spare_block();
        if block.is_none() {
            self.early_ended();
        }
        block
    }

    /// A memtable that took a block early is no more.
    pub(super) fn early_ended(&self) {
        self.early.fetch_sub(1, Ordering::AcqRel);
    }

    /// A block that waited, which is counted already. If there are few, more are made.
    fn spare_block(self: &Arc<Self>) -> Option<OwnedBlock> {
        let spare = self.spares.take();
        if let Some(submit) = &self.submit
            && self.spares.ask()
        {
            submit(SpareJob::new(Arc::downgrade(self)));
        }
        spare
    }

    /// A block of `len` bytes with its head is needed no more by who had it.
    pub(super) fn take_back(&self, block: OwnedBlock, len: usize) {
        let rest = if block.is_largest() { self.spares.keep(block) } else { Some(block) };
        match rest {
            Some(block) => {
                drop(block);
                self.gave_back(len);
            }
            None => self.settle(),
        }
    }

    /// A block was made ahead.
    pub(super) fn add_spare(&self, block: OwnedBlock) {
        self.took(MAX_BLOCK_LEN);
        self.take_back(block, MAX_BLOCK_LEN);
    }

    /// What waits for the next memtables.
    pub(super) fn spares(&self) -> &SpareBlocks {
        &self.spares
    }

    /// A memtable took a block of so many bytes.
    pub(super) fn took(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.settle();
    }

    /// A block has gone back.
    pub(super) fn gave_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.settle();
    }

    /// A job begins to read or to build tables. Make room before it has memory; it takes as long as room takes to be made, so hold no lock.
    pub(crate) fn job(self: &Arc<Self>) -> JobRoom {
        self.jobs.fetch_add(1, Ordering::SeqCst);
        self.settle();
        JobRoom { memory: Arc::clone(self) }
    }

    /// Charges what is wanted now, if that is due. Whoever changes what is wanted calls it afterwards, and it looks again after each charge: so nobody's change is missed by all.
    fn settle(&self) {
        let Some(Charged { bytes: charged, of_jobs, charge }) = &self.charged else { return };
        loop {
            let before = charged.load(Ordering::SeqCst);
            let memtables = self.bytes.load(Ordering::SeqCst);
            let works = self.jobs.load(Ordering::SeqCst) > 0;
            let now = if works { memtables.saturating_add(*of_jobs) } else { memtables };
            let spare = self.spare_bytes();
            let is_empty = !works && memtables.saturating_sub(spare) <= before / EMPTY_PART;
            if is_empty && spare > 0 {
                // Each that goes settles again.
                return self.free_spares();
            }
            if now <= before && !(is_empty && now < before) {
                return;
            }
            if charged.compare_exchange(before, now, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                charge(before, now);
            }
        }
    }
}

impl fmt::Debug for MemtableMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableMemory")
            .field("bytes", &self.bytes())
            .field("spare", &self.spare_bytes())
            .field("jobs", &self.jobs)
            .field("charged", &self.charged.as_ref().map(|charged| &charged.bytes))
            .finish()
    }
}

/// A job that works. Drop it behind what the job holds.
#[derive(Debug)]
pub(crate) struct JobRoom {
    memory: Arc<MemtableMemory>,
}

impl Drop for JobRoom {
    fn drop(&mut self) {
        self.memory.jobs.fetch_sub(1, Ordering::SeqCst);
        self.memory.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::sync::{Mutex, Rank};

    /// What was charged, before and after.
    type Told = Arc<Mutex<Vec<(usize, usize)>>>;

    /// What is told, and the memory that tells it.
    fn told(of_jobs: usize) -> (Told, Arc<MemtableMemory>) {
        let told = Arc::new(Mutex::new(Rank(1), Vec::new()));
        let calls = Arc::clone(&told);
        (told, Arc::new(MemtableMemory::charging(of_jobs, move |before, now| calls.lock().push((before, now)))))
    }

    #[test]
    fn what_is_charged_rises_with_memtables_and_falls_once_they_are_empty() {
        let (told, memory) = told(50);
        (0..4).for_each(|_| memory.took(100));
        memory.gave_back(200);
        memory.took(100);
        memory.took(200);
        memory.gave_back(475);
        assert_eq!(memory.bytes(), 25);
        memory.gave_back(25);
        assert_eq!(*told.lock(), [(0, 100), (100, 200), (200, 300), (300, 400), (400, 500), (500, 25), (25, 0)]);
        let alone = MemtableMemory::default();
        alone.took(10);
        alone.gave_back(10);
        assert_eq!((alone.bytes(), alone.charged.is_none()), (0, true));
    }

    #[test]
    fn jobs_have_room_until_the_last_has_ended_and_memtables_are_empty() {
        let (told, memory) = told(50);
        let next = || std::mem::take(&mut *told.lock());
        let first = memory.job();
        let second = memory.job();
        memory.took(100);
        drop(first);
        assert_eq!(next(), [(0, 50), (50, 150)]);
        // What a flush gives back while a job works is not given away yet.
        memory.gave_back(100);
        memory.took(20);
        assert_eq!(next(), []);
        memory.gave_back(15);
        drop(second);
        assert_eq!(next(), [(150, 5)]);
        // Where memtables have something, the room stays for the next job.
        memory.took(95);
        drop(memory.job());
        assert_eq!(next(), [(5, 100), (100, 150)]);
        memory.took(40);
        drop(memory.job());
        assert_eq!(next(), [(150, 190)]);
        memory.gave_back(140);
        assert_eq!(next(), [(190, 0)]);
    }
}
