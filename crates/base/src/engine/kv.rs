//! Ordered bytes to bytes.

use super::{Admin, KvBatch};
use crate::Result;

/// A map from keys to values, ordered by the bytes of the keys.
pub trait Kv: Admin {
    /// Sets a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key. Removing one that does not exist is no error.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Applies a batch: all of it becomes visible and safe together.
    fn write(&self, batch: &KvBatch) -> Result<()>;

    /// Hands the value of a key to `found`, without a copy where the engine can; returns whether the key exists.
    /// `found` is called at most once and must not call the engine.
    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Copies the value of a key into `value`, whose memory is reused; returns whether the key exists.
    /// If it does not, `value` is empty.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        self.get_pinned(key, &mut |bytes| value.extend_from_slice(bytes))
    }

    /// Looks several keys up, all at one moment of the database. `found` is called once for each key with its position
    /// in `keys` and its value, in any order.
    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()>;

    /// A cursor over the database as it is now. It stands nowhere until it is told to seek.
    fn cursor(&self) -> Result<Box<dyn KvCursor>>;
}

/// A position among the keys of one moment of a database.
///
/// Every method that moves returns whether the cursor stands on an entry afterwards. Moving off either end leaves it
/// standing nowhere; then only seeking is allowed.
pub trait KvCursor {
    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<bool>;

    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<bool>;

    /// Moves to the first entry whose key is `key` or comes after it.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// Moves to the next entry. The cursor stands on one.
    fn next(&mut self) -> Result<bool>;

    /// Moves to the entry before. The cursor stands on one.
    fn prev(&mut self) -> Result<bool>;

    /// The key under the cursor; empty if it stands nowhere.
    fn key(&self) -> &[u8];

    /// The value under the cursor; empty if it stands nowhere.
    fn value(&self) -> &[u8];
}
