//! Removing entries that were found stale at a snapshot, unless their rows changed since.
//!
//! One write removes a bounded number of entries of a bounded number of rows: a row may have had any number of versions, and writers wait for what others write. What is
//! too large is written in parts, within a row too; each part looks at its rows.

use super::super::ground::Ground;
use super::super::layout::IndexId;
use crate::batch::WriteBatch;
use crate::db::{PendingWrite, Watched};
use crate::options::WriteOptions;
use crate::snapshot::Snapshot;
use siltstone_base::{ErrorKind, Result};

/// Rows whose entries are removed by one write: all of them are looked at once more while nobody else writes.
pub(super) const WRITE_ROWS: usize = 32;

/// Entries that one write removes, and about how many bytes it has.
const WRITE_ENTRIES: usize = 512;
const WRITE_BYTES: usize = 64 << 10;

/// Of a write batch: its header, and what stands before each key.
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;

/// The key of a row, and those of entries that were stale.
pub(super) type StaleOfRow = (Vec<u8>, Vec<Vec<u8>>);

/// Entries to be removed together.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) snapshot: Snapshot,
    pub(super) rows: Vec<StaleOfRow>,
}

/// What one write may be.
#[derive(Debug, Clone, Copy)]
struct Limits {
    rows: usize,
    entries: usize,
    bytes: usize,
}

impl Limits {
    fn of(ground: &Ground) -> Self {
        let bytes = WRITE_BYTES.min(ground.db.max_write_bytes());
        Self { rows: WRITE_ROWS, entries: WRITE_ENTRIES, bytes }
    }
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

    fn is_within(&self, limits: Limits) -> bool {
        let bytes = |(_, entries): &StaleOfRow| entries.iter().map(|entry| ENTRY_BYTES + entry.len()).sum::<usize>();
        self.rows.len() <= limits.rows
            && self.entries() <= limits.entries as u64
            && HEADER_BYTES + self.rows.iter().map(bytes).sum::<usize>() <= limits.bytes
    }

    /// Two halves by rows; itself if it is of one row.
    fn split(mut self) -> Result<(Self, Self), Self> {
        if self.rows.len() < 2 {
            return Err(self);
        }
        let later = self.rows.split_off(self.rows.len() / 2);
        let later = Self { snapshot: self.snapshot.clone(), rows: later };
        Ok((self, later))
    }

    /// Two halves, of the entries if it is of one row; itself if it is of one entry.
    fn split_finely(self) -> Result<(Self, Self), Self> {
        let mut own = match self.split() {
            Ok(halves) => return Ok(halves),
            Err(own) => own,
        };
        let Some((row, entries)) = own.rows.first_mut().filter(|(_, entries)| entries.len() > 1) else {
            return Err(own);
        };
        let later = (row.clone(), entries.split_off(entries.len() / 2));
        let later = Self { snapshot: own.snapshot.clone(), rows: vec![later] };
        Ok((own, later))
    }
}

/// A lost tombstone is written again by the next pass.
fn options(ground: &Ground) -> WriteOptions {
    ground.write_options.clone().sync(false)
}

/// Removals that wait for their turn, and what is left of them.
#[derive(Debug, Default)]
struct Parts {
    next: Vec<Removal>,
    /// Of single rows that changed meanwhile, and of single entries that are too large to be written.
    left: Vec<Removal>,
}

impl Parts {
    /// The next one that one write can take.
    fn pop(&mut self, ground: &Ground) -> Option<Removal> {
        let limits = Limits::of(ground);
        loop {
            let removal = self.next.pop()?;
            if removal.is_within(limits) {
                return Some(removal);
            }
            match removal.split_finely() {
                Ok((first, second)) => self.next.extend([first, second]),
                // It was put by a write that was larger: unless limits are others today, there is room.
                Err(single) if single.is_within(Limits { bytes: ground.db.max_write_bytes(), ..limits }) => {
                    return Some(single);
                }
                Err(single) => self.left.push(single),
            }
        }
    }

    /// A row of these has changed.
    fn halve(&mut self, removal: Removal) {
        match removal.split() {
            Ok((first, second)) => self.next.extend([first, second]),
            // Its own row changed: only then may an entry be left, for rows that do not change are passed over by the next pass.
            Err(single) => self.left.push(single),
        }
    }
}

impl Ground {
    /// Removes entries, and waits as any writer does. Returns how many, and what is left: rows that have changed.
    ///
    /// # Errors
    ///
    /// Those of a write; what was not tried then is left, too.
    pub(super) fn remove_stale(&self, removal: Removal) -> (u64, Vec<StaleOfRow>, Result<()>) {
        let mut parts = Parts { next: vec![removal], left: Vec::new() };
        let (mut removed, mut outcome) = (0, Ok(()));
        while let Some(removal) = parts.pop(self) {
            let (watched, mut batch) = removal.write(self);
            match self.db.write_if_unchanged(watched, &mut batch, &options(self)) {
                Ok(()) => removed += removal.entries(),
                Err(error) if error.kind() == ErrorKind::Busy => parts.halve(removal),
                Err(error) => {
                    parts.left.push(removal);
                    outcome = Err(error);
                    break;
                }
            }
        }
        let left = parts.left.into_iter().chain(parts.next).flat_map(|removal| removal.rows).collect();
        (removed, left, outcome)
    }
}

/// Removals that a job sees through, without waiting.
pub(super) struct Removing {
    parts: Parts,
    under_way: Option<(PendingWrite, Removal)>,
    /// When its snapshot was taken, about.
    pub(super) since_micros: u64,
}

impl Removing {
    pub(super) fn new(removal: Removal, since_micros: u64) -> Self {
        Self { parts: Parts { next: vec![removal], left: Vec::new() }, under_way: None, since_micros }
    }

    /// Goes on until everything is removed or left; then returns true. Tells `removed` of what is gone. False: look again later.
    ///
    /// # Errors
    ///
    /// `Incomplete` where writers are held up, or tables changed just now: nothing is lost, and it goes on with the next call. Otherwise those of a write; nothing is lost then either.
    pub(super) fn poll(&mut self, ground: &Ground, mut removed: impl FnMut(&Removal)) -> Result<bool> {
        loop {
            let (mut pending, removal) = match self.under_way.take() {
                Some(under_way) => under_way,
                None => {
                    let Some(removal) = self.parts.pop(ground) else { return Ok(true) };
                    let (watched, batch) = removal.write(ground);
                    match ground.db.submit_if_unchanged(removal.snapshot.clone(), watched, batch, &options(ground)) {
                        Ok(pending) => (pending, removal),
                        Err(error) => {
                            self.note_failed(removal, error)?;
                            continue;
                        }
                    }
                }
            };
            match pending.poll() {
                None => {
                    self.under_way = Some((pending, removal));
                    return Ok(false);
                }
                Some(Ok(())) => removed(&removal),
                Some(Err(error)) => self.note_failed(removal, error)?,
            }
        }
    }

    fn note_failed(&mut self, removal: Removal, error: siltstone_base::Error) -> Result<()> {
        if error.kind() == ErrorKind::Busy {
            self.parts.halve(removal);
            return Ok(());
        }
        self.parts.next.push(removal);
        Err(error)
    }

    /// Everything that is not known to be removed.
    pub(super) fn into_rest(self) -> impl Iterator<Item = StaleOfRow> {
        let under_way = self.under_way.map(|(_, removal)| removal);
        under_way.into_iter().chain(self.parts.next).chain(self.parts.left).flat_map(|removal| removal.rows)
    }
}
