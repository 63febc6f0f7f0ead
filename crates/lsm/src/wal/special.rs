//! Records beside the logical ones: the codec of a log, sizes of timestamps, and what is known of the log before.

use siltstone_base::coding::{get_fixed16, get_fixed32};
use siltstone_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// The only codec of logs: Zstd.
const ZSTD: u32 = 7;

/// Bytes of a record about the log before: its number, its size and its last sequence number.
const PREDECESSOR_LEN: usize = 24;

/// The most families of which one log states the size of timestamps.
const MAX_FAMILIES: usize = 1 << 16;

/// Checks the codec of a log.
pub(super) fn codec(mut payload: &[u8]) -> Result<()> {
    match (get_fixed32(&mut payload), payload) {
        (Some(ZSTD), []) => Ok(()),
        (Some(other), []) => Err(Error::not_supported(format!("log compressed with codec {other}"))),
        _ => Err(Error::corrupt("malformed codec of a log")),
    }
}

/// Adds the sizes of timestamps that a record states: each family once a log.
pub(super) fn add_timestamp_sizes(mut payload: &[u8], sizes: &mut BTreeMap<u32, u16>) -> Result<()> {
    while !payload.is_empty() {
        let (Some(family), Some(size)) = (get_fixed32(&mut payload), get_fixed16(&mut payload)) else {
            return Err(Error::corrupt("malformed sizes of timestamps in a log"));
        };
        if sizes.len() >= MAX_FAMILIES {
            return Err(Error::new(ErrorKind::LimitExceeded, "families with timestamps in a log"));
        }
        if size == 0 || sizes.insert(family, size).is_some() {
            return Err(Error::corrupt(format!("size of the timestamps of column family {family} in a log")));
        }
    }
    Ok(())
}

/// Checks the form of what is known of the log before. RocksDB may go on in a log that recovery cut short, so it vouches for nothing here.
pub(super) fn check_predecessor(payload: &[u8]) -> Result<()> {
    if payload.len() == PREDECESSOR_LEN { Ok(()) } else { Err(Error::corrupt("malformed record about the log before")) }
}
