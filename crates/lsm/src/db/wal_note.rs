//! What a WAL's first record says about itself and about the WAL before it.
//!
//! A note is a LogData record inside the group's own batch: stock RocksDB skips it, and it takes no sequence
//! number. The first states the WAL's own number: if the first page of a WAL never reached the disk, and shows the bytes of a WAL that was deleted,
//! they must not pass for its own. A WAL that begins with transactions which older ones prepared says that too. Another states how many bytes of the previous WAL are valid, so that recovery can tell the torn end of an append that failed (and
//! was reported as failed) from damage to what was acknowledged. The last is a promise: up to where the WALs were durable when it was written.
//! What is broken before that point was not torn by a crash.

use crate::batch::notes;
use siltstone_base::checksum::crc32c;
use siltstone_base::coding::{get_fixed32, get_fixed64, put_fixed32, put_fixed64, put_length_prefixed};

/// Tag of a LogData record.
const LOG_DATA: u8 = 0x03;

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Predecessor {
    /// Number of the WAL before.
    pub(crate) number: u64,
    /// Bytes of it that are valid; the rest is the torn end of an append that failed.
    pub(crate) size: u64,
}

/// Appends a LogData record that states the predecessor.
pub(crate) fn append_predecessor(out: &mut Vec<u8>, db_id: &str, number: u64, size: u64) {
    let mut note = Vec::with_capacity(28);
    note.extend_from_slice(notes::PREDECESSOR);
    put_fixed32(&mut note, crc32c(db_id.as_bytes()));
    put_fixed64(&mut note, number);
    put_fixed64(&mut note, size);
    out.push(LOG_DATA);
    put_length_prefixed(out, &note);
}

/// The note in a LogData blob, if it is one of the database `db_id`.
pub(crate) fn parse_predecessor(mut blob: &[u8], db_id: &str) -> Option<Predecessor> {
    blob = blob.strip_prefix(notes::PREDECESSOR)?;
    if get_fixed32(&mut blob)? != crc32c(db_id.as_bytes()) {
        return None;
    }
    let note = Predecessor { number: get_fixed64(&mut blob)?, size: get_fixed64(&mut blob)? };
    blob.is_empty().then_some(note)
}

/// Appends a LogData record that says that the WAL begins with what older ones prepared. It counts once the MANIFEST says that no older one is needed; before, those
/// say the same, and more.
pub(crate) fn append_repetition(out: &mut Vec<u8>, db_id: &str) {
    let mut note = Vec::with_capacity(12);
    note.extend_from_slice(notes::REPETITION);
    put_fixed32(&mut note, crc32c(db_id.as_bytes()));
    out.push(LOG_DATA);
    put_length_prefixed(out, &note);
}

/// Whether a LogData blob says so in the database `db_id`.
pub(crate) fn is_repetition(blob: &[u8], db_id: &str) -> bool {
    blob.strip_prefix(notes::REPETITION).is_some_and(|rest| rest == crc32c(db_id.as_bytes()).to_le_bytes())
}

/// A place in the WALs: they follow each other in the order of their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPoint {
    /// Number of the WAL.
    pub(crate) number: u64,
    /// Bytes of it.
    pub(crate) offset: u64,
}

/// Appends a LogData record that states up to where the WALs are durable.
pub(crate) fn append_promise(out: &mut Vec<u8>, db_id: &str, point: LogPoint) {
    let mut note = Vec::with_capacity(28);
    note.extend_from_slice(notes::PROMISE);
    put_fixed32(&mut note, crc32c(db_id.as_bytes()));
    put_fixed64(&mut note, point.number);
    put_fixed64(&mut note, point.offset);
    out.push(LOG_DATA);
    put_length_prefixed(out, &note);
}

/// The promise in a LogData blob, if it is one of the database `db_id`.
pub(crate) fn parse_promise(mut blob: &[u8], db_id: &str) -> Option<LogPoint> {
    blob = blob.strip_prefix(notes::PROMISE)?;
    if get_fixed32(&mut blob)? != crc32c(db_id.as_bytes()) {
        return None;
    }
    let point = LogPoint { number: get_fixed64(&mut blob)?, offset: get_fixed64(&mut blob)? };
    blob.is_empty().then_some(point)
}

/// Appends a LogData record that states the number of the WAL that it is in.
pub(crate) fn append_own_number(out: &mut Vec<u8>, number: u64) {
    let mut note = Vec::with_capacity(16);
    note.extend_from_slice(notes::OWN_NUMBER);
    put_fixed64(&mut note, number);
    out.push(LOG_DATA);
    put_length_prefixed(out, &note);
}

/// The number of the WAL that a LogData blob was written to, if it says one.
pub(crate) fn parse_own_number(blob: &[u8]) -> Option<u64> {
    let mut rest = blob.strip_prefix(notes::OWN_NUMBER)?;
    let number = get_fixed64(&mut rest)?;
    rest.is_empty().then_some(number)
}
