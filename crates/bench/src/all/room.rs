//! Whether the machine is large enough.

use super::{Cell, too_small};
use crate::{machine, memory_cgroup};
use siltstone_base::{ErrorKind, Result};
use std::path::Path;

/// What the machine has to give. `None`: it does not tell, and nothing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes that are free where the databases will be.
    pub disk_bytes: Option<u64>,
    /// Bytes of memory that are to be had.
    pub memory_bytes: Option<u64>,
}

impl Room {
    /// What there is, for databases in `dir`.
    pub(super) fn of(dir: &Path) -> Self {
        let disk_bytes = rustix::fs::statvfs(dir).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let memory_bytes = [machine::available_memory(), memory_cgroup::left()].into_iter().flatten().min();
        Self { disk_bytes, memory_bytes }
    }

    /// The same once so many bytes of the disk were given back.
    pub(super) fn with_freed(self, bytes: u64) -> Self {
        Self { disk_bytes: self.disk_bytes.map(|free| free.saturating_add(bytes)), ..self }
    }

    /// Refuses a cell that is too large.
    pub(super) fn check(&self, cell: &Cell) -> Result<()> {
        if let Some(there) = self.disk_bytes.filter(|there| *there < cell.disk_bytes) {
            return Err(too_small(ErrorKind::NoSpace, "disk", cell, cell.disk_bytes, there));
        }
        if let Some(there) = self.memory_bytes.filter(|there| *there < cell.memory_bytes) {
            return Err(too_small(ErrorKind::LimitExceeded, "memory", cell, cell.memory_bytes, there));
        }
        Ok(())
    }
}
