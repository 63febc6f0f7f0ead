//! Doors for tests: the decoders of tables, fed with any bytes.

use super::block::{Block, for_each_entry};
use super::block_cursor::BlockCursor;
use super::format::{FOOTER_LEN, Footer};
use super::properties::TableProperties;
use super::reader::{TableReadOptions, TableReader, TableReaderOptions};
use super::{BlockCache, TableIter};
use crate::iterator::InternalIterator;
use crate::key::{InternalKeyComparator, LookupKey};
use siltstone_base::block_pool::{BlockPool, PooledBuf};
use siltstone_base::comparator::Bytewise;
use siltstone_base::env::{IoContext, IoPriority, RandomFile};
use siltstone_base::prefix_extractor::FixedPrefix;
use siltstone_base::sync::Arc;
use siltstone_base::{Error, Result};
use std::io;
use std::path::PathBuf;

/// A file of these bytes.
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl RandomFile for Bytes {
    fn read_at(&self, offset: u64, buffer: &mut [u8], _: IoContext) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(from..).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

fn comparator() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(Bytewise))
}

fn endless(what: &str) -> Error {
    Error::new(siltstone_base::ErrorKind::Poisoned, format!("an endless walk over {what}"))
}

/// Walks over a block in both directions and seeks in it.
pub(crate) fn block(bytes: &[u8]) -> Result<()> {
    for_each_entry(bytes, |_, _| Ok(()))?;
    let len = bytes.len();
    let block = Block::new(PooledBuf::unpooled(bytes.to_vec()), len)?;
    block.prefetch_restarts();
    block.prefetch_restart_keys();
    let mut cursor = BlockCursor::new();
    for forward in [true, false] {
        let mut steps = 0;
        let mut valid = if forward { cursor.seek_to_first(&block) } else { cursor.seek_to_last(&block) };
        while valid {
            if steps > len || cursor.value(&block).len() > len {
                return Err(endless("a block"));
            }
            steps += 1;
            valid = if forward { cursor.next(&block) } else { cursor.prev(&block) };
        }
    }
    let target = LookupKey::new(b"key0100", 5);
    cursor.seek(&block, target.internal_key(), &comparator());
    cursor.seek_for_prev(&block, target.internal_key(), &comparator());
    Ok(())
}

/// Reads a properties block.
pub(crate) fn properties(bytes: &[u8]) -> Result<()> {
    TableProperties::decode(bytes).map(drop)
}

/// Reads a footer from the end of a file that is these bytes.
pub(crate) fn footer(bytes: &[u8]) -> Result<()> {
    let tail = &bytes[bytes.len().saturating_sub(FOOTER_LEN)..];
    Footer::decode(tail, bytes.len() as u64).map(drop)
}

/// Opens a table, gets from it, and walks over it. A footer that names no checksums lets any damage pass through to the decoders.
pub(crate) fn table(bytes: &[u8]) -> Result<()> {
    let options = TableReaderOptions {
        comparator: comparator(),
        block_cache: Arc::new(BlockCache::new(1 << 20)),
        block_pool: BlockPool::new(1 << 20),
        unique_id: None,
        largest_seqno: None,
        priority: IoPriority::User,
        metrics: Arc::default(),
        pin_filter_partitions: false,
        expiry: None,
        prefix_extractor: Some(Arc::new(FixedPrefix::new(4))),
    };
    let file = Arc::new(Bytes(bytes.to_vec()));
    let reader = TableReader::open(file, PathBuf::from("000009.sst"), bytes.len() as u64, &options)?;
    let reader = Arc::new(reader);
    let read = TableReadOptions::default();
    let mut outcome = Ok(());
    for number in 0..8_u64 {
        let key = LookupKey::new(format!("key{:04}", number * 17).as_bytes(), 1_000);
        outcome = outcome.and(reader.get(&read, &key, None).map(drop));
    }
    // An entry takes three bytes at least, but a codec may hide many of them.
    let most = bytes.len().saturating_mul(300);
    let mut iter = TableIter::new(reader, read, 0);
    for forward in [true, false] {
        let mut steps = 0;
        if forward {
            iter.seek_to_first()
        } else {
            iter.seek_to_last()
        }
        while iter.valid() {
            steps += 1;
            if steps > most {
                return Err(endless("a table"));
            }
            if forward { iter.next() } else { iter.prev() }
        }
        outcome = outcome.and(iter.status());
    }
    outcome
}
