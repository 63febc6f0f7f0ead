//! What the laboratory and the differential tests ask of an engine.
//!
//! * [`Kv`]: ordered bytes to bytes, with batches and [`KvCursor`]s;
//! * [`Tables`]: rows with a primary key and secondary indexes that the engine maintains;
//! * [`LazyTables`]: the same for rows that are put and deleted without reading what was there;
//! * [`Transactional`]: transactions over [`Kv`], on two levels of isolation;
//! * [`Admin`]: what every engine has: capabilities, flush, settling, statistics, close.
//!
//! An engine implements what it has and says so in its [`Capabilities`]; it never implements a trait by methods that
//! only refuse. All methods take `&self` and may be called from any thread; cursors belong to one thread at a time and
//! keep alive what they read. How long a write has to be safe before its call returns is fixed when the engine is
//! opened, by [`Durability`].
//!
//! The traits are used as trait objects. One operation costs one indirect call, and a read hands the bytes that the
//! engine pins to a callback, so that an engine that copies nothing is not made to copy.

mod admin;
mod batch;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(any(test, feature = "testing"))]
pub mod conformance_all;
#[cfg(any(test, feature = "testing"))]
pub mod conformance_lazy_tables;
#[cfg(any(test, feature = "testing"))]
pub mod conformance_tables;
#[cfg(any(test, feature = "testing"))]
pub mod conformance_transactions;
mod kv;
mod lazy_tables;
mod row_change;
mod stats;
mod tables;
#[cfg(test)]
mod tests;
mod transactional;

pub use admin::{Admin, Capabilities, Durability};
pub use batch::{KvBatch, KvOp, KvOps};
pub use kv::{Kv, KvCursor};
pub use lazy_tables::{LazyTables, StaleEntries};
pub use row_change::{RowChange, check_distinct};
pub use stats::{Counters, EngineStats, StallMicros};
pub use tables::{LazyTableId, LazyTableSpec, Row, TableId, TableSpec, Tables};
pub use transactional::{Isolation, Savepoint, Transaction, TransactionOptions, Transactional};
