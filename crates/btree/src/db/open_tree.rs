//! A tree by its name, through its incarnations: truncating a tree, or loading it, gives it another tablespace under the same handles.

use super::expiry::RowExpiry;
use crate::buffer::Pool;
use crate::tree::Tree;
use siltstone_base::sync::atomic::{AtomicU32, Ordering};
use siltstone_base::sync::{Arc, OnceLock};
use siltstone_base::{Error, ErrorKind, Result};

/// What stands in the place of an incarnation's number when the tree was dropped.
const DROPPED: u32 = u32::MAX;

/// Lists of later incarnations, each twice as long as the one before.
const LISTS: usize = u32::BITS as usize;

/// One tablespace of the tree.
#[derive(Debug)]
struct Incarnation {
    tree: Tree,
    /// The group that made it: whoever sees an earlier moment can't know it.
    since: u64,
}

/// A tree that is open, and whether it was dropped since. Any thread may use it; who replaces or drops it holds the lock of writers.
#[derive(Debug)]
pub(crate) struct OpenTree {
    pub(super) name: String,
    first: Tree,
    /// The group that made the first incarnation, if that was in this life of the database: whoever sees an earlier moment can't know the tree.
    born: u64,
    /// The expiry of its rows, if they do.
    expiry: Option<Arc<RowExpiry>>,
    /// The number of the incarnation that counts, or that there is none any more.
    current: AtomicU32,
    /// The number of the newest incarnation, also of a tree that was dropped.
    newest: AtomicU32,
    /// The later ones. They stay while the tree is open: who holds a reference to one may use it, and finds its tablespace gone.
    later: [OnceLock<Box<[OnceLock<Incarnation>]>>; LISTS],
}

impl OpenTree {
    pub(super) fn new(name: String, tree: Tree) -> Self {
        Self {
            name,
            first: tree,
            born: 0,
            expiry: None,
            current: AtomicU32::new(0),
            newest: AtomicU32::new(0),
            later: [const { OnceLock::new() }; LISTS],
        }
    }

    /// The same tree, with rows that expire.
    pub(super) fn expiring(self, expiry: Option<Arc<RowExpiry>>) -> Self {
        Self { expiry, ..self }
    }

    /// The same tree, which there is from group `since` on.
    pub(super) fn born(self, since: u64) -> Self {
        Self { born: since, ..self }
    }

    /// The expiry of its rows, if they do.
    #[inline]
    pub(super) fn expiry(&self) -> Option<&Arc<RowExpiry>> {
        self.expiry.as_ref()
    }

    /// A row for who reads as of `time`: gone if it is expired by then.
    pub(super) fn unexpired(&self, key: &[u8], row: Option<Vec<u8>>, time: u64) -> Option<Vec<u8>> {
        let is_hidden = |row: &Vec<u8>| self.expiry().is_some_and(|expiry| expiry.hides(key, row, time));
        row.filter(|row| !is_hidden(row))
    }

    /// The second as of which somebody reads who begins now; 0 where nothing expires.
    #[inline]
    pub(super) fn read_time(&self) -> u64 {
        self.expiry().map_or(0, |expiry| expiry.now())
    }

    /// Whether it is a tree of the opening of which this is the pool.
    #[inline]
    pub(super) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        self.first.is_of(pool)
    }

    /// The tree as it is now, unless it was dropped. For who holds the lock of writers it stays so.
    #[inline]
    pub(super) fn live(&self) -> Result<&Tree> {
        match self.current.load(Ordering::Acquire) {
            0 => Ok(&self.first),
            number => self.later(number).map(|(tree, _)| tree),
        }
    }

    /// The newest incarnation, also of a tree that was dropped.
    #[inline]
    pub(super) fn tree(&self) -> &Tree {
        match self.newest.load(Ordering::Acquire) {
            0 => &self.first,
            number => self.later(number).map_or(&self.first, |(tree, _)| tree),
        }
    }

    /// The number of the incarnation that counts.
    pub(super) fn incarnation(&self) -> Result<u32> {
        match self.current.load(Ordering::Acquire) {
            DROPPED => Err(self.gone("dropped")),
            number => Ok(number),
        }
    }

    /// An incarnation, as long as no other one took its place.
    #[inline]
    pub(super) fn at(&self, incarnation: u32) -> Result<&Tree> {
        let tree = self.live()?;
        if !self.is_at(incarnation) {
            return Err(self.gone("truncated or loaded"));
        }
        Ok(tree)
    }

    /// The tree as it is now and the number of its incarnation, if who sees the groups up to `snapshot` can know it.
    #[inline]
    pub(super) fn numbered_at(&self, snapshot: u64) -> Result<(u32, &Tree)> {
        match self.current.load(Ordering::Acquire) {
            0 if self.born <= snapshot => Ok((0, &self.first)),
            0 => Err(self.too_new()),
            number => match self.later(number)? {
                (tree, since) if since <= snapshot => Ok((number, tree)),
                _ => Err(self.too_new()),
            },
        }
    }

    /// The tree as it is now, if who sees the groups up to `snapshot` can know it.
    #[inline]
    pub(super) fn live_at(&self, snapshot: u64) -> Result<&Tree> {
        self.numbered_at(snapshot).map(|(_, tree)| tree)
    }

    /// Whether an incarnation still counts: pages that were read before were those of the tree.
    #[inline]
    pub(super) fn is_at(&self, incarnation: u32) -> bool {
        self.current.load(Ordering::Acquire) == incarnation
    }

    #[cold]
    fn later(&self, number: u32) -> Result<(&Tree, u64)> {
        let list = self.later.get(number.checked_ilog2().unwrap_or(0) as usize).and_then(OnceLock::get);
        let place = number - (1 << number.checked_ilog2().unwrap_or(0));
        match list.and_then(|list| list.get(place as usize)).and_then(OnceLock::get) {
            Some(found) if number != DROPPED => Ok((&found.tree, found.since)),
            _ => Err(self.gone("dropped")),
        }
    }

    #[cold]
    fn gone(&self, how: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("the tree {} was {how}", self.name))
    }

    #[cold]
    fn too_new(&self) -> Error {
        let message = format!("the tree {} was made, truncated or loaded since the transaction began", self.name);
        Error::new(ErrorKind::Busy, message)
    }

    /// Puts another tablespace in the place of the one that counts: from group `since` on. For who holds the lock of writers.
    pub(super) fn replace(&self, tree: Tree, since: u64) {
        // Each takes a number of a tablespace: those are used up before.
        let number = self.newest.load(Ordering::Acquire).saturating_add(1);
        let list_number = number.ilog2();
        if let Some(list) = self.later.get(list_number as usize) {
            let list = list.get_or_init(|| (0..1_u64 << list_number).map(|_| OnceLock::new()).collect());
            let place = list.get((number - (1 << list_number)) as usize);
            // It is free: who replaces holds the lock of writers.
            let _ = place.map(|place| place.set(Incarnation { tree, since }));
        }
        self.newest.store(number, Ordering::Release);
        self.current.store(number, Ordering::Release);
    }

    /// Ends the tree. For who holds the lock of writers.
    pub(super) fn set_dropped(&self) {
        self.current.store(DROPPED, Ordering::Release);
    }
}
