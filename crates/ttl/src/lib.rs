//! Rows that expire without a cron.
//!
//! Each row carries a stamp: the second of its writing, or a time from one of its columns. A family with a [`Ttl`] shows no row that is older than the duration, from the
//! second on in which it expires, and the engine removes such rows by itself: whole tables by an edit of the MANIFEST, others by rewriting them where that gives much
//! space back for little work.
//!
//! ```
//! use siltstone_base::clock::ManualClock;
//! use siltstone_base::executor::StepExecutor;
//! use siltstone_lsm::{ColumnFamilyOptions, Db, DbOptions};
//! use siltstone_ttl::{StampLayout, Ttl, TtlDuration};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! # fn main() -> siltstone_base::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! let clock = Arc::new(ManualClock::new(1_700_000_000));
//! let options = DbOptions::default().create_if_missing(true).executor(Some(Arc::new(StepExecutor::new(clock.clone()))));
//! let ttl = Arc::new(Ttl::new(StampLayout::Suffix, TtlDuration::from_seconds(3600)?));
//! let family = ColumnFamilyOptions::default().expiry(Some(ttl.clone()));
//! let db = Db::open_families(dir.path(), &options, &[("default", family)])?;
//!
//! db.put("basalt", StampLayout::Suffix.stamped(b"young", 1_700_000_000)?)?;
//! let found = db.get("basalt")?.expect("it is young");
//! assert_eq!(StampLayout::Suffix.split(&found)?, (&b"young"[..], 1_700_000_000));
//!
//! clock.advance(Duration::from_secs(3600));
//! assert_eq!(db.get("basalt")?, None);
//! db.close()
//! # }
//! ```
//!
//! | you want to | see |
//! | --- | --- |
//! | stamp values, and read stamps | [`StampLayout`] |
//! | let rows of a family expire | [`Ttl`] |
//! | let rows of tables with secondary indexes expire, with their index entries | [`TableTtl`] |
//! | only remove expired rows in compactions, as RocksDB's `DBWithTTL` does | [`TtlFilter`] |

mod filter;
mod history;
mod policy;
mod stamp;
mod tables;

pub use filter::TtlFilter;
pub use policy::Ttl;
pub use siltstone_base::expiry::{RowExpiry, TtlDuration};
pub use siltstone_base::{Error, ErrorKind, Result};
pub use stamp::StampLayout;
pub use tables::TableTtl;
