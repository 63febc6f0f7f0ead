//! Who wants to know of values that go because a newer entry hides them.
//!
//! A flush or a compaction that drops an older value of a key has the newest one at hand. What the older one stood for, and the newest does not, needs nobody who
//! reads either of them: so index entries are found that their rows do not yield any more.

use crate::key::{SeqNo, ValueType};
use siltstone_base::sync::atomic::{AtomicBool, Ordering};
use siltstone_base::sync::{Arc, OnceLock};
use std::fmt;

/// Sees values that go. Called by background jobs, which hold no lock; any number of them at the same time.
pub(crate) trait HiddenRows: Send + Sync + fmt::Debug {
    /// Whether values of this key are of interest.
    fn watches(&self, key: &[u8]) -> bool;

    /// A value goes.
    fn went(&self, row: &HiddenRow<'_>);

    /// Whether a compaction had better wait for a while: what it tells now is soon forgotten.
    fn is_full(&self) -> bool {
        false
    }
}

/// A value that goes, and what took its place.
#[derive(Debug)]
pub(crate) struct HiddenRow<'a> {
    /// The user key.
    pub(crate) key: &'a [u8],
    /// The value that goes.
    pub(crate) older: &'a [u8],
    /// The value of the newest entry of the key that the job has met; `None`: a tombstone.
    pub(crate) newest: Option<&'a [u8]>,
    /// The number of that entry.
    pub(crate) newest_seqno: SeqNo,
    /// The files of the job.
    pub(crate) files: &'a Arc<JobFiles>,
}

/// The tables that a flush or a compaction reads, and those that it writes.
#[derive(Debug, Default)]
pub(crate) struct JobFiles {
    inputs: Vec<u64>,
    outputs: OnceLock<Vec<u64>>,
    /// What the job met is in one of the files that readers see.
    is_seen: AtomicBool,
}

impl JobFiles {
    /// Those of a compaction that reads `inputs` and has no outputs yet.
    pub(crate) fn of_compaction(inputs: Vec<u64>) -> Arc<Self> {
        Arc::new(Self { inputs, outputs: OnceLock::new(), is_seen: AtomicBool::new(true) })
    }

    /// That of a flush, which readers do not see yet.
    pub(crate) fn of_flush(output: u64) -> Arc<Self> {
        let files = Self::default();
        files.set_outputs(vec![output]);
        Arc::new(files)
    }

    /// The job has ended: its outputs are in the version, or will never be.
    pub(crate) fn set_seen(&self) {
        self.is_seen.store(true, Ordering::Release);
    }

    /// Whether it is of use to look for what the job met.
    pub(crate) fn is_seen(&self) -> bool {
        self.is_seen.load(Ordering::Acquire)
    }

    /// Says which outputs there are; once.
    pub(crate) fn set_outputs(&self, outputs: Vec<u64>) {
        let _ = self.outputs.set(outputs);
    }

    /// Whether a file is one of them.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.inputs.contains(&number) || self.outputs.get().is_some_and(|outputs| outputs.contains(&number))
    }
}

/// Who sees what one job drops.
#[derive(Debug, Clone)]
pub(crate) struct HiddenWatch {
    /// Who wants to know.
    pub(crate) rows: Arc<dyn HiddenRows>,
    /// The files of the job.
    pub(crate) files: Arc<JobFiles>,
}

/// What a job remembers of the key at hand.
#[derive(Debug)]
pub(super) struct HiddenTally {
    watch: HiddenWatch,
    /// The newest entry of the key: its number, and whether it is a value. `None` if the key is of no interest.
    newest: Option<(SeqNo, bool)>,
    /// That value.
    value: Vec<u8>,
}

impl HiddenTally {
    pub(super) fn new(watch: HiddenWatch) -> Self {
        Self { watch, newest: None, value: Vec::new() }
    }

    /// The first entry of a key.
    #[inline]
    pub(super) fn first(&mut self, key: &[u8], seqno: SeqNo, value_type: ValueType, value: &[u8]) {
        self.newest = None;
        let is_value = match value_type {
            ValueType::Put => true,
            ValueType::Delete => false,
            _ => return,
        };
        if self.watch.rows.watches(key) {
            self.newest = Some((seqno, is_value));
            self.value.clear();
            self.value.extend_from_slice(value);
        }
    }

    /// An older entry of the same key, which is dropped because a newer one hides it.
    #[inline]
    pub(super) fn hidden(&self, key: &[u8], value_type: ValueType, value: &[u8]) {
        let Some((newest_seqno, is_value)) = self.newest else { return };
        if value_type == ValueType::Put {
            let newest = is_value.then_some(&self.value[..]);
            self.watch.rows.went(&HiddenRow { key, older: value, newest, newest_seqno, files: &self.watch.files });
        }
    }
}
