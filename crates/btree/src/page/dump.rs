//! A page as text, for people who look for what is wrong with one.

use super::access::{PageRead, u32_at};
use super::compressed::{decompress, is_compressed, stored_len};
use super::header::{Header, PageId, PageKind, at};
use super::search::{Slot, slot_at};
use super::slotted::{cell, highest_id};
use super::{FLAG_DELETED, HEADER_LEN, Stamp, TRAILER_LEN, body, chain, check, overflow_payload, verify};
use siltstone_base::text_table::Shown;
use std::fmt::{self, Write};

/// A page as text: whether it is whole, its header, and a line for each slot, keys and values abbreviated. Takes any bytes: what makes no sense is shown as far as it can be, and said
/// to make none.
///
/// ```
/// use siltstone_btree::page::{Cell, Header, PageId, PageKind, build, dump, seal};
///
/// let cells = [("granite", "igneous"), ("slate", "metamorphic")];
/// let cells = cells.map(|(key, value)| Cell { flags: 0, key: key.as_bytes(), value: value.as_bytes() });
/// let mut page = build(4096, &Header::empty(PageKind::Leaf, 0, 4096), cells).expect("they fit");
/// seal(&mut page, PageId::new(1, 2), 77);
/// assert_eq!(
///     dump(&page).lines().collect::<Vec<_>>(),
///     [
///         "page 1:2, leaf, level 0, LSN 77, 4096 bytes",
///         "left 0, right 0, cells from 4052, garbage 0, free 3940, run 0 to slot 1, highest id 0, prefix \"\"",
///         "   0 @4071 \"granite\" = 7 bytes \"igneous\"",
///         "   1 @4052 \"slate\" = 11 bytes \"metamorphic\"",
///     ]
/// );
/// ```
pub fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut out, bytes);
    out
}

fn write_page(out: &mut String, bytes: &[u8]) -> fmt::Result {
    if bytes.len() < HEADER_LEN + TRAILER_LEN {
        return writeln!(out, "{} bytes, which is too short for a page", bytes.len());
    }
    let header = Header::read(bytes);
    let id = PageId::new(u32_at(bytes, at::ID), u32_at(bytes, at::ID + 4));
    let kind = header.kind().map_or_else(|| format!("kind {}", header.kind_code), |kind| format!("{kind:?}"));
    let (level, lsn) = (header.level, bytes.word(at::LSN));
    writeln!(out, "{id}, {}, level {level}, LSN {lsn}, {} bytes", kind.to_lowercase(), bytes.len())?;
    if let Err(damage) = verify(bytes, id) {
        writeln!(out, "damaged: {damage}")?;
    }
    if is_compressed(bytes) {
        writeln!(out, "compressed, stored in {} bytes:", stored_len(bytes))?;
        let mut page = vec![0; bytes.len()];
        return match decompress(bytes, &mut page) {
            // One that would be compressed once more is refused before.
            Ok(()) => write_contents(out, &page, &Header::read(page.as_slice())),
            Err(damage) => writeln!(out, "damaged: {damage}"),
        };
    }
    write_contents(out, bytes, &header)
}

fn write_contents(out: &mut String, bytes: &[u8], header: &Header) -> fmt::Result {
    if let Err(what) = check(bytes) {
        writeln!(out, "makes no sense: {what}")?;
    }
    match header.kind() {
        Some(PageKind::Leaf) => write_cells(out, bytes, header, false),
        Some(PageKind::Inner) => write_cells(out, bytes, header, true),
        Some(PageKind::Overflow) => {
            let payload = overflow_payload(bytes, header).unwrap_or(&[]);
            writeln!(out, "next {}, {} bytes of a value {}", header.right, payload.len(), Shown(payload))
        }
        Some(PageKind::Free) => writeln!(out, "next {}", header.right),
        _ => writeln!(out, "{}", Shown(bytes.get(HEADER_LEN..).unwrap_or(&[]))),
    }
}

fn write_cells(out: &mut String, bytes: &[u8], header: &Header, is_inner: bool) -> fmt::Result {
    let Header { left, right, heap, garbage, run, last_insert, .. } = header;
    let prefix = bytes.get(at::PREFIX..at::PREFIX + usize::from(header.prefix_len)).unwrap_or(&[]);
    let free = header.free();
    write!(out, "left {left}, right {right}, cells from {heap}, garbage {garbage}, free {free}, ")?;
    let highest = highest_id(bytes);
    writeln!(out, "run {run} to slot {last_insert}, highest id {highest}, prefix {}", Shown(prefix))?;
    for index in 0..usize::from(header.count) {
        if slot_at(index + 1) > bytes.len() {
            return writeln!(out, "{index:4} and all behind it lie outside the page");
        }
        let slot = Slot::from_word(bytes.word(slot_at(index)));
        write!(out, "{index:4} @{} ", slot.offset)?;
        let Some(cell) = cell(bytes, header, index) else {
            writeln!(out, "a cell that ends outside the page")?;
            continue;
        };
        write!(out, "{}", Shown(cell.key))?;
        if is_inner {
            writeln!(out, " -> page {}", u32_at(cell.value, 0))?;
            continue;
        }
        if let Some(stamp) = Stamp::of(cell.flags, cell.value) {
            write!(out, " by {}.{}", stamp.id, stamp.number)?;
        }
        let value = body(cell.flags, cell.value);
        match chain(cell.flags, cell.value) {
            Some(long) => writeln!(out, " = {} bytes on pages {} to {}", long.len, long.first, long.last)?,
            None if cell.flags & FLAG_DELETED != 0 => writeln!(out, " deleted")?,
            None => writeln!(out, " = {} bytes {}", value.len(), Shown(value))?,
        }
    }
    Ok(())
}
