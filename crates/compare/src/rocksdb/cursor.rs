//! A cursor that owns its database handle.

use super::NAME;
use crate::error::foreign;
use rocksdb::{DB, DBRawIterator};
use self_cell::self_cell;
use siltstone_base::Result;
use siltstone_base::engine::KvCursor;
use siltstone_base::sync::Arc;

self_cell!(
    struct OwnedIterator {
        owner: Arc<DB>,

        #[not_covariant]
        dependent: DBRawIterator,
    }
);

/// A cursor over one moment of the database.
pub(super) struct RocksdbCursor(OwnedIterator);

impl RocksdbCursor {
    pub(super) fn new(db: Arc<DB>) -> Self {
        Self(OwnedIterator::new(db, |db| db.raw_iterator()))
    }

    #[inline]
    fn moved(&mut self, change: impl FnOnce(&mut DBRawIterator<'_>)) -> Result<bool> {
        self.0.with_dependent_mut(|_, iterator| {
            change(iterator);
            if iterator.valid() {
                return Ok(true);
            }
            iterator.status().map(|()| false).map_err(|error| foreign(NAME, "iterate", error))
        })
    }
}

impl KvCursor for RocksdbCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.moved(|iterator| iterator.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.moved(|iterator| iterator.seek_to_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.moved(|iterator| iterator.seek(key))
    }

    fn next(&mut self) -> Result<bool> {
        self.moved(|iterator| iterator.next())
    }

    fn prev(&mut self) -> Result<bool> {
        self.moved(|iterator| iterator.prev())
    }

    fn key(&self) -> &[u8] {
        self.0.with_dependent(|_, iterator| iterator.key().unwrap_or_default())
    }

    fn value(&self) -> &[u8] {
        self.0.with_dependent(|_, iterator| iterator.value().unwrap_or_default())
    }
}
