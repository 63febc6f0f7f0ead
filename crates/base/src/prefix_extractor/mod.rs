//! Prefixes of keys: what walks that stay among keys of one beginning ask filters for.

use std::fmt;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Tells the prefix of a key.
///
/// Contract: the prefix is the beginning of its key; the keys of one prefix are neighbours in the order of the family, that is, whatever lies between two keys
/// of a prefix has that prefix too; equal names mean equal prefixes. Tables keep the name, and a filter that was written by another extractor is not asked for prefixes.
/// No bytes make it panic. If the contract is broken, walks that are limited to a prefix may miss keys; nothing else suffers.
pub trait PrefixExtractor: Send + Sync + fmt::Debug {
    /// The name that is stored with the data.
    fn name(&self) -> &str;

    /// The prefix of `key`; `None` if it has none. Such a key is in no filter of prefixes.
    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]>;

    /// The length from which on a prefix says all: every key that begins with a prefix so long has that prefix. `None` if there is no such length.
    fn full_len(&self) -> Option<usize> {
        None
    }
}

/// The first bytes of a key, a fixed number; shorter keys have no prefix. RocksDB's name: `rocksdb.FixedPrefix.8`.
#[derive(Debug, Clone)]
pub struct FixedPrefix {
    len: usize,
    name: String,
}

impl FixedPrefix {
    /// Prefixes of `len` bytes.
    pub fn new(len: usize) -> Self {
        Self { len, name: format!("rocksdb.FixedPrefix.{len}") }
    }
}

impl PrefixExtractor for FixedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        key.get(..self.len)
    }

    fn full_len(&self) -> Option<usize> {
        Some(self.len)
    }
}

/// The first bytes of a key, at most so many: a shorter key is its own prefix. RocksDB's name: `rocksdb.CappedPrefix.8`.
#[derive(Debug, Clone)]
pub struct CappedPrefix {
    cap: usize,
    name: String,
}

impl CappedPrefix {
    /// Prefixes of at most `cap` bytes.
    pub fn new(cap: usize) -> Self {
        Self { cap, name: format!("rocksdb.CappedPrefix.{cap}") }
    }
}

impl PrefixExtractor for CappedPrefix {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        Some(key.get(..self.cap).unwrap_or(key))
    }

    fn full_len(&self) -> Option<usize> {
        Some(self.cap)
    }
}

/// Every key is its own prefix. RocksDB's name: `rocksdb.Noop`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopPrefix;

impl PrefixExtractor for NoopPrefix {
    fn name(&self) -> &str {
        "rocksdb.Noop"
    }

    #[inline]
    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        Some(key)
    }
}

/// The extractor that RocksDB's OPTIONS calls so, if it is one of those here.
pub fn by_name(name: &str) -> Option<Arc<dyn PrefixExtractor>> {
    if name == NoopPrefix.name() {
        return Some(Arc::new(NoopPrefix));
    }
    let (kind, len) = name.rsplit_once(['.', ':'])?;
    let len = len.parse().ok()?;
    match kind {
        "rocksdb.FixedPrefix" | "fixed" => Some(Arc::new(FixedPrefix::new(len))),
        "rocksdb.CappedPrefix" | "capped" => Some(Arc::new(CappedPrefix::new(len))),
        _ => None,
    }
}
