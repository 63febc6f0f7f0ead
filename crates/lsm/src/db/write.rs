//! The write path: group, admit, make room, number, log, insert, publish.
//!
//! Path: put 2/5. Before: db/mod.rs. After: wal/writer.rs.
//!
//! One writer at a time leads: the one that holds the [`WriteSide`]. An uncontended writer takes it with one
//! compare-and-swap and leads a group of itself. The others wait in the [queue](super::write_queue) and are taken along.
//!
//! Order of publication: sequence numbers are *allocated*, then in the *WAL*, then in the *memtable*, then *visible*;
//! each number is at most the one before it. A group that fails to reach the WAL gives its numbers back, so that
//! numbers have no gaps.

use super::admission::closing;
use super::checked::Check;
use super::column_family::Family;
use super::company::Expectation;
use super::insert::Company;
use super::memtable_limit::ENTRY_OVERHEAD;
use super::state::DbInner;
use super::write_group::{Group, panicked};
use super::write_queue::Request;
use crate::batch::{BatchEntry, Step, WriteBatch, encode_header};
use crate::key::{MAX_SEQNO, SeqNo, ValueType};
use crate::metrics::{Counter, HistogramKind, PerfTime, times};
use crate::options::WriteOptions;
use crate::trace;
use crate::wal::WalWriter;
use crate::wide_columns::columns;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::atomic::Ordering;
use siltstone_base::sync::{Arc, MutexGuard};
use siltstone_base::{Error, ErrorKind, Result};

/// What only the leader touches.
#[derive(Debug)]
pub(crate) struct WriteSide {
    /// The WAL being written. `None` in a database opened for reading only.
    pub(crate) wal: Option<WalWriter>,
    /// Its number.
    pub(crate) wal_number: u64,
    /// The largest sequence number allocated.
    pub(crate) last_seqno: SeqNo,
    /// An append failed: the end of the WAL is unknown, and nothing may be appended to it any more.
    pub(crate) wal_broken: bool,
    /// Whether the WAL's entry in the directory is durable.
    pub(crate) wal_entry_synced: bool,
    /// How often the durable part of the WALs had grown when a record last stated it.
    pub(crate) stated_durable: u64,
    /// The WALs before this one, with their final sizes, that no record has stated yet.
    pub(crate) predecessors: Vec<(u64, u64)>,
    /// Whether the file of the WAL after this one was asked for.
    pub(crate) next_wal_asked: bool,
    /// Bytes of the WAL that writing back was started for.
    pub(crate) wal_written_back: u64,
    /// Bytes in all live WALs but the one being written, at most: those that were deleted since are found out when it matters.
    pub(crate) closed_wal_bytes: u64,
    /// Families whose memtable is full.
    pub(crate) full: Vec<u32>,
    /// Bytes by which memtables have grown since the limit of all was last looked at, at most.
    pub(crate) memtable_growth: u64,
    /// By how much they may until it is looked at again.
    pub(crate) memtable_room: u64,
    /// Bytes written since the pacer was last asked.
    pub(crate) unpaced_bytes: u64,
    /// Whether other writers come soon.
    pub(super) company: Expectation,
    /// Scratch: the predecessor's record.
    scratch: Vec<u8>,
}

impl WriteSide {
    pub(crate) fn new(wal: Option<WalWriter>, wal_number: u64, last_seqno: SeqNo) -> Self {
        Self {
            wal,
            wal_number,
            last_seqno,
            wal_broken: false,
            wal_entry_synced: false,
            stated_durable: 0,
            predecessors: Vec::new(),
            next_wal_asked: false,
            wal_written_back: 0,
            closed_wal_bytes: 0,
            full: Vec::new(),
            memtable_growth: 0,
            memtable_room: 0,
            unpaced_bytes: 0,
            company: Expectation::default(),
            scratch: Vec::new(),
        }
    }
}

impl WriteSide {
    /// A record states what is to be stated of the WALs.
    fn has_noted(&mut self, promise: Option<u64>) {
        self.predecessors.clear();
        self.stated_durable = promise.unwrap_or(self.stated_durable);
    }
}

/// Proof of leadership. Giving it back wakes the next writer.
pub(crate) struct Leader<'a> {
    // Fields are dropped in this order: the side is free before the next writer is woken.
    pub(crate) side: MutexGuard<'a, WriteSide>,
    _wake: WakeNext<'a>,
}

struct WakeNext<'a>(&'a DbInner);

impl Drop for WakeNext<'_> {
    fn drop(&mut self) {
        self.0.write_queue.wake_next();
    }
}

/// Makes the engine read-only unless it is defused: what a writer that panics has half done is not built upon.
struct FailOnPanic<'a>(&'a DbInner);

impl FailOnPanic<'_> {
    fn defuse(self) {
        std::mem::forget(self);
    }
}

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        self.0.fail(&panicked());
    }
}

/// A request whose writer inserts its batch. The leader is told of the end however it comes.
struct OwnInsert<'a> {
    request: &'a Request,
    outcome: Result<()>,
}

impl Drop for OwnInsert<'_> {
    fn drop(&mut self) {
        self.request.set_inserted(std::mem::replace(&mut self.outcome, Ok(())));
    }
}

impl DbInner {
    /// Writes `batch` atomically. It is unchanged afterwards but for its sequence number.
    pub(crate) fn write(self: &Arc<Self>, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        self.check_write(batch, options)?;
        if options.low_pri {
            self.yield_to_writers(batch.size_bytes() as u64, options)?;
        }
        let batch_bytes = batch.size_bytes() as u64;
        let write = || match self.try_lead() {
            Some(leader) => self.lead(leader, Some((batch, options)), None),
            None => self.follow(batch, options, None),
        };
        if self.metrics.times_operations() {
            self.metrics.record(HistogramKind::BytesPerWrite, batch_bytes);
        }
        trace::write(&*self.clock, || self.timed(HistogramKind::DbWrite, write))
    }

    /// Waits until no other writer leads, and leads without a batch: for switches, new families and closing.
    pub(crate) fn lock_write_side(&self) -> Leader<'_> {
        Leader { side: self.write_side.lock(), _wake: WakeNext(self) }
    }

    /// The same if nobody leads.
    pub(crate) fn try_lock_write_side(&self) -> Option<Leader<'_>> {
        let side = self.write_side.try_lock()?;
        Some(Leader { side, _wake: WakeNext(self) })
    }

    /// Refuses a write that cannot be what its options promise, or whose batch nobody could apply.
    pub(super) fn check_write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if options.sync && options.disable_wal {
            return Err(Error::invalid_argument("sync with disable_wal: without a WAL nothing can be made durable"));
        }
        self.check_batch(batch)
    }

    pub(super) fn check_batch(&self, batch: &WriteBatch) -> Result<()> {
        if self.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, "the database was opened for reading only"));
        }
        batch.check()?;
        if batch.size_bytes() > self.options.max_wal_record_bytes {
            return Err(too_large(batch.size_bytes(), self.options.max_wal_record_bytes));
        }
        if batch.is_default_only() && batch.is_plain() {
            return Ok(());
        }
        match batch.phase().map(crate::batch::Phase::step) {
            None => batch.iter().try_for_each(|entry| self.check_entry(&entry)),
            Some(Step::Foreign) => Err(Error::invalid_argument("a write batch with markers of two-phase commit")),
            // A family that was dropped since the transaction was prepared takes its entries along.
            Some(_) => batch.iter().try_for_each(|entry| match self.check_entry(&entry) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                checked => checked,
            }),
        }
    }

    /// Refuses an entry of a family that does not exist, or that the family cannot hold.
    fn check_entry(&self, entry: &BatchEntry<'_>) -> Result<()> {
        let id = entry.column_family.0;
        let Some(family) = self.family(id) else {
            return Err(Error::new(ErrorKind::NotFound, format!("column family {id} does not exist")));
        };
        match entry.kind {
            ValueType::Put | ValueType::Delete | ValueType::SingleDelete => Ok(()),
            ValueType::Merge if family.resolver.has_operator() => Ok(()),
            ValueType::Merge => {
                Err(Error::invalid_argument(format!("merge_operator: column family {} has none", family.name)))
            }
            ValueType::RangeDelete if family.comparator.compare_user(entry.key, entry.value).is_gt() => {
                Err(Error::invalid_argument("a range to delete ends before it begins"))
            }
            ValueType::RangeDelete => Ok(()),
            ValueType::WideColumnEntity => columns(entry.value).map(|_| ()),
            other => Err(super::read::unsupported_entry(other)),
        }
    }

    /// Waits in the queue until another writer has written the batch, or until it is this one's turn to lead.
    pub(super) fn follow(
        self: &Arc<Self>,
        batch: &mut WriteBatch,
        options: &WriteOptions,
        check: Option<Arc<Check>>,
    ) -> Result<()> {
        let request = Request::new(std::mem::take(batch), options.clone(), check);
        self.write_queue.push(Arc::clone(&request));
        loop {
            if request.is_done() {
                break;
            }
            if request.inserts_itself() {
                let own = request.take_batch();
                let mut insert = OwnInsert { request: &request, outcome: Err(panicked()) };
                insert.outcome = self.insert_batch(&own, request.first_seqno(), Company::Others).map(|_| ());
                request.return_batch(own);
            } else if let Some(side) = self.write_side.try_lock() {
                let leader = Leader { side, _wake: WakeNext(self) };
                if !request.is_done() {
                    // The outcome of the group reaches this writer through its request.
                    let _ = self.lead(leader, None, Some(&request));
                    continue;
                }
            }
            times::timed(PerfTime::WriteThreadWait, || self.wait_for_turn(&request));
        }
        *batch = request.take_batch();
        request.outcome()
    }

    pub(super) fn wait_for_turn(&self, request: &Request) {
        const SPINS: u32 = 200;
        let mut ready = || {
            request.is_done() || request.inserts_itself() || (!request.has_inserted() && !self.write_side.is_locked())
        };
        for _ in 0..SPINS {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        self.executor.wait_until(&request.signal, None, &mut ready);
    }

    /// Leads one group: `own` first, then what waits in the queue.
    pub(super) fn lead(
        self: &Arc<Self>,
        mut leader: Leader<'_>,
        own: Option<(&mut WriteBatch, &WriteOptions)>,
        own_request: Option<&Arc<Request>>,
    ) -> Result<()> {
        if let Some((batch, options)) = own {
            let group = Group { own: Some(&*batch), followers: Vec::new() };
            return self.lead_group(&mut leader, group, options, own_request);
        }
        let Some(first) = self.write_queue.pop_to_lead() else { return Ok(()) };
        let batch = first.take_batch();
        let mut group = Group { own: None, followers: vec![(Arc::clone(&first), Some(batch))] };
        if let Some(Err(error)) = first.check.as_ref().map(|check| self.check_again(check)) {
            group.send_last_away(error);
            return Ok(());
        }
        self.lead_group(&mut leader, group, &first.options, own_request)
    }

    pub(super) fn lead_group(
        self: &Arc<Self>,
        leader: &mut Leader<'_>,
        mut group: Group<'_>,
        options: &WriteOptions,
        own_request: Option<&Arc<Request>>,
    ) -> Result<()> {
        let unfinished = FailOnPanic(self);
        let mut bytes: usize = group.batches().map(WriteBatch::size_bytes).sum();
        let side = &mut *leader.side;
        let mut outcome = self.make_room(side, bytes as u64, options);
        if outcome.is_ok() {
            bytes = self.gather(side, &mut group, bytes, options, own_request);
            outcome = self.write_group(side, &mut group, options, bytes, own_request);
        }
        group.finish(&outcome);
        unfinished.defuse();
        outcome
    }

    /// Numbers, logs, inserts and publishes a group.
    fn write_group(
        self: &Arc<Self>,
        side: &mut WriteSide,
        group: &mut Group<'_>,
        options: &WriteOptions,
        bytes: usize,
        own_request: Option<&Arc<Request>>,
    ) -> Result<()> {
        let count: u64 = group.batches().map(|batch| u64::from(batch.applied_count())).sum();
        let first_seqno = side.last_seqno + 1;
        let last_seqno = side.last_seqno + count;
        if last_seqno >= MAX_SEQNO {
            return Err(Error::new(ErrorKind::LimitExceeded, "no sequence numbers are left"));
        }
        let logged = match options.disable_wal {
            true => 0,
            false => times::timed(PerfTime::WriteWal, || self.log_group(side, group, first_seqno, options.sync))?,
        };
        let has_phases = group.batches().any(|batch| batch.phase().is_some());
        let decided = if has_phases { self.begin_phases(side, group) } else { Vec::new() };
        let default_only = group.batches().all(WriteBatch::is_default_only);
        let began = times::begin();
        let batches = usize::from(group.own.is_some()) + group.followers.len();
        side.company.grouped(batches);
        let inserted = if self.is_inserted_concurrently(group, bytes, own_request) {
            self.insert_group_concurrently(group, first_seqno, own_request)
        } else {
            self.insert_group(group, first_seqno)
        };
        times::end(PerfTime::WriteMemtable, began);
        if let Err(error) = inserted {
            self.fail(&error);
            return Err(error);
        }
        decided.iter().for_each(|name| self.prepared_logs.decided(name));
        side.last_seqno = last_seqno;
        self.visible_seqno.store(last_seqno, Ordering::Release);
        side.memtable_growth += bytes as u64 + count * ENTRY_OVERHEAD;
        self.note_full_memtables(side, default_only);
        let batches = batches as u64;
        self.metrics.add_all([
            (Counter::KeysWritten, count),
            (Counter::BytesWritten, bytes as u64),
            (Counter::WalBytes, logged),
            (Counter::WriteGroups, 1),
            (Counter::WriteBatches, batches),
            (Counter::WritesLogged, if options.disable_wal { 0 } else { batches }),
        ]);
        Ok(())
    }

    /// Appends one record for the whole group with one write, and syncs it if asked. Returns the bytes by which the WAL grew.
    fn log_group(&self, side: &mut WriteSide, group: &Group<'_>, first_seqno: SeqNo, sync: bool) -> Result<u64> {
        let count: u64 = group.batches().map(|batch| u64::from(batch.logged().1)).sum();
        let count = u32::try_from(count)
            .map_err(|_| Error::new(ErrorKind::LimitExceeded, "more than 2^32 - 1 entries in one group"))?;
        let header = encode_header(first_seqno, count);
        let promise = self.note(side);
        let Some(wal) = &mut side.wal else {
            return Err(Error::new(ErrorKind::ReadOnly, "the database has no WAL"));
        };
        let before = wal.len();
        let appended = match (group.own, &group.followers[..]) {
            (Some(own), []) if own.phase().is_none() => wal.add_record(&[&header, &side.scratch, own.body()]),
            _ => {
                let mut parts: Vec<&[u8]> = vec![&header, &side.scratch];
                parts.extend(group.batches().flat_map(|batch| batch.logged().0).filter(|part| !part.is_empty()));
                wal.add_record(&parts)
            }
        };
        if let Err(error) = appended {
            side.wal_broken = true;
            return Err(error);
        }
        let grown = wal.len() - before;
        self.wal_lag.grew(grown);
        side.has_noted(promise);
        if sync && !is_planted(PlantedBug::SyncedWriteIsNotSynced) {
            self.sync_wals(side)?;
        } else {
            self.write_back(side);
        }
        Ok(grown)
    }

    /// Fills the scratch with what the next record says beside its batches, and returns how often the durable part had grown that it states, if it does.
    fn note(&self, side: &mut WriteSide) -> Option<u64> {
        side.scratch.clear();
        if side.wal.as_ref().is_some_and(|wal| wal.len() == 0) {
            super::wal_note::append_own_number(&mut side.scratch, side.wal_number);
        }
        for (number, size) in side.predecessors.iter().copied() {
            super::wal_note::append_predecessor(&mut side.scratch, &self.db_id, number, size);
        }
        let (point, raised) = self.durable_wal.newer_than(side.stated_durable)?;
        super::wal_note::append_promise(&mut side.scratch, &self.db_id, point);
        Some(raised)
    }

    /// States durably, in a new WAL, where the ones before it end.
    #[cold]
    pub(crate) fn log_notes(&self, side: &mut WriteSide) -> Result<()> {
        let promise = self.note(side);
        let header = encode_header(side.last_seqno + 1, 0);
        let Some(wal) = &mut side.wal else { return Ok(()) };
        if let Err(error) = wal.add_record(&[&header, &side.scratch]) {
            side.wal_broken = true;
            return Err(error);
        }
        side.has_noted(promise);
        self.sync_wals(side)
    }

    /// Takes note of what a group that is in the WAL prepares, before anything of it is applied, and returns the names of the transactions that it decides.
    #[cold]
    fn begin_phases(&self, side: &WriteSide, group: &Group<'_>) -> Vec<Vec<u8>> {
        let mut decided = Vec::new();
        for batch in group.batches() {
            let Some(phase) = batch.phase() else { continue };
            if phase.step() == Step::Prepare {
                self.prepared_logs.prepared(phase.name(), side.wal_number);
                continue;
            }
            decided.push(phase.name().to_vec());
            let Some(log) = self.prepared_logs.find(phase.name()) else { continue };
            if is_planted(PlantedBug::PreparedLogIsForgotten) {
                continue;
            }
            for entry in batch.iter().take(batch.applied_count() as usize) {
                if let Some(family) = self.family(entry.column_family.0) {
                    family.super_version.load().memtable.note_prepared_log(log);
                }
            }
        }
        decided
    }

    /// Starts writing the WAL back every `wal_bytes_per_sync` bytes.
    fn write_back(&self, side: &mut WriteSide) {
        let every = self.wal_bytes_per_sync.load(Ordering::Relaxed);
        if let (Some(wal), true) = (&mut side.wal, every > 0) {
            let len = wal.len();
            if len - side.wal_written_back >= every {
                wal.sync_range(side.wal_written_back, len - side.wal_written_back);
                side.wal_written_back = len;
            }
        }
    }

    /// Notes which memtables of the group's families are full, and has the next WAL made once one is half full.
    fn note_full_memtables(self: &Arc<Self>, side: &mut WriteSide, default_only: bool) {
        let mut is_half_full = false;
        let mut full = |family: &Family| {
            let pinned = family.super_version.load();
            let (bytes, limit) = (pinned.memtable.approximate_memory_usage(), pinned.options.write_buffer_size);
            is_half_full |= bytes >= limit / 2;
            bytes >= limit
        };
        if default_only {
            if full(&self.default_family) {
                side.full.push(0);
            }
        } else {
            for (id, family) in self.families.load().iter() {
                if full(family) {
                    side.full.push(*id);
                }
            }
        }
        if is_half_full && !side.next_wal_asked {
            self.ask_for_next_wal(side);
        }
    }

    /// Everything that must be true before a group may be written: no fatal error, a sound WAL, memtables with
    /// room, and admission.
    fn make_room(self: &Arc<Self>, side: &mut WriteSide, bytes: u64, options: &WriteOptions) -> Result<()> {
        self.errors.check()?;
        if self.is_closing() {
            return Err(closing());
        }
        if side.wal_broken {
            self.rotate_wal(side)?;
        }
        if !side.full.is_empty() {
            times::timed(PerfTime::WriteSwitch, || self.switch_full_memtables(side))?;
        }
        if side.closed_wal_bytes > 0 {
            self.limit_wal_size(side)?;
        }
        if self.options.db_write_buffer_size > 0 && side.memtable_growth.saturating_add(bytes) >= side.memtable_room {
            self.limit_memtables(side, bytes, options)?;
        }
        if self.controller.is_engaged() {
            times::timed(PerfTime::WriteDelay, || self.wait_for_admission(bytes, options))?;
        }
        if self.is_unwatched() {
            self.watch();
        }
        if let Some(pacer) = self.pacer() {
            side.unpaced_bytes += bytes;
            if pacer.is_due(side.unpaced_bytes) {
                let wait = || self.keep_pace(pacer, &mut side.unpaced_bytes, bytes, options);
                times::timed(PerfTime::WriteDelay, wait)?;
            }
        }
        Ok(())
    }
}

/// Recovery would refuse the record.
#[cold]
fn too_large(bytes: usize, limit: usize) -> Error {
    Error::invalid_argument(format!("max_wal_record_bytes: a write batch of {bytes} bytes is longer than {limit}"))
}
