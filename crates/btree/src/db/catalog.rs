//! The catalog: which trees exist, and in which tablespaces. It is a tree itself, in tablespace 0.

use super::changes::ChangesGate;
use super::state::{OpenTree, State};
use super::tables::TableDefinition;
use crate::buffer::Pool;
use crate::change_buffer::ChangeBuffer;
use crate::event::Event;
use crate::mtr::{Close, Mtr};
use crate::options::{MIN_COMPRESSED_PAGE, PageCompression};
use crate::page::{Change, Header, PageId, PageKind, u32_at};
use crate::redo::Redo;
use crate::space::{CATALOG_SPACE, CHANGES_SPACE, SpaceHeader, UNDO_SPACE, bitmap_of};
use crate::tree::{Chunk, Position, Start, Tree, Value};
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};

/// The tree that every database has, and its tablespace.
pub(super) const DEFAULT_NAME: &str = "default";
pub(super) const DEFAULT_SPACE: u32 = 1;

/// Bytes of the longest name of a tree.
const MAX_NAME_LEN: usize = 64;

/// Bytes of a tree's row: the tablespace, and flags of which none is known.
const ROW_LEN: usize = 8;

fn row(space: u32) -> [u8; ROW_LEN] {
    let mut row = [0; ROW_LEN];
    row[..4].copy_from_slice(&space.to_le_bytes());
    row
}

/// Lets a row name another tablespace. `None` if it is no row of a catalog.
pub(super) fn set_space(row: &mut [u8], space: u32) -> Option<()> {
    *row.first_chunk_mut()? = space.to_le_bytes();
    Some(())
}

/// What a catalog names.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Trees, with their tablespaces.
    pub(super) trees: Vec<(String, u32)>,
    /// Tables.
    pub(super) tables: Vec<TableDefinition>,
}

/// Reads a catalog.
pub(super) fn read(catalog: &Tree) -> Result<Contents> {
    let damaged =
        |what: &'static str| catalog.pool().spaces.corruption(PageId::new(CATALOG_SPACE, SpaceHeader::ROOT), what);
    let mut contents = Contents::default();
    let (mut position, mut chunk, mut last) = (Position::default(), Chunk::default(), Vec::new());
    let mut is_first = true;
    loop {
        let start = if is_first { Start::End } else { Start::Beyond(&last) };
        catalog.read_chunk(start, true, &mut position, 64, &mut chunk)?;
        let Some((key, _)) = chunk.len().checked_sub(1).and_then(|last| chunk.get(last)) else { break };
        if !is_first && key <= last.as_slice() {
            return Err(damaged("the catalog is out of order"));
        }
        is_first = false;
        last = key.to_vec();
        for index in 0..chunk.len() {
            let Some((key, value)) = chunk.get(index) else { break };
            if TableDefinition::is_row(key) {
                let known = TableDefinition::read_row(&mut contents.tables, key, value);
                known.ok_or_else(|| damaged("a row of the catalog defines no table that this version understands"))?;
                continue;
            }
            let name = std::str::from_utf8(key).map_err(|_| damaged("the name of a tree is no text"))?;
            if value.len() != ROW_LEN || u32_at(value, 4) != 0 || u32_at(value, 0) == CATALOG_SPACE {
                return Err(damaged("a row of the catalog says what this version does not understand"));
            }
            contents.trees.push((name.to_owned(), u32_at(value, 0)));
        }
    }
    let mut spaces: Vec<u32> = contents.trees.iter().map(|(_, space)| *space).collect();
    spaces.extend(contents.tables.iter().flat_map(TableDefinition::spaces));
    spaces.extend([CATALOG_SPACE, UNDO_SPACE, CHANGES_SPACE]);
    spaces.sort_unstable();
    if spaces.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(damaged("two trees of the catalog have one tablespace"));
    }
    Ok(contents)
}

/// The first pages of a new tablespace as they are written before there is a log: page 0, a bitmap, and a root with these rows.
pub(super) fn first_pages(page_len: usize, header: SpaceHeader, rows: &[(&str, u32)]) -> Option<[Vec<u8>; 3]> {
    let mut front = vec![0; page_len];
    Header::empty(PageKind::Space, 0, page_len).write(front.as_mut_slice());
    SpaceHeader::change(&header.encode()).apply(front.as_mut_slice()).ok()?;
    let rows: Vec<_> = rows.iter().map(|(name, space)| (name.as_bytes(), row(*space))).collect();
    let cells = rows.iter().map(|(name, row)| crate::page::Cell { flags: 0, key: name, value: row });
    let root = crate::page::build(page_len, &Header::empty(PageKind::Leaf, 0, page_len), cells)?;
    let mut bitmap = vec![0; page_len];
    Header::empty(PageKind::Bitmap, 0, page_len).write(bitmap.as_mut_slice());
    Some([front, bitmap, root])
}

/// A tree of a tablespace that is open: of entries that may wait in the change buffer.
pub(super) fn open_index(pool: &Arc<Pool>, gate: &Arc<ChangesGate>, space: u32) -> Result<Tree> {
    let tree = Tree::with_gate(space, Arc::clone(pool), Arc::<ChangesGate>::clone(gate))?;
    if let Some(states) = tree.states()
        && let Err(error) = ChangeBuffer::load_states(pool, space, states)
    {
        if error.kind() != ErrorKind::Corruption {
            return Err(error);
        }
        // Whoever needs this index is told; other trees can be read, and its table dropped.
        states.set_damage(error);
    }
    Ok(tree)
}

/// A tree of a tablespace that is open. Tests of the change buffer name one.
pub(super) fn open_tree(pool: &Arc<Pool>, gate: &Arc<ChangesGate>, name: &str, space: u32) -> Result<Tree> {
    if cfg!(any(test, feature = "testing")) && name == "entries" {
        open_index(pool, gate, space)
    } else {
        Ok(Tree::new(space, Arc::clone(pool)))
    }
}

/// Says, in a group of its own, that a tablespace is gone, durably.
pub(super) fn log_drop(redo: &Redo, space: u32) -> Result<()> {
    let mut entries = Vec::new();
    crate::redo::encode_drop(&mut entries, space);
    redo.append(&entries, crate::redo::END, |_, _| {})?;
    redo.sync_all()
}

impl State {
    /// Creates a tree. It is durable when this returns.
    pub(super) fn create_tree(self: &Arc<Self>, name: &str, compression: PageCompression) -> Result<Arc<OpenTree>> {
        if name.is_empty() || name.len() > MAX_NAME_LEN {
            return Err(Error::invalid_argument("the name of a tree has 1 to 64 bytes"));
        }
        self.check_compression(compression)?;
        self.make_room_for_definition()?;
        let _writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        if self.trees.read().contains_key(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, format!("the tree {name} exists")));
        }
        let number = self.create_space(compression)?;
        if let Err(error) = self.define(name, number, compression) {
            self.forget_space(number);
            return Err(error);
        }
        self.redo.sync_all()?;
        let tree = open_tree(&self.pool, &self.gate, name, number)?;
        let tree = Arc::new(OpenTree::new(name.to_owned(), tree));
        self.trees.write().insert(name.to_owned(), Arc::clone(&tree));
        self.events.note(|| Event::TreeCreated { name: name.to_owned() });
        self.wake_jobs();
        Ok(tree)
    }

    pub(super) fn check_compression(&self, compression: PageCompression) -> Result<()> {
        let is_possible = compression == PageCompression::None || self.pool.page_len() >= MIN_COMPRESSED_PAGE;
        if is_possible {
            Ok(())
        } else {
            Err(Error::invalid_argument("page_compression is for pages of 8 KiB or more"))
        }
    }

    /// Page 0 of the catalog.
    pub(super) fn catalog_header(&self) -> Result<SpaceHeader> {
        let page = self.pool.shared(PageId::new(CATALOG_SPACE, 0))?;
        SpaceHeader::read(page.bytes()).map_err(|what| self.spaces.corruption(PageId::new(CATALOG_SPACE, 0), what))
    }

    /// Creates the file of the next tablespace. The log does not speak of it yet.
    pub(super) fn create_space(&self, compression: PageCompression) -> Result<u32> {
        let number = self.catalog_header()?.next_space;
        // Durable in its directory before the log speaks of it.
        self.spaces.create(number)?;
        self.spaces.set_compression(number, compression);
        Ok(number)
    }

    /// Says that the number of a new tablespace is taken.
    pub(super) fn take_space(&self, number: u32, mtr: &mut Mtr<'_>) -> Result<()> {
        let next_space = number.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::LimitExceeded, "a database has no more than 2^32 trees in its life")
        })?;
        mtr.space(CATALOG_SPACE)?.next_space = next_space;
        Ok(())
    }

    /// Logs the first pages of a tablespace that was created, as part of an open group.
    pub(super) fn define_space(&self, number: u32, compression: PageCompression) -> Result<()> {
        let mut mtr = Mtr::new(&self.pool);
        self.take_space(number, &mut mtr)?;
        let [front, bitmap, root] = [
            mtr.create(PageId::new(number, 0))?,
            mtr.create(PageId::new(number, bitmap_of(0, self.pool.page_len())))?,
            mtr.create(PageId::new(number, SpaceHeader::ROOT))?,
        ];
        mtr.change(front, &Change::Format { kind: PageKind::Space, level: 0, left: 0, right: 0 });
        let header = SpaceHeader { compression, ..SpaceHeader::new(0) };
        mtr.change(front, &SpaceHeader::change(&header.encode()));
        mtr.change(bitmap, &Change::Format { kind: PageKind::Bitmap, level: 0, left: 0, right: 0 });
        mtr.change(root, &Change::Format { kind: PageKind::Leaf, level: 0, left: 0, right: 0 });
        mtr.commit(Close::Open).map(drop)
    }

    fn define(&self, name: &str, number: u32, compression: PageCompression) -> Result<()> {
        self.define_space(number, compression)?;
        let value = row(number);
        self.catalog.put(name.as_bytes(), Value::inline(&value), false, Close::Group, Close::Open, &mut |_| Ok(()))
    }

    /// Closes the group of a tree that could not be created: its tablespace is gone.
    #[cold]
    pub(super) fn forget_space(&self, number: u32) {
        if log_drop(&self.redo, number).is_ok() {
            self.pool.discard(number);
            let _ = self.spaces.delete(number);
        }
    }

    /// Drops a tree. Its file is deleted before this returns, if it can be.
    pub(super) fn drop_tree(self: &Arc<Self>, name: &str) -> Result<()> {
        if name == DEFAULT_NAME {
            return Err(Error::invalid_argument("the default tree can't be dropped"));
        }
        self.make_room_for_definition()?;
        let writer = self.writer.lock();
        self.check_open()?;
        self.health.check()?;
        let found = self.trees.read().get(name).cloned();
        let tree = found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tree {name}")))?;
        let space = tree.tree().space();
        // One that was not found would be an open group of nothing.
        let underfull = self.catalog.delete(name.as_bytes(), false, Close::Open, &mut |_| Ok(()))?;
        let mut mtr = Mtr::new(&self.pool);
        mtr.drop_space(space);
        mtr.commit(Close::Group)?;
        if is_planted(PlantedBug::SpaceDeletedTooEarly) {
            self.spaces.delete(space)?;
        }
        self.redo.sync_all()?;
        tree.set_dropped();
        self.trees.write().remove(name);
        if underfull {
            let _ = self.catalog.merge_at(name.as_bytes(), Close::Group);
        }
        drop(writer);
        self.events.note(|| Event::TreeDropped { name: name.to_owned() });
        self.pool.discard(space);
        self.wake_jobs();
        // A file that can't be deleted now goes when the database is opened again: nothing names it.
        let _ = self.spaces.delete(space);
        Ok(())
    }

    pub(super) fn make_room_for_definition(self: &Arc<Self>) -> Result<()> {
        self.make_room_for_trees(1)
    }

    pub(super) fn make_room_for_trees(self: &Arc<Self>, count: usize) -> Result<()> {
        self.lock_with_room((12 + 4 * count as u64) * self.pool.page_len() as u64).map(drop)
    }
}
