//! Records of the undo log: a row as it was before a change, and what is said of a transaction as a whole.

use siltstone_base::coding::{get_varint32, put_varint32};

/// A row before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UndoRecord {
    /// The tablespace of its tree.
    pub(crate) space: u32,
    pub(crate) key: Vec<u8>,
    /// Whether the change left a row that is marked as deleted.
    pub(crate) is_deletion: bool,
    /// Whether it is an entry of a secondary index.
    pub(crate) is_entry: bool,
    /// Flags and bytes of the cell, a reference to a long value included; `None`: there was none.
    pub(crate) before: Option<(u8, Vec<u8>)>,
}

impl UndoRecord {
    /// What was changed.
    pub(crate) fn changed(&self) -> Changed<'_> {
        Changed { space: self.space, key: &self.key, is_deletion: self.is_deletion, is_entry: self.is_entry }
    }
}

const EXISTED: u8 = 1;
const DELETION: u8 = 2;
const ENTRY: u8 = 4;

/// What was changed, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changed<'a> {
    /// The tablespace of its tree.
    pub(crate) space: u32,
    pub(crate) key: &'a [u8],
    /// Whether a row, or an entry, was deleted.
    pub(crate) is_deletion: bool,
    /// Whether it is an entry of a secondary index.
    pub(crate) is_entry: bool,
}

/// The record as the value of its row.
pub(super) fn encode(changed: &Changed<'_>, before: Option<(u8, &[u8])>) -> Vec<u8> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let kind = flag(before.is_some(), EXISTED) | flag(changed.is_deletion, DELETION) | flag(changed.is_entry, ENTRY);
    let mut out = vec![kind];
    put_varint32(&mut out, changed.space);
    put_varint32(&mut out, changed.key.len() as u32);
    out.extend_from_slice(changed.key);
    if let Some((flags, bytes)) = before {
        out.push(flags);
        out.extend_from_slice(bytes);
    }
    out
}

/// Reads a record; `None` if it is none that this version writes.
pub(super) fn decode(bytes: &[u8]) -> Option<UndoRecord> {
    let (kind, mut rest) = bytes.split_first()?;
    if kind & !(EXISTED | DELETION | ENTRY) != 0 {
        return None;
    }
    let space = get_varint32(&mut rest)?;
    let len = get_varint32(&mut rest)? as usize;
    let (key, rest) = rest.split_at_checked(len)?;
    let before = match (kind & EXISTED != 0, rest.split_first()) {
        (true, Some((flags, bytes))) => Some((*flags, bytes.to_vec())),
        (false, None) => None,
        _ => return None,
    };
    let (is_deletion, is_entry) = (kind & DELETION != 0, kind & ENTRY != 0);
    Some(UndoRecord { space, key: key.to_vec(), is_deletion, is_entry, before })
}

/// What is known of a transaction that has records. One of which nothing is known was not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is committed, and its records wait for purge.
    Committed,
    /// It is prepared, under a name.
    Prepared(Vec<u8>),
}

const COMMITTED: u8 = 1;
const PREPARED: u8 = 2;

impl Fate {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Committed => vec![COMMITTED],
            Self::Prepared(name) => [&[PREPARED][..], name].concat(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (&COMMITTED, []) => Some(Self::Committed),
            (&PREPARED, name) => Some(Self::Prepared(name.to_vec())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_of_records_stay_what_they_are() {
        let row = |space, key, is_deletion| Changed { space, key, is_deletion, is_entry: false };
        assert_eq!(encode(&row(300, b"key", false), None), b"\x00\xac\x02\x03key");
        assert_eq!(encode(&row(1, b"k", true), Some((2, b"value"))), b"\x03\x01\x01k\x02value");
        let entry = Changed { is_entry: true, ..row(3, b"e", true) };
        assert_eq!(encode(&entry, Some((0, b""))), b"\x07\x03\x01e\x00");
        assert_eq!(Fate::Committed.encode(), b"\x01");
        assert_eq!(Fate::Prepared(b"name".to_vec()).encode(), b"\x02name");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            space in any::<u32>(),
            key in prop::collection::vec(any::<u8>(), 0..40),
            is_deletion in any::<bool>(),
            is_entry in any::<bool>(),
            before in prop::option::of((any::<u8>(), prop::collection::vec(any::<u8>(), 0..60))),
        ) {
            let seen = before.as_ref().map(|(flags, bytes)| (*flags, bytes.as_slice()));
            let bytes = encode(&Changed { space, key: &key, is_deletion, is_entry }, seen);
            prop_assert_eq!(decode(&bytes), Some(UndoRecord { space, key, is_deletion, is_entry, before }));
        }

        #[test]
        fn no_bytes_make_a_record_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (decode(&bytes), Fate::decode(&bytes));
        }
    }
}
