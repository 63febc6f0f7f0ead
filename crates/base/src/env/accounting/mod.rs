//! I/O accounting: what was read, written and synced, by file kind and priority.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use super::{FileKind, IoContext, IoPriority};
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};

const PRIORITIES: usize = IoPriority::ALL.len();
const CELLS: usize = FileKind::ALL.len() * PRIORITIES;

#[cfg(test)]
mod tests;

#[inline]
const fn cell(kind: FileKind, priority: IoPriority) -> usize {
    kind as usize * PRIORITIES + priority as usize
}

#[derive(Debug, Default)]
struct Cell {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    syncs: AtomicU64,
    sync_micros: AtomicU64,
}

/// The live counters of an environment. Any number of threads may record at the same time.
///
/// A failed operation is not counted. A direct file counts what passes the system call, padding included.
#[derive(Debug)]
pub struct IoStats {
    cells: [CachePadded<Cell>; CELLS],
}

impl IoStats {
    /// Counters at zero.
    pub fn new() -> Self {
        Self { cells: std::array::from_fn(|_| CachePadded::new(Cell::default())) }
    }

    #[inline]
    fn cell(&self, context: IoContext) -> &Cell {
        &self.cells[cell(context.kind, context.priority)]
    }

    /// Counts a read of `bytes`.
    #[inline]
    pub fn record_read(&self, context: IoContext, bytes: u64) {
        let cell = self.cell(context);
        cell.reads.fetch_add(1, Ordering::Relaxed);
        cell.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a write of `bytes`.
    #[inline]
    pub fn record_write(&self, context: IoContext, bytes: u64) {
        let cell = self.cell(context);
        cell.writes.fetch_add(1, Ordering::Relaxed);
        cell.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a sync that took `micros` microseconds.
    #[inline]
    pub fn record_sync(&self, context: IoContext, micros: u64) {
        let cell = self.cell(context);
        cell.syncs.fetch_add(1, Ordering::Relaxed);
        cell.sync_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Bytes read so far.
    #[inline]
    pub fn read_bytes(&self, context: IoContext) -> u64 {
        self.cell(context).read_bytes.load(Ordering::Relaxed)
    }

    /// All counters now. Each is exact; together they are not one instant.
    pub fn snapshot(&self) -> IoSnapshot {
        IoSnapshot {
            cells: std::array::from_fn(|index| {
                let cell = &self.cells[index];
                IoCounters {
                    reads: cell.reads.load(Ordering::Relaxed),
                    read_bytes: cell.read_bytes.load(Ordering::Relaxed),
                    writes: cell.writes.load(Ordering::Relaxed),
                    written_bytes: cell.written_bytes.load(Ordering::Relaxed),
                    syncs: cell.syncs.load(Ordering::Relaxed),
                    sync_micros: cell.sync_micros.load(Ordering::Relaxed),
                }
            }),
        }
    }
}

impl Default for IoStats {
    fn default() -> Self {
        Self::new()
    }
}

/// What was read, written and synced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Read operations.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write operations, appends among them.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Microseconds spent in syncs.
    pub sync_micros: u64,
}

impl Add for IoCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            written_bytes: self.written_bytes + other.written_bytes,
            syncs: self.syncs + other.syncs,
            sync_micros: self.sync_micros + other.sync_micros,
        }
    }
}

impl AddAssign for IoCounters {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for IoCounters {
    type Output = Self;

    /// What was counted between `earlier` and this; zero where `earlier` is greater.
    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            syncs: self.syncs.saturating_sub(earlier.syncs),
            sync_micros: self.sync_micros.saturating_sub(earlier.sync_micros),
        }
    }
}

impl Sum for IoCounters {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// The counters of an environment at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoSnapshot {
    cells: [IoCounters; CELLS],
}

impl IoSnapshot {
    /// The counters of files of `kind` at `priority`.
    pub const fn get(&self, kind: FileKind, priority: IoPriority) -> IoCounters {
        self.cells[cell(kind, priority)]
    }

    /// The counters of files of `kind`.
    pub fn of_kind(&self, kind: FileKind) -> IoCounters {
        IoPriority::ALL.iter().map(|&priority| self.get(kind, priority)).sum()
    }

    /// The counters at `priority`.
    pub fn of_priority(&self, priority: IoPriority) -> IoCounters {
        FileKind::ALL.iter().map(|&kind| self.get(kind, priority)).sum()
    }

    /// All of it.
    pub fn total(&self) -> IoCounters {
        self.cells.iter().copied().sum()
    }

    /// What was counted between `earlier` and this.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self { cells: std::array::from_fn(|index| self.cells[index] - earlier.cells[index]) }
    }
}

impl Default for IoSnapshot {
    /// Nothing counted.
    fn default() -> Self {
        Self { cells: [IoCounters::default(); CELLS] }
    }
}
