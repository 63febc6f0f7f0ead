//! The step from the WAL to the memtables: a group's batches get their numbers and become entries.
//!
//! Called by db/write.rs, between logging and publishing.

use super::company;
use super::state::DbInner;
use super::write_group::Group;
use super::write_queue::Request;
use crate::batch::{BatchEntry, WriteBatch};
use crate::key::SeqNo;
use crate::memtable::Memtable;
use siltstone_base::executor::{Waited, give_way};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// Whether a batch is inserted while other batches of its group are.
#[derive(Clone, Copy)]
pub(super) enum Company {
    /// No other thread inserts.
    Alone,
    /// Other threads may insert into the same memtable.
    Others,
}

impl DbInner {
    /// Inserts the whole group on this thread.
    pub(super) fn insert_group(&self, group: &Group<'_>, first_seqno: SeqNo) -> Result<()> {
        let mut seqno = first_seqno;
        for batch in group.batches() {
            seqno = self.insert_batch(batch, seqno, Company::Alone)?;
        }
        Ok(())
    }

    /// Whether writers of a group insert their batches beside the leader.
    pub(super) fn is_inserted_concurrently(
        &self,
        group: &Group<'_>,
        bytes: usize,
        own_request: Option<&Arc<Request>>,
    ) -> bool {
        let least = self.options.concurrent_memtable_write_bytes;
        let batches = usize::from(group.own.is_some()) + group.followers.len();
        least > 0
            && bytes >= least.min(batches * company::LARGE_BATCH_BYTES)
            && group.followers.iter().any(|(request, _)| self.may_insert_itself(request, own_request))
    }

    /// Whether a writer of a group is worth waking to insert its own batch.
    fn may_insert_itself(&self, request: &Arc<Request>, own_request: Option<&Arc<Request>>) -> bool {
        let least = self.options.concurrent_memtable_write_bytes.min(company::WORTH_WAKING_BYTES);
        request.bytes >= least && !request.is_unattended && own_request.is_none_or(|own| !Arc::ptr_eq(own, request))
    }

    /// Lets every follower insert its own batch while this thread inserts the leader's.
    pub(super) fn insert_group_concurrently(
        &self,
        group: &mut Group<'_>,
        first_seqno: SeqNo,
        own_request: Option<&Arc<Request>>,
    ) -> Result<()> {
        self.prepare_for_many(group);
        let mut seqno = first_seqno;
        let mut mine = Vec::new();
        let mut others = Vec::new();
        if let Some(own) = group.own {
            mine.push((own, seqno));
            seqno += u64::from(own.applied_count());
        }
        for (request, slot) in &mut group.followers {
            let first = seqno;
            seqno += slot.as_ref().map_or(0, |batch| u64::from(batch.applied_count()));
            if !self.may_insert_itself(request, own_request) {
                mine.extend(slot.as_ref().map(|batch| (batch, first)));
            } else if let Some(batch) = slot.take() {
                request.return_batch(batch);
                request.let_insert_itself(first);
                others.push(&*request);
            }
        }
        let mut outcome = Ok(());
        for (batch, seqno) in mine {
            outcome = outcome.and(self.insert_batch(batch, seqno, Company::Others).map(|_| ()));
        }
        for request in others {
            // An executor of steps knows of no other thread that it could wait for.
            while !request.has_inserted() {
                if self.executor.wait_until(&request.signal, None, &mut || request.has_inserted()) == Waited::Stuck {
                    give_way();
                }
            }
            outcome = outcome.and_then(|()| request.outcome());
        }
        outcome
    }

    /// Makes what writers that are alone make, in the memtables that the group goes to.
    fn prepare_for_many(&self, group: &Group<'_>) {
        let prepare = |memtable: &Memtable| memtable.prepare_for_many();
        for batch in group.batches() {
            if batch.is_default_only() {
                prepare(&self.default_family.super_version.load().memtable);
                continue;
            }
            let mut last = None;
            for entry in batch.iter().take(batch.applied_count() as usize) {
                if last.replace(entry.column_family) != Some(entry.column_family)
                    && let Some(family) = self.family(entry.column_family.0)
                {
                    prepare(&family.super_version.load().memtable);
                }
            }
        }
    }

    /// Inserts every entry of a batch into the memtable of its family, run by run. Entries of families that do not exist
    /// any more are skipped but keep their numbers. Returns the number after the last.
    pub(super) fn insert_batch(&self, batch: &WriteBatch, first_seqno: SeqNo, company: Company) -> Result<SeqNo> {
        if batch.applied_count() == 0 {
            return Ok(first_seqno);
        }
        let mut seqno = first_seqno;
        let mut entries = batch.iter().peekable();
        while let Some(first) = entries.peek() {
            let id = first.column_family;
            let pinned = match id.0 {
                0 => Some(self.default_family.super_version.load()),
                other => self.family(other).map(|family| family.super_version.load()),
            };
            let run = std::iter::from_fn(|| entries.next_if(|entry| entry.column_family == id));
            seqno = match (&pinned, company) {
                (None, _) => seqno + run.count() as u64,
                (Some(pinned), Company::Alone) => insert_run(&pinned.memtable, seqno, run)?,
                (Some(pinned), Company::Others) => insert_run_beside_others(&pinned.memtable, seqno, run)?,
            };
        }
        Ok(seqno)
    }
}

fn insert_run<'a>(memtable: &Memtable, first: SeqNo, run: impl Iterator<Item = BatchEntry<'a>>) -> Result<SeqNo> {
    let mut writer = memtable.writer().ok_or_else(two_writers)?;
    let mut seqno = first;
    for entry in run {
        writer.add(seqno, entry.kind, entry.key, entry.value);
        seqno += 1;
    }
    Ok(seqno)
}

fn insert_run_beside_others<'a>(
    memtable: &Memtable,
    first: SeqNo,
    run: impl Iterator<Item = BatchEntry<'a>>,
) -> Result<SeqNo> {
    let mut writer = memtable.concurrent_writer().ok_or_else(two_writers)?;
    let mut seqno = first;
    for entry in run {
        writer.add(seqno, entry.kind, entry.key, entry.value);
        seqno += 1;
    }
    Ok(seqno)
}

#[cold]
fn two_writers() -> Error {
    Error::new(ErrorKind::Poisoned, "two writers met in one memtable")
}
