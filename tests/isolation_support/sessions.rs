//! Transactions as threads use them to append to lists: by what every engine has, or by all that the LSM engine has.

use siltstone_base::Result;
use siltstone_base::engine::{Savepoint, Transaction};
use siltstone_lsm::{ColumnFamily, Db, LockMode, OptimisticTransaction, TransactionDb};

/// How a list is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// As the level shows it.
    Plain,
    /// The newest one, which nobody else changes.
    ForUpdate,
    /// The same, and others may read it so, too.
    Shared,
}

/// One transaction.
pub trait Session {
    fn read(&mut self, key: &[u8], how: Read) -> Result<Vec<u8>>;

    fn put(&mut self, key: &[u8], list: &[u8]) -> Result<()>;

    /// Appends a word without reading the list; returns whether that can be done.
    fn append(&mut self, key: &[u8], word: &[u8]) -> Result<bool>;

    fn savepoint(&mut self) -> Result<Savepoint>;

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()>;

    fn commit(self: Box<Self>) -> Result<()>;

    fn rollback(self: Box<Self>) -> Result<()>;

    /// Prepares it under a name and decides about it; where that cannot be done, decides at once.
    fn decide_in_two_phases(self: Box<Self>, name: &[u8], commits: bool) -> Result<()>;
}

/// What a value holds, if there is one.
fn list(value: Option<impl AsRef<[u8]>>) -> Vec<u8> {
    value.map(|value| value.as_ref().to_vec()).unwrap_or_default()
}

/// Commits or rolls back what was prepared under a name.
pub type Decide<'a> = &'a dyn Fn(&[u8], bool) -> Result<()>;

/// By what every engine has.
pub struct AnyEngine<'a> {
    pub transaction: Box<dyn Transaction>,
    /// If the engine can.
    pub decide: Option<Decide<'a>>,
}

impl Session for AnyEngine<'_> {
    fn read(&mut self, key: &[u8], how: Read) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        match how {
            Read::Plain => self.transaction.get(key, &mut value)?,
            Read::ForUpdate | Read::Shared => self.transaction.get_for_update(key, &mut value)?,
        };
        Ok(value)
    }

    fn put(&mut self, key: &[u8], list: &[u8]) -> Result<()> {
        self.transaction.put(key, list)
    }

    fn append(&mut self, _: &[u8], _: &[u8]) -> Result<bool> {
        Ok(false)
    }

    fn savepoint(&mut self) -> Result<Savepoint> {
        self.transaction.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.transaction.rollback_to(savepoint)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.transaction.commit()
    }

    fn rollback(self: Box<Self>) -> Result<()> {
        self.transaction.rollback()
    }

    fn decide_in_two_phases(self: Box<Self>, name: &[u8], commits: bool) -> Result<()> {
        match self.decide {
            Some(decide) => {
                self.transaction.prepare(name)?;
                decide(name, commits)
            }
            None if commits => self.transaction.commit(),
            None => self.transaction.rollback(),
        }
    }
}

/// Two families, of which each has every other key.
fn family_of<'a>(families: &'a [ColumnFamily; 2], key: &[u8]) -> &'a ColumnFamily {
    let is_odd = key.last().is_some_and(|digit| digit % 2 == 1);
    if is_odd { &families[1] } else { &families[0] }
}

/// The default family, and the one called `other`.
pub fn families(db: &Db) -> [ColumnFamily; 2] {
    [db.default_family(), db.family("other").unwrap()]
}

/// By locks, with all that there is.
pub struct Locking {
    pub transaction: siltstone_lsm::Transaction,
    pub db: TransactionDb,
    pub families: [ColumnFamily; 2],
}

impl Session for Locking {
    fn read(&mut self, key: &[u8], how: Read) -> Result<Vec<u8>> {
        let family = family_of(&self.families, key);
        let found = match how {
            Read::Plain => self.transaction.get_cf(family, key)?,
            Read::ForUpdate => self.transaction.get_for_update_cf(family, key, LockMode::Exclusive)?,
            Read::Shared => self.transaction.get_for_update_cf(family, key, LockMode::Shared)?,
        };
        Ok(list(found.as_deref()))
    }

    fn put(&mut self, key: &[u8], list: &[u8]) -> Result<()> {
        self.transaction.put_cf(family_of(&self.families, key), key, list)
    }

    fn append(&mut self, key: &[u8], word: &[u8]) -> Result<bool> {
        self.transaction.merge_cf(family_of(&self.families, key), key, word).map(|()| true)
    }

    fn savepoint(&mut self) -> Result<Savepoint> {
        Ok(self.transaction.savepoint())
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.transaction.rollback_to(savepoint)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.transaction.commit()
    }

    fn rollback(self: Box<Self>) -> Result<()> {
        self.transaction.rollback();
        Ok(())
    }

    fn decide_in_two_phases(self: Box<Self>, name: &[u8], commits: bool) -> Result<()> {
        let Self { transaction, db, .. } = *self;
        let is_prepared = transaction.check_preparable().is_ok();
        match (is_prepared, commits) {
            (true, _) => {
                transaction.prepare(name)?;
                if commits { db.commit_prepared(name) } else { db.rollback_prepared(name) }
            }
            (false, true) => transaction.commit(),
            (false, false) => {
                transaction.rollback();
                Ok(())
            }
        }
    }
}

/// Without locks, with all that there is.
pub struct Optimistic {
    pub transaction: OptimisticTransaction,
    pub families: [ColumnFamily; 2],
}

impl Session for Optimistic {
    fn read(&mut self, key: &[u8], how: Read) -> Result<Vec<u8>> {
        let family = family_of(&self.families, key);
        let found = match how {
            Read::Plain => self.transaction.get_cf(family, key)?,
            Read::ForUpdate | Read::Shared => self.transaction.get_for_update_cf(family, key)?,
        };
        Ok(list(found.as_deref()))
    }

    fn put(&mut self, key: &[u8], list: &[u8]) -> Result<()> {
        self.transaction.put_cf(family_of(&self.families, key), key, list)
    }

    fn append(&mut self, key: &[u8], word: &[u8]) -> Result<bool> {
        self.transaction.merge_cf(family_of(&self.families, key), key, word).map(|()| true)
    }

    fn savepoint(&mut self) -> Result<Savepoint> {
        Ok(self.transaction.savepoint())
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.transaction.rollback_to(savepoint)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        self.transaction.commit()
    }

    fn rollback(self: Box<Self>) -> Result<()> {
        self.transaction.rollback();
        Ok(())
    }

    fn decide_in_two_phases(self: Box<Self>, _: &[u8], commits: bool) -> Result<()> {
        if commits { self.commit() } else { self.rollback() }
    }
}
