//! Changes of options while the database is open.
//!
//! A family's options are part of its super version and are replaced as that is, under the state lock, under which compactions are picked: so
//! each pick sees either the old or the new ones, and its job keeps what it saw.

use super::column_family::{ColumnFamily, Family};
use super::error_state::RoomMaker;
use super::state::DbInner;
use super::super_version::SuperVersion;
use crate::event::{ChangedOption, OptionsInfo};
use crate::options::WriteAdmission;
use crate::options::file::{change_database, change_family};
use siltstone_base::sync::Arc;
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::{Error, ErrorKind, Result};

impl DbInner {
    /// Changes options of `family`.
    pub(crate) fn set_options(self: &Arc<Self>, family: &Arc<Family>, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable()?;
        self.check_readable(family)?;
        let changed = self.replace_options(family, changes)?;
        if changed.is_empty() {
            return Ok(());
        }
        if family.options().disable_auto_compactions {
            // As where a family is dropped.
            self.errors.set_passing(RoomMaker::Compaction, None);
        }
        // Limits may be met by now, or not any more.
        self.update_pressure(family);
        self.options_changed(Some(family), changed)
    }

    fn replace_options(&self, family: &Family, changes: &[(&str, &str)]) -> Result<Vec<ChangedOption>> {
        let state = self.state.lock();
        if !state.families.contains_key(&family.id) {
            return Err(Error::new(ErrorKind::NotFound, "the column family was dropped"));
        }
        let old = family.super_version.load_full();
        let (options, changed) = change_family(&old.options, changes)?;
        if family.keeps_all.load(Ordering::Acquire) {
            options.check_keeps_all()?;
        }
        if !changed.is_empty() {
            family.publish(
                SuperVersion {
                    memtable: Arc::clone(&old.memtable),
                    immutables: old.immutables.clone(),
                    version: Arc::clone(&old.version),
                    options: Arc::new(options),
                },
                self.clock.now_micros(),
            );
        }
        drop(state);
        Ok(changed)
    }

    /// Changes options of the database.
    pub(crate) fn set_db_options(self: &Arc<Self>, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable()?;
        let changed = {
            // Not the write side: a change may be what a stopped writer that holds it waits for.
            let _changing = self.changing_options.lock();
            let (options, changed) = change_database(&self.live_options.load(), changes)?;
            if self.owns_executor {
                let grown = self.executor.grow(options.max_background_jobs);
                grown.map_err(|error| Error::io("start threads for", &self.dir, error))?;
            }
            self.wal_bytes_per_sync.store(options.wal_bytes_per_sync, Ordering::Relaxed);
            let old = self.live_options.load();
            if options.delayed_write_rate != old.delayed_write_rate {
                self.controller.set_delayed_write_rate(options.delayed_write_rate);
            }
            if options.write_admission != old.write_admission {
                self.is_paced.store(options.write_admission == WriteAdmission::Paced, Ordering::Relaxed);
                self.controller.set_admission(options.write_admission);
            }
            if options.rate_limiter_bytes_per_sec != old.rate_limiter_bytes_per_sec {
                self.io_rate.set_rate(options.rate_limiter_bytes_per_sec);
            }
            drop(old);
            self.live_options.store(Arc::new(options));
            changed
        };
        if changed.is_empty() {
            return Ok(());
        }
        // What is owed is counted for the pacer and the rate limiter alone.
        self.families.load().values().for_each(|family| self.update_pressure(family));
        self.options_changed(None, changed)
    }

    /// Tells everybody, and lets work begin that is due now.
    fn options_changed(self: &Arc<Self>, family: Option<&Family>, changed: Vec<ChangedOption>) -> Result<()> {
        let info = OptionsInfo { column_family: family.map(|family| family.name.clone()), changed };
        self.notify(|listener| listener.options_changed(&info));
        self.schedule();
        self.write_options_file()
    }
}

impl ColumnFamily {
    /// Refuses changes by which compactions would delete what no user deleted, from now on.
    pub(crate) fn keep_all(&self) {
        self.0.keeps_all.store(true, Ordering::Release);
    }
}
