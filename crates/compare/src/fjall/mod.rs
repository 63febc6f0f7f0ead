//! fjall: an LSM-tree in Rust.

use crate::PeerSettings;
use crate::error::{foreign, no_direct};
use crate::sync_timer::SyncTimer;
use fjall::compaction::Leveled;
use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Iter, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Slice, Snapshot};
use siltstone_base::Result;
use siltstone_base::clock::{Clock, SystemClock};
use siltstone_base::engine::{Admin, Capabilities, Durability, EngineStats, Kv, KvBatch, KvCursor, KvOp};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

mod last_ops;

const NAME: &str = "fjall";

/// A fjall database with one keyspace.
pub struct FjallEngine {
    database: Database,
    keyspace: Keyspace,
    persist: Option<PersistMode>,
    _timer: Option<SyncTimer>,
}

impl FjallEngine {
    /// Opens the database in `dir`, creating it if there is none.
    pub fn open(dir: &Path, settings: &PeerSettings) -> Result<Self> {
        if settings.direct {
            return Err(no_direct(NAME));
        }
        let database = Database::builder(dir)
            .cache_size(settings.cache_bytes as u64)
            .worker_threads(settings.background_jobs.max(1))
            .open()
            .map_err(|error| foreign(NAME, "open", error))?;
        let bloom = BloomConstructionPolicy::BitsPerKey(settings.bloom_bits_per_key as f32);
        let compression = if settings.compress { CompressionType::Lz4 } else { CompressionType::None };
        let options = || {
            // Its first level has room for four tables.
            let levels = Leveled::default().with_table_target_size(settings.table_bytes);
            KeyspaceCreateOptions::default()
                .compaction_strategy(Arc::new(levels))
                .max_memtable_size(settings.write_buffer_bytes as u64)
                .data_block_compression_policy(CompressionPolicy::all(compression))
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)))
                .expect_point_read_hits(settings.expects_hits)
        };
        let keyspace = database.keyspace("default", options).map_err(|error| foreign(NAME, "open keyspace", error))?;
        let persist = (settings.durability == Durability::Commit).then_some(PersistMode::SyncData);
        let timer = match settings.durability {
            Durability::EveryMillis(millis) => {
                let database = database.clone();
                Some(SyncTimer::new(millis, move || database.persist(PersistMode::SyncData).is_ok())?)
            }
            Durability::Commit | Durability::Os => None,
        };
        Ok(Self { database, keyspace, persist, _timer: timer })
    }

    fn persist(&self) -> Result<()> {
        match self.persist {
            None => Ok(()),
            Some(mode) => self.database.persist(mode).map_err(|error| foreign(NAME, "persist", error)),
        }
    }
}

impl Admin for FjallEngine {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kv: true,
            concurrent_writers: true,
            background_work: true,
            persistent: true,
            ..Capabilities::default()
        }
    }

    fn flush(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(|error| foreign(NAME, "flush", error))
    }

    fn settle(&self) -> Result<()> {
        // The engine tells what runs, not what is due: quiet means nothing running at several looks in a row.
        let clock = SystemClock::new();
        let mut quiet = 0;
        while quiet < 20 {
            let is_busy = self.database.active_compactions() > 0 || self.database.outstanding_flushes() > 0;
            quiet = if is_busy { 0 } else { quiet + 1 };
            clock.sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        let compacting = self.database.time_compacting().as_micros() as u64;
        let counters = [
            ("compactions", self.database.compactions_completed() as u64),
            ("compacting_us", compacting),
            ("sequence_numbers", self.database.seqno()),
        ];
        let counters = counters.map(|(name, count)| (name.to_owned(), count)).into();
        Ok(EngineStats { counters, ..EngineStats::default() })
    }

    fn close(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(|error| foreign(NAME, "close", error))
    }
}

impl Kv for FjallEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value).map_err(|error| foreign(NAME, "put", error))?;
        self.persist()
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key).map_err(|error| foreign(NAME, "delete", error))?;
        self.persist()
    }

    /// A key that is deleted once is deleted like any other. The engine's weak tombstone asks for more than its counterparts elsewhere, namely a key that is never put again: a compaction drops it
    /// with all that it sees of the key below, an older weak tombstone included, and what that one hid further down comes back.
    fn write(&self, batch: &KvBatch) -> Result<()> {
        let mut foreign_batch = self.database.batch().durability(Some(self.persist.unwrap_or(PersistMode::Buffer)));
        for op in last_ops::last_ops(batch) {
            match op {
                KvOp::Put { key, value } => foreign_batch.insert(&self.keyspace, key, value),
                KvOp::Delete { key } | KvOp::DeleteOnce { key } => foreign_batch.remove(&self.keyspace, key),
            }
        }
        foreign_batch.commit().map_err(|error| foreign(NAME, "write", error))
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key).map_err(|error| foreign(NAME, "get", error))?;
        value.as_deref().map(found);
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let snapshot = self.database.snapshot();
        for (position, key) in keys.iter().enumerate() {
            let value = snapshot.get(&self.keyspace, key).map_err(|error| foreign(NAME, "get", error))?;
            found(position, value.as_deref());
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(FjallCursor {
            snapshot: self.database.snapshot(),
            keyspace: self.keyspace.clone(),
            entries: None,
            is_backward: false,
            current: None,
        }))
    }
}

/// fjall has double-ended iterators and no cursors: turning around opens a new one.
struct FjallCursor {
    snapshot: Snapshot,
    keyspace: Keyspace,
    entries: Option<Iter>,
    is_backward: bool,
    current: Option<(Slice, Slice)>,
}

impl FjallCursor {
    fn step(&mut self) -> Result<bool> {
        let guard = match &mut self.entries {
            None => None,
            Some(entries) if self.is_backward => entries.next_back(),
            Some(entries) => entries.next(),
        };
        self.current = match guard {
            None => None,
            Some(guard) => Some(guard.into_inner().map_err(|error| foreign(NAME, "iterate", error))?),
        };
        Ok(self.current.is_some())
    }

    fn start(&mut self, entries: Iter, is_backward: bool) -> Result<bool> {
        self.entries = Some(entries);
        self.is_backward = is_backward;
        self.step()
    }
}

impl KvCursor for FjallCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        let entries = self.snapshot.iter(&self.keyspace);
        self.start(entries, false)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        let entries = self.snapshot.iter(&self.keyspace);
        self.start(entries, true)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let entries = self.snapshot.range(&self.keyspace, key..);
        self.start(entries, false)
    }

    fn next(&mut self) -> Result<bool> {
        match &self.current {
            Some((key, _)) if self.is_backward => {
                let after = (std::ops::Bound::Excluded(key.clone()), std::ops::Bound::Unbounded);
                let entries = self.snapshot.range(&self.keyspace, after);
                self.start(entries, false)
            }
            _ => self.step(),
        }
    }

    fn prev(&mut self) -> Result<bool> {
        match &self.current {
            Some((key, _)) if !self.is_backward => {
                let entries = self.snapshot.range(&self.keyspace, ..key.clone());
                self.start(entries, true)
            }
            _ => self.step(),
        }
    }

    fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(_, value)| value)
    }
}
