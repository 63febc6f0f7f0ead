//! Which part of a walk's entries each of its tables has.

use crate::file_meta::FileMeta;
use crate::sst::WalkShare;
use siltstone_base::sync::Arc;
use std::fmt;

/// Knows it of all tables.
pub(crate) trait Shares: fmt::Debug + Send + Sync {
    /// The part of all entries in the range of `file`, a table of `level`, that it is likely to have: above 0, at most 1.
    fn share_of(&self, level: usize, file: &FileMeta) -> f64;
}

/// Those of the tables of one level.
#[derive(Debug, Clone)]
pub(crate) struct LevelShares {
    shares: Arc<dyn Shares>,
    level: usize,
}

impl LevelShares {
    /// What `shares` says of the tables of `level`.
    pub(crate) fn new(shares: &Arc<dyn Shares>, level: usize) -> Self {
        Self { shares: Arc::clone(shares), level }
    }

    /// That of a table of the level.
    pub(crate) fn of(&self, file: &Arc<FileMeta>) -> Box<dyn WalkShare> {
        Box::new(TableShare { shares: self.clone(), file: Arc::clone(file) })
    }
}

#[derive(Debug)]
struct TableShare {
    shares: LevelShares,
    file: Arc<FileMeta>,
}

impl WalkShare for TableShare {
    fn get(&self) -> f64 {
        self.shares.shares.share_of(self.shares.level, &self.file)
    }
}
