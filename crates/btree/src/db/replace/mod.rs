//! Another tablespace for a tree: an empty one, or one that was loaded.
//!
//! The catalog names the new tablespace in the group that says that the old one is gone. So a crash leaves the one or the other, and opening deletes the
//! file that the catalog does not name.

mod load;
mod new_space;
#[cfg(test)]
mod tests;

pub use load::LoadReport;
pub(super) use new_space::NewSpace;

use super::catalog;
use super::state::{OpenTree, State};
use super::writers::Writer;
use crate::event::Event;
use crate::mtr::{Close, Mtr};
use crate::tree::Tree;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};

impl State {
    /// Empties a tree and deletes the file that it had.
    pub(super) fn truncate(self: &Arc<Self>, open: &OpenTree) -> Result<()> {
        self.make_room_for_definition()?;
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        let compression = self.spaces.compression(open.live()?.space());
        let number = self.create_space(compression)?;
        let formatted = self.define_space(number, compression).and_then(|()| self.name_space(open, number));
        if let Err(error) = formatted {
            self.forget_space(number);
            return Err(error);
        }
        self.replace(writer, open, number)?;
        self.events.note(|| Event::TreeTruncated { name: open.name.clone() });
        Ok(())
    }

    /// Lets the catalog name another tablespace, as part of a group. What else it says of the tree stays.
    pub(super) fn name_space(&self, open: &OpenTree, number: u32) -> Result<()> {
        let key = open.name.as_bytes();
        let row = self.catalog.raw(key)?;
        let missing = || Error::corrupt("the catalog lacks a tree that is open");
        let (_, mut row) = row.ok_or_else(missing)?;
        catalog::set_space(&mut row, number).ok_or_else(missing)?;
        let value = crate::tree::Value::inline(&row);
        self.catalog.put(key, value, false, Close::Open, Close::Open, &mut |_| Ok(()))
    }

    /// Ends the group in which the catalog was told of another tablespace: the one before is gone, durably, and its file is deleted.
    pub(super) fn replace(self: &Arc<Self>, writer: Writer<'_>, open: &OpenTree, number: u32) -> Result<()> {
        let old = open.live()?.space();
        let mut mtr = Mtr::new(&self.pool);
        mtr.drop_space(old);
        mtr.commit(Close::Group)?;
        self.redo.sync_all()?;
        let since = self.versions.begin();
        open.replace(Tree::new(number, Arc::clone(&self.pool)), since);
        self.publish(since);
        drop(writer);
        self.pool.discard(old);
        self.wake_jobs();
        // A file that can't be deleted now goes when the database is opened again: nothing names it.
        let _ = self.spaces.delete(old);
        Ok(())
    }
}
