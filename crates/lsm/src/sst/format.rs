//! The fixed parts of a table file: block handles, block trailers with their checksums, and the footer.
//!
//! ```text
//! block on disk = data || u8 compression type || fixed32 checksum of (data || compression type)
//! footer, versions 2 to 5 = u8 checksum type || metaindex handle || index handle || zeros to 41 bytes || version || magic
//! footer, versions 6 and 7 = u8 checksum type || 3e007a00 || footer checksum || base context || metaindex size
//!                            || 24 zero bytes || version || magic
//! ```
//!
//! From version 6 on every checksum has a context added that depends on the file and the block's offset, so that a block
//! that was written to the wrong place is found.

use crate::options::ChecksumType;
use siltstone_base::checksum::{crc32c, mask_crc, xxh3_64, xxh32, xxh64};
use siltstone_base::coding::{get_varint64, put_varint64};
use siltstone_base::compression::MAX_LARGE_BLOCK_LEN;
use siltstone_base::{Error, Result};

/// Bytes behind every block: compression type and checksum.
pub(crate) const BLOCK_TRAILER_LEN: usize = 5;

/// Bytes of the footer of every version that is read.
pub(crate) const FOOTER_LEN: usize = 53;

/// The versions of the format that are read.
pub(crate) const READABLE_VERSIONS: std::ops::RangeInclusive<u32> = 2..=7;

/// The versions of the format that are written.
pub(crate) const WRITABLE_VERSIONS: std::ops::RangeInclusive<u32> = 5..=7;

/// The first version with context checksums.
const CONTEXT_VERSION: u32 = 6;

const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];

/// Magic numbers of table files that are not block based in a readable version.
const OTHER_MAGICS: [(u64, &str); 4] = [
    (0xdb47_7524_8b80_fb57, "table of format_version 0"),
    (0x8242_2296_63bf_9564, "plain table"),
    (0x4f34_18eb_7a8f_13b8, "legacy plain table"),
    (0x9267_89d0_c5f1_7873, "cuckoo table"),
];

/// Where a block lies. The size excludes the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockHandle {
    /// Bytes from the front of the file.
    pub(crate) offset: u64,
    /// Bytes without the trailer.
    pub(crate) size: u64,
}

impl BlockHandle {
    /// Appends the stored form.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// Takes a handle from the front of `input`.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self> {
        match (get_varint64(input), get_varint64(input)) {
            (Some(offset), Some(size)) => Ok(Self { offset, size }),
            _ => Err(Error::corrupt("truncated block handle")),
        }
    }

    /// The first byte behind the block and its trailer, if the block is of a legal size and lies within
    /// `file_size` bytes.
    #[inline]
    pub(crate) fn end_within(self, file_size: u64) -> Option<u64> {
        if self.size > MAX_LARGE_BLOCK_LEN as u64 {
            return None;
        }
        let end = self.offset.checked_add(self.size + BLOCK_TRAILER_LEN as u64)?;
        (end <= file_size).then_some(end)
    }
}

impl ChecksumType {
    /// The kind that a footer names.
    pub(crate) fn from_u8(byte: u8) -> Result<Self> {
        Ok(match byte {
            0 => Self::None,
            1 => Self::Crc32c,
            2 => Self::XxHash,
            3 => Self::XxHash64,
            4 => Self::Xxh3,
            _ => return Err(Error::corrupt(format!("unknown checksum type {byte}"))),
        })
    }

    /// The checksum of `covered`, which ends with the compression type, without a context.
    #[inline]
    pub(crate) fn compute(self, covered: &[u8]) -> u32 {
        /// What RocksDB multiplies the byte with that it leaves out of XXH3.
        const LAST_BYTE_FACTOR: u32 = 0x6b90_83d9;
        match self {
            Self::None => 0,
            Self::Crc32c => mask_crc(crc32c(covered)),
            Self::XxHash => xxh32(covered, 0),
            Self::XxHash64 => xxh64(covered, 0) as u32,
            Self::Xxh3 => match covered.split_last() {
                Some((last, data)) => xxh3_64(data) as u32 ^ u32::from(*last).wrapping_mul(LAST_BYTE_FACTOR),
                None => 0,
            },
        }
    }
}

/// How the blocks of one file are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockChecksum {
    /// The kind.
    pub(crate) kind: ChecksumType,
    /// What the context is made from; 0 without contexts.
    pub(crate) base_context: u32,
}

impl BlockChecksum {
    /// The checksum stored behind a block at `offset` whose data and compression type are `covered`.
    #[inline]
    pub(crate) fn stored(self, covered: &[u8], offset: u64) -> u32 {
        self.kind.compute(covered).wrapping_add(self.context(offset))
    }

    /// Checks `block`, read at `offset` with its trailer, and returns the compression type.
    ///
    /// Where the footer names no kind, what is stored must be what a writer without checksums stores. So damage of the one
    /// byte that names the kind does not switch all checks off.
    #[inline]
    pub(crate) fn verify(self, block: &[u8], offset: u64) -> Result<u8> {
        let Some((covered, stored)) = block.split_last_chunk::<4>() else {
            return Err(Error::corrupt("block shorter than its trailer"));
        };
        if self.stored(covered, offset) != u32::from_le_bytes(*stored) {
            return Err(Error::corrupt("block checksum mismatch"));
        }
        covered.last().copied().ok_or_else(|| Error::corrupt("block shorter than its trailer"))
    }

    /// What the position adds to a checksum.
    #[inline]
    fn context(self, offset: u64) -> u32 {
        if self.base_context == 0 {
            return 0;
        }
        self.base_context ^ (offset as u32).wrapping_add((offset >> 32) as u32)
    }
}

/// The end of a table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Version of the format.
    pub(crate) version: u32,
    /// How the blocks are protected.
    pub(crate) checksum: BlockChecksum,
    /// The metaindex block.
    pub(crate) metaindex: BlockHandle,
    /// The index block; from version 6 on the metaindex names it.
    pub(crate) index: Option<BlockHandle>,
}

impl Footer {
    /// The stored form of a footer that begins at `offset`. From version 6 on the metaindex block must end there.
    pub(crate) fn encode(&self, offset: u64) -> Result<[u8; FOOTER_LEN]> {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        out.push(self.checksum.kind as u8);
        if self.version < CONTEXT_VERSION {
            self.metaindex.encode(&mut out);
            self.index.unwrap_or_default().encode(&mut out);
        } else {
            let metaindex_size =
                u32::try_from(self.metaindex.size).map_err(|_| Error::invalid_argument("metaindex block too large"))?;
            out.extend_from_slice(&EXTENDED_MAGIC);
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&self.checksum.base_context.to_le_bytes());
            out.extend_from_slice(&metaindex_size.to_le_bytes());
        }
        out.resize(FOOTER_LEN - 12, 0);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&MAGIC.to_le_bytes());
        let mut bytes = [0; FOOTER_LEN];
        bytes.copy_from_slice(&out);
        if self.version >= CONTEXT_VERSION {
            let checksum = self.checksum.stored(&bytes, offset);
            bytes[5..9].copy_from_slice(&checksum.to_le_bytes());
        }
        Ok(bytes)
    }

    /// Reads the footer from the last bytes of a file of `file_size` bytes.
    pub(crate) fn decode(tail: &[u8], file_size: u64) -> Result<Self> {
        let Some(magic) = tail.last_chunk::<8>() else {
            return Err(Error::corrupt("file too short for a table"));
        };
        let magic = u64::from_le_bytes(*magic);
        if let Some((_, name)) = OTHER_MAGICS.iter().find(|(other, _)| *other == magic) {
            return Err(Error::not_supported(*name));
        }
        if magic != MAGIC {
            return Err(Error::corrupt("bad magic number of a table"));
        }
        let (Some(bytes), Some(offset)) = (tail.last_chunk::<FOOTER_LEN>(), file_size.checked_sub(FOOTER_LEN as u64))
        else {
            return Err(Error::corrupt("file too short for a table"));
        };
        let version = fixed32_at(bytes, FOOTER_LEN - 12);
        if !READABLE_VERSIONS.contains(&version) {
            return Err(Error::not_supported(format!("table of format_version {version}")));
        }
        let kind = ChecksumType::from_u8(bytes[0])?;
        if version < CONTEXT_VERSION {
            let mut handles = &bytes[1..FOOTER_LEN - 12];
            let metaindex = BlockHandle::decode(&mut handles)?;
            let index = BlockHandle::decode(&mut handles)?;
            let checksum = BlockChecksum { kind, base_context: 0 };
            return Ok(Self { version, checksum, metaindex, index: Some(index) });
        }
        Self::decode_extended(bytes, offset, version, kind)
    }

    fn decode_extended(bytes: &[u8; FOOTER_LEN], offset: u64, version: u32, kind: ChecksumType) -> Result<Self> {
        if bytes[1..5] != EXTENDED_MAGIC {
            return Err(Error::corrupt("bad extended magic number of a table"));
        }
        let checksum = BlockChecksum { kind, base_context: fixed32_at(bytes, 9) };
        if checksum.base_context == 0 {
            return Err(Error::corrupt("no context for checksums"));
        }
        let mut covered = *bytes;
        covered[5..9].fill(0);
        if checksum.stored(&covered, offset) != fixed32_at(bytes, 5) {
            return Err(Error::corrupt("footer checksum mismatch"));
        }
        if bytes[33..41] != [0; 8] {
            return Err(Error::not_supported("table with a future feature in its footer"));
        }
        let size = u64::from(fixed32_at(bytes, 13));
        let Some(metaindex_offset) = offset.checked_sub(size + BLOCK_TRAILER_LEN as u64) else {
            return Err(Error::corrupt("metaindex block longer than the file"));
        };
        Ok(Self { version, checksum, metaindex: BlockHandle { offset: metaindex_offset, size }, index: None })
    }
}

fn fixed32_at(bytes: &[u8; FOOTER_LEN], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}
