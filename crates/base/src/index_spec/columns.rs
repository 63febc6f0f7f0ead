//! Columns at fixed places of rows.

use super::IndexExtractor;
use std::ops::Range;

/// Reads columns that stand in memcomparable form at fixed places of a row's value. A row that is too short for one of
/// them has no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedColumns {
    columns: Box<[Range<usize>]>,
}

impl FixedColumns {
    /// The columns at these ranges of the value, in the order in which the index sorts by them.
    pub fn new(columns: impl IntoIterator<Item = Range<usize>>) -> Self {
        Self { columns: columns.into_iter().collect() }
    }
}

impl IndexExtractor for FixedColumns {
    fn extract(&self, _primary_key: &[u8], value: &[u8], index_key: &mut Vec<u8>) -> bool {
        self.columns.iter().all(|column| match value.get(column.clone()) {
            Some(bytes) => {
                index_key.extend_from_slice(bytes);
                true
            }
            None => false,
        })
    }

    fn fixed_len(&self) -> Option<usize> {
        Some(self.columns.iter().map(|column| column.len()).sum())
    }

    /// Start and end of each column, as text.
    fn identity(&self) -> Vec<u8> {
        let columns: Vec<String> =
            self.columns.iter().map(|column| format!("{}..{}", column.start, column.end)).collect();
        format!("columns {}", columns.join(" ")).into_bytes()
    }
}
