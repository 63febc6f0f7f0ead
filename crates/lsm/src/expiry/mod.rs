//! Rows that expire: stamps of tables, the time that is believed, and what is kept of policies.
//!
//! What is expired is decided by an [`ExpiryPolicy`]; here is what the engine adds. Each table that is written has a [histogram](StampHistogram) of the stamps of
//! its rows among its properties, and the latest stamps of its data blocks, by which reads [pass by](ExpiredBlocks) those of expired rows.
//! The [room](siltstone_base::expiry::ExpiryRoom) of a database keeps the time and what its policies must not forget.

mod block_stamps;
mod collector;
mod expired_blocks;
mod histogram;
#[cfg(test)]
pub(crate) mod test_policy;
#[cfg(test)]
mod tests;

pub(crate) use block_stamps::BLOCK_STAMPS_PROPERTY;
#[cfg(feature = "testing")]
pub(crate) use block_stamps::BlockStamps;
pub(crate) use collector::StampCollector;
pub(crate) use expired_blocks::{ExpiredBlocks, Judged};
pub(crate) use histogram::StampHistogram;

use crate::file_names::FileName;
use crate::key::ValueType;
use crate::wide_columns::columns;
#[cfg(test)]
pub(crate) use histogram::HistogramBuilder;
use siltstone_base::env::Env;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::path::Path;

/// The property of a table that holds the histogram of its stamps.
pub(crate) const STAMPS_PROPERTY: &str = "siltstone.stamps";

/// What a policy judges of an entry: its value, or the default column of an entity. `None` for what is no row, or has its value elsewhere: that never expires in tables.
#[inline]
pub(crate) fn judged(kind: ValueType, stored: &[u8]) -> Option<&[u8]> {
    match kind {
        ValueType::Put => Some(stored),
        ValueType::WideColumnEntity => {
            let columns = columns(stored).ok()?;
            columns.first().filter(|(name, _)| name.is_empty()).map(|(_, value)| *value)
        }
        _ => None,
    }
}

/// The latest expired stamp of the group that was asked for last: the same for as long as it is asked as of one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastBound(Option<(u32, Option<u64>)>);

impl LastBound {
    /// Whether a row is expired.
    #[inline]
    pub(crate) fn is_expired(&mut self, expiring: &Expiring, key: &[u8], value: &[u8]) -> bool {
        let Some(stamp) = expiring.policy.stamp(key, value) else { return false };
        let bound = match self.0 {
            Some((group, bound)) if group == stamp.group => bound,
            _ => {
                let bound = expiring.bound(stamp.group);
                self.0 = Some((stamp.group, bound));
                bound
            }
        };
        bound.is_some_and(|bound| stamp.seconds <= bound)
    }
}

/// What a job removes: rows that were expired at a moment, and therefore are for every reader.
#[derive(Debug, Clone)]
pub(crate) struct Expiring {
    /// Decides.
    pub(crate) policy: Arc<dyn ExpiryPolicy>,
    /// Unix seconds: no reader reads as of an earlier time.
    pub(crate) time: u64,
}

impl Expiring {
    /// The latest stamp of `group` that is expired.
    pub(crate) fn bound(&self, group: u32) -> Option<u64> {
        self.policy.bound(group, self.time)
    }
}

/// What a reader does not see: rows that are expired when it reads.
#[derive(Debug)]
pub(crate) struct ReadExpiry {
    expiring: Expiring,
    last: LastBound,
    /// Rows that it met and did not see.
    pub(crate) hidden: u64,
}

impl ReadExpiry {
    /// Of a reader at `time`.
    pub(crate) fn new(policy: &Arc<dyn ExpiryPolicy>, time: u64) -> Self {
        Self { expiring: Expiring { policy: Arc::clone(policy), time }, last: LastBound::default(), hidden: 0 }
    }

    /// Whether a row is hidden.
    pub(crate) fn hides(&mut self, key: &[u8], value: &[u8]) -> bool {
        let hides = self.last.is_expired(&self.expiring, key, value);
        self.hidden += u64::from(hides);
        hides
    }

    /// What is expired for the reader.
    pub(crate) fn expiring(&self) -> &Expiring {
        &self.expiring
    }
}

/// Removes the file EXPIRY of a database that was in `dir` before, if there is one.
pub(crate) fn remove_remains(env: &dyn Env, dir: &Path) -> Result<()> {
    let path = FileName::Expiry.path(dir);
    match env.remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("delete", &path, error)),
        _ => Ok(()),
    }
}
