//! Taking in what a transaction changed that was too much for memory: tables of several families, all at once.
//!
//! The tables are written while others read and write, and who brings them waits as a writer of so many bytes does. Then, as for tables that come from outside: what the families have in memory
//! is flushed, because it is older; somebody leads, so that nobody writes; it is looked whether watched keys changed; what came meanwhile is flushed; WALs are made durable; one record of the
//! MANIFEST names the tables of all families; readers see them.

use super::install::Intake;
use super::{Brought, FLUSHES_BESIDE_WRITERS, is_in_memory};
use crate::db::admission::closing;
use crate::db::checked::Check;
use crate::db::column_family::Family;
use crate::db::making_files::MakingFiles;
use crate::db::state::DbInner;
use crate::db::timestamps::refuse_writing;
use crate::db::write::Leader;
use crate::event::{FlushReason, SpilledCommitInfo};
use crate::external::{ExternalTable, OpenContext, SstFileWriter};
use crate::file_copy::read_prefix;
use crate::file_names::FileName;
use crate::holders::Holder;
use crate::key::{SeqNo, ValueType};
use crate::options::{ColumnFamilyOptions, CompactionStyle, DbOptions, FileChecksum, FlushOptions, WriteOptions};
use siltstone_base::env::FileKind;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// A family gets about so many tables at most, however large they become: they may come to level 0, where many would slow writers down.
const TABLES: u64 = 8;

/// So much in memory is flushed by who leads: that takes hardly longer than the syncs that it waits for anyway.
const LITTLE_BYTES: usize = 1 << 20;

/// Where an entry lies among those of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Beneath: older than the other entry of its key.
    Beneath,
    /// Above all.
    Above,
}

/// Tables with the changes of one transaction, that go again unless they are [taken in](Self::take_in).
///
/// Families come one after the other ([`begin`](Self::begin)), and of each the keys in their order.
pub(crate) struct ChangedTables {
    db: Arc<DbInner>,
    /// For the environment.
    options: DbOptions,
    families: Vec<FamilyTables>,
    /// The numbers of all files that were begun.
    numbers: Vec<u64>,
    /// From the first table on: closing waits for them to be taken in or removed. Goes last.
    making: Option<MakingFiles>,
}

struct FamilyTables {
    family: Arc<Family>,
    options: Arc<ColumnFamilyOptions>,
    /// A table ends at this size.
    table_bytes: u64,
    beneath: Layer,
    above: Layer,
}

/// Tables that do not overlap.
#[derive(Default)]
struct Layer {
    /// The one that is being written.
    writer: Option<(u64, SstFileWriter)>,
    /// Ascending.
    tables: Vec<Brought>,
}

impl Drop for ChangedTables {
    fn drop(&mut self) {
        // Writers remove their files.
        self.families.clear();
        if !self.numbers.is_empty() {
            // They are deleted once no MANIFEST can name them.
            self.numbers.drain(..).for_each(|number| self.db.obsolete_tables.push(FileName::Table(number)));
            self.db.delete_obsolete_files();
        }
    }
}

impl ChangedTables {
    pub(in crate::db) fn new(db: &Arc<DbInner>) -> Self {
        let options = db.options.clone().env(Some(Arc::clone(&db.env))).executor(Some(Arc::clone(&db.executor)));
        Self { db: Arc::clone(db), options, families: Vec::new(), numbers: Vec::new(), making: None }
    }

    /// Waits for as long as writers are stopped: before much is written, and while the families are as they are.
    ///
    /// # Errors
    ///
    /// `Incomplete` if the commit must not wait, and would have to; the engine's error, `Aborted` if the database is being closed.
    pub(crate) fn wait_for_room(&self, options: &WriteOptions) -> Result<()> {
        self.db.wait_to_bring(0, options)
    }

    /// Goes on to the family `id`, which gets about `bytes`.
    ///
    /// # Errors
    ///
    /// `NotFound` if the family was dropped, `Aborted` if the database is being closed, and errors of I/O of the family before.
    pub(crate) fn begin(&mut self, id: u32, bytes: u64) -> Result<()> {
        self.end_family()?;
        if self.making.is_none() {
            self.making = Some(self.db.make_files()?);
        }
        let Some(family) = self.db.family(id) else {
            return Err(Error::new(ErrorKind::NotFound, format!("column family {id} does not exist")));
        };
        let options = family.options();
        refuse_writing(&family.name, &options)?;
        let table_bytes = match options.compaction_style {
            CompactionStyle::Leveled => options.target_file_size_base.max(bytes / TABLES),
            // Each would be a run of its own.
            _ => u64::MAX,
        };
        let (beneath, above) = (Layer::default(), Layer::default());
        self.families.push(FamilyTables { family, options, table_bytes, beneath, above });
        Ok(())
    }

    /// Adds an entry; of each depth keys ascend.
    ///
    /// # Errors
    ///
    /// Errors of I/O, after which all is to be dropped.
    pub(crate) fn add(&mut self, depth: Depth, kind: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        let Some(family) = self.families.last_mut() else {
            return Err(Error::invalid_argument("an entry of no family"));
        };
        if self.db.is_closing() {
            return Err(closing());
        }
        let layer = match depth {
            Depth::Beneath => &mut family.beneath,
            Depth::Above => &mut family.above,
        };
        let (_, writer) = match &mut layer.writer {
            Some(writer) => writer,
            None => {
                let number = self.db.file_numbers.allocate();
                let path = FileName::Table(number).path(&self.db.dir);
                let mut writer = SstFileWriter::create(path, &self.options, &family.options)?;
                writer.count_memory(self.db.holders.charge(Holder::Jobs));
                self.numbers.push(number);
                layer.writer.insert((number, writer))
            }
        };
        writer.add(key, kind, value)?;
        if writer.file_size() >= family.table_bytes {
            layer.end_table(&self.db, &family.options)?;
        }
        Ok(())
    }

    fn end_family(&mut self) -> Result<()> {
        let Some(family) = self.families.last_mut() else { return Ok(()) };
        family.beneath.end_table(&self.db, &family.options)?;
        family.above.end_table(&self.db, &family.options)
    }

    /// Makes all tables part of the database, durably, as one commit: all of them or, after an error, none. Unless a watched key has changed: then fails with `Busy`.
    ///
    /// # Errors
    ///
    /// Those of writing, flushing, and of the MANIFEST; `NotFound` if a family was dropped; `Incomplete` if it would have to wait for background work, and `options` say that it must not.
    pub(crate) fn take_in(mut self, check: Option<Check>, options: &WriteOptions) -> Result<()> {
        self.end_family()?;
        // The tables of each family in one list, the older ones first.
        let families = std::mem::take(&mut self.families).into_iter().map(|mut family| {
            let older = family.beneath.tables.len();
            family.beneath.tables.append(&mut family.above.tables);
            (family.family, family.beneath.tables, older)
        });
        let families: Vec<_> = families.filter(|(_, tables, _)| !tables.is_empty()).collect();
        let outcome = self.db.take_in(&families, check, options);
        if outcome.is_ok() {
            self.numbers.clear();
        }
        for (family, ..) in &families {
            self.db.update_pressure(family);
        }
        self.db.schedule();
        if let Some(seqnos) = outcome? {
            self.db.tell_of_commit(&families, seqnos);
        }
        Ok(())
    }
}

impl Layer {
    fn end_table(&mut self, db: &DbInner, options: &ColumnFamilyOptions) -> Result<()> {
        let Some((number, writer)) = self.writer.take() else { return Ok(()) };
        let info = writer.finish()?;
        let table = ExternalTable::examine(&OpenContext { env: &*db.env, options }, &info.path, false)?;
        let wants_crc = db.options.file_checksum == FileChecksum::Crc32c;
        let crc = wants_crc.then(|| read_prefix(&*db.env, &info.path, FileKind::Table, info.file_size, |_| Ok(())));
        self.tables.push(Brought { table, number, file_crc: crc.transpose()? });
        Ok(())
    }
}

/// A family, its tables, and how many of the first ones lie beneath the others.
type Taken = (Arc<Family>, Vec<Brought>, usize);

impl DbInner {
    fn tell_of_commit(&self, families: &[Taken], seqnos: (SeqNo, SeqNo)) {
        let tables = || families.iter().flat_map(|(_, tables, _)| tables);
        let info = SpilledCommitInfo {
            column_families: families.iter().map(|(family, ..)| family.name.to_string()).collect(),
            tables: tables().count(),
            bytes: tables().map(|brought| brought.table.file_size).sum(),
            seqnos,
        };
        self.notify(|listener| listener.spilled_commit(&info));
    }

    /// Returns the numbers that the tables have; `None` if there are none.
    fn take_in(
        self: &Arc<Self>,
        families: &[Taken],
        mut check: Option<Check>,
        options: &WriteOptions,
    ) -> Result<Option<(SeqNo, SeqNo)>> {
        self.check_writable()?;
        if families.is_empty() {
            // Nothing was changed in the end; what was read counts all the same.
            return check.map_or(Ok(()), |check| self.check_alone(&check)).map(|()| None);
        }
        let bytes = families.iter().flat_map(|(_, tables, _)| tables).map(|brought| brought.table.file_size).sum();
        self.wait_to_bring(bytes, options)?;
        self.mend_manifest()?;
        let all: Vec<_> = families.iter().map(|(family, ..)| Arc::clone(family)).collect();
        let mut leader = self.lead_with_little_left(&all, &mut check)?;
        self.check_writable()?;
        for family in &all {
            self.check_readable(family)?;
        }
        // Nobody writes from here on.
        if let Some(check) = &check {
            self.check_again(check)?;
        }
        // Recovery tells what a WAL holds from what tables hold by their numbers: nothing older than the tables may be in a WAL only.
        let in_memory: Vec<_> = all.iter().filter(|family| is_in_memory(family)).cloned().collect();
        if !in_memory.is_empty() {
            self.switch_memtables(&mut leader.side, &in_memory, FlushReason::Manual)?;
            self.wait_until_flushed_leading(&in_memory)?;
        }
        self.sync_wals(&mut leader.side)?;
        let intakes = families.iter().map(|(family, tables, older)| Intake::in_two_layers(family, tables, *older));
        let intakes: Vec<_> = intakes.collect();
        let before = leader.side.last_seqno;
        self.try_install(&mut leader, &intakes, true)?;
        Ok(Some((before + 1, leader.side.last_seqno)))
    }

    /// Leads, with little or nothing of the families in memory and what is watched looked at in the tables that there are. Both are done while others may write; what they write meanwhile is
    /// left for the leader, for whom it is less than it was.
    fn lead_with_little_left(
        self: &Arc<Self>,
        families: &[Arc<Family>],
        check: &mut Option<Check>,
    ) -> Result<Leader<'_>> {
        let mut before = usize::MAX;
        for _ in 0..FLUSHES_BESIDE_WRITERS {
            let in_memory: Vec<_> = families.iter().filter(|family| is_in_memory(family)).cloned().collect();
            let bytes = in_memory.iter().map(|family| bytes_in_memory(family)).sum();
            let is_worth_it = before == usize::MAX || (bytes > LITTLE_BYTES && bytes <= before / 2);
            if in_memory.is_empty() || !is_worth_it || self.is_paused() {
                break;
            }
            self.flush(&in_memory, &FlushOptions::default())?;
            before = bytes;
        }
        if let Some(check) = check {
            self.look(check)?;
        }
        Ok(self.lock_write_side())
    }
}

/// Bytes of memtables whose entries are in no table.
fn bytes_in_memory(family: &Family) -> usize {
    let pinned = family.super_version.load();
    let memtables = std::iter::once(&pinned.memtable).chain(pinned.immutables.newest_first());
    memtables.map(|memtable| memtable.approximate_memory_usage()).sum()
}
