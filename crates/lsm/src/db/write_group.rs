//! Which batches are written together.
//!
//! Called by db/write.rs, between making room and logging.

use super::checked::GroupKeys;
use super::company;
use super::state::DbInner;
use super::write::WriteSide;
use super::write_queue::Request;
use crate::batch::WriteBatch;
use crate::metrics::{PerfTime, times};
use crate::options::WriteOptions;
use siltstone_base::executor::has_several_processors;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// The batches that one leader writes together.
pub(super) struct Group<'a> {
    /// The leader's own batch, when it did not come through the queue.
    pub(super) own: Option<&'a WriteBatch>,
    /// Requests with their batches, in order. A batch that its own writer inserts is with its request again.
    pub(super) followers: Vec<(Arc<Request>, Option<WriteBatch>)>,
}

impl Group<'_> {
    pub(super) fn batches(&self) -> impl Iterator<Item = &WriteBatch> {
        self.own.into_iter().chain(self.followers.iter().filter_map(|(_, batch)| batch.as_ref()))
    }

    /// Tells the last follower that its batch is not written.
    pub(super) fn send_last_away(&mut self, error: Error) {
        if let Some((request, batch)) = self.followers.pop() {
            request.return_batch(batch.unwrap_or_default());
            request.finish(Err(error));
        }
    }

    /// Tells every follower and gives the batches back to their writers.
    pub(super) fn finish(&mut self, outcome: &Result<()>) {
        for (request, batch) in std::mem::take(&mut self.followers) {
            if let Some(batch) = batch {
                request.return_batch(batch);
            }
            request.finish(outcome.clone());
        }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if !self.followers.is_empty() {
            self.finish(&Err(panicked()));
        }
    }
}

#[cold]
pub(super) fn panicked() -> Error {
    Error::new(ErrorKind::Poisoned, "a writer panicked")
}

impl DbInner {
    /// Takes along what waits in the queue and fits, where need be after waiting a moment for it. Returns the bytes of the group, which has `own_bytes` so far.
    pub(super) fn gather(
        &self,
        side: &mut WriteSide,
        group: &mut Group<'_>,
        own_bytes: usize,
        options: &WriteOptions,
        own_request: Option<&Arc<Request>>,
    ) -> usize {
        // One who writes for others alone brings nobody, and one who must not wait does not.
        let may_wait = (group.own.is_some() || own_request.is_some()) && !options.no_slowdown;
        let waits = may_wait
            && self.write_queue.is_empty()
            && has_several_processors()
            && side.company.is_expected(own_bytes, own_request.is_some());
        let is_in_time = waits && times::timed(PerfTime::WriteThreadWait, || self.wait_for_company(own_bytes));
        let bytes =
            if self.write_queue.is_empty() { own_bytes } else { self.take_followers(group, own_bytes, options) };
        // Whoever leads next waits for what came along.
        side.unpaced_bytes += (bytes - own_bytes) as u64;
        if waits {
            // Somebody who makes other promises is no company.
            side.company.waited(is_in_time && bytes > own_bytes);
        }
        bytes
    }

    /// Waits a moment for somebody who writes beside this leader. Returns whether somebody has come in time.
    fn wait_for_company(&self, bytes: usize) -> bool {
        company::wait(&*self.clock, bytes, || !self.write_queue.is_empty())
    }

    /// Takes requests along while they fit: the same promises, and no more bytes than allowed. There is room: nobody among them waits any more.
    fn take_followers(&self, group: &mut Group<'_>, mut bytes: usize, options: &WriteOptions) -> usize {
        let limit = self.options.max_write_batch_group_size_bytes;
        // A small first batch is not made to wait for a large group.
        let limit = if bytes <= limit / 8 { bytes + limit / 8 } else { limit };
        let limit = limit.min(self.options.max_wal_record_bytes);
        let mut keys = GroupKeys::default();
        while let Some(request) = self.write_queue.pop_if(|request| {
            bytes + request.bytes <= limit
                && (!request.options.sync || options.sync)
                && request.options.disable_wal == options.disable_wal
        }) {
            let batch = request.take_batch();
            group.followers.push((Arc::clone(&request), Some(batch)));
            if let Some(check) = &request.check {
                // All but itself.
                let before = group.batches().count().saturating_sub(1);
                if let Err(error) = self.check_behind(check, &mut keys, group.batches().take(before)) {
                    group.send_last_away(error);
                    continue;
                }
            }
            bytes += request.bytes;
        }
        bytes
    }
}
