//! Tables outside of databases: written to be taken in by one, or looked at by themselves.
//!
//! All entries of such a table are stored with sequence number 0. A database that takes it in gives all of them one number, which is in the
//! MANIFEST; the file is not changed. See `docs/src/formats/sst.md`.

mod contents;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use contents::{ExternalTable, OpenContext};
pub use reader::{SstFileIter, SstFileReader};
pub use writer::{SstFileInfo, SstFileWriter};

use crate::options::DbOptions;
use siltstone_base::clock::{Clock, SystemClock};

/// Seconds since 1970, by the clock of `options`.
fn unix_seconds(options: &DbOptions) -> u64 {
    match &options.executor {
        Some(executor) => executor.clock().unix_seconds(),
        None => SystemClock::new().unix_seconds(),
    }
}
