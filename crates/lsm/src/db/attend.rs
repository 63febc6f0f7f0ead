//! Writers without threads: one thread attends to the requests of many.
//!
//! The requests stand in the [queue](super::write_queue) like those of threads, and whoever leads takes them along. They differ in one thing: nobody
//! is there to insert one of them beside its leader, so the leader does. The thread that attends waits for the first of them and leads
//! if nobody else does; then for the next.

use super::Db;
use super::state::DbInner;
use super::write_queue::Request;
use crate::batch::WriteBatch;
use crate::metrics::HistogramKind;
use crate::options::WriteOptions;
use crate::trace;
use siltstone_base::Result;
use siltstone_base::sync::Arc;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Requests that this thread attends to, with their places in the list of the caller. None stays in the queue without somebody who waits for it, not after a panic either.
struct Attended<'a> {
    db: &'a Arc<DbInner>,
    requests: VecDeque<(usize, Arc<Request>)>,
}

impl Attended<'_> {
    /// Waits until the first one is done.
    fn next(&mut self) -> Option<(usize, Arc<Request>)> {
        self.db.attend(&self.requests.front()?.1);
        self.requests.pop_front()
    }
}

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        while let Some((_, request)) = self.requests.pop_front() {
            // There are any left only after a panic; one more changes nothing.
            let _ = catch_unwind(AssertUnwindSafe(|| self.db.attend(&request)));
        }
    }
}

impl DbInner {
    /// Sees to it that a request is done: waits for whoever leads, or leads.
    fn attend(self: &Arc<Self>, request: &Arc<Request>) {
        while !request.is_done() {
            if let Some(leader) = self.try_lock_write_side()
                && !request.is_done()
            {
                // The outcome of the group reaches each request.
                let _ = self.lead(leader, None, None);
            } else {
                self.wait_for_turn(request);
            }
        }
    }

    fn write_each(
        self: &Arc<Self>,
        writes: impl IntoIterator<Item = (WriteBatch, WriteOptions)>,
        mut done: impl FnMut(usize, Result<()>),
    ) {
        let started = self.metrics.times_operations().then(|| self.clock.now_micros());
        let mut attended = Attended { db: self, requests: VecDeque::new() };
        for (place, (batch, options)) in writes.into_iter().enumerate() {
            match self.check_write(&batch, &options) {
                Ok(()) => {
                    let request = Request::unattended(batch, options);
                    attended.requests.push_back((place, Arc::clone(&request)));
                    self.write_queue.push(request);
                }
                Err(error) => done(place, Err(error)),
            }
        }
        while let Some((place, request)) = trace::write(&*self.clock, || attended.next()) {
            if let Some(started) = started {
                self.metrics.record(HistogramKind::DbWrite, self.clock.now_micros().saturating_sub(started));
            }
            done(place, request.outcome());
        }
    }
}

impl Db {
    /// Writes batches in their order, each all or nothing, and tells for each, by its place, how that ended. They share records of the WAL and syncs with each other and with
    /// what threads write meanwhile. Waits as a single write does.
    pub(crate) fn write_each(
        &self,
        writes: impl IntoIterator<Item = (WriteBatch, WriteOptions)>,
        done: impl FnMut(usize, Result<()>),
    ) {
        self.handle.inner.write_each(writes, done);
    }

    /// Keeps everybody from writing until the result is dropped.
    #[cfg(test)]
    pub(crate) fn hold_writes_for_test(&self) -> impl Sized {
        self.handle.inner.lock_write_side()
    }
}
