//! LMDB, through heed: a copy-on-write B+tree in a memory map.

use crate::PeerSettings;
use crate::error::{foreign, no_direct, no_durability};
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};
use siltstone_base::Result;
use siltstone_base::engine::{Admin, Capabilities, Durability, EngineStats, Kv, KvBatch, KvCursor, KvOp};
use siltstone_base::env::{Env as _, PosixEnv};
use std::path::Path;

mod cursor;

const NAME: &str = "lmdb";

/// Address space kept for the map. The file grows only as far as it is used.
const MAP_BYTES: usize = 256 << 30;

type Bytewise = Database<Bytes, Bytes>;

/// An LMDB environment with one database. One writer at a time, one transaction a write. The operating system's page
/// cache is its cache: the setting of the cache does not bound it.
pub struct LmdbEngine {
    env: Env<WithoutTls>,
    database: Bytewise,
}

impl LmdbEngine {
    /// Opens the environment in `dir`, creating it if there is none.
    pub fn open(dir: &Path, settings: &PeerSettings) -> Result<Self> {
        if settings.direct {
            return Err(no_direct(NAME));
        }
        let is_synced = match settings.durability {
            Durability::Commit => true,
            // More than a process may lose, less than a machine may: without syncs a power loss may take the whole file.
            Durability::Os => false,
            durability => return Err(no_durability(NAME, durability)),
        };
        PosixEnv::new().create_dir_all(dir).map_err(|error| foreign(NAME, "create directory", error))?;
        let env = open_env(dir, is_synced).map_err(|error| foreign(NAME, "open", error))?;
        let mut transaction = env.write_txn().map_err(|error| foreign(NAME, "begin", error))?;
        let database =
            env.create_database(&mut transaction, None).map_err(|error| foreign(NAME, "create database", error))?;
        transaction.commit().map_err(|error| foreign(NAME, "commit", error))?;
        Ok(Self { env, database })
    }

    fn commit(&self, change: impl FnOnce(&mut heed::RwTxn<'_>) -> heed::Result<()>) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(|error| foreign(NAME, "begin", error))?;
        change(&mut transaction).map_err(|error| foreign(NAME, "write", error))?;
        transaction.commit().map_err(|error| foreign(NAME, "commit", error))
    }

    fn read(&self) -> Result<RoTxn<'_, WithoutTls>> {
        self.env.read_txn().map_err(|error| foreign(NAME, "begin", error))
    }
}

#[expect(unsafe_code, reason = "LMDB maps its file; heed leaves the promise that nobody truncates it to the caller")]
fn open_env(dir: &Path, is_synced: bool) -> heed::Result<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES);
    // SAFETY: the laboratory alone uses the directory, so that nothing changes the mapped file behind LMDB. Without syncs a power loss may
    // leave a file that LMDB must not open: a run begins with an empty directory, and none is read after the machine stopped.
    unsafe {
        if !is_synced {
            options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC);
        }
        options.open(dir)
    }
}

impl Admin for LmdbEngine {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kv: true,
            concurrent_writers: false,
            background_work: false,
            persistent: true,
            ..Capabilities::default()
        }
    }

    fn flush(&self) -> Result<()> {
        self.env.force_sync().map_err(|error| foreign(NAME, "sync", error))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        let info = self.env.info();
        let counters = [("transactions", info.last_txn_id), ("file_pages", info.last_page_number)];
        let counters = counters.map(|(name, count)| (name.to_owned(), count as u64)).into();
        Ok(EngineStats { debt_bytes: Some(0), counters, ..EngineStats::default() })
    }

    fn close(&self) -> Result<()> {
        self.flush()
    }
}

impl Kv for LmdbEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit(|transaction| self.database.put(transaction, key, value))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.commit(|transaction| self.database.delete(transaction, key).map(drop))
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        self.commit(|transaction| {
            for op in batch {
                match op {
                    KvOp::Put { key, value } => self.database.put(transaction, key, value)?,
                    KvOp::Delete { key } | KvOp::DeleteOnce { key } => {
                        self.database.delete(transaction, key)?;
                    }
                }
            }
            Ok(())
        })
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.read()?;
        let value = self.database.get(&transaction, key).map_err(|error| foreign(NAME, "get", error))?;
        value.map(found);
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let transaction = self.read()?;
        for (position, key) in keys.iter().enumerate() {
            let value = self.database.get(&transaction, key).map_err(|error| foreign(NAME, "get", error))?;
            found(position, value);
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        let transaction = self.env.clone().static_read_txn().map_err(|error| foreign(NAME, "begin", error))?;
        Ok(Box::new(cursor::LmdbCursor::new(transaction, self.database)))
    }
}
