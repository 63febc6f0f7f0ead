//! The memory of one size class.

#![expect(unsafe_code, reason = "slots are handed out as memory of their own")]

use super::memory::Memory;
use super::slab::{Slab, Standing, slab_bytes};
use super::source::Source;
use std::collections::BTreeSet;

/// So much memory between the buffers of a class is no reason to trim slabs, however few its buffers are.
const HOLES: usize = 256 << 10;

/// A slab is trimmed when this part of a slab's bytes was given back, so that all are by the time that this part of the class was.
const TRIMS: usize = 16;

/// Where a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    slab: u32,
    slot: u16,
}

/// The slabs of a class. The first one with room is taken from, so that the last ones become empty.
#[derive(Default)]
pub(super) struct Class {
    /// `None`: given back, and the place is free for another one.
    slabs: Vec<Option<Slab>>,
    with_room: BTreeSet<u32>,
    vacant: Vec<u32>,
    /// Bytes of the buffers that are alive, in slabs or not.
    pub(super) in_use: usize,
    /// Bytes of those that are in slabs.
    in_slabs: usize,
    /// Bytes of the slabs' pages that have memory.
    resident: usize,
    /// Bytes of those among them whose slabs are empty.
    empty: usize,
    /// Bytes that were given back since a slab was trimmed.
    untrimmed: usize,
    /// Slabs from here on are trimmed next.
    next_trimmed: u32,
}

/// A slab whose last buffer was given back.
pub(super) struct Emptied {
    pub(super) slab: u32,
    /// Bytes of its memory.
    pub(super) bytes: usize,
    /// It is not listed as an empty one yet.
    pub(super) is_new: bool,
}

/// What becomes of a slab that has been listed as an empty one for longest.
pub(super) enum Leaves {
    /// It goes.
    Now(Slab),
    /// It is of use now and then, and is listed anew.
    Later,
    /// It has buffers, or is gone.
    Never,
}

impl Class {
    /// A slot of `len` bytes, and how many bytes of memory of an empty slab are in use again by it. `None` if no slab has room.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Option<(Memory, usize)> {
        let number = *self.with_room.first()?;
        let slab = self.slabs.get_mut(number as usize)?.as_mut()?;
        let resident = slab.resident_bytes();
        let was_empty = if slab.is_empty() { resident } else { 0 };
        if slab.is_empty() && slab.standing == Standing::Listed {
            slab.standing = Standing::Reused;
        }
        let (slot, data) = slab.take()?;
        self.resident += slab.resident_bytes() - resident;
        self.empty -= was_empty;
        if !slab.has_room() {
            self.with_room.remove(&number);
        }
        self.in_slabs += len;
        // SAFETY: all slots of a class have its length, and memory that was mapped is initialised. Nobody else has this one, which is not taken again before it is given back, and a slab
        // stays mapped while it is not empty.
        let memory = unsafe { Memory::of_slot(data, len, Place { slab: number, slot }) };
        Some((memory, was_empty))
    }

    /// Takes a slot back. Says whether its slab is empty now.
    #[inline]
    pub(super) fn give_back(&mut self, place: Place, len: usize) -> Option<Emptied> {
        let slab = self.slabs.get_mut(place.slab as usize)?.as_mut()?;
        if !slab.has_room() {
            self.with_room.insert(place.slab);
        }
        slab.give_back(place.slot);
        self.in_slabs -= len;
        if slab.is_empty() {
            let bytes = slab.resident_bytes();
            self.empty += bytes;
            let is_new = slab.standing == Standing::Unlisted;
            if is_new {
                slab.standing = Standing::Listed;
            }
            return Some(Emptied { slab: place.slab, bytes, is_new });
        }
        self.untrimmed += len;
        if self.untrimmed >= slab_bytes(self.resident) / TRIMS && self.has_many_holes() {
            self.trim_next();
        }
        None
    }

    /// Whether the memory between buffers is more than a quarter of theirs.
    #[inline]
    fn has_many_holes(&self) -> bool {
        self.free_bytes() - self.empty > self.in_slabs / 4 + HOLES
    }

    /// Trims the next slab that has room and is not empty. What is done at once is bounded by the size of a slab, and the class by how much is given back in between.
    #[cold]
    fn trim_next(&mut self) {
        self.untrimmed = 0;
        let mut next = self.with_room.range(self.next_trimmed..).chain(&self.with_room);
        let Some(number) = next.next().copied() else { return };
        self.next_trimmed = number.saturating_add(1);
        self.trim(number);
    }

    fn trim(&mut self, number: u32) {
        let Some(Some(slab)) = self.slabs.get_mut(number as usize) else { return };
        if !slab.is_empty() {
            let resident = slab.resident_bytes();
            slab.trim();
            self.resident -= resident - slab.resident_bytes();
        }
    }

    /// Trims all slabs.
    #[cfg(test)]
    pub(super) fn trim_all(&mut self) {
        let with_room: Vec<u32> = self.with_room.iter().copied().collect();
        with_room.into_iter().for_each(|number| self.trim(number));
    }

    /// Adds a slab with room for buffers of `len` bytes; says how many bytes of memory it has already, `None` if there is none.
    #[cold]
    pub(super) fn grow(&mut self, len: usize, source: &'static Source) -> Option<usize> {
        let slab = Slab::new(len, self.in_slabs, source)?;
        let resident = slab.resident_bytes();
        self.resident += resident;
        self.empty += resident;
        let number = self.vacant.pop().unwrap_or(self.slabs.len() as u32);
        match self.slabs.get_mut(number as usize) {
            Some(place) => *place = Some(slab),
            None => self.slabs.push(Some(slab)),
        }
        self.with_room.insert(number);
        Some(resident)
    }

    /// Decides about a slab that has been listed for longest. One that goes is to be released without a lock.
    pub(super) fn leave(&mut self, number: u32) -> Leaves {
        let Some(Some(slab)) = self.slabs.get_mut(number as usize) else { return Leaves::Never };
        match slab.standing {
            Standing::Unlisted => Leaves::Never,
            _ if !slab.is_empty() => {
                slab.standing = Standing::Unlisted;
                Leaves::Never
            }
            Standing::Reused => {
                slab.standing = Standing::Listed;
                Leaves::Later
            }
            Standing::Listed => self.remove(number).map_or(Leaves::Never, Leaves::Now),
        }
    }

    /// Takes a slab out that is empty, to be released without a lock.
    pub(super) fn remove(&mut self, number: u32) -> Option<Slab> {
        let slab = self.slabs.get_mut(number as usize)?.take()?;
        self.with_room.remove(&number);
        self.vacant.push(number);
        self.resident -= slab.resident_bytes();
        self.empty -= slab.resident_bytes();
        Some(slab)
    }

    /// Takes all empty slabs out.
    #[cfg(test)]
    pub(super) fn remove_empty(&mut self) -> Vec<Slab> {
        let is_empty = |slab: &Option<Slab>| slab.as_ref().is_some_and(Slab::is_empty);
        let empty: Vec<u32> = self
            .with_room
            .iter()
            .copied()
            .filter(|number| self.slabs.get(*number as usize).is_some_and(is_empty))
            .collect();
        empty.into_iter().filter_map(|slab| self.remove(slab)).collect()
    }

    /// Bytes of memory that no buffer uses.
    #[inline]
    pub(super) fn free_bytes(&self) -> usize {
        self.resident - self.in_slabs
    }
}

impl Drop for Class {
    fn drop(&mut self) {
        self.slabs.drain(..).flatten().for_each(Slab::release);
    }
}
