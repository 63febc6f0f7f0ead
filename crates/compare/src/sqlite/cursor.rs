//! A cursor that owns its connection, and on it a transaction that only reads.

use super::NAME;
use super::pool::{BEGIN, Pool, Pooled};
use crate::error::foreign;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::{CachedStatement, Rows};
use self_cell::{MutBorrow, self_cell};
use siltstone_base::Result;
use siltstone_base::engine::KvCursor;
use siltstone_base::sync::Arc;

const FIRST: &str = "SELECT key, value FROM kv ORDER BY key";
const LAST: &str = "SELECT key, value FROM kv ORDER BY key DESC";
const FROM: &str = "SELECT key, value FROM kv WHERE key >= ?1 ORDER BY key";
const AFTER: &str = "SELECT key, value FROM kv WHERE key > ?1 ORDER BY key";
const BEFORE: &str = "SELECT key, value FROM kv WHERE key < ?1 ORDER BY key DESC";

self_cell!(
    /// A statement that runs, and the rows that it has not given yet.
    struct Entries<'a> {
        owner: MutBorrow<CachedStatement<'a>>,

        #[not_covariant]
        dependent: Rows,
    }
);

/// SQLite's statements go one way: turning around runs another one.
#[derive(Default)]
struct Position<'a> {
    entries: Option<Entries<'a>>,
    is_backward: bool,
}

impl Position<'_> {
    fn step(&mut self) -> rusqlite::Result<bool> {
        match &mut self.entries {
            None => Ok(false),
            Some(entries) => entries.with_dependent_mut(|_, rows| rows.next().map(|row| row.is_some())),
        }
    }

    fn column(&self, column: usize) -> &[u8] {
        let bytes = self
            .entries
            .as_ref()
            .and_then(|entries| entries.with_dependent(|_, rows| rows.get()?.get_ref(column).ok()?.as_blob().ok()));
        bytes.unwrap_or_default()
    }
}

self_cell!(
    struct OwnedPosition {
        owner: Pooled,

        #[not_covariant]
        dependent: Position,
    }
);

/// A cursor over one moment of the database.
pub(super) struct SqliteCursor {
    pool: Arc<Pool>,
    /// Gone only while the cursor is dropped.
    position: Option<OwnedPosition>,
}

impl SqliteCursor {
    pub(super) fn new(pool: &Arc<Pool>) -> Result<Self> {
        let position = OwnedPosition::new(pool.take()?, |_| Position::default());
        let cursor = Self { pool: Arc::clone(pool), position: Some(position) };
        cursor.begin().map_err(|error| foreign(NAME, "begin", error))?;
        Ok(cursor)
    }

    /// Fixes the moment: a transaction that begins sees what is there when it reads for the first time.
    fn begin(&self) -> rusqlite::Result<()> {
        let Some(position) = &self.position else { return Ok(()) };
        let connection = &position.borrow_owner().connection;
        connection.prepare_cached(BEGIN)?.execute(())?;
        connection.prepare_cached("SELECT 1 FROM kv LIMIT 1")?.exists(()).map(drop)
    }

    fn start(&mut self, query: &str, key: Option<&[u8]>, is_backward: bool) -> Result<bool> {
        let Some(position) = &mut self.position else { return Ok(false) };
        let started = position.with_dependent_mut(|pooled, position| {
            // The statement that ran is given back first: it may be the one that is needed.
            position.entries = None;
            position.is_backward = is_backward;
            let statement = pooled.connection.prepare_cached(query)?;
            let entries = Entries::try_new(MutBorrow::new(statement), |statement| {
                let statement = statement.borrow_mut();
                match key {
                    None => statement.query(()),
                    Some(key) => statement.query((key,)),
                }
            })?;
            position.entries = Some(entries);
            position.step()
        });
        started.map_err(|error| foreign(NAME, "seek", error))
    }

    /// One step on, or, if the entries come the other way round, what `query` finds beside the current key.
    fn go(&mut self, query: &str, is_backward: bool) -> Result<bool> {
        let Some(position) = &mut self.position else { return Ok(false) };
        let turns = position.with_dependent(|_, position| position.is_backward != is_backward);
        if turns {
            let key = self.key().to_vec();
            return self.start(query, Some(&key), is_backward);
        }
        position.with_dependent_mut(|_, position| position.step()).map_err(|error| foreign(NAME, "iterate", error))
    }

    fn column(&self, column: usize) -> &[u8] {
        let position = self.position.as_ref();
        position.map_or(&[], |position| position.with_dependent(|_, position| position.column(column)))
    }
}

impl Drop for SqliteCursor {
    fn drop(&mut self) {
        if let Some(position) = self.position.take() {
            self.pool.give_back(position.into_owner());
        }
    }
}

impl KvCursor for SqliteCursor {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.start(FIRST, None, false)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.start(LAST, None, true)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.start(FROM, Some(key), false)
    }

    fn next(&mut self) -> Result<bool> {
        self.go(AFTER, false)
    }

    fn prev(&mut self) -> Result<bool> {
        self.go(BEFORE, true)
    }

    fn key(&self) -> &[u8] {
        self.column(0)
    }

    fn value(&self) -> &[u8] {
        self.column(1)
    }
}
