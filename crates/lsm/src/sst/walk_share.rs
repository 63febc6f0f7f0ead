//! Which part of a walk's entries is in a table, for tables that read ahead.

use crate::file_meta::FileMeta;
use siltstone_base::sync::Arc;
use std::fmt;

/// Knows it of the tables of one sorted run.
pub(crate) trait Shares: fmt::Debug + Send + Sync {
    /// The part of all entries in the range of `file` that `file` is likely to have: above 0, at most 1.
    fn share_of(&self, file: &FileMeta) -> f64;
}

/// That of one table; asked for when there is something to read.
#[derive(Debug, Clone)]
pub(crate) struct WalkShare {
    shares: Arc<dyn Shares>,
    file: Arc<FileMeta>,
}

impl WalkShare {
    /// What `shares` says of `file`.
    pub(crate) fn new(shares: &Arc<dyn Shares>, file: &Arc<FileMeta>) -> Self {
        Self { shares: Arc::clone(shares), file: Arc::clone(file) }
    }

    /// The part, above 0 and at most 1.
    pub(crate) fn get(&self) -> f64 {
        self.shares.share_of(&self.file)
    }
}
