//! The last primary key of a lazy table, so that a row behind it is known to be new without reading anything: nothing becomes stale by it.
//!
//! Rows that come in the order of their keys, as those with counters or times for keys do, thus cost sweeps nothing.

use siltstone_base::engine::Row;
use siltstone_base::sync::{Mutex, Rank};

/// Taken alone.
const RANK: Rank = Rank(325);

/// The last primary key that a table ever had, since it was opened.
#[derive(Debug)]
pub(super) struct LastKey {
    /// `None`: not known. Empty: there was no row.
    key: Mutex<Option<Vec<u8>>>,
}

impl Default for LastKey {
    /// It is not known.
    fn default() -> Self {
        Self { key: Mutex::new(RANK, None) }
    }
}

impl LastKey {
    /// It is `key`, unless somebody has written one meanwhile: nobody is to have written before this is known.
    pub(super) fn set(&self, key: Vec<u8>) {
        self.key.lock().get_or_insert(key);
    }

    /// Rows are written. Returns how many of them are new for certain: those behind all before them.
    pub(super) fn note(&self, rows: &[Row<'_>]) -> u64 {
        let mut key = self.key.lock();
        let Some(last) = &mut *key else { return 0 };
        let (mut newest, mut count) = (last.as_slice(), 0);
        for row in rows {
            if row.primary_key > newest {
                (newest, count) = (row.primary_key, count + 1);
            }
        }
        if count > 0 {
            *last = newest.to_vec();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(last: &LastKey, keys: &[&str]) -> u64 {
        let rows: Vec<_> = keys.iter().map(|key| Row { primary_key: key.as_bytes(), value: b"" }).collect();
        last.note(&rows)
    }

    #[test]
    fn rows_behind_the_last_one_are_new() {
        let last = LastKey::default();
        assert_eq!(note(&last, &["a", "b"]), 0, "as long as nothing is known");
        last.set(b"".to_vec());
        assert_eq!(note(&last, &["b", "a", "c", "c"]), 2);
        assert_eq!(note(&last, &["c", "b"]), 0);
        assert_eq!(note(&last, &["ca", "d"]), 2);
        last.set(b"x".to_vec());
        assert_eq!(note(&last, &["e"]), 1, "what is known stays");
    }
}
