//! Reading a batch that came from a log or from a caller.

use super::record::{BatchEntry, Record, Records};
use super::{HEADER_LEN, WriteBatch};
use crate::key::{MAX_SEQNO, SeqNo};
use siltstone_base::{Error, Result};

/// Reads a batch whose bytes nobody checked, without copying them.
#[derive(Debug, Clone)]
pub(crate) struct BatchReader<'a> {
    seqno: SeqNo,
    count: u32,
    seen: u32,
    records: Records<'a>,
}

impl<'a> BatchReader<'a> {
    /// Reads the header of `bytes`. Too few bytes, or a sequence number that a last entry would push over the maximum, are
    /// corruption.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(Error::corrupt("write batch shorter than its header"));
        };
        let [s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3] = *header;
        let seqno = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let count = u32::from_le_bytes([c0, c1, c2, c3]);
        if seqno > MAX_SEQNO - u64::from(count) {
            return Err(Error::corrupt("sequence number of a write batch out of range"));
        }
        Ok(Self { seqno, count, seen: 0, records: Records::new(body) })
    }

    /// The sequence number of the first entry.
    pub(crate) fn seqno(&self) -> SeqNo {
        self.seqno
    }

    /// The next record; the i-th entry has the sequence number `seqno() + i`. At the end, a count that differs from the
    /// header's is corruption.
    #[inline]
    pub(crate) fn next_record(&mut self) -> Result<Option<Record<'a>>> {
        match self.records.next_record() {
            Ok(Some(record)) => {
                if matches!(record, Record::Entry(_)) {
                    self.seen = self.seen.wrapping_add(1);
                }
                Ok(Some(record))
            }
            Ok(None) if self.seen == self.count => Ok(None),
            Ok(None) => Err(Error::corrupt(format!(
                "write batch has the wrong count: {} entries, {} promised",
                self.seen, self.count
            ))),
            Err(malformed) => Err(malformed.into_error()),
        }
    }

    /// Reads to the end and says whether all of it is well-formed.
    pub(crate) fn validate(mut self) -> Result<()> {
        while self.next_record()?.is_some() {}
        Ok(())
    }
}

/// The entries of a [`WriteBatch`], in the order in which they were added. Log data and transaction markers are left out.
#[derive(Debug, Clone)]
pub struct BatchIter<'a> {
    records: Records<'a>,
}

impl<'a> BatchIter<'a> {
    #[inline]
    pub(super) fn new(batch: &'a WriteBatch) -> Self {
        Self { records: Records::new(batch.body()) }
    }

    /// The entries of a body.
    pub(super) fn of_records(body: &'a [u8]) -> Self {
        Self { records: Records::new(body) }
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = BatchEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<BatchEntry<'a>> {
        // A batch is well-formed from birth, so an error cannot come up here.
        while let Ok(Some(record)) = self.records.next_record() {
            if let Record::Entry(entry) = record {
                return Some(entry);
            }
        }
        None
    }
}
