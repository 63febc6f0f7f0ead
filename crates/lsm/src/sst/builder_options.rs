//! What a table is to be like.

use super::collector::TablePropertiesCollectorFactory;
use super::dictionary_builder::DictionaryOptions;
use super::output::WriteBack;
use crate::key::InternalKeyComparator;
use crate::metrics::{HistogramKind, Metrics};
use crate::options::{CompressionType, TableOptions};
use siltstone_base::env::IoPriority;
use siltstone_base::expiry::ExpiryPolicy;
use siltstone_base::prefix_extractor::PrefixExtractor;
use std::sync::Arc;

/// What a [`TableBuilder`](super::TableBuilder) needs to know.
#[derive(Debug, Clone)]
pub(crate) struct TableBuilderOptions {
    /// The order of keys.
    pub(crate) comparator: InternalKeyComparator,
    /// Layout.
    pub(crate) table: TableOptions,
    /// Name of the family's merge operator; empty if it has none.
    pub(crate) merge_operator: String,
    /// Tells the prefixes that filters have.
    pub(crate) prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// Codec of data and index blocks.
    pub(crate) compression: CompressionType,
    /// Effort of Zstd.
    pub(crate) zstd_level: i32,
    /// Dictionaries of data blocks.
    pub(crate) dictionary: DictionaryOptions,
    /// Who collects properties.
    pub(crate) collectors: Vec<Arc<dyn TablePropertiesCollectorFactory>>,
    /// Tells the stamps of rows, if they expire.
    pub(crate) expiry: Option<Arc<dyn ExpiryPolicy>>,
    /// Computes the checksum of the whole file.
    pub(crate) file_checksum: bool,
    /// Level that the table is made for; -1: for a flush.
    pub(crate) level: i32,
    /// Column family that the table is made for.
    pub(crate) column_family_id: u32,
    /// Its name.
    pub(crate) column_family_name: String,
    /// Id of the database.
    pub(crate) db_id: String,
    /// Id of the session: 20 characters of `[0-9A-Z]`.
    pub(crate) session_id: String,
    /// File number.
    pub(crate) file_number: u64,
    /// Unix seconds of the oldest data's flush. 0: unknown.
    pub(crate) creation_time: u64,
    /// Unix seconds of the oldest key. 0: unknown.
    pub(crate) oldest_key_time: u64,
    /// Unix seconds of the newest key, or a time after it. 0: unknown.
    pub(crate) newest_key_time: u64,
    /// Id of the machine. Empty: none is stored.
    pub(crate) host_id: String,
    /// Unix seconds now. 0: unknown.
    pub(crate) file_creation_time: u64,
    /// Who waits for the writes.
    pub(crate) priority: IoPriority,
    /// When it is written back.
    pub(crate) write_back: WriteBack,
    /// Who counts, if somebody does.
    pub(crate) metrics: Option<Arc<Metrics>>,
    /// What its sync is counted as.
    pub(crate) sync_kind: HistogramKind,
}
