//! Foreign engines behind the engine traits of `siltstone_base`, so that the laboratory can run them beside ours.
//!
//! Every engine gets the same [`PeerSettings`]: LZ4 and a bloom filter of 10 bits per key where the engine has them and
//! nothing else is asked for, one budget for its cache, and write buffers of one size. Two do not keep the budget: fjall halts writers only when four sealed memtables wait beside the one that is
//! written, however many write buffers there are to be, and LMDB reads and writes a map of its file, which is as large in memory as the operating system lets it be.
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
//! What each [`Durability`](siltstone_base::engine::Durability) means for each engine is a table of the book, in `docs/src/benchmarking.md`. A mode without an equivalent is
//! refused with an error of kind [`NotSupported`](siltstone_base::ErrorKind::NotSupported) when the engine is opened.
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
