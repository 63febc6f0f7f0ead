//! A cursor that owns its transaction.

use super::{Bytewise, NAME};
use crate::error::foreign;
use heed::types::Bytes;
use heed::{RoRange, RoRevRange, RoTxn, WithoutTls};
use self_cell::self_cell;
use siltstone_base::Result;
use siltstone_base::engine::KvCursor;
use std::ops::Bound;

type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// heed has iterators for one direction each: turning around opens a new one.
enum Entries<'a> {
    Nowhere,
    Forward(RoRange<'a, Bytes, Bytes>),
    Backward(RoRevRange<'a, Bytes, Bytes>),
}

struct Position<'a> {
    entries: Entries<'a>,
    current: Option<(&'a [u8], &'a [u8])>,
}

impl Position<'_> {
    fn step(&mut self) -> Result<bool> {
        let entry = match &mut self.entries {
            Entries::Nowhere => None,
            Entries::Forward(entries) => entries.next(),
            Entries::Backward(entries) => entries.next(),
        };
        self.current = entry.transpose().map_err(|error| foreign(NAME, "iterate", error))?;
        Ok(self.current.is_some())
    }
}

struct Owner {
    transaction: RoTxn<'static, WithoutTls>,
    database: Bytewise,
}

self_cell!(
    struct OwnedPosition {
        owner: Owner,

        #[not_covariant]
        dependent: Position,
    }
);

/// A cursor over one moment of the database.
pub(super) struct LmdbCursor(OwnedPosition);

impl LmdbCursor {
    pub(super) fn new(transaction: RoTxn<'static, WithoutTls>, database: Bytewise) -> Self {
        Self(OwnedPosition::new(Owner { transaction, database }, |_| Position {
            entries: Entries::Nowhere,
            current: None,
        }))
    }

    fn start(&mut self, range: Range<'_>, is_backward: bool) -> Result<bool> {
        self.0.with_dependent_mut(|owner, position| {
            let (database, transaction) = (&owner.database, &owner.transaction);
            position.entries = if is_backward {
                database.rev_range(transaction, &range).map(Entries::Backward)
            } else {
                database.range(transaction, &range).map(Entries::Forward)
            }
            .map_err(|error| foreign(NAME, "open range", error))?;
            position.step()
        })
    }

    fn current_key(&self) -> Option<Vec<u8>> {
        self.0.with_dependent(|_, position| position.current.map(|(key, _)| key.to_vec()))
    }

    fn is_backward(&self) -> bool {
        self.0.with_dependent(|_, position| matches!(position.entries, Entries::Backward(_)))
    }
}

impl KvCursor for LmdbCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.start((Bound::Unbounded, Bound::Unbounded), false)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.start((Bound::Unbounded, Bound::Unbounded), true)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.start((Bound::Included(key), Bound::Unbounded), false)
    }

    fn next(&mut self) -> Result<bool> {
        if self.is_backward()
            && let Some(key) = self.current_key()
        {
            return self.start((Bound::Excluded(&key), Bound::Unbounded), false);
        }
        self.0.with_dependent_mut(|_, position| position.step())
    }

    fn prev(&mut self) -> Result<bool> {
        if !self.is_backward()
            && let Some(key) = self.current_key()
        {
            return self.start((Bound::Unbounded, Bound::Excluded(&key)), true);
        }
        self.0.with_dependent_mut(|_, position| position.step())
    }

    fn key(&self) -> &[u8] {
        self.0.with_dependent(|_, position| position.current.map_or(&[][..], |(key, _)| key))
    }

    fn value(&self) -> &[u8] {
        self.0.with_dependent(|_, position| position.current.map_or(&[][..], |(_, value)| value))
    }
}
