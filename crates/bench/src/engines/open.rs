//! An engine that is open.

use siltstone_base::engine::{Admin, EngineStats, Kv, LazyTables, Tables};
use siltstone_base::env::{Env, FileKind, PosixEnv};
use siltstone_base::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the names of write-ahead logs end of engines that do not say what theirs occupy: RocksDB's, fjall's and SQLite's.
const LOG_ENDINGS: [&str; 3] = [".log", ".jnl", "-wal"];

/// An engine that is open, by what it has.
#[derive(Clone)]
pub struct OpenEngine {
    /// What every engine has.
    pub admin: Arc<dyn Admin>,
    kv: Option<Arc<dyn Kv>>,
    tables: Option<Arc<dyn Tables>>,
    lazy_tables: Option<Arc<dyn LazyTables>>,
    dir: Option<PathBuf>,
    env: Option<Arc<dyn Env>>,
    name: Option<String>,
}

impl OpenEngine {
    /// An engine of keys and values.
    pub fn kv(engine: Arc<impl Kv + 'static>) -> Self {
        Self { kv: Some(engine.clone()), ..Self::of(engine) }
    }

    /// An engine of tables.
    pub fn tables(engine: Arc<impl Tables + 'static>) -> Self {
        Self { tables: Some(engine.clone()), ..Self::of(engine) }
    }

    /// An engine of both.
    pub fn both(engine: Arc<impl Kv + Tables + 'static>) -> Self {
        Self { kv: Some(engine.clone()), tables: Some(engine.clone()), ..Self::of(engine) }
    }

    /// An engine of tables of both kinds.
    pub fn all_tables(engine: Arc<impl Tables + LazyTables + 'static>) -> Self {
        Self { tables: Some(engine.clone()), lazy_tables: Some(engine.clone()), ..Self::of(engine) }
    }

    fn of(admin: Arc<dyn Admin>) -> Self {
        Self { admin, kv: None, tables: None, lazy_tables: None, dir: None, env: None, name: None }
    }

    /// The same, whose files are in `dir`.
    #[must_use]
    pub fn in_dir(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_path_buf());
        self
    }

    /// The same, whose bytes all pass `env`.
    #[must_use]
    pub fn through(mut self, env: Arc<dyn Env>) -> Self {
        self.env = Some(env);
        self
    }

    /// The same, which results call `name`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The name by which results call it.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.admin.name())
    }

    /// Its keys and values, or an error of kind [`NotSupported`](siltstone_base::ErrorKind::NotSupported).
    pub fn as_kv(&self) -> Result<&dyn Kv> {
        self.kv.as_deref().ok_or_else(|| Error::not_supported(format!("{} has no keys and values", self.name())))
    }

    /// Its tables, or an error of kind [`NotSupported`](siltstone_base::ErrorKind::NotSupported).
    pub fn as_tables(&self) -> Result<&dyn Tables> {
        self.tables.as_deref().ok_or_else(|| Error::not_supported(format!("{} has no tables", self.name())))
    }

    /// Its lazy tables, or an error of kind [`NotSupported`](siltstone_base::ErrorKind::NotSupported).
    pub fn as_lazy_tables(&self) -> Result<&dyn LazyTables> {
        self.lazy_tables.as_deref().ok_or_else(|| Error::not_supported(format!("{} has no lazy tables", self.name())))
    }

    /// The environment that its bytes pass, or the operating system's files.
    pub(crate) fn env(&self) -> Arc<dyn Env> {
        self.env.clone().unwrap_or_else(|| Arc::new(PosixEnv::new()))
    }

    /// What the engine counted. Space is what the file system has allocated in the engine's directory, alike for all;
    /// for an engine whose bytes pass an environment, bytes written and read, and reads, are that environment's, without the binlog's.
    pub fn stats(&self) -> Result<EngineStats> {
        let mut stats = self.admin.stats()?;
        if let Some(dir) = &self.dir {
            stats.space_bytes = Some(allocated_bytes(dir, &|_| true));
            let is_log = |name: &str| LOG_ENDINGS.iter().any(|ending| name.ends_with(ending));
            stats.log_bytes = stats.log_bytes.or_else(|| Some(allocated_bytes(dir, &is_log)));
        }
        if let Some(env) = &self.env {
            let counted = env.io_stats().snapshot();
            let (all, binlog) = (counted.total(), counted.of_kind(FileKind::Binlog));
            stats.bytes_written = Some(all.written_bytes.saturating_sub(binlog.written_bytes));
            stats.bytes_read = Some(all.read_bytes.saturating_sub(binlog.read_bytes));
            stats.reads = Some(all.reads.saturating_sub(binlog.reads));
        }
        Ok(stats)
    }
}

impl fmt::Debug for OpenEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenEngine").field(&self.name()).finish()
    }
}

/// Bytes that the file system has allocated for the files under `dir` whose names are meant. Files that vanish meanwhile count nothing.
pub(crate) fn allocated_bytes(dir: &Path, is_meant: &dyn Fn(&str) -> bool) -> u64 {
    fn walk(env: &PosixEnv, dir: &Path, is_meant: &dyn Fn(&str) -> bool) -> u64 {
        let entries = env.list_dir(dir).unwrap_or_default();
        let bytes = entries.iter().map(|entry| {
            let path = dir.join(&entry.name);
            match entry.is_dir {
                true => walk(env, &path, is_meant),
                false if is_meant(&entry.name) => env.allocated_bytes(&path).unwrap_or(0),
                false => 0,
            }
        });
        bytes.sum()
    }
    walk(&PosixEnv::new(), dir, is_meant)
}
