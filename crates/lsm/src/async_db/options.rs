//! Options of a database that tasks use.

use siltstone_base::{Error, Result};

/// More threads would not make a device faster.
const MAX_THREADS: usize = 256;

/// The least that may wait to be written: a small batch.
const MIN_QUEUED_BYTES: usize = 1 << 10;

/// The least that a scan reads at once.
const MIN_SCAN_BYTES: usize = 1 << 10;

siltstone_base::define_options! {
    /// How tasks use a database. They are not in the OPTIONS file: they hold for one handle.
    AsyncDbOptions {
        /// Threads that do what tasks must not wait for on their own: reads that memory does not answer, flushes, and whatever is [run](crate::AsyncDb::run). 1 to 256; two more
        /// are for writes.
        io_threads: usize = 4,
        /// Bytes of write batches that may wait to be written, and 256 more for each batch, 1 KiB to 4 GiB; as many again of low priority. Tasks that come with more wait before they stand in line; a batch larger than this goes alone.
        max_queued_bytes: usize = 64 << 20,
        /// Bytes of keys and values that a [scan](crate::AsyncDb::scan) reads at once, 1 KiB to 1 GiB; its first reads are smaller. A row that is larger comes alone.
        scan_batch_bytes: usize = 64 << 10,
    }
}

impl AsyncDbOptions {
    /// Checks every option against its bounds.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the option.
    pub fn validate(&self) -> Result<()> {
        within("io_threads", self.io_threads, 1, MAX_THREADS)?;
        within("max_queued_bytes", self.max_queued_bytes, MIN_QUEUED_BYTES, u32::MAX as usize)?;
        within("scan_batch_bytes", self.scan_batch_bytes, MIN_SCAN_BYTES, 1 << 30)
    }
}

fn within(option: &str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("{option}: {value} is not within {least} and {most}")))
}
