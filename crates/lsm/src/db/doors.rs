//! What transactions need of a database beyond what users need.

use super::checked::Watched;
use super::iter::OwnEntries;
use super::newest::Lookup;
use super::prepared::PreparedBatches;
use super::timestamps::refuse_writing;
use super::{ColumnFamily, Db, Handle, Iter, PinnedValue, open};
use crate::batch::WriteBatch;
use crate::key::SeqNo;
use crate::options::{ColumnFamilyOptions, DbOptions, IngestExternalFileOptions, ReadOptions, WriteOptions};
use siltstone_base::Result;
use siltstone_base::executor::Executor;
use siltstone_base::sync::Arc;
use std::path::Path;

impl Db {
    /// Opens a database as [`open_families`](Self::open_families) does, that may have transactions which are prepared and not decided. They are prepared
    /// again when this returns: their names, and their entries.
    pub(crate) fn open_prepared(
        dir: &Path,
        options: &DbOptions,
        families: &[(&str, ColumnFamilyOptions)],
    ) -> Result<(Self, PreparedBatches)> {
        let (inner, prepared) = open::open_prepared(dir, options, families)?;
        Ok((Self { handle: Arc::new(Handle { inner }) }, prepared))
    }

    /// Who lets threads wait.
    pub(crate) fn executor(&self) -> &dyn Executor {
        &*self.handle.inner.executor
    }

    /// Fails if a family was dropped, or belongs to another database.
    pub(crate) fn check_family(&self, family: &ColumnFamily) -> Result<()> {
        self.handle.inner.check_readable(&family.0)
    }

    /// Fails unless tables may be taken into `family` now, as far as that can be told without them.
    pub(crate) fn check_loadable(&self, family: &ColumnFamily) -> Result<()> {
        self.handle.inner.check_writable()?;
        self.check_family(family)?;
        refuse_writing(&family.0.name, &family.0.options())
    }

    /// [`ingest_external_files`](Self::ingest_external_files), but `Busy` if the newest number is not `only_at` any more, where that is given.
    pub(crate) fn ingest_if(
        &self,
        family: &ColumnFamily,
        paths: &[&Path],
        options: &IngestExternalFileOptions,
        only_at: Option<SeqNo>,
    ) -> Result<SeqNo> {
        self.handle.inner.ingest(&family.0, paths, options, only_at)
    }

    /// What a batch has of its own for a key, unless it is expired for a read.
    pub(crate) fn shown(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        found: PinnedValue,
        options: &ReadOptions,
    ) -> Option<PinnedValue> {
        let inner = &self.handle.inner;
        match &family.0.expiry {
            None => Some(found),
            Some(expiry) => inner.unexpired(expiry, key, Some(found), inner.read_time(options)),
        }
    }

    /// An iterator that shows a batch's own entries over those of the database.
    pub(crate) fn iter_over(&self, family: &ColumnFamily, own: &OwnEntries<'_>, options: &ReadOptions) -> Result<Iter> {
        self.handle.inner.iter_over(&family.0, own, options)
    }

    /// Whether a key changed after `seqno`, of which a snapshot is held, or of an older state.
    pub(crate) fn is_changed_since(&self, family: &ColumnFamily, key: &[u8], seqno: SeqNo) -> Result<bool> {
        let pinned = family.0.super_version.load();
        self.handle.inner.is_changed_since(&family.0, &pinned, key, seqno, Lookup::Everywhere)
    }

    /// Writes `batch`, which may be empty, unless a watched key has changed: then fails with `Busy`.
    pub(crate) fn write_if_unchanged(
        &self,
        watched: Vec<Watched>,
        batch: &mut WriteBatch,
        options: &WriteOptions,
    ) -> Result<()> {
        self.handle.inner.write_if_unchanged(watched, batch, options)
    }
}
