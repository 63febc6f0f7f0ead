//! Transactions as the laboratory and the differential tests know them.

use super::super::Db;
use siltstone_base::Result;
use siltstone_base::engine::{KvCursor, Savepoint, Transaction, TransactionOptions, Transactional};

impl Transactional for Db {
    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction>> {
        Ok(Box::new(Self::begin(self, options)?))
    }

    fn prepared(&self) -> Result<Vec<Vec<u8>>> {
        Ok(self.prepared_transactions())
    }

    fn commit_prepared(&self, name: &[u8]) -> Result<()> {
        Self::commit_prepared(self, name)
    }

    fn rollback_prepared(&self, name: &[u8]) -> Result<()> {
        Self::rollback_prepared(self, name)
    }
}

fn copy(found: Option<Vec<u8>>, value: &mut Vec<u8>) -> bool {
    value.clear();
    value.extend_from_slice(found.as_deref().unwrap_or_default());
    found.is_some()
}

impl Transaction for super::Transaction {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(Self::get(self, key)?, value))
    }

    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(copy(Self::get_for_update(self, key)?, value))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Self::put(self, key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Self::delete(self, key)
    }

    fn cursor(&mut self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(Self::cursor(self)?))
    }

    fn savepoint(&mut self) -> Result<Savepoint> {
        Ok(Self::savepoint(self))
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        Self::rollback_to(self, savepoint)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        Self::commit(*self)
    }

    fn rollback(self: Box<Self>) -> Result<()> {
        Self::rollback(*self)
    }

    fn prepare(self: Box<Self>, name: &[u8]) -> Result<()> {
        Self::prepare(*self, name)
    }
}
