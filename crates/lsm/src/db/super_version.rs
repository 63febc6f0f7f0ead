//! What a reader pins: one memtable being written, the sealed ones and a version, as one immutable value; and the options that hold meanwhile.

use crate::memtable::{ImmutableList, Memtable};
use crate::options::ColumnFamilyOptions;
use crate::version::Version;
use std::sync::Arc;

/// The state of a column family at one moment.
///
/// Thread safety: immutable; replaced as a whole under the database's state lock, read without a lock.
///
/// Order of publication: a reader pins the super version *first* and reads the visible sequence number *then*.
/// Everything up to that number which the pinned memtables do not hold was written after the pin,
/// so that what the reader sees is the state at one moment between the two. Whether the family was dropped it asks *then*, too: what is published behind
/// that has no rows any more.
#[derive(Debug)]
pub(crate) struct SuperVersion {
    /// The memtable that writers insert into.
    pub(crate) memtable: Arc<Memtable>,
    /// Sealed memtables, newest first.
    pub(crate) immutables: ImmutableList,
    /// The table files.
    pub(crate) version: Arc<Version>,
    /// The family's options.
    pub(crate) options: Arc<ColumnFamilyOptions>,
}

impl SuperVersion {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(self.immutables.newest_first())
    }
}
