//! The memory of one buffer, wherever it is from.

#![expect(unsafe_code, reason = "buffers lie in slabs that are mapped and given back as a whole")]

use super::buffers::Place;
use crate::{Error, ErrorKind, Result};
use std::ptr::NonNull;

/// Bytes that one buffer has to itself. Its owner gives it back: to the class of its [`place`](Self::place), or by [`free`](Self::free).
pub(super) struct Memory {
    data: NonNull<u8>,
    len: usize,
    place: Option<Place>,
}

// SAFETY: as with a box, the bytes are this value's alone, wherever it is.
unsafe impl Send for Memory {}
// SAFETY: shared references give shared slices only.
unsafe impl Sync for Memory {}

impl Memory {
    /// Nothing.
    pub(super) fn empty() -> Self {
        Self::boxed(Box::default())
    }

    /// Memory of the allocator.
    pub(super) fn boxed(data: Box<[u8]>) -> Self {
        let len = data.len();
        let data = NonNull::from(Box::leak(data)).cast();
        Self { data, len, place: None }
    }

    /// `len` bytes of the allocator, zeroed.
    pub(super) fn try_boxed(len: usize) -> Result<Self> {
        let mut data = Vec::new();
        data.try_reserve_exact(len)
            .map_err(|error| Error::new(ErrorKind::OutOfMemory, "block buffer").with_source(error))?;
        data.resize(len, 0);
        Ok(Self::boxed(data.into_boxed_slice()))
    }

    /// A slot of a slab.
    ///
    /// # Safety
    ///
    /// The `len` bytes from `data` on are initialised and nobody else's, and stay mapped until the slot at `place` is given back.
    pub(super) unsafe fn of_slot(data: NonNull<u8>, len: usize, place: Place) -> Self {
        Self { data, len, place: Some(place) }
    }

    /// Where it lies; `None`: it is the allocator's.
    #[inline]
    pub(super) fn place(&self) -> Option<Place> {
        self.place
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are initialised, and this value's as long as it lives.
        unsafe { NonNull::slice_from_raw_parts(self.data, self.len).as_ref() }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the value is borrowed exclusively.
        unsafe { NonNull::slice_from_raw_parts(self.data, self.len).as_mut() }
    }

    /// Gives memory of the allocator back to it. That of a slot stays where it is.
    pub(super) fn free(self) {
        if self.place.is_none() {
            let data = NonNull::slice_from_raw_parts(self.data, self.len);
            // SAFETY: it was leaked from such a box in `boxed`, and is given back once, since this consumes the value.
            drop(unsafe { Box::from_raw(data.as_ptr()) });
        }
    }
}
