//! Entries of the change buffer as its tree has them. `docs/src/formats/change_buffer.md` has the bytes.

use crate::page::{PageId, Stamp, u32_at};
use crate::tree::EntryOp;

/// Bytes of a key: tablespace, page, and the number of the operation among those that wait for the page.
pub(super) const KEY_LEN: usize = 12;

pub(super) fn key_of(page: PageId, number: u32) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    key[..4].copy_from_slice(&page.space.to_be_bytes());
    key[4..8].copy_from_slice(&page.number.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The page of a key, and the number of its operation.
pub(super) fn page_of(key: &[u8]) -> Option<(PageId, u32)> {
    let key: &[u8; KEY_LEN] = key.try_into().ok()?;
    let number = |at: usize| u32::from_be_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
    Some((PageId::new(number(0), number(4)), number(8)))
}

const INSERT: u8 = 1;
const MARK: u8 = 2;
const REMOVE: u8 = 3;
const STAMPED: u8 = 0x10;

/// An operation that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) op: EntryOp,
    /// Bytes that this operation and those before it may take on their page.
    pub(super) volume: u16,
    /// The key of the entry.
    pub(super) key: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, stamp) = match self.op {
            EntryOp::Insert { stamp } => (INSERT, stamp),
            EntryOp::Mark { stamp } => (MARK, Some(stamp)),
            EntryOp::Remove { only_if } => (REMOVE, only_if),
        };
        out.push(if stamp.is_some() { kind | STAMPED } else { kind });
        out.extend_from_slice(&self.volume.to_le_bytes());
        stamp.iter().for_each(|stamp| out.extend_from_slice(&stamp.encode()));
        out.extend_from_slice(self.key);
    }

    /// Reads a record; `None` if it is none that this version writes.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (&[kind, low, high], rest) = bytes.split_first_chunk()?;
        let (stamp, key) = if kind & STAMPED == 0 {
            (None, rest)
        } else {
            let (stamp, key) = rest.split_at_checked(Stamp::LEN)?;
            let id = u64::from(u32_at(stamp, 0)) | u64::from(u32_at(stamp, 4)) << 32;
            (Some(Stamp { id, number: u32_at(stamp, 8) }).filter(|stamp| stamp.id > 0), key)
        };
        let op = match (kind & !STAMPED, stamp) {
            (INSERT, stamp) => EntryOp::Insert { stamp },
            (MARK, Some(stamp)) => EntryOp::Mark { stamp },
            (REMOVE, only_if) => EntryOp::Remove { only_if },
            _ => return None,
        };
        // A stamp of nobody was dropped above.
        ((kind & STAMPED != 0) == stamp.is_some()).then_some(Self { op, volume: u16::from_le_bytes([low, high]), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_of_entries_stay_what_they_are() {
        let bytes = |op| {
            let mut out = Vec::new();
            Record { op, volume: 0x0102, key: b"key" }.encode(&mut out);
            out
        };
        let stamp = Stamp { id: 7, number: 3 };
        assert_eq!(bytes(EntryOp::Insert { stamp: None }), b"\x01\x02\x01key");
        assert_eq!(bytes(EntryOp::Mark { stamp }), b"\x12\x02\x01\x07\0\0\0\0\0\0\0\x03\0\0\0key");
        assert_eq!(bytes(EntryOp::Remove { only_if: None }), b"\x03\x02\x01key");
        assert_eq!(bytes(EntryOp::Remove { only_if: Some(stamp) })[0], 0x13);
        assert_eq!(key_of(PageId::new(4, 300), 2), *b"\0\0\0\x04\0\0\x01\x2c\0\0\0\x02");
    }

    fn ops() -> impl Strategy<Value = EntryOp> {
        let stamp = (1_u64.., any::<u32>()).prop_map(|(id, number)| Stamp { id, number });
        (0..3_u8, prop::option::of(stamp)).prop_map(|(kind, stamp)| match (kind, stamp) {
            (0, Some(stamp)) => EntryOp::Mark { stamp },
            (1, only_if) => EntryOp::Remove { only_if },
            (_, stamp) => EntryOp::Insert { stamp },
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            op in ops(),
            volume in any::<u16>(),
            key in prop::collection::vec(any::<u8>(), 0..40),
            (space, page, number) in any::<(u32, u32, u32)>(),
        ) {
            let record = Record { op, volume, key: &key };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(Record::decode(&bytes), Some(record));
            let page = PageId::new(space, page);
            prop_assert_eq!(page_of(&key_of(page, number)), Some((page, number)));
        }

        #[test]
        fn no_bytes_make_a_record_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (Record::decode(&bytes), page_of(&bytes));
        }
    }
}
