//! Table files: one immutable sorted file each, in RocksDB's block-based format.
//!
//! ```text
//! data block 1 .. n | filter block | index block | range tombstones | properties | metaindex | footer
//! ```
//!
//! * [`builder`] writes a table through [`output`]: blocks by [`block_builder`], the index by [`index_builder`].
//! * [`reader`] opens one and gets: filter ([`filter_block`], [`filter_partitions`]), index ([`index_block`],
//!   [`index_partitions`], [`prefix_index`]), then a data block ([`block`], [`block_cursor`]) from
//!   the [`block_cache`] or from disk ([`fetch`]; several together: [`fetch_together`]).
//! * [`range_del_block`] holds the range tombstones; an open table has their fragments in memory.
//! * [`tail`] is the end of a table that was just written, from which it is opened without reading it back.
//! * [`warm_blocks`] keeps blocks in the cache that are made of cached ones; [`leaving`] has those of tables that went leave it.
//! * [`iter`] walks one, reading ahead ([`read_ahead`]).

mod block;
mod block_builder;
mod block_cache;
mod block_cursor;
mod block_hash;
mod block_slots;
mod builder;
mod builder_options;
mod cache_kinds;
mod collector;
mod compact_on_deletions;
mod compressed_tier;
mod dictionary_builder;
#[cfg(feature = "testing")]
pub(crate) mod doors;
mod external;
mod fetch;
mod fetch_together;
mod filter_block;
mod filter_builder;
mod filter_partitions;
mod filter_partitions_builder;
mod format;
mod index_block;
mod index_builder;
mod index_partitions;
mod iter;
mod leaving;
mod metaindex;
mod output;
mod pinned;
mod prefix_index;
mod properties;
mod range_del_block;
mod read_ahead;
mod reader;
mod separated;
mod summary;
mod tail;
#[cfg(test)]
pub(crate) mod test_util;
#[cfg(test)]
mod tests;
mod unique_id;
mod walk_bounds;
mod walk_share;
mod warm_blocks;

#[cfg(feature = "testing")]
pub(crate) use block::Block;
#[cfg(feature = "testing")]
pub(crate) use block_builder::BlockBuilder;
pub use block_cache::BlockCache;
#[cfg(feature = "testing")]
pub(crate) use block_cursor::BlockCursor;
pub(crate) use builder::TableBuilder;
pub(crate) use builder_options::TableBuilderOptions;
pub(crate) use cache_kinds::CachedKind;
pub use collector::{CollectedEntry, TablePropertiesCollector, TablePropertiesCollectorFactory};
pub use compact_on_deletions::CompactOnDeletions;
pub(crate) use dictionary_builder::DictionaryOptions;
pub(crate) use external::EXTERNAL_VERSION;
pub(crate) use iter::TableIter;
pub(crate) use output::WriteBack;
pub use pinned::PinnedBytes;
pub(crate) use reader::{Asked, GetCounts, TableEntry, TableReadOptions, TableReader, TableReaderOptions};
pub(crate) use reader::{TableOrigin, origin_of_table};
pub(crate) use summary::TableSummary;
pub(crate) use tail::TableTail;
pub(crate) use unique_id::encode_session_id;
pub(crate) use walk_bounds::WalkBounds;
pub(crate) use walk_share::WalkShare;
pub(crate) use warm_blocks::{CacheWatch, WarmBlocks};
