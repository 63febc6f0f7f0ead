//! Wide-column entities: values that are a list of named columns.
//!
//! ```text
//! varint32 1 | varint32 count | { lp name, varint32 length of the value }* | values
//! ```
//!
//! Names ascend. The column with the empty name is the default one: it is what a plain read of the key shows.

use siltstone_base::coding::{get_length_prefixed, get_varint32};
use siltstone_base::{Error, Result};

/// The version that is read.
const VERSION: u32 = 1;

/// A column of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WideColumn {
    /// The name; empty for the default column.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// The columns of a stored entity, in order of their names.
///
/// # Errors
///
/// `NotSupported` for another version, `Corruption` for bytes that are no entity.
pub(crate) fn columns(stored: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let bad = |what: &'static str| Error::corrupt(format!("wide-column entity: {what}"));
    let input = &mut { stored };
    match get_varint32(input) {
        Some(VERSION) => {}
        Some(version) => return Err(Error::not_supported(format!("wide-column entities of version {version}"))),
        None => return Err(bad("no version")),
    }
    let count = get_varint32(input).ok_or_else(|| bad("no count of columns"))? as usize;
    // A column takes two bytes at least.
    if count > input.len() / 2 {
        return Err(bad("more columns than there can be"));
    }
    let mut columns: Vec<(&[u8], &[u8])> = Vec::with_capacity(count);
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        let name = get_length_prefixed(input).ok_or_else(|| bad("bad name of a column"))?;
        if columns.last().is_some_and(|(last, _)| *last >= name) {
            return Err(bad("names of columns do not ascend"));
        }
        columns.push((name, &[]));
        lengths.push(get_varint32(input).ok_or_else(|| bad("bad length of a value"))? as usize);
    }
    let mut rest: &[u8] = input;
    for ((_, value), length) in columns.iter_mut().zip(lengths) {
        (*value, rest) = rest.split_at_checked(length).ok_or_else(|| bad("a value ends behind the entity"))?;
    }
    if !rest.is_empty() {
        return Err(bad("bytes behind the last value"));
    }
    Ok(columns)
}

/// The value of the default column; empty if there is none.
///
/// # Errors
///
/// Those of [`columns`].
pub(crate) fn default_column(stored: &[u8]) -> Result<&[u8]> {
    let columns = columns(stored)?;
    Ok(columns.first().filter(|(name, _)| name.is_empty()).map_or(&[], |(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_base::ErrorKind;

    const ENTITY: &[u8] = b"\x01\x03\x00\x03\x01a\x02\x02bc\x00defxy";

    #[test]
    fn columns_come_in_order_of_their_names() {
        assert_eq!(columns(ENTITY).unwrap(), [(&b""[..], &b"def"[..]), (b"a", b"xy"), (b"bc", b"")]);
        assert_eq!(default_column(ENTITY).unwrap(), b"def");
        assert_eq!(default_column(b"\x01\x01\x01a\x01x").unwrap(), b"");
        assert_eq!(columns(b"\x01\x00").unwrap(), []);
    }

    #[test]
    fn damage_is_corruption_and_other_versions_are_refused_by_name() {
        for len in 0..ENTITY.len() {
            assert_eq!(columns(&ENTITY[..len]).unwrap_err().kind(), ErrorKind::Corruption, "{len}");
        }
        let wrong: [&[u8]; 4] =
            [b"\x01\x00x", b"\x01\x02\x01b\x00\x01a\x00", b"\x01\x02\x00\x00\x00\x00", b"\x01\xff\xff\xff\xff\x0f"];
        for stored in wrong {
            assert_eq!(columns(stored).unwrap_err().kind(), ErrorKind::Corruption, "{stored:?}");
        }
        let refused = columns(b"\x02\x00").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported);
        assert_eq!(refused.message(), "wide-column entities of version 2");
    }
}
