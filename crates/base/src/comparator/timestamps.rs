//! Orders of keys that end with a timestamp: by the key without it, and then the newest first.

use super::{Bytewise, Comparator, ReverseBytewise};
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes of a timestamp: a little-endian number.
pub const TIMESTAMP_LEN: usize = 8;

/// Takes the timestamp off a key. `None`: the key is too short to have one.
#[inline]
pub fn split_timestamp(key: &[u8]) -> Option<(&[u8], u64)> {
    key.split_last_chunk::<TIMESTAMP_LEN>().map(|(bare, timestamp)| (bare, u64::from_le_bytes(*timestamp)))
}

/// Damaged keys that are too short for a timestamp stand for themselves, before all others of the same bytes.
fn compare(order: &dyn Comparator, a: &[u8], b: &[u8]) -> Ordering {
    let split = |key| split_timestamp(key).map_or((key, None), |(bare, timestamp)| (bare, Some(timestamp)));
    let ((a, a_timestamp), (b, b_timestamp)) = (split(a), split(b));
    order.compare(a, b).then_with(|| match (a_timestamp, b_timestamp) {
        (Some(a), Some(b)) => b.cmp(&a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    })
}

/// Bytewise keys with timestamps: `leveldb.BytewiseComparator.u64ts`.
#[derive(Debug, Clone, Copy, Default)]
pub struct BytewiseU64Ts;

impl Comparator for BytewiseU64Ts {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator.u64ts"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        compare(&Bytewise, a, b)
    }

    /// Filters hold keys without their timestamps.
    fn equal_may_differ(&self) -> bool {
        true
    }

    fn timestamp_len(&self) -> usize {
        TIMESTAMP_LEN
    }

    fn without_timestamp(&self) -> Option<Arc<dyn Comparator>> {
        Some(Arc::new(Bytewise))
    }
}

/// Keys in the reverse order of their bytes, with timestamps: `rocksdb.ReverseBytewiseComparator.u64ts`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReverseBytewiseU64Ts;

impl Comparator for ReverseBytewiseU64Ts {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator.u64ts"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        compare(&ReverseBytewise, a, b)
    }

    /// Filters hold keys without their timestamps.
    fn equal_may_differ(&self) -> bool {
        true
    }

    fn timestamp_len(&self) -> usize {
        TIMESTAMP_LEN
    }

    fn without_timestamp(&self) -> Option<Arc<dyn Comparator>> {
        Some(Arc::new(ReverseBytewise))
    }
}
