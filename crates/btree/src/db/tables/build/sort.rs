//! Sorting the entries of an index, and building its tree of them.
//!
//! 1. Entries are collected in memory. When they are as many as there may be, they are sorted and written as a tree in a tablespace of its own: a run.
//! 2. All runs are merged at once. If there is none, what is in memory is all there is.
//! 3. The tree of the index is built of the entries in order. In a unique index those of one key come one after the other.
//!
//! A run's entries have values, which the index's do not have: the length of the index key, and the position of the row.

use super::super::super::replace::NewSpace;
use super::super::super::state::State;
use super::super::entry::EntryForm;
use crate::options::PageCompression;
use crate::page;
use crate::tree::{BulkBuilder, BulkOptions, Chunk, Position, Start, Tree};
use siltstone_base::index_spec::IndexSpec;
use siltstone_base::plant::{PlantedBug, is_planted};
use siltstone_base::sync::Arc;
use siltstone_base::text_table::Shown;
use siltstone_base::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

/// The most bytes of entries that are sorted in memory.
const MOST_BYTES: usize = 64 << 20;

/// What an entry takes beside its bytes.
const ENTRY_LEN: usize = size_of::<(Range<usize>, Source)>();

/// Memory for entries grows by one of so many parts of what there may be.
const GROWTH_PARTS: usize = 16;

/// Entries of one run that are read at a time.
const CHUNK: usize = 64;

/// What is known of an entry beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    /// How many of its bytes are the index key.
    key_len: u32,
    /// The position of its row in the order of primary keys, from 0.
    row: u64,
}

impl Source {
    const LEN: usize = 12;

    fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&self.key_len.to_le_bytes());
        bytes[4..].copy_from_slice(&self.row.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (key_len, row) = bytes.split_first_chunk()?;
        Some(Self { key_len: u32::from_le_bytes(*key_len), row: u64::from_le_bytes(row.try_into().ok()?) })
    }
}

/// Entries of a new index.
#[derive(Debug)]
pub(super) struct Sorter<'a, 's> {
    state: &'a Arc<State>,
    spec: &'s IndexSpec,
    form: EntryForm,
    /// The index in words.
    name: String,
    /// Bytes of entries, and where each is.
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, Source)>,
    most_bytes: usize,
    /// Rows so far.
    rows: u64,
    runs: Vec<NewSpace<'a>>,
}

impl<'a, 's> Sorter<'a, 's> {
    pub(super) fn new(state: &'a Arc<State>, table: &str, spec: &'s IndexSpec) -> Self {
        let most_bytes = (state.pool.frames() * state.pool.page_len() / 8).min(MOST_BYTES);
        let name = format!("index {} of table {table}", spec.name);
        let form = EntryForm::of(spec);
        Self { state, spec, form, name, bytes: Vec::new(), entries: Vec::new(), most_bytes, rows: 0, runs: Vec::new() }
    }

    /// Adds the entry of a row, if it has one. Rows come in the order of their primary keys.
    pub(super) fn add(&mut self, primary_key: &[u8], value: &[u8]) -> Result<()> {
        self.make_room();
        let (start, row) = (self.bytes.len(), self.rows);
        let added = self.form.put(self.spec, primary_key, value, &mut self.bytes);
        let key_len = added.map_err(|error| self.at_row(row, error))?;
        let entry = start..self.bytes.len();
        if row == 0 {
            let mut again = Vec::new();
            let again_len = self.form.put(self.spec, primary_key, value, &mut again)?;
            if again_len != key_len || self.bytes.get(entry.clone()) != Some(&again[..]) {
                return Err(self.spec.unstable());
            }
        }
        self.rows += 1;
        let Some(key_len) = key_len else { return Ok(()) };
        if entry.len() > page::max_key_len(self.state.pool.page_len()) {
            let error = Error::new(ErrorKind::LimitExceeded, "an entry takes no more than an eighth of a page");
            return Err(self.at_row(row, error));
        }
        // No longer than a page.
        self.entries.push((entry, Source { key_len: key_len as u32, row }));
        if self.bytes.len() + self.entries.len() * ENTRY_LEN >= self.most_bytes {
            self.write_run()?;
        }
        Ok(())
    }

    /// Has room for one entry more. It grows by a small part of what there may be, not to twice as much: else half of what it takes would be empty.
    fn make_room(&mut self) {
        let part = self.most_bytes / GROWTH_PARTS;
        let page_len = self.state.pool.page_len();
        if self.bytes.capacity() - self.bytes.len() < page_len {
            self.bytes.reserve_exact(part.max(page_len));
        }
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact((part / ENTRY_LEN).max(1));
        }
    }

    #[cold]
    fn at_row(&self, row: u64, error: Error) -> Error {
        let message = format!("{}: row {row}, in the order of primary keys from 0", self.name);
        Error::new(error.kind(), message).with_source(error)
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let of = |at: &Range<usize>| bytes.get(at.clone()).unwrap_or_default();
        self.entries.sort_unstable_by(|(one, _), (other, _)| of(one).cmp(of(other)));
    }

    /// Hands what is in memory over in order.
    fn each(&self, mut found: impl FnMut(&[u8], Source) -> Result<()>) -> Result<()> {
        self.entries.iter().try_for_each(|(at, source)| found(self.bytes.get(at.clone()).unwrap_or_default(), *source))
    }

    /// A tablespace that nothing leads to, and what its pages are like.
    fn new_space(&self, compression: PageCompression, fill_percent: usize) -> Result<(NewSpace<'a>, BulkOptions)> {
        let state = self.state;
        state.make_room_for_definition()?;
        let _writer = state.writer.lock();
        state.check_open()?;
        state.health.check()?;
        let space = NewSpace::create(state, compression)?;
        Ok((space, BulkOptions { fill_percent, max_value_len: Source::LEN, lsn: state.redo.closed().lsn() }))
    }

    #[cold]
    fn write_run(&mut self) -> Result<()> {
        self.sort();
        let (space, options) = self.new_space(PageCompression::None, 100)?;
        let mut builder = BulkBuilder::new(&self.state.spaces, space.number(), options)?;
        self.each(|entry, source| self.push(&mut builder, entry, &source.encode()))?;
        builder.finish()?;
        self.runs.push(space);
        self.bytes.clear();
        self.entries.clear();
        Ok(())
    }

    /// Builds the tree of the index, and makes it durable. Returns its tablespace, and the number of entries.
    pub(super) fn finish(mut self) -> Result<(NewSpace<'a>, u64)> {
        match self.runs.is_empty() {
            true => self.sort(),
            false if self.entries.is_empty() => {}
            false => self.write_run()?,
        }
        let state = self.state;
        let (space, options) = self.new_space(state.page_compression, state.bulk_fill_percent)?;
        let mut builder = BulkBuilder::new(&state.spaces, space.number(), options)?;
        let mut last = None;
        let mut add = |entry: &[u8], source: Source| {
            if self.spec.unique {
                self.check_unique(&mut last, entry, source)?;
            }
            self.push(&mut builder, entry, &[])
        };
        match self.runs.is_empty() {
            true => self.each(add)?,
            false => self.merge(&mut add)?,
        }
        let built = builder.finish()?;
        if !is_planted(PlantedBug::LoadIsNotSynced) {
            state.spaces.sync_filled(space.number())?;
        }
        Ok((space, built.rows))
    }

    /// Adds an entry behind all others. Only the same one once more is not behind them.
    fn push(&self, builder: &mut BulkBuilder<'_>, entry: &[u8], value: &[u8]) -> Result<()> {
        builder.push(entry, value).map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => {
                Error::invalid_argument(format!("{}: its extractor yields one entry for two rows", self.name))
            }
            _ => error,
        })
    }

    /// Refuses an index key that the entry before has, and takes note of it.
    fn check_unique(&self, last: &mut Option<Vec<u8>>, entry: &[u8], source: Source) -> Result<()> {
        let key = entry.get(..source.key_len as usize).unwrap_or_default();
        if last.as_deref() == Some(key) && !is_planted(PlantedBug::UniqueIsNotChecked) {
            let error = Error::new(ErrorKind::AlreadyExists, format!("another row has the same key {}", Shown(key)));
            return Err(self.at_row(source.row, error));
        }
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Hands the entries of all runs over in order.
    fn merge(&self, found: &mut dyn FnMut(&[u8], Source) -> Result<()>) -> Result<()> {
        let mut heads = BinaryHeap::with_capacity(self.runs.len());
        for space in &self.runs {
            let mut head = Head::new(Tree::new(space.number(), Arc::clone(&self.state.pool)));
            if head.advance()? {
                heads.push(head);
            }
        }
        let mut merged = 0_u64;
        while let Some(mut head) = heads.peek_mut() {
            if merged.is_multiple_of(CHUNK as u64) {
                self.state.check_open()?;
            }
            merged += 1;
            found(&head.entry, head.source)?;
            if !head.advance()? {
                PeekMut::pop(head);
            }
        }
        Ok(())
    }
}

/// The first entry of a run that was not handed over. The one with the least entry is the greatest: the first of a heap.
#[derive(Debug)]
struct Head {
    tree: Tree,
    position: Position,
    chunk: Chunk,
    next: usize,
    entry: Vec<u8>,
    source: Source,
}

impl Head {
    /// Before the first entry of a run.
    fn new(tree: Tree) -> Self {
        let source = Source { key_len: 0, row: 0 };
        Self { tree, position: Position::default(), chunk: Chunk::default(), next: 0, entry: Vec::new(), source }
    }

    /// Goes to the next entry. Returns whether there is one.
    fn advance(&mut self) -> Result<bool> {
        if self.next >= self.chunk.len() {
            let start = if self.entry.is_empty() { Start::End } else { Start::Beyond(&self.entry) };
            self.tree.read_chunk(start, true, &mut self.position, CHUNK, &mut self.chunk)?;
            self.next = 0;
        }
        let Some((entry, source)) = self.chunk.get(self.next) else { return Ok(false) };
        let source = Source::decode(source);
        self.source = source.ok_or_else(|| {
            let path = self.tree.pool().spaces.path(self.tree.space());
            Error::corrupt("a run of a new index holds what is no entry").with_file(&path)
        })?;
        self.entry.clear();
        self.entry.extend_from_slice(entry);
        self.next += 1;
        Ok(true)
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.entry.cmp(&self.entry)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.entry == other.entry
    }
}

impl Eq for Head {}
