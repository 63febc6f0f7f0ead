//! Codecs of blocks, framed as table files of format version 2 and later store them.
//!
//! A stored block is the uncompressed size as a varint of 32 bits, then the codec's own bytes. Snappy has no such prefix,
//! because its bytes begin with the size; an uncompressed block is the block itself.

mod stream;

use crate::coding::{get_varint32, put_varint32};
use crate::{Error, ErrorKind, Result};
use lz4_flex::block::CompressTable;
use std::cell::RefCell;
use std::fmt;
pub use stream::decompress_zstd_frame;

/// The hard limit of a block, stored or decompressed, in bytes.
pub const MAX_BLOCK_LEN: usize = 64 << 20;

/// The `level` that means "the codec's own default".
pub const DEFAULT_LEVEL: i32 = 32_767;

/// A codec. The numbers are those of the byte behind every block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum CompressionType {
    /// Not compressed.
    None = 0,
    /// Snappy: kept for files that have it.
    Snappy = 1,
    /// Raw deflate. Known by name only.
    Zlib = 2,
    /// Bzip2. Known by name only.
    Bzip2 = 3,
    /// LZ4 blocks: the fastest to read.
    #[default]
    Lz4 = 4,
    /// LZ4 blocks that another encoder made with more effort; ours encodes them as [`Lz4`](Self::Lz4).
    Lz4hc = 5,
    /// Zstandard frames: the smallest.
    Zstd = 7,
}

impl CompressionType {
    /// Every codec, in the order of the numbers.
    pub const ALL: [Self; 7] = [Self::None, Self::Snappy, Self::Zlib, Self::Bzip2, Self::Lz4, Self::Lz4hc, Self::Zstd];

    /// The codec that the byte behind a block names, if it is one of ours. 0x40 is an early number of Zstd.
    #[inline]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::None,
            1 => Self::Snappy,
            2 => Self::Zlib,
            3 => Self::Bzip2,
            4 => Self::Lz4,
            5 => Self::Lz4hc,
            7 | 0x40 => Self::Zstd,
            _ => return None,
        })
    }

    /// The name in a table's property `rocksdb.compression`.
    pub const fn property_name(self) -> &'static str {
        match self {
            Self::None => "NoCompression",
            Self::Snappy => "Snappy",
            Self::Zlib => "Zlib",
            Self::Bzip2 => "BZip2",
            Self::Lz4 => "LZ4",
            Self::Lz4hc => "LZ4HC",
            Self::Zstd => "ZSTD",
        }
    }

    /// The inverse of [`property_name`](Self::property_name).
    pub fn from_property_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.property_name() == name)
    }

    /// The name of the value in an OPTIONS file.
    pub const fn option_name(self) -> &'static str {
        match self {
            Self::None => "kNoCompression",
            Self::Snappy => "kSnappyCompression",
            Self::Zlib => "kZlibCompression",
            Self::Bzip2 => "kBZip2Compression",
            Self::Lz4 => "kLZ4Compression",
            Self::Lz4hc => "kLZ4HCCompression",
            Self::Zstd => "kZSTD",
        }
    }

    /// The inverse of [`option_name`](Self::option_name).
    pub fn from_option_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.option_name() == name)
    }

    /// Whether this build encodes and decodes it.
    pub const fn is_supported(self) -> bool {
        !matches!(self, Self::Zlib | Self::Bzip2)
    }

    /// The most that one stored byte can decode to, where the format bounds it.
    const fn max_ratio(self) -> Option<usize> {
        match self {
            Self::Lz4 | Self::Lz4hc => Some(255),
            Self::Snappy => Some(22),
            Self::Zlib => Some(1032),
            Self::None | Self::Bzip2 | Self::Zstd => None,
        }
    }

    #[cold]
    fn unsupported(self) -> Error {
        Error::not_supported(format!("compression type {}", self.property_name()))
    }
}

/// Encodes blocks with one codec, reusing its contexts and its buffer.
pub struct Compressor {
    ty: CompressionType,
    codec: Codec,
    /// Encoded bytes before they are appended; only ever grows, so that no block pays for zeroing it.
    scratch: Vec<u8>,
}

enum Codec {
    None,
    Snappy(Box<snap::raw::Encoder>),
    /// A table for inputs below 64 KiB, and one for longer ones.
    Lz4 {
        small: CompressTable,
        large: Option<CompressTable>,
    },
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// A compressor for `ty` at `level` ([`DEFAULT_LEVEL`]: the codec's own; only Zstd has levels).
    ///
    /// # Errors
    ///
    /// `NotSupported` names a codec that this build lacks; `OutOfMemory` if a context could not be made.
    pub fn new(ty: CompressionType, level: i32) -> Result<Self> {
        Self::with_dictionary(ty, level, &[])
    }

    /// The same with a dictionary, trained or raw, which the decoder needs too; empty is none. Zstd only: other codecs
    /// ignore it.
    pub fn with_dictionary(ty: CompressionType, level: i32, dictionary: &[u8]) -> Result<Self> {
        let codec = match ty {
            CompressionType::None => Codec::None,
            CompressionType::Snappy => Codec::Snappy(Box::new(snap::raw::Encoder::new())),
            CompressionType::Lz4 | CompressionType::Lz4hc => Codec::Lz4 { small: CompressTable::small(), large: None },
            CompressionType::Zstd => {
                let level = if level == DEFAULT_LEVEL { zstd::DEFAULT_COMPRESSION_LEVEL } else { level };
                let context = zstd::bulk::Compressor::with_dictionary(level, dictionary)
                    .map_err(|error| Error::new(ErrorKind::OutOfMemory, "Zstd context").with_source(error))?;
                Codec::Zstd(context)
            }
            CompressionType::Zlib | CompressionType::Bzip2 => return Err(ty.unsupported()),
        };
        Ok(Self { ty, codec, scratch: Vec::new() })
    }

    /// The codec.
    pub fn compression_type(&self) -> CompressionType {
        self.ty
    }

    /// Appends the stored form of `input` to `out`, without the byte that names the codec.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` if `input` is longer than [`MAX_BLOCK_LEN`].
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if input.len() > MAX_BLOCK_LEN {
            return Err(Error::new(ErrorKind::LimitExceeded, "block to compress"));
        }
        let bound = match self.codec {
            Codec::None => {
                out.extend_from_slice(input);
                return Ok(());
            }
            Codec::Snappy(_) => snap::raw::max_compress_len(input.len()),
            Codec::Lz4 { .. } => lz4_flex::block::get_maximum_output_size(input.len()),
            Codec::Zstd(_) => zstd::zstd_safe::compress_bound(input.len()),
        };
        if self.scratch.len() < bound {
            self.scratch.resize(bound, 0);
        }
        let scratch = &mut self.scratch[..];
        let len = match &mut self.codec {
            Codec::None => 0,
            Codec::Snappy(encoder) => encoder.compress(input, scratch).map_err(|error| failed(self.ty, error))?,
            Codec::Lz4 { small, large } => {
                let table = if input.len() < usize::from(u16::MAX) {
                    small
                } else {
                    large.get_or_insert_with(CompressTable::large)
                };
                lz4_flex::block::compress_into_with_table(input, scratch, table)
                    .map_err(|error| failed(self.ty, error))?
            }
            Codec::Zstd(context) => {
                context.compress_to_buffer(input, scratch).map_err(|error| failed(self.ty, error))?
            }
        };
        if self.ty != CompressionType::Snappy {
            put_varint32(out, input.len() as u32);
        }
        out.extend_from_slice(&self.scratch[..len]);
        Ok(())
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("type", &self.ty).finish_non_exhaustive()
    }
}

#[cold]
fn failed(ty: CompressionType, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("compress with {}", ty.property_name())).with_source(error)
}

#[cold]
fn corrupt(ty: CompressionType, what: &str) -> Error {
    Error::corrupt(format!("{} block: {what}", ty.property_name()))
}

/// The size that the stored form `stored` says it has uncompressed, checked against what the codec can reach, against
/// `limit` and against [`MAX_BLOCK_LEN`]: whoever allocates it allocates no more than that.
///
/// # Errors
///
/// `Corruption` if the size is malformed or impossible; `LimitExceeded` beyond a limit; `NotSupported`.
pub fn decompressed_len(ty: CompressionType, stored: &[u8], limit: usize) -> Result<usize> {
    let (len, body) = split(ty, stored)?;
    if len > limit.min(MAX_BLOCK_LEN) {
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
        CompressionType::Lz4 | CompressionType::Lz4hc | CompressionType::Zstd => {
            let mut body = stored;
            match get_varint32(&mut body) {
                Some(len) => Ok((len as usize, body)),
                None => Err(corrupt(ty, "bad size")),
            }
        }
        CompressionType::Zlib | CompressionType::Bzip2 => Err(ty.unsupported()),
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
            Some(dictionary) => lz4_flex::block::decompress_into_with_dict(body, out, &dictionary.raw).ok(),
        },
        CompressionType::Zstd => decode_zstd(body, out, dictionary)?,
        CompressionType::Zlib | CompressionType::Bzip2 => return Err(ty.unsupported()),
    };
    if decoded == Some(len) { Ok(()) } else { Err(corrupt(ty, "does not decode to its size")) }
}

fn decode_zstd(body: &[u8], out: &mut [u8], dictionary: Option<&DecompressionDictionary>) -> Result<Option<usize>> {
    let out_of_memory = |error| Error::new(ErrorKind::OutOfMemory, "Zstd context").with_source(error);
    if let Some(dictionary) = dictionary {
        // A context with a prepared dictionary borrows it, so it is not kept.
        let mut context =
            zstd::bulk::Decompressor::with_prepared_dictionary(&dictionary.zstd).map_err(out_of_memory)?;
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

/// The dictionary of a table's data blocks, digested once for all of them.
pub struct DecompressionDictionary {
    raw: Vec<u8>,
    zstd: zstd::dict::DecoderDictionary<'static>,
}

impl DecompressionDictionary {
    /// A dictionary, trained or raw, as the table stores it.
    pub fn new(raw: &[u8]) -> Self {
        Self { raw: raw.to_vec(), zstd: zstd::dict::DecoderDictionary::copy(raw) }
    }

    /// The bytes of memory held.
    pub fn memory_usage(&self) -> usize {
        self.raw.capacity() + self.zstd.as_ddict().sizeof()
    }
}

impl fmt::Debug for DecompressionDictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecompressionDictionary").field("len", &self.raw.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
