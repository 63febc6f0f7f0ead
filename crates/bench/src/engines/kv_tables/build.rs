//! Entries of an index that is added to rows that are there, and what is left of one that is dropped.

use super::layout::{key, prefix};
use siltstone_base::Result;
use siltstone_base::engine::{Kv, KvBatch};
use siltstone_base::index_spec::IndexSpec;

/// Bytes of entries that are sorted at a time: an engine that keeps keys in their order takes them quicker so.
const SORTED_BYTES: usize = 16 << 20;

/// Keys of one batch.
const AT_ONCE: usize = 1_000;

/// Puts the entries of all rows of number `rows` into the index of `number`. Nobody changes the rows meanwhile.
///
/// # Errors
///
/// Those of the engine and of the extractor; some entries may be there then.
pub(super) fn build<K: Kv>(kv: &K, rows: u32, number: u32, spec: &IndexSpec) -> Result<()> {
    let mut batch = KvBatch::new();
    let mut next = Some(key(rows, b""));
    while let Some(first) = next {
        let mut part = Part::read(kv, rows, &first, number, spec)?;
        part.entries.sort_unstable();
        for entries in part.entries.chunks(AT_ONCE) {
            batch.clear();
            entries.iter().for_each(|entry| batch.put(entry, b""));
            kv.write(&batch)?;
        }
        next = part.next;
    }
    Ok(())
}

/// Removes every key of the rows or of the index of this number.
///
/// # Errors
///
/// Those of the engine; some keys may be gone then.
pub(super) fn clear<K: Kv>(kv: &K, number: u32) -> Result<()> {
    let mut batch = KvBatch::new();
    let mut from = key(number, b"");
    loop {
        batch.clear();
        // A cursor that stayed open would keep what is removed.
        let mut cursor = kv.cursor()?;
        let mut is_there = cursor.seek(&from)?;
        while is_there && batch.len() < AT_ONCE && cursor.key().starts_with(&prefix(number)) {
            from.clear();
            from.extend_from_slice(cursor.key());
            batch.delete(&from);
            is_there = cursor.next()?;
        }
        drop(cursor);
        if batch.is_empty() {
            return Ok(());
        }
        kv.write(&batch)?;
    }
}

/// The entries of some rows.
struct Part {
    entries: Vec<Vec<u8>>,
    /// The key of the first row behind them.
    next: Option<Vec<u8>>,
}

impl Part {
    /// The entries of the rows from the key `first` on, as many as are sorted at a time.
    fn read<K: Kv>(kv: &K, rows: u32, first: &[u8], number: u32, spec: &IndexSpec) -> Result<Self> {
        let (of_rows, of_entries) = (prefix(rows), prefix(number));
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut cursor = kv.cursor()?;
        let mut is_there = cursor.seek(first)?;
        while is_there && let Some(primary_key) = cursor.key().strip_prefix(&of_rows[..]) {
            if bytes >= SORTED_BYTES {
                return Ok(Self { entries, next: Some(cursor.key().to_vec()) });
            }
            let mut entry = of_entries.to_vec();
            if spec.try_entry(primary_key, cursor.value(), &mut entry)? {
                bytes += entry.len();
                entries.push(entry);
            }
            is_there = cursor.next()?;
        }
        Ok(Self { entries, next: None })
    }
}
