//! Decoding blocks.

use super::{
    CompressionType, DecompressionDictionary, MAX_BLOCK_LEN, MAX_LARGE_BLOCK_LEN, MAX_LARGE_RATIO, corrupt, deflate,
};
use crate::coding::get_varint32;
use crate::{Error, ErrorKind, Result};
use std::cell::RefCell;

/// The size that the stored form `stored` says it has uncompressed, checked against what the codec can reach, against
/// `limit`, and against [`MAX_BLOCK_LEN`] or so many bytes as much of it can be expected to become, at most [`MAX_LARGE_BLOCK_LEN`]: whoever allocates it allocates no more than that.
///
/// # Errors
///
/// `Corruption` if the size is malformed or impossible; `LimitExceeded` beyond a limit; `NotSupported`.
pub fn decompressed_len(ty: CompressionType, stored: &[u8], limit: usize) -> Result<usize> {
    let (len, body) = split(ty, stored)?;
    let most = stored.len().saturating_mul(MAX_LARGE_RATIO).clamp(MAX_BLOCK_LEN, MAX_LARGE_BLOCK_LEN);
    if len > limit.min(most) {
        return Err(Error::new(ErrorKind::LimitExceeded, format!("decompressed block of {len} bytes")));
    }
    if let Some(ratio) = ty.max_ratio()
        && len > body.len().saturating_mul(ratio)
    {
        return Err(corrupt(ty, "declared size cannot be reached"));
    }
    Ok(len)
}

/// The declared size and the codec's bytes.
#[inline]
fn split(ty: CompressionType, stored: &[u8]) -> Result<(usize, &[u8])> {
    match ty {
        CompressionType::None => Ok((stored.len(), stored)),
        CompressionType::Snappy => match snap::raw::decompress_len(stored) {
            Ok(len) if !stored.is_empty() => Ok((len, stored)),
            _ => Err(corrupt(ty, "bad size")),
        },
        CompressionType::Bzip2 if !ty.is_read() => Err(ty.unsupported()),
        CompressionType::Zlib
        | CompressionType::Bzip2
        | CompressionType::Lz4
        | CompressionType::Lz4hc
        | CompressionType::Zstd => {
            let mut body = stored;
            match get_varint32(&mut body) {
                Some(len) => Ok((len as usize, body)),
                None => Err(corrupt(ty, "bad size")),
            }
        }
    }
}

thread_local! {
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decodes the stored form `stored` into `out`, which must have exactly the length that
/// [`decompressed_len`] returned.
///
/// # Errors
///
/// `Corruption` if the bytes do not decode to that length (`out` then holds anything); `NotSupported`.
#[inline]
pub fn decompress_into(ty: CompressionType, stored: &[u8], out: &mut [u8]) -> Result<()> {
    decompress(ty, stored, out, None)
}

/// The same for a block that was encoded with `dictionary`.
pub fn decompress_into_with_dictionary(
    ty: CompressionType,
    stored: &[u8],
    dictionary: &DecompressionDictionary,
    out: &mut [u8],
) -> Result<()> {
    decompress(ty, stored, out, Some(dictionary))
}

fn decompress(
    ty: CompressionType,
    stored: &[u8],
    out: &mut [u8],
    dictionary: Option<&DecompressionDictionary>,
) -> Result<()> {
    let (len, body) = split(ty, stored)?;
    if len != out.len() {
        return Err(corrupt(ty, "size differs from what was asked"));
    }
    let decoded = match ty {
        CompressionType::None => {
            out.copy_from_slice(body);
            Some(len)
        }
        CompressionType::Snappy => snap::raw::Decoder::new().decompress(body, out).ok(),
        CompressionType::Lz4 | CompressionType::Lz4hc => match dictionary {
            None => lz4_flex::block::decompress_into(body, out).ok(),
            Some(dictionary) => lz4_flex::block::decompress_into_with_dict(body, out, dictionary.raw()).ok(),
        },
        CompressionType::Zstd => decode_zstd(body, out, dictionary)?,
        CompressionType::Zlib => deflate::inflate(body, out, dictionary.map(DecompressionDictionary::raw)),
        CompressionType::Bzip2 => decode_bzip2(body, out)?,
    };
    if decoded == Some(len) { Ok(()) } else { Err(corrupt(ty, "does not decode to its size")) }
}

fn decode_zstd(body: &[u8], out: &mut [u8], dictionary: Option<&DecompressionDictionary>) -> Result<Option<usize>> {
    let out_of_memory = |error| Error::new(ErrorKind::OutOfMemory, "Zstd context").with_source(error);
    if let Some(dictionary) = dictionary {
        // A context with a prepared dictionary borrows it, so it is not kept.
        let mut context =
            zstd::bulk::Decompressor::with_prepared_dictionary(dictionary.zstd()).map_err(out_of_memory)?;
        return Ok(context.decompress_to_buffer(body, out).ok());
    }
    // The context is taken out while it works: no borrow is held across foreign code, and a thread that is
    // ending decodes with a context of its own.
    let kept = ZSTD.try_with(|slot| slot.borrow_mut().take()).ok().flatten();
    let mut context = match kept {
        Some(context) => context,
        None => zstd::bulk::Decompressor::new().map_err(out_of_memory)?,
    };
    let decoded = context.decompress_to_buffer(body, out).ok();
    // A thread that is ending has no slot any more; the context is then dropped.
    let _ = ZSTD.try_with(|slot| *slot.borrow_mut() = Some(context));
    Ok(decoded)
}

#[cfg(feature = "bzip2")]
fn decode_bzip2(body: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
    let mut context = bzip2::Decompress::new(false);
    let (mut read, mut written) = (0, 0);
    loop {
        let before = (read, written);
        let status = context.decompress(&body[read..], &mut out[written..]);
        // Both counts are bounded by the lengths that were given.
        (read, written) = (context.total_in() as usize, context.total_out() as usize);
        match status {
            Ok(bzip2::Status::StreamEnd) => return Ok(Some(written)),
            Ok(_) if (read, written) != before && read <= body.len() && written <= out.len() => {}
            _ => return Ok(None),
        }
    }
}

#[cfg(not(feature = "bzip2"))]
fn decode_bzip2(_: &[u8], _: &mut [u8]) -> Result<Option<usize>> {
    Err(CompressionType::Bzip2.unsupported())
}
