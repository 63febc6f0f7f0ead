//! The read path: the page first, older versions second.
//!
//! Path: get 2/5. Before: db/mod.rs. After: tree/search.rs.

use super::state::{OpenTree, State};
use super::transactions::View;
use crate::page::{self, FLAG_DELETED, Stamp};
use siltstone_base::Result;
use siltstone_base::sync::Arc;

/// What the page said.
enum Page<T> {
    /// Everyone may see it, and it was handed on.
    Seen(T),
    /// Perhaps something else is to be seen; this is what the page says.
    Copied(u8, Vec<u8>),
    /// Whoever wrote the row has not ended.
    Active,
}

impl State {
    /// Hands the value of a key to `found`, once at most. Returns what it says, if the key exists for a view or, without one, now.
    #[inline]
    pub(super) fn get<T>(
        self: &Arc<Self>,
        open: &OpenTree,
        key: &[u8],
        view: Option<&View>,
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let Some(expiry) = open.expiry() else { return self.get_any(open, key, view, found) };
        let time = view.map_or_else(|| expiry.now(), |view| view.time);
        let row = self.get_any(open, key, view, |value| (!expiry.hides(key, value, time)).then(|| found(value)))?;
        Ok(row.flatten())
    }

    /// The same for rows that are expired, too.
    #[inline]
    fn get_any<T>(
        self: &Arc<Self>,
        open: &OpenTree,
        key: &[u8],
        view: Option<&View>,
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let (incarnation, tree) = open.numbered_at(view.map_or(u64::MAX, |view| view.snapshot))?;
        let mut found = Some(found);
        let abandoned = self.versions.abandoned();
        let page = tree.get(key, |flags, value| {
            // Whoever changed this page since kept the row before: under the latch that can be seen.
            match found.take_if(|_| flags == 0 && self.versions.is_empty() && open.is_at(incarnation)) {
                Some(found) => Page::Seen(found(value)),
                None => self.look(flags, value),
            }
        });
        let page = match page {
            Ok(Some(Page::Seen(seen))) => return Ok(Some(seen)),
            page if open.is_at(incarnation) => page?,
            // Its pages are gone, and may be read as they once were.
            _ => return self.get_again(open, key, view, found),
        };
        let value = match page {
            None if self.versions.is_empty() && abandoned == self.versions.abandoned() => return Ok(None),
            Some(Page::Copied(flags, value)) if view.is_none() => Some((flags, value)),
            None if view.is_none() => None,
            _ => return self.get_older(open, key, view, found),
        };
        let cell = self.versions.find(None, tree.space(), key).unwrap_or(value);
        if abandoned != self.versions.abandoned() {
            // The page may have shown what a batch did that failed.
            return self.get_older(open, key, view, found);
        }
        let stamp = cell.as_ref().and_then(|(flags, value)| Stamp::of(*flags, value));
        if stamp.is_some_and(|stamp| self.transactions.is_active(stamp.id)) {
            return self.get_older(open, key, view, found);
        }
        let value = cell.filter(|(flags, _)| flags & FLAG_DELETED == 0);
        Ok(value.and_then(|(flags, value)| found.take().map(|found| found(page::body(flags, &value)))))
    }

    /// A cell that needs a second look. Under the latch of its leaf: whoever undoes a change ends later.
    #[cold]
    fn look<T>(&self, flags: u8, value: &[u8]) -> Page<T> {
        if Stamp::of(flags, value).is_some_and(|stamp| self.transactions.is_active(stamp.id)) {
            return Page::Active;
        }
        Page::Copied(flags, value.to_vec())
    }

    /// The same once more, for a tree that was truncated meanwhile.
    #[cold]
    fn get_again<T, F: FnOnce(&[u8]) -> T>(
        self: &Arc<Self>,
        open: &OpenTree,
        key: &[u8],
        view: Option<&View>,
        found: Option<F>,
    ) -> Result<Option<T>> {
        found.map_or(Ok(None), |found| self.get_any(open, key, view, found))
    }

    /// A row as it was before someone changed it who has not ended, or for a view.
    #[cold]
    fn get_older<T>(
        self: &Arc<Self>,
        open: &OpenTree,
        key: &[u8],
        view: Option<&View>,
        mut found: Option<impl FnOnce(&[u8]) -> T>,
    ) -> Result<Option<T>> {
        let row = match view {
            Some(view) => self.read_row_of(view, open, key)?,
            None => self.read_row_now(open, 0, 0, key)?,
        };
        Ok(row.and_then(|row| found.take().map(|found| found(&row))))
    }
}
