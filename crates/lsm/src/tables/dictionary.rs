//! The dictionary: rows of the family `__system__` that say which tables and indexes exist.
//!
//! All numbers are big-endian. A key begins with its kind, 4 bytes:
//!
//! | kind | key behind it | value |
//! | --- | --- | --- |
//! | 1 | nothing | format (2 bytes), the smallest index id never given out (4 bytes) |
//! | 2 | name of the table | format (2 bytes), id of the primary index, number of secondary indexes (2 bytes; the highest bit: it is lazy; the next: its rows expire), for each: id, flags (1 byte), length of all index keys (4 bytes; 0 if entries say it), and three texts behind their lengths (2 bytes each): name, identity of the extractor, identity of what reads the covered columns; then, if rows expire: how long they live (seconds, 8 bytes), flags (1 byte), where the column begins that says since when (4 bytes), a stamp (8 bytes, if the flags say so): rows of that one and of earlier ones are expired, whatever the duration |
//! | 3 | index id (4 bytes) | nothing: the index is dropped |
//!
//! Flags of expiry: 1 a column says since when rows live, 2 a stamp follows. Flags of an index: 1 unique, 2 covering, 4 entries say how long their index key is, 8 entries hold columns beside, 16 it is being built.

use super::layout::{FIRST_ID, IndexId, LAST_ID};
use siltstone_base::engine::TableSpec;
use siltstone_base::expiry::{RowExpiry, TtlDuration};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::{Error, ErrorKind, Result};

/// The column family of the dictionary.
pub(crate) const FAMILY: &str = "__system__";

/// Version of the dictionary and of its rows.
///
/// In format 1 an index did not say how long its keys are, and entries of a unique one could have the form of others.
const FORMAT: u16 = 2;

/// Longest name of a table or an index, in bytes.
pub(crate) const MAX_NAME_LEN: usize = 512;

/// Longest identity of an extractor, in bytes.
pub(crate) const MAX_IDENTITY_LEN: usize = 4096;

/// Most secondary indexes of a table.
pub(crate) const MAX_INDEXES: usize = 64;

const UNIQUE: u8 = 1;
const COVERING: u8 = 2;
const SIZED: u8 = 4;
const COVERED: u8 = 8;
const BUILDING: u8 = 16;

/// In the number of indexes: the table is lazy.
const LAZY: u16 = 0x8000;

/// In the number of indexes: rows expire. Versions that do not know of it take it for too many indexes, and refuse.
const EXPIRES: u16 = 0x4000;

/// Flags of a table's expiry.
const BY_COLUMN: u8 = 1;
const EXPIRED_UNTIL: u8 = 2;

/// Kinds of dictionary rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    NextId = 1,
    Table = 2,
    Dropped = 3,
}

impl Kind {
    fn key(self, rest: &[u8]) -> Vec<u8> {
        [&(self as u32).to_be_bytes()[..], rest].concat()
    }
}

/// One row of the dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DictionaryRow {
    /// The smallest index id that was never given out.
    NextId(u32),
    /// A table and its indexes.
    Table(TableDefinition),
    /// An index that is dropped, and of whose entries some may be left.
    Dropped(IndexId),
}

/// What the dictionary knows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableDefinition {
    /// The name, unique in the directory.
    pub(crate) name: String,
    /// The index of the rows themselves.
    pub(crate) primary: IndexId,
    /// It is changed without reading what was there.
    pub(crate) lazy: bool,
    /// Its rows expire.
    pub(crate) expiry: Option<RowExpiry>,
    /// Rows of this stamp and of earlier ones are expired whatever the duration is. A backup has the dictionary, and not what the policy saves.
    pub(crate) expired_until: Option<u64>,
    /// The secondary indexes, in the order of their positions.
    pub(crate) indexes: Vec<IndexDefinition>,
}

/// What the dictionary knows of a secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexDefinition {
    pub(crate) id: IndexId,
    pub(crate) name: String,
    pub(crate) unique: bool,
    pub(crate) covering: bool,
    /// The length of all index keys. `None`: entries say how long theirs is.
    pub(crate) fixed_len: Option<u32>,
    /// What tells the extractor from others. Empty: nobody can tell.
    pub(crate) identity: Vec<u8>,
    /// Entries hold columns beside their keys; what tells their extractor from others.
    pub(crate) covered: Option<Vec<u8>>,
    /// Entries of rows that were there before it are being made.
    pub(crate) building: bool,
}

impl IndexDefinition {
    /// A new index, without entries.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad name, `LimitExceeded` for an extractor that says too much of itself, or promises longer keys than there are.
    pub(crate) fn new(spec: &IndexSpec, id: IndexId) -> Result<Self> {
        check_name("index", &spec.name)?;
        let beyond = |what: &str| {
            let message = format!("index {}: the extractor's {what} is beyond the limit", spec.name);
            Error::new(ErrorKind::LimitExceeded, message)
        };
        let fixed_len = spec.extractor.fixed_len().map(u32::try_from).transpose();
        let identity = spec.extractor.identity();
        let covered = spec.covered.as_ref().map(|covered| covered.identity());
        if identity.len().max(covered.as_ref().map_or(0, Vec::len)) > MAX_IDENTITY_LEN {
            return Err(beyond("identity"));
        }
        Ok(Self {
            id,
            name: spec.name.clone(),
            unique: spec.unique,
            covering: spec.covering,
            fixed_len: fixed_len.map_err(|_| beyond("length of keys"))?,
            identity,
            covered,
            building: false,
        })
    }

    fn flags(&self) -> u8 {
        [
            (self.unique, UNIQUE),
            (self.covering, COVERING),
            (self.fixed_len.is_none(), SIZED),
            (self.covered.is_some(), COVERED),
            (self.building, BUILDING),
        ]
        .into_iter()
        .fold(0, |flags, (is_set, flag)| if is_set { flags | flag } else { flags })
    }

    /// What of this index `spec` says otherwise. Entries of another form, or of other columns, would be taken for stale ones, and the rows' own would be missed.
    fn difference(&self, spec: &IndexSpec) -> Option<&'static str> {
        // What an extractor says of itself is compared where both say something.
        let differs = |one: &[u8], other: &[u8]| !one.is_empty() && !other.is_empty() && one != other;
        let fixed_len = self.fixed_len.map(|len| len as usize);
        let covered = spec.covered.as_ref().map(|covered| covered.identity());
        let is_covered_otherwise = match (&self.covered, &covered) {
            (None, None) => false,
            (Some(own), Some(other)) => differs(own, other),
            _ => true,
        };
        [
            (self.name != spec.name, "name"),
            (self.unique != spec.unique, "uniqueness"),
            (self.covering != spec.covering, "covering"),
            (fixed_len != spec.extractor.fixed_len(), "length of keys"),
            (differs(&self.identity, &spec.extractor.identity()), "extractor"),
            (is_covered_otherwise, "covered columns"),
        ]
        .into_iter()
        .find_map(|(is_other, what)| is_other.then_some(what))
    }

    /// Fails if its parts cannot stand together in a table that is `lazy` or not.
    fn check(&self, lazy: bool) -> Result<()> {
        match lazy && (self.unique || self.covered.is_some()) {
            true => Err(damaged("an index of a lazy table is unique, or holds columns")),
            false => Ok(()),
        }
    }
}

/// The key of the row that says that an index is dropped.
pub(crate) fn dropped_key(id: IndexId) -> Vec<u8> {
    Kind::Dropped.key(&id.to_bytes())
}

/// The key of a table's definition.
pub(crate) fn table_key(name: &str) -> Vec<u8> {
    Kind::Table.key(name.as_bytes())
}

/// The row that holds the smallest index id that was never given out.
pub(crate) fn next_id_row(next_id: u32) -> (Vec<u8>, Vec<u8>) {
    (Kind::NextId.key(&[]), [&FORMAT.to_be_bytes()[..], &next_id.to_be_bytes()].concat())
}

/// Takes a stored row apart. Every byte is checked.
pub(crate) fn decode_row(key: &[u8], value: &[u8]) -> Result<DictionaryRow> {
    let mut key = Reader(key);
    let row = match key.u32()? {
        kind if kind == Kind::NextId as u32 => {
            let mut value = Reader(value);
            value.format()?;
            let next_id = value.u32()?;
            value.end()?;
            if !(FIRST_ID.0..=LAST_ID.0 + 1).contains(&next_id) {
                return Err(damaged("the next index id is out of bounds"));
            }
            DictionaryRow::NextId(next_id)
        }
        kind if kind == Kind::Table as u32 => {
            let name = text(key.rest())?;
            DictionaryRow::Table(TableDefinition::decode(name, value)?)
        }
        kind if kind == Kind::Dropped as u32 => DictionaryRow::Dropped(IndexId::decode(key.take(4)?)?),
        _ => return Err(Error::not_supported("the dictionary of tables has a row of an unknown kind")),
    };
    key.end()?;
    Ok(row)
}

impl TableDefinition {
    /// Gives the table and its indexes the ids from `first_id` on.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad or double name, `LimitExceeded` for too many indexes or when the ids are used up.
    pub(crate) fn new(spec: &TableSpec, first_id: u32, lazy: bool) -> Result<Self> {
        check_name("table", &spec.name)?;
        let mut definition = Self {
            name: spec.name.clone(),
            primary: IndexId(first_id),
            lazy,
            expiry: None,
            expired_until: None,
            indexes: Vec::new(),
        };
        if first_id > LAST_ID.0 {
            return Err(no_ids_left());
        }
        for (position, index) in (1_u32..).zip(&spec.indexes) {
            definition.add(index, first_id.checked_add(position).ok_or_else(no_ids_left)?)?;
        }
        Ok(definition)
    }

    /// Adds an index of a new id.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub(crate) fn add(&mut self, spec: &IndexSpec, id: u32) -> Result<()> {
        if self.indexes.len() >= MAX_INDEXES {
            let message = format!("a table has at most {MAX_INDEXES} secondary indexes");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        if id > LAST_ID.0 {
            return Err(no_ids_left());
        }
        if self.indexes.iter().any(|other| other.name == spec.name) {
            return Err(Error::invalid_argument(format!("two indexes are named {}", spec.name)));
        }
        self.indexes.push(IndexDefinition::new(spec, IndexId(id))?);
        Ok(())
    }

    /// The ids of all its indexes, the primary one first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = IndexId> + '_ {
        std::iter::once(self.primary).chain(self.indexes.iter().map(|index| index.id))
    }

    /// Fails unless `spec` describes this table, which is `lazy`.
    pub(crate) fn check_spec(&self, spec: &TableSpec, lazy: bool) -> Result<()> {
        self.check_mode(lazy)?;
        if self.indexes.len() != spec.indexes.len() {
            let counts = (self.indexes.len(), spec.indexes.len());
            let message = format!("table {} has {} secondary indexes, not {}", self.name, counts.0, counts.1);
            return Err(Error::invalid_argument(message));
        }
        for (own, other) in self.indexes.iter().zip(&spec.indexes) {
            if let Some(what) = own.difference(other) {
                let message = format!("index {} of table {} was created with another {what}", own.name, self.name);
                return Err(Error::invalid_argument(message));
            }
        }
        Ok(())
    }

    /// Fails unless its rows expire, or do not, by stamps of the same origin.
    pub(crate) fn check_expiry(&self, expiry: Option<&RowExpiry>) -> Result<()> {
        if self.expiry.map(|own| own.column()) == expiry.map(RowExpiry::column) {
            return Ok(());
        }
        let own = match self.expiry.map(|own| own.column()) {
            None => "do not expire".to_owned(),
            Some(None) => "expire after their writing".to_owned(),
            Some(Some(at)) => format!("expire by their column at {at}"),
        };
        Err(Error::invalid_argument(format!("ttl: rows of table {} {own}", self.name)))
    }

    /// Fails unless the table is changed in this way.
    #[inline]
    pub(crate) fn check_mode(&self, lazy: bool) -> Result<()> {
        if self.lazy == lazy { Ok(()) } else { Err(self.wrong_mode()) }
    }

    #[cold]
    fn wrong_mode(&self) -> Error {
        let is = if self.lazy { "is" } else { "is not" };
        Error::invalid_argument(format!("table {} {is} lazy, and stays so until it is made anew", self.name))
    }

    /// The row as it is stored.
    pub(crate) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let mut value = Vec::new();
        value.extend_from_slice(&FORMAT.to_be_bytes());
        value.extend_from_slice(&self.primary.to_bytes());
        let lazy = if self.lazy { LAZY } else { 0 };
        let expires = if self.expiry.is_some() { EXPIRES } else { 0 };
        value.extend_from_slice(&(self.indexes.len() as u16 | lazy | expires).to_be_bytes());
        for index in &self.indexes {
            value.extend_from_slice(&index.id.to_bytes());
            value.push(index.flags());
            value.extend_from_slice(&index.fixed_len.unwrap_or(0).to_be_bytes());
            // Their lengths were checked when the index was defined.
            for text in [index.name.as_bytes(), &index.identity, index.covered.as_deref().unwrap_or_default()] {
                value.extend_from_slice(&(text.len() as u16).to_be_bytes());
                value.extend_from_slice(text);
            }
        }
        if let Some(expiry) = &self.expiry {
            value.extend_from_slice(&expiry.duration().seconds().to_be_bytes());
            let column = if expiry.column().is_some() { BY_COLUMN } else { 0 };
            value.push(column | if self.expired_until.is_some() { EXPIRED_UNTIL } else { 0 });
            value.extend_from_slice(&expiry.column().unwrap_or(0).to_be_bytes());
            if let Some(stamp) = self.expired_until {
                value.extend_from_slice(&stamp.to_be_bytes());
            }
        }
        (table_key(&self.name), value)
    }

    fn decode(name: String, value: &[u8]) -> Result<Self> {
        let mut value = Reader(value);
        value.format()?;
        let primary = IndexId::decode(value.take(4)?)?;
        let count = value.u16()?;
        let (lazy, expires) = (count & LAZY != 0, count & EXPIRES != 0);
        let count = usize::from(count & !(LAZY | EXPIRES));
        if count > MAX_INDEXES {
            return Err(Error::new(ErrorKind::LimitExceeded, "a table in the dictionary has too many indexes"));
        }
        let mut indexes = Vec::with_capacity(count);
        for _ in 0..count {
            let id = IndexId::decode(value.take(4)?)?;
            let flags = value.take(1)?.first().copied().unwrap_or(0);
            if flags & !(UNIQUE | COVERING | SIZED | COVERED | BUILDING) != 0 {
                return Err(Error::not_supported("an index in the dictionary has an unknown flag"));
            }
            let fixed_len = Some(value.u32()?).filter(|_| flags & SIZED == 0);
            let name = text(value.prefixed()?)?;
            let (identity, covered) = (identity(value.prefixed()?)?, identity(value.prefixed()?)?);
            let index = IndexDefinition {
                id,
                name,
                unique: flags & UNIQUE != 0,
                covering: flags & COVERING != 0,
                fixed_len,
                identity,
                covered: Some(covered).filter(|_| flags & COVERED != 0),
                building: flags & BUILDING != 0,
            };
            index.check(lazy)?;
            if indexes.iter().any(|other: &IndexDefinition| other.name == index.name) {
                return Err(damaged("two indexes of a table have one name"));
            }
            indexes.push(index);
        }
        let (expiry, expired_until) = if expires { value.expiry()? } else { (None, None) };
        value.end()?;
        Ok(Self { name, primary, lazy, expiry, expired_until, indexes })
    }
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if (1..=MAX_NAME_LEN).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!("the name of a {what} has 1 to {MAX_NAME_LEN} bytes, not {}", name.len())))
}

#[cold]
fn no_ids_left() -> Error {
    Error::new(ErrorKind::LimitExceeded, "no index ids are left in this directory")
}

#[cold]
fn damaged(what: &'static str) -> Error {
    Error::corrupt(format!("dictionary of tables: {what}"))
}

fn text(bytes: &[u8]) -> Result<String> {
    if !(1..=MAX_NAME_LEN).contains(&bytes.len()) {
        return Err(damaged("the length of a name is out of bounds"));
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| damaged("a name is not UTF-8"))
}

fn identity(bytes: &[u8]) -> Result<Vec<u8>> {
    match bytes.len() <= MAX_IDENTITY_LEN {
        true => Ok(bytes.to_vec()),
        false => Err(damaged("the length of an identity is out of bounds")),
    }
}

/// Reads big-endian fields from the front; a short row is corruption.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(len).ok_or_else(|| damaged("a row is too short"))?;
        self.0 = rest;
        Ok(field)
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(self.take(2)?.iter().fold(0, |number, byte| number << 8 | u16::from(*byte)))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(self.take(4)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(self.take(8)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// When rows expire, and up to which stamp they are expired.
    fn expiry(&mut self) -> Result<(Option<RowExpiry>, Option<u64>)> {
        let seconds = self.u64()?;
        let duration = TtlDuration::from_seconds(seconds).map_err(|_| damaged("a duration is out of bounds"))?;
        let expiry = RowExpiry::after(duration);
        let flags = self.take(1)?.first().copied().unwrap_or(0);
        if flags & !(BY_COLUMN | EXPIRED_UNTIL) != 0 {
            return Err(Error::not_supported("the expiry of a table in the dictionary has an unknown flag"));
        }
        let expiry = match (flags & BY_COLUMN != 0, self.u32()?) {
            (false, 0) => expiry,
            (true, at) => expiry.from_column(at),
            (false, _) => return Err(damaged("the column that says when rows expire is none")),
        };
        let expired_until = if flags & EXPIRED_UNTIL != 0 { Some(self.u64()?) } else { None };
        Ok((Some(expiry), expired_until))
    }

    /// Bytes behind their length.
    fn prefixed(&mut self) -> Result<&'a [u8]> {
        let len = usize::from(self.u16()?);
        self.take(len)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn format(&mut self) -> Result<()> {
        match self.u16()? {
            FORMAT => Ok(()),
            1 => Err(Error::not_supported(
                "format 1 of the dictionary of tables, which this version does not read: read the rows with the version that wrote them, and insert them into tables of a new directory",
            )),
            other => Err(Error::not_supported(format!(
                "format {other} of the dictionary of tables: a newer version wrote it; this one reads format {FORMAT}"
            ))),
        }
    }

    fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(damaged("a row is too long")) }
    }
}
