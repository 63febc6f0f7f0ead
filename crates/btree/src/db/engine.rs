//! The database as the laboratory and the differential tests know it.

use super::scan::Cursor;
use super::write::Op;
use super::{Db, State};
use crate::buffer::is_doublewrite;
use crate::metrics::Counter;
use siltstone_base::Result;
use siltstone_base::engine::{Admin, Capabilities, Counters, EngineStats, Kv, KvBatch, KvCursor, KvOp, StallMicros};

impl Admin for Db {
    fn name(&self) -> String {
        "btree".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kv: true,
            tables: true,
            unique_indexes: true,
            added_indexes: true,
            lazy_tables: false,
            transactions: true,
            conflicts_at_commit: false,
            concurrent_writers: true,
            background_work: true,
            persistent: true,
        }
    }

    fn flush(&self) -> Result<()> {
        Self::flush(self)
    }

    /// Everything that purge, the merging of changes that wait, and the page cleaner would do sooner or later.
    fn settle(&self) -> Result<()> {
        self.0.settle();
        self.0.merge_all()?;
        Self::flush(self)
    }

    fn stats(&self) -> Result<EngineStats> {
        let metrics = self.metrics();
        let page = self.0.pool.page_len() as u64;
        let pages = metrics.get(Counter::PageBytesWritten) + metrics.get(Counter::DoublewriteBytes);
        let stalls = [("redo_full", Counter::RedoFullMicros), ("history", Counter::HistoryMicros)];
        let stalls = stalls.map(|(cause, counter)| (cause.to_owned(), metrics.get(counter)));
        let stalls = stalls.into_iter().filter(|(_, micros)| *micros > 0);
        Ok(EngineStats {
            bytes_written: Some(pages + metrics.get(Counter::RedoBytes)),
            bytes_read: Some(metrics.get(Counter::PagesRead) * page),
            bytes_grain: 0,
            reads: Some(metrics.get(Counter::PagesRead)),
            space_bytes: Some(self.0.allocated_bytes(|_| true)),
            log_bytes: Some(self.0.allocated_bytes(|name| is_doublewrite(name) || name.ends_with(".log"))),
            // Dirty pages are in memory; what they owe the disk is no debt of the tree.
            debt_bytes: Some(0),
            next_limit_bytes: None,
            counters: named(Counter::ALL.iter().map(|counter| (counter.name(), metrics.get(*counter)))),
            stall_micros: Some(stalls.collect::<StallMicros>()),
        })
    }

    fn close(&self) -> Result<()> {
        Self::close(self)
    }
}

fn named(counters: impl Iterator<Item = (&'static str, u64)>) -> Counters {
    counters.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

impl State {
    fn allocated_bytes(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let entries = self.env.list_dir(&self.dir).unwrap_or_default();
        let meant = entries.iter().filter(|entry| is_meant(&entry.name));
        meant.map(|entry| self.env.allocated_bytes(&self.dir.join(&entry.name)).unwrap_or(0)).sum()
    }
}

impl Kv for Db {
    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.write(&[(&self.0.default_tree, KvOp::Put { key, value })])
    }

    #[inline]
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.write(&[(&self.0.default_tree, KvOp::Delete { key })])
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        let ops: Vec<Op<'_>> = batch.iter().map(|op| (&self.0.default_tree, op)).collect();
        self.0.write(&ops)
    }

    #[inline]
    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.0.get(&self.0.default_tree, key, None, |value| found(value))?.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        // A cursor holds the moment.
        let moment = Cursor::new(&self.0, &self.0.default_tree)?;
        for (position, key) in keys.iter().enumerate() {
            let seen =
                self.0.get(&self.0.default_tree, key, Some(moment.view()), |value| found(position, Some(value)))?;
            if seen.is_none() {
                found(position, None);
            }
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(Self::cursor(self)?))
    }
}
