//! Sorted runs: the changes that left memory together, those of each family in a table of its own. All tables are in one file, so that a transaction of very many families has few files open.
//!
//! The file has a name that the next opening of the database removes. Entries keep the numbers that they had in memory.

use super::section::{ReadSection, SharedFile};
use crate::db::{Db, MakingFiles};
use crate::holders::Holder;
use crate::iterator::InternalIterator;
use crate::key::{InternalKeyComparator, SeqNo};
use crate::options::{CompressionType, IndexType, TableOptions};
use crate::sst::{DictionaryOptions, TableBuilder, TableBuilderOptions, TableReader, WriteBack, encode_session_id};
use siltstone_base::env::{FileKind, FileOptions, IoPriority};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes of a data block: runs are written and merged more often than they are searched.
const BLOCK_BYTES: usize = 16 << 10;

/// Filters let reads of other keys pass by.
const BLOOM_BITS_PER_KEY: f64 = 10.0;

/// A run. Its file goes with the last one in it; who reads it meanwhile keeps the file open.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) table: Arc<TableReader>,
    /// The number of its oldest entry.
    pub(super) oldest: SeqNo,
    _file: Arc<RunFile>,
}

impl Run {
    /// The length of its part of the file in bytes.
    pub(super) fn file_size(&self) -> u64 {
        self.table.fetcher().file_size
    }
}

/// A file that is removed once nobody needs its name.
#[derive(Debug)]
struct RunFile {
    db: Db,
    path: PathBuf,
}

impl Drop for RunFile {
    fn drop(&mut self) {
        // After closing, the name may be that of somebody else's file. What is left is removed when the database is opened.
        if let Ok(_making) = self.db.make_files() {
            self.db.remove_temporary(&self.path);
        }
    }
}

/// A run that was written, and cannot be read yet.
#[derive(Debug)]
struct Written {
    family: u32,
    order: InternalKeyComparator,
    oldest: SeqNo,
    /// Where it is in the file.
    range: Range<u64>,
}

/// Writes the runs of one file, one after the other.
#[derive(Debug)]
pub(super) struct RunsWriter {
    shared: SharedFile,
    written: Vec<Written>,
    file: RunFile,
    /// Closing waits until the runs are written.
    _making: MakingFiles,
}

impl RunsWriter {
    /// Begins a file.
    pub(super) fn create(db: &Db) -> Result<Self> {
        let making = db.make_files()?;
        let path = db.temporary_path();
        let direct = db.options().use_direct_io_for_flush_and_compaction;
        let created = db.env().create_append(&path, &FileOptions::new(FileKind::Table).direct(direct));
        let created = created.map_err(|error| Error::io("create", &path, error))?;
        let file = RunFile { db: db.clone(), path };
        Ok(Self { shared: SharedFile::new(created), written: Vec::new(), file, _making: making })
    }

    /// Begins the run of a family with this order.
    pub(super) fn begin(&self, family: u32, order: &InternalKeyComparator) -> Result<RunWriter> {
        let section = self.shared.section();
        let begin = section.begin();
        let mut builder = TableBuilder::new(Box::new(section), self.file.path.clone(), layout(&self.file.db, order))?;
        builder.count_memory(self.file.db.holders().charge(Holder::Jobs));
        Ok(RunWriter { builder, family, order: order.clone(), begin, db: self.file.db.clone() })
    }

    /// Ends a run; one in which there is nothing is none.
    pub(super) fn end(&mut self, run: RunWriter) -> Result<()> {
        let RunWriter { builder, family, order, begin, .. } = run;
        if builder.num_entries() > 0 {
            let table = builder.finish()?;
            let range = begin..begin + table.file_size;
            self.written.push(Written { family, order, oldest: table.smallest_seqno, range });
        }
        Ok(())
    }

    /// Ends the file and opens all runs, by family.
    pub(super) fn finish(self) -> Result<BTreeMap<u32, Run>> {
        let Self { shared, written, file, _making } = self;
        shared.finish().map_err(|error| Error::io("close", &file.path, error))?;
        if written.is_empty() {
            return Ok(BTreeMap::new());
        }
        let options = FileOptions::new(FileKind::Table).direct(file.db.options().use_direct_reads);
        let opened = file.db.env().open_random(&file.path, &options);
        let opened = opened.map_err(|error| Error::io("open", &file.path, error))?;
        let file = Arc::new(file);
        let open = |run: Written| {
            let len = run.range.end - run.range.start;
            let section = Arc::new(ReadSection::new(&opened, run.range));
            let table = TableReader::open(section, file.path.clone(), len, &file.db.reader_options(run.order))?;
            Ok((run.family, Run { table: Arc::new(table), oldest: run.oldest, _file: Arc::clone(&file) }))
        };
        written.into_iter().map(open).collect()
    }
}

/// Writes one run.
#[derive(Debug)]
pub(super) struct RunWriter {
    builder: TableBuilder,
    family: u32,
    order: InternalKeyComparator,
    /// Where it begins in the file.
    begin: u64,
    db: Db,
}

impl RunWriter {
    /// Adds an entry behind all others.
    ///
    /// # Errors
    ///
    /// Errors of I/O, and `Aborted` if the database is being closed: that waits for the run.
    pub(super) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        self.db.check_open()?;
        self.builder.add(internal_key, value)
    }

    /// Adds all entries of `source`.
    pub(super) fn add_all(&mut self, source: &mut impl InternalIterator) -> Result<()> {
        source.seek_to_first();
        while source.valid() {
            self.add(source.key(), source.value())?;
            source.next();
        }
        source.status()
    }
}

/// How a run is laid out.
fn layout(db: &Db, order: &InternalKeyComparator) -> TableBuilderOptions {
    let options = db.options();
    let table = TableOptions::default()
        .block_size(BLOCK_BYTES)
        .index_type(IndexType::TwoLevel)
        .partition_filters(true)
        .bloom_bits_per_key(BLOOM_BITS_PER_KEY);
    TableBuilderOptions {
        comparator: order.clone(),
        table,
        merge_operator: String::new(),
        prefix_extractor: None,
        compression: CompressionType::Lz4,
        zstd_level: 0,
        dictionary: DictionaryOptions { max_bytes: 0, train_bytes: 0, buffer_bytes: 0 },
        collectors: Vec::new(),
        expiry: None,
        file_checksum: false,
        level: -1,
        column_family_id: 0,
        column_family_name: String::new(),
        db_id: String::new(),
        session_id: encode_session_id(0, 1),
        file_number: 0,
        creation_time: 0,
        oldest_key_time: 0,
        newest_key_time: 0,
        host_id: String::new(),
        file_creation_time: 0,
        priority: IoPriority::User,
        write_back: WriteBack { bytes: options.bytes_per_sync, strict: options.strict_bytes_per_sync },
        metrics: Some(db.shared_metrics()),
        sync_kind: crate::metrics::HistogramKind::TableSync,
    }
}
