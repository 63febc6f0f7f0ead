//! Connections to one database. A thread takes one for itself and gives it back.

use super::NAME;
use crate::PeerSettings;
use crate::error::foreign;
use rusqlite::Connection;
use siltstone_base::Result;
use siltstone_base::sync::{Mutex, Rank};
use std::path::{Path, PathBuf};

const IDLE: Rank = Rank(902);

/// SQLite's default. The log gets every changed page whole: with pages of 16 KiB, 200,000 random puts of 100 bytes wrote
/// 4.5 GB where these wrote 1.5 GB, and took 1.6 times as long. A row of more than 1,002 bytes has a page of its own besides.
const PAGE_BYTES: usize = 4096;

/// Begins a transaction that only reads. Whoever gives the connection back ends it.
pub(super) const BEGIN: &str = "BEGIN";

/// Any thread may call it. The connection that was given back last is taken first: a lone thread reads and writes through
/// one, whose page cache its own commits leave as it is. One for each thread and each open cursor is made at most.
pub(super) struct Pool {
    path: PathBuf,
    synchronous: &'static str,
    /// For the page caches of all connections together, which share it evenly.
    cache_kib: usize,
    /// At how many pages of log a commit copies them to their places: as much as write buffers of other engines hold. With
    /// SQLite's default of 1,000, 200,000 random puts took 2.2 times as long as with 128 MiB.
    log_pages: usize,
    connections: Mutex<Connections>,
}

struct Connections {
    /// Those that nobody has taken, the last one given back last.
    idle: Vec<Pooled>,
    /// How many exist, taken or not.
    count: usize,
}

/// A connection with its prepared statements and its page cache.
pub(super) struct Pooled {
    pub(super) connection: Connection,
    /// By how many the page caches' memory was divided when its part was set.
    sharers: usize,
}

impl Pool {
    /// Opens the database in the file `path`, creating it if there is none.
    pub(super) fn open(path: &Path, synchronous: &'static str, settings: &PeerSettings) -> Result<Self> {
        let pool = Self {
            path: path.to_owned(),
            synchronous,
            cache_kib: settings.cache_bytes >> 10,
            log_pages: (settings.write_buffer_bytes.saturating_mul(settings.write_buffers) / PAGE_BYTES).max(1),
            connections: Mutex::new(IDLE, Connections { idle: Vec::new(), count: 0 }),
        };
        pool.with("create table", |connection| {
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS kv (key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
            )
        })?;
        Ok(pool)
    }

    /// Does something through a connection of its own, and ends the transaction that it may have left open.
    pub(super) fn with<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let pooled = self.take()?;
        let result = work(&pooled.connection);
        self.give_back(pooled);
        result.map_err(|error| foreign(NAME, operation, error))
    }

    /// A connection that nobody else has.
    pub(super) fn take(&self) -> Result<Pooled> {
        let sharers = {
            let mut connections = self.connections.lock();
            if let Some(pooled) = connections.idle.pop() {
                return Ok(pooled);
            }
            connections.count += 1;
            connections.count
        };
        let connection = self.connect(sharers).map_err(|error| {
            self.connections.lock().count -= 1;
            foreign(NAME, "open", error)
        })?;
        Ok(Pooled { connection, sharers })
    }

    /// Takes a connection back. A transaction that is still open has failed, or has only read: it is rolled back.
    pub(super) fn give_back(&self, mut pooled: Pooled) {
        let connection = &pooled.connection;
        let rolled_back = connection.is_autocommit()
            || connection.prepare_cached("ROLLBACK").and_then(|mut rollback| rollback.execute(())).is_ok();
        let mut connections = self.connections.lock();
        if !rolled_back {
            connections.count -= 1;
            return;
        }
        if pooled.sharers != connections.count {
            let sharers = connections.count;
            let cache = format!("PRAGMA cache_size = {}", self.cache_size(sharers));
            if pooled.connection.execute_batch(&cache).is_ok() {
                pooled.sharers = sharers;
            }
        }
        connections.idle.push(pooled);
    }

    /// A part of the page caches' memory in SQLite's words: negative numbers are KiB.
    fn cache_size(&self, sharers: usize) -> i64 {
        -i64::try_from((self.cache_kib / sharers.max(1)).max(1)).unwrap_or(i64::MAX)
    }

    fn connect(&self, sharers: usize) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.path)?;
        let (synchronous, cache, log_pages) = (self.synchronous, self.cache_size(sharers), self.log_pages);
        // The size of pages has to be said before the log makes the file.
        connection.execute_batch(&format!(
            "PRAGMA page_size = {PAGE_BYTES};
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous};
             PRAGMA cache_size = {cache};
             PRAGMA mmap_size = 0;
             PRAGMA wal_autocheckpoint = {log_pages};"
        ))?;
        Ok(connection)
    }
}
