//! Which knob of each engine a durability means: for the page, and for the book. The tests hold every word in the style of code against the file in which the engine is opened, and every refusal against
//! opening it.

#[cfg(test)]
mod tests;

/// A mode that an engine has no equivalent of, so that opening it is refused.
pub(crate) const REFUSED: &str = "refused";

/// One engine: its name, then what it does for each of the modes.
pub(crate) type Knobs = [&'static str; 4];

/// What the columns are: the engine, then the modes.
pub(crate) const COLUMNS: Knobs = [
    "engine",
    "`commit`: it is on the disk",
    "`second`, `250ms`: the system has it, the disk within that time",
    "`os`: the system has it",
];

/// All engines.
pub(crate) const KNOBS: &[Knobs] = &[
    ["Siltstone", "`WriteOptions::sync`", "`wal_sync_interval_millis`", "neither"],
    ["RocksDB", "`WriteOptions::sync`", "`FlushWAL(true)` by a timer", "neither"],
    ["fjall", "`PersistMode::SyncData` at each commit", "`persist(SyncData)` by a timer", "the default"],
    [
        "Siltstone's B-tree",
        "`Durability::Commit`",
        "`Durability::EveryMillis`",
        "`Durability::Os`: the log is written at each commit",
    ],
    [
        "redb",
        "`Durability::Immediate`",
        REFUSED,
        "`Durability::None`: less than the mode says, for such commits die with the process",
    ],
    [
        "LMDB",
        "the default",
        REFUSED,
        "`NO_SYNC` and `NO_META_SYNC`: less than the mode says, for a power loss may take the whole file",
    ],
    [
        "SQLite, with a write-ahead log",
        "`synchronous = FULL`, built with `HAVE_FDATASYNC`: without, the file's times would be written, too",
        REFUSED,
        "`synchronous = NORMAL`: the log is synced only before pages are copied from it",
    ],
    [
        "InnoDB, in MariaDB",
        "`innodb_flush_log_at_trx_commit = 1`, which no script sets",
        "for `second`, `innodb_flush_log_at_trx_commit = 2`, which `scripts/mariadb/server.py` sets",
        "none",
    ],
    [
        "MyRocks, in MariaDB",
        "`rocksdb_flush_log_at_trx_commit = 1`, which no script sets",
        "for `second`, `rocksdb_flush_log_at_trx_commit = 2`, which `scripts/mariadb/server.py` sets",
        "`rocksdb_flush_log_at_trx_commit = 0`, which no script sets",
    ],
];
