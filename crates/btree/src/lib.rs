//! A page-based B+tree storage engine in the manner of InnoDB: buffer pool, redo log, doublewrite, transactions over an undo log.
//!
//! ```
//! use siltstone_btree::{Db, DbOptions, Durability, KvCursor, TransactionOptions, WriteBatch};
//!
//! # fn main() -> siltstone_btree::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! let options = DbOptions::default().create_if_missing(true).durability(Durability::Os);
//! let db = Db::open(dir.path(), &options)?;
//! db.put("granite", "igneous")?;
//!
//! // A directory holds several trees. A batch over them is applied as a whole.
//! let found = db.create_tree("found")?;
//! let mut batch = WriteBatch::new();
//! batch.put("slate", "metamorphic");
//! batch.put_in(&found, "2026-11-21", "slate");
//! let mut before = db.cursor()?;
//! db.write(&batch)?;
//! assert_eq!(db.get("slate")?.as_deref(), Some(&b"metamorphic"[..]));
//! assert_eq!(db.get_in(&found, "2026-11-21")?.as_deref(), Some(&b"slate"[..]));
//!
//! // A cursor sees what was there when it was made.
//! assert!(before.seek_to_first()?);
//! assert_eq!((before.key(), before.value()), (&b"granite"[..], &b"igneous"[..]));
//! assert!(!before.next()?);
//!
//! // A transaction keeps others from its rows until it ends.
//! let mut transaction = db.begin(&TransactionOptions::default())?;
//! let kind = transaction.get_for_update("slate")?.unwrap_or_default();
//! transaction.put("marble", kind)?;
//! transaction.delete("slate")?;
//! assert_eq!(db.get("marble")?, None);
//! transaction.commit()?;
//! assert_eq!((db.get("slate")?, db.get("marble")?.is_some()), (None, true));
//! db.close()
//! # }
//! ```
//!
//! | you want to | see |
//! | --- | --- |
//! | read and write rows | [`Db`], [`WriteBatch`], [`Cursor`] |
//! | change rows together with others at work | [`Db::begin`], [`Transaction`], [`Isolation`] |
//! | keep rows with secondary indexes | [`Db::create_table`], [`Db::insert`], [`Db::scan_rows_by`]; `TableSpec`, `IndexSpec` and `Row` are in `siltstone_base` |
//! | make durable what was written | [`Db::sync`] |
//! | keep several trees in one directory | [`Db::create_tree`], [`TreeHandle`], [`Db::truncate`] |
//! | fill a tree from sorted rows | [`Db::bulk_load`] |
//! | let rows expire | [`DbOptions::expiry`], [`Db::expiry_report`] |
//! | choose sizes and promises | [`DbOptions`], [`Durability`] |
//! | know what the engine does, and whether its files are sound | [`Metrics`], [`EventListener`], [`Db::check`] |
//! | look into a page | [`page`] |

mod buffer;
mod change_buffer;
mod db;
mod event;
mod health;
#[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "what tests choose from"))]
mod meanwhile;
mod metrics;
mod mtr;
mod options;
pub mod page;
mod redo;
mod space;
mod sync_needed;
#[cfg(feature = "testing")]
pub mod testing;
mod tree;
mod undo;

pub use buffer::PoolReport;
pub use db::{
    CheckReport, CloseReport, Cursor, Db, ExpiryReport, LoadReport, StartupReport, Transaction, TreeHandle, WriteBatch,
};
pub use event::{CheckpointCause, Event, EventListener, FlushCause, MergeCause, RecoveryPhase};
pub use metrics::{Counter, Metrics};
pub use options::{ChangeBuffering, DbOptions, Doublewrite, FlushNeighbors, PageCompression, Shutdown};
pub use siltstone_base::engine::{Durability, Isolation, KvCursor, Savepoint, TransactionOptions};
pub use siltstone_base::expiry::{ClockJump, ExpiryPolicy};
pub use siltstone_base::row_locks::Deadlock;
pub use siltstone_base::{Error, ErrorKind, Result};
pub use tree::{LevelShape, TreeShape};
