//! The sources that a database's iterators merge, as one type: no call through a pointer on the hot path.

use super::level::LevelIter;
use super::{InternalIterator, SeekStage};
use crate::memtable::MemtableIter;
use crate::sst::TableIter;
use siltstone_base::Result;

/// One source of entries.
#[derive(Debug)]
pub(crate) enum ChildIter {
    /// One memtable.
    Memtable(MemtableIter),
    /// One table.
    Table(TableIter),
    /// A sorted run of tables.
    Level(LevelIter),
}

macro_rules! each {
    ($self:ident, $iter:ident => $call:expr) => {
        match $self {
            Self::Memtable($iter) => $call,
            Self::Table($iter) => $call,
            Self::Level($iter) => $call,
        }
    };
}

impl ChildIter {
    /// Bytes of the blocks that it stands on.
    pub(crate) fn block_bytes(&self) -> usize {
        match self {
            Self::Memtable(_) => 0,
            Self::Table(iter) => iter.block_bytes(),
            Self::Level(iter) => iter.block_bytes(),
        }
    }

    /// Lets seeks in tables pass by those that have no key of the prefix whose XXPH3 hash is `prefix`. Memtables are asked by
    /// whoever holds them.
    pub(crate) fn set_prefix(&mut self, prefix: Option<u64>) {
        match self {
            Self::Memtable(_) => {}
            Self::Table(iter) => iter.set_prefix(prefix),
            Self::Level(iter) => iter.set_prefix(prefix),
        }
    }
}

impl InternalIterator for ChildIter {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, iter => iter.valid())
    }

    fn seek_to_first(&mut self) {
        each!(self, iter => iter.seek_to_first());
    }

    fn seek_to_last(&mut self) {
        each!(self, iter => iter.seek_to_last());
    }

    fn seek(&mut self, target: &[u8]) {
        each!(self, iter => iter.seek(target));
    }

    #[inline]
    fn prepare_seek(&mut self, target: &[u8], stage: SeekStage) {
        each!(self, iter => iter.prepare_seek(target, stage));
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        each!(self, iter => iter.seek_for_prev(target));
    }

    #[inline]
    fn next(&mut self) {
        each!(self, iter => iter.next());
    }

    #[inline]
    fn prev(&mut self) {
        each!(self, iter => iter.prev());
    }

    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, iter => iter.key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, iter => iter.value())
    }

    fn status(&self) -> Result<()> {
        each!(self, iter => iter.status())
    }
}
