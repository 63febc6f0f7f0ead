//! Filling a new index with tables that are sorted beside the database and taken in at once, where nobody puts entries into it meanwhile, or where it does no harm.
//!
//! * While a unique index is added, nobody changes rows of its table.
//! * An entry of a lazy table may be put in any case, unless it expires: above that of a row that was written since, it would go before that row.
//! * Into another index nobody has put anything if nothing at all was written since writers learned of it. That is looked at while nobody writes, when the tables are taken in; if something was
//!   written, they are thrown away.

use super::TableDb;
use super::fetch::at_position;
use super::index::{Index, Table};
use super::layout::without_id;
use crate::bulk_load::{BulkLoadOptions, BulkLoader};
use crate::key::SeqNo;
use crate::options::ReadOptions;
use crate::snapshot::Snapshot;
use siltstone_base::engine::Row;
use siltstone_base::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// The folder of the database in which entries are sorted.
const SORTING: &str = "sorting";

/// With fewer entries than these, tables are not worth their files.
const LEAST_ENTRIES: usize = 1024;

impl TableDb {
    /// Puts the entries of all rows that the snapshot shows. `learned` is the newest number before writers learned of the index. False: nothing was put, and entries must be put one
    /// by one, because there are few, because somebody writes, or because a unique index cannot have them all.
    pub(super) fn load_index(&self, table: &Table, index: &Index, snapshot: &Snapshot, learned: SeqNo) -> Result<bool> {
        let may_come_late = table.definition.lazy && !table.expires();
        let only_at = (!index.spec.unique && !may_come_late).then_some(learned);
        if only_at.is_some_and(|learned| learned != snapshot.seqno()) {
            return Ok(false);
        }
        // What is sorted has the names that the next opening gives: closing waits until it is gone.
        let _making = self.ground.db.make_files()?;
        let options = ReadOptions::default()
            .snapshot(Some(snapshot.clone()))
            .iterate_upper_bound(Some(table.definition.primary.end().to_vec()))
            .fill_cache(false);
        let mut rows = self.ground.db.iter_cf(&self.ground.rows, &options)?;
        rows.seek(&table.definition.primary.to_bytes());
        let mut few: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let (mut loader, mut number): (Option<BulkLoader>, u64) = (None, 0);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while rows.valid() {
            self.ground.db.check_open()?;
            let row = Row { primary_key: without_id(rows.key()), value: rows.value() };
            key.clear();
            if index.entry_to_fill(&row, number, &mut key, &mut value).map_err(|error| at_position(error, number))? {
                match &mut loader {
                    Some(loader) => {
                        if !is_taken(loader.put(&key, &value))? {
                            return Ok(false);
                        }
                    }
                    None => few.push((key.clone(), value.clone())),
                }
            }
            if few.len() >= LEAST_ENTRIES && loader.is_none() {
                let begun = loader.insert(self.begin_load(index.spec.unique)?);
                for (key, value) in few.drain(..) {
                    if !is_taken(begun.put(key, value))? {
                        return Ok(false);
                    }
                }
            }
            number += 1;
            rows.next();
        }
        rows.status()?;
        // What it pins is not needed to take tables in.
        drop(rows);
        match loader {
            Some(loader) => is_taken(loader.finish_if(only_at)),
            None => Ok(false),
        }
    }

    fn begin_load(&self, unique: bool) -> Result<BulkLoader> {
        self.clear_sorting()?;
        let options =
            BulkLoadOptions::default().unique(unique).sort_buffer_bytes(self.ground.rows.options().write_buffer_size);
        BulkLoader::new(&self.ground.db, &self.ground.rows, self.sorting(), &options)
    }

    fn sorting(&self) -> PathBuf {
        self.ground.db.dir().join(SORTING)
    }

    /// Removes what a crash left of a load.
    pub(super) fn clear_sorting(&self) -> Result<()> {
        let (env, dir) = (self.ground.db.env(), self.sorting());
        let left = match env.list_dir(&dir) {
            Ok(left) => left,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("list", &dir, error)),
        };
        for file in left {
            let path = dir.join(file.name);
            env.remove_file(&path).map_err(|error| Error::io("delete", &path, error))?;
        }
        env.remove_dir(&dir).map_err(|error| Error::io("delete", &dir, error))
    }
}

/// Whether a step of a load was done; false if what it was to bring cannot come in this way.
fn is_taken<T>(outcome: Result<T>) -> Result<bool> {
    match outcome {
        Ok(_) => Ok(true),
        Err(error)
            if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Busy | ErrorKind::InvalidArgument) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
