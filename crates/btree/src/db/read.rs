//! The read path: the page first, older versions second.
//!
//! Path: get 2/5. Before: db/mod.rs. After: tree/search.rs.

use super::state::{OpenTree, State};
use siltstone_base::Result;

/// What the page said.
enum Page<T> {
    /// Everyone may see it, and it was handed on.
    Seen(T),
    /// Perhaps something else is to be seen; this is what the page says.
    Copied(Vec<u8>),
}

impl State {
    /// Hands the value of a key to `found`, once at most. Returns what it says, if the key exists for a snapshot or, without one, now.
    #[inline]
    pub(super) fn get<T>(
        &self,
        tree: &OpenTree,
        key: &[u8],
        snapshot: Option<u64>,
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let tree = tree.live()?;
        let mut found = Some(found);
        let page = tree.get(key, |value| {
            // Whoever changed this page since kept the row before: under the latch that can be seen.
            match found.take_if(|_| self.versions.is_empty()) {
                Some(found) => Page::Seen(found(value)),
                None => Page::Copied(value.to_vec()),
            }
        })?;
        let value = match page {
            Some(Page::Seen(seen)) => return Ok(Some(seen)),
            Some(Page::Copied(value)) => Some(value),
            None if self.versions.is_empty() => return Ok(None),
            None => None,
        };
        let value = self.versions.find(snapshot, tree.space(), key).unwrap_or(value);
        Ok(value.and_then(|value| found.take().map(|found| found(&value))))
    }
}
