//! One sorted run: the changes of one family that left memory together, in a table of their own.
//!
//! The file has a name that the next opening of the database removes. Entries keep the numbers that they had in memory.

use crate::db::{Db, MakingFiles};
use crate::iterator::InternalIterator;
use crate::key::InternalKeyComparator;
use crate::options::{CompressionType, IndexType, TableOptions};
use crate::sst::{DictionaryOptions, TableBuilder, TableBuilderOptions, TableReader, WriteBack, encode_session_id};
use siltstone_base::env::{FileKind, FileOptions, IoPriority};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::path::PathBuf;

/// Bytes of a data block: runs are written and merged more often than they are searched.
const BLOCK_BYTES: usize = 16 << 10;

/// Filters let reads of other keys pass by.
const BLOOM_BITS_PER_KEY: f64 = 10.0;

/// A run. Its file goes with it; who reads it meanwhile keeps the table open.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) table: Arc<TableReader>,
    _file: RunFile,
}

impl Run {
    /// The length of the file in bytes.
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

/// Writes a run.
#[derive(Debug)]
pub(super) struct RunWriter {
    builder: TableBuilder,
    order: InternalKeyComparator,
    file: RunFile,
    /// Closing waits until the run is written.
    _making: MakingFiles,
}

impl RunWriter {
    /// Begins a run of a family with this order.
    pub(super) fn create(db: &Db, order: &InternalKeyComparator) -> Result<Self> {
        let making = db.make_files()?;
        let path = db.temporary_path();
        let options = db.options();
        let direct = options.use_direct_io_for_flush_and_compaction;
        let created = db.env().create_append(&path, &FileOptions::new(FileKind::Table).direct(direct));
        let created = created.map_err(|error| Error::io("create", &path, error))?;
        let file = RunFile { db: db.clone(), path: path.clone() };
        let table = TableOptions::default()
            .block_size(BLOCK_BYTES)
            .index_type(IndexType::TwoLevel)
            .partition_filters(true)
            .bloom_bits_per_key(BLOOM_BITS_PER_KEY);
        let builder = TableBuilder::new(
            created,
            path,
            TableBuilderOptions {
                comparator: order.clone(),
                table,
                merge_operator: String::new(),
                prefix_extractor: None,
                compression: CompressionType::Lz4,
                zstd_level: 0,
                dictionary: DictionaryOptions { max_bytes: 0, train_bytes: 0, buffer_bytes: 0 },
                collectors: Vec::new(),
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
            },
        )?;
        Ok(Self { builder, order: order.clone(), file, _making: making })
    }

    /// Adds an entry behind all others.
    ///
    /// # Errors
    ///
    /// Errors of I/O, and `Aborted` if the database is being closed: that waits for the run.
    pub(super) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        self.file.db.check_open()?;
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

    /// Ends the run and opens it; `None` if nothing is in it.
    pub(super) fn finish(self) -> Result<Option<Run>> {
        let Self { builder, order, file, _making } = self;
        if builder.num_entries() == 0 {
            return Ok(None);
        }
        let len = builder.finish()?.file_size;
        let options = FileOptions::new(FileKind::Table).direct(file.db.options().use_direct_reads);
        let opened = file.db.env().open_random(&file.path, &options);
        let opened = opened.map_err(|error| Error::io("open", &file.path, error))?;
        let table = TableReader::open(opened, file.path.clone(), len, &file.db.reader_options(order))?;
        Ok(Some(Run { table: Arc::new(table), _file: file }))
    }
}
