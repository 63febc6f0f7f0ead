//! Bitmap pages: what is known of each leaf without reading it, 4 bits a page, and their image in memory.
//!
//! Page 1 of every so many pages as a page has bytes is a bitmap of these pages. Bits 0 and 1 of a page's four are its *room class*: a lower bound of what is free on it. Bit
//! 2 says that the change buffer has entries for it; bit 3 is reserved, 0. Only leaves of trees whose entries may be buffered have a state other than 0.
//!
//! The image in memory is changed where the bitmap pages are, under their latches, by whoever has the lock of writers. Anyone may read it at any time.

use crate::page::HEADER_LEN;
use siltstone_base::Error;
use siltstone_base::sync::OnceLock;
use siltstone_base::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// What is known of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeafState(u8);

const CLASS: u8 = 0b0011;
const PENDING: u8 = 0b0100;

impl LeafState {
    /// Bytes that are free on the page at least.
    pub(crate) const fn room(self, page_len: usize) -> usize {
        match self.0 & CLASS {
            0 => 0,
            class => (page_len / 64) << class,
        }
    }

    /// Whether the change buffer has entries for the page.
    pub(crate) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// The same with entries, or without.
    #[must_use]
    pub(crate) const fn with_pending(self, is_pending: bool) -> Self {
        Self(if is_pending { self.0 | PENDING } else { self.0 & !PENDING })
    }

    /// The same with the room that so many free bytes are.
    #[must_use]
    pub(crate) const fn with_free(self, free: usize, page_len: usize) -> Self {
        let unit = page_len / 64;
        let class = if free >= 8 * unit {
            3
        } else if free >= 4 * unit {
            2
        } else if free >= 2 * unit {
            1
        } else {
            0
        };
        Self(self.0 & !CLASS | class)
    }
}

/// The bitmap page that has the state of a page.
pub(crate) const fn bitmap_of(number: u32, page_len: usize) -> u32 {
    (number & !(page_len as u32 - 1)) + 1
}

/// Whether a page is a bitmap.
#[inline]
pub(crate) const fn is_bitmap(number: u32, page_len: usize) -> bool {
    number & (page_len as u32 - 1) == 1
}

/// Where in its bitmap page the state of a page is: the offset of a byte, and the bits in it.
pub(crate) const fn place_of(number: u32, page_len: usize) -> (usize, u32) {
    let index = number as usize & (page_len - 1);
    (HEADER_LEN + index / 2, (index % 2) as u32 * 4)
}

/// A byte of a bitmap page with the state of one of its two pages changed.
pub(crate) const fn with_state(byte: u8, shift: u32, state: LeafState) -> u8 {
    byte & !(0xf << shift) | state.0 << shift
}

/// The state that a byte of a bitmap page says.
pub(crate) const fn state_in(byte: u8, shift: u32) -> LeafState {
    LeafState(byte >> shift & 0xf)
}

/// Bytes of states in the first part.
const FIRST_BYTES: usize = 512;

/// The bitmap pages of one tablespace in memory.
#[derive(Debug)]
pub(crate) struct LeafStates {
    /// Each twice as long as the one before, as the tablespace grows.
    parts: [OnceLock<Box<[AtomicU8]>>; 24],
    /// Pages with entries.
    pending: AtomicU32,
    /// Why the states are not known, if a bitmap page could not be read.
    damage: OnceLock<Error>,
}

impl LeafStates {
    pub(super) fn new() -> Self {
        Self { parts: [const { OnceLock::new() }; 24], pending: AtomicU32::new(0), damage: OnceLock::new() }
    }

    /// The part of a byte, and where in it the byte is.
    #[inline]
    fn locate(byte: usize) -> (usize, usize) {
        let part = (byte / FIRST_BYTES + 1).ilog2() as usize;
        (part, byte - FIRST_BYTES * ((1 << part) - 1))
    }

    #[inline]
    fn byte(&self, byte: usize) -> u8 {
        let (part, at) = Self::locate(byte);
        let part = self.parts.get(part).and_then(OnceLock::get);
        part.and_then(|part| part.get(at)).map_or(0, |byte| byte.load(Ordering::Acquire))
    }

    /// Takes note that a bitmap page can't be read: any page may have entries then.
    #[cold]
    pub(crate) fn set_damage(&self, error: Error) {
        let _ = self.damage.set(error);
    }

    /// Why the states are not known.
    pub(crate) fn damage(&self) -> Option<&Error> {
        self.damage.get()
    }

    /// What is known of a page.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> LeafState {
        state_in(self.byte(number as usize / 2), number % 2 * 4)
    }

    /// Whether the change buffer has entries for a page.
    #[inline]
    pub(crate) fn is_pending(&self, number: u32) -> bool {
        self.has_pending() && (self.get(number).is_pending() || self.damage.get().is_some())
    }

    /// Whether the change buffer has entries for any page of the tablespace.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0 || self.damage.get().is_some()
    }

    /// Pages for which the change buffer has entries.
    pub(crate) fn pending_pages(&self) -> u32 {
        self.pending.load(Ordering::Acquire)
    }

    /// Takes over bytes of a bitmap page. For who changes it.
    pub(crate) fn note(&self, bitmap: u32, offset: usize, bytes: &[u8]) {
        let Some(first) = offset.checked_sub(HEADER_LEN) else { return };
        let first = (bitmap as usize - 1) / 2 + first;
        let pages = |byte: u8| u32::from(state_in(byte, 0).is_pending()) + u32::from(state_in(byte, 4).is_pending());
        for (index, byte) in (first..).zip(bytes) {
            let (part, at) = Self::locate(index);
            let make = || (0..FIRST_BYTES << part).map(|_| AtomicU8::new(0)).collect();
            let Some(part) = self.parts.get(part) else { return };
            if *byte == 0 && part.get().is_none() {
                continue;
            }
            let Some(kept) = part.get_or_init(make).get(at) else { return };
            // The number never falls below that of the pages that a reader can see.
            self.pending.fetch_add(pages(*byte), Ordering::AcqRel);
            let before = kept.swap(*byte, Ordering::AcqRel);
            self.pending.fetch_sub(pages(before), Ordering::AcqRel);
        }
    }

    /// The next page with entries from a number on.
    pub(crate) fn next_pending(&self, from: u32) -> Option<u32> {
        if !self.has_pending() {
            return None;
        }
        let mut byte = from as usize / 2;
        loop {
            let (index, at) = Self::locate(byte);
            let Some(part) = self.parts.get(index)?.get() else {
                // Nothing was ever said of these pages.
                byte += (FIRST_BYTES << index) - at;
                continue;
            };
            let said = part.get(at)?.load(Ordering::Acquire);
            for shift in [0, 4] {
                let number = byte as u32 * 2 + shift / 4;
                if number >= from && state_in(said, shift).is_pending() {
                    return Some(number);
                }
            }
            byte += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn rooms_never_overstate() {
        for page_len in [512, 4096, 16 << 10, 64 << 10] {
            for free in (0..page_len).step_by(3) {
                let state = LeafState::default().with_pending(true).with_free(free, page_len);
                assert!(state.room(page_len) <= free && state.is_pending());
                assert!(!state.with_pending(false).is_pending());
            }
            let rooms = [0, page_len / 32, page_len / 16, page_len / 8];
            assert_eq!(rooms.map(|free| LeafState::default().with_free(free, page_len).room(page_len)), rooms);
        }
    }

    #[test]
    fn the_states_of_all_pages_fit_into_their_bitmap() {
        for page_len in [512_usize, 64 << 10] {
            assert_eq!(bitmap_of(0, page_len), 1);
            let last = 3 * page_len as u32 - 1;
            assert_eq!(bitmap_of(last, page_len), 2 * page_len as u32 + 1);
            assert!(is_bitmap(bitmap_of(last, page_len), page_len) && !is_bitmap(last, page_len));
            let (offset, shift) = place_of(last, page_len);
            assert!(offset + 8 < page_len && shift == 4);
        }
    }

    proptest! {
        #[test]
        fn the_image_says_what_the_pages_say(
            changes in prop::collection::vec((0_u32..40_000, 0_u8..8), 0..60),
        ) {
            let (page_len, states) = (512, LeafStates::new());
            let mut bytes = BTreeMap::new();
            let mut model = BTreeMap::new();
            for (number, state) in changes {
                let (bitmap, (offset, shift)) = (bitmap_of(number, page_len), place_of(number, page_len));
                let byte = bytes.entry((bitmap, offset)).or_insert(0);
                *byte = with_state(*byte, shift, LeafState(state));
                states.note(bitmap, offset, &[*byte]);
                model.insert(number, LeafState(state));
            }
            let pending: Vec<u32> =
                model.iter().filter(|(_, state)| state.is_pending()).map(|(number, _)| *number).collect();
            for (number, state) in model {
                prop_assert_eq!(states.get(number), state);
                prop_assert_eq!(states.is_pending(number), state.is_pending());
            }
            prop_assert_eq!(states.pending_pages() as usize, pending.len());
            let mut found = Vec::new();
            while let Some(next) = states.next_pending(found.last().map_or(0, |last| last + 1)) {
                found.push(next);
            }
            prop_assert_eq!(found, pending);
        }
    }
}
