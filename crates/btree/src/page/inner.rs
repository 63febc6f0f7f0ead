//! Inner pages: separators and the children behind them.
//!
//! A cell's key is a separator, its value the number of a child. The child of slot i holds the keys from separator i up to
//! separator i + 1, exclusive. Separator 0 counts as lower than everything, whatever it says.

use super::access::PageRead;
use super::header::Header;
use super::search::{Slot, search_from, slot_at};
use super::{CELL_HEADER_LEN, TRAILER_LEN};

/// The slot whose child may hold `key`, and the child's number. `None` if the page makes no sense.
#[inline]
pub fn child_for<P: PageRead + ?Sized>(page: &P, header: &Header, key: &[u8]) -> Option<(usize, u32)> {
    if header.count == 0 {
        return None;
    }
    let index = match search_from(page, header, key, 1)? {
        Ok(index) => index,
        Err(index) => index.checked_sub(1)?,
    };
    Some((index, child_at(page, index)?))
}

/// The child of slot `index`, which exists.
#[inline]
pub fn child_at<P: PageRead + ?Sized>(page: &P, index: usize) -> Option<u32> {
    let slot = Slot::from_word(page.word(slot_at(index)));
    let at = slot.offset + CELL_HEADER_LEN + slot.key_len;
    if at + 4 > page.page_len().checked_sub(TRAILER_LEN)? {
        return None;
    }
    let (word, shift) = (at / 8 * 8, at % 8 * 8);
    let low = page.word(word) >> shift;
    let child = if shift > 32 { low | page.word(word + 8) << (64 - shift) } else { low };
    Some(child as u32)
}

/// The separator of slot `index`, which exists. `None` if the page makes no sense.
pub fn separator_at<P: PageRead + ?Sized>(page: &P, index: usize) -> Option<Vec<u8>> {
    let slot = Slot::from_word(page.word(slot_at(index)));
    let start = slot.offset + CELL_HEADER_LEN;
    let end = start + slot.key_len;
    let byte = |at: usize| (page.word(at / 8 * 8) >> (at % 8 * 8)) as u8;
    (end <= page.page_len().checked_sub(TRAILER_LEN)?).then(|| (start..end).map(byte).collect())
}

/// The shortest key that is greater than `left` and not greater than `right`; `left` is less than `right`.
pub fn shortest_separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    let shared = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    &right[..right.len().min(shared + 1)]
}
