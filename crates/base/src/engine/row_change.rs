//! Changes of rows that are made together.

use super::{Row, TableId};
use crate::{Error, Result};

/// A change of one row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowChange<'a> {
    /// The row is new. The caller vouches for its primary key being new.
    Insert(Row<'a>),
    /// The row goes that was so.
    Delete(Row<'a>),
    /// The first row becomes the second, which may have another primary key.
    Update(Row<'a>, Row<'a>),
}

impl<'a> RowChange<'a> {
    /// What the row was, if there was one.
    #[inline]
    pub fn before(&self) -> Option<Row<'a>> {
        match *self {
            Self::Insert(_) => None,
            Self::Delete(old) | Self::Update(old, _) => Some(old),
        }
    }

    /// What the row will be, if there will be one.
    #[inline]
    pub fn after(&self) -> Option<Row<'a>> {
        match *self {
            Self::Delete(_) => None,
            Self::Insert(new) | Self::Update(_, new) => Some(new),
        }
    }
}

/// Refuses changes that are made together if two of them say what a row was, or two what it will be. One row may give up a primary key that another one takes.
///
/// # Errors
///
/// `InvalidArgument`.
pub fn check_distinct<'a>(changes: impl ExactSizeIterator<Item = (TableId, RowChange<'a>)> + Clone) -> Result<()> {
    if changes.len() < 2 {
        return Ok(());
    }
    for side in [RowChange::before, RowChange::after] {
        let key = |(table, change): (TableId, RowChange<'a>)| side(&change).map(|row| (table, row.primary_key));
        let mut keys: Vec<(TableId, &[u8])> = changes.clone().filter_map(key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid_argument("a primary key comes twice in one call"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(primary_key: &[u8]) -> Row<'_> {
        Row { primary_key, value: b"" }
    }

    #[test]
    fn a_key_may_be_given_up_and_taken_but_neither_twice() {
        let (one, two) = (TableId(1), TableId(2));
        let is_right = |changes: &[(TableId, RowChange<'_>)]| check_distinct(changes.iter().copied()).is_ok();
        assert!(is_right(&[]));
        assert!(is_right(&[(one, RowChange::Delete(row(b"a"))), (one, RowChange::Insert(row(b"a")))]));
        let swap = [RowChange::Update(row(b"a"), row(b"b")), RowChange::Update(row(b"b"), row(b"a"))];
        assert!(is_right(&swap.map(|change| (one, change))));
        assert!(is_right(&[(one, RowChange::Insert(row(b"a"))), (two, RowChange::Insert(row(b"a")))]));
        assert!(!is_right(&[(one, RowChange::Insert(row(b"a"))), (one, RowChange::Update(row(b"b"), row(b"a")))]));
        assert!(!is_right(&[(one, RowChange::Delete(row(b"a"))), (one, RowChange::Update(row(b"a"), row(b"b")))]));
        let twice = [RowChange::Update(row(b"a"), row(b"a")), RowChange::Update(row(b"a"), row(b"a"))];
        assert!(!is_right(&twice.map(|change| (one, change))));
    }
}
