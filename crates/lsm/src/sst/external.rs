//! Tables that were written outside of a database and taken in later.
//!
//! All entries of such a table are stored with sequence number 0; the one that they got when they were taken in is a property
//! of the file, or only in the MANIFEST. Data blocks are made over when they are read, so that nothing else needs to know.

use super::block::{Block, EntryHeader, Layout, for_each_entry};
use super::format::{BLOCK_TRAILER_LEN, BlockChecksum};
use super::properties::TableProperties;
use crate::key::{MAX_SEQNO, SeqNo, TRAILER_LEN, pack_trailer};
use siltstone_base::block_pool::BlockPool;
use siltstone_base::coding::{put_fixed32, put_varint32};
use siltstone_base::{Error, Result};

/// The version of external tables whose sequence number can be told from outside.
pub(crate) const EXTERNAL_VERSION: u32 = 2;

/// The property whose value may have been set in place after the block's checksum was made.
const SEQNO_PROPERTY: &[u8] = b"rocksdb.external_sst_file.global_seqno";

/// The sequence number of all entries of the table, if they are stored without. `recorded` is the largest one that the MANIFEST
/// has for the file.
pub(crate) fn global_seqno(properties: &TableProperties, recorded: Option<SeqNo>) -> Result<Option<SeqNo>> {
    let stored = properties.global_seqno;
    match properties.external_version {
        None | Some(1) if stored.is_none() => Ok(None),
        None | Some(1) => Err(Error::corrupt("sequence number of an external table without its version")),
        Some(EXTERNAL_VERSION) => {
            let (stored, recorded) = (stored.unwrap_or(0), recorded.unwrap_or(0));
            if stored != 0 && recorded != 0 && stored != recorded {
                return Err(Error::corrupt("sequence number of an external table is not the one in the MANIFEST"));
            }
            if stored > MAX_SEQNO {
                return Err(Error::corrupt("sequence number of an external table out of range"));
            }
            Ok(Some(stored.max(recorded)).filter(|seqno| *seqno != 0))
        }
        Some(version) => Err(Error::not_supported(format!("external table files (version {version})"))),
    }
}

/// Makes `block` over so that every entry has sequence number `seqno`. Restart points stay at the entries where they are; a
/// hash index is lost.
pub(crate) fn with_seqno(block: &Block, seqno: SeqNo, pool: &BlockPool) -> Result<Block> {
    let corrupt = || Error::corrupt("bad entry of a block");
    let entries = block.entries();
    let (mut out, mut key) = (Vec::with_capacity(entries.len() + entries.len() / 4), Vec::new());
    let (mut restarts, mut at) = (Vec::with_capacity(block.num_restarts()), 0);
    while at < entries.len() {
        if restarts.len() < block.num_restarts() && block.restart(restarts.len()) == at {
            restarts.push(u32::try_from(out.len()).map_err(|_| corrupt())?);
        }
        let EntryHeader { shared, non_shared, value_len, len } =
            EntryHeader::decode(&entries[at..]).ok_or_else(corrupt)?;
        let key_end = len.checked_add(non_shared).ok_or_else(corrupt)?;
        let value_end = key_end.checked_add(value_len).ok_or_else(corrupt)?;
        let rest = &entries[at..];
        let (Some(tail), Some(value)) = (rest.get(len..key_end), rest.get(key_end..value_end)) else {
            return Err(corrupt());
        };
        if shared > key.len() {
            return Err(corrupt());
        }
        let previous_user_len = key.len().saturating_sub(TRAILER_LEN);
        key.truncate(shared);
        key.extend_from_slice(tail);
        let Some((user_key, trailer)) = key.split_last_chunk::<TRAILER_LEN>() else {
            return Err(corrupt());
        };
        // The bytes of the trailer before are not what they were.
        let shared = shared.min(previous_user_len).min(user_key.len());
        put_varint32(&mut out, shared as u32);
        put_varint32(&mut out, (key.len() - shared) as u32);
        put_varint32(&mut out, value_len as u32);
        out.extend_from_slice(&user_key[shared..]);
        out.extend_from_slice(&pack_trailer(seqno, trailer[0]).to_le_bytes());
        out.extend_from_slice(value);
        at += value_end;
    }
    // An empty block has one too.
    if restarts.is_empty() {
        restarts.push(0);
    }
    for restart in &restarts {
        put_fixed32(&mut out, *restart);
    }
    put_fixed32(&mut out, restarts.len() as u32);
    let mut bytes = pool.try_alloc(out.len())?;
    bytes.copy_from_slice(&out);
    let len = bytes.len();
    Block::new(bytes, len)
}

/// Whether `stored`, a properties block and its trailer at `offset`, has the checksum that it had before its sequence number was
/// set in place.
pub(crate) fn verify_before_seqno_was_set(stored: &[u8], offset: u64, checksum: BlockChecksum) -> bool {
    let Some(data) = stored.len().checked_sub(BLOCK_TRAILER_LEN).and_then(|len| stored.get(..len)) else {
        return false;
    };
    let mut place = None;
    let walked = Layout::of(data).and_then(|_| {
        for_each_entry(data, |name, value| {
            if name == SEQNO_PROPERTY && value.len() == 8 {
                place = Some(value.as_ptr() as usize - data.as_ptr() as usize);
            }
            Ok(())
        })
    });
    let (Ok(()), Some(place)) = (walked, place) else {
        return false;
    };
    let mut before = stored.to_vec();
    before[place..place + 8].fill(0);
    checksum.verify(&before, offset).is_ok()
}
