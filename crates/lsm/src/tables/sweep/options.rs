//! Options of sweeps.

use siltstone_base::{Error, Result};

siltstone_base::define_options! {
    /// Options of the sweeps that remove stale entries of lazy tables in the background. They keep to the rate limiter behind everything else.
    SweepOptions {
        /// Sweeps without being asked. Otherwise only [`TableDb::sweep`](crate::TableDb::sweep) removes anything.
        in_background: bool = true,
        /// Where more than so many per cent of an index's entries may be stale, a sample is taken of it; if they are, all of it is gone through. At most 100. What flushes and
        /// compactions find is removed in any case. Beyond that share writers help, so that it stays below half as much again.
        begin_per_cent: u32 = 15,
        /// Fewer stale entries of an index than that are not worth going through it.
        least_stale: u64 = 1_024,
        /// What is stale is looked for in the rows first, with every version that is stored, and only then in the index. That is one read of all rows in their order, in place of reads of many.
        walk_rows: bool = true,
        /// Entries that are sorted by primary key, and then asked for, together. More need more memory and fewer reads. At least 1.
        step_entries: usize = 16 << 10,
        /// Memory for what flushes and compactions find, in bytes: what is found while it is full is left for going through the index.
        found_bytes: usize = 16 << 20,
    }
}

impl SweepOptions {
    pub(in super::super) fn check(&self) -> Result<()> {
        match () {
            () if self.begin_per_cent > 100 => Err(Error::invalid_argument("begin_per_cent: more than 100")),
            () if self.step_entries == 0 => Err(Error::invalid_argument("step_entries: none")),
            () => Ok(()),
        }
    }
}
