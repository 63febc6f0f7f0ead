//! Tables: rows with a primary key, and secondary indexes that the engine maintains.
//!
//! A table is a tree of rows and a tree for each index, every one in a tablespace of its own. The keys of an index are index key and primary key; the values are
//! empty. An entry has what a row has: a stamp if a transaction changed it, older versions in memory or in the undo log. So a scan of an index sees what its view sees without
//! looking at rows.
//!
//! Rows are changed under locks of their primary keys; so are entries, which belong to one row each. A unique index has locks of its own, of index keys.

mod build;
mod catalog;
mod check;
mod definition;
mod drop_index;
mod engine;
mod entry;
mod plan;
mod read;
mod scan;
mod standing;
#[cfg(test)]
mod tests;
mod unique;
mod write;

use definition::IndexDefinition;
pub(super) use definition::TableDefinition;
use entry::EntryForm;
pub(super) use plan::{Plan, Step};
pub(super) use read::walk;

use super::catalog::open_index;
use super::changes::ChangesGate;
use super::state::OpenTree;
use crate::buffer::Pool;
use crate::tree::Tree;
use siltstone_base::engine::TableId;
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::sync::{Arc, ArcSwap, Rank, RwLock};
use siltstone_base::{Error, ErrorKind, Result};
use standing::Standing;
use std::collections::BTreeMap;

/// Taken with no other lock held but that of writers.
const RANK: Rank = Rank(151);

/// A table of the catalog, and its trees. One that gets another index, or loses one, is replaced by another one.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) definition: TableDefinition,
    pub(super) rows: Arc<OpenTree>,
    /// In the order of the definition.
    indexes: Vec<Arc<OpenTree>>,
    /// Whether its rows may be changed.
    pub(super) standing: Standing,
}

/// A table whose extractors are known.
#[derive(Debug)]
pub(super) struct OpenTable {
    pub(super) table: Arc<Table>,
    specs: Vec<IndexSpec>,
}

/// The tables of an open database. Any thread may use it.
#[derive(Debug)]
pub(super) struct Tables {
    /// By name. Changed under the lock of writers.
    all: RwLock<BTreeMap<String, Arc<Table>>>,
    /// All their trees, by tablespace.
    trees: RwLock<BTreeMap<u32, Arc<OpenTree>>>,
    /// Those whose extractors are known, ascending by id. Replaced as a whole, under the lock of writers.
    open: ArcSwap<Vec<Arc<OpenTable>>>,
}

impl Table {
    fn new(definition: TableDefinition, pool: &Arc<Pool>, gate: &Arc<ChangesGate>) -> Result<Self> {
        let index = |index| Ok(Arc::new(definition.open_index(index, pool, gate)?));
        let indexes = definition.indexes.iter().map(index).collect::<Result<_>>()?;
        let rows = Tree::new(definition.space, Arc::clone(pool));
        let rows = Arc::new(OpenTree::new(definition.name.clone(), rows));
        Ok(Self { rows, indexes, definition, standing: Standing::default() })
    }

    /// The same table with other indexes.
    fn with(&self, definition: TableDefinition, indexes: Vec<Arc<OpenTree>>) -> Self {
        Self { definition, rows: Arc::clone(&self.rows), indexes, standing: Standing::default() }
    }

    fn id(&self) -> TableId {
        TableId(self.definition.space)
    }

    /// The tree of its rows, and those of its indexes.
    pub(super) fn trees(&self) -> impl Iterator<Item = &Arc<OpenTree>> {
        std::iter::once(&self.rows).chain(&self.indexes)
    }
}

impl TableDefinition {
    /// The tree of one of its indexes.
    fn open_index(&self, index: &IndexDefinition, pool: &Arc<Pool>, gate: &Arc<ChangesGate>) -> Result<OpenTree> {
        // The entries of a unique index are looked at before they change.
        let tree = match index.is_unique {
            true => Tree::new(index.space, Arc::clone(pool)),
            false => open_index(pool, gate, index.space)?,
        };
        Ok(OpenTree::new(format!("{}.{}", self.name, index.name), tree))
    }
}

impl OpenTable {
    pub(super) fn id(&self) -> TableId {
        self.table.id()
    }

    /// The tree of an index.
    pub(super) fn index(&self, index: usize) -> Result<&Arc<OpenTree>> {
        let missing = || Error::new(ErrorKind::NotFound, "the table has no index at this position");
        self.table.indexes.get(index).ok_or_else(missing)
    }

    /// Its number of indexes.
    pub(super) fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether an index is unique.
    pub(super) fn is_unique(&self, index: usize) -> bool {
        self.table.definition.indexes.get(index).is_some_and(|index| index.is_unique)
    }

    /// Its indexes: tree, form of entries, extractor.
    fn indexes(&self) -> impl Iterator<Item = (&Arc<OpenTree>, EntryForm, &IndexSpec)> {
        self.table.indexes.iter().zip(self.specs()).map(|(tree, (form, spec))| (tree, form, spec))
    }

    /// The form of entries and the extractor of each of its indexes.
    fn specs(&self) -> impl Iterator<Item = (EntryForm, &IndexSpec)> {
        self.table.definition.indexes.iter().map(|index| index.form).zip(&self.specs)
    }

    /// The same of one of them.
    fn spec(&self, index: usize) -> Result<(EntryForm, &IndexSpec)> {
        let missing = || Error::new(ErrorKind::NotFound, "the table has no index at this position");
        self.specs().nth(index).ok_or_else(missing)
    }
}

impl Tables {
    /// The tables of a catalog.
    pub(super) fn new(definitions: Vec<TableDefinition>, pool: &Arc<Pool>, gate: &Arc<ChangesGate>) -> Result<Self> {
        let open = |table| Table::new(table, pool, gate).map(Arc::new);
        let tables: Vec<_> = definitions.into_iter().map(open).collect::<Result<_>>()?;
        let trees = tables.iter().flat_map(|table| table.trees());
        let trees = trees.map(|tree| (tree.tree().space(), Arc::clone(tree))).collect();
        let all = tables.iter().map(|table| (table.definition.name.clone(), Arc::clone(table))).collect();
        Ok(Self { all: RwLock::new(RANK, all), trees: RwLock::new(RANK, trees), open: ArcSwap::default() })
    }

    /// The tree of a tablespace, if it is one of a table.
    pub(super) fn tree_of(&self, space: u32) -> Option<Arc<OpenTree>> {
        self.trees.read().get(&space).cloned()
    }

    /// All tables.
    pub(super) fn all(&self) -> Vec<Arc<Table>> {
        self.all.read().values().cloned().collect()
    }

    /// The table of an id, if its extractors are known.
    pub(super) fn get(&self, id: TableId) -> Result<Arc<OpenTable>> {
        let open = self.open.load();
        let found = open.binary_search_by_key(&id, |table| table.id()).ok().and_then(|place| open.get(place));
        found.cloned().ok_or_else(|| Error::new(ErrorKind::NotFound, "no open table has this id"))
    }

    /// The tables whose extractors are known.
    pub(super) fn open(&self) -> Vec<Arc<OpenTable>> {
        Vec::clone(&self.open.load())
    }

    /// Gives a table its extractors. For who holds the lock of writers.
    fn publish(&self, table: Arc<Table>, specs: Vec<IndexSpec>) -> TableId {
        let id = table.id();
        let mut open = self.open();
        open.retain(|other| other.id() != id);
        open.push(Arc::new(OpenTable { table, specs }));
        open.sort_by_key(|table| table.id());
        self.open.store(Arc::new(open));
        id
    }

    /// Takes note of a new table. For who holds the lock of writers.
    fn add(&self, table: &Arc<Table>) {
        self.trees.write().extend(table.trees().map(|tree| (tree.tree().space(), Arc::clone(tree))));
        self.all.write().insert(table.definition.name.clone(), Arc::clone(table));
    }

    /// Takes note of an index that is being added.
    fn add_index(&self, index: &Arc<OpenTree>) {
        self.trees.write().insert(index.tree().space(), Arc::clone(index));
    }

    /// Forgets an index that was being added, unless another handle of it took its place.
    fn forget_index(&self, index: &Arc<OpenTree>) {
        let mut trees = self.trees.write();
        let space = index.tree().space();
        if trees.get(&space).is_some_and(|known| Arc::ptr_eq(known, index)) {
            trees.remove(&space);
        }
    }

    /// Puts a table in the place of what it was with other indexes. For who holds the lock of writers.
    fn replace(&self, old: &Table, table: &Arc<Table>, specs: Vec<IndexSpec>) {
        self.add(table);
        self.publish(Arc::clone(table), specs);
        let is_gone = |space: &u32| !table.definition.spaces().any(|own| own == *space);
        let mut trees = self.trees.write();
        old.definition.spaces().filter(is_gone).for_each(|space| drop(trees.remove(&space)));
        drop(trees);
        // Whoever finds it out afterwards finds the other one.
        old.standing.set_replaced();
    }

    /// Forgets a table. For who holds the lock of writers.
    fn remove(&self, table: &Table) {
        let mut open = self.open();
        open.retain(|other| other.id() != table.id());
        self.open.store(Arc::new(open));
        self.all.write().remove(&table.definition.name);
        let mut trees = self.trees.write();
        table.definition.spaces().for_each(|space| drop(trees.remove(&space)));
    }
}
