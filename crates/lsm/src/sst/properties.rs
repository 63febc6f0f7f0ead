//! The properties block of a table: what RocksDB and its tools need to know of a file.

use super::block::for_each_entry;
use super::block_builder::BlockBuilder;
use super::unique_id::unique_id;
use crate::options::CompressionType;
use siltstone_base::coding::{get_varint64, put_varint64};
use siltstone_base::{Error, Result};
use std::collections::BTreeMap;

/// What every name of RocksDB's properties begins with.
const PREFIX: &str = "rocksdb.";

/// The name of the merge operator of a family that has none.
const NO_OPERATOR: &str = "nullptr";

/// Types of indexes: the value of `rocksdb.block.based.table.index.type`.
pub(crate) mod index_type {
    /// One index block, searched by bisection.
    pub(crate) const BINARY_SEARCH: u32 = 0;
    /// The same with a hash of prefixes beside it.
    pub(crate) const HASH_SEARCH: u32 = 1;
    /// An index of index blocks.
    pub(crate) const TWO_LEVEL: u32 = 2;
    /// One index block with the first key of each data block.
    pub(crate) const BINARY_SEARCH_WITH_FIRST_KEY: u32 = 3;
}

/// Properties of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableProperties {
    /// File offset behind the last data block.
    pub(crate) data_size: u64,
    /// Uncompressed bytes of the index block and its trailer.
    pub(crate) index_size: u64,
    /// Partitions of a two-level index; 0 for others.
    pub(crate) index_partitions: u64,
    /// Uncompressed bytes of the block above the partitions; 0 without partitions.
    pub(crate) top_level_index_size: u64,
    /// Bytes of the filter.
    pub(crate) filter_size: u64,
    /// Bytes of all internal keys.
    pub(crate) raw_key_size: u64,
    /// Bytes of all values.
    pub(crate) raw_value_size: u64,
    pub(crate) num_data_blocks: u64,
    pub(crate) num_entries: u64,
    /// User keys in the filter.
    pub(crate) num_filter_entries: u64,
    /// Tombstones of all kinds.
    pub(crate) num_deletions: u64,
    pub(crate) num_merge_operands: u64,
    pub(crate) num_range_deletions: u64,
    /// Whether separators of the index are user keys.
    pub(crate) index_key_is_user_key: bool,
    /// Whether values of the index are delta-encoded.
    pub(crate) index_value_is_delta_encoded: bool,
    /// One of [`index_type`].
    pub(crate) index_type: u32,
    pub(crate) whole_key_filtering: bool,
    /// Whether the filter has prefixes.
    pub(crate) prefix_filtering: bool,
    /// Name of the extractor of these prefixes; empty if there was none.
    pub(crate) prefix_extractor: String,
    pub(crate) column_family_id: u64,
    pub(crate) column_family_name: String,
    /// Name of the comparator.
    pub(crate) comparator: String,
    /// Name of the merge operator; empty if none was set.
    pub(crate) merge_operator: String,
    /// Name of the codec.
    pub(crate) compression: String,
    /// The codec's options as text.
    pub(crate) compression_options: String,
    /// Name of the filter policy; empty without a filter.
    pub(crate) filter_policy: String,
    /// Unix seconds of the oldest data's flush. 0: unknown.
    pub(crate) creation_time: u64,
    /// Unix seconds of the oldest key. 0: unknown.
    pub(crate) oldest_key_time: u64,
    /// Unix seconds of the newest key, or a time after it. 0: unknown.
    pub(crate) newest_key_time: u64,
    /// Unix seconds at which the file was written. 0: unknown.
    pub(crate) file_creation_time: u64,
    /// The version of the footer; 0 in tables of RocksDB before 11.
    pub(crate) format_version: u64,
    /// Data blocks that no codec made small enough.
    pub(crate) num_blocks_rejected: u64,
    /// Data blocks that were given to no codec.
    pub(crate) num_blocks_bypassed: u64,
    /// File number that the table was created with.
    pub(crate) original_file_number: u64,
    /// Id of the database that created the table.
    pub(crate) db_id: String,
    /// Id of the session that created the table.
    pub(crate) session_id: String,
    /// Id of the machine that created the table.
    pub(crate) host_id: String,
    /// File offset of the first byte that is not of a data block. 0: unknown.
    pub(crate) tail_start_offset: u64,
    /// Names of those who collected properties, as a list in brackets.
    pub(crate) collectors: String,
    /// Entries of data blocks between two full keys. 0: unknown.
    pub(crate) data_block_restart_interval: u64,
    /// The same for index blocks. 0: unknown.
    pub(crate) index_block_restart_interval: u64,
    /// Smallest sequence number.
    pub(crate) smallest_seqno: Option<u64>,
    /// Largest sequence number.
    pub(crate) largest_seqno: Option<u64>,
    /// Version of an external file, written outside of a database; `None` for files that a database wrote.
    pub(crate) external_version: Option<u32>,
    /// Sequence number of all entries of an external file; 0 if only the MANIFEST has it.
    pub(crate) global_seqno: Option<u64>,
    /// Properties that this engine gives no meaning to, names and values.
    pub(crate) others: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for TableProperties {
    fn default() -> Self {
        Self {
            data_size: 0,
            index_size: 0,
            index_partitions: 0,
            top_level_index_size: 0,
            filter_size: 0,
            raw_key_size: 0,
            raw_value_size: 0,
            num_data_blocks: 0,
            num_entries: 0,
            num_filter_entries: 0,
            num_deletions: 0,
            num_merge_operands: 0,
            num_range_deletions: 0,
            index_key_is_user_key: false,
            index_value_is_delta_encoded: false,
            index_type: index_type::BINARY_SEARCH,
            // RocksDB takes an absent property for the default of its option.
            whole_key_filtering: true,
            prefix_filtering: false,
            prefix_extractor: String::new(),
            column_family_id: u64::from(i32::MAX as u32),
            column_family_name: String::new(),
            comparator: String::new(),
            merge_operator: String::new(),
            compression: String::new(),
            compression_options: String::new(),
            filter_policy: String::new(),
            creation_time: 0,
            oldest_key_time: 0,
            newest_key_time: 0,
            file_creation_time: 0,
            format_version: 0,
            num_blocks_rejected: 0,
            num_blocks_bypassed: 0,
            original_file_number: 0,
            db_id: String::new(),
            session_id: String::new(),
            host_id: String::new(),
            tail_start_offset: 0,
            collectors: "[]".to_owned(),
            data_block_restart_interval: 0,
            index_block_restart_interval: 0,
            smallest_seqno: None,
            largest_seqno: None,
            external_version: None,
            global_seqno: None,
            others: BTreeMap::new(),
        }
    }
}

impl TableProperties {
    /// Whether range tombstones are among the entries that the table counts, and it says how many they are: as of RocksDB 6.0. Who names a session is of a later release.
    pub(crate) fn counts_ranges(&self) -> bool {
        !self.session_id.is_empty()
    }

    /// How many entries the table has at least and at most, but for its range tombstones. 5.15 to 5.18 did not count those among the entries, and earlier releases do not say how many there
    /// are: of such a table there are `ranges`.
    pub(crate) fn point_entries(&self, ranges: u64) -> (u64, u64) {
        let least = self.num_entries.saturating_sub(self.num_range_deletions.max(ranges));
        (least, if ranges > 0 { self.num_entries } else { least })
    }

    /// RocksDB's unique id of the table, if what it is made from is known.
    pub(crate) fn unique_id(&self) -> Option<[u8; 16]> {
        unique_id(&self.db_id, &self.session_id, self.original_file_number)
    }

    /// Properties whose names are not RocksDB's.
    pub(crate) fn collected(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let own = |name: &[u8]| name.starts_with(PREFIX.as_bytes());
        self.others.iter().filter(|(name, _)| !own(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Encodes the block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut sorted = self.others.clone();
        let mut put = |name: &str, value: Vec<u8>| {
            sorted.insert(format!("{PREFIX}{name}").into_bytes(), value);
        };
        for (name, value) in self.numbers() {
            let mut bytes = Vec::new();
            put_varint64(&mut bytes, value);
            put(name, bytes);
        }
        let two_level = self.index_partitions > 0;
        let optional = [
            ("index.partitions", two_level.then_some(self.index_partitions)),
            ("top-level.index.size", two_level.then_some(self.top_level_index_size)),
            ("data.block.restart.interval", Some(self.data_block_restart_interval).filter(|interval| *interval > 0)),
            ("index.block.restart.interval", Some(self.index_block_restart_interval).filter(|interval| *interval > 0)),
            ("num.data.blocks.compression.rejected", Some(self.num_blocks_rejected).filter(|blocks| *blocks > 0)),
            ("num.data.blocks.compression.bypassed", Some(self.num_blocks_bypassed).filter(|blocks| *blocks > 0)),
            ("key.smallest.seqno", self.smallest_seqno),
            ("key.largest.seqno", self.largest_seqno),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                let mut bytes = Vec::new();
                put_varint64(&mut bytes, value);
                put(name, bytes);
            }
        }
        for (name, value) in self.texts() {
            put(name, value.as_bytes().to_vec());
        }
        put("block.based.table.index.type", self.index_type.to_le_bytes().to_vec());
        put("block.based.table.whole.key.filtering", flag(self.whole_key_filtering));
        if let Some(version) = self.external_version {
            put("external_sst_file.version", version.to_le_bytes().to_vec());
        }
        if let Some(seqno) = self.global_seqno {
            put("external_sst_file.global_seqno", seqno.to_le_bytes().to_vec());
        }
        put("block.based.table.prefix.filtering", flag(self.prefix_filtering));
        put("block.based.table.decoupled.partitioned.filters", flag(true));
        let mut block = BlockBuilder::new(usize::MAX);
        for (name, value) in &sorted {
            block.add(name, value);
        }
        block.finish().to_vec()
    }

    fn numbers(&self) -> [(&'static str, u64); 23] {
        [
            ("data.size", self.data_size),
            ("index.size", self.index_size),
            ("filter.size", self.filter_size),
            ("raw.key.size", self.raw_key_size),
            ("raw.value.size", self.raw_value_size),
            ("num.data.blocks", self.num_data_blocks),
            ("num.entries", self.num_entries),
            ("num.filter_entries", self.num_filter_entries),
            ("deleted.keys", self.num_deletions),
            ("merge.operands", self.num_merge_operands),
            ("num.range-deletions", self.num_range_deletions),
            ("index.key.is.user.key", u64::from(self.index_key_is_user_key)),
            ("index.value.is.delta.encoded", u64::from(self.index_value_is_delta_encoded)),
            ("column.family.id", self.column_family_id),
            ("creation.time", self.creation_time),
            ("oldest.key.time", self.oldest_key_time),
            ("newest.key.time", self.newest_key_time),
            ("file.creation.time", self.file_creation_time),
            ("original.file.number", self.original_file_number),
            ("tail.start.offset", self.tail_start_offset),
            ("format.version", self.format_version),
            ("fixed.key.length", 0),
            // Hints for searching an index, which this engine does not write.
            ("num.uniform.blocks", 0),
        ]
    }

    fn texts(&self) -> Vec<(&'static str, &str)> {
        let mut texts = vec![
            ("column.family.name", self.column_family_name.as_str()),
            ("comparator", &self.comparator),
            ("compression", &self.compression),
            ("compression_options", &self.compression_options),
            ("merge.operator", if self.merge_operator.is_empty() { NO_OPERATOR } else { &self.merge_operator }),
            ("prefix.extractor.name", or_nullptr(&self.prefix_extractor)),
            ("property.collectors", &self.collectors),
        ];
        let optional = [
            ("filter.policy", self.filter_policy.as_str()),
            ("creating.db.identity", &self.db_id),
            ("creating.session.identity", &self.session_id),
            ("creating.host.identity", &self.host_id),
        ];
        texts.extend(optional.into_iter().filter(|(_, value)| !value.is_empty()));
        texts
    }

    /// Decodes the block. Unknown properties are kept; malformed ones of those that reading depends on are corruption.
    pub(crate) fn decode(data: &[u8]) -> Result<Self> {
        let mut properties = Self::default();
        for_each_entry(data, |name, value| {
            let known = match name.strip_prefix(PREFIX.as_bytes()).map(std::str::from_utf8) {
                Some(Ok(name)) => properties.set(name, value)?,
                _ => false,
            };
            if !known {
                properties.others.insert(name.to_vec(), value.to_vec());
            }
            Ok(())
        })?;
        Ok(properties)
    }

    /// Takes in one property without the prefix of its name; whether it is known.
    fn set(&mut self, name: &str, value: &[u8]) -> Result<bool> {
        let number = |value: &[u8]| {
            get_varint64(&mut &*value).ok_or_else(|| Error::corrupt("malformed number in a table's properties"))
        };
        let fixed32 = |value: &[u8]| match value.first_chunk() {
            Some(word) => Ok(u32::from_le_bytes(*word)),
            None => Err(Error::corrupt("malformed number in a table's properties")),
        };
        let fixed64 = |value: &[u8]| match value.first_chunk() {
            Some(word) => Ok(u64::from_le_bytes(*word)),
            None => Err(Error::corrupt("malformed number in a table's properties")),
        };
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        match name {
            "data.size" => self.data_size = number(value)?,
            "index.size" => self.index_size = number(value)?,
            "property.collectors" => self.collectors = text(value),
            "data.block.restart.interval" => self.data_block_restart_interval = number(value)?,
            "index.block.restart.interval" => self.index_block_restart_interval = number(value)?,
            "key.smallest.seqno" => self.smallest_seqno = Some(number(value)?),
            "key.largest.seqno" => self.largest_seqno = Some(number(value)?),
            "index.partitions" => self.index_partitions = number(value)?,
            "top-level.index.size" => self.top_level_index_size = number(value)?,
            "filter.size" => self.filter_size = number(value)?,
            "raw.key.size" => self.raw_key_size = number(value)?,
            "raw.value.size" => self.raw_value_size = number(value)?,
            "num.data.blocks" => self.num_data_blocks = number(value)?,
            "num.entries" => self.num_entries = number(value)?,
            "num.filter_entries" => self.num_filter_entries = number(value)?,
            "deleted.keys" => self.num_deletions = number(value)?,
            "merge.operands" => self.num_merge_operands = number(value)?,
            "num.range-deletions" => self.num_range_deletions = number(value)?,
            "index.key.is.user.key" => self.index_key_is_user_key = number(value)? != 0,
            "index.value.is.delta.encoded" => self.index_value_is_delta_encoded = number(value)? != 0,
            "column.family.id" => self.column_family_id = number(value)?,
            "creation.time" => self.creation_time = number(value)?,
            "oldest.key.time" => self.oldest_key_time = number(value)?,
            "newest.key.time" => self.newest_key_time = number(value)?,
            "format.version" => self.format_version = number(value)?,
            "num.data.blocks.compression.rejected" => self.num_blocks_rejected = number(value)?,
            "num.data.blocks.compression.bypassed" => self.num_blocks_bypassed = number(value)?,
            "creating.host.identity" => self.host_id = text(value),
            "file.creation.time" => self.file_creation_time = number(value)?,
            "original.file.number" => self.original_file_number = number(value)?,
            "tail.start.offset" => self.tail_start_offset = number(value)?,
            "column.family.name" => self.column_family_name = text(value),
            "comparator" => self.comparator = text(value),
            "merge.operator" if value == NO_OPERATOR.as_bytes() => {}
            "merge.operator" => self.merge_operator = text(value),
            "compression" => self.compression = text(value),
            "compression_options" => self.compression_options = text(value),
            "filter.policy" => self.filter_policy = text(value),
            "creating.db.identity" => self.db_id = text(value),
            "creating.session.identity" => self.session_id = text(value),
            "block.based.table.index.type" => self.index_type = fixed32(value)?,
            "block.based.table.whole.key.filtering" => self.whole_key_filtering = value == b"1",
            "external_sst_file.global_seqno" => self.global_seqno = Some(fixed64(value)?),
            "external_sst_file.version" => self.external_version = Some(fixed32(value)?),
            "block.based.table.prefix.filtering" => self.prefix_filtering = value == b"1",
            "prefix.extractor.name" if value == NULLPTR.as_bytes() => self.prefix_extractor.clear(),
            "prefix.extractor.name" => self.prefix_extractor = text(value),
            // Written anew with constant values.
            "fixed.key.length" | "num.uniform.blocks" => {}
            // Partitions of a filter end where they are full, not where those of the index do.
            "block.based.table.decoupled.partitioned.filters" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What RocksDB writes for a name that is not there.
const NULLPTR: &str = "nullptr";

fn or_nullptr(name: &str) -> &str {
    if name.is_empty() { NULLPTR } else { name }
}

fn flag(value: bool) -> Vec<u8> {
    vec![if value { b'1' } else { b'0' }]
}

/// The first version whose properties name the codecs of all blocks.
const COMPRESSION_MANAGER_VERSION: u32 = 7;

/// The value of the property `rocksdb.compression`. From version 7 on it names who compressed the blocks, and the codecs of
/// all of them.
pub(super) fn compression_property(version: u32, codec: CompressionType, used: u128) -> String {
    if version < COMPRESSION_MANAGER_VERSION {
        return codec.property_name().to_owned();
    }
    let manager = if codec == CompressionType::None { "" } else { "BuiltinV2" };
    let codecs: String = (1..128).filter(|kind| used >> kind & 1 == 1).map(|kind| format!("{kind:02X}")).collect();
    format!("{manager};{codecs};")
}
