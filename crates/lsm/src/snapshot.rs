//! Snapshots: sequence numbers that users hold.

use crate::key::SeqNo;
use siltstone_base::sync::{Arc, Mutex, Rank};
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
    list: Arc<SnapshotList>,
}

impl Snapshot {
    /// The largest sequence number that the snapshot sees.
    pub fn seqno(&self) -> SeqNo {
        self.0.seqno
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
            *holders -= 1;
            if *holders == 0 {
                live.remove(&self.seqno);
            }
        }
    }
}

/// All live snapshots of a database.
#[derive(Debug)]
pub(crate) struct SnapshotList {
    /// Holders by sequence number.
    live: Mutex<BTreeMap<SeqNo, usize>>,
}

impl SnapshotList {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { live: Mutex::new(RANK, BTreeMap::new()) })
    }

    /// Registers a snapshot of what `visible` says, read under the list's lock: a compaction that
    /// asks for [`seqnos`](Self::seqnos) later sees it.
    pub(crate) fn acquire(self: &Arc<Self>, visible: impl FnOnce() -> SeqNo) -> Snapshot {
        let mut live = self.live.lock();
        let seqno = visible();
        *live.entry(seqno).or_insert(0) += 1;
        Snapshot(Arc::new(Held { seqno, list: Arc::clone(self) }))
    }

    /// The live sequence numbers, ascending, each once.
    pub(crate) fn seqnos(&self) -> Vec<SeqNo> {
        self.live.lock().keys().copied().collect()
    }

    /// How many distinct states are held.
    pub(crate) fn len(&self) -> usize {
        self.live.lock().len()
    }
}
