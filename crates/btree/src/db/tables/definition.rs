//! Definitions of tables, as the catalog keeps them. `docs/src/formats/redo.md` has the bytes.
//!
//! A table is several rows of the catalog: one for the tree of its rows and one for each index. They are written together, and lie together behind the rows of plain trees,
//! whose names never begin with the byte 255.

use super::entry::EntryForm;
use siltstone_base::checksum::xxh3_64;
use siltstone_base::engine::TableSpec;
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::{Error, ErrorKind, Result};

/// The first byte of the key of a table's row.
const TABLE: u8 = 0xff;

const UNIQUE: u32 = 1;
const COVERING: u32 = 2;
/// The row says what its keys are. Tables of earlier versions have indexes that do not.
const DESCRIBED: u32 = 4;
/// Its entries are [sized](EntryForm::Sized).
const SIZED: u32 = 8;
/// Its entries hold columns beside their keys.
const COVERED: u32 = 16;

/// The length of keys where it is not the same for all.
const ANY_LEN: u32 = u32::MAX;

/// Bytes of the longest name of a table or an index.
const MAX_NAME_LEN: usize = 64;

/// Indexes of one table.
const MAX_INDEXES: usize = 64;

/// A secondary index as the catalog knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct IndexDefinition {
    pub(super) name: String,
    pub(super) is_unique: bool,
    pub(super) is_covering: bool,
    pub(super) is_covered: bool,
    pub(super) form: EntryForm,
    pub(super) space: u32,
    /// `None`: it was created by a version that did not keep that.
    keys: Option<KeysDefinition>,
}

/// What the keys of an index are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeysDefinition {
    /// The length of each, or [`ANY_LEN`].
    len: u32,
    /// The XXH3-64 of what the extractor says of itself, and the one of covered columns; 0: one of them says nothing.
    identity: u64,
}

impl KeysDefinition {
    fn new(spec: &IndexSpec) -> Result<Self> {
        let len = match spec.extractor.fixed_len() {
            None => ANY_LEN,
            Some(len) => u32::try_from(len).ok().filter(|len| *len != ANY_LEN).ok_or_else(|| {
                let message = format!("index {}: the extractor's length of keys is beyond the limit", spec.name);
                Error::new(ErrorKind::LimitExceeded, message)
            })?,
        };
        let mut identity = spec.extractor.identity();
        if let Some(covered) = &spec.covered {
            let covered = covered.identity();
            match covered.is_empty() {
                true => identity.clear(),
                false if identity.is_empty() => {}
                false => identity.extend([&b"\0covered "[..], &covered].concat()),
            }
        }
        Ok(Self { len, identity: if identity.is_empty() { 0 } else { xxh3_64(&identity) } })
    }

    /// What of these keys is otherwise in `other`. Entries of another form, or of other columns, would not be found, and those of the rows would be missed.
    fn difference(self, other: Self) -> Option<&'static str> {
        match () {
            () if self.len != other.len => Some("length of keys"),
            // What an extractor says of itself is compared where both say something.
            () if self.identity != 0 && other.identity != 0 && self.identity != other.identity => Some("extractor"),
            () => None,
        }
    }
}

/// A table as the catalog knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct TableDefinition {
    pub(super) name: String,
    /// The tablespace of its rows.
    pub(super) space: u32,
    pub(super) indexes: Vec<IndexDefinition>,
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_LEN).contains(&name.len())
}

fn u32_of(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

impl TableDefinition {
    /// A table whose trees get the tablespaces from `space` on.
    pub(super) fn new(spec: &TableSpec, space: u32) -> Result<Self> {
        if !is_name(&spec.name) {
            return Err(Error::invalid_argument("the name of a table has 1 to 64 bytes"));
        }
        // At most 64 indexes.
        let end = space.checked_add(spec.indexes.len() as u32 + 1);
        end.ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "a database has no more than 2^32 trees in its life"))?;
        let mut table = Self { name: spec.name.clone(), space, indexes: Vec::with_capacity(spec.indexes.len()) };
        for (number, index) in (1..).zip(&spec.indexes) {
            table.add(index, space + number)?;
        }
        Ok(table)
    }

    fn add(&mut self, spec: &IndexSpec, space: u32) -> Result<()> {
        if self.indexes.len() >= MAX_INDEXES {
            return Err(Error::new(ErrorKind::LimitExceeded, "a table has no more than 64 indexes"));
        }
        if !is_name(&spec.name) || self.indexes.iter().any(|index| index.name == spec.name) {
            let message = "the names of a table's indexes have 1 to 64 bytes, and differ";
            return Err(Error::invalid_argument(message));
        }
        self.indexes.push(IndexDefinition {
            name: spec.name.clone(),
            is_unique: spec.unique,
            is_covering: spec.covering,
            is_covered: spec.covered.is_some(),
            form: EntryForm::of(spec),
            space,
            keys: Some(KeysDefinition::new(spec)?),
        });
        Ok(())
    }

    /// The same table with an index behind those that it has.
    pub(super) fn with_index(&self, spec: &IndexSpec, space: u32) -> Result<Self> {
        let mut table = self.clone();
        table.add(spec, space)?;
        Ok(table)
    }

    /// The same table without the index at a position.
    pub(super) fn without_index(&self, position: usize) -> Self {
        let mut table = self.clone();
        if position < table.indexes.len() {
            table.indexes.remove(position);
        }
        table
    }

    /// Refuses extractors of another table.
    pub(super) fn check_spec(&self, spec: &TableSpec) -> Result<()> {
        let is_same = |(own, other): (&IndexDefinition, &IndexSpec)| {
            own.name == other.name
                && own.is_unique == other.unique
                && own.is_covering == other.covering
                && own.is_covered == other.covered.is_some()
        };
        if self.indexes.len() != spec.indexes.len() || !self.indexes.iter().zip(&spec.indexes).all(is_same) {
            let message = format!("table {} was created with indexes of other names or flags", self.name);
            return Err(Error::invalid_argument(message));
        }
        for (own, other) in self.indexes.iter().zip(&spec.indexes) {
            let Some(keys) = own.keys else { continue };
            if let Some(what) = keys.difference(KeysDefinition::new(other)?) {
                let message = format!("index {} of table {} was created with another {what}", own.name, self.name);
                return Err(Error::invalid_argument(message));
            }
        }
        Ok(())
    }

    /// The tablespaces of its trees.
    pub(in super::super) fn spaces(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.space).chain(self.indexes.iter().map(|index| index.space))
    }

    fn key(&self, number: u8) -> Vec<u8> {
        [&[TABLE, self.name.len() as u8][..], self.name.as_bytes(), &[number]].concat()
    }

    /// Keys and values of its rows, in their order.
    pub(super) fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = vec![(self.key(0), [self.space.to_le_bytes(), [0; 4]].concat())];
        for (number, index) in (1..).zip(&self.indexes) {
            let flags = [
                (index.is_unique, UNIQUE),
                (index.is_covering, COVERING),
                (index.keys.is_some(), DESCRIBED),
                (index.form == EntryForm::Sized, SIZED),
                (index.is_covered, COVERED),
            ];
            let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).sum::<u32>();
            let mut value = [index.space.to_le_bytes(), flags.to_le_bytes()].concat();
            if let Some(keys) = index.keys {
                value.extend_from_slice(&keys.len.to_le_bytes());
                value.extend_from_slice(&keys.identity.to_le_bytes());
            }
            value.extend_from_slice(index.name.as_bytes());
            rows.push((self.key(number), value));
        }
        rows
    }

    /// Whether a row of the catalog is one of a table.
    pub(in super::super) fn is_row(key: &[u8]) -> bool {
        key.first() == Some(&TABLE)
    }

    /// Adds a row to the tables that were read so far, in the order of the catalog. `None` if it makes no sense behind them.
    pub(in super::super) fn read_row(tables: &mut Vec<Self>, key: &[u8], value: &[u8]) -> Option<()> {
        let (len, rest) = key.strip_prefix(&[TABLE])?.split_first()?;
        let (name, number) = rest.split_at_checked(usize::from(*len))?;
        let (name, [number]) = (std::str::from_utf8(name).ok().filter(|name| is_name(name))?, number) else {
            return None;
        };
        let (space, flags, rest) = (u32_of(value)?, u32_of(value.get(4..)?)?, value.get(8..)?);
        if *number == 0 {
            let is_sound = flags == 0 && rest.is_empty() && tables.iter().all(|table| table.name != name);
            tables.push(Self { name: name.to_owned(), space, indexes: Vec::new() });
            return is_sound.then_some(());
        }
        let table = tables.last_mut()?;
        let (keys, rest) = match flags & DESCRIBED {
            0 => (None, rest),
            _ => {
                let (keys, name) = rest.split_at_checked(12)?;
                let identity = keys.get(4..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
                (Some(KeysDefinition { len: u32_of(keys)?, identity }), name)
            }
        };
        let index = IndexDefinition {
            name: std::str::from_utf8(rest).ok().filter(|name| is_name(name))?.to_owned(),
            is_unique: flags & UNIQUE != 0,
            is_covering: flags & COVERING != 0,
            is_covered: flags & COVERED != 0,
            form: if flags & SIZED == 0 { EntryForm::Plain } else { EntryForm::Sized },
            space,
            keys,
        };
        // What entries hold beside their keys has a place in sized ones alone.
        let is_shaped = !index.is_covered || index.form == EntryForm::Sized;
        let is_next = is_shaped && table.name == name && usize::from(*number) == table.indexes.len() + 1;
        let is_sound = is_next
            && flags & !(UNIQUE | COVERING | DESCRIBED | SIZED | COVERED) == 0
            && table.indexes.len() < MAX_INDEXES;
        table.indexes.push(index);
        is_sound.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn definition() -> TableDefinition {
        let unique = IndexSpec::over_columns("a", Some(0..1)).unique(true).covering(false);
        let spec =
            TableSpec { name: "rows".to_owned(), indexes: vec![unique, IndexSpec::over_columns("b", Some(1..2))] };
        let definition = TableDefinition::new(&spec, 7).unwrap();
        assert!(definition.check_spec(&spec).is_ok());
        let others = [
            TableSpec { indexes: spec.indexes[..1].to_vec(), ..spec.clone() },
            TableSpec { indexes: vec![spec.indexes[1].clone(), spec.indexes[0].clone()], ..spec.clone() },
            TableSpec { indexes: vec![spec.indexes[0].clone().unique(false), spec.indexes[1].clone()], ..spec.clone() },
            // Other columns of the same length, and of another one.
            TableSpec {
                indexes: vec![spec.indexes[0].clone(), IndexSpec::over_columns("b", Some(2..3))],
                ..spec.clone()
            },
            TableSpec { indexes: vec![spec.indexes[0].clone(), IndexSpec::over_columns("b", Some(1..3))], ..spec },
        ];
        others
            .iter()
            .for_each(|other| assert_eq!(definition.check_spec(other).unwrap_err().kind(), ErrorKind::InvalidArgument));
        definition
    }

    #[test]
    fn definitions_are_read_as_they_are_written() {
        let definition = definition();
        let rows = definition.rows();
        assert_eq!(rows[0], (b"\xff\x04rows\x00".to_vec(), b"\x07\0\0\0\0\0\0\0".to_vec()));
        let value = |head: &[u8], columns: &str, name: &[u8]| {
            [head, b"\x01\0\0\0", &xxh3_64(columns.as_bytes()).to_le_bytes(), name].concat()
        };
        let first = value(b"\x08\0\0\0\x05\0\0\0", "columns 0..1", b"a");
        assert_eq!(rows[1], (b"\xff\x04rows\x01".to_vec(), first));
        let second = value(b"\x09\0\0\0\x06\0\0\0", "columns 1..2", b"b");
        assert_eq!(rows[2], (b"\xff\x04rows\x02".to_vec(), second));
        let mut tables = Vec::new();
        let all = rows.iter().all(|(key, value)| TableDefinition::read_row(&mut tables, key, value).is_some());
        assert!(all && tables == [definition]);
        // Rows that are missing, repeated, of another table, or with a flag that nobody knows.
        for wrong in [&[1][..], &[0, 2], &[0, 0], &[0, 1, 1]] {
            let mut tables = Vec::new();
            let mut read = |row: &usize| TableDefinition::read_row(&mut tables, &rows[*row].0, &rows[*row].1);
            assert!(wrong.iter().any(|row| read(row).is_none()), "{wrong:?}");
        }
        for (key, value) in [
            (&b"\xff\x04rows\x03"[..], &b"\x08\0\0\0\x20\0\0\0c"[..]),
            // Covered columns in entries that have no place for them.
            (b"\xff\x04rows\x03", b"\x08\0\0\0\x10\0\0\0c"),
            (b"\xff\x04rows\x03", b"\x08\0\0\0\x04\0\0\0\x01\0\0\0hashhas"),
            (b"\xff\x04rowt\x03", b"\x08\0\0\0\x01\0\0\0c"),
            (b"\xff\x04rows\x03", b"\x08\0\0\0\x01\0\0\0"),
            (b"\xff\x04rows", b"\x08\0\0\0\x01\0\0\0c"),
        ] {
            assert!(TableDefinition::read_row(&mut tables.clone(), key, value).is_none());
        }
    }

    /// Tables of earlier versions do not say what their keys are, and open with whatever they are given.
    #[test]
    fn a_table_of_an_earlier_version_still_opens() {
        let rows =
            [(&b"\xff\x04rows\x00"[..], &b"\x07\0\0\0\0\0\0\0"[..]), (b"\xff\x04rows\x01", b"\x08\0\0\0\x02\0\0\0a")];
        let mut tables = Vec::new();
        assert!(rows.iter().all(|(key, value)| TableDefinition::read_row(&mut tables, key, value).is_some()));
        for columns in [0..1, 3..9] {
            let indexes = vec![IndexSpec::over_columns("a", Some(columns))];
            assert!(tables[0].check_spec(&TableSpec { name: "rows".to_owned(), indexes }).is_ok());
        }
        assert_eq!(tables[0].rows()[1].1, rows[1].1, "and stays as it is");
    }

    #[test]
    fn names_that_cannot_be_kept_are_refused() {
        let spec = |name: &str, indexes: &[&str]| TableSpec {
            name: name.to_owned(),
            indexes: indexes.iter().map(|name| IndexSpec::over_columns(*name, Some(0..1))).collect(),
        };
        for wrong in [spec("", &[]), spec(&"n".repeat(65), &[]), spec("t", &["a", "a"]), spec("t", &[""])] {
            assert_eq!(TableDefinition::new(&wrong, 3).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(
            TableDefinition::new(&spec("t", &["a"]), u32::MAX - 1).unwrap_err().kind(),
            ErrorKind::LimitExceeded
        );
    }

    proptest! {
        #[test]
        fn no_row_makes_reading_panic(
            key in prop::collection::vec(any::<u8>(), 0..12),
            value in prop::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut tables = vec![definition()];
            let _ = TableDefinition::read_row(&mut tables, &[&[TABLE], &key[..]].concat(), &value);
        }
    }
}
