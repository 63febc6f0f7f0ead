//! Writes that take place only if keys did not change: what optimistic transactions stand on.

use super::column_family::ColumnFamily;
use super::newest::Lookup;
use super::state::DbInner;
use super::super_version::SuperVersion;
use super::write::Leader;
use crate::batch::WriteBatch;
use crate::key::{SeqNo, ValueType};
use crate::options::WriteOptions;
use crate::snapshot::Snapshot;
use siltstone_base::checksum::xxph3;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};

/// So often is everything looked at anew because tables changed meanwhile, before the leader does it.
const LOOKS: usize = 3;

/// A key, and the state since which it must not have changed.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) family: ColumnFamily,
    pub(crate) key: Vec<u8>,
    /// A snapshot of this number, or of an older one, is held.
    pub(crate) seqno: SeqNo,
}

/// Keys that were found unchanged, and in which tables.
#[derive(Debug)]
pub(crate) struct Check {
    watched: Vec<Watched>,
    /// Everything up to this number was looked at, wherever it was. What came later is in a memtable, or in a table that has something newer.
    seen_up_to: SeqNo,
    seen: BTreeMap<u32, Arc<SuperVersion>>,
    /// Held for a check that outlives whoever asked for it: without it a compaction may forget that a key has changed.
    pub(super) held: Option<Snapshot>,
}

/// The keys of batches that a leader will write, and has not yet, by their hashes. Two keys of one hash make a transaction fail that need not: rarely, and it can be run again.
#[derive(Debug, Default)]
pub(super) struct GroupKeys {
    hashes: HashSet<u64>,
    /// How many batches are in it.
    batches: usize,
    has_ranges: bool,
}

impl GroupKeys {
    /// Takes in the batches that it does not know yet: all but the first ones.
    fn take_in<'a>(&mut self, batches: impl Iterator<Item = &'a WriteBatch>) {
        for batch in batches.skip(self.batches) {
            self.batches += 1;
            for entry in batch {
                self.has_ranges |= entry.kind == ValueType::RangeDelete;
                self.hashes.insert(hash(entry.column_family.0, entry.key));
            }
        }
    }

    fn has(&self, watch: &Watched) -> bool {
        self.has_ranges || self.hashes.contains(&hash(watch.family.0.id, &watch.key))
    }
}

fn hash(family: u32, key: &[u8]) -> u64 {
    xxph3(key) ^ u64::from(family).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Check {
    /// Keys that nobody has looked at yet.
    pub(super) fn new(watched: Vec<Watched>) -> Self {
        Self { watched, seen_up_to: 0, seen: BTreeMap::new(), held: None }
    }
}

impl DbInner {
    /// Writes `batch`, which may be empty, unless a watched key has changed: then fails with `Busy`.
    ///
    /// 1. Everything is looked at while others write: that may read tables. Again, if tables changed meanwhile.
    /// 2. Whoever leads the group that has the batch looks at the memtables again, while nobody else writes, at what the group has before it, and at tables with anything newer than the first
    ///    look if the family has other ones by now. What was written since that look is in a memtable, or in one of those.
    /// 3. The batch is one of the leader's group, and shares its sync.
    pub(crate) fn write_if_unchanged(
        self: &Arc<Self>,
        watched: Vec<Watched>,
        batch: &mut WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        let is_empty = batch.is_empty();
        if !is_empty {
            self.check_write(batch, options)?;
            if options.low_pri {
                self.yield_to_writers(batch.size_bytes() as u64, options)?;
            }
        }
        let check = self.first_look(watched)?;
        if is_empty {
            return self.check_alone(&check);
        }
        match self.try_lead() {
            Some(leader) => {
                self.check_again(&check)?;
                self.lead(leader, Some((batch, options)), None)
            }
            None => self.follow(batch, options, Some(Arc::new(check))),
        }
    }

    /// Looks at everything, until it was done while tables stayed the same.
    pub(super) fn first_look(&self, watched: Vec<Watched>) -> Result<Check> {
        let mut check = Check::new(watched);
        for _ in 0..LOOKS {
            self.look(&mut check)?;
            if self.has_same_tables(&check) {
                break;
            }
        }
        Ok(check)
    }

    /// Looks at everything that came since it was looked at, which at first is all.
    pub(super) fn look(&self, check: &mut Check) -> Result<()> {
        check.seen.clear();
        // Before states are pinned: they have what is visible now.
        let visible = self.visible();
        for watch in &check.watched {
            let family = &watch.family.0;
            let pinned = check.seen.entry(family.id).or_insert_with(|| family.super_version.load_full());
            self.check_readable(family)?;
            self.check_unchanged(watch, pinned, Lookup::NewerThan(check.seen_up_to))?;
        }
        check.seen_up_to = visible;
        Ok(())
    }

    /// The same, for who has much to do before it looks again: what was looked at is not kept from being deleted meanwhile.
    pub(crate) fn look_ahead(&self, watched: Vec<Watched>) -> Result<Check> {
        let mut check = Check::new(watched);
        self.look(&mut check)?;
        check.seen.clear();
        Ok(check)
    }

    /// Fails with `Busy` if something changed that is watched, while nobody writes.
    pub(super) fn check_alone(&self, check: &Check) -> Result<()> {
        let _leader = self.lock_write_side();
        self.check_again(check)
    }

    /// Whether the tables are those that were looked at.
    pub(super) fn has_same_tables(&self, check: &Check) -> bool {
        check.seen.iter().all(|(id, seen)| {
            let family = self.family(*id);
            family.is_some_and(|family| Arc::ptr_eq(&seen.version, &family.super_version.load().version))
        })
    }

    /// Looks again at what may have changed since. The caller leads.
    pub(super) fn check_again(&self, check: &Check) -> Result<()> {
        if is_planted(PlantedBug::ConflictIsCheckedOnce) {
            return Ok(());
        }
        for watch in &check.watched {
            let family = &watch.family.0;
            let now = family.super_version.load();
            self.check_readable(family)?;
            let seen = check.seen.get(&family.id);
            let has_same_tables = seen.is_some_and(|seen| Arc::ptr_eq(&seen.version, &now.version));
            let place = match has_same_tables {
                true => Lookup::Memtables,
                false if check.held.is_none() => Lookup::NewerThan(check.seen_up_to),
                // Nobody waits for it: it is looked at once more when nobody is kept from writing by that.
                false => return Err(tables_changed()),
            };
            self.check_unchanged(watch, &now, place)?;
        }
        Ok(())
    }

    /// The same for a request that is to follow `batches` in their group; `keys` are what earlier calls found in those.
    pub(super) fn check_behind<'a>(
        &self,
        check: &Check,
        keys: &mut GroupKeys,
        batches: impl Iterator<Item = &'a WriteBatch>,
    ) -> Result<()> {
        keys.take_in(batches);
        if check.watched.iter().any(|watch| keys.has(watch)) && !is_planted(PlantedBug::ConflictIsCheckedOnce) {
            return Err(changed());
        }
        self.check_again(check)
    }

    fn check_unchanged(&self, watch: &Watched, pinned: &SuperVersion, place: Lookup) -> Result<()> {
        let is_changed = self.is_changed_since(&watch.family.0, pinned, &watch.key, watch.seqno, place)?;
        if is_changed && !is_planted(PlantedBug::ConflictIsNotChecked) {
            return Err(changed());
        }
        Ok(())
    }

    /// Leads at once if nobody does and nobody waits: nobody overtakes the queue, in which a stream of writers could keep one waiting for ever.
    #[inline]
    pub(super) fn try_lead(&self) -> Option<Leader<'_>> {
        if self.write_queue.is_empty() { self.try_lock_write_side() } else { None }
    }
}

#[cold]
fn tables_changed() -> Error {
    Error::new(ErrorKind::Incomplete, "tables changed since rows were looked at")
}

#[cold]
fn changed() -> Error {
    Error::new(ErrorKind::Busy, "a row changed since the transaction read or wrote it first")
}
