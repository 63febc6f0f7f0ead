//! Where slabs have their memory from, and where it goes.
//!
//! The operating system takes its time to map memory and to take it back: all threads of the process stop for it. Each pool has a slab of the least size for each class it ever had a buffer of, and
//! a process may open and close many databases, one after the other. So a few such mappings wait for the next slab, whatever pool it is of, with the memory that they have.

use super::pages::PageSet;
use crate::sync::{Mutex, Rank};
use memmap2::{MmapMut, MmapRaw};

/// Taken under the lock of a class.
const RANK: Rank = Rank(992);

/// Bytes of a mapping that may wait. Smaller ones are made as large: what nobody touches has no memory.
pub(super) const WAITING_BYTES: usize = 64 << 10;

/// So many wait at most: 4 MiB in a process.
const MOST_WAITING: usize = 64;

/// Maps so many bytes, zeroed; `None` if the operating system refuses.
pub(super) type Map = fn(usize) -> Option<MmapRaw>;

/// Where the slabs of all pools have their memory from.
pub(super) static SHARED: Source = Source::new(map, MOST_WAITING);

/// Mapped memory, all of whose bytes are initialised.
pub(super) struct Mapping {
    pub(super) memory: MmapRaw,
    /// Its pages that have memory.
    pub(super) resident: PageSet,
}

/// See the module's documentation.
pub(super) struct Source {
    map: Map,
    most_waiting: usize,
    waiting: Mutex<Vec<Mapping>>,
}

/// Memory from the operating system.
pub(super) fn map(len: usize) -> Option<MmapRaw> {
    MmapMut::map_anon(len).ok().map(MmapRaw::from)
}

impl Source {
    /// Of which so many mappings wait at most.
    pub(super) const fn new(map: Map, most_waiting: usize) -> Self {
        Self { map, most_waiting, waiting: Mutex::new(RANK, Vec::new()) }
    }

    /// At least `len` bytes that hold anything; `None` if the operating system refuses.
    pub(super) fn take(&self, len: usize) -> Option<Mapping> {
        if len <= WAITING_BYTES
            && let Some(mapping) = self.waiting.lock().pop()
        {
            return Some(mapping);
        }
        let memory = (self.map)(len.max(WAITING_BYTES))?;
        let resident = PageSet::none_of(memory.len().div_ceil(rustix::param::page_size()));
        Some(Mapping { memory, resident })
    }

    /// Bytes of memory of what waits.
    pub(super) fn waiting_bytes(&self) -> usize {
        let pages: usize = self.waiting.lock().iter().map(|mapping| mapping.resident.len()).sum();
        pages * rustix::param::page_size()
    }

    /// Takes memory back that nobody has a reference to any more.
    pub(super) fn give_back(&self, mapping: Mapping) {
        if mapping.memory.len() == WAITING_BYTES {
            let mut waiting = self.waiting.lock();
            if waiting.len() < self.most_waiting {
                return waiting.push(mapping);
            }
        }
        // The operating system takes its time: not under the lock.
        drop(mapping);
    }
}
