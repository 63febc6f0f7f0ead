//! Where the cached blocks of a table are, without asking the cache.
//!
//! A lookup in the cache is two waits for memory more than the block itself takes: the hash table's group and its entry. The
//! position of a block in the index is known anyhow, so an index keeps a weak reference under it. The cache alone decides
//! what stays; a reference whose block went is found dead and the cache is asked.
//!
//! Cost: 8 bytes a block. A weak reference keeps the header of what it names, so a block that goes takes it out of its slot.

use super::block::Block;
use super::warm_blocks::Warmth;
use siltstone_base::cache::Cacheable;
use siltstone_base::prefetch::prefetch;
use siltstone_base::sync::{Arc, ArcSwapWeak, Mutex, Rank, Weak};

/// Weak references to the data blocks that one index leads to, by their position in it.
///
/// Thread safety: every method may be called from any thread.
#[derive(Default)]
pub(crate) struct BlockSlots(Arc<[ArcSwapWeak<Block>]>);

/// The slot that a block is known by: the last one that was set to it.
#[derive(Debug)]
pub(super) struct HomeSlot(Mutex<Option<Home>>);

/// A slot is set under no lock, or under that of who opens a table.
const RANK: Rank = Rank(988);

#[derive(Debug)]
struct Home {
    slots: Weak<[ArcSwapWeak<Block>]>,
    index: usize,
    /// The address of the block. It is nobody else's before the slot lets go of it.
    block: usize,
}

impl Default for HomeSlot {
    fn default() -> Self {
        Self(Mutex::new(RANK, None))
    }
}

impl Drop for HomeSlot {
    fn drop(&mut self) {
        let Some(home) = self.0.get_mut().take() else { return };
        let Some(slots) = home.slots.upgrade() else { return };
        let Some(slot) = slots.get(home.index) else { return };
        let known = slot.load();
        if known.as_ptr().addr() == home.block {
            slot.compare_and_swap(&*known, Weak::new());
        }
    }
}

impl BlockSlots {
    /// `len` slots without a block.
    pub(crate) fn new(len: usize) -> Self {
        Self((0..len).map(|_| ArcSwapWeak::new(Weak::new())).collect())
    }

    /// The block of slot `index`, if one is known and alive; notes that it was used. The caller counts the hit.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Arc<Block>> {
        let block = self.0.get(index)?.load().upgrade()?;
        block.uses().add();
        Some(block)
    }

    /// Whether slot `index` has a block. Nothing is used by it.
    pub(crate) fn has(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|slot| slot.load().strong_count() > 0)
    }

    /// What is known of the block of slot `index`, if there is one. Nothing is used by it.
    pub(super) fn warmth(&self, index: usize) -> Option<Warmth> {
        Some(self.0.get(index)?.load().upgrade()?.warmth())
    }

    /// The slots that have a block.
    pub(crate) fn taken_slots(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|index| self.has(*index))
    }

    /// Sets slot `index`.
    pub(crate) fn set(&self, index: usize, block: &Arc<Block>) {
        if let Some(slot) = self.0.get(index) {
            slot.store(Arc::downgrade(block));
            let home = Home { slots: Arc::downgrade(&self.0), index, block: Arc::as_ptr(block).addr() };
            *block.home().0.lock() = Some(home);
        }
    }

    /// How many slots name a block, alive or not.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.0.iter().filter(|slot| !slot.load().ptr_eq(&Weak::new())).count()
    }

    /// Asks for the memory of slot `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        if let Some(slot) = self.0.get(index) {
            prefetch(std::ptr::from_ref(slot));
        }
    }

    /// Asks for the memory of the block's header, which the slot names.
    #[inline]
    pub(crate) fn prefetch_block(&self, index: usize) {
        if let Some(slot) = self.0.get(index) {
            // The counts lie before the block.
            prefetch(slot.load().as_ptr().cast::<u64>().wrapping_sub(2));
        }
    }

    /// The bytes of memory that the slots take.
    pub(crate) fn memory_usage(&self) -> usize {
        self.0.len() * size_of::<ArcSwapWeak<Block>>()
    }
}

impl std::fmt::Debug for BlockSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockSlots").field("len", &self.0.len()).finish()
    }
}
