//! The operators that come with the engine. They do what RocksDB's of the same names do.

use super::{MergeFailure, MergeOperator};
use std::borrow::Cow;

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
        Self { name: Cow::Borrowed("StringAppendOperator"), delimiter: delimiter.into() }
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
