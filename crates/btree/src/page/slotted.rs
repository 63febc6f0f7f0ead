//! Slots and cells: what is common to leaves and inner pages.

use super::access::{PageMut, PageRead, u16_at};
use super::header::{Header, at};
use super::search::{Slot, head_of, slot_at};
use super::{CELL_HEADER_LEN, FLAG_STAMP, MAX_PREFIX_LEN, PageKind, SLOT_LEN, Stamp, TRAILER_LEN};
use siltstone_base::prefetch::{CACHE_LINE, prefetch};

/// A cell of a leaf or of an inner page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Flags, as in [`KNOWN_FLAGS`](super::KNOWN_FLAGS).
    pub flags: u8,
    /// The key; in an inner page the separator.
    pub key: &'a [u8],
    /// The value, an [`OverflowRef`](super::OverflowRef), or the child's number.
    pub value: &'a [u8],
}

impl Cell<'_> {
    /// Bytes that the cell takes on a page, its slot included.
    pub const fn footprint(&self) -> usize {
        SLOT_LEN + CELL_HEADER_LEN + self.key.len() + self.value.len()
    }
}

/// Why a page was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditError {
    /// The cell does not fit.
    Full,
    /// There is no such slot, or the page makes no sense.
    Malformed,
}

/// The bytes of the cell at `offset`.
#[inline]
fn cell_in(bytes: &[u8], slot: Slot) -> Option<Cell<'_>> {
    let cell = bytes.get(slot.offset..bytes.len().checked_sub(TRAILER_LEN)?)?;
    let (header, rest) = cell.split_at_checked(CELL_HEADER_LEN)?;
    let (key, rest) = rest.split_at_checked(slot.key_len)?;
    Some(Cell { flags: header[0], key, value: rest.get(..usize::from(u16_at(header, 1)))? })
}

/// The cell of slot `index`; `None` if there is no such slot or the page makes no sense.
#[inline]
pub fn cell<'a>(bytes: &'a [u8], header: &Header, index: usize) -> Option<Cell<'a>> {
    if index >= usize::from(header.count) {
        return None;
    }
    cell_in(bytes, Slot::from_word(bytes.word(slot_at(index))))
}

/// The key of slot `index`.
#[inline]
pub fn key_at<'a>(bytes: &'a [u8], header: &Header, index: usize) -> Option<&'a [u8]> {
    if index >= usize::from(header.count) {
        return None;
    }
    let slot = Slot::from_word(bytes.word(slot_at(index)));
    let start = slot.offset + CELL_HEADER_LEN;
    bytes.get(start..start + slot.key_len)
}

/// Cells whose lines are asked for at once.
const MOST_PREFETCHED: usize = 16;

/// Asks for the cells of `count` slots from `first` on, the front ones at least.
pub(crate) fn prefetch_cells(bytes: &[u8], first: usize, count: usize) {
    for index in first..first.saturating_add(count.min(MOST_PREFETCHED)) {
        let slot = Slot::from_word(bytes.word(slot_at(index)));
        let cell = bytes.as_ptr().wrapping_add(slot.offset);
        prefetch(cell);
        prefetch(cell.wrapping_add(CACHE_LINE));
    }
}

fn common_len(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// The first slot whose key counts for the prefix: the first key of an inner page stands for everything below the second.
#[inline]
const fn first_keyed(header: &Header) -> usize {
    (header.kind_code == PageKind::Inner.code()) as usize
}

/// Sets another prefix and the heads of all slots that go with it.
fn set_prefix<P: PageMut + ?Sized>(page: &mut P, header: &mut Header, prefix: &[u8]) -> Option<()> {
    header.prefix_len = prefix.len() as u8;
    page.write(at::PREFIX, prefix);
    for index in first_keyed(header)..usize::from(header.count) {
        let slot = Slot::from_word(page.word(slot_at(index)));
        let key = cell_in(page.bytes(), slot)?.key;
        let head = head_of(key.get(prefix.len()..)?);
        page.set_word(slot_at(index), Slot { head, ..slot }.word());
    }
    Some(())
}

/// Shortens the prefix so far that `key`, which comes to `slot`, shares it.
#[inline]
fn admit_key<P: PageMut + ?Sized>(page: &mut P, header: &mut Header, index: usize, key: &[u8]) -> Option<()> {
    let first = first_keyed(header);
    if index < first {
        return Some(());
    }
    let prefix_len = usize::from(header.prefix_len);
    if usize::from(header.count) <= first {
        let prefix = &key[..key.len().min(MAX_PREFIX_LEN)];
        return set_prefix(page, header, prefix);
    }
    let prefix = page.bytes().get(at::PREFIX..at::PREFIX + prefix_len)?;
    let shared = common_len(prefix, key);
    if shared == prefix_len {
        return Some(());
    }
    let shorter = key[..shared].to_vec();
    set_prefix(page, header, &shorter)
}

/// Takes note of the stamp that a cell has: the header knows the highest id.
#[inline]
fn note_stamp<P: PageMut + ?Sized>(page: &mut P, flags: u8, value: &[u8]) {
    if flags & FLAG_STAMP != 0
        && let Some(stamp) = Stamp::of(flags, value)
        && stamp.id > page.word(at::HIGHEST_ID)
    {
        page.set_word(at::HIGHEST_ID, stamp.id);
    }
}

/// The highest id of a transaction that wrote a row of the page with a stamp, or higher.
pub fn highest_id<P: PageRead + ?Sized>(page: &P) -> u64 {
    page.word(at::HIGHEST_ID)
}

/// Puts a cell before slot `index`.
///
/// # Errors
///
/// `Full` leaves the page as it was.
pub fn insert<P: PageMut + ?Sized>(page: &mut P, index: usize, cell: &Cell<'_>) -> Result<(), EditError> {
    let mut header = Header::read(page);
    let len = page.page_len();
    let size = CELL_HEADER_LEN + cell.key.len() + cell.value.len();
    // Slot 0 of an inner page is exempt from the prefix: no other may come before it.
    let is_plausible = index <= usize::from(header.count)
        && (index > 0 || header.count == 0 || first_keyed(&header) == 0)
        && usize::from(header.heap) <= len.saturating_sub(TRAILER_LEN)
        && header.slots_end() <= usize::from(header.heap)
        && cell.value.len() <= usize::from(u16::MAX)
        && cell.key.len() <= usize::from(u16::MAX);
    if !is_plausible {
        return Err(EditError::Malformed);
    }
    if header.free() < size + SLOT_LEN {
        return Err(EditError::Full);
    }
    if usize::from(header.heap) - header.slots_end() < size + SLOT_LEN {
        compact(page)?;
        header = Header::read(page);
        if usize::from(header.heap).saturating_sub(header.slots_end()) < size + SLOT_LEN {
            return Err(EditError::Malformed);
        }
    }
    admit_key(page, &mut header, index, cell.key).ok_or(EditError::Malformed)?;
    let offset = usize::from(header.heap) - size;
    write_cell(page, offset, cell);
    let count = usize::from(header.count);
    page.copy_words(slot_at(index), slot_at(index + 1), count - index);
    let head = head_of(cell.key.get(usize::from(header.prefix_len)..).unwrap_or(&[]));
    page.set_word(slot_at(index), Slot { offset, key_len: cell.key.len(), head }.word());
    note_insertion(&mut header, index);
    header.count += 1;
    header.heap = offset as u16;
    header.write(page);
    Ok(())
}

/// Writes a cell whose place is reserved.
#[inline]
fn write_cell<P: PageMut + ?Sized>(page: &mut P, offset: usize, cell: &Cell<'_>) {
    let [low, high] = (cell.value.len() as u16).to_le_bytes();
    page.write(offset, &[cell.flags, low, high]);
    page.write(offset + CELL_HEADER_LEN, cell.key);
    page.write(offset + CELL_HEADER_LEN + cell.key.len(), cell.value);
    note_stamp(page, cell.flags, cell.value);
}

/// Follows runs of insertions, each beside the one before: a page that is full of one is split at its end.
#[inline]
fn note_insertion(header: &mut Header, index: usize) {
    let last = usize::from(header.last_insert);
    header.run = if header.count > 0 && index == last + 1 {
        header.run.max(0).saturating_add(1)
    } else if header.count > 0 && index == last {
        header.run.min(0).saturating_sub(1)
    } else {
        0
    };
    header.last_insert = index as u16;
}

/// Removes slot `index` and its cell.
///
/// # Errors
///
/// `Malformed`.
pub fn remove<P: PageMut + ?Sized>(page: &mut P, index: usize) -> Result<(), EditError> {
    let mut header = Header::read(page);
    let gone = cell(page.bytes(), &header, index).ok_or(EditError::Malformed)?;
    let size = gone.footprint() - SLOT_LEN;
    let count = usize::from(header.count);
    page.copy_words(slot_at(index + 1), slot_at(index), count - index - 1);
    header.count -= 1;
    header.garbage = header.garbage.saturating_add(size as u16);
    header.run = 0;
    if header.count == 0 {
        header = Header { left: header.left, right: header.right, ..empty_like(&header, page.page_len()) };
    }
    header.write(page);
    Ok(())
}

/// The header of a page of the same kind without cells.
fn empty_like(header: &Header, page_len: usize) -> Header {
    Header { kind_code: header.kind_code, ..Header::empty(PageKind::Leaf, header.level, page_len) }
}

/// Gives slot `index` another value and other flags; the key stays.
///
/// # Errors
///
/// `Full` leaves the page as it was.
pub fn replace_value<P: PageMut + ?Sized>(
    page: &mut P,
    index: usize,
    flags: u8,
    value: &[u8],
) -> Result<(), EditError> {
    let mut header = Header::read(page);
    let old = cell(page.bytes(), &header, index).ok_or(EditError::Malformed)?;
    let (key_len, old_len) = (old.key.len(), old.value.len());
    if value.len() <= old_len {
        let offset = Slot::from_word(page.word(slot_at(index))).offset;
        let [low, high] = (value.len() as u16).to_le_bytes();
        page.write(offset, &[flags, low, high]);
        page.write(offset + CELL_HEADER_LEN + key_len, value);
        note_stamp(page, flags, value);
        if value.len() < old_len {
            header.garbage = header.garbage.saturating_add((old_len - value.len()) as u16);
            header.write(page);
        }
        return Ok(());
    }
    let key = old.key.to_vec();
    if header.free() + old.footprint() < SLOT_LEN + CELL_HEADER_LEN + key_len + value.len() {
        return Err(EditError::Full);
    }
    let (run, last_insert) = (header.run, header.last_insert);
    remove(page, index)?;
    insert(page, index, &Cell { flags, key: &key, value })?;
    let mut header = Header::read(page);
    (header.run, header.last_insert) = (run, last_insert);
    header.write(page);
    Ok(())
}

/// Moves all cells together, so that what is free lies in one piece.
///
/// # Errors
///
/// `Malformed`.
pub fn compact<P: PageMut + ?Sized>(page: &mut P) -> Result<(), EditError> {
    let mut header = Header::read(page);
    let len = page.page_len();
    let mut cells = vec![0; len];
    let end = len.checked_sub(TRAILER_LEN).ok_or(EditError::Malformed)?;
    let mut heap = end;
    let mut slots = Vec::with_capacity(usize::from(header.count));
    for index in 0..usize::from(header.count) {
        let slot = Slot::from_word(page.word(slot_at(index)));
        let size = cell_in(page.bytes(), slot).ok_or(EditError::Malformed)?.footprint() - SLOT_LEN;
        heap = heap.checked_sub(size).filter(|heap| *heap >= header.slots_end()).ok_or(EditError::Malformed)?;
        let from = page.bytes().get(slot.offset..slot.offset + size).ok_or(EditError::Malformed)?;
        cells[heap..heap + size].copy_from_slice(from);
        slots.push(Slot { offset: heap, ..slot }.word());
    }
    for (index, word) in slots.into_iter().enumerate() {
        page.set_word(slot_at(index), word);
    }
    page.write(heap, &cells[heap..end]);
    header.heap = heap as u16;
    header.garbage = 0;
    header.write(page);
    Ok(())
}

/// Removes slot `from` and all behind it.
///
/// # Errors
///
/// `Malformed`.
pub fn truncate<P: PageMut + ?Sized>(page: &mut P, from: usize) -> Result<(), EditError> {
    let mut header = Header::read(page);
    let mut gone = 0_usize;
    for index in from..usize::from(header.count) {
        let cell = cell(page.bytes(), &header, index).ok_or(EditError::Malformed)?;
        gone += cell.footprint() - SLOT_LEN;
    }
    header.count = header.count.min(from as u16);
    header.garbage = header.garbage.saturating_add(gone.min(usize::from(u16::MAX)) as u16);
    (header.run, header.last_insert) = (0, header.count.saturating_sub(1));
    if header.count == 0 {
        header = Header { left: header.left, right: header.right, ..empty_like(&header, page.page_len()) };
    }
    let keyed = first_keyed(&header);
    let (first, last) = (keyed, usize::from(header.count).wrapping_sub(1));
    if header.count as usize > keyed {
        let key = |index| key_at(page.bytes(), &header, index).ok_or(EditError::Malformed);
        let (first, last) = (key(first)?, key(last)?);
        let shared = common_len(first, last).min(MAX_PREFIX_LEN);
        if shared > usize::from(header.prefix_len) {
            let prefix = first[..shared].to_vec();
            set_prefix(page, &mut header, &prefix).ok_or(EditError::Malformed)?;
        }
    }
    header.write(page);
    Ok(())
}

/// A page of `header`'s kind, level and links with the cells given, in their order. `None` if they do not fit.
pub fn build<'a>(page_len: usize, header: &Header, cells: impl IntoIterator<Item = Cell<'a>>) -> Option<Vec<u8>> {
    let mut page = vec![0; page_len];
    let mut out = Header { left: header.left, right: header.right, ..empty_like(header, page_len) };
    let mut heap = usize::from(out.heap);
    for cell in cells {
        let slots_end = out.slots_end() + SLOT_LEN;
        heap = heap.checked_sub(cell.footprint() - SLOT_LEN).filter(|heap| *heap >= slots_end)?;
        write_cell(page.as_mut_slice(), heap, &cell);
        let slot = Slot { offset: heap, key_len: cell.key.len(), head: 0 };
        page.as_mut_slice().set_word(slot_at(usize::from(out.count)), slot.word());
        out.count += 1;
    }
    out.heap = heap as u16;
    out.last_insert = out.count.saturating_sub(1);
    let keyed = first_keyed(&out);
    if usize::from(out.count) > keyed {
        let first = key_at(&page, &out, keyed)?;
        let shared = common_len(first, key_at(&page, &out, usize::from(out.count) - 1)?).min(MAX_PREFIX_LEN);
        let prefix = first[..shared].to_vec();
        set_prefix(page.as_mut_slice(), &mut out, &prefix)?;
    }
    out.write(page.as_mut_slice());
    Some(page)
}
