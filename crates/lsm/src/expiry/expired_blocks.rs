//! Which data blocks of an open table have nothing but expired rows.

use super::block_stamps::BlockStamps;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::sync::Arc;
use std::ops::Range;

/// Tells of the data blocks of one open table which of them a read may pass by.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub(crate) struct ExpiredBlocks {
    stamps: BlockStamps,
    policy: Arc<dyn ExpiryPolicy>,
}

/// A part of a table as a read at one time sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Its bytes in the file.
    bytes: Range<u64>,
    /// Whether all rows in it are expired.
    is_expired: bool,
}

impl Judged {
    /// Nothing, of which nothing is expired.
    pub(crate) const NOTHING: Self = Self { bytes: 0..0, is_expired: false };

    /// A whole table of which nothing is known.
    pub(crate) const UNKNOWN: Self = Self { bytes: 0..u64::MAX, is_expired: false };

    /// Whether a block of these bytes lies within.
    #[inline]
    pub(crate) fn has(&self, block: &Range<u64>) -> bool {
        self.bytes.start <= block.start && block.end <= self.bytes.end
    }

    /// Whether all rows in it are expired.
    #[inline]
    pub(crate) fn is_expired(&self) -> bool {
        self.is_expired
    }
}

impl ExpiredBlocks {
    /// Of a table with the `property`, and so many data blocks, which end at `end`; `None` if the property is not one of this table and this policy.
    pub(crate) fn of_table(policy: &Arc<dyn ExpiryPolicy>, property: &[u8], blocks: u64, end: u64) -> Option<Self> {
        let stamps = BlockStamps::decode(property)?;
        let is_own = stamps.policy() == policy.name() && stamps.fits(blocks, end);
        is_own.then(|| Self { stamps, policy: Arc::clone(policy) })
    }

    /// What a read at `time`, in Unix seconds, sees of the part of the table with the byte at `offset`.
    pub(crate) fn judge(&self, offset: u64, time: u64) -> Judged {
        let (bytes, latest) = self.stamps.around(offset);
        Judged { bytes, is_expired: latest.is_some_and(|latest| self.policy.is_expired(latest, time)) }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<Arc<dyn ExpiryPolicy>>() + self.stamps.memory_usage()
    }
}
