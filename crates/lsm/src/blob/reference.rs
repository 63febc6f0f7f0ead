//! Where a value is: what an entry of a table holds in its place.

use siltstone_base::coding::get_varint64;
use siltstone_base::compression::CompressionType;
use siltstone_base::{Error, Result};

/// A value in a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobReference {
    /// The number of the file.
    pub(crate) file_number: u64,
    /// Where the stored value begins.
    pub(crate) offset: u64,
    /// Bytes of the stored value.
    pub(crate) size: u64,
    /// Its codec.
    pub(crate) compression: CompressionType,
}

impl BlobReference {
    /// Takes a stored reference apart.
    ///
    /// # Errors
    ///
    /// `NotSupported` names the kinds that carry expiry times, and values in the table's own file; `Corruption` for bytes that are none.
    pub(crate) fn decode(stored: &[u8]) -> Result<Self> {
        let Some((kind, mut rest)) = stored.split_first() else {
            return Err(Error::corrupt("blob reference is empty"));
        };
        match kind {
            0 => return Err(Error::not_supported("inlined blobs with an expiry time")),
            1 => {}
            2 => return Err(Error::not_supported("blobs with an expiry time")),
            other => return Err(Error::corrupt(format!("unknown kind {other} of a blob reference"))),
        }
        let input = &mut rest;
        let mut number = || get_varint64(input).ok_or_else(|| Error::corrupt("blob reference: bad number"));
        let (file_number, offset, size) = (number()?, number()?, number()?);
        if file_number == 0 {
            return Err(Error::not_supported("blobs within tables"));
        }
        let &[compression] = *input else { return Err(Error::corrupt("blob reference: bad length")) };
        let compression = CompressionType::from_u8(compression)
            .ok_or_else(|| Error::corrupt(format!("unknown compression type {compression:#04x} of a blob")))?;
        Ok(Self { file_number, offset, size, compression })
    }

    /// Bytes that the record of the value takes in its file, by the count of the MANIFEST.
    pub(crate) fn record_len(&self, user_key: &[u8]) -> u64 {
        self.size.saturating_add(user_key.len() as u64).saturating_add(super::file::RECORD_HEADER_LEN)
    }
}
