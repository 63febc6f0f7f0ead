//! Orders of keys.

mod timestamps;

pub use timestamps::{BytewiseU64Ts, ReverseBytewiseU64Ts, TIMESTAMP_LEN, split_timestamp};

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A total order of byte strings.
///
/// The order and the name of a comparator never change once a database was written with it: the name is stored, and a
/// different one is refused at open.
pub trait Comparator: Send + Sync + fmt::Debug {
    /// The name that is stored with the data.
    fn name(&self) -> &str;

    /// Compares two keys. Must be total, and must not panic on any bytes.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Whether two keys that differ in bytes may compare equal, or filters hold other bytes than keys. If so, no bloom filter, hash index or prefix is used.
    fn equal_may_differ(&self) -> bool {
        false
    }

    /// Bytes at the end of every key that are a timestamp. 0: keys have none.
    fn timestamp_len(&self) -> usize {
        0
    }

    /// The order of keys without their timestamps, for a comparator whose keys have any.
    fn without_timestamp(&self) -> Option<Arc<dyn Comparator>> {
        None
    }

    /// Whether the order is that of `memcmp`, shorter first: comparisons are then made inline.
    fn is_bytewise(&self) -> bool {
        false
    }

    /// A key `s` with `start <= s < limit`, as short as possible, appended to the empty `out`; `start < limit` holds.
    fn shortest_separator(&self, start: &[u8], limit: &[u8], out: &mut Vec<u8>) {
        let _ = limit;
        out.extend_from_slice(start);
    }

    /// A key `s` with `s >= key`, as short as possible, appended to the empty `out`.
    fn short_successor(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(key);
    }
}

/// Unsigned bytes, shorter first: `leveldb.BytewiseComparator`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytewise;

impl Comparator for Bytewise {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn is_bytewise(&self) -> bool {
        true
    }

    fn shortest_separator(&self, start: &[u8], limit: &[u8], out: &mut Vec<u8>) {
        let shared = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
        if let (Some(&low), Some(&high)) = (start.get(shared), limit.get(shared)) {
            debug_assert!(low < high, "start < limit");
            if high > low + 1 || (high > low && shared + 1 < limit.len()) {
                out.extend_from_slice(&start[..shared]);
                out.push(low + 1);
                return;
            }
            // low + 1 == high and limit ends there: the first later byte of start that can grow is increased.
            if let Some(grows) = start[shared + 1..].iter().position(|byte| *byte < u8::MAX) {
                let end = shared + 1 + grows;
                out.extend_from_slice(&start[..end]);
                out.push(start[end] + 1);
                return;
            }
        }
        out.extend_from_slice(start);
    }

    fn short_successor(&self, key: &[u8], out: &mut Vec<u8>) {
        match key.iter().position(|byte| *byte < u8::MAX) {
            Some(grows) => {
                out.extend_from_slice(&key[..grows]);
                out.push(key[grows] + 1);
            }
            None => out.extend_from_slice(key),
        }
    }
}

/// The reverse of [`Bytewise`]: `rocksdb.ReverseBytewiseComparator`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReverseBytewise;

impl Comparator for ReverseBytewise {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator"
    }

    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// The comparator of this name, if it is one of those here: any database that states the name can be opened with it.
pub fn by_name(name: &str) -> Option<Arc<dyn Comparator>> {
    let known: [Arc<dyn Comparator>; 4] =
        [Arc::new(Bytewise), Arc::new(ReverseBytewise), Arc::new(BytewiseU64Ts), Arc::new(ReverseBytewiseU64Ts)];
    known.into_iter().find(|comparator| comparator.name() == name)
}

#[cfg(test)]
mod tests;
