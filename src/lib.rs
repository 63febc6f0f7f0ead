//! Siltstone: storage engines and a laboratory.
//!
//! This crate re-exports the engines, what goes with them, and the ground under both (rows, traits of comparators and filters, files and clocks), so that one dependency is enough to embed them.
//!
//! ```
//! use siltstone::lsm::{Db, DbOptions};
//!
//! # fn main() -> siltstone::lsm::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! let db = Db::open(dir.path(), &DbOptions::default().create_if_missing(true))?;
//! db.put("granite", "igneous")?;
//! assert_eq!(db.get("granite")?.as_deref(), Some(&b"igneous"[..]));
//! db.close()
//! # }
//! ```

pub use siltstone_base as base;
pub use siltstone_btree as btree;
pub use siltstone_lsm as lsm;
pub use siltstone_ttl as ttl;

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
