//! Loading an empty tree at once.

use super::super::state::{OpenTree, State};
use super::NewSpace;
use crate::event::Event;
use crate::tree::{Built, BulkBuilder, BulkOptions};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// What [`Db::bulk_load`](crate::Db::bulk_load) wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// Rows.
    pub rows: u64,
    /// Pages of rows.
    pub leaf_pages: u64,
    /// Pages of separators.
    pub inner_pages: u64,
    /// Pages of long values.
    pub overflow_pages: u64,
}

impl State {
    /// Loads an empty tree: its rows go to a tablespace of their own, which then takes the place of the empty one.
    pub(in super::super) fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self: &Arc<Self>,
        open: &OpenTree,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<LoadReport> {
        let (incarnation, mut new) = self.begin_load(open)?;
        let built = self.build(open, new.number(), rows)?;
        self.make_room_for_definition()?;
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if !open.at(incarnation)?.is_empty()? {
            drop(writer);
            return Err(Error::new(ErrorKind::Busy, "somebody wrote to the tree while it was loaded"));
        }
        if let Err(error) = self.name_space(open, new.number()) {
            drop(writer);
            return Err(error);
        }
        // From here on the log decides.
        new.keep();
        self.replace(writer, open, new.number())?;
        let Built { rows, leaf_pages, inner_pages, overflow_pages } = built;
        self.events.note(|| Event::TreeLoaded { name: open.name.clone(), rows });
        Ok(LoadReport { rows, leaf_pages, inner_pages, overflow_pages })
    }

    /// Takes a number for the new tablespace.
    fn begin_load(self: &Arc<Self>, open: &OpenTree) -> Result<(u32, NewSpace<'_>)> {
        self.make_room_for_definition()?;
        let _writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if !open.live()?.is_empty()? {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("the tree {} has rows", open.name)));
        }
        let new = NewSpace::create(self, self.spaces.compression(open.live()?.space()))?;
        Ok((open.incarnation()?, new))
    }

    /// Writes all pages and makes them durable. Holds no lock while it asks for rows.
    fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        open: &OpenTree,
        number: u32,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Built> {
        let options = BulkOptions {
            fill_percent: self.bulk_fill_percent,
            max_value_len: open.tree().max_value_len(),
            lsn: self.redo.closed().lsn(),
        };
        let mut builder = BulkBuilder::new(&self.spaces, number, options)?;
        for (key, value) in rows {
            builder.push(key.as_ref(), value.as_ref())?;
        }
        let built = builder.finish()?;
        if !is_planted(PlantedBug::LoadIsNotSynced) {
            self.spaces.sync_filled(number)?;
        }
        Ok(built)
    }
}
