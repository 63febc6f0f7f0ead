//! One open blob file.
//!
//! ```text
//! header   fixed32 magic, fixed32 version 1, fixed32 family, u8 flags, u8 codec, fixed64 x 2 expiry range
//! record   fixed64 length of the key, fixed64 length of the stored value, fixed64 expiry,
//!          fixed32 masked CRC of these 24 bytes, fixed32 masked CRC of key and stored value, key, stored value
//! ```

use super::BlobReference;
use crate::batch::MAX_VALUE_LEN;
use siltstone_base::checksum::{crc32c, unmask_crc};
use siltstone_base::compression::{CompressionType, MAX_BLOCK_LEN, decompress_into, decompressed_len};
use siltstone_base::env::{IoContext, RandomFile};
use siltstone_base::sync::Arc;
use siltstone_base::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

pub(super) const MAGIC: u32 = 2_395_959;
pub(super) const HEADER_LEN: u64 = 30;
pub(super) const RECORD_HEADER_LEN: u64 = 32;
const FLAG_HAS_EXPIRY: u8 = 1;

/// An open blob file.
///
/// Thread safety: every method may be called from any thread.
#[derive(Debug)]
pub(super) struct BlobFile {
    file: Arc<dyn RandomFile>,
    path: PathBuf,
    len: u64,
    compression: CompressionType,
}

pub(super) fn fixed32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

pub(super) fn fixed64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl BlobFile {
    /// Reads the header of `file` of `len` bytes.
    pub(super) fn open(file: Arc<dyn RandomFile>, path: PathBuf, len: u64, context: IoContext) -> Result<Self> {
        let mut opened = Self { file, path, len, compression: CompressionType::None };
        let wrong = |what: String| Error::corruption(&opened.path, 0, what);
        if len < HEADER_LEN {
            return Err(wrong("blob file shorter than its header".to_owned()));
        }
        let mut header = [0; HEADER_LEN as usize];
        read_exact(&*opened.file, &opened.path, 0, &mut header, context)?;
        if fixed32(&header, 0) != MAGIC {
            return Err(wrong("not a blob file".to_owned()));
        }
        let (version, flags, codec) = (fixed32(&header, 4), header[12], header[13]);
        if version != 1 {
            return Err(Error::not_supported(format!("blob files of version {version}")).with_file(&opened.path));
        }
        if flags & FLAG_HAS_EXPIRY != 0 {
            return Err(Error::not_supported("blob files with expiry times").with_file(&opened.path));
        }
        opened.compression = CompressionType::from_u8(codec)
            .ok_or_else(|| wrong(format!("unknown compression type {codec:#04x} of a blob file")))?;
        Ok(opened)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes when it was opened.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer` from `offset` on.
    pub(super) fn read_exact(&self, offset: u64, buffer: &mut [u8], context: IoContext) -> Result<()> {
        read_exact(&*self.file, &self.path, offset, buffer, context)
    }

    /// The bytes of memory that it takes while it is open.
    pub(super) fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.path.as_os_str().len()
    }

    /// The value of `user_key` that `reference` leads to, after all checksums of its record were verified.
    pub(super) fn read(&self, user_key: &[u8], reference: &BlobReference, context: IoContext) -> Result<Vec<u8>> {
        self.read_record(user_key, reference, context).map_err(|error| match error.kind() {
            ErrorKind::Io => error,
            _ => error.with_file(&self.path).with_offset(reference.offset),
        })
    }

    fn read_record(&self, user_key: &[u8], reference: &BlobReference, context: IoContext) -> Result<Vec<u8>> {
        let before = RECORD_HEADER_LEN + user_key.len() as u64;
        let end = reference.offset.checked_add(reference.size).filter(|end| *end <= self.len);
        let start = reference.offset.checked_sub(before).filter(|start| *start >= HEADER_LEN);
        let (Some(start), Some(end)) = (start, end) else {
            return Err(Error::corrupt("blob reference leads outside its file"));
        };
        if reference.size > MAX_VALUE_LEN as u64 {
            return Err(Error::corrupt("blob longer than a value may be"));
        }
        if reference.compression != self.compression {
            return Err(Error::corrupt("blob reference names another codec than its file"));
        }
        let mut record = Vec::new();
        let record_len = usize::try_from(end - start).unwrap_or(usize::MAX);
        record
            .try_reserve_exact(record_len)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, format!("{record_len} bytes for a blob")))?;
        record.resize(record_len, 0);
        self.read_exact(start, &mut record, context)?;
        let (header, body) = record.split_at(RECORD_HEADER_LEN as usize);
        if unmask_crc(fixed32(header, 24)) != crc32c(&header[..24]) {
            return Err(Error::corrupt("checksum of a blob's header does not match"));
        }
        if fixed64(header, 0) != user_key.len() as u64 || fixed64(header, 8) != reference.size {
            return Err(Error::corrupt("blob reference does not lead to its record"));
        }
        if unmask_crc(fixed32(header, 28)) != crc32c(body) {
            return Err(Error::corrupt("checksum of a blob does not match"));
        }
        let (key, stored) = body.split_at(user_key.len());
        if key != user_key {
            return Err(Error::corrupt("blob of another key"));
        }
        if self.compression == CompressionType::None {
            record.drain(..before as usize);
            return Ok(record);
        }
        // Codecs are bounded as for blocks: a larger value is stored as it is.
        let len = decompressed_len(self.compression, stored, MAX_BLOCK_LEN)?;
        let mut value = Vec::new();
        value
            .try_reserve_exact(len)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, format!("{len} bytes for a blob")))?;
        value.resize(len, 0);
        decompress_into(self.compression, stored, &mut value)?;
        Ok(value)
    }
}

fn read_exact(file: &dyn RandomFile, path: &Path, offset: u64, buffer: &mut [u8], context: IoContext) -> Result<()> {
    match file.read_at(offset, buffer, context) {
        Ok(read) if read == buffer.len() => Ok(()),
        Ok(_) => Err(Error::corruption(path, offset, "file ends early")),
        Err(error) => Err(Error::io("read", path, error).with_offset(offset)),
    }
}
