//! Searching the slots of a page.

use super::access::PageRead;
use super::header::{Header, at};
use super::{CELL_HEADER_LEN, HEADER_LEN, SLOT_LEN};
use std::cmp::Ordering;

/// The first four bytes behind a prefix as a number that sorts as they do; shorter keys are filled with zeros.
#[inline]
pub(super) fn head_of(behind_prefix: &[u8]) -> u32 {
    match behind_prefix.first_chunk() {
        Some(head) => u32::from_be_bytes(*head),
        None => {
            behind_prefix.iter().fold(0, |head, byte| head << 8 | u32::from(*byte))
                << (8 * (4 - behind_prefix.len()) as u32 % 32)
        }
    }
}

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) offset: usize,
    pub(super) key_len: usize,
    pub(super) head: u32,
}

impl Slot {
    #[inline]
    pub(super) fn from_word(word: u64) -> Self {
        Self { offset: word as u16 as usize, key_len: (word >> 16) as u16 as usize, head: (word >> 32) as u32 }
    }

    #[inline]
    pub(super) fn word(self) -> u64 {
        self.offset as u16 as u64 | (self.key_len as u16 as u64) << 16 | u64::from(self.head) << 32
    }
}

/// Where slot `index` stands.
#[inline]
pub(super) const fn slot_at(index: usize) -> usize {
    HEADER_LEN + index * SLOT_LEN
}

/// Looks for `key` among all slots: the slot that has it, or the one before which it belongs. `None` if the page makes no
/// sense, because it is damaged or changes meanwhile.
#[inline]
pub fn search<P: PageRead + ?Sized>(page: &P, header: &Header, key: &[u8]) -> Option<Result<usize, usize>> {
    search_from(page, header, key, 0)
}

/// The same among the slots from `first` on.
#[inline]
pub fn search_from<P: PageRead + ?Sized>(
    page: &P,
    header: &Header,
    key: &[u8],
    first: usize,
) -> Option<Result<usize, usize>> {
    let count = usize::from(header.count);
    let prefix_len = usize::from(header.prefix_len);
    let shared = key.get(..prefix_len).unwrap_or(key);
    if prefix_len > 0 {
        match page.compare(at::PREFIX, prefix_len, shared)? {
            Ordering::Less => return Some(Err(count.max(first))),
            Ordering::Greater => return Some(Err(first)),
            Ordering::Equal => {}
        }
    }
    let rest = &key[shared.len()..];
    let head = head_of(rest);
    let (mut low, mut high) = (first, count);
    while low < high {
        let middle = low.midpoint(high);
        let slot = Slot::from_word(page.word(slot_at(middle)));
        let order = match slot.head.cmp(&head) {
            Ordering::Equal => {
                let behind = slot.key_len.checked_sub(prefix_len)?;
                page.compare(slot.offset + CELL_HEADER_LEN + prefix_len, behind, rest)?
            }
            order => order,
        };
        match order {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Some(Ok(middle)),
        }
    }
    Some(Err(low))
}
