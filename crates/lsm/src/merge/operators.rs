//! The operators that come with the engine. They do what RocksDB's of the same names do.

use super::{MergeFailure, MergeOperator};
use std::borrow::Cow;
use std::sync::Arc;

/// RocksDB's name of [`AppendOperator`].
const APPEND: &str = "StringAppendOperator";

/// Joins the old value and the operands with a delimiter.
///
/// Named `StringAppendOperator` as in RocksDB, unless [`named`](Self::named) otherwise. Like there, the delimiter is not part of the
/// name: who opens a database with another one gets values with both.
#[derive(Debug, Clone)]
pub struct AppendOperator {
    name: Cow<'static, str>,
    delimiter: Vec<u8>,
}

impl AppendOperator {
    /// Joins with `delimiter`, which may be empty.
    pub fn new(delimiter: impl Into<Vec<u8>>) -> Self {
        Self { name: Cow::Borrowed(APPEND), delimiter: delimiter.into() }
    }

    /// The same under another name, for databases whose own operator does the same.
    #[must_use]
    pub fn named(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), ..self }
    }

    fn join<'a>(&self, parts: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
        let bytes = parts.clone().map(|part| part.len() + self.delimiter.len()).sum();
        let mut joined = Vec::with_capacity(bytes);
        for (index, part) in parts.enumerate() {
            if index > 0 {
                joined.extend_from_slice(&self.delimiter);
            }
            joined.extend_from_slice(part);
        }
        joined
    }
}

impl MergeOperator for AppendOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        Ok(self.join(existing.into_iter().chain(operands.iter().copied())))
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(self.join(operands.iter().copied()))
    }

    /// With the delimiter, if the file can say it. Otherwise nothing: with another one RocksDB would make other values.
    fn options_text(&self) -> String {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"{};=#\\:".contains(byte);
        match std::str::from_utf8(&self.delimiter) {
            _ if self.name != APPEND => self.name.clone().into_owned(),
            Ok(delimiter) if self.delimiter.iter().all(is_plain) => format!("{{id={APPEND};delimiter={delimiter};}}"),
            _ => String::new(),
        }
    }
}

/// Adds unsigned numbers of 64 bits, little-endian, modulo 2^64. No value counts as 0.
///
/// Values and operands of another length are refused; RocksDB's operator takes them for 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct UInt64AddOperator;

impl UInt64AddOperator {
    fn sum<'a>(mut numbers: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
        let sum =
            numbers.try_fold(0_u64, |sum, bytes| Some(sum.wrapping_add(u64::from_le_bytes(bytes.try_into().ok()?))));
        sum.map(|sum| sum.to_le_bytes().to_vec())
    }
}

impl MergeOperator for UInt64AddOperator {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        Self::sum(existing.into_iter().chain(operands.iter().copied()))
            .ok_or(MergeFailure::new("a value or an operand is not 8 bytes long"))
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Self::sum(operands.iter().copied())
    }
}

/// Keeps the largest of the old value and the operands, compared as bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaxOperator;

impl MaxOperator {
    fn max<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        values.max().unwrap_or_default().to_vec()
    }
}

impl MergeOperator for MaxOperator {
    fn name(&self) -> &str {
        "MaxOperator"
    }

    fn full_merge(&self, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure> {
        Ok(Self::max(existing.into_iter().chain(operands.iter().copied())))
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(Self::max(operands.iter().copied()))
    }
}

/// The operator of which the OPTIONS file says this, if it is one of those here that RocksDB has too.
pub(crate) fn built_in(text: &str) -> Option<Arc<dyn MergeOperator>> {
    let mut parts = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default().split(';');
    let id = parts.next().and_then(|part| part.strip_prefix("id=")).unwrap_or(text);
    match id {
        APPEND | "stringappend" => {
            // Without a word about it RocksDB takes a comma.
            let delimiter = parts.find_map(|part| part.strip_prefix("delimiter=")).unwrap_or(",");
            Some(Arc::new(AppendOperator::new(delimiter)))
        }
        "UInt64AddOperator" | "uint64add" => Some(Arc::new(UInt64AddOperator)),
        "MaxOperator" | "max" => Some(Arc::new(MaxOperator)),
        _ => None,
    }
}
