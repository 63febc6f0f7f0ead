//! The queue in which writers wait while another one leads.

use super::checked::Check;
use super::state::ranks;
use crate::batch::WriteBatch;
use crate::key::SeqNo;
use crate::options::WriteOptions;
use siltstone_base::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};
use siltstone_base::sync::{Arc, CachePadded, Mutex, Signal};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::VecDeque;

/// Followers in the order of their arrival.
///
/// Protocol: a writer that does not get the write side at once enqueues a [`Request`] and waits until the request is
/// done or the write side is free. Whoever gives the write side back wakes the first request; its writer then leads
/// a group that begins with it. A request is taken by exactly one leader, which sets its outcome. One that nobody waits for is passed over by whoever begins a group, so that nobody
/// writes by its options, and is taken along; a group begins with it once many have passed it over.
/// While a leader itself has to wait, requests that must not are refused.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    waiting: CachePadded<AtomicUsize>,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    /// In the order of their arrival.
    queue: VecDeque<Arc<Request>>,
    /// What requests are told that must not wait, while the leader does.
    refusal: Option<Error>,
}

/// A leader that waits; until this is dropped.
pub(crate) struct WaitingLeader<'a>(&'a WriteQueue);

impl Drop for WaitingLeader<'_> {
    fn drop(&mut self) {
        self.0.requests.lock().refusal = None;
    }
}

/// A batch that waits for a leader.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) options: WriteOptions,
    pub(crate) bytes: usize,
    /// What must not have changed for the batch to be written.
    pub(crate) check: Option<Arc<Check>>,
    pub(crate) signal: Signal,
    /// Nobody waits for this request alone: whoever leads its group inserts its batch.
    pub(crate) is_unattended: bool,
    /// Nobody waits for it at all: somebody looks at it now and then.
    is_detached: bool,
    /// How many groups began with a later one.
    passed_over: AtomicU32,
    phase: AtomicU8,
    slot: Mutex<Slot>,
}

#[derive(Debug)]
struct Slot {
    batch: WriteBatch,
    first_seqno: SeqNo,
    outcome: Result<()>,
}

/// After so many groups a request that nobody waits for begins one: it may be too large for the others.
const MOST_PASSED_OVER: u32 = 64;

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const INSERTS_ITSELF: u8 = 2;
const INSERTED: u8 = 3;
const DONE: u8 = 4;

impl Request {
    pub(crate) fn new(batch: WriteBatch, options: WriteOptions, check: Option<Arc<Check>>) -> Arc<Self> {
        Arc::new(Self::of(batch, options, check, false))
    }

    /// A request that nobody waits for.
    pub(crate) fn detached(batch: WriteBatch, options: WriteOptions, check: Arc<Check>) -> Arc<Self> {
        Arc::new(Self { is_detached: true, ..Self::of(batch, options, Some(check), true) })
    }

    /// A request that shares the thread that waits for it with others.
    #[cfg(feature = "tokio")]
    pub(crate) fn unattended(batch: WriteBatch, options: WriteOptions) -> Arc<Self> {
        Arc::new(Self::of(batch, options, None, true))
    }

    fn of(batch: WriteBatch, options: WriteOptions, check: Option<Arc<Check>>, is_unattended: bool) -> Self {
        let bytes = batch.size_bytes();
        let slot = Mutex::new(ranks::WRITE_REQUEST, Slot { batch, first_seqno: 0, outcome: Ok(()) });
        let phase = AtomicU8::new(WAITING);
        Self {
            options,
            bytes,
            check,
            signal: Signal::new(),
            is_unattended,
            is_detached: false,
            passed_over: AtomicU32::new(0),
            phase,
            slot,
        }
    }

    /// Takes the batch out, for the leader or, at the end, for its writer.
    pub(crate) fn take_batch(&self) -> WriteBatch {
        std::mem::take(&mut self.slot.lock().batch)
    }

    /// Gives the batch back, so that its writer can use its memory again.
    pub(crate) fn return_batch(&self, batch: WriteBatch) {
        self.slot.lock().batch = batch;
    }

    pub(crate) fn finish(&self, outcome: Result<()>) {
        let mut slot = self.slot.lock();
        slot.outcome = outcome;
        self.phase.store(DONE, Ordering::Release);
        drop(slot);
        self.signal.notify_all();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase.load(Ordering::Acquire) == DONE
    }

    /// REQUIRES: inserted or done.
    pub(crate) fn outcome(&self) -> Result<(), Error> {
        self.slot.lock().outcome.clone()
    }

    /// Asks the request's own writer to insert the batch, which is in its slot again, from `first_seqno` on.
    pub(crate) fn let_insert_itself(&self, first_seqno: SeqNo) {
        self.slot.lock().first_seqno = first_seqno;
        self.phase.store(INSERTS_ITSELF, Ordering::Release);
        self.signal.notify_all();
    }

    pub(crate) fn inserts_itself(&self) -> bool {
        self.phase.load(Ordering::Acquire) == INSERTS_ITSELF
    }

    /// The sequence number of the batch's first entry. REQUIRES: asked to insert itself.
    pub(crate) fn first_seqno(&self) -> SeqNo {
        self.slot.lock().first_seqno
    }

    /// Tells the leader how the insertion by the request's own writer ended.
    pub(crate) fn set_inserted(&self, outcome: Result<()>) {
        let mut slot = self.slot.lock();
        // A leader that panics does not wait for this: the request is done, and what it was told stays.
        if self.phase.compare_exchange(INSERTS_ITSELF, INSERTED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            slot.outcome = outcome;
        }
        drop(slot);
        self.signal.notify_all();
    }

    pub(crate) fn has_inserted(&self) -> bool {
        self.phase.load(Ordering::Acquire) == INSERTED
    }
}

impl WriteQueue {
    pub(crate) fn new() -> Self {
        let requests = Mutex::new(ranks::WRITE_QUEUE, Requests::default());
        Self { waiting: CachePadded::new(AtomicUsize::new(0)), requests }
    }

    /// Puts a request at the end, or tells it at once that it would have to wait.
    pub(crate) fn push(&self, request: Arc<Request>) {
        let mut requests = self.requests.lock();
        // Nobody waits for a detached one: it may stand here until the leader goes on.
        if request.options.no_slowdown
            && !request.is_detached
            && let Some(refusal) = &requests.refusal
        {
            request.finish(Err(refusal.clone()));
            return;
        }
        requests.queue.push_back(request);
        self.waiting.store(requests.queue.len(), Ordering::SeqCst);
        drop(requests);
        fence(Ordering::SeqCst);
    }

    /// The leader has to wait until the result is dropped. Requests that must not wait, those that are here and those that come, get `refusal`.
    pub(crate) fn leader_waits(&self, refusal: Error) -> WaitingLeader<'_> {
        let mut requests = self.requests.lock();
        requests.queue.retain(|request| {
            let is_refused = request.options.no_slowdown && !request.is_detached;
            if is_refused {
                request.finish(Err(refusal.clone()));
            }
            !is_refused
        });
        self.waiting.store(requests.queue.len(), Ordering::SeqCst);
        requests.refusal = Some(refusal);
        WaitingLeader(self)
    }

    /// Whether the leader waits.
    #[cfg(test)]
    pub(crate) fn has_waiting_leader_for_test(&self) -> bool {
        self.requests.lock().refusal.is_some()
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn len_for_test(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Whether nobody waits; one load.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Takes the next request if `admits` does.
    pub(crate) fn pop_if(&self, admits: impl FnOnce(&Request) -> bool) -> Option<Arc<Request>> {
        let mut requests = self.requests.lock();
        if !admits(requests.queue.front()?) {
            return None;
        }
        self.take(&mut requests, 0)
    }

    /// Takes the request that a group is to begin with: the first one that somebody waits for, unless one before it was passed over too often.
    pub(crate) fn pop_to_lead(&self) -> Option<Arc<Request>> {
        let mut requests = self.requests.lock();
        let is_next = |request: &Arc<Request>| {
            !request.is_detached || request.passed_over.fetch_add(1, Ordering::Relaxed) >= MOST_PASSED_OVER
        };
        let at = requests.queue.iter().position(is_next)?;
        self.take(&mut requests, at)
    }

    fn take(&self, requests: &mut Requests, at: usize) -> Option<Arc<Request>> {
        let request = requests.queue.remove(at);
        self.waiting.store(requests.queue.len(), Ordering::SeqCst);
        if let Some(request) = &request {
            request.phase.store(TAKEN, Ordering::Release);
        }
        request
    }

    /// Takes a request away that no leader has taken, and tells it so.
    pub(crate) fn withdraw(&self, request: &Arc<Request>) {
        let mut requests = self.requests.lock();
        let Some(at) = requests.queue.iter().position(|other| Arc::ptr_eq(other, request)) else { return };
        let withdrawn = requests.queue.remove(at);
        self.waiting.store(requests.queue.len(), Ordering::SeqCst);
        drop(requests);
        if let Some(request) = withdrawn {
            request.finish(Err(Error::new(ErrorKind::Aborted, "the write was withdrawn")));
        }
    }

    /// Wakes the writer that has waited longest. Call after the write side was given back.
    ///
    /// The fence pairs with the one in [`push`](Self::push): either this sees the new request, or its writer sees the
    /// write side free.
    #[inline]
    pub(crate) fn wake_next(&self) {
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.wake_next_slow();
        }
    }

    #[cold]
    fn wake_next_slow(&self) {
        // One that nobody waits for is passed over.
        for request in self.requests.lock().queue.iter() {
            request.signal.notify_all();
            if !request.is_detached {
                break;
            }
        }
    }
}
