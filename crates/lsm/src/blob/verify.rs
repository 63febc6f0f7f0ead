//! Reading a whole blob file, record by record, to see that it is what was written.
//!
//! ```text
//! footer   fixed32 magic, fixed64 number of records, fixed64 x 2 expiry range, fixed32 masked CRC of these 28 bytes
//! ```

use super::file::{BlobFile, HEADER_LEN, MAGIC, RECORD_HEADER_LEN, fixed32, fixed64};
use siltstone_base::checksum::{crc32c, crc32c_append, unmask_crc};
use siltstone_base::env::IoContext;
use siltstone_base::{Error, Result};

/// Bytes that are read at a time.
const CHUNK_LEN: usize = 1 << 20;

pub(super) const FOOTER_LEN: usize = 32;

/// Reads a file from its first record on, a chunk at a time.
struct Records<'a> {
    file: &'a BlobFile,
    context: IoContext,
    chunk: Vec<u8>,
    /// What of `chunk` was taken.
    taken: usize,
    /// Of the first byte that was not taken.
    offset: u64,
}

impl Records<'_> {
    /// What comes next, `limit` bytes at most: one byte at least.
    fn next_bytes(&mut self, limit: u64) -> Result<&[u8]> {
        if self.taken == self.chunk.len() {
            let left = self.file.len().saturating_sub(self.offset);
            if left == 0 {
                return Err(self.wrong("file ends early"));
            }
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_LEN);
            self.chunk.resize(len, 0);
            self.taken = 0;
            self.file.read_exact(self.offset, &mut self.chunk, self.context)?;
        }
        let len = usize::try_from(limit).unwrap_or(usize::MAX).min(self.chunk.len() - self.taken);
        let bytes = &self.chunk[self.taken..self.taken + len];
        self.taken += len;
        self.offset += len as u64;
        Ok(bytes)
    }

    fn next_array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let mut array = [0; LEN];
        let mut filled = 0;
        while filled < LEN {
            let bytes = self.next_bytes((LEN - filled) as u64)?;
            array[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
        }
        Ok(array)
    }

    fn wrong(&self, what: &'static str) -> Error {
        Error::corruption(self.file.path(), self.offset, what)
    }
}

impl BlobFile {
    /// Reads all records, verifies their checksums, and compares their number and bytes with what the MANIFEST says: `count` and `bytes`.
    pub(super) fn verify(&self, count: u64, bytes: u64, context: IoContext) -> Result<()> {
        let mut records = Records { file: self, context, chunk: Vec::new(), taken: 0, offset: HEADER_LEN };
        for _ in 0..count {
            verify_record(&mut records)?;
        }
        if records.offset - HEADER_LEN != bytes {
            return Err(records.wrong("records have another length than the MANIFEST says"));
        }
        let start = records.offset;
        let footer: [u8; FOOTER_LEN] = records.next_array()?;
        let wrong = |what: &'static str| Err(Error::corruption(self.path(), start, what));
        if fixed32(&footer, 0) != MAGIC {
            return wrong("a footer was to follow the last record");
        }
        if unmask_crc(fixed32(&footer, 28)) != crc32c(&footer[..28]) {
            return wrong("checksum of the footer does not match");
        }
        if fixed64(&footer, 4) != count {
            return wrong("the footer says another number of records than the MANIFEST");
        }
        if records.offset != self.len() {
            return Err(records.wrong("something follows the footer"));
        }
        Ok(())
    }
}

fn verify_record(records: &mut Records<'_>) -> Result<()> {
    let start = records.offset;
    let wrong = |records: &Records<'_>, what| Err(Error::corruption(records.file.path(), start, what));
    let header: [u8; RECORD_HEADER_LEN as usize] = records.next_array()?;
    if unmask_crc(fixed32(&header, 24)) != crc32c(&header[..24]) {
        return wrong(records, "checksum of a blob's header does not match");
    }
    // Lengths that a checksum covers may be too large all the same: then the file ends early.
    let Some(mut left) = fixed64(&header, 0).checked_add(fixed64(&header, 8)) else {
        return wrong(records, "a blob's length is out of bounds");
    };
    let mut crc = 0;
    while left > 0 {
        let bytes = records.next_bytes(left)?;
        left -= bytes.len() as u64;
        crc = crc32c_append(crc, bytes);
    }
    if unmask_crc(fixed32(&header, 28)) != crc {
        return wrong(records, "checksum of a blob does not match");
    }
    Ok(())
}
