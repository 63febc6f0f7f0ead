//! How values of options are written in a file.

use crate::options::{
    ChecksumType, CompactionStyle, CompressionType, DataBlockIndexType, FileChecksum, IndexType, RateLimiterMode,
    UniversalStopStyle, WalRecoveryMode, WriteAdmission,
};
use std::fmt::Display;
use std::str::FromStr;

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The option has it now.
    Yes,
    /// It is well-formed, and nothing that this engine has.
    Unknown,
    /// It is no value of this option.
    Malformed,
}

/// What stands for an object that is not there.
pub(super) const NOTHING: &str = "nullptr";

pub(super) fn is_nothing(text: &str) -> bool {
    matches!(text, "" | NOTHING)
}

/// The name in front of the parts of an object: newer versions write `{id=ribbonfilter:10:0;bloom_before_level=0;}`.
pub(super) fn id(text: &str) -> &str {
    text.strip_prefix("{id=").map_or(text, |rest| rest.split([';', '}']).next().unwrap_or_default())
}

pub(super) fn take<T: Value>(option: &mut T, text: &str) -> Taken {
    match T::from_text(text) {
        Ok(Some(value)) => {
            *option = value;
            Taken::Yes
        }
        Ok(None) => Taken::Unknown,
        Err(Malformed) => Taken::Malformed,
    }
}

pub(super) struct Malformed;

/// A value that has a form in the file.
pub(super) trait Value: Sized {
    fn to_text(&self) -> String;

    /// `None`: well-formed, and nothing that this engine has.
    fn from_text(text: &str) -> Result<Option<Self>, Malformed>;
}

/// A number that does not fit is one of RocksDB's: a trigger of -1 means never.
fn number<T: FromStr>(text: &str) -> Result<Option<T>, Malformed> {
    match text.parse::<T>() {
        Ok(value) => Ok(Some(value)),
        Err(_) if text.parse::<f64>().is_ok() => Ok(None),
        Err(_) => Err(Malformed),
    }
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Value for $type {
            fn to_text(&self) -> String {
                plain(self)
            }

            fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
                number(text)
            }
        })*
    };
}

numbers!(u32 i32 u64 usize);

fn plain(value: &impl Display) -> String {
    value.to_string()
}

impl Value for bool {
    fn to_text(&self) -> String {
        plain(self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        match text {
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => Err(Malformed),
        }
    }
}

/// A value that is one of a list of names.
fn named<T: Copy>(names: &[(T, &str)], text: &str) -> Result<Option<T>, Malformed> {
    if text.is_empty() {
        return Err(Malformed);
    }
    Ok(names.iter().find(|(_, name)| *name == text).map(|(value, _)| *value))
}

const MODES: &[(WalRecoveryMode, &str)] = &[
    (WalRecoveryMode::TolerateCorruptedTailRecords, "kTolerateCorruptedTailRecords"),
    (WalRecoveryMode::AbsoluteConsistency, "kAbsoluteConsistency"),
    (WalRecoveryMode::PointInTime, "kPointInTimeRecovery"),
    (WalRecoveryMode::SkipAnyCorruptedRecords, "kSkipAnyCorruptedRecords"),
];

impl Value for WalRecoveryMode {
    fn to_text(&self) -> String {
        name_of(MODES, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(MODES, text)
    }
}

const ADMISSIONS: &[(WriteAdmission, &str)] = &[(WriteAdmission::Paced, "paced"), (WriteAdmission::Rocksdb, "rocksdb")];

impl Value for WriteAdmission {
    fn to_text(&self) -> String {
        name_of(ADMISSIONS, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(ADMISSIONS, text)
    }
}

const LIMITER_MODES: &[(RateLimiterMode, &str)] = &[
    (RateLimiterMode::WritesOnly, "kWritesOnly"),
    (RateLimiterMode::ReadsOnly, "kReadsOnly"),
    (RateLimiterMode::AllIo, "kAllIo"),
];

impl Value for RateLimiterMode {
    fn to_text(&self) -> String {
        name_of(LIMITER_MODES, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(LIMITER_MODES, text)
    }
}

const STYLES: &[(CompactionStyle, &str)] = &[
    (CompactionStyle::Leveled, "kCompactionStyleLevel"),
    (CompactionStyle::Universal, "kCompactionStyleUniversal"),
    // Read as the one before; `lazy_leveling` tells them apart.
    (CompactionStyle::Lazy, "kCompactionStyleUniversal"),
    (CompactionStyle::Fifo, "kCompactionStyleFIFO"),
];

impl Value for CompactionStyle {
    fn to_text(&self) -> String {
        name_of(STYLES, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(STYLES, text)
    }
}

const STOP_STYLES: &[(UniversalStopStyle, &str)] = &[
    (UniversalStopStyle::SimilarSize, "kCompactionStopStyleSimilarSize"),
    (UniversalStopStyle::TotalSize, "kCompactionStopStyleTotalSize"),
];

impl Value for UniversalStopStyle {
    fn to_text(&self) -> String {
        name_of(STOP_STYLES, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(STOP_STYLES, text)
    }
}

const CODECS: &[(CompressionType, &str)] = &[
    (CompressionType::None, "kNoCompression"),
    (CompressionType::Snappy, "kSnappyCompression"),
    (CompressionType::Zlib, "kZlibCompression"),
    (CompressionType::Bzip2, "kBZip2Compression"),
    (CompressionType::Lz4, "kLZ4Compression"),
    (CompressionType::Lz4hc, "kLZ4HCCompression"),
    (CompressionType::Zstd, "kZSTD"),
];

/// What stands for no codec of its own.
const NO_CODEC: &str = "kDisableCompressionOption";

impl Value for CompressionType {
    fn to_text(&self) -> String {
        name_of(CODECS, *self)
    }

    /// A codec that this engine does not write is none that it has.
    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        Ok(named(CODECS, text)?.filter(|codec| codec.is_written()))
    }
}

impl Value for Option<CompressionType> {
    fn to_text(&self) -> String {
        self.map_or_else(|| NO_CODEC.to_owned(), |codec| codec.to_text())
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        if text == NO_CODEC { Ok(Some(None)) } else { Ok(CompressionType::from_text(text)?.map(Some)) }
    }
}

impl Value for Vec<CompressionType> {
    fn to_text(&self) -> String {
        self.iter().map(Value::to_text).collect::<Vec<_>>().join(":")
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        let codecs = text.split(':').filter(|name| !name.is_empty()).map(CompressionType::from_text);
        codecs.collect()
    }
}

const FILE_CHECKSUMS: &[(FileChecksum, &str)] =
    &[(FileChecksum::None, NOTHING), (FileChecksum::Crc32c, "FileChecksumGenCrc32cFactory")];

impl Value for FileChecksum {
    fn to_text(&self) -> String {
        name_of(FILE_CHECKSUMS, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        if is_nothing(text) { Ok(Some(Self::None)) } else { named(FILE_CHECKSUMS, id(text)) }
    }
}

const INDEX_TYPES: &[(IndexType, &str)] = &[
    (IndexType::BinarySearch, "kBinarySearch"),
    (IndexType::HashSearch, "kHashSearch"),
    (IndexType::TwoLevel, "kTwoLevelIndexSearch"),
    (IndexType::BinarySearchWithFirstKey, "kBinarySearchWithFirstKey"),
];

impl Value for IndexType {
    fn to_text(&self) -> String {
        name_of(INDEX_TYPES, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(INDEX_TYPES, text)
    }
}

const DATA_BLOCK_INDEX_TYPES: &[(DataBlockIndexType, &str)] = &[
    (DataBlockIndexType::BinarySearch, "kDataBlockBinarySearch"),
    (DataBlockIndexType::BinarySearchAndHash, "kDataBlockBinaryAndHash"),
];

impl Value for DataBlockIndexType {
    fn to_text(&self) -> String {
        name_of(DATA_BLOCK_INDEX_TYPES, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(DATA_BLOCK_INDEX_TYPES, text)
    }
}

impl Value for f64 {
    fn to_text(&self) -> String {
        format!("{self:.6}")
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        match text.parse::<f64>() {
            Ok(number) => Ok(Some(number).filter(|number| number.is_finite())),
            Err(_) => Err(Malformed),
        }
    }
}

const CHECKSUMS: &[(ChecksumType, &str)] = &[
    (ChecksumType::None, "kNoChecksum"),
    (ChecksumType::Crc32c, "kCRC32c"),
    (ChecksumType::XxHash, "kxxHash"),
    (ChecksumType::XxHash64, "kxxHash64"),
    (ChecksumType::Xxh3, "kXXH3"),
];

impl Value for ChecksumType {
    fn to_text(&self) -> String {
        name_of(CHECKSUMS, *self)
    }

    fn from_text(text: &str) -> Result<Option<Self>, Malformed> {
        named(CHECKSUMS, text)
    }
}

fn name_of<T: Copy + PartialEq>(names: &[(T, &str)], value: T) -> String {
    names.iter().find(|(other, _)| *other == value).map_or_else(String::new, |(_, name)| (*name).to_owned())
}
