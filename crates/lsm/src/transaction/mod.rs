//! Transactions: changes that become visible together, or not at all.
//!
//! A transaction keeps its changes in a [`WriteBatchWithIndex`]: a write batch, which is what is written in the end, and a memtable of its own per family, by which
//! the transaction reads what it wrote. Nothing of it is in the database before it commits; rolling back is forgetting.
//!
//! * Pessimistic ([`TransactionDb`]): a row is locked before it is changed. On the level `Snapshot` the newest entry of a row must be one that the snapshot
//!   sees, once its lock is had: the first to change it wins.
//! * Optimistic ([`OptimisticTransactionDb`]): nobody waits. A commit looks, while nobody else writes, whether a row changed that the transaction changed or
//!   read for update, and fails then.
//!
//! One that is too large for memory lets what it has go to disk, run by run, and is committed as tables that are taken in at once ([`spill`]).
//!
//! Order of a commit: the batch is in the WAL and visible, then the locks are given back. So who gets a lock sees what its last holder wrote.
//!
//! A prepared transaction is in the WAL without being applied; its entries, its name and its locks stay with the [`TransactionDb`] until somebody decides. The WAL that has it
//! is kept as long as that, and until what was committed of it is in tables.

mod engine;
mod handle;
mod indexed_batch;
mod layers;
mod optimistic;
mod options;
mod prepared;
mod spill;
#[cfg(test)]
mod tests;
mod transaction_db;
mod work;

pub use handle::Transaction;
pub use indexed_batch::WriteBatchWithIndex;
pub use optimistic::{OptimisticTransaction, OptimisticTransactionDb};
pub use options::{Spill, TransactionDbOptions};
pub use transaction_db::TransactionDb;
