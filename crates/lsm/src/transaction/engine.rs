//! Transactions as the laboratory and the differential tests know them: over the default family.

use super::{OptimisticTransaction, OptimisticTransactionDb, Transaction, TransactionDb};
use crate::batch::WriteBatch;
use crate::db::PinnedValue;
use crate::options::ReadOptions;
use siltstone_base::engine::{
    Admin, Capabilities, EngineStats, Kv, KvBatch, KvCursor, KvOp, Savepoint, TransactionOptions, Transactional,
};
use siltstone_base::{Error, ErrorKind, Result};

/// What both kinds of databases do alike: everything but writing, which one does under locks.
macro_rules! ordered_bytes {
    ($db:ty, $conflicts_at_commit:literal) => {
        impl Admin for $db {
            fn name(&self) -> String {
                Admin::name(self.db())
            }

            fn capabilities(&self) -> Capabilities {
                Capabilities {
                    kv: true,
                    transactions: true,
                    conflicts_at_commit: $conflicts_at_commit,
                    ..Admin::capabilities(self.db())
                }
            }

            fn flush(&self) -> Result<()> {
                Admin::flush(self.db())
            }

            fn settle(&self) -> Result<()> {
                Admin::settle(self.db())
            }

            fn drain(&self) -> Result<()> {
                Admin::drain(self.db())
            }

            fn stats(&self) -> Result<EngineStats> {
                Admin::stats(self.db())
            }

            fn close(&self) -> Result<()> {
                Admin::close(self.db())
            }
        }

        impl Kv for $db {
            fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
                let mut batch = WriteBatch::new();
                batch.put(key, value);
                self.write_batch(&mut batch)
            }

            fn delete(&self, key: &[u8]) -> Result<()> {
                let mut batch = WriteBatch::new();
                batch.delete(key);
                self.write_batch(&mut batch)
            }

            fn write(&self, batch: &KvBatch) -> Result<()> {
                let mut own = WriteBatch::new();
                for op in batch {
                    match op {
                        KvOp::Put { key, value } => own.put(key, value),
                        KvOp::Delete { key } => own.delete(key),
                        KvOp::DeleteOnce { key } => own.single_delete(key),
                    }
                }
                self.write_batch(&mut own)
            }

            fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
                let value = self.db().get(key)?;
                value.iter().for_each(|value| found(value));
                Ok(value.is_some())
            }

            fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
                let values = self.db().multi_get_cf(&self.db().default_family(), keys, &ReadOptions::default());
                for (position, value) in values.into_iter().enumerate() {
                    found(position, value?.as_deref());
                }
                Ok(())
            }

            fn cursor(&self) -> Result<Box<dyn KvCursor>> {
                Ok(Box::new(self.db().iter(&ReadOptions::default())?))
            }
        }
    };
}

impl TransactionDb {
    fn write_batch(&self, batch: &mut WriteBatch) -> Result<()> {
        self.write(batch)
    }
}

impl OptimisticTransactionDb {
    fn write_batch(&self, batch: &mut WriteBatch) -> Result<()> {
        self.db().write(batch, self.write_options())
    }
}

ordered_bytes!(TransactionDb, false);
ordered_bytes!(OptimisticTransactionDb, true);

impl Transactional for TransactionDb {
    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn siltstone_base::engine::Transaction>> {
        Ok(Box::new(Self::begin(self, options)))
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

/// Nothing can be prepared.
impl Transactional for OptimisticTransactionDb {
    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn siltstone_base::engine::Transaction>> {
        Ok(Box::new(Self::begin(self, options)))
    }

    fn prepared(&self) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn commit_prepared(&self, _: &[u8]) -> Result<()> {
        Err(nothing_prepared())
    }

    fn rollback_prepared(&self, _: &[u8]) -> Result<()> {
        Err(nothing_prepared())
    }
}

fn nothing_prepared() -> Error {
    Error::new(ErrorKind::NotFound, "optimistic transactions are never prepared")
}

fn copy(found: Option<PinnedValue>, value: &mut Vec<u8>) -> bool {
    value.clear();
    value.extend_from_slice(found.as_deref().unwrap_or_default());
    found.is_some()
}

/// What both kinds of transactions hand on alike.
macro_rules! hand_on {
    () => {
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
            Ok(Box::new(Self::iter(self)?))
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
            Self::rollback(*self);
            Ok(())
        }
    };
}

impl siltstone_base::engine::Transaction for Transaction {
    hand_on!();

    fn prepare(self: Box<Self>, name: &[u8]) -> Result<()> {
        Self::prepare(*self, name)
    }
}

/// Nobody waits, and conflicts show at the commit.
impl siltstone_base::engine::Transaction for OptimisticTransaction {
    hand_on!();

    fn prepare(self: Box<Self>, _: &[u8]) -> Result<()> {
        Err(Error::not_supported("preparing an optimistic transaction"))
    }
}
