//! Where the time of one thread's operations goes, under the names of RocksDB's perf context.
//!
//! A place that takes time asks first whether the thread is timed: one look at a cell of the thread's own. Only if it is, the clock is asked.

use siltstone_base::clock::Clock;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

macro_rules! perf_times {
    ($( $(#[$meta:meta])* $variant:ident = $name:literal, )*) => {
        /// What an operation spends time on. Where one place is within another, its time is part of both.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum PerfTime {
            $( $(#[$meta])* $variant, )*
        }

        impl PerfTime {
            /// Every one, in the order in which they are printed.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The name under which it is printed.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )*
                }
            }
        }
    };
}

perf_times! {
    /// Gets: looking into the memtables.
    GetFromMemtable = "get_from_memtable_time",
    /// Gets: looking into the tables.
    GetFromOutputFiles = "get_from_output_files_time",
    /// Opening tables that were not open.
    FindTable = "find_table_nanos",
    /// Reading table files, for blocks or ahead of them.
    BlockRead = "block_read_time",
    /// Verifying checksums of blocks.
    BlockChecksum = "block_checksum_time",
    /// Decompressing blocks.
    BlockDecompress = "block_decompress_time",
    /// Coming by partitions of indexes that no cache has, one at a time.
    ReadIndexBlock = "read_index_block_nanos",
    /// Coming by partitions of filters that no cache has, one at a time.
    ReadFilterBlock = "read_filter_block_nanos",
    /// Reading values from blob files.
    BlobRead = "blob_read_time",
    /// Merge operators, in reads.
    MergeOperator = "merge_operator_time_nanos",
    /// Iterators: seeks forward within memtables and tables.
    SeekInternalSeek = "seek_internal_seek_time",
    /// Iterators: from there, or from one entry forward, to the next one that is seen.
    FindNextUserEntry = "find_next_user_entry_time",
    /// Writes: the queue, until another writer has written the batch or this one leads.
    WriteThreadWait = "write_thread_wait_nanos",
    /// Writes: being held back because background work is behind.
    WriteDelay = "write_delay_time",
    /// Writes: sealing full memtables.
    WriteSwitch = "write_scheduling_flushes_compactions_time",
    /// Writes: the WAL, syncs included.
    WriteWal = "write_wal_time",
    /// Writes: the memtables.
    WriteMemtable = "write_memtable_time",
}

const TIMES: usize = PerfTime::ALL.len();

/// What a timed thread has.
struct Timer {
    clock: Arc<dyn Clock>,
    /// How many contexts want it.
    users: usize,
    times: PerfTimes,
}

thread_local! {
    static IS_TIMED: Cell<bool> = const { Cell::new(false) };
    static TIMER: RefCell<Option<Timer>> = const { RefCell::new(None) };
}

/// Times the calling thread, by `clock` unless it is timed already. Ends with [`stop`].
pub(crate) fn start(clock: &Arc<dyn Clock>) {
    let _ = TIMER.try_with(|timer| {
        if let Ok(mut timer) = timer.try_borrow_mut() {
            let new = || Timer { clock: Arc::clone(clock), users: 0, times: PerfTimes::default() };
            timer.get_or_insert_with(new).users += 1;
            IS_TIMED.set(true);
        }
    });
}

/// Takes one [`start`] back.
pub(crate) fn stop() {
    let _ = TIMER.try_with(|cell| {
        if let Ok(mut timer) = cell.try_borrow_mut()
            && let Some(found) = timer.as_mut()
        {
            found.users = found.users.saturating_sub(1);
            if found.users == 0 {
                *timer = None;
                IS_TIMED.set(false);
            }
        }
    });
}

/// What the calling thread was timed for so far.
pub(super) fn so_far() -> PerfTimes {
    let read = |timer: &RefCell<Option<Timer>>| timer.try_borrow().ok()?.as_ref().map(|timer| timer.times);
    TIMER.try_with(read).ok().flatten().unwrap_or_default()
}

/// When something begins, in nanoseconds; `None` unless the thread is timed.
#[inline]
pub(crate) fn begin() -> Option<u64> {
    if IS_TIMED.get() { now() } else { None }
}

/// Counts the time of what began, if it was timed.
#[inline]
pub(crate) fn end(what: PerfTime, began: Option<u64>) {
    if let Some(began) = began {
        add(what, began);
    }
}

/// Does `work`, and counts its time if the thread is timed.
#[inline]
pub(crate) fn timed<T>(what: PerfTime, work: impl FnOnce() -> T) -> T {
    let began = begin();
    let outcome = work();
    end(what, began);
    outcome
}

#[cold]
fn now() -> Option<u64> {
    TIMER.try_with(|timer| Some(timer.try_borrow().ok()?.as_ref()?.clock.now_nanos())).ok().flatten()
}

#[cold]
fn add(what: PerfTime, began: u64) {
    let Some(now) = now() else { return };
    let _ = TIMER.try_with(|timer| {
        if let Ok(mut timer) = timer.try_borrow_mut()
            && let Some(timer) = timer.as_mut()
            && let Some(nanos) = timer.times.nanos.get_mut(what as usize)
        {
            *nanos = nanos.saturating_add(now.saturating_sub(began));
        }
    });
}

/// Where the time went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PerfTimes {
    nanos: [u64; TIMES],
}

impl Default for PerfTimes {
    fn default() -> Self {
        Self { nanos: [0; TIMES] }
    }
}

impl PerfTimes {
    /// The nanoseconds of one place.
    pub fn get(&self, what: PerfTime) -> u64 {
        self.nanos.get(what as usize).copied().unwrap_or(0)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (PerfTime, u64)> + '_ {
        PerfTime::ALL.iter().copied().zip(self.nanos)
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self { nanos: std::array::from_fn(|index| self.nanos[index].saturating_sub(earlier.nanos[index])) }
    }
}

impl fmt::Debug for PerfTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.iter().filter(|(_, nanos)| *nanos > 0);
        f.debug_map().entries(places.map(|(what, nanos)| (what.name(), nanos))).finish()
    }
}
