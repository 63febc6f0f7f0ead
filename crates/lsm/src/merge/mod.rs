//! Merge operators: values that are written as changes and put together when they are read.
//!
//! A merge writes an *operand*. What a key's value is follows from its newest put (or from none, behind a tombstone or where there is no
//! older entry) and the operands after it, oldest to newest. Reads compute it; flushes and compactions replace operands by what
//! they amount to where no snapshot can tell the difference.

mod operands;
mod operators;
#[cfg(test)]
mod tests;

pub(crate) use operands::Operands;
pub(crate) use operators::built_in;
pub use operators::{AppendOperator, MaxOperator, UInt64AddOperator};

use crate::batch::MAX_VALUE_LEN;
use siltstone_base::{Error, ErrorKind, Result};
use std::fmt;

/// Computes values from operands.
///
/// # Contract
///
/// * Both functions are pure: the same input gives the same output, today, in another process and after the next release. Two operators
///   that differ in this have different [names](Self::name).
/// * Grouping does not matter. For operands `a` then `b`, and every value `v` that may lie before them:
///   merging `b` into the result of merging `a` into `v` gives what merging `[a, b]` into `v` gives; and where
///   [`partial_merge`](Self::partial_merge) turns `[a, b]` into `c`, merging `c` into `v` gives the same. Order does matter: operands
///   come oldest first and are never exchanged.
/// * They may be called from any thread, several at a time, and while a read or a background job waits. A panic in a read is the
///   reader's; in a background job it poisons the job, not the process.
///
/// An operator is set per family with [`ColumnFamilyOptions::merge_operator`](crate::ColumnFamilyOptions::merge_operator). Tables
/// remember its name; a table with operands of an operator of another name is refused.
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// The name, which tables carry. RocksDB's own operators have the names that this engine's have.
    fn name(&self) -> &str;

    /// The value of `key` after `operands`, oldest first, were merged into `existing`; `None`: the key had no value.
    ///
    /// # Errors
    ///
    /// [`MergeFailure`] where the bytes are not such that this operator can merge them. Reads of the key then fail with
    /// [`MergeFailed`](ErrorKind::MergeFailed), until it is put or deleted; flushes and compactions keep the operands as they are.
    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeFailure>;

    /// One operand that does what `operands` do, at least two and oldest first, whatever lies before them. `None`, the default: not
    /// possible, they stay as they are.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// What the OPTIONS file says of it. The default is the name, as RocksDB says it of operators that are not its own.
    fn options_text(&self) -> String {
        self.name().to_owned()
    }
}

/// A merge operator cannot merge what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeFailure {
    reason: &'static str,
}

impl MergeFailure {
    /// A failure. The reason goes into errors, so that it is fixed text: no keys, no values.
    pub const fn new(reason: &'static str) -> Self {
        Self { reason }
    }
}

impl fmt::Display for MergeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for MergeFailure {}

/// Lets the operator of the family named `family` merge `operands`, oldest first.
///
/// # Errors
///
/// `MergeFailed` if it cannot, `LimitExceeded` if the result is longer than a value may be.
pub(crate) fn full_merge(
    operator: &dyn MergeOperator,
    family: &str,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let value = operator.full_merge(key, existing, operands).map_err(|failure| {
        let message = format!("merge operator {} of column family {family}: {failure}", operator.name());
        Error::new(ErrorKind::MergeFailed, message).with_source(failure)
    })?;
    if value.len() > MAX_VALUE_LEN {
        let message = format!("merge operator {} made a value of {} bytes", operator.name(), value.len());
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    Ok(value)
}

/// The error of a family that has operands and no operator.
#[cold]
pub(crate) fn no_operator(family: &str) -> Error {
    Error::invalid_argument(format!("merge_operator: column family {family} has merge operands and no operator is set"))
}
