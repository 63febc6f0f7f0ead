//! The rows of sysbench's tables.
//!
//! A row's value is `k` in memcomparable form (4 bytes), `c` (119 characters) and `pad` (59).

use crate::Rng;
use siltstone_base::engine::{Row, TableSpec};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::memcomparable::{get, put};
use siltstone_base::{Error, Result};
use std::ops::Range;

const K: Range<usize> = 0..4;
/// Ten groups of eleven digits.
const C: Range<usize> = 4..4 + 119;
/// Five groups.
const PAD: Range<usize> = 123..123 + 59;

/// Digits of a group; a dash stands between two.
const GROUP: usize = 11;

/// Table `number`, counted from 1.
pub(super) fn table(number: u32) -> TableSpec {
    TableSpec { indexes: vec![index(number)], ..plain_table(number) }
}

/// The same without its index, which it gets once its rows are there.
pub(super) fn plain_table(number: u32) -> TableSpec {
    TableSpec { name: format!("sbtest{number}"), indexes: Vec::new() }
}

/// The index of table `number`.
pub(super) fn index(number: u32) -> IndexSpec {
    IndexSpec::over_columns(format!("k_{number}"), [K])
}

/// A row in memory that is used again.
#[derive(Debug, Clone, Default)]
pub(super) struct RowBuffer {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl RowBuffer {
    /// The key of row `id`, counted from 1.
    pub(super) fn set_id(&mut self, id: u32) {
        self.key.clear();
        put::<i32>(&mut self.key, id as i32);
    }

    /// Draws every column but the key.
    pub(super) fn draw(&mut self, rows: u32, rng: &mut Rng) {
        self.value.clear();
        put::<i32>(&mut self.value, 1 + rng.below(u64::from(rows)) as i32);
        push_groups(&mut self.value, C.len(), rng);
        push_groups(&mut self.value, PAD.len(), rng);
    }

    /// Adds one to `k`.
    pub(super) fn add_to_k(&mut self) -> Result<()> {
        let next = k(&self.value)?.wrapping_add(1);
        let mut encoded = Vec::with_capacity(K.len());
        put::<i32>(&mut encoded, next);
        self.value.get_mut(K).ok_or_else(cut)?.copy_from_slice(&encoded);
        Ok(())
    }

    /// Draws `c`.
    pub(super) fn draw_c(&mut self, rng: &mut Rng) -> Result<()> {
        let column = self.value.get_mut(C).ok_or_else(cut)?;
        for (place, byte) in column.iter_mut().enumerate() {
            *byte = character(place, rng);
        }
        Ok(())
    }

    pub(super) fn as_row(&self) -> Row<'_> {
        Row { primary_key: &self.key, value: &self.value }
    }

    /// Bytes of the row and of its entry.
    pub(super) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len() + K.len() + self.key.len()) as u64
    }
}

fn push_groups(value: &mut Vec<u8>, len: usize, rng: &mut Rng) {
    value.extend((0..len).map(|place| character(place, rng)));
}

fn character(place: usize, rng: &mut Rng) -> u8 {
    if place % (GROUP + 1) == GROUP { b'-' } else { b'0' + rng.below(10) as u8 }
}

/// Column `k` of a row.
pub(super) fn k(value: &[u8]) -> Result<i32> {
    get::<i32>(&mut value.get(K).ok_or_else(cut)?)
}

/// Column `c` of a row.
pub(super) fn c(value: &[u8]) -> Result<&[u8]> {
    value.get(C).ok_or_else(cut)
}

/// The number in the key of a row.
pub(super) fn id(mut key: &[u8]) -> Result<i32> {
    get::<i32>(&mut key)
}

#[cold]
fn cut() -> Error {
    Error::corrupt("a row of sysbench is cut off")
}
