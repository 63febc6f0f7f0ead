//! Records of the redo log, and the entries in them.

use super::sequence::Sequence;
use crate::page::{Change, Lsn, PageId};
use siltstone_base::checksum::{crc32c, mask_crc};
use siltstone_base::coding::{get_varint32, put_varint32};

/// CRC (4), length of the entries (4), LSN (8), checkpoint (4), flags (1).
pub(crate) const RECORD_HEADER_LEN: usize = 21;

/// The longest record, header included. A mini-transaction has a few pages.
pub(crate) const MAX_RECORD_LEN: u64 = 64 << 20;

/// Record flag: the group ends here.
pub(crate) const END: u8 = 1;

const CHANGE: u8 = 1;
const DROP: u8 = 2;

/// Reserves the header of a record in `out`; returns where it begins.
#[inline]
pub(super) fn begin_record(out: &mut Vec<u8>, lsn: Lsn, sequence: Sequence) -> usize {
    let at = out.len();
    let mut header = [0; RECORD_HEADER_LEN];
    header[8..16].copy_from_slice(&lsn.to_le_bytes());
    header[16..20].copy_from_slice(&sequence.number().to_le_bytes());
    out.extend_from_slice(&header);
    at
}

/// Completes the header of the record that begins at `at` and ends where `out` does.
#[inline]
pub(super) fn end_record(out: &mut [u8], at: usize, flags: u8) {
    let len = (out.len() - at - RECORD_HEADER_LEN) as u32;
    out[at + 4..at + 8].copy_from_slice(&len.to_le_bytes());
    out[at + 20] = flags;
    let crc = mask_crc(crc32c(&out[at + 4..]));
    out[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The header of a record, as far as it can be understood without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) crc: u32,
    pub(super) len: u32,
    pub(super) lsn: Lsn,
    pub(super) sequence: Sequence,
    pub(super) flags: u8,
}

impl RecordHeader {
    pub(super) fn decode(bytes: &[u8; RECORD_HEADER_LEN]) -> Self {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            crc: number(0),
            len: number(4),
            lsn: u64::from(number(8)) | u64::from(number(12)) << 32,
            sequence: Sequence::from_file(number(16)),
            flags: bytes[20],
        }
    }

    /// Whether the whole record, header included, is what was written.
    pub(super) fn fits(&self, record: &[u8]) -> bool {
        record.get(4..).is_some_and(|covered| mask_crc(crc32c(covered)) == self.crc)
    }
}

/// One thing that a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A page changed.
    Change(PageId, Change<'a>),
    /// A tablespace is gone: its pages count no more, also those of earlier records.
    Drop(u32),
}

/// Appends a change of a page.
#[inline]
pub(crate) fn encode_change(out: &mut Vec<u8>, id: PageId, change: &Change<'_>) {
    out.push(CHANGE);
    put_varint32(out, id.space);
    put_varint32(out, id.number);
    change.encode(out);
}

/// Appends that a tablespace is gone.
pub(crate) fn encode_drop(out: &mut Vec<u8>, space: u32) {
    out.push(DROP);
    put_varint32(out, space);
}

/// The entries of a record, in order. Ends early, with an error, where this version does not understand one.
#[derive(Debug)]
pub(crate) struct Entries<'a>(pub(crate) &'a [u8]);

impl<'a> Entries<'a> {
    fn decode(&mut self) -> Option<Entry<'a>> {
        let (kind, rest) = self.0.split_first()?;
        self.0 = rest;
        match *kind {
            CHANGE => {
                let id = PageId::new(get_varint32(&mut self.0)?, get_varint32(&mut self.0)?);
                Some(Entry::Change(id, Change::decode(&mut self.0)?))
            }
            DROP => Some(Entry::Drop(get_varint32(&mut self.0)?)),
            _ => None,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.decode();
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry.ok_or("a redo record says what this version does not understand"))
    }
}
