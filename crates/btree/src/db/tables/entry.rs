//! Entries of indexes as their trees have them: as keys, without values.
//!
//! | form | key |
//! | --- | --- |
//! | plain | index key, primary key |
//! | sized | index key, primary key as a memcomparable string, covered columns, length of the index key (4 bytes, little-endian) |
//!
//! Entries are plain in an index whose index keys have one length and that covers no columns beside them; and in those of earlier versions. Index key and primary key alone
//! decide the order in both forms. As what is covered is a part of the key, a change of it is one entry that goes and one that comes, neither of which is read: so it is in InnoDB with any column of an index.

use siltstone_base::engine::KvCursor;
use siltstone_base::index_scan::{IndexEntry, IndexScan};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::memcomparable::{get_bytes, put_bytes};
use siltstone_base::{Error, Result};

/// How the entries of an index are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryForm {
    Plain,
    Sized,
}

impl EntryForm {
    /// That of a new index.
    pub(super) fn of(spec: &IndexSpec) -> Self {
        match spec.covered.is_none() && spec.extractor.fixed_len().is_some() {
            true => Self::Plain,
            false => Self::Sized,
        }
    }

    /// Appends the entry of a row to `entry`. Returns how many bytes of it are the index key; `None`: the row has no entry, and `entry` is as it was.
    ///
    /// # Errors
    ///
    /// Those of [`IndexSpec::try_key`].
    pub(super) fn put(
        self,
        spec: &IndexSpec,
        primary_key: &[u8],
        value: &[u8],
        entry: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let start = entry.len();
        if !spec.try_key(primary_key, value, entry)? {
            return Ok(None);
        }
        let len = entry.len() - start;
        match self {
            Self::Plain => entry.extend_from_slice(primary_key),
            Self::Sized => {
                put_bytes(entry, primary_key);
                spec.try_covered(primary_key, value, entry)?;
                // An entry that is longer than a page is refused.
                entry.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
            }
        }
        Ok(Some(len))
    }

    /// Takes an entry apart; `primary_key` is for what it can't show where it is.
    ///
    /// # Errors
    ///
    /// Those of [`IndexSpec::split`].
    pub(super) fn read<'a>(
        self,
        spec: &IndexSpec,
        entry: &'a [u8],
        primary_key: &'a mut Vec<u8>,
    ) -> Result<IndexEntry<'a>> {
        match self {
            Self::Plain => spec.split(entry),
            Self::Sized => {
                let (index_key, mut rest) = split_sized(entry)
                    .ok_or_else(|| Error::corrupt(format!("index {}: an entry is damaged", spec.name)))?;
                primary_key.clear();
                get_bytes(&mut rest, primary_key)?;
                Ok(IndexEntry { index_key, primary_key, covered: rest })
            }
        }
    }

    /// The key that an entry has in the tree.
    pub(super) fn key(self, entry: IndexEntry<'_>) -> Vec<u8> {
        let mut key = entry.index_key.to_vec();
        match self {
            Self::Plain => key.extend_from_slice(entry.primary_key),
            Self::Sized => {
                put_bytes(&mut key, entry.primary_key);
                key.extend_from_slice(entry.covered);
                key.extend_from_slice(&u32::try_from(entry.index_key.len()).unwrap_or(u32::MAX).to_le_bytes());
            }
        }
        key
    }

    /// A range as the tree has it.
    pub(super) fn range<S: Clone>(self, cursor: &mut dyn KvCursor, scan: &IndexScan<S>) -> Result<IndexScan<S>> {
        if self == Self::Plain {
            return Ok(scan.clone());
        }
        let range = scan.clone().starting_at(bound(cursor, scan.from())?);
        Ok(match scan.end() {
            None => range,
            Some(end) => range.ending_before(bound(cursor, end)?),
        })
    }
}

/// The index key, and what is between it and its length.
fn split_sized(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let (entry, len) = entry.split_last_chunk()?;
    entry.split_at_checked(u32::from_le_bytes(*len) as usize)
}

/// The place of an index key and a primary key, or of a beginning of them, among sized entries. Where one ends and the other begins is for an entry to say: one that has this index key is next to the place that the bytes have
/// as they are, for all entries that begin with an index key are together. Without one, the bytes as they are will do.
fn bound(cursor: &mut dyn KvCursor, bytes: &[u8]) -> Result<Vec<u8>> {
    let of = |cursor: &dyn KvCursor| {
        let (index_key, _) = split_sized(cursor.key())?;
        let primary_key = bytes.strip_prefix(index_key).filter(|rest| !rest.is_empty())?;
        let mut bound = index_key.to_vec();
        put_bytes(&mut bound, primary_key);
        Some(bound)
    };
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let is_there = cursor.seek(bytes)?;
    if is_there && let Some(bound) = of(cursor) {
        return Ok(bound);
    }
    let is_before = if is_there { cursor.prev()? } else { cursor.seek_to_last()? };
    Ok(of(cursor).filter(|_| is_before).unwrap_or_else(|| bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siltstone_base::index_spec::{FixedColumns, IndexExtractor};
    use std::sync::Arc;

    /// The first word of a value, which a zero ends.
    #[derive(Debug)]
    struct Word;

    impl IndexExtractor for Word {
        fn extract(&self, _: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
            index_key.extend(value.iter().take_while(|byte| **byte != b' '));
            index_key.push(0);
            !value.is_empty()
        }
    }

    fn words() -> IndexSpec {
        IndexSpec::new("words", Arc::new(Word))
    }

    #[test]
    fn the_bytes_of_entries_stay_what_they_are() {
        let covered = |spec: IndexSpec| spec.covered(Arc::new(FixedColumns::new(Some(0..2))));
        let plain = IndexSpec::over_columns("plain", Some(0..2));
        for (spec, form, expected, len) in [
            (plain.clone(), EntryForm::Plain, &b"sl7"[..], 2),
            (covered(plain), EntryForm::Sized, b"sl7\0\0\0\0\0\0\0\x01sl\x02\0\0\0", 2),
            (words(), EntryForm::Sized, b"slate\x007\0\0\0\0\0\0\0\x01\x06\0\0\0", 6),
            (covered(words()), EntryForm::Sized, b"slate\x007\0\0\0\0\0\0\0\x01sl\x06\0\0\0", 6),
        ] {
            assert_eq!(EntryForm::of(&spec), form);
            let mut entry = b"x".to_vec();
            assert_eq!(form.put(&spec, b"7", b"slate grey", &mut entry).unwrap(), Some(len));
            assert_eq!(&entry[1..], expected);
            let covered = if spec.covered.is_some() { &b"sl"[..] } else { b"" };
            let mut buffer = b"old".to_vec();
            let read = form.read(&spec, &entry[1..], &mut buffer).unwrap();
            assert_eq!(read, IndexEntry { index_key: &expected[..len], primary_key: b"7", covered });
            assert_eq!(form.key(read), expected);
            assert_eq!(form.put(&spec, b"7", b"", &mut entry).unwrap(), None);
            assert_eq!(&entry[1..], expected, "a row without an entry leaves nothing");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(entry in prop::collection::vec(any::<u8>(), 0..20)) {
            for form in [EntryForm::Plain, EntryForm::Sized] {
                let _ = form.read(&words(), &entry, &mut Vec::new());
            }
        }
    }
}
