//! Transactions over ordered bytes.

use super::{Kv, KvCursor};
use crate::Result;
use std::time::Duration;

/// What a transaction sees of the others. On both levels it sees its own changes, never those of one that is not committed, and nobody changes a row that another
/// one changed or locked before that one ends. There are no locks of gaps: a range that was read may have new rows later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Isolation {
    /// Each read sees what is committed when it begins.
    ReadCommitted,
    /// All reads see what was committed when the transaction began. A row that another one changed since can't be changed or locked: the call fails with
    /// [`Busy`](crate::ErrorKind::Busy). The first to change a row wins.
    #[default]
    Snapshot,
}

/// How a transaction is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What it sees of the others.
    pub isolation: Isolation,
    /// How long it waits for the lock of a row; `None`: as long as the engine's options say.
    pub lock_timeout: Option<Duration>,
}

impl TransactionOptions {
    /// Options of an isolation level.
    pub fn new(isolation: Isolation) -> Self {
        Self { isolation, lock_timeout: None }
    }

    /// Waits at most so long for the lock of a row.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = Some(timeout);
        self
    }
}

/// A place in a transaction to which it can be rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Savepoint(pub u64);

/// An engine with transactions.
///
/// On level [`Isolation::Snapshot`] two transactions that read the same rows and each change another of them both commit, though neither order of the two would have
/// led there (write skew). Who must exclude that locks what it decides by: [`Transaction::get_for_update`].
///
/// Writes by [`Kv`] are transactions of their own: they wait for the locks of others as transactions do.
pub trait Transactional: Kv {
    /// Begins a transaction. It owns what it needs of the engine.
    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction>>;

    /// The names of the transactions that are prepared, sorted.
    fn prepared(&self) -> Result<Vec<Vec<u8>>>;

    /// Commits a transaction that is prepared; `NotFound` if there is none of that name.
    fn commit_prepared(&self, name: &[u8]) -> Result<()>;

    /// Rolls a transaction back that is prepared; `NotFound` if there is none of that name.
    fn rollback_prepared(&self, name: &[u8]) -> Result<()>;
}

/// Changes that become visible together, or not at all. One that is dropped is rolled back.
///
/// A call that fails leaves the transaction as it was before the call. After `Deadlock`, and after `Busy` on level [`Isolation::Snapshot`], it
/// has to be rolled back and begun again to get on; it is not rolled back by itself.
pub trait Transaction: Send {
    /// Copies the value of a key into `value`, whose memory is reused; returns whether the key exists. If it does not, `value` is empty.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Locks a key, which need not exist, and reads it: the newest value, that nobody changes before the transaction ends.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `Deadlock`; `Busy` for a row that changed since the transaction began, on level [`Isolation::Snapshot`].
    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Sets a key. Errors as for [`get_for_update`](Self::get_for_update).
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key, and locks it also if it does not exist. Errors as for [`get_for_update`](Self::get_for_update).
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// A cursor over what the transaction sees now, its own changes up to now included.
    fn cursor(&mut self) -> Result<Box<dyn KvCursor>>;

    /// A place to which the transaction can be rolled back.
    fn savepoint(&mut self) -> Result<Savepoint>;

    /// Undoes the changes since a savepoint, which stays; later ones are gone. Whether locks taken since are given back is not said.
    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()>;

    /// Makes the changes visible and safe. After an error that is no I/O error of the log the transaction is rolled back.
    fn commit(self: Box<Self>) -> Result<()>;

    /// Undoes all changes.
    fn rollback(self: Box<Self>) -> Result<()>;

    /// Makes the changes safe under a name, without deciding about them: they and their locks survive a crash, until
    /// [`Transactional::commit_prepared`] or [`Transactional::rollback_prepared`]. Locks of rows that were only read survive no crash.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if another one is prepared under the name; `InvalidArgument` for one that is empty or longer than 64 bytes. The transaction is then rolled back.
    fn prepare(self: Box<Self>, name: &[u8]) -> Result<()>;
}
