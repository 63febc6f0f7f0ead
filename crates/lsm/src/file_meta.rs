//! What the engine knows of one table file while some version lists it.

use crate::expiry::{STAMPS_PROPERTY, StampHistogram};
use crate::file_names::FileName;
use crate::key::{InternalKey, InternalKeyComparator, SeqNo};
use crate::sst::TableReader;
use siltstone_base::coding::{get_varint64, put_varint64};
use siltstone_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_base::sync::{Arc, Mutex, OnceLock, Rank, SegQueue};

/// Names of tables, and of the blob files that they refer to, that no version lists any more: what may be deleted, unless deletions are disabled.
pub(crate) type ObsoleteTables = SegQueue<FileName>;

/// Rank of the right to open a table: held while it is read.
const OPENING_RANK: Rank = Rank(920);

/// The custom field of the MANIFEST that says that a collector wants the table to be compacted.
const NEED_COMPACTION: u32 = 2;

/// The custom field of the MANIFEST with the oldest blob file that a table refers to.
const OLDEST_BLOB_FILE: u32 = 4;

/// Custom fields of a MANIFEST entry: the checksum of the whole file, and the name of the function that made it.
const CHECKSUM_FIELD: u32 = 7;
const CHECKSUM_NAME_FIELD: u32 = 8;
/// RocksDB's name of CRC32c over a whole file, stored big-endian.
const CRC32C_NAME: &str = "FileChecksumCrc32c";

/// The custom fields of a file whose CRC32c is `crc`, if it was computed, and that a collector wants to be compacted, or not.
pub(crate) fn other_fields(crc: Option<u32>, needs_compaction: bool) -> Vec<(u32, Vec<u8>)> {
    let mut fields = Vec::new();
    if needs_compaction {
        fields.push((NEED_COMPACTION, vec![1]));
    }
    if let Some(crc) = crc {
        fields.push((CHECKSUM_FIELD, crc.to_be_bytes().to_vec()));
        fields.push((CHECKSUM_NAME_FIELD, CRC32C_NAME.as_bytes().to_vec()));
    }
    fields
}

/// One live table file. Shared by all versions that list it, also after a trivial move: the level is not part of it.
///
/// Invariants: everything but the reader, the flags and what reads have paid is fixed at creation. When the last version that lists the file
/// is dropped and the file was marked obsolete, its number is pushed to the queue of obsolete tables exactly once.
#[derive(Debug)]
pub(crate) struct FileMeta {
    /// File number: `NNNNNN.sst`.
    pub(crate) number: u64,
    /// Exact length in bytes.
    pub(crate) file_size: u64,
    /// Smallest internal key.
    pub(crate) smallest: InternalKey,
    /// Largest internal key.
    pub(crate) largest: InternalKey,
    /// Smallest sequence number.
    pub(crate) smallest_seqno: SeqNo,
    /// Largest sequence number.
    pub(crate) largest_seqno: SeqNo,
    /// Age rank within level 0: larger is newer. 0: unknown.
    pub(crate) epoch_number: u64,
    /// Unix seconds of the oldest flush whose data is in the file. 0: unknown.
    pub(crate) oldest_ancestor_time: u64,
    /// Unix seconds at which the file was written. 0: unknown.
    pub(crate) file_creation_time: u64,
    /// RocksDB's unique id of the file, if known.
    pub(crate) unique_id: Option<[u8; 16]>,
    /// Custom fields of the MANIFEST entry that this engine has no use for, as (tag, value), kept for the next MANIFEST.
    pub(crate) other_fields: Vec<(u32, Vec<u8>)>,
    /// Whether the table has range tombstones, if it was written by this process: the MANIFEST does not say.
    pub(crate) has_ranges: Option<bool>,
    /// The open reader; set once by the table cache.
    pub(crate) reader: OnceLock<Arc<TableReader>>,
    /// Held by who opens it.
    pub(crate) opening: Mutex<()>,
    /// The stamps of its rows, as far as the table says: set once, when that is asked and the reader is open.
    stamps: OnceLock<Option<StampHistogram>>,
    /// Whether a running compaction has the file as input. Changed under the database's state lock.
    pub(crate) being_compacted: AtomicBool,
    /// See [`paid_by_reads`](Self::paid_by_reads).
    pub(crate) read_bytes: AtomicU64,
    /// See [`suggest_compaction`](Self::suggest_compaction).
    is_suggested: AtomicBool,
    obsolete: AtomicBool,
    obsolete_tables: Option<Arc<ObsoleteTables>>,
}

/// What is known of the stamps of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stamps<'a> {
    /// The table was not opened yet.
    Unread,
    /// The table does not say.
    Unknown,
    /// It says what another policy told: nothing of it counts.
    Foreign,
    /// These.
    Known(&'a StampHistogram),
}

/// The fields of a [`FileMeta`] that are fixed at creation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileMetaData {
    pub(crate) number: u64,
    pub(crate) file_size: u64,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
    pub(crate) smallest_seqno: SeqNo,
    pub(crate) largest_seqno: SeqNo,
    pub(crate) epoch_number: u64,
    pub(crate) oldest_ancestor_time: u64,
    pub(crate) file_creation_time: u64,
    pub(crate) unique_id: Option<[u8; 16]>,
    pub(crate) other_fields: Vec<(u32, Vec<u8>)>,
    pub(crate) has_ranges: Option<bool>,
}

impl FileMetaData {
    /// Says which is the oldest blob file that the table refers to.
    pub(crate) fn set_oldest_blob_file(&mut self, number: u64) {
        let mut value = Vec::new();
        put_varint64(&mut value, number);
        self.other_fields.push((OLDEST_BLOB_FILE, value));
    }
}

impl FileMeta {
    /// A live file; its number goes to `obsolete_tables` when it is obsolete and the last version is gone.
    pub(crate) fn new(data: FileMetaData, obsolete_tables: Option<Arc<ObsoleteTables>>) -> Arc<Self> {
        Arc::new(Self {
            number: data.number,
            file_size: data.file_size,
            smallest: data.smallest,
            largest: data.largest,
            smallest_seqno: data.smallest_seqno,
            largest_seqno: data.largest_seqno,
            epoch_number: data.epoch_number,
            oldest_ancestor_time: data.oldest_ancestor_time,
            file_creation_time: data.file_creation_time,
            unique_id: data.unique_id,
            other_fields: data.other_fields,
            has_ranges: data.has_ranges,
            reader: OnceLock::new(),
            opening: Mutex::new(OPENING_RANK, ()),
            stamps: OnceLock::new(),
            being_compacted: AtomicBool::new(false),
            read_bytes: AtomicU64::new(0),
            is_suggested: AtomicBool::new(false),
            obsolete: AtomicBool::new(false),
            obsolete_tables,
        })
    }

    /// The fixed fields, for a version edit.
    pub(crate) fn data(&self) -> FileMetaData {
        FileMetaData {
            number: self.number,
            file_size: self.file_size,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
            smallest_seqno: self.smallest_seqno,
            largest_seqno: self.largest_seqno,
            epoch_number: self.epoch_number,
            oldest_ancestor_time: self.oldest_ancestor_time,
            file_creation_time: self.file_creation_time,
            unique_id: self.unique_id,
            other_fields: self.other_fields.clone(),
            has_ranges: self.has_ranges,
        }
    }

    /// Whether the table may have range tombstones: false only if that is known.
    #[inline]
    pub(crate) fn may_have_ranges(&self) -> bool {
        match self.reader.get() {
            Some(reader) => reader.range_fragments().is_some(),
            None => self.has_ranges != Some(false),
        }
    }

    /// What is known of the stamps of its rows, without I/O. The policy of this name told them.
    pub(crate) fn stamps(&self, policy: &str) -> Stamps<'_> {
        if self.stamps.get().is_none() && self.reader.get().is_none() {
            return Stamps::Unread;
        }
        let stamps = self.stamps.get_or_init(|| {
            let properties = self.reader.get()?.properties();
            let histogram = StampHistogram::decode(properties.others.get(STAMPS_PROPERTY.as_bytes())?)?;
            let is_whole = properties.num_range_deletions == 0 && histogram.all().rows == properties.num_entries;
            is_whole.then_some(histogram)
        });
        match stamps {
            Some(stamps) if stamps.policy() == policy => Stamps::Known(stamps),
            Some(_) => Stamps::Foreign,
            None => Stamps::Unknown,
        }
    }

    /// Bytes of entries in it, as far as that is known: of the whole table before it was opened.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.reader.get().map_or(self.file_size, |reader| reader.properties().data_size.min(self.file_size))
    }

    /// Lets the table have these stamps.
    #[cfg(test)]
    pub(crate) fn set_stamps_for_test(&self, stamps: StampHistogram) {
        let _ = self.stamps.set(Some(stamps));
    }

    /// What reads have paid for asking it in vain, in bytes of merging.
    pub(crate) fn paid_by_reads(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Whether `other`, of the same directory at another time, is the same file, to be read the same way.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let identity =
            |file: &Self| (file.number, file.file_size, file.unique_id, file.smallest_seqno, file.largest_seqno);
        self.unique_id.is_some()
            && identity(self) == identity(other)
            && (&self.smallest, &self.largest) == (&other.smallest, &other.largest)
    }

    /// Whether a collector wants the table to be compacted.
    pub(crate) fn needs_compaction(&self) -> bool {
        self.other_fields.iter().any(|(tag, value)| *tag == NEED_COMPACTION && value.first() == Some(&1))
    }

    /// Wants the table to be rewritten when there is time.
    pub(crate) fn suggest_compaction(&self) {
        self.is_suggested.store(true, Ordering::Relaxed);
    }

    /// Whether somebody wants that.
    pub(crate) fn is_compaction_suggested(&self) -> bool {
        self.is_suggested.load(Ordering::Relaxed)
    }

    /// Whether the table ends before `user_key`.
    #[inline]
    pub(crate) fn ends_before(&self, order: &InternalKeyComparator, user_key: &[u8]) -> bool {
        self.largest.ends_before(order, user_key)
    }

    /// The CRC32c of the whole file, if the MANIFEST has it; checksums of other functions are not known.
    pub(crate) fn file_crc(&self) -> Option<u32> {
        let field =
            |wanted| self.other_fields.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| value.as_slice());
        if field(CHECKSUM_NAME_FIELD)? != CRC32C_NAME.as_bytes() {
            return None;
        }
        Some(u32::from_be_bytes(field(CHECKSUM_FIELD)?.try_into().ok()?))
    }

    /// The number of the oldest blob file that the table refers to, if it refers to any.
    pub(crate) fn oldest_blob_file(&self) -> Option<u64> {
        let field = self.other_fields.iter().find(|(tag, _)| *tag == OLDEST_BLOB_FILE);
        field.and_then(|(_, value)| get_varint64(&mut value.as_slice())).filter(|number| *number != 0)
    }

    /// Says that the current version does not list the file any more and that this is durable.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Whether a running compaction has the file as input.
    pub(crate) fn is_being_compacted(&self) -> bool {
        self.being_compacted.load(Ordering::Relaxed)
    }
}

impl Drop for FileMeta {
    fn drop(&mut self) {
        if *self.obsolete.get_mut()
            && let Some(queue) = &self.obsolete_tables
        {
            queue.push(FileName::Table(self.number));
        }
    }
}
