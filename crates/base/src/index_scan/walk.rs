//! Walks over indexes of engines that keep entries as keys.

use super::{IndexScan, end_of_prefix};
use crate::Result;
use crate::engine::KvCursor;

/// Walks the entries of an index that are what follows `prefix` in keys, and hands them to `found`. Returns their number.
///
/// # Errors
///
/// Those of the cursor, and what `found` says.
pub fn walk_entries<S>(
    cursor: &mut dyn KvCursor,
    prefix: &[u8],
    scan: &IndexScan<S>,
    found: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<usize> {
    let mut seen = 0;
    let mut is_there = scan.most() > 0 && seek(cursor, prefix, scan)?;
    while is_there
        && let Some(entry) = cursor.key().strip_prefix(prefix)
        && !scan.is_beyond(entry)
    {
        found(entry)?;
        seen += 1;
        is_there = seen < scan.most() && if scan.is_reverse() { cursor.prev()? } else { cursor.next()? };
    }
    Ok(seen)
}

/// Goes to the first entry of a walk, or the first key behind all of them.
fn seek<S>(cursor: &mut dyn KvCursor, prefix: &[u8], scan: &IndexScan<S>) -> Result<bool> {
    if !scan.is_reverse() {
        return cursor.seek(&[prefix, scan.from()].concat());
    }
    let end = scan.end().map(|end| [prefix, end].concat()).or_else(|| end_of_prefix(prefix));
    match end {
        Some(end) if cursor.seek(&end)? => cursor.prev(),
        _ => cursor.seek_to_last(),
    }
}
