//! Taking tables in that were written outside of the database.
//!
//! Steps: look where the files begin and end; bring them into the directory and make them durable; look through what is there now; flush what is in memory where
//! it must be older than the tables for certain; lead, so that nobody writes; make the WALs durable; name the tables in the MANIFEST with their sequence numbers; let
//! readers see them.
//!
//! Each table gets the next number, and the WAL has no entry of it: the MANIFEST states it. Everything before it is durable first, so that after a power loss
//! the tables are not there without a write that came before them.

mod changes;
mod install;
mod placement;

pub(crate) use changes::{ChangedTables, Depth};

use super::admission::closing;
use super::column_family::Family;
use super::state::DbInner;
use super::timestamps::refuse_writing;
use super::write::Leader;
use crate::event::FlushReason;
use crate::external::{ExternalTable, OpenContext};
use crate::file_copy::{copy_file, link_or_copy, read_prefix};
use crate::file_names::FileName;
use crate::key::SeqNo;
use crate::metrics::HistogramKind;
use crate::options::{FileChecksum, IngestExternalFileOptions};
use install::{Attempt, Intake};
use placement::place;
use siltstone_base::env::{FileKind, IoContext, IoPriority};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;

/// A table that is in the directory and in no version yet.
#[derive(Debug)]
struct Brought {
    table: ExternalTable,
    number: u64,
    /// CRC32c of the file, if the MANIFEST gets it.
    file_crc: Option<u32>,
}

/// Tables in the directory that go again unless they are [kept](Self::keep).
struct BroughtTables<'a> {
    db: &'a DbInner,
    tables: Vec<Brought>,
}

impl BroughtTables<'_> {
    fn keep(mut self) {
        self.tables.clear();
    }
}

impl Drop for BroughtTables<'_> {
    fn drop(&mut self) {
        if self.tables.is_empty() {
            return;
        }
        // They are deleted once no MANIFEST can name them.
        self.tables.iter().for_each(|brought| self.db.obsolete_tables.push(FileName::Table(brought.number)));
        self.db.delete_obsolete_files();
    }
}

/// Flushes that are made beside writers; if there is something in memory again after so many, writers wait for one more.
const FLUSHES_BESIDE_WRITERS: usize = 3;

impl DbInner {
    /// Makes the tables at `paths` part of `family`; if the number of the newest entry is another than `only_at`, where that is given, it is `Busy`.
    pub(crate) fn ingest(
        self: &Arc<Self>,
        family: &Arc<Family>,
        paths: &[&Path],
        options: &IngestExternalFileOptions,
        only_at: Option<SeqNo>,
    ) -> Result<SeqNo> {
        // Names of files are this opening's until what was brought is named in the MANIFEST, or gone.
        let _making = self.make_files()?;
        self.check_writable()?;
        self.check_readable(family)?;
        refuse_writing(&family.name, &family.options())?;
        if options.ingest_behind {
            return Err(Error::not_supported("ingest_behind"));
        }
        let tables = self.examine(family, paths)?;
        if tables.is_empty() {
            return Ok(0);
        }
        self.mend_manifest()?;
        let brought = self.metrics.measured(HistogramKind::IngestPrepare, || {
            let brought = self.bring(tables, options)?;
            if options.verify_checksums_before_ingest {
                self.look_through(family, &brought.tables)?;
            }
            Ok(brought)
        })?;
        let began = self.clock.now_micros();
        let outcome = {
            let mut leader = self.lead_with_little_in_memory(family, options)?;
            if only_at.is_some_and(|seqno| seqno != leader.side.last_seqno) {
                // What was brought goes when the leader has gone.
                drop(leader);
                drop(brought);
                return Err(Error::new(ErrorKind::Busy, "something was written meanwhile"));
            }
            self.install_tables(&mut leader, family, &brought.tables, options)
        };
        self.metrics.record(HistogramKind::IngestRun, self.clock.now_micros().saturating_sub(began));
        if outcome.is_ok() {
            brought.keep();
        } else {
            drop(brought);
        }
        self.update_pressure(family);
        self.open_tables_with_ranges(family);
        self.schedule();
        let seqno = outcome?;
        if options.move_files {
            // The tables are in; a name that stays is only a second one.
            paths.iter().for_each(|path| drop(self.env.remove_file(path)));
        }
        Ok(seqno)
    }

    /// Looks where the files begin and end. They come back in the order of their keys, and with paths that are no links.
    fn examine(&self, family: &Family, paths: &[&Path]) -> Result<Vec<ExternalTable>> {
        let family_options = family.options();
        let context = OpenContext { env: &*self.env, options: &family_options };
        let own = self.env.resolve(&self.dir).map_err(|error| Error::io("resolve", &self.dir, error))?;
        let examine = |path: &&Path| {
            let resolved = self.env.resolve(path).map_err(|error| Error::io("resolve", path, error))?;
            if resolved.parent() == Some(&*own) {
                return Err(Error::invalid_argument("a file of the database itself cannot be taken in").with_file(path));
            }
            ExternalTable::examine(&context, &resolved, false)
        };
        let tables: Result<Vec<_>> = paths.iter().map(examine).collect();
        let order = &family.comparator;
        let mut tables: Vec<_> = tables?.into_iter().map(|table| (table.bounds(order, 0), table)).collect();
        tables.sort_by(|(a, _), (b, _)| order.compare(a.0.as_bytes(), b.0.as_bytes()));
        for pair in tables.windows(2) {
            let [((_, largest), first), ((smallest, _), second)] = pair else { continue };
            if !largest.ends_before(order, smallest.user_key()) {
                let message = format!("the table overlaps {}", first.path.display());
                return Err(Error::invalid_argument(message).with_file(&second.path));
            }
        }
        Ok(tables.into_iter().map(|(_, table)| table).collect())
    }

    /// Brings the files into the directory under numbers of their own, durably.
    fn bring(&self, tables: Vec<ExternalTable>, options: &IngestExternalFileOptions) -> Result<BroughtTables<'_>> {
        let mut brought = BroughtTables { db: self, tables: Vec::with_capacity(tables.len()) };
        for table in tables {
            if self.is_closing() {
                return Err(closing());
            }
            let number = self.file_numbers.allocate();
            brought.tables.push(Brought { table, number, file_crc: None });
            let Some(newest) = brought.tables.last_mut() else { continue };
            let crc = self.bring_file(&newest.table, number, options)?;
            newest.file_crc = crc;
        }
        self.sync_directory()?;
        Ok(brought)
    }

    /// Brings one file, and returns its checksum if the MANIFEST gets it.
    fn bring_file(
        &self,
        table: &ExternalTable,
        number: u64,
        options: &IngestExternalFileOptions,
    ) -> Result<Option<u32>> {
        let (from, to) = (table.path.as_path(), FileName::Table(number).path(&self.dir));
        let (env, kind, len) = (&*self.env, FileKind::Table, table.file_size);
        let wants_crc = self.options.file_checksum == FileChecksum::Crc32c;
        if !options.move_files && !options.link_files {
            let crc = copy_file(env, from, &to, kind, len)?;
            return Ok(wants_crc.then_some(crc));
        }
        if options.failed_move_fall_back_to_copy {
            link_or_copy(env, from, &to, kind, len)?;
        } else {
            env.hard_link(from, &to).map_err(|error| Error::io("link", from, error))?;
        }
        // Nobody knows whether whoever wrote it did.
        let synced = env.open_append(&to, &siltstone_base::env::FileOptions::new(kind)).and_then(|mut file| {
            file.sync_data(IoContext::new(kind, IoPriority::Low))?;
            file.finish()
        });
        match synced {
            // It may be read and not written. A copy is ours.
            Err(error)
                if error.kind() == std::io::ErrorKind::PermissionDenied && options.failed_move_fall_back_to_copy =>
            {
                env.remove_file(&to).map_err(|error| Error::io("delete", &to, error))?;
                copy_file(env, from, &to, kind, len)?;
            }
            synced => synced.map_err(|error| Error::io("sync", &to, error))?,
        }
        let crc = wants_crc.then(|| read_prefix(env, &to, kind, len, |_| Ok(())));
        crc.transpose()
    }

    /// Reads every entry of the tables as they are in the directory: what was brought is what is verified.
    fn look_through(&self, family: &Family, tables: &[Brought]) -> Result<()> {
        let family_options = family.options();
        let context = OpenContext { env: &*self.env, options: &family_options };
        for brought in tables {
            let path = FileName::Table(brought.number).path(&self.dir);
            let source = &brought.table.path;
            let found = ExternalTable::examine(&context, &path, true).map_err(|error| {
                let message = "the table, as it was brought into the directory, cannot be taken in";
                Error::new(error.kind(), message).with_file(source).with_source(error)
            })?;
            if !found.has_contents_of(&brought.table) {
                return Err(Error::corrupt("the table changed while it was taken in").with_file(source));
            }
        }
        Ok(())
    }

    /// Leads, with nothing of the family in memory if that can be had: it is flushed while others may write, as often as that helps.
    fn lead_with_little_in_memory(
        self: &Arc<Self>,
        family: &Arc<Family>,
        options: &IngestExternalFileOptions,
    ) -> Result<Leader<'_>> {
        for _ in 0..FLUSHES_BESIDE_WRITERS {
            // While work is paused no flush would end.
            if is_in_memory(family) && options.allow_blocking_flush && !self.is_paused() {
                self.flush(std::slice::from_ref(family), &crate::options::FlushOptions::default())?;
            }
            let leader = self.lock_write_side();
            if !is_in_memory(family) || !options.allow_blocking_flush {
                return Ok(leader);
            }
        }
        Ok(self.lock_write_side())
    }

    /// Names the tables in the MANIFEST and lets readers see them. Returns their sequence number.
    fn install_tables(
        self: &Arc<Self>,
        leader: &mut Leader<'_>,
        family: &Arc<Family>,
        tables: &[Brought],
        options: &IngestExternalFileOptions,
    ) -> Result<SeqNo> {
        self.check_writable()?;
        self.check_readable(family)?;
        let needs_seqno = options.snapshot_consistency || self.overlap_anything(family, tables);
        if needs_seqno && !options.allow_global_seqno {
            let message = "allow_global_seqno: the tables need a sequence number, and may not have one";
            return Err(Error::invalid_argument(message));
        }
        if needs_seqno && is_in_memory(family) {
            // Recovery tells what a WAL holds from what tables hold by their numbers: nothing older than the tables may be in a WAL only.
            if !options.allow_blocking_flush {
                let message = "allow_blocking_flush: memtables must be flushed first, and may not be";
                return Err(Error::invalid_argument(message));
            }
            self.switch_memtables(&mut leader.side, std::slice::from_ref(family), FlushReason::Manual)?;
            self.wait_until_flushed_leading(std::slice::from_ref(family))?;
        }
        self.sync_wals(&mut leader.side)?;
        if !needs_seqno && self.try_install(leader, &[Intake::new(family, tables)], false)? == Attempt::Installed {
            return Ok(0);
        }
        // There is nothing in memory: the tables may have numbers.
        if !options.allow_global_seqno {
            return Err(Error::new(ErrorKind::Busy, "a compaction came between; try again"));
        }
        self.try_install(leader, &[Intake::new(family, tables)], true)?;
        Ok(leader.side.last_seqno)
    }

    /// Whether something in memory or in tables overlaps, or a place that is free now must be level 0. Nobody writes meanwhile; compactions only move
    /// what there is.
    fn overlap_anything(&self, family: &Family, tables: &[Brought]) -> bool {
        if is_in_memory(family) {
            return true;
        }
        let state = self.state.lock();
        let pinned = family.super_version.load();
        let Some(background) = state.families.get(&family.id) else { return true };
        tables.iter().any(|brought| {
            let (smallest, largest) = brought.table.bounds(&family.comparator, 0);
            let (smallest, largest) = (smallest.user_key(), largest.user_key());
            let found = place(&pinned.version, &background.running, &pinned.options, (smallest, largest), None);
            found.overlaps || found.level == 0
        })
    }
}

/// Whether the family has entries that are in no table.
fn is_in_memory(family: &Family) -> bool {
    let pinned = family.super_version.load();
    !pinned.memtable.is_empty() || !pinned.immutables.is_empty()
}

#[cfg(test)]
mod tests;
