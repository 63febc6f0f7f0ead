//! What every engine can be asked, whatever it stores.

use super::EngineStats;
use crate::Result;
use std::fmt;
use std::str::FromStr;

/// How long a write has to be safe before the call that makes it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Every commit is on the device before its call returns.
    Commit,
    /// The log is written to the operating system at every commit and reaches the device at least every so many
    /// milliseconds. A power loss takes the commits since; the death of the process takes none.
    EveryMillis(u64),
    /// The log is written to the operating system at every commit and reaches the device whenever that likes.
    /// A power loss takes any number of the last commits; the death of the process takes none.
    Os,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit => f.write_str("commit"),
            Self::EveryMillis(1000) => f.write_str("second"),
            Self::EveryMillis(millis) => write!(f, "{millis}ms"),
            Self::Os => f.write_str("os"),
        }
    }
}

impl FromStr for Durability {
    type Err = &'static str;

    /// Reads `commit`, `second`, `os`, or a number of milliseconds such as `250ms`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected commit, second, os or a number of milliseconds such as 250ms";
        match text {
            "commit" => Ok(Self::Commit),
            "second" => Ok(Self::EveryMillis(1000)),
            "os" => Ok(Self::Os),
            _ => {
                let millis = text.strip_suffix("ms").ok_or(EXPECTED)?.parse().map_err(|_| EXPECTED)?;
                if millis == 0 { Err(EXPECTED) } else { Ok(Self::EveryMillis(millis)) }
            }
        }
    }
}

/// What an engine has, and how it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It implements [`Kv`](super::Kv).
    pub kv: bool,
    /// It implements [`Tables`](super::Tables).
    pub tables: bool,
    /// Its tables refuse a key that a unique index has.
    pub unique_indexes: bool,
    /// Its tables get further indexes, and lose them: [`Tables::add_index`](super::Tables::add_index), [`Tables::drop_index`](super::Tables::drop_index).
    pub added_indexes: bool,
    /// It implements [`LazyTables`](super::LazyTables).
    pub lazy_tables: bool,
    /// It implements [`Transactional`](super::Transactional).
    pub transactions: bool,
    /// Its transactions lock nothing: who changed a row that somebody else changed is told at the commit. They cannot be prepared.
    pub conflicts_at_commit: bool,
    /// Several threads may write at the same time. Otherwise they wait for one another.
    pub concurrent_writers: bool,
    /// It does work in the background that [`Admin::settle`] waits for.
    pub background_work: bool,
    /// What it stores outlives the process.
    pub persistent: bool,
}

/// What every engine has.
pub trait Admin: Send + Sync {
    /// The name by which results call the engine, with its version or build where that matters.
    fn name(&self) -> String;

    /// What the engine has.
    fn capabilities(&self) -> Capabilities;

    /// Writes what is buffered in memory to its place on disk, and waits for it.
    fn flush(&self) -> Result<()>;

    /// Waits until no compaction, merge or cleaning is due. Nobody writes meanwhile.
    fn settle(&self) -> Result<()>;

    /// Settles, after what the engine would do by itself once callers only read: an LSM tree empties level 0. Nobody writes meanwhile.
    /// By default what [`settle`](Self::settle) does.
    fn drain(&self) -> Result<()> {
        self.settle()
    }

    /// What the engine counted since it was opened.
    fn stats(&self) -> Result<EngineStats>;

    /// Ends background work and makes what was written safe. Files and locks are given back at the latest when the engine
    /// is dropped. No other call may follow; cursors must be gone.
    /// Closing twice is harmless.
    fn close(&self) -> Result<()>;
}
