//! Removing entries that were found stale at a snapshot, unless their rows changed since.

use super::super::ground::Ground;
use super::super::layout::IndexId;
use crate::batch::WriteBatch;
use crate::db::{PendingWrite, Watched};
use crate::options::WriteOptions;
use crate::snapshot::Snapshot;
use siltstone_base::{ErrorKind, Result};

/// Rows whose entries are removed by one write: all of them are looked at once more while nobody else writes.
pub(super) const WRITE_ROWS: usize = 64;

/// The key of a row, and those of entries that were stale.
pub(super) type StaleOfRow = (Vec<u8>, Vec<Vec<u8>>);

/// Entries to be removed together.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) snapshot: Snapshot,
    pub(super) rows: Vec<StaleOfRow>,
}

impl Removal {
    /// How many entries there are.
    pub(super) fn entries(&self) -> u64 {
        self.rows.iter().map(|(_, entries)| entries.len() as u64).sum()
    }

    /// The ids of their indexes.
    pub(super) fn indexes(&self) -> impl Iterator<Item = IndexId> + '_ {
        self.rows.iter().flat_map(|(_, entries)| entries.iter().filter_map(|entry| IndexId::of_key(entry)))
    }

    fn write(&self, ground: &Ground) -> (Vec<Watched>, WriteBatch) {
        let mut batch = WriteBatch::new();
        let watched = |(row, entries): &StaleOfRow| {
            entries.iter().for_each(|entry| batch.delete(entry));
            Watched { family: ground.rows.clone(), key: row.clone(), seqno: self.snapshot.seqno() }
        };
        (self.rows.iter().map(watched).collect(), batch)
    }

    /// Two halves; `None` for those of one row.
    fn split(mut self) -> Result<(Self, Self), Self> {
        if self.rows.len() < 2 {
            return Err(self);
        }
        let later = self.rows.split_off(self.rows.len() / 2);
        let later = Self { snapshot: self.snapshot.clone(), rows: later };
        Ok((self, later))
    }
}

/// A lost tombstone is written again by the next pass.
fn options(ground: &Ground) -> WriteOptions {
    ground.write_options.clone().sync(false)
}

impl Ground {
    /// Removes entries, and waits as any writer does. Returns how many; the others' rows have changed.
    pub(super) fn remove_stale(&self, removal: Removal) -> Result<u64> {
        let (watched, mut batch) = removal.write(self);
        match self.db.write_if_unchanged(watched, &mut batch, &options(self)) {
            Ok(()) => Ok(removal.entries()),
            // Its own row changed: only then may an entry be left, for rows that do not change are passed over by the next pass.
            Err(error) if error.kind() == ErrorKind::Busy => match removal.split() {
                Ok((first, second)) => Ok(self.remove_stale(first)? + self.remove_stale(second)?),
                Err(_) => Ok(0),
            },
            Err(error) => Err(error),
        }
    }
}

/// Removals that a job sees through, without waiting.
#[derive(Default)]
pub(super) struct Removing {
    next: Vec<Removal>,
    under_way: Option<(PendingWrite, Removal)>,
    /// Of single rows that changed meanwhile.
    pub(super) left: Vec<Removal>,
}

impl Removing {
    pub(super) fn new(removal: Removal) -> Self {
        Self { next: vec![removal], ..Self::default() }
    }

    /// Goes on until everything is removed or left; then returns true. Tells `removed` of what is gone. False: look again later.
    ///
    /// # Errors
    ///
    /// `Incomplete` where writers are held up: nothing is lost, and it goes on with the next call. Otherwise those of a write.
    pub(super) fn poll(&mut self, ground: &Ground, mut removed: impl FnMut(&Removal)) -> Result<bool> {
        loop {
            if self.under_way.is_none() {
                let Some(removal) = self.next.pop() else { return Ok(true) };
                let (watched, batch) = removal.write(ground);
                match ground.db.submit_if_unchanged(removal.snapshot.clone(), watched, batch, &options(ground)) {
                    Ok(pending) => self.under_way = Some((pending, removal)),
                    Err(error) if error.kind() == ErrorKind::Busy => {
                        self.halve(removal);
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(outcome) = self.under_way.as_ref().and_then(|(pending, _)| pending.poll()) else {
                return Ok(false);
            };
            let Some((_, removal)) = self.under_way.take() else { return Ok(false) };
            match outcome {
                Ok(()) => removed(&removal),
                Err(error) if error.kind() == ErrorKind::Busy => self.halve(removal),
                Err(error) if error.kind() == ErrorKind::Incomplete => {
                    self.next.push(removal);
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn halve(&mut self, removal: Removal) {
        match removal.split() {
            Ok((first, second)) => self.next.extend([first, second]),
            Err(single) => self.left.push(single),
        }
    }

    /// Everything that is not known to be removed.
    pub(super) fn into_rest(self) -> impl Iterator<Item = StaleOfRow> {
        let under_way = self.under_way.map(|(_, removal)| removal);
        under_way.into_iter().chain(self.next).chain(self.left).flat_map(|removal| removal.rows)
    }
}
