//! Encoding blocks.

use super::deflate::Deflater;
use super::{CompressionType, DEFAULT_LEVEL, MAX_BLOCK_LEN};
use crate::coding::put_varint32;
use crate::{Error, ErrorKind, Result};
use lz4_flex::block::CompressTable;
use std::fmt;

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
    /// LZ4 with a dictionary, which is hashed anew for each block.
    Lz4WithDictionary(Vec<u8>),
    Zlib(Deflater),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// A compressor for `ty` at `level` ([`DEFAULT_LEVEL`]: the codec's own; only Zstd and Zlib have levels).
    ///
    /// # Errors
    ///
    /// `NotSupported` names a codec that this build lacks; `OutOfMemory` if a context could not be made.
    pub fn new(ty: CompressionType, level: i32) -> Result<Self> {
        Self::with_dictionary(ty, level, &[])
    }

    /// The same with a dictionary, trained or raw, which the decoder needs too; empty is none. Codecs without dictionaries
    /// ignore it.
    pub fn with_dictionary(ty: CompressionType, level: i32, dictionary: &[u8]) -> Result<Self> {
        let codec = match ty {
            CompressionType::None => Codec::None,
            CompressionType::Snappy => Codec::Snappy(Box::new(snap::raw::Encoder::new())),
            CompressionType::Lz4 | CompressionType::Lz4hc if !dictionary.is_empty() => {
                Codec::Lz4WithDictionary(dictionary.to_vec())
            }
            CompressionType::Lz4 | CompressionType::Lz4hc => Codec::Lz4 { small: CompressTable::small(), large: None },
            CompressionType::Zstd => {
                let level = if level == DEFAULT_LEVEL { zstd::DEFAULT_COMPRESSION_LEVEL } else { level };
                let context = zstd::bulk::Compressor::with_dictionary(level, dictionary)
                    .map_err(|error| Error::new(ErrorKind::OutOfMemory, "Zstd context").with_source(error))?;
                Codec::Zstd(context)
            }
            CompressionType::Zlib => Codec::Zlib(Deflater::new(level, dictionary)),
            CompressionType::Bzip2 => return Err(ty.unsupported()),
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
            Codec::Lz4 { .. } | Codec::Lz4WithDictionary(_) => lz4_flex::block::get_maximum_output_size(input.len()),
            Codec::Zlib(_) => Deflater::bound(input.len()),
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
            Codec::Lz4WithDictionary(dictionary) => {
                lz4_flex::block::compress_into_with_dict(input, scratch, dictionary)
                    .map_err(|error| failed(self.ty, error))?
            }
            Codec::Zlib(deflater) => deflater.deflate(input, scratch).map_err(|error| failed(self.ty, error))?,
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
