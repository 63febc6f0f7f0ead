//! Creating, dropping and flushing column families.

use super::column_family::Family;
use super::error_state::RoomMaker;
use super::expiry::FamilyExpiry;
use super::state::{DbInner, FamilyState};
use super::super_version::SuperVersion;
use super::timestamps::refuse_writing;
use crate::event::FlushReason;
use crate::key::ColumnFamilyId;
use crate::memtable::ImmutableList;
use crate::options::{ColumnFamilyOptions, FlushOptions};
use crate::version::{FamilyConfig, Version, VersionSet};
use siltstone_base::expiry::Known;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::collections::BTreeMap;

impl DbInner {
    /// Creates a family and writes an OPTIONS file that has it.
    pub(crate) fn create_family(self: &Arc<Self>, name: &str, options: &ColumnFamilyOptions) -> Result<Arc<Family>> {
        let _making = self.make_files()?;
        let family = self.add_family(name, options)?;
        if let Some(expiry) = &family.expiry
            && let Err(error) = self.surroundings.expiry.open([expiry.home()])
        {
            self.drop_family(&family)?;
            return Err(error);
        }
        // The family exists; a file that could not be written is tried again with the next change.
        let _ = self.write_options_file();
        Ok(family)
    }

    /// Creates a family. It starts with the WAL that is being written. What its policy saves is kept back.
    pub(crate) fn add_family(self: &Arc<Self>, name: &str, options: &ColumnFamilyOptions) -> Result<Arc<Family>> {
        self.check_writable()?;
        options.validate()?;
        refuse_writing(name, options)?;
        let options = Arc::new(self.options_files.of_new_family(name, options.clone()));
        let leader = self.lock_write_side();
        let log_number = leader.side.wal_number;
        let mut versions = self.versions.lock();
        self.check_writable()?;
        if self.families.load().values().any(|family| family.name == name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("column family {name} exists")));
        }
        let id = versions.create_family(name, &FamilyConfig::from(&*options), log_number)?;
        let Some(version) = versions.family(id).map(|family| Arc::clone(family.current())) else {
            return Err(Error::new(ErrorKind::Aborted, "the version set lost the new column family"));
        };
        let first = SuperVersion {
            memtable: Family::new_memtable(&self.memtable_memory, &options, log_number),
            immutables: ImmutableList::default(),
            version,
            options,
        };
        let family = Arc::new(Family::new(id.0, name.to_owned(), first, &self.surroundings));
        let mut state = self.state.lock();
        state.families.insert(id.0, FamilyState::default());
        let mut families = BTreeMap::clone(&self.families.load());
        families.insert(id.0, Arc::clone(&family));
        self.families.store(Arc::new(families));
        drop((state, versions, leader));
        if let Some(expiry) = &family.expiry
            && let Err(error) = self.attach_policy(expiry)
        {
            self.drop_family(&family)?;
            return Err(error);
        }
        Ok(family)
    }

    /// Tells the policy of a new family where it is. If it is the first one of this opening, nothing of the database expires that was there before: time is known to be what it was at the opening, and has
    /// gone on since.
    fn attach_policy(&self, expiry: &FamilyExpiry) -> Result<()> {
        let known = Known { db_id: self.db_id.clone(), newest_table: Some(self.time_since_opening.now()) };
        self.surroundings.expiry.set_known(known);
        self.surroundings.expiry.begin()?;
        expiry.attach()
    }

    /// Drops a family.
    pub(crate) fn drop_family(self: &Arc<Self>, family: &Arc<Family>) -> Result<()> {
        self.check_writable()?;
        if family.id == 0 {
            return Err(Error::invalid_argument("the default column family cannot be dropped"));
        }
        self.check_readable(family)?;
        let _making = self.make_files()?;
        // As at its creation: what counts is the MANIFEST.
        let _ = self.write_options_file_without(Some(family));
        self.remove_family(family)?;
        if let Some(expiry) = &family.expiry {
            expiry.detach();
            self.surroundings.expiry.forget(family.id);
        }
        // What the handle still pins is an empty family: the files go when the last reader does.
        let options = family.options();
        family.publish(
            SuperVersion {
                memtable: Family::new_memtable(&self.memtable_memory, &options, 0),
                immutables: ImmutableList::default(),
                version: Arc::new(Version::empty(
                    ColumnFamilyId(family.id),
                    family.comparator.clone(),
                    options.num_levels,
                )),
                options,
            },
            self.clock.now_micros(),
        );
        self.controller.forget(family.id);
        // What a compaction of it met, nobody will try again. One of another family that still meets it says so.
        self.errors.set_passing(RoomMaker::Compaction, None);
        self.changed.notify_all();
        self.delete_obsolete_files();
        self.schedule();
        Ok(())
    }

    /// Removes a family from the MANIFEST and from what there is.
    fn remove_family(self: &Arc<Self>, family: &Arc<Family>) -> Result<()> {
        let removed = self.remove_family_locked(family);
        // Where that failed, or where another family came meanwhile, the file says too little or too much.
        let _ = self.write_options_file();
        removed
    }

    fn remove_family_locked(&self, family: &Arc<Family>) -> Result<()> {
        let leader = self.lock_write_side();
        let versions = self.versions.lock();
        self.check_writable()?;
        self.check_readable(family)?;
        let is_own = |other: &Family, _| other.id == family.id;
        let needed_log = self.oldest_needed_log(leader.side.wal_number, is_own);
        let kept_log = self.oldest_prepared_log(is_own).map_or(needed_log, |prepared| prepared.min(needed_log));
        let write = |versions: &mut VersionSet| versions.drop_family(ColumnFamilyId(family.id), kept_log);
        let (_versions, ()) = self.write_for_certain(versions, write)?;
        family.mark_dropped();
        let mut state = self.state.lock();
        state.families.remove(&family.id);
        state.manual.retain(|manual| !manual.is_of(family.id));
        let mut families = BTreeMap::clone(&self.families.load());
        families.remove(&family.id);
        self.families.store(Arc::new(families));
        Ok(())
    }

    /// Fails if nothing may be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the database was opened for reading only"));
        }
        if self.is_closing() {
            return Err(Error::new(ErrorKind::Aborted, "the database is closing"));
        }
        self.errors.check()
    }

    /// Flushes the memtables of `families`.
    pub(crate) fn flush(self: &Arc<Self>, families: &[Arc<Family>], options: &FlushOptions) -> Result<()> {
        self.check_writable()?;
        for family in families {
            self.check_readable(family)?;
        }
        {
            let mut leader = self.lock_write_side();
            self.check_writable()?;
            self.switch_memtables(&mut leader.side, families, FlushReason::Manual)?;
        }
        if !options.wait {
            return Ok(());
        }
        self.wait_until_flushed(families)
    }

    /// Waits until all that is sealed by now is in tables.
    pub(crate) fn wait_until_flushed(&self, families: &[Arc<Family>]) -> Result<()> {
        self.wait_for_flushes(families, &|| false)
    }

    /// The same for who leads: nobody writes meanwhile. While background work is paused it gives up with `Aborted`, and writers need not wait for who resumes it, who may want to write first.
    pub(crate) fn wait_until_flushed_leading(&self, families: &[Arc<Family>]) -> Result<()> {
        self.wait_for_flushes(families, &|| self.is_resting())
    }

    fn wait_for_flushes(&self, families: &[Arc<Family>], gives_up: &dyn Fn() -> bool) -> Result<()> {
        // A family's memtables are flushed in order, so what was sealed by now is flushed when the newest of it is.
        let newest: Vec<_> = families
            .iter()
            .filter_map(|family| Some((family, family.super_version.load().immutables.newest_first().first()?.clone())))
            .collect();
        let failures = || -> u64 {
            let state = self.state.lock();
            let of = |family: &Arc<Family>| state.families.get(&family.id).map_or(0, |state| state.failed_flushes);
            newest.iter().map(|(family, _)| of(family)).sum()
        };
        let failures_before = failures();
        let flushed = || {
            newest.iter().all(|(family, memtable)| {
                let pinned = family.super_version.load();
                family.is_dropped()
                    || !pinned.immutables.newest_first().iter().any(|sealed| Arc::ptr_eq(sealed, memtable))
            })
        };
        // As it was when this was seen: a later flush of others takes it back.
        let met = Cell::new(None);
        let failed = || {
            let error = (failures() > failures_before).then(|| self.errors.passing(RoomMaker::Flush)).flatten();
            let is_met = error.is_some();
            met.set(error);
            is_met || self.errors.is_failed()
        };
        self.wait(|| flushed() || failed() || self.is_closing() || gives_up())?;
        self.errors.check()?;
        match met.take() {
            Some(error) if !flushed() => Err(error),
            None if !flushed() && gives_up() => Err(Error::new(
                ErrorKind::Aborted,
                "background work is paused, and what is in memory must be flushed first",
            )),
            _ if !flushed() => Err(Error::new(ErrorKind::Aborted, "the database is closing")),
            _ => Ok(()),
        }
    }
}
