//! Dictionaries: what the blocks of a table have in common, stored once.

use std::fmt;

/// The dictionary of a table's data blocks, digested once for all of them.
pub struct DecompressionDictionary {
    raw: Vec<u8>,
    zstd: zstd::dict::DecoderDictionary<'static>,
}

impl DecompressionDictionary {
    /// A dictionary, trained or raw, as the table stores it.
    pub fn new(raw: &[u8]) -> Self {
        Self { raw: raw.to_vec(), zstd: zstd::dict::DecoderDictionary::copy(raw) }
    }

    /// The bytes as the table stores them.
    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The digest.
    pub(super) fn zstd(&self) -> &zstd::dict::DecoderDictionary<'static> {
        &self.zstd
    }

    /// The bytes of memory held.
    pub fn memory_usage(&self) -> usize {
        self.raw.capacity() + self.zstd.as_ddict().sizeof()
    }
}

impl fmt::Debug for DecompressionDictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecompressionDictionary").field("len", &self.raw.len()).finish_non_exhaustive()
    }
}

/// A dictionary of at most `max_bytes` for blocks like the samples, which lie in `samples` one behind the other with the lengths
/// `lens`. Empty if they are too few or too uniform to learn from.
pub fn train_dictionary(samples: &[u8], lens: &[usize], max_bytes: usize) -> Vec<u8> {
    if samples.is_empty() || lens.is_empty() {
        return Vec::new();
    }
    zstd::dict::from_continuous(samples, lens, max_bytes).unwrap_or_default()
}
