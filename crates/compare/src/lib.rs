//! Foreign engines behind the engine traits of `siltstone_base`, so that the laboratory can run them beside ours.
//!
//! Every engine gets the same [`PeerSettings`]: LZ4 and a bloom filter of 10 bits per key where the engine has them, one
//! budget for its cache, and write buffers of one size.
//!
//! ```
//! use siltstone_base::engine::{Admin, Durability, Kv};
//! use siltstone_compare::PeerSettings;
//! use siltstone_compare::redb::RedbEngine;
//!
//! # fn main() -> siltstone_base::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! let settings = PeerSettings { durability: Durability::Commit, ..PeerSettings::default() };
//! let engine = RedbEngine::open(dir.path(), &settings)?;
//! engine.put(b"granite", b"igneous")?;
//! let mut value = Vec::new();
//! assert!(engine.get(b"granite", &mut value)?);
//! assert_eq!(value, b"igneous");
//! engine.close()
//! # }
//! ```
//!
//! The space of a database is for the laboratory to count, alike for all engines.
//!
//! # Durability
//!
//! What each [`Durability`](siltstone_base::engine::Durability) means for each engine. A cell without an equivalent is
//! refused with an error of kind [`NotSupported`](siltstone_base::ErrorKind::NotSupported) when the engine is opened.
//!
//! | engine | `Commit` | `EveryMillis(n)` | `Os` |
//! | --- | --- | --- | --- |
//! | Siltstone LSM | `sync` in the write options | `wal_sync_interval_millis` | writes without `sync` |
//! | RocksDB | `WriteOptions::sync` | `FlushWAL(true)` by a timer of the adapter | writes without `sync` |
//! | fjall | `PersistMode::SyncData` at each commit | `persist(SyncData)` by a timer of the adapter | the default: the journal is written at each commit and never synced |
//! | redb | `Durability::Immediate` | refused | `Durability::None`: *less than the mode says*, for such commits die with the process |
//! | LMDB | the default: data and meta page synced at each commit | refused | `MDB_NOSYNC`: *less than the mode says*, for a power loss may take the whole file, not only the last commits |
//! | SQLite | `synchronous = FULL`: the log is synced at each commit | refused | `synchronous = NORMAL`: the log is written at each commit, and synced only before pages are copied from it |
//!
//! The engines `memory` and `null` of the laboratory keep nothing: durability means nothing to them.

mod error;
pub mod fjall;
pub mod lmdb;
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
mod settings;
pub mod sqlite;
mod sync_timer;
#[cfg(test)]
mod tests;
mod versions;

pub use settings::PeerSettings;
pub use versions::versions;
