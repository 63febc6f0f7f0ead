//! Naming tables in the MANIFEST, those of several families at once, and letting readers see them.

use super::placement::{Place, place};
use super::{Brought, Family};
use crate::compaction::RunningId;
use crate::db::state::DbInner;
use crate::db::super_version::SuperVersion;
use crate::db::write::{Leader, WriteSide};
use crate::file_meta::{FileMetaData, other_fields};
use crate::key::{ColumnFamilyId, InternalKey, MAX_SEQNO, SeqNo};
use crate::version::{Version, VersionEdit};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, ErrorKind, Result};

/// The smallest and the largest internal key of a table.
type Bounds = (InternalKey, InternalKey);

/// What one family takes in.
pub(super) struct Intake<'a> {
    family: &'a Family,
    tables: &'a [Brought],
    /// So many of the first tables are older than the others, which they may overlap. Apart from that, no two overlap.
    older: usize,
}

impl<'a> Intake<'a> {
    /// Tables that do not overlap.
    pub(super) fn new(family: &'a Family, tables: &'a [Brought]) -> Self {
        Self { family, tables, older: 0 }
    }

    /// Tables of which so many of the first lie beneath the others.
    pub(super) fn in_two_layers(family: &'a Family, tables: &'a [Brought], older: usize) -> Self {
        Self { family, tables, older }
    }

    /// The bounds of all tables, which have `seqno` and the numbers behind it, or all of them 0.
    fn bounds(&self, seqno: SeqNo) -> Vec<(Bounds, SeqNo)> {
        let with_bounds = |(index, brought): (usize, &Brought)| {
            let seqno = if seqno == 0 { 0 } else { seqno + index as u64 };
            (brought.table.bounds(&self.family.comparator, seqno), seqno)
        };
        self.tables.iter().enumerate().map(with_bounds).collect()
    }

    /// The highest level of the older tables that overlap the user keys of the table at `index`.
    fn level_beneath(&self, index: usize, bounds: &[(Bounds, SeqNo)], places: &[Place]) -> Option<usize> {
        if index < self.older {
            return None;
        }
        let order = &self.family.comparator;
        let ((smallest, largest), _) = bounds.get(index)?;
        let older = bounds.iter().zip(places).take(self.older);
        let overlaps = |other: &Bounds| {
            order.compare_user(other.0.user_key(), largest.user_key()).is_le()
                && order.compare_user(other.1.user_key(), smallest.user_key()).is_ge()
        };
        older.filter(|((other, _), _)| overlaps(other)).map(|(_, place)| place.level).min()
    }
}

/// Where tables go, and what keeps compactions away from there meanwhile.
struct Places {
    /// By intake and table.
    places: Vec<Vec<Place>>,
    /// By family.
    reserved: Vec<(u32, RunningId)>,
}

/// What came of an attempt to install tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Installed,
    /// Nothing was done: the tables were to have no sequence numbers, and a compaction left them no place for that.
    NeedsSeqnos,
}

impl DbInner {
    /// Installs tables, each with a sequence number of its own or all of them with 0: all of them or, after an error, none.
    pub(super) fn try_install(
        &self,
        leader: &mut Leader<'_>,
        intakes: &[Intake<'_>],
        with_seqnos: bool,
    ) -> Result<Attempt> {
        // Tables with the number 0 use one up as well: who follows the WALs sees by the gap that something came.
        let tables: usize = intakes.iter().map(|intake| intake.tables.len()).sum();
        let count = if with_seqnos { tables as u64 } else { 1 };
        let last_seqno = leader.side.last_seqno + count;
        if last_seqno >= MAX_SEQNO {
            return Err(Error::new(ErrorKind::LimitExceeded, "no sequence numbers are left"));
        }
        let first = if with_seqnos { leader.side.last_seqno + 1 } else { 0 };
        let mut is_offered = false;
        let installed = self.install_at(&leader.side, intakes, (first, last_seqno), &mut is_offered);
        // Also after an error: an edit that could not be synced may be in the MANIFEST after a crash, and no other entry may have its numbers then. What the MANIFEST never
        // saw uses up none: who follows the WALs would look for it in vain.
        if is_offered {
            leader.side.last_seqno = last_seqno;
            self.visible_seqno.store(last_seqno, Ordering::Release);
        }
        installed
    }

    /// Installs tables with the sequence numbers `first`, `first + 1` and so on: RocksDB tells the age of tables in level 0 by them. 0: all of them with 0. `last`
    /// is used up once the edits are `offered` to the MANIFEST.
    fn install_at(
        &self,
        side: &WriteSide,
        intakes: &[Intake<'_>],
        (first, last): (SeqNo, SeqNo),
        is_offered: &mut bool,
    ) -> Result<Attempt> {
        let versions = self.versions.lock();
        self.check_writable()?;
        let mut seqno = first;
        let mut bounds = Vec::with_capacity(intakes.len());
        for intake in intakes {
            bounds.push(intake.bounds(seqno));
            seqno += if first == 0 { 0 } else { intake.tables.len() as u64 };
        }
        let Some(places) = self.reserve_places(intakes, &bounds)? else { return Ok(Attempt::NeedsSeqnos) };
        let now = self.clock.unix_seconds();
        let mut edits = Vec::with_capacity(intakes.len());
        for ((intake, bounds), places) in intakes.iter().zip(bounds).zip(&places.places) {
            let mut edit = VersionEdit::new(ColumnFamilyId(intake.family.id));
            edit.last_sequence = Some(last);
            for ((brought, ((smallest, largest), seqno)), place) in intake.tables.iter().zip(bounds).zip(places) {
                edit.add_file(place.level, file_meta(brought, smallest, largest, seqno, now));
            }
            edits.push(edit);
        }
        *is_offered = true;
        let installed = self.write_for_certain(versions, |versions| versions.log_and_apply(&mut edits));
        if let Ok((_versions, installed)) = &installed {
            self.publish_with_new_memtables(side, intakes, installed, last);
        }
        let mut state = self.state.lock();
        for (family, id) in places.reserved {
            if let Some(background) = state.families.get_mut(&family) {
                background.running.release(id);
            }
        }
        drop(state);
        let (versions, _) = installed?;
        drop(versions);
        self.notify_of_tables(intakes.iter().flat_map(|intake| intake.tables.iter().map(|table| table.number)));
        Ok(Attempt::Installed)
    }

    /// Finds places, and keeps compactions away from them; `None` if tables are to have the number 0 and cannot. What was published last is current: the
    /// caller holds the lock of the versions.
    fn reserve_places(&self, intakes: &[Intake<'_>], bounds: &[Vec<(Bounds, SeqNo)>]) -> Result<Option<Places>> {
        let mut state = self.state.lock();
        let mut found = Places { places: Vec::new(), reserved: Vec::new() };
        for (intake, bounds) in intakes.iter().zip(bounds) {
            let pinned = intake.family.super_version.load();
            let Some(background) = state.families.get(&intake.family.id) else {
                return Err(Error::new(ErrorKind::NotFound, "the column family was dropped"));
            };
            let mut places = Vec::with_capacity(bounds.len());
            for (index, ((smallest, largest), _)) in bounds.iter().enumerate() {
                let keys = (smallest.user_key(), largest.user_key());
                let above = intake.level_beneath(index, bounds, &places);
                places.push(place(&pinned.version, &background.running, &pinned.options, keys, above));
            }
            let has_none = bounds.iter().any(|(_, seqno)| *seqno == 0);
            if has_none && places.iter().any(|place| place.level == 0 || place.overlaps) {
                return Ok(None);
            }
            found.places.push(places);
        }
        // Nothing fails any more.
        for ((intake, bounds), places) in intakes.iter().zip(bounds).zip(&found.places) {
            let Some(background) = state.families.get_mut(&intake.family.id) else { continue };
            for (place, ((smallest, largest), _)) in places.iter().zip(bounds).filter(|(place, _)| place.level > 0) {
                let id = background.running.reserve(place.level, smallest.user_key(), largest.user_key());
                found.reserved.push((intake.family.id, id));
            }
        }
        Ok(Some(found))
    }

    /// Lets readers see versions with numbers up to `last`; both before a compaction can look at them, which takes for hidden what no snapshot can see. An empty memtable is replaced, too: by it readers of several families see that something came between their pins.
    fn publish_with_new_memtables(
        &self,
        side: &WriteSide,
        intakes: &[Intake<'_>],
        versions: &[(ColumnFamilyId, Arc<Version>)],
        last: SeqNo,
    ) {
        let _state = self.state.lock();
        for Intake { family, .. } in intakes {
            let Some((_, version)) = versions.iter().find(|(id, _)| id.0 == family.id) else { continue };
            let old = family.super_version.load_full();
            let memtable = match old.memtable.is_empty() {
                true => Family::next_memtable(&old.options, &old.memtable, side.wal_number),
                false => Arc::clone(&old.memtable),
            };
            let (immutables, options) = (old.immutables.clone(), Arc::clone(&old.options));
            let version = Arc::clone(version);
            family.publish(SuperVersion { memtable, immutables, version, options }, self.clock.now_micros());
        }
        self.visible_seqno.store(last, Ordering::Release);
    }
}

fn file_meta(brought: &Brought, smallest: InternalKey, largest: InternalKey, seqno: SeqNo, now: u64) -> FileMetaData {
    FileMetaData {
        number: brought.number,
        file_size: brought.table.file_size,
        smallest,
        largest,
        smallest_seqno: seqno,
        largest_seqno: seqno,
        epoch_number: 0,
        oldest_ancestor_time: now,
        file_creation_time: now,
        unique_id: brought.table.unique_id,
        other_fields: other_fields(brought.file_crc, false),
        has_ranges: Some(brought.table.has_ranges),
    }
}
