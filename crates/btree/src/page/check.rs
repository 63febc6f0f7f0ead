//! Whether a page makes sense: the check that every page passes when it comes from disk.

use super::access::PageRead;
use super::header::{Header, PageKind, at};
use super::search::{Slot, head_of, slot_at};
use super::slotted::cell;
use super::{
    CELL_HEADER_LEN, FLAG_DELETED, FLAG_OVERFLOW, FLAG_STAMP, HEADER_LEN, KNOWN_FLAGS, Stamp, TRAILER_LEN, body, chain,
};

/// Levels of a tree: with the fewest children that a full page has, as many pages as there are numbers need fewer.
const MAX_LEVELS: u8 = 32;

/// Whether the slots and cells of a page are as this version writes them: within the page, in order, with the heads that belong to
/// their keys. Costs a walk over all cells.
///
/// # Errors
///
/// What is wrong, in words.
pub fn check(bytes: &[u8]) -> Result<(), &'static str> {
    if bytes.len() < HEADER_LEN + TRAILER_LEN {
        return Err("the page is too short");
    }
    let header = Header::read(bytes);
    let kind = header.kind().ok_or("the page is of a kind that this version does not know")?;
    match kind {
        PageKind::Leaf if header.level != 0 => Err("a leaf says that there are levels beneath it"),
        PageKind::Inner if header.level == 0 || header.count == 0 => Err("an inner page has no children"),
        PageKind::Inner if header.level >= MAX_LEVELS => Err("an inner page is on a level that no tree has"),
        PageKind::Leaf | PageKind::Inner => check_cells(bytes, &header, kind == PageKind::Inner),
        PageKind::Overflow => {
            let end = usize::from(header.heap);
            let fits = (HEADER_LEN..=bytes.len() - TRAILER_LEN).contains(&end);
            if fits { Ok(()) } else { Err("an overflow page ends outside of itself") }
        }
        PageKind::Space | PageKind::Free => Ok(()),
        PageKind::Bitmap => check_bitmap(bytes),
    }
}

/// Four bits a page, of which the highest is reserved.
fn check_bitmap(bytes: &[u8]) -> Result<(), &'static str> {
    let states = bytes.get(HEADER_LEN..HEADER_LEN + bytes.len() / 2).ok_or("the page is too short")?;
    if states.iter().any(|byte| byte & 0x88 != 0) {
        return Err("a bitmap says what this version does not understand");
    }
    Ok(())
}

fn check_cells(bytes: &[u8], header: &Header, is_inner: bool) -> Result<(), &'static str> {
    let heap = usize::from(header.heap);
    if header.slots_end() > heap || heap > bytes.len() - TRAILER_LEN {
        return Err("slots and cells overlap");
    }
    let prefix_len = usize::from(header.prefix_len);
    let prefix = &bytes[at::PREFIX..at::PREFIX + prefix_len];
    let mut used = 0;
    let mut before: Option<&[u8]> = None;
    for index in 0..usize::from(header.count) {
        let slot = Slot::from_word(bytes.word(slot_at(index)));
        let cell = cell(bytes, header, index).ok_or("a cell ends outside its page")?;
        if slot.offset < heap {
            return Err("a cell lies outside the heap");
        }
        used += CELL_HEADER_LEN + cell.key.len() + cell.value.len();
        check_value(cell.flags, cell.value, is_inner)?;
        if is_inner && index == 0 {
            continue;
        }
        let rest = cell.key.strip_prefix(prefix).ok_or("a key lacks the prefix of its page")?;
        if slot.head != head_of(rest) {
            return Err("the head of a slot is not that of its key");
        }
        if before.is_some_and(|before| before >= cell.key) {
            return Err("keys are out of order");
        }
        before = Some(cell.key);
    }
    if used + usize::from(header.garbage) != bytes.len() - TRAILER_LEN - heap {
        return Err("the bytes of the cells do not add up");
    }
    Ok(())
}

fn check_value(flags: u8, value: &[u8], is_inner: bool) -> Result<(), &'static str> {
    if flags & !KNOWN_FLAGS != 0 {
        return Err("a cell has flags that this version does not know");
    }
    if is_inner && (value.len() != 4 || flags != 0) {
        return Err("a child is not a page number");
    }
    if flags & FLAG_STAMP != 0 && Stamp::of(flags, value).is_none_or(|stamp| stamp.id == 0) {
        return Err("a stamp is malformed");
    }
    if flags & FLAG_OVERFLOW != 0 && chain(flags, value).is_none() {
        return Err("a reference to a long value is malformed");
    }
    if flags & FLAG_DELETED != 0 && (flags != FLAG_STAMP | FLAG_DELETED || !body(flags, value).is_empty()) {
        return Err("a deleted row has a value, or no stamp");
    }
    Ok(())
}
