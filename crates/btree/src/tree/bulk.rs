//! Building a whole tree from rows in order: leaves from left to right, each level above from the pages that it has below.
//!
//! Pages are written to their places as they fill up, without the pool and without the redo log: nothing leads to the tablespace yet. Each level has one page in memory. When a page is
//! full its successor gets a number, so that it can be linked, and the level above a separator. The last page of the highest level is the root.

use super::cursor::Chunk;
use super::overflow::{TOO_LONG, Value};
use crate::page::{
    self, CELL_HEADER_LEN, Cell, FLAG_OVERFLOW, HEADER_LEN, Header, Lsn, OverflowRef, PageCompressor, PageId, PageKind,
    PageMut, SLOT_LEN, TRAILER_LEN, shortest_separator,
};
use crate::space::{SpaceHeader, Spaces, bitmap_of};
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::env::{DIRECT_ALIGNMENT, IoPriority};
use siltstone_base::{Error, ErrorKind, Result};

/// What was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Built {
    pub(crate) rows: u64,
    pub(crate) leaf_pages: u64,
    pub(crate) inner_pages: u64,
    pub(crate) overflow_pages: u64,
}

/// What the pages are like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BulkOptions {
    /// Percentage of a page that is filled.
    pub(crate) fill_percent: usize,
    /// Bytes of the longest value.
    pub(crate) max_value_len: usize,
    /// What the pages state as their last change: a place that the log has passed.
    pub(crate) lsn: Lsn,
}

/// One level, and its page that is being filled.
#[derive(Debug, Default)]
struct Level {
    /// The number of the page; the first one gets its own when it has a successor.
    number: Option<u32>,
    left: u32,
    /// The separator before the page.
    low: Vec<u8>,
    cells: Chunk,
    used: usize,
}

/// A tree that is being built in a tablespace that nothing leads to.
#[derive(Debug)]
pub(crate) struct BulkBuilder<'a> {
    spaces: &'a Spaces,
    space: u32,
    options: BulkOptions,
    /// Bytes of cells and slots from which on a page is full.
    full: usize,
    header: SpaceHeader,
    levels: Vec<Level>,
    last_key: Vec<u8>,
    /// Memory for one page that direct I/O accepts.
    page: PooledBuf,
    /// For a tablespace whose pages are compressed, with memory for the form that is stored.
    compressor: Option<(PageCompressor, PooledBuf)>,
    built: Built,
}

impl<'a> BulkBuilder<'a> {
    pub(crate) fn new(spaces: &'a Spaces, space: u32, options: BulkOptions) -> Result<Self> {
        spaces.begin_filling(space)?;
        let page_len = spaces.page_len();
        let memory = || BlockPool::new(0).alloc_aligned(page_len, DIRECT_ALIGNMENT);
        let compression = spaces.compression(space);
        Ok(Self {
            spaces,
            space,
            options,
            full: (page_len - HEADER_LEN - TRAILER_LEN) * options.fill_percent / 100,
            header: SpaceHeader { compression, ..SpaceHeader::new(0) },
            levels: Vec::new(),
            last_key: Vec::new(),
            page: memory(),
            compressor: PageCompressor::new(compression)?.map(|compressor| (compressor, memory())),
            built: Built::default(),
        })
    }

    /// Adds a row behind all others.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let page_len = self.spaces.page_len();
        if key.len() > page::max_key_len(page_len) {
            return Err(Error::new(ErrorKind::LimitExceeded, "a key takes no more than an eighth of a page"));
        }
        if self.built.rows > 0 && key <= self.last_key.as_slice() {
            let row = self.built.rows;
            return Err(Error::invalid_argument(format!("row {row} is not behind the row before it, by its key")));
        }
        if value.len() <= page::max_inline_len(page_len, key.len()) {
            self.add(0, 0, key, value)?;
        } else if value.len() > self.options.max_value_len {
            return Err(Error::new(ErrorKind::LimitExceeded, TOO_LONG));
        } else {
            let reference = self.write_long(value)?.encode();
            let long = Value::new(FLAG_OVERFLOW, &reference);
            self.add(0, long.flags, key, long.bytes)?;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.built.rows += 1;
        Ok(())
    }

    /// Writes what is left, and page 0. The tablespace must be synced before anything leads to it.
    pub(crate) fn finish(mut self) -> Result<Built> {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let mut level = 0;
        while level + 1 < self.levels.len() {
            let number = self.levels[level].number;
            let number = number.ok_or_else(|| Error::corrupt("a level with a parent has one page"))?;
            self.write_level(level, number, 0)?;
            let low = std::mem::take(&mut self.levels[level].low);
            self.add(level + 1, 0, &low, &number.to_le_bytes())?;
            level += 1;
        }
        self.write_level(level, SpaceHeader::ROOT, 0)?;
        self.write_bitmap(bitmap_of(0, self.spaces.page_len()))?;
        let mut front = vec![0; self.spaces.page_len()];
        Header::empty(PageKind::Space, 0, front.len()).write(front.as_mut_slice());
        let header = self.header.encode();
        let made = SpaceHeader::change(&header).apply(front.as_mut_slice());
        made.map_err(|_| Error::invalid_argument("page_size is too small for a tablespace"))?;
        self.write(0, &front)?;
        Ok(self.built)
    }

    /// Adds a cell to the last page of a level.
    fn add(&mut self, level: usize, flags: u8, key: &[u8], value: &[u8]) -> Result<()> {
        if level == self.levels.len() {
            self.levels.push(Level::default());
        }
        let footprint = SLOT_LEN + CELL_HEADER_LEN + key.len() + value.len();
        // An inner page with one child would need as many above it.
        let least = if level == 0 { 1 } else { 2 };
        let last = &self.levels[level];
        if last.cells.len() >= least && last.used + footprint > self.full {
            self.turn_page(level, key)?;
        }
        let last = &mut self.levels[level];
        last.cells.push_cell(flags, key, value);
        last.used += footprint;
        Ok(())
    }

    /// Writes the page of a level that is full, and begins the next one, whose first key is `key`.
    fn turn_page(&mut self, level: usize, key: &[u8]) -> Result<()> {
        let number = match self.levels[level].number {
            Some(number) => number,
            None => self.grow()?,
        };
        let next = self.grow()?;
        self.write_level(level, number, next)?;
        let last = &mut self.levels[level];
        let separator = match last.cells.len().checked_sub(1).and_then(|index| last.cells.get(index)) {
            Some((before, _)) if level == 0 => shortest_separator(before, key).to_vec(),
            _ => key.to_vec(),
        };
        let low = std::mem::replace(&mut last.low, separator);
        (last.number, last.left, last.used) = (Some(next), number, 0);
        last.cells.clear();
        self.add(level + 1, 0, &low, &number.to_le_bytes())
    }

    fn write_level(&mut self, level: usize, number: u32, right: u32) -> Result<()> {
        let height = u8::try_from(level);
        let height = height.map_err(|_| Error::new(ErrorKind::LimitExceeded, "a tree has no more than 255 levels"))?;
        let kind = if level == 0 { PageKind::Leaf } else { PageKind::Inner };
        let last = &self.levels[level];
        let header = Header { left: last.left, right, ..Header::empty(kind, height, self.spaces.page_len()) };
        let cells = (0..last.cells.len()).filter_map(|index| {
            let (key, value) = last.cells.get(index)?;
            Some(Cell { flags: last.cells.flags(index), key, value })
        });
        let built = page::build(self.spaces.page_len(), &header, cells);
        let built = built.ok_or_else(|| Error::corrupt("the rows of a page do not fit into it"))?;
        match kind {
            PageKind::Leaf => self.built.leaf_pages += 1,
            _ => self.built.inner_pages += 1,
        }
        self.write(number, &built)
    }

    /// Writes the pages of a long value.
    fn write_long(&mut self, value: &[u8]) -> Result<OverflowRef> {
        let page_len = self.spaces.page_len();
        let payload = page_len - HEADER_LEN - TRAILER_LEN;
        let first = self.grow()?;
        let mut number = first;
        let mut parts = value.chunks(payload).peekable();
        while let Some(part) = parts.next() {
            let right = if parts.peek().is_some() { self.grow()? } else { 0 };
            let mut bytes = vec![0; page_len];
            let header = Header::empty(PageKind::Overflow, 0, page_len);
            Header { heap: (HEADER_LEN + part.len()) as u16, right, ..header }.write(bytes.as_mut_slice());
            bytes.as_mut_slice().write(HEADER_LEN, part);
            self.write(number, &bytes)?;
            self.built.overflow_pages += 1;
            if right == 0 {
                break;
            }
            number = right;
        }
        Ok(OverflowRef { len: value.len() as u32, first, last: number })
    }

    fn grow(&mut self) -> Result<u32> {
        let grown = self.header.grow(self.spaces.page_len());
        let too_many = || Error::new(ErrorKind::LimitExceeded, "a tablespace has no more than 2^32 pages");
        let (number, bitmap) = grown.ok_or_else(too_many)?;
        if let Some(bitmap) = bitmap {
            self.write_bitmap(bitmap)?;
        }
        Ok(number)
    }

    /// Writes a bitmap that says nothing of its pages.
    fn write_bitmap(&mut self, number: u32) -> Result<()> {
        let mut bytes = vec![0; self.spaces.page_len()];
        Header::empty(PageKind::Bitmap, 0, bytes.len()).write(bytes.as_mut_slice());
        self.write(number, &bytes)
    }

    fn write(&mut self, number: u32, bytes: &[u8]) -> Result<()> {
        let id = PageId::new(self.space, number);
        self.page.copy_from_slice(bytes);
        if let Some((compressor, stored)) = &mut self.compressor
            && let Some(len) = compressor.compress(&mut self.page, id, self.options.lsn, stored)?
        {
            return self.spaces.write_compressed(id, &stored[..len], IoPriority::User);
        }
        page::seal(&mut self.page, id, self.options.lsn);
        self.spaces.write(id, &self.page, IoPriority::User)
    }
}
