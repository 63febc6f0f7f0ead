//! Snapshots: sequence numbers that users hold.

use crate::key::SeqNo;
use siltstone_base::expiry::TrustedClock;
use siltstone_base::sync::{Arc, Mutex, OnceLock, Rank};
use std::collections::BTreeMap;

/// Rank of the list of snapshots: the last lock that anyone takes.
const RANK: Rank = Rank(900);

/// A state of the database, over all its families. Reads at it see what was visible when it was taken. Cheap to
/// clone; released when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Held>);

#[derive(Debug)]
struct Held {
    seqno: SeqNo,
    /// When it was taken; 0 if no rows expired then.
    unix_seconds: u64,
    list: Arc<SnapshotList>,
}

impl Snapshot {
    /// The largest sequence number that the snapshot sees.
    pub fn seqno(&self) -> SeqNo {
        self.0.seqno
    }

    /// The time as of which rows that expire are read, in Unix seconds: when it was taken; 0 in a database whose rows do not expire.
    pub fn unix_seconds(&self) -> u64 {
        self.0.unix_seconds
    }

    /// Whether the snapshot was taken from the database that owns `list`.
    pub(crate) fn belongs_to(&self, list: &Arc<SnapshotList>) -> bool {
        Arc::ptr_eq(&self.0.list, list)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut live = self.list.live.lock();
        if let Some(holders) = live.get_mut(&self.seqno) {
            holders.count -= 1;
            if holders.count == 0 {
                live.remove(&self.seqno);
            }
        }
    }
}

/// All live snapshots of a database.
#[derive(Debug)]
pub(crate) struct SnapshotList {
    /// Holders by sequence number.
    live: Mutex<BTreeMap<SeqNo, Holders>>,
    /// The time, once rows expire.
    clock: Arc<OnceLock<TrustedClock>>,
}

/// The snapshots of one sequence number.
#[derive(Debug)]
struct Holders {
    count: usize,
    /// When the first of them was taken.
    unix_seconds: u64,
}

impl SnapshotList {
    /// Of no snapshots; `clock` tells when they are taken.
    pub(crate) fn new(clock: Arc<OnceLock<TrustedClock>>) -> Arc<Self> {
        Arc::new(Self { live: Mutex::new(RANK, BTreeMap::new()), clock })
    }

    /// Registers a snapshot of what `visible` says, read under the list's lock: a compaction that
    /// asks for [`seqnos`](Self::seqnos) later sees it. So does the time: who asks for the oldest one later sees this one.
    pub(crate) fn acquire(self: &Arc<Self>, visible: impl FnOnce() -> SeqNo) -> Snapshot {
        let mut live = self.live.lock();
        let seqno = visible();
        let unix_seconds = self.clock.get().map_or(0, TrustedClock::now);
        let holders = live.entry(seqno).or_insert(Holders { count: 0, unix_seconds });
        holders.count += 1;
        Snapshot(Arc::new(Held { seqno, unix_seconds, list: Arc::clone(self) }))
    }

    /// The live sequence numbers, ascending, each once.
    pub(crate) fn seqnos(&self) -> Vec<SeqNo> {
        self.live.lock().keys().copied().collect()
    }

    /// When the oldest live snapshot was taken, in Unix seconds; `None` if there is none.
    pub(crate) fn oldest_unix_seconds(&self) -> Option<u64> {
        self.live.lock().values().map(|holders| holders.unix_seconds).min()
    }

    /// How many distinct states are held.
    pub(crate) fn len(&self) -> usize {
        self.live.lock().len()
    }
}
