//! Leaves: rows in the order of their keys.
//!
//! Path: get 5/5. Before: buffer/pool.rs.

use super::header::Header;
use super::search::search;
use super::slotted::{Cell, cell};

/// Looks for `key` in a leaf: its slot and cell, or the slot before which it belongs. `None` if the page makes no sense.
#[inline]
pub fn find<'a>(bytes: &'a [u8], key: &[u8]) -> Option<Result<(usize, Cell<'a>), usize>> {
    let header = Header::read(bytes);
    Some(match search(bytes, &header, key)? {
        Ok(index) => Ok((index, cell(bytes, &header, index)?)),
        Err(index) => Err(index),
    })
}
