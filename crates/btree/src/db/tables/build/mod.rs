//! Adding an index to a table whose rows go on being read and changed.
//!
//! 1. From now on whoever changes a row of the table notes its primary key. Whoever changed it before and has not ended is waited for (see [hold](self::hold)).
//! 2. A view. The rows that it sees are walked in the order of their primary keys. Their entries are collected, as many as fit into a part of the memory, sorted, and written to a tablespace that nothing
//!    leads to, page after page, without the buffer pool and the redo log. If there are more of them, such runs are merged into one tree (see [sort](self::sort)). The tree is made durable.
//! 3. Rows that were noted are looked at: what they yield now takes the place of what they yielded for the view. Others change meanwhile, and are noted (see [catch_up](self::catch_up)).
//! 4. When few are left, changes of the table are held off. Transactions that changed it go on, and are waited for: from then on its rows stay what they are, and nobody has a change to undo that
//!    would know nothing of the index. The rest is looked at.
//! 5. The catalog names the tree in one group. So it is there as a whole or not at all, and a crash leaves files that opening deletes, whatever the log says of their pages.
//! 6. The table is replaced by one that has the index, and whoever waited goes on. Who planned changes of the one before plans anew.
//!
//! Who sees a moment before step 6 gets `Busy` from the index, as InnoDB says that the definition of a table has changed: older versions of entries were never made.
//!
//! It is the way of InnoDB's online DDL, with its sorted index builds and its log of changes; which rows changed is all that is noted here, for the view knows what they were.

mod catch_up;
mod hold;
mod sort;

use self::catch_up::CatchUp;
use self::sort::Sorter;
use super::super::Db;
use super::super::replace::NewSpace;
use super::super::scan::Cursor;
use super::super::state::State;
use super::super::transactions::View;
use super::{OpenTable, Table};
use crate::event::Event;
use crate::mtr::{Close, close_group};
use crate::tree::Value;
use siltstone_base::engine::{KvCursor, TableId};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};

/// Rows that one cursor walks over.
const ROWS: usize = 1024;

impl Db {
    /// Adds an index to a table behind those that it has. Returns its position. It can be read, and is durable, when this returns, whatever
    /// [`durability`](crate::DbOptions::durability) says.
    ///
    /// Rows of the table may be read and changed meanwhile. A change that begins at the end, while what changed last gets its entries, waits for that; `Busy` if it waits longer than
    /// [`lock_timeout_millis`](crate::DbOptions::lock_timeout_millis) says, or the transaction. Before it begins, and again before it ends, it waits as long for transactions that changed the table and have not ended, prepared ones and those
    /// that are being rolled back included. Cursors over the table stay what they are; transactions on
    /// the level [`Snapshot`](crate::Isolation::Snapshot) that began before get `Busy` when they read the index.
    ///
    /// The index takes memory for its entries, an eighth of the buffer pool and 64 MiB at most, beside the pool, and space in the directory for them once more if they are more than that. Primary keys of rows that change
    /// are kept in memory, and older versions of rows as for a cursor.
    ///
    /// A unique index refuses nobody before it is there: rows that have the same key when they are walked over, or when one that changed since is looked at, keep it from being added.
    ///
    /// # Errors
    ///
    /// `NotFound` if no open table has this id; `Busy` while another index is added to it; `TimedOut` if transactions that changed it do not end; `InvalidArgument` and `LimitExceeded` as for
    /// [`create_table`](Self::create_table); `AlreadyExists` if rows have the same key in a unique index; `Corruption` if a row does not decode; `Poisoned` or `InvalidArgument` if the
    /// extractor panics or breaks its promises; each with the row's position in the order of primary keys, or the primary key of one that changed meanwhile; `LimitExceeded` if so many rows change that their primary keys take more than
    /// 128 MiB; those of [`put`](Self::put). The table then has no such index, and the space that was taken is given back.
    pub fn add_index(&self, table: TableId, spec: &IndexSpec) -> Result<usize> {
        self.0.add_index(table, spec)
    }
}

impl State {
    fn add_index(self: &Arc<Self>, id: TableId, spec: &IndexSpec) -> Result<usize> {
        // What can't be added is refused before anybody waits.
        self.tables.get(id)?.table.definition.with_index(spec, 0)?;
        let building = self.note_changes(id)?;
        // It sees all that was not noted.
        let view = self.view(0, 0);
        let (mut space, entries) = self.build_index(building.table(), spec, &view)?;
        let mut catch_up = CatchUp::new(self, building.table(), spec, space.number(), view, entries)?;
        catch_up.approach()?;
        // Long transactions are waited for while others change rows.
        building.wait()?;
        catch_up.approach()?;
        building.hold()?;
        catch_up.finish()?;
        let position = self.name_index(id, spec, &mut space)?;
        let entries = catch_up.count();
        drop(catch_up);
        drop(building);
        let (table, index) = (self.tables.get(id)?.table.definition.name.clone(), spec.name.clone());
        self.events.note(|| Event::IndexAdded { table, index, entries });
        self.wake_jobs();
        Ok(position)
    }

    /// Writes the entries of all rows that a view sees to a tablespace that nothing leads to. Returns it, and how many they are.
    fn build_index<'a>(
        self: &'a Arc<Self>,
        table: &Table,
        spec: &IndexSpec,
        view: &View,
    ) -> Result<(NewSpace<'a>, u64)> {
        let mut sorter = Sorter::new(self, &table.definition.name, spec);
        let mut last: Option<Vec<u8>> = None;
        loop {
            self.health.check()?;
            table.standing.check_noted()?;
            let mut cursor = Cursor::with_view(self, &table.rows, view.again())?;
            let mut is_there = match &last {
                Some(last) => cursor.seek(last)?,
                None => cursor.seek_to_first()?,
            };
            if is_there && last.as_ref().is_some_and(|last| last == cursor.key()) {
                is_there = cursor.next()?;
            }
            let mut seen = 0;
            while is_there && seen < ROWS {
                sorter.add(cursor.key(), cursor.value())?;
                seen += 1;
                if seen == ROWS {
                    last = Some(cursor.key().to_vec());
                }
                is_there = seen < ROWS && cursor.next()?;
            }
            if seen < ROWS {
                break;
            }
        }
        sorter.finish()
    }

    /// Lets the catalog name the index, and everyone find it. Returns its position.
    fn name_index(self: &Arc<Self>, id: TableId, spec: &IndexSpec, space: &mut NewSpace<'_>) -> Result<usize> {
        self.make_room_for_definition()?;
        let _writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        // It may have been opened once more meanwhile.
        let OpenTable { table: old, specs } = &*self.tables.get(id)?;
        let definition = old.definition.with_index(spec, space.number())?;
        let position = specs.len();
        let missing = || Error::corrupt("a definition lacks its last index");
        let index = definition.indexes.last().ok_or_else(missing)?;
        let tree = definition.open_index(index, &self.pool, &self.gate)?;
        let (key, value) = definition.rows().pop().ok_or_else(missing)?;
        self.catalog.put(&key, Value::inline(&value), false, Close::Open, Close::Open, &mut |_| Ok(()))?;
        space.keep();
        let end = close_group(&self.pool)?;
        self.redo.sync_to(end)?;
        let since = self.versions.begin();
        self.publish(since);
        let mut trees = old.indexes.clone();
        trees.push(Arc::new(tree.born(since)));
        let mut specs = specs.clone();
        specs.push(spec.clone());
        let table = Arc::new(old.with(definition, trees));
        self.tables.replace(old, &table, specs);
        Ok(position)
    }
}
