//! Doors for tests: the decoders of blobs, fed with any bytes.

use super::file::{BlobFile, HEADER_LEN, RECORD_HEADER_LEN};
use super::reference::BlobReference;
use crate::sst::doors::Bytes;
use siltstone_base::Result;
use siltstone_base::checksum::{crc32c, mask_crc};
use siltstone_base::env::{FileKind, IoContext, IoPriority};
use siltstone_base::sync::Arc;
use std::path::PathBuf;

/// The key whose value is sought.
const KEY: &[u8] = b"key";

/// Bytes of the reference, at most; the blob file is what follows.
const REFERENCE_LEN: usize = 8;

/// Decodes a reference, and reads what it leads to. Checksums are set right before, so that damage reaches what is behind them.
pub(crate) fn blob(bytes: &[u8]) -> Result<()> {
    let (len, rest) = bytes.split_first().map_or((0, bytes), |(len, rest)| (usize::from(*len), rest));
    let (reference, file) = rest.split_at(len.min(REFERENCE_LEN).min(rest.len()));
    let reference = BlobReference::decode(reference)?;
    let mut file = file.to_vec();
    seal(&mut file, &reference);
    let context = IoContext::new(FileKind::Blob, IoPriority::User);
    let len = file.len() as u64;
    let file = BlobFile::open(Arc::new(Bytes(file)), PathBuf::from("000009.blob"), len, context)?;
    file.read(KEY, &reference, context).map(drop)
}

fn seal(file: &mut [u8], reference: &BlobReference) {
    let header_len = RECORD_HEADER_LEN as usize;
    let Some(start) = reference.offset.checked_sub(RECORD_HEADER_LEN + KEY.len() as u64) else { return };
    let Some(end) = reference.offset.checked_add(reference.size) else { return };
    if start < HEADER_LEN {
        return;
    }
    let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else { return };
    let Some(record) = file.get_mut(start..end) else { return };
    let of_body = mask_crc(crc32c(&record[header_len..]));
    let of_header = mask_crc(crc32c(&record[..24]));
    record[24..28].copy_from_slice(&of_header.to_le_bytes());
    record[28..32].copy_from_slice(&of_body.to_le_bytes());
}
