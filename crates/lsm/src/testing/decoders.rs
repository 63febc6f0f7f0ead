//! Every decoder of bytes from a disk, behind one door: for property tests, and for the fuzzer, which has a target for each.

use crate::batch::BatchReader;
use crate::blob;
use crate::expiry::{BlockStamps, StampHistogram};
use crate::file_names::FileName;
use crate::key::InternalKey;
use crate::sst::doors::{self, Bytes};
use crate::version::VersionEdit;
use crate::wal::{ReadOutcome, WalReader};
use crate::wide_columns;
use crate::{Error, ErrorKind, Result};
use siltstone_base::bloom;
use siltstone_base::checksum::{crc32c, mask_crc};
use siltstone_base::compression::{CompressionType, decompress_into, decompressed_len};
use siltstone_base::env::{FileKind, IoContext, IoPriority};
use siltstone_base::expiry::Record;
use std::path::PathBuf;
use std::sync::Arc;

/// A decoder.
pub type Decoder = fn(&[u8]) -> Result<()>;

/// All decoders by name. Each takes any bytes, and returns an error or has read all of them; it neither panics nor hangs, nor takes memory beyond
/// what the bytes themselves bound.
pub const DECODERS: &[(&str, Decoder)] = &[
    ("batch", batch),
    ("blob", blob::doors::blob),
    ("block", doors::block),
    ("compressed_block", compressed_block),
    ("entity", entity),
    ("expiry", expiry),
    ("file_name", file_name),
    ("filter", filter),
    ("footer", doors::footer),
    ("internal_key", internal_key),
    ("log", log),
    ("log_of_batches", log_of_batches),
    ("log_of_edits", log_of_edits),
    ("properties", doors::properties),
    ("stamps", stamps),
    ("table", doors::table),
    ("version_edit", version_edit),
];

/// Most bytes that a decoder here lets a block decode to.
const LIMIT: usize = 1 << 20;

/// Bytes of the header of a piece of a log record.
const HEADER_LEN: usize = 7;

/// Gives `bytes` to the decoder of this name.
///
/// # Errors
///
/// That of the decoder; `NotFound` for a name that none has.
pub fn decode(name: &str, bytes: &[u8]) -> Result<()> {
    match DECODERS.iter().find(|(other, _)| *other == name) {
        Some((_, decoder)) => decoder(bytes),
        None => Err(Error::new(ErrorKind::NotFound, format!("there is no decoder {name}"))),
    }
}

/// Gives `bytes` to the decoder of this name, and panics where the decoder breaks its promise.
///
/// # Panics
///
/// If the decoder does, or if its error is none of those that bytes may become.
pub fn fuzz(name: &str, bytes: &[u8]) {
    if let Err(error) = decode(name, bytes) {
        assert!(is_of_bytes(error.kind()), "{name}: {error}");
    }
}

/// Whether bytes from a disk may become an error of this kind.
pub(super) fn is_of_bytes(kind: ErrorKind) -> bool {
    use ErrorKind::{Corruption, InvalidArgument, LimitExceeded, NotSupported};
    matches!(kind, Corruption | InvalidArgument | LimitExceeded | NotSupported)
}

fn batch(bytes: &[u8]) -> Result<()> {
    BatchReader::new(bytes)?.validate()
}

fn entity(bytes: &[u8]) -> Result<()> {
    wide_columns::columns(bytes).map(drop)
}

fn expiry(bytes: &[u8]) -> Result<()> {
    Record::decode(bytes).map(drop)
}

fn stamps(bytes: &[u8]) -> Result<()> {
    let blocks = BlockStamps::decode(bytes).map(drop);
    StampHistogram::decode(bytes).map(drop).or(blocks).ok_or_else(|| Error::corrupt("no stamps"))
}

fn version_edit(bytes: &[u8]) -> Result<()> {
    VersionEdit::decode(bytes).map(drop)
}

fn internal_key(bytes: &[u8]) -> Result<()> {
    InternalKey::decode(bytes).map(drop)
}

fn file_name(bytes: &[u8]) -> Result<()> {
    let name = String::from_utf8_lossy(bytes);
    if let Some(parsed) = FileName::parse(&name)
        && FileName::parse(&parsed.to_string()) != Some(parsed)
    {
        return Err(Error::new(ErrorKind::Poisoned, "a file name that reads back as another"));
    }
    Ok(())
}

/// Any bytes answer: a filter that is not understood holds every key.
fn filter(bytes: &[u8]) -> Result<()> {
    let kind = bloom::FilterKind::parse(bytes);
    for key in [&b""[..], b"key0100", bytes] {
        let _ = kind.may_match(bytes, kind.hash_key(key));
    }
    Ok(())
}

/// The first byte picks the codec.
fn compressed_block(bytes: &[u8]) -> Result<()> {
    use CompressionType::{Lz4, None, Snappy, Zstd};
    let Some((first, stored)) = bytes.split_first() else { return Ok(()) };
    let codec = [None, Snappy, Lz4, Zstd][usize::from(first % 4)];
    let len = decompressed_len(codec, stored, LIMIT)?;
    decompress_into(codec, stored, &mut vec![0; len])
}

fn read_log(bytes: Vec<u8>, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let most = bytes.len() + 1;
    let context = IoContext::new(FileKind::Wal, IoPriority::User);
    let mut reader = WalReader::new(Arc::new(Bytes(bytes)), PathBuf::from("000009.log"), 9, context, LIMIT)?;
    let mut record = Vec::new();
    for _ in 0..most {
        match reader.next_record(&mut record) {
            Ok(ReadOutcome::Record { .. }) => visit(&record)?,
            Ok(ReadOutcome::End(_)) => return Ok(()),
            Err(error) => {
                reader.record_follows_damage()?;
                return Err(error);
            }
        }
    }
    Err(Error::new(ErrorKind::Poisoned, "an endless log"))
}

fn log(bytes: &[u8]) -> Result<()> {
    read_log(bytes.to_vec(), |_| Ok(()))
}

/// A log of pieces with right checksums: each begins with its type and its length. So damage reaches what is behind the checksums.
fn sealed_log(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(([kind, length], rest)) = bytes.split_first_chunk::<2>() {
        let payload = &rest[..usize::from(*length).min(rest.len())];
        bytes = &rest[payload.len()..];
        // The last byte of the range stands for types that nobody knows.
        let kind = kind % 14;
        let covered = [&[kind], payload].concat();
        out.extend_from_slice(&mask_crc(crc32c(&covered)).to_le_bytes());
        out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        out.extend_from_slice(&covered);
        debug_assert!(out.len() >= HEADER_LEN);
    }
    out
}

fn log_of_batches(bytes: &[u8]) -> Result<()> {
    read_log(sealed_log(bytes), batch)
}

fn log_of_edits(bytes: &[u8]) -> Result<()> {
    read_log(sealed_log(bytes), version_edit)
}
