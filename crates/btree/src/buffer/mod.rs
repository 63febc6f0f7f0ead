//! The buffer pool: the pages that are in memory.
//!
//! A *frame* is memory for one page, and a control block that says which page it holds. Who guards what:
//!
//! | what | guarded by |
//! | --- | --- |
//! | the bytes of a page, which page a frame holds | the frame's latch; inner pages are also read without, by version |
//! | which frame holds a page | the page table: stripes for who changes it, nothing for who looks |
//! | the order of use, and which frames are free | the lock of the lists |
//! | which pages are dirty, and since when | the flush list, filled under the lock of the redo log's buffer |
//! | writing pages | the flush buffers: one batch at a time through each; a page is in one of them, by a mark in its frame |
//!
//! A page comes in through [`Pool::shared`], [`Pool::exclusive`] or, when it is new, [`Pool::create`]. Its frame is latched exclusively until it was read and checked,
//! so that whoever else wants it waits there. A page goes when a frame is needed: the oldest one that is clean and that nobody holds. Where all
//! old pages are dirty, the caller writes some of them. Pages that follow those of a scan are read ahead of it by a job, into frames that can be had without writing.
//!
//! Threads that hold one latch wait for another only down or right within a tree, or for page 0 of its tablespace before any page of the
//! tree; frames are taken from pages that can be had without waiting.

mod census;
mod cleaner;
mod doublewrite;
mod eviction;
mod flush;
mod flush_buffer;
mod flush_list;
mod frame;
mod guard;
mod lru;
mod page_table;
mod pool;
mod read_ahead;
mod restore;
#[cfg(test)]
mod tests;

pub use census::PoolReport;
pub(crate) use cleaner::{FlushInputs, flush_goal, sync_flush_limit};
#[cfg(feature = "testing")]
pub(crate) use doublewrite::decode_names as doublewrite_names;
pub(crate) use doublewrite::{DoublewriteFile, DoublewriteOptions, is_doublewrite};
pub(crate) use flush::Freed;
pub(crate) use guard::{ExclusiveGuard, Optimistic, SharedGuard};
pub(crate) use pool::{Place, Pool, PoolOptions};
pub(crate) use read_ahead::Trail;
pub(crate) use restore::{Restored, restore};
