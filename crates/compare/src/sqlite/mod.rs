//! SQLite, through rusqlite: a B-tree with a write-ahead log.

use crate::PeerSettings;
use crate::error::{foreign, no_direct, no_durability};
use pool::Pool;
use rusqlite::{CachedStatement, Connection};
use siltstone_base::engine::{Admin, Capabilities, Durability, EngineStats, Kv, KvBatch, KvCursor, KvOp};
use siltstone_base::env::{Env, PosixEnv};
use siltstone_base::sync::{Arc, Mutex, Rank};
use siltstone_base::{Error, ErrorKind, Result};
use std::path::Path;

mod cursor;
mod pool;
#[cfg(test)]
mod tests;

const NAME: &str = "sqlite";

/// The turn to write, taken before a connection is.
const WRITER: Rank = Rank(901);

const GET: &str = "SELECT value FROM kv WHERE key = ?1";
/// In a table without row numbers and without further indexes this overwrites without a look at what was there.
const PUT: &str = "REPLACE INTO kv (key, value) VALUES (?1, ?2)";
const DELETE: &str = "DELETE FROM kv WHERE key = ?1";

/// A SQLite database with one table. One writer at a time, one transaction a write; readers have a connection each and
/// do not wait for it. Every connection has a page cache of its own, a part of the setting of the cache.
pub struct SqliteEngine {
    pool: Arc<Pool>,
    writer: Mutex<()>,
}

impl SqliteEngine {
    /// Opens the database in `dir`, creating it if there is none.
    pub fn open(dir: &Path, settings: &PeerSettings) -> Result<Self> {
        if settings.direct {
            return Err(no_direct(NAME));
        }
        let synchronous = match settings.durability {
            // .cargo/config.toml has it built with HAVE_FDATASYNC: without, each sync would write the times of the file, too.
            Durability::Commit => "FULL",
            // The log is written at each commit and synced before pages are copied from it, never for a commit's sake.
            Durability::Os => "NORMAL",
            // Nothing syncs the log alone: a checkpoint does, unless a reader is in its way, and copies pages besides.
            durability => return Err(no_durability(NAME, durability)),
        };
        PosixEnv::new().create_dir_all(dir).map_err(|error| foreign(NAME, "create directory", error))?;
        let pool = Arc::new(Pool::open(&dir.join("data.sqlite"), synchronous, settings)?);
        Ok(Self { pool, writer: Mutex::new(WRITER, ()) })
    }

    fn change(&self, operation: &'static str, change: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<()> {
        let _turn = self.writer.lock();
        self.pool.with(operation, change)
    }

    /// Copies pages from the log to their places, and syncs both. Returns whether a reader kept it from doing all it should.
    fn checkpoint(&self, statement: &str) -> Result<bool> {
        let _turn = self.writer.lock();
        self.pool.with("checkpoint", |connection| connection.query_row(statement, (), |row| row.get(0)))
    }
}

fn look_up(
    statement: &mut CachedStatement<'_>,
    key: &[u8],
    found: impl FnOnce(Option<&[u8]>),
) -> rusqlite::Result<bool> {
    let mut rows = statement.query((key,))?;
    let row = rows.next()?;
    let value = row.map(|row| row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)).transpose()?;
    found(value);
    Ok(value.is_some())
}

impl Admin for SqliteEngine {
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

    /// What an open cursor still reads in the log stays there.
    fn flush(&self) -> Result<()> {
        self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)").map(drop)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Result<EngineStats> {
        let count = |pragma: &str| {
            self.pool.with("count", |connection| {
                connection.query_row(&format!("PRAGMA {pragma}"), (), |row| row.get::<_, u32>(0))
            })
        };
        let counters = ["page_count", "freelist_count"].map(|name| Ok((name.to_owned(), u64::from(count(name)?))));
        let counters = counters.into_iter().collect::<Result<_>>()?;
        Ok(EngineStats { debt_bytes: Some(0), counters, ..EngineStats::default() })
    }

    fn close(&self) -> Result<()> {
        if self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)")? {
            return Err(Error::new(ErrorKind::Busy, format!("{NAME}: a cursor is in the way of the last checkpoint")));
        }
        Ok(())
    }
}

impl Kv for SqliteEngine {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change("put", |connection| connection.prepare_cached(PUT)?.execute((key, value)).map(drop))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.change("delete", |connection| connection.prepare_cached(DELETE)?.execute((key,)).map(drop))
    }

    fn write(&self, batch: &KvBatch) -> Result<()> {
        self.change("write", |connection| {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
            let mut put = connection.prepare_cached(PUT)?;
            let mut delete = connection.prepare_cached(DELETE)?;
            for op in batch {
                match op {
                    KvOp::Put { key, value } => put.execute((key, value))?,
                    KvOp::Delete { key } | KvOp::DeleteOnce { key } => delete.execute((key,))?,
                };
            }
            connection.prepare_cached("COMMIT")?.execute(()).map(drop)
        })
    }

    fn get_pinned(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.pool.with("get", |connection| {
            look_up(&mut connection.prepare_cached(GET)?, key, |value| value.into_iter().for_each(found))
        })
    }

    fn multi_get(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.pool.with("get", |connection| {
            connection.prepare_cached(pool::BEGIN)?.execute(())?;
            let mut statement = connection.prepare_cached(GET)?;
            for (position, key) in keys.iter().enumerate() {
                look_up(&mut statement, key, |value| found(position, value))?;
            }
            Ok(())
        })
    }

    fn cursor(&self) -> Result<Box<dyn KvCursor>> {
        Ok(Box::new(cursor::SqliteCursor::new(&self.pool)?))
    }
}
