//! Codecs of blocks, framed as table files of format version 2 and later store them.
//!
//! A stored block is the uncompressed size as a varint of 32 bits, then the codec's own bytes. Snappy has no such prefix,
//! because its bytes begin with the size; an uncompressed block is the block itself.

mod decode;
mod deflate;
mod dictionary;
mod encode;
mod stream;
#[cfg(test)]
mod tests;

pub use decode::{decompress_into, decompress_into_with_dictionary, decompressed_len};
pub use dictionary::{DecompressionDictionary, train_dictionary};
pub use encode::Compressor;
pub use stream::decompress_zstd_frame;

use crate::Error;

/// The hard limit of a block of data, and of any compressed block that is written, in bytes.
pub const MAX_BLOCK_LEN: usize = 64 << 20;

/// The hard limit of any block, stored or decompressed, in bytes: of the index or the filter of a table of tens of gigabytes.
pub const MAX_LARGE_BLOCK_LEN: usize = 1 << 30;

/// What is decompressed is at most so many times as large as what is stored, where it is more than [`MAX_BLOCK_LEN`].
const MAX_LARGE_RATIO: usize = 64;

/// The `level` that means "the codec's own default".
pub const DEFAULT_LEVEL: i32 = 32_767;

/// A codec. The numbers are those of the byte behind every block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum CompressionType {
    /// Not compressed.
    None = 0,
    /// Snappy: for files that have it.
    Snappy = 1,
    /// Raw deflate: for files that have it.
    Zlib = 2,
    /// Bzip2: only read, and only with the feature `bzip2`.
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

    /// Whether this build decodes it.
    pub const fn is_read(self) -> bool {
        !matches!(self, Self::Bzip2) || cfg!(feature = "bzip2")
    }

    /// Whether this build encodes it.
    pub const fn is_written(self) -> bool {
        !matches!(self, Self::Bzip2)
    }

    /// Whether its encoder makes use of a dictionary.
    pub const fn has_dictionaries(self) -> bool {
        matches!(self, Self::Zlib | Self::Lz4 | Self::Lz4hc | Self::Zstd)
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

#[cold]
fn corrupt(ty: CompressionType, what: &str) -> Error {
    Error::corrupt(format!("{} block: {what}", ty.property_name()))
}
