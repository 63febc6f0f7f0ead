//! The descent.
//!
//! Path: get 3/5. Before: db/read.rs. After: buffer/pool.rs.

use super::Tree;
use super::overflow::Value;
use crate::buffer::{ExclusiveGuard, Optimistic, SharedGuard};
use crate::meanwhile::{Gap, passing};
use crate::metrics::Counter;
use crate::page::{self, FLAG_OVERFLOW, Header, PageId, PageKind, PageRead, Stamp};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, ErrorKind, Result};

/// Where a descent leads.
#[derive(Debug, Clone, Copy)]
pub(super) enum Route<'a> {
    /// To the leaf that has the key, or would have it.
    Key(&'a [u8]),
    /// To the first leaf.
    First,
    /// To the last leaf.
    Last,
}

impl Route<'_> {
    #[inline]
    fn child<P: PageRead + ?Sized>(&self, page: &P, header: &Header) -> Option<(usize, u32)> {
        match self {
            Self::Key(key) => page::child_for(page, header, key),
            Self::First => Some((0, page::child_at(page, 0)?)),
            Self::Last => {
                let last = usize::from(header.count).checked_sub(1)?;
                Some((last, page::child_at(page, last)?))
            }
        }
    }
}

/// Times that a descent begins again. Others change a page now and then; so often it only happens where all frames but one are dirty and can't be written.
const MAX_RESTARTS: usize = 100_000;

/// Times that a descent begins again of which nothing depends.
const BRING_IN_TRIES: usize = 3;

const TOO_SMALL: &str = "the pages of one descent push each other out; buffer_pool_bytes is too small for this call";

/// Why a step of a descent did not succeed.
enum Miss {
    /// Something changed: begin again.
    Changed,
    /// Entries wait for the leaf: they are brought in, and the descent begins again.
    Waits(u32),
    /// An error that stands.
    Failed(Error),
}

/// Whether an error says that a page cannot be read, whoever asks for it.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io)
}

impl Tree {
    /// The leaf of a route, for reading.
    #[inline]
    pub(super) fn leaf_shared(&self, route: Route<'_>) -> Result<(u32, SharedGuard<'_>)> {
        self.descend(route, |id| self.pool.shared(id), |guard| guard.bytes())
    }

    /// The leaf of a key, for reading, for who holds the lock of writers.
    fn leaf_shared_by_writer(&self, key: &[u8]) -> Result<(u32, SharedGuard<'_>)> {
        self.descend(Route::Key(key), |id| self.pool.shared_by_writer(id), |guard| guard.bytes())
    }

    /// Reads the leaf of a key, and what leads to it, if they are not in the pool: for who is going to take the lock of writers and change the row. A hint: where it
    /// fails, it fails again where it matters.
    pub(crate) fn bring_in(&self, key: &[u8]) {
        let mut tries = BRING_IN_TRIES;
        while let (1.., Err(Miss::Changed)) = (tries, self.try_bring_in(key)) {
            tries -= 1;
        }
    }

    fn try_bring_in(&self, key: &[u8]) -> Result<(), Miss> {
        let mut look = self.look_at_root()?;
        let mut level = None;
        loop {
            let header = Header::read(look.page());
            if header.kind_code != PageKind::Inner.code() || level.is_some_and(|above: u8| header.level != above - 1) {
                return Ok(());
            }
            let child = Route::Key(key).child(look.page(), &header);
            let (Some((_, child)), true, 1..) = (child, look.is_valid(), header.level) else {
                return Err(Miss::Changed);
            };
            if header.level == 1 {
                if self.may_keep_back(child) {
                    return Ok(());
                }
                return self.pool.bring_in(self.page_id(child)).map_err(Miss::Failed);
            }
            let below = self.look_at(self.page_id(child));
            if !look.is_valid() {
                return Err(Miss::Changed);
            }
            look = below?;
            level = Some(header.level);
        }
    }

    /// The leaf of a route, for writing.
    #[inline]
    pub(super) fn leaf_exclusive(&self, route: Route<'_>) -> Result<(u32, ExclusiveGuard<'_>)> {
        self.descend(route, |id| self.pool.exclusive(id), |guard| page::PageMut::bytes(guard))
    }

    /// Hands the cell of a key to `found`: flags, of which none says that the value is elsewhere, and the value with its stamp. Returns
    /// what it says, if there is a cell.
    #[inline]
    pub(crate) fn get<T>(&self, key: &[u8], found: impl FnOnce(u8, &[u8]) -> T) -> Result<Option<T>> {
        let (number, leaf) = self.leaf_shared(Route::Key(key))?;
        match page::find(leaf.bytes(), key) {
            Some(Ok((_, cell))) => {
                if cell.flags & FLAG_OVERFLOW == 0 {
                    return Ok(Some(found(cell.flags, cell.value)));
                }
                let (flags, value) = self.whole(Value::in_leaf(number, cell.flags, cell.value))?;
                passing(Gap::LongValue);
                // Under the latch, too: whoever undoes the change that it is of ends later.
                let seen = found(flags, &value);
                drop(leaf);
                Ok(Some(seen))
            }
            Some(Err(_)) => Ok(None),
            None => Err(self.corruption(number, "the slots make no sense")),
        }
    }

    /// The cell of a key as it is: flags and bytes. For who holds the lock of writers.
    pub(crate) fn raw(&self, key: &[u8]) -> Result<Option<(u8, Vec<u8>)>> {
        let (number, leaf) = self.leaf_shared_by_writer(key)?;
        match page::find(leaf.bytes(), key) {
            Some(Ok((_, cell))) => Ok(Some((cell.flags, cell.value.to_vec()))),
            Some(Err(_)) => Ok(None),
            None => Err(self.corruption(number, "the slots make no sense")),
        }
    }

    /// The stamp of a key's cell, if it has one. For who holds the lock of writers.
    pub(crate) fn stamp(&self, key: &[u8]) -> Result<Option<Stamp>> {
        let (number, leaf) = self.leaf_shared_by_writer(key)?;
        match page::find(leaf.bytes(), key) {
            Some(Ok((_, cell))) => Ok(Stamp::of(cell.flags, cell.value)),
            Some(Err(_)) => Ok(None),
            None => Err(self.corruption(number, "the slots make no sense")),
        }
    }

    #[inline]
    fn descend<G>(
        &self,
        route: Route<'_>,
        take: impl Fn(PageId) -> Result<G>,
        bytes: impl Fn(&G) -> &[u8],
    ) -> Result<(u32, G)> {
        for _ in 0..MAX_RESTARTS {
            match self.try_descend(route, &take, &bytes) {
                Ok(found) => return Ok(found),
                Err(Miss::Failed(error)) => return Err(error),
                Err(Miss::Changed) => self.pool.metrics.add(Counter::DescentRestarts, 1),
                Err(Miss::Waits(leaf)) => self.merge_waiting(leaf)?,
            }
        }
        Err(Error::new(ErrorKind::Busy, TOO_SMALL))
    }

    #[inline]
    fn try_descend<G>(
        &self,
        route: Route<'_>,
        take: &impl Fn(PageId) -> Result<G>,
        bytes: &impl Fn(&G) -> &[u8],
    ) -> Result<(u32, G), Miss> {
        let mut number = self.root().number;
        let mut look = self.look_at_root()?;
        let mut level = None;
        let mut asked = 1;
        loop {
            asked += 1;
            let header = Header::read(look.page());
            if header.kind_code != PageKind::Inner.code() {
                return self.take_root_leaf(&look, &header, number, level, take, bytes);
            }
            let child = route.child(look.page(), &header);
            passing(Gap::Descent);
            if !look.is_valid() {
                return Err(Miss::Changed);
            }
            let (Some((_, child)), true) = (child, header.level > 0) else {
                return Err(Miss::Failed(self.corruption(number, "an inner page makes no sense")));
            };
            // Levels fall by one: so a descent ends, whatever the pages say.
            if level.is_some_and(|above: u8| header.level != above - 1) {
                return Err(Miss::Failed(self.corruption(number, "a page is on the wrong level")));
            }
            if header.level == 1 {
                let leaf = take(self.page_id(child));
                if !look.is_valid() {
                    return Err(Miss::Changed);
                }
                let leaf = leaf.map_err(Miss::Failed)?;
                if Header::read(bytes(&leaf)).kind_code != PageKind::Leaf.code() {
                    return Err(Miss::Failed(self.corruption(child, "a leaf was expected")));
                }
                if self.is_waited_for(child) {
                    drop(leaf);
                    return Err(Miss::Waits(child));
                }
                self.pool.note_asked(asked);
                return Ok((child, leaf));
            }
            let below = self.look_at(self.page_id(child));
            if !look.is_valid() {
                return Err(Miss::Changed);
            }
            look = below?;
            number = child;
            level = Some(header.level);
        }
    }

    /// The number of the leaf of a route, which is not looked at; `None` if the root is a leaf.
    pub(super) fn number_of(&self, route: Route<'_>) -> Result<Option<u32>> {
        for _ in 0..MAX_RESTARTS {
            match self.try_number_of(route, |_, _, _| true) {
                Ok(found) => return Ok(found),
                Err(Miss::Failed(error)) => return Err(error),
                Err(_) => self.pool.metrics.add(Counter::DescentRestarts, 1),
            }
        }
        Err(Error::new(ErrorKind::Busy, TOO_SMALL))
    }

    /// Where the leaf begins that is behind the one of a route, as the pages above them say; `None` if there is none. Neither is looked at: where one can't be read, or a page above it, it says
    /// where the next one begins that other pages lead to, or that there is none. Only a root that makes no sense leaves that open.
    pub(super) fn end_of(&self, route: Route<'_>) -> Result<Option<Vec<u8>>> {
        for _ in 0..MAX_RESTARTS {
            // The lowest page that has another child behind knows it best.
            let (mut end, mut is_known) = (None, false);
            let outcome = self.try_number_of(route, |page, header, slot| {
                let next = (slot + 1 < usize::from(header.count)).then(|| page::separator_at(page, slot + 1));
                let makes_sense = next.as_ref().is_none_or(Option::is_some);
                end = next.flatten().or_else(|| end.take());
                is_known |= makes_sense;
                makes_sense
            });
            match outcome {
                Ok(_) => return Ok(end),
                Err(Miss::Failed(error)) if !is_known || !is_unreadable(&error) => return Err(error),
                Err(Miss::Failed(_)) => return Ok(end),
                Err(_) => self.pool.metrics.add(Counter::DescentRestarts, 1),
            }
        }
        Err(Error::new(ErrorKind::Busy, TOO_SMALL))
    }

    /// Descends to above the leaf. `meet` is handed each inner page on the way, which may change meanwhile, and the slot of the child that is next; it says whether that makes sense.
    #[inline]
    fn try_number_of(
        &self,
        route: Route<'_>,
        mut meet: impl FnMut(&dyn PageRead, &Header, usize) -> bool,
    ) -> Result<Option<u32>, Miss> {
        let mut number = self.root().number;
        let mut look = self.look_at_root()?;
        let mut level = None;
        loop {
            let header = Header::read(look.page());
            let child = route.child(look.page(), &header);
            let is_inner = header.kind_code == PageKind::Inner.code() && header.level > 0;
            let is_below = level.is_none_or(|above: u8| header.level == above - 1);
            let makes_sense = match child {
                Some((slot, _)) if is_inner && is_below => meet(look.page(), &header, slot),
                _ => true,
            };
            if !look.is_valid() {
                return Err(Miss::Changed);
            }
            if level.is_none() && header.kind_code == PageKind::Leaf.code() {
                return Ok(None);
            }
            let (Some((_, child)), true, true) = (child, is_inner, makes_sense) else {
                return Err(Miss::Failed(self.corruption(number, "an inner page makes no sense")));
            };
            if !is_below {
                return Err(Miss::Failed(self.corruption(number, "a page is on the wrong level")));
            }
            if header.level == 1 {
                return Ok(Some(child));
            }
            let below = self.look_at(self.page_id(child));
            if !look.is_valid() {
                return Err(Miss::Changed);
            }
            look = below?;
            number = child;
            level = Some(header.level);
        }
    }

    /// The root is a leaf, or a page on the way is none that may be there.
    #[cold]
    fn take_root_leaf<G>(
        &self,
        look: &Optimistic<'_>,
        header: &Header,
        number: u32,
        level: Option<u8>,
        take: &impl Fn(PageId) -> Result<G>,
        bytes: &impl Fn(&G) -> &[u8],
    ) -> Result<(u32, G), Miss> {
        if !look.is_valid() {
            return Err(Miss::Changed);
        }
        if level.is_some() || header.kind_code != PageKind::Leaf.code() {
            return Err(Miss::Failed(self.corruption(number, "an inner page was expected")));
        }
        let root = take(self.root()).map_err(Miss::Failed)?;
        // It may have become an inner page meanwhile.
        if Header::read(bytes(&root)).kind_code == PageKind::Leaf.code() {
            self.pool.note_asked(1);
            Ok((number, root))
        } else {
            Err(Miss::Changed)
        }
    }

    #[inline]
    fn look_at_root(&self) -> Result<Optimistic<'_>, Miss> {
        let root = self.root();
        if let Some(look) = self.pool.optimistic_in(self.root_frame.load(Ordering::Relaxed), root) {
            return Ok(look);
        }
        let look = self.look_at(root)?;
        self.root_frame.store(look.index(), Ordering::Relaxed);
        Ok(look)
    }

    #[inline]
    fn look_at(&self, id: PageId) -> Result<Optimistic<'_>, Miss> {
        match self.pool.optimistic(id) {
            Some(look) => Ok(look),
            None => self.look_slowly(id),
        }
    }

    /// Reads the page, or waits until whoever changes it is done.
    #[cold]
    fn look_slowly(&self, id: PageId) -> Result<Optimistic<'_>, Miss> {
        self.pool.metrics.add(Counter::InnerLatches, 1);
        drop(self.pool.shared(id).map_err(Miss::Failed)?);
        self.pool.optimistic(id).ok_or(Miss::Changed)
    }
}
