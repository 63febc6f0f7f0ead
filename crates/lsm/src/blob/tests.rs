//! Reading blob files that are built here byte by byte, whole and damaged.

use super::file::{HEADER_LEN, MAGIC, RECORD_HEADER_LEN};
use super::*;
use siltstone_base::ErrorKind;
use siltstone_base::checksum::{crc32c, mask_crc};
use siltstone_base::coding::put_varint64;
use siltstone_base::compression::{CompressionType, Compressor};
use siltstone_base::env::sim::SimDisk;
use siltstone_base::env::{Env, FileKind, IoContext, IoPriority, write_file_atomically};
use std::path::Path;

fn header(version: u32, flags: u8, codec: CompressionType) -> Vec<u8> {
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend([flags, codec as u8]);
    bytes.extend([0; 16]);
    assert_eq!(bytes.len() as u64, HEADER_LEN);
    bytes
}

/// Appends a record and returns a reference to its value.
fn add(file: &mut Vec<u8>, key: &[u8], stored: &[u8], codec: CompressionType) -> Vec<u8> {
    let mut lengths = (key.len() as u64).to_le_bytes().to_vec();
    lengths.extend((stored.len() as u64).to_le_bytes());
    lengths.extend([0; 8]);
    file.extend(&lengths);
    file.extend(mask_crc(crc32c(&lengths)).to_le_bytes());
    file.extend(mask_crc(crc32c(&[key, stored].concat())).to_le_bytes());
    file.extend(key);
    let mut reference = vec![1];
    for number in [9, file.len() as u64, stored.len() as u64] {
        put_varint64(&mut reference, number);
    }
    reference.push(codec as u8);
    file.extend(stored);
    reference
}

fn files(bytes: &[u8]) -> BlobFiles {
    counted_files(bytes, &siltstone_base::sync::Arc::new(crate::metrics::Metrics::new()))
}

fn counted_files(bytes: &[u8], metrics: &siltstone_base::sync::Arc<crate::metrics::Metrics>) -> BlobFiles {
    let disk = SimDisk::new();
    let env: siltstone_base::sync::Arc<dyn Env> = disk.env();
    disk.make_durable_dir(Path::new("/db")).unwrap();
    let (path, temporary) = (Path::new("/db/000009.blob"), Path::new("/db/1.dbtmp"));
    write_file_atomically(&*env, path, temporary, bytes, FileKind::Blob).unwrap();
    BlobFiles::new(env, Path::new("/db"), false, siltstone_base::sync::Arc::clone(metrics))
}

#[test]
fn values_are_read_stored_and_compressed() {
    let mut bytes = header(1, 0, CompressionType::None);
    let a = add(&mut bytes, b"a", b"value of a", CompressionType::None);
    let empty = add(&mut bytes, b"", b"", CompressionType::None);
    let files = files(&bytes);
    assert_eq!(files.value(b"a", &a).unwrap(), b"value of a");
    assert_eq!(files.value(b"", &empty).unwrap(), b"");
    assert_eq!(files.value(b"b", &a).unwrap_err().kind(), ErrorKind::Corruption);
    files.forget(9);
    assert_eq!(files.value(b"a", &a).unwrap(), b"value of a");

    let codec = CompressionType::Lz4;
    let value = b"abcdefgh".repeat(500);
    let mut stored = Vec::new();
    Compressor::new(codec, 0).unwrap().compress(&value, &mut stored).unwrap();
    let mut bytes = header(1, 0, codec);
    let reference = add(&mut bytes, b"key", &stored, codec);
    assert_eq!(self::files(&bytes).value(b"key", &reference).unwrap(), value);
    assert_eq!(BlobReference::decode(&reference).unwrap().record_len(b"key"), 3 + stored.len() as u64 + 32);
}

#[test]
fn every_flipped_byte_and_every_length_is_noticed() {
    let mut bytes = header(1, 0, CompressionType::None);
    let reference = add(&mut bytes, b"key", b"value", CompressionType::None);
    for at in (0..8).chain(12..14).chain(HEADER_LEN as usize..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x21;
        files(&damaged).value(b"key", &reference).unwrap_err();
    }
    for len in 0..bytes.len() {
        assert_eq!(files(&bytes[..len]).value(b"key", &reference).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// What a file ends with that has `count` records.
fn footer(count: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend(count.to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend(mask_crc(crc32c(&bytes)).to_le_bytes());
    assert_eq!(bytes.len(), verify::FOOTER_LEN);
    bytes
}

fn verified(bytes: &[u8], count: u64, len: u64) -> siltstone_base::Result<()> {
    files(bytes).verify(9, count, len, IoContext::new(FileKind::Blob, IoPriority::Low))
}

#[test]
fn a_whole_file_is_verified_whoever_refers_to_it() {
    let mut bytes = header(1, 0, CompressionType::None);
    add(&mut bytes, b"a", b"value", CompressionType::None);
    add(&mut bytes, b"", b"", CompressionType::None);
    // Longer than what is read at a time, so that records and the footer lie across its borders.
    add(&mut bytes, b"long", &vec![7; 2_100_000], CompressionType::None);
    let len = bytes.len() as u64 - HEADER_LEN;
    bytes.extend(footer(3));
    verified(&bytes, 3, len).unwrap();

    let refused = |bytes: &[u8], count, len| {
        let error = verified(bytes, count, len).unwrap_err();
        assert_eq!(error.file(), Some(Path::new("/db/000009.blob")), "{error}");
        error.kind()
    };
    for (count, len) in [(2, len), (3, len - 1), (4, len), (0, 0)] {
        assert_eq!(refused(&bytes, count, len), ErrorKind::Corruption, "{count} records of {len} bytes");
    }
    assert_eq!(refused(&[&bytes[..], b"x"].concat(), 3, len), ErrorKind::Corruption, "something follows");
    let of_records = |len: usize| HEADER_LEN as usize..HEADER_LEN as usize + len;
    for at in of_records(150).step_by(7).chain((0..32).map(|back| bytes.len() - 1 - back)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x21;
        assert_eq!(refused(&damaged, 3, len), ErrorKind::Corruption, "byte {at}");
    }
    for cut in [1, 31, 32, 33, 1_000_000, 2_099_999, bytes.len() - 31] {
        assert_eq!(refused(&bytes[..bytes.len() - cut], 3, len), ErrorKind::Corruption, "{cut} bytes are missing");
    }
    // A length that was made up together with its checksum.
    let mut huge = bytes.clone();
    let start = HEADER_LEN as usize;
    huge[start..start + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let crc = mask_crc(crc32c(&huge[start..start + 24]));
    huge[start + 24..start + 28].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(refused(&huge, 3, len), ErrorKind::Corruption);
}

#[test]
fn references_that_lead_elsewhere_are_corruption() {
    let mut bytes = header(1, 0, CompressionType::None);
    let good = add(&mut bytes, b"key", b"value", CompressionType::None);
    let good = BlobReference::decode(&good).unwrap();
    let files = files(&bytes);
    let encode = |reference: BlobReference| {
        let mut stored = vec![1];
        for number in [reference.file_number, reference.offset, reference.size] {
            put_varint64(&mut stored, number);
        }
        stored.push(reference.compression as u8);
        stored
    };
    let kind = |reference: BlobReference| files.value(b"key", &encode(reference)).unwrap_err().kind();
    assert_eq!(files.value(b"key", &encode(good)).unwrap(), b"value");
    for offset in [0, 1, RECORD_HEADER_LEN, good.offset - 1, good.offset + 1, u64::MAX] {
        assert_eq!(kind(BlobReference { offset, ..good }), ErrorKind::Corruption, "{offset}");
    }
    for size in [0, 4, 6, 1 << 40, u64::MAX] {
        assert_eq!(kind(BlobReference { size, ..good }), ErrorKind::Corruption, "{size}");
    }
    assert_eq!(kind(BlobReference { compression: CompressionType::Zstd, ..good }), ErrorKind::Corruption);
    assert_eq!(kind(BlobReference { file_number: 8, ..good }), ErrorKind::MissingFile);
}

#[test]
fn kinds_that_are_not_read_are_refused_by_name() {
    let refused = |stored: &[u8]| {
        let error = BlobReference::decode(stored).unwrap_err();
        (error.kind(), error.message().to_owned())
    };
    let named = |message: &str| (ErrorKind::NotSupported, message.to_owned());
    assert_eq!(refused(b"\x00\x05value"), named("inlined blobs with an expiry time"));
    assert_eq!(refused(b"\x02\x05\x09\x22\x05\x00"), named("blobs with an expiry time"));
    assert_eq!(refused(b"\x01\x00\x22\x05\x00"), named("blobs within tables"));
    for stored in
        [&b""[..], b"\x01", b"\x01\x09\x22\x05", b"\x01\x09\x22\x05\x00\x00", b"\x01\x09\x22\x05\x99", b"\x03"]
    {
        assert_eq!(refused(stored).0, ErrorKind::Corruption, "{stored:?}");
    }
    for (version, flags) in [(2, 0), (1, 1)] {
        let mut bytes = header(version, flags, CompressionType::None);
        let reference = add(&mut bytes, b"key", b"value", CompressionType::None);
        assert_eq!(files(&bytes).value(b"key", &reference).unwrap_err().kind(), ErrorKind::NotSupported);
    }
}

#[test]
fn bytes_that_are_read_for_values_in_blob_files_are_counted() {
    let mut bytes = header(1, 0, CompressionType::None);
    let a = add(&mut bytes, b"a", b"value of a", CompressionType::None);
    let metrics = siltstone_base::sync::Arc::new(crate::metrics::Metrics::new());
    let files = counted_files(&bytes, &metrics);
    files.value(b"a", &a).unwrap();
    assert_eq!(metrics.get(crate::Counter::BlobFileBytesRead), 32 + 1 + 10);
    files.value(b"b", &a).unwrap_err();
    assert_eq!(metrics.get(crate::Counter::BlobFileBytesRead), 32 + 1 + 10, "what failed is not counted");
}
