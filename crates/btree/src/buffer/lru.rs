//! The order of use: a list in two parts, young pages in front, old ones behind.
//!
//! A page that is read comes in where the old part begins (the midpoint). It is made young, moved to the front, when it is used again after
//! some time; a scan, which uses a page several times at once and never again, leaves the young part alone.

use super::frame::NO_FRAME;

#[derive(Debug, Clone, Copy)]
struct Links {
    /// Towards the front.
    before: u32,
    /// Towards the end.
    behind: u32,
    is_old: bool,
    is_listed: bool,
}

/// A change of sublist that the frame must be told.
pub(super) type Moved<'a> = &'a mut dyn FnMut(u32, bool);

/// The list. Frames are named by their index.
#[derive(Debug)]
pub(super) struct Lru {
    links: Box<[Links]>,
    head: u32,
    tail: u32,
    /// The first old page.
    midpoint: u32,
    len: usize,
    old_len: usize,
    old_percent: usize,
}

impl Lru {
    pub(super) fn new(frames: usize, old_percent: usize) -> Self {
        let links = Links { before: NO_FRAME, behind: NO_FRAME, is_old: false, is_listed: false };
        Self {
            links: vec![links; frames].into_boxed_slice(),
            head: NO_FRAME,
            tail: NO_FRAME,
            midpoint: NO_FRAME,
            len: 0,
            old_len: 0,
            old_percent,
        }
    }

    /// Pages, and how many of them are old.
    pub(super) fn lens(&self) -> (usize, usize) {
        (self.len, self.old_len)
    }

    /// Whether a frame's page is in the list.
    pub(super) fn is_listed(&self, frame: u32) -> bool {
        self.links.get(frame as usize).is_some_and(|links| links.is_listed)
    }

    /// From the oldest page towards the youngest.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.tail;
        std::iter::from_fn(move || {
            let links = self.links.get(at as usize)?;
            Some(std::mem::replace(&mut at, links.before))
        })
    }

    /// From the youngest page towards the oldest.
    pub(super) fn youngest_first(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let links = self.links.get(at as usize)?;
            Some(std::mem::replace(&mut at, links.behind))
        })
    }

    /// Puts a page in at the midpoint.
    pub(super) fn insert(&mut self, frame: u32, moved: Moved<'_>) {
        let before = match self.links.get(self.midpoint as usize) {
            Some(links) => links.before,
            None => self.tail,
        };
        self.link(frame, before, true);
        self.midpoint = frame;
        moved(frame, true);
        self.balance(moved);
    }

    /// Moves a page to the front.
    pub(super) fn make_young(&mut self, frame: u32, moved: Moved<'_>) {
        if self.links[frame as usize].is_listed {
            self.unlink(frame);
            self.link(frame, NO_FRAME, false);
            moved(frame, false);
            self.balance(moved);
        }
    }

    /// Takes a page out.
    pub(super) fn remove(&mut self, frame: u32, moved: Moved<'_>) {
        if self.links[frame as usize].is_listed {
            self.unlink(frame);
            self.balance(moved);
        }
    }

    /// Links a page behind `before`, or in front of all.
    fn link(&mut self, frame: u32, before: u32, is_old: bool) {
        let behind = match self.links.get(before as usize) {
            Some(links) => links.behind,
            None => self.head,
        };
        self.links[frame as usize] = Links { before, behind, is_old, is_listed: true };
        match self.links.get_mut(before as usize) {
            Some(links) => links.behind = frame,
            None => self.head = frame,
        }
        match self.links.get_mut(behind as usize) {
            Some(links) => links.before = frame,
            None => self.tail = frame,
        }
        self.len += 1;
        self.old_len += usize::from(is_old);
    }

    fn unlink(&mut self, frame: u32) {
        let Links { before, behind, is_old, .. } = self.links[frame as usize];
        match self.links.get_mut(before as usize) {
            Some(links) => links.behind = behind,
            None => self.head = behind,
        }
        match self.links.get_mut(behind as usize) {
            Some(links) => links.before = before,
            None => self.tail = before,
        }
        if self.midpoint == frame {
            self.midpoint = behind;
        }
        self.links[frame as usize].is_listed = false;
        self.len -= 1;
        self.old_len -= usize::from(is_old);
    }

    /// Moves the midpoint until the old part has its share.
    fn balance(&mut self, moved: Moved<'_>) {
        let wanted = self.len * self.old_percent / 100;
        while self.old_len < wanted {
            let next = match self.links.get(self.midpoint as usize) {
                Some(links) => links.before,
                None => self.tail,
            };
            let Some(links) = self.links.get_mut(next as usize) else { return };
            links.is_old = true;
            self.midpoint = next;
            self.old_len += 1;
            moved(next, true);
        }
        while self.old_len > wanted {
            let Some(links) = self.links.get_mut(self.midpoint as usize) else { return };
            links.is_old = false;
            moved(self.midpoint, false);
            self.midpoint = links.behind;
            self.old_len -= 1;
        }
    }
}
