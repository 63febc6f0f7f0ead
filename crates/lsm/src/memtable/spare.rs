//! Blocks of memory that wait for the next memtables.
//!
//! The first write to a page of new memory is a fault, in which the operating system clears the page: of a huge page that takes milliseconds, for which the writer waits, and to give the memory back costs the flush as much again. So what a memtable had goes to the next ones, up to one write buffer.
//! A few blocks more are made and touched ahead by a [job](SpareJob), for memtables that grow beyond what was there before. All of them are given back when nothing is written any more.

use super::block::OwnedBlock;
use super::memory::MemtableMemory;
use siltstone_base::executor::{Budget, Job, Progress};
use siltstone_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use siltstone_base::sync::{Mutex, Rank, Weak};

/// So many blocks are made ahead, at most.
const MOST_AHEAD: usize = 4;

/// One part in so many of what may be kept is made ahead.
const AHEAD_PART: usize = 8;

/// One part in so many of what may be kept is for memtables that are small yet.
const EARLY_PART: usize = 2;

/// See the module's documentation.
pub(super) struct SpareBlocks {
    blocks: Mutex<Vec<OwnedBlock>>,
    /// How many may be kept.
    most: AtomicUsize,
    /// Whether a job is there that makes some.
    is_asked: AtomicBool,
}

impl SpareBlocks {
    /// The block that was kept last, and is likeliest to be in a cache of the processor.
    pub(super) fn take(&self) -> Option<OwnedBlock> {
        self.blocks.lock().pop()
    }

    /// Keeps a block, or returns it if there are enough.
    pub(super) fn keep(&self, block: OwnedBlock) -> Option<OwnedBlock> {
        let mut blocks = self.blocks.lock();
        if blocks.len() >= self.most.load(Ordering::Relaxed) {
            return Some(block);
        }
        blocks.push(block);
        None
    }

    /// Takes all of them away.
    pub(super) fn take_all(&self) -> Vec<OwnedBlock> {
        std::mem::take(&mut *self.blocks.lock())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.blocks.lock().len()
    }

    /// As many may be kept from now on, if that is more than before.
    pub(super) fn allow(&self, blocks: usize) {
        self.most.fetch_max(blocks, Ordering::Relaxed);
    }

    /// How many memtables may have one before they are that large: what they have of it in vain is at most half a write buffer.
    pub(super) fn most_early(&self) -> usize {
        self.most.load(Ordering::Relaxed) / EARLY_PART
    }

    /// Whether there are fewer than should be there ahead.
    pub(super) fn are_few(&self) -> bool {
        self.len() < (self.most.load(Ordering::Relaxed) / AHEAD_PART).min(MOST_AHEAD)
    }

    /// Whether the caller has to see to it that some are made: there are few, and nobody is at it.
    pub(super) fn ask(&self) -> bool {
        self.are_few() && !self.is_asked.swap(true, Ordering::AcqRel)
    }

    /// There are enough, or nobody is left to make them.
    fn stop_asking(&self) {
        self.is_asked.store(false, Ordering::Release);
    }
}

impl Default for SpareBlocks {
    fn default() -> Self {
        Self { blocks: Mutex::new(Rank(995), Vec::new()), most: AtomicUsize::new(0), is_asked: AtomicBool::new(false) }
    }
}

/// Makes blocks ahead, one in a step.
pub(crate) struct SpareJob {
    memory: Weak<MemtableMemory>,
}

impl SpareJob {
    /// For the memtables that are counted in `memory`.
    pub(super) fn new(memory: Weak<MemtableMemory>) -> Self {
        Self { memory }
    }
}

impl Job for SpareJob {
    fn name(&self) -> &'static str {
        "memory for memtables"
    }

    fn step(&mut self, _: &mut Budget<'_>) -> Progress {
        let Some(memory) = self.memory.upgrade() else { return Progress::Done };
        if memory.spares().are_few() {
            let before = memory.spares().len();
            let mut block = OwnedBlock::largest();
            block.touch();
            memory.add_spare(block);
            // Memory that is charged gives all of them back while memtables have next to nothing, and would again.
            return if memory.spares().len() > before { Progress::More } else { Progress::Done };
        }
        Progress::Done
    }

    fn poisoned(&mut self, _: &str) {
        // Writers make blocks themselves where there are none.
    }
}

impl Drop for SpareJob {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.upgrade() {
            memory.spares().stop_asking();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::arena::Arena;
    use crate::memtable::block::{ALIGNMENT, LEAST_MAPPED_LEN, MAX_BLOCK_LEN};
    use siltstone_base::clock::ManualClock;
    use siltstone_base::executor::{Executor, Priority, StepExecutor};
    use siltstone_base::sync::Arc;

    /// Memory for memtables of `buffer` blocks, and the executor of its jobs.
    fn memory(buffer: usize) -> (Arc<StepExecutor>, Arc<MemtableMemory>) {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0))));
        let jobs = Arc::clone(&executor);
        let memory = MemtableMemory::default().with_jobs(move |job| jobs.submit(Priority::High, Box::new(job)));
        memory.allow_spares(buffer * MAX_BLOCK_LEN);
        (executor, Arc::new(memory))
    }

    /// Fills `blocks` of the largest blocks, and returns the bytes of all that it took.
    fn fill(arena: &Arena, blocks: usize) -> usize {
        let piece = (MAX_BLOCK_LEN / 1024).max(ALIGNMENT);
        (0..blocks * MAX_BLOCK_LEN / piece).for_each(|_| _ = arena.allocate(piece));
        arena.block_bytes()
    }

    #[test]
    fn what_a_memtable_had_goes_to_the_next_ones_up_to_one_write_buffer() {
        let (_, memory) = memory(8);
        let first = Arena::new(Arc::clone(&memory));
        let taken = fill(&first, 12);
        assert_eq!((memory.bytes(), memory.spare_bytes()), (taken, 0));
        drop(first);
        assert_eq!((memory.bytes(), memory.spare_bytes()), (8 * MAX_BLOCK_LEN, 8 * MAX_BLOCK_LEN));
        let second = Arena::new(Arc::clone(&memory));
        let taken = fill(&second, 4);
        let (bytes, spare) = (memory.bytes(), memory.spare_bytes());
        assert!(spare < 8 * MAX_BLOCK_LEN && bytes == taken + spare, "{bytes} {taken} {spare}");
        memory.free_spares();
        assert_eq!((memory.bytes(), memory.spare_bytes()), (taken, 0));
    }

    /// Else a writer maps memory for each memtable, and waits for all other threads that map some or give some back.
    #[test]
    fn a_memtable_that_grows_takes_a_block_that_is_there_in_place_of_a_smaller_one_to_be_mapped() {
        let (_, memory) = memory(8);
        drop({
            let first = Arena::new(Arc::clone(&memory));
            fill(&first, 12);
            first
        });
        assert_eq!(memory.spare_bytes(), 8 * MAX_BLOCK_LEN);
        let second = Arena::new(Arc::clone(&memory));
        let small = second.allocate(ALIGNMENT);
        assert_eq!(memory.spare_bytes(), 8 * MAX_BLOCK_LEN, "a small one takes nothing: {small:p}");
        while second.block_bytes() < MAX_BLOCK_LEN {
            second.allocate(ALIGNMENT);
        }
        assert_eq!(memory.spare_bytes(), 7 * MAX_BLOCK_LEN);
        assert!(second.block_bytes() < MAX_BLOCK_LEN + LEAST_MAPPED_LEN, "{}", second.block_bytes());
        assert_eq!(memory.bytes(), second.block_bytes() + memory.spare_bytes());
        drop(second);
        assert_eq!((memory.bytes(), memory.spare_bytes()), (8 * MAX_BLOCK_LEN, 8 * MAX_BLOCK_LEN));
    }

    /// Else each of a thousand families that are hardly written takes 2 MiB, which no limit counts.
    #[test]
    fn memtables_that_stay_small_take_no_more_than_half_a_write_buffer_in_vain() {
        let (_, memory) = memory(8);
        let small = || {
            let arena = Arena::new(Arc::clone(&memory));
            while arena.used_bytes() < 2 * LEAST_MAPPED_LEN {
                arena.allocate(ALIGNMENT);
            }
            arena
        };
        let is_early = |arena: &Arena| arena.block_bytes() >= MAX_BLOCK_LEN;
        let refill = || (0..8).for_each(|_| memory.add_spare(OwnedBlock::largest()));
        refill();
        let mut arenas: Vec<_> = (0..20).map(|_| small()).collect();
        assert_eq!(arenas.iter().filter(|arena| is_early(arena)).count(), 4);
        assert_eq!(memory.spare_bytes(), 4 * MAX_BLOCK_LEN);
        // When one has been flushed the next one may.
        arenas.remove(0);
        refill();
        assert!(is_early(&small()) && is_early(&small()));
        arenas.clear();
        memory.free_spares();
        assert_eq!(memory.bytes(), 0);
        // What was not there took nobody's place.
        drop([(); 8].map(|()| small()));
        refill();
        let arenas = [(); 5].map(|()| small());
        assert_eq!(arenas.iter().filter(|arena| is_early(arena)).count(), 4);
    }

    #[test]
    fn a_job_makes_blocks_ahead_of_memtables_that_grow() {
        let (executor, memory) = memory(16);
        let arena = Arena::new(Arc::clone(&memory));
        fill(&arena, 1);
        assert_eq!((executor.pending(), memory.spare_bytes()), (1, 0));
        assert_eq!(executor.run_until_idle(), 3);
        assert_eq!(memory.spare_bytes(), 2 * MAX_BLOCK_LEN);
        assert_eq!(memory.bytes(), arena.block_bytes() + memory.spare_bytes());
        // One job at a time, and the next one when a block was taken.
        fill(&arena, 3);
        assert_eq!(executor.pending(), 1);
        // What is abandoned keeps nobody from asking again.
        executor.abandon_all();
        fill(&arena, 1);
        assert_eq!(executor.pending(), 1);
        drop(arena);
        drop(memory);
        assert_eq!(executor.run_until_idle(), 1);
    }

    /// Else a thread makes blocks and gives them back for as long as the database is open.
    #[test]
    fn blocks_that_go_back_at_once_are_not_made_again_and_again() {
        let executor = Arc::new(StepExecutor::new(Arc::new(ManualClock::new(0))));
        let jobs = Arc::clone(&executor);
        let memory = MemtableMemory::charging(0, |_, _| {});
        let memory = Arc::new(memory.with_jobs(move |job| jobs.submit(Priority::High, Box::new(job))));
        memory.allow_spares(64 * MAX_BLOCK_LEN);
        // A memtable asks for some, and is flushed before they are made.
        let arena = Arena::new(Arc::clone(&memory));
        fill(&arena, 1);
        drop(arena);
        assert_eq!(executor.pending(), 1);
        assert_eq!(executor.run_until_idle(), 1);
        assert_eq!((memory.bytes(), memory.spare_bytes()), (0, 0));
    }

    #[test]
    fn memory_that_is_charged_goes_back_when_memtables_are_empty() {
        let charged = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&charged);
        let memory = MemtableMemory::charging(100, move |_, now| told.store(now, Ordering::SeqCst));
        let memory = Arc::new(memory);
        memory.allow_spares(16 * MAX_BLOCK_LEN);
        let (first, second) = (Arena::new(Arc::clone(&memory)), Arena::new(Arc::clone(&memory)));
        let taken = fill(&first, 8) + fill(&second, 8);
        let job = memory.job();
        assert_eq!(charged.load(Ordering::SeqCst), taken + 100);
        drop((first, second));
        // As long as a job works, the next memtable is expected.
        assert!(memory.spare_bytes() >= 12 * MAX_BLOCK_LEN, "{}", memory.spare_bytes());
        assert_eq!(charged.load(Ordering::SeqCst), taken + 100);
        drop(job);
        assert_eq!((memory.bytes(), memory.spare_bytes(), charged.load(Ordering::SeqCst)), (0, 0, 0));
    }
}
